// Package page makes the page that shows a result: one HTML file that needs
// nothing else, drawn for light and dark screens and for paper. Pure: a result
// in, markup out.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"corenode/bench/report"
	"corenode/bench/result"
)

//go:embed page.html
var source string

var layout = template.Must(template.New("page").Parse(source))

// content is what the layout shows.
type content struct {
	Title    string
	Lead     []string
	Tiles    []tile
	Sections []section
	Tables   []result.Table
	Notes    []string
	Library  template.JS
}

type tile struct{ Name, Value, Note string }

type section struct {
	Title  string
	Charts []figure
}

type figure struct {
	Title string
	Data  template.JS
}

func (c content) write(w io.Writer) error {
	c.Library = template.JS(library)
	if err := layout.Execute(w, c); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// figures are the charts that have something to show.
func figures(charts ...chart) (list []figure) {
	for _, c := range charts {
		if c.empty() {
			continue
		}
		data, err := c.data()
		if err != nil { // a number that JSON does not have: an infinity
			panic(fmt.Sprintf("page: chart %s: %v", c.Title, err))
		}
		list = append(list, figure{c.Title, data})
	}
	return list
}

// Load writes the page of one load.
func Load(w io.Writer, f result.File) error {
	c := content{
		Title:  "Load on " + f.Conditions.Model + ", " + f.Conditions.Protocol,
		Lead:   append([]string{f.Conditions.URL + ", " + f.Runs[0].Started}, f.Conditions.Lines()...),
		Tiles:  tiles(&f),
		Tables: tables(&f),
		Notes:  f.Notes,
	}
	for i := range f.Runs {
		s := section{Charts: figures(charts(&f.Runs[i])...)}
		if len(f.Runs) > 1 {
			s.Title = fmt.Sprintf("Run %d of %d, seed %d", i+1, len(f.Runs), f.Runs[i].Seed)
		}
		c.Sections = append(c.Sections, s)
	}
	return c.write(w)
}

func tiles(f *result.File) (list []tile) {
	add := func(name, metric, unit string) {
		s, ok := f.Metrics[metric]
		if !ok {
			return
		}
		t := tile{Name: name, Value: report.Number(s.Median) + unit}
		if s.Min != s.Max {
			t.Note = report.Number(s.Min) + " to " + report.Number(s.Max)
		}
		list = append(list, t)
	}
	for _, m := range [][3]string{{"TTFT p50", "ttft_p50", " ms"}, {"TTFT p99", "ttft_p99", " ms"}, {"ITL p50", "itl_p50", " ms"},
		{"ITL p99", "itl_p99", " ms"}, {"end to end p50", "e2e_p50", " ms"}, {"end to end p99", "e2e_p99", " ms"},
		{"output tokens/s", "output_tokens_per_s"}, {"requests/s", "requests_per_s"}} {
		add(m[0], m[1], m[2])
	}
	if len(f.Conditions.Objectives) > 0 {
		add("goodput/s", "goodput_per_s", "")
	}
	if s, ok := f.Metrics["failed_share"]; ok {
		list = append(list, tile{Name: "failed or not sent", Value: report.Number(100*s.Median) + " %"})
	}
	return list
}

func tables(f *result.File) []result.Table {
	return append(f.Tables(), conditionsTable("Conditions", f))
}

func conditionsTable(title string, f *result.File) result.Table {
	return result.Table{Title: title, Headings: []string{"What", "Value"}, Rows: conditions(f), Text: true}
}

func conditions(f *result.File) [][]string {
	c := &f.Conditions
	counted := "as given"
	if c.Calibrated {
		counted = "as the server counts"
	}
	rows := [][]string{
		{"server", c.URL}, {"protocol", c.Protocol}, {"model", c.Model}, {"load", c.Lines()[0]}, {"workload", c.Lines()[1]},
		{"words", fmt.Sprintf("%s tokens each, %s around a prompt (%s)", report.Number(c.TokensPerWord),
			report.Number(c.TemplateTokens), counted)},
		{"timeout", report.Number(c.TimeoutS) + " s"},
	}
	if len(c.Objectives) > 0 {
		rows = append(rows, []string{"objectives", strings.Join(c.Objectives, ", ")})
	}
	return append(rows, []string{"harness on", f.Host.String()},
		[]string{"layout", result.Schema})
}
