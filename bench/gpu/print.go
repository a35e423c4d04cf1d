package gpu

import (
	"fmt"
	"io"
	"strconv"

	"corenode/bench/report"
	"corenode/bench/result"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	for _, line := range r.lead() {
		fmt.Fprintln(w, line)
	}
	for _, t := range r.Tables() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		if err := report.Table(w, t.Headings, t.Rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if what := r.gateless(); what != "" {
		_, err := fmt.Fprintln(w, "no gate applies to "+what)
		return err
	}
	return r.Gates.Print(w)
}

// lead is what a reader has to know first.
func (r Report) lead() []string {
	o := r.Options
	kind := r.Device
	if o.Interpret {
		kind += ", interpreted: times mean nothing"
	}
	return []string{
		fmt.Sprintf("%s; %s, %s", r.Started, kind, r.Host),
		fmt.Sprintf("%d layers of %d, %d experts of %d, %s: %s GB of weights, loaded in %s s", o.Layers, o.Hidden, o.Experts, o.Width,
			o.Type, report.Number(float64(r.Weights.Total)/1e9), report.Number(r.LoadS)),
		fmt.Sprintf("ceilings: copy %s GB/s read and written, product %s TFLOP/s (our own %s)", report.Number(r.CopyGBs),
			report.Number(r.TFLOPS), report.Number(r.Own)),
	}
}

// kernelsShown is how many kernels of a cell are printed; the JSON has all.
const kernelsShown = 12

// Tables are the cells, and of each its kernels.
func (r Report) Tables() []result.Table {
	cells := result.Table{Title: "Cells: median of the steps (min-max), beside the floor of the bytes or of the arithmetic",
		Headings: []string{"CELL", "MS", "TOKENS/S", "EXPERTS HIT", "GB OR TFLOP", "FLOOR MS", "SHARE"}}
	all := []result.Table{}
	for _, c := range r.Cells {
		if c.Skipped != "" {
			cells.Rows = append(cells.Rows, []string{c.Name, c.Skipped, "", "", "", "", ""})
			continue
		}
		amount := c.TFLOP
		if c.Bytes != nil {
			amount = float64(c.Bytes.Sum()) / 1e9
		}
		cells.Rows = append(cells.Rows, []string{c.Name, c.Milliseconds.String(), report.Number(c.TokensPerS), report.Number(c.ExpertsHit),
			report.Number(amount), report.Number(c.Floor), report.Number(c.Share)})
		t := result.Table{Title: "Kernels of " + c.Name, Headings: []string{"KERNEL", "LAUNCHES", "MS", "SHARE"}}
		for i, k := range c.Kernels {
			if i == kernelsShown {
				break
			}
			t.Rows = append(t.Rows, []string{k.Name, strconv.Itoa(k.Launches), report.Number(k.Milliseconds), report.Number(k.Share)})
		}
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return append(append(append(r.served(), r.tuned()...), cells), all...)
}

// tuned is the table of launch shapes, where they were tried.
func (r Report) tuned() []result.Table {
	if len(r.Tuned) == 0 {
		return nil
	}
	t := result.Table{Title: "Launch shapes: time beside the first way of each", Headings: []string{"WHAT", "VALUE", "RATIO", "MS", ""}}
	for _, one := range r.Tuned {
		row := []string{one.What, one.Value, report.Number(one.Ratio), fmt.Sprintf("%.3f", one.Milliseconds), ""}
		if one.Best {
			row[4] = "best"
		}
		if one.Skipped != "" {
			row[2], row[3] = one.Skipped, ""
		}
		t.Rows = append(t.Rows, row)
	}
	return []result.Table{t}
}

// served is the table of the node, where it was measured.
func (r Report) served() []result.Table {
	if len(r.Served) == 0 {
		return nil
	}
	t := result.Table{Title: "The node over HTTP while all streams ran, beside a bare loop of as many sequences",
		Headings: []string{"STREAMS", "PROMPT", "TOKENS", "BARE TOKENS/S", "TOKENS/S", "SHARE", "WINDOW S", "GAP MS P50", "P99", "TTFT MS"}}
	for _, s := range r.Served {
		row := []string{strconv.Itoa(s.Streams), strconv.Itoa(s.Prompt), strconv.Itoa(s.Tokens), report.Number(s.Bare)}
		if s.Skipped != "" {
			row = append(row, s.Skipped, "", "", "", "", "")
		} else {
			row = append(row, report.Number(s.TokensPerS), report.Number(s.Share), report.Number(s.Window), report.Number(s.GapP50),
				report.Number(s.GapP99), s.FirstMS.String())
		}
		t.Rows = append(t.Rows, row)
	}
	return []result.Table{t}
}
