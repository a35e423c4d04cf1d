package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"corenode/bench/report"
)

// Verdict is what a difference means.
type Verdict string

// Noise is a difference that repeats of the same would show too; Unknown one of
// which that cannot be said; Differs one of a metric of which no direction is better.
const (
	Better  Verdict = "better"
	Worse   Verdict = "worse"
	Same    Verdict = "same"
	Differs Verdict = "differs"
	Noise   Verdict = "within noise"
	Unknown Verdict = "noise unknown"
)

// Difference is one metric of two files.
type Difference struct {
	Metric Metric
	A, B   report.Spread
	Ratio  float64 // of the medians, B to A; +Inf when only A is 0
	// Low and High hold the ratio by its noise, 0 when that is not known.
	Low, High float64
	Verdict   Verdict
}

// Compare judges every metric that both files have. With several runs that have it in both,
// noise is the range of the runs; else it is estimated from pieces of the runs.
func Compare(a, b File) (list []Difference) {
	for _, m := range Metrics() {
		va, inA := a.Metrics[m.Name]
		vb, inB := b.Metrics[m.Name]
		if !inA || !inB {
			continue
		}
		d := Difference{Metric: m, A: va, B: vb, Ratio: ratio(va.Median, vb.Median)}
		known := false
		if m.runs(a) > 1 && m.runs(b) > 1 {
			d.Low, d.High, known = ratio(va.Max, vb.Min), ratio(va.Min, vb.Max), true
		} else {
			d.Low, d.High, known = spreadOfRatio(m, a.Runs, b.Runs)
		}
		d.Verdict = judge(d, known)
		list = append(list, d)
	}
	return list
}

// runs is how many runs of a file have the metric.
func (m Metric) runs(f File) (n int) {
	for i := range f.Runs {
		if _, ok := m.of(&f.Runs[i]); ok {
			n++
		}
	}
	return n
}

func ratio(a, b float64) float64 {
	switch {
	case a == b:
		return 1
	case a == 0:
		return math.Inf(1)
	}
	return b / a
}

func judge(d Difference, known bool) Verdict {
	switch {
	case d.Ratio == 1:
		return Same
	case !known:
		return Unknown
	case d.Low <= 1 && d.High >= 1:
		return Noise
	case d.Metric.Neutral:
		return Differs
	case d.Metric.Lower == (d.Ratio < 1):
		return Better
	}
	return Worse
}

// chanceMax is how likely ranges of equal loads may be apart so that it is no matter.
const chanceMax = 0.05

// apart is the chance that the ranges of n and m runs of equal loads do not meet:
// two of all orders, those in which one load's runs all come first.
func apart(n, m int) float64 {
	orders := 1.0
	for i := 1; i <= m; i++ {
		orders *= float64(n+i) / float64(i)
	}
	return 2 / orders
}

// Warnings says what makes two files hard to compare. Where the server is, the
// seed and how words were counted may differ.
func Warnings(a, b File) (list []string) {
	list = append(fewRuns(a, b), stopped("A", a)...)
	list = append(append(list, stopped("B", b)...), lengthsDiffer(a, b)...)
	ca, cb := members(a.Conditions), members(b.Conditions)
	for _, may := range []string{"url", "seed", "tokens_per_word", "template_tokens", "calibrated"} {
		delete(ca, may)
		delete(cb, may)
	}
	all := maps.Clone(ca)
	maps.Copy(all, cb)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if va, vb := string(ca[name]), string(cb[name]); va != vb {
			list = append(list, fmt.Sprintf("%s differs: %s and %s", name, cmp.Or(va, "none"), cmp.Or(vb, "none")))
		}
	}
	if ha, hb := a.Host, b.Host; ha.Processor != hb.Processor || ha.Processors != hb.Processors {
		list = append(list, fmt.Sprintf("the machines differ: %s (%d) and %s (%d)", ha.Processor, ha.Processors,
			hb.Processor, hb.Processors))
	}
	return list
}

// fewRuns warns of ranges that are apart by chance, once for each two numbers of runs that metrics have.
func fewRuns(a, b File) (list []string) {
	for _, metric := range Metrics() {
		n, m := metric.runs(a), metric.runs(b)
		if n < 2 || m < 2 || apart(n, m) <= chanceMax {
			continue
		}
		text := fmt.Sprintf("the ranges of %d and %d runs of equal loads do not meet in %.0f %% of all cases: four runs of each say more",
			n, m, 100*apart(n, m))
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// lengthWithin is how far apart the lengths of two loads may be: beyond it they are a reason for other times and rates.
const lengthWithin = 0.02

// lengthsDiffer warns of loads that asked or were answered more than each other: who stops early is sooner done.
func lengthsDiffer(a, b File) (list []string) {
	for _, l := range [][2]string{{InputLength, "prompts"}, {OutputLength, "answers"}} {
		va, vb := a.Metrics[l[0]].Median, b.Metrics[l[0]].Median
		if va > 0 && vb > 0 && max(va, vb)/min(va, vb) > 1+lengthWithin {
			list = append(list, fmt.Sprintf("%s differ in length: %s and %s tokens on average", l[1], report.Number(va), report.Number(vb)))
		}
	}
	return list
}

// stopped warns of runs that were interrupted: what they have is of a shorter load.
func stopped(name string, f File) []string {
	n := 0
	for i := range f.Runs {
		if f.Runs[i].Stopped {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s: 1 of %d runs was stopped before its end", name, len(f.Runs))}
	}
	return []string{fmt.Sprintf("%s: %d of %d runs were stopped before their end", name, n, len(f.Runs))}
}

func members(c Conditions) (m map[string]json.RawMessage) {
	b, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		panic(fmt.Sprintf("result: conditions are not JSON: %v", err))
	}
	return m
}

// PrintComparison writes a table of b against a.
func PrintComparison(w io.Writer, list []Difference) error {
	rows := make([][]string, len(list))
	for i, d := range list {
		better := "higher"
		if d.Metric.Lower {
			better = "lower"
		}
		if d.Metric.Neutral {
			better = "-"
		}
		noise := ""
		if d.Low != 0 || d.High != 0 {
			noise = report.Number(d.Low) + "-" + report.Number(d.High)
		}
		rows[i] = []string{d.Metric.Name, d.A.String(), d.B.String(), report.Number(d.Ratio), noise, better, string(d.Verdict)}
	}
	return report.Table(w, []string{"METRIC", "A", "B", "B/A", "RANGE", "BETTER IS", "VERDICT"}, rows)
}

// Threshold fails a comparison by a ratio, B to A.
type Threshold struct {
	Metric string
	Op     string
	Bound  float64
}

// ParseThreshold reads "ttft_p99>1.1", with >, >=, < or <=.
func ParseThreshold(text string) (Threshold, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Threshold{}, fmt.Errorf("threshold %q: want METRIC>RATIO or METRIC<RATIO", text)
	}
	op, rest := text[at:at+1], text[at+1:]
	if tail, ok := strings.CutPrefix(rest, "="); ok {
		op, rest = op+"=", tail
	}
	m, ok := findMetric(strings.TrimSpace(text[:at]))
	if !ok {
		return Threshold{}, fmt.Errorf("threshold %q: there is no metric of that name", text)
	}
	bound, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(bound) {
		return Threshold{}, fmt.Errorf("threshold %q: want a number behind %s", text, op)
	}
	return Threshold{m.Name, op, bound}, nil
}

// Crossed says whether the comparison fails by the threshold; a metric that one
// file lacks fails too.
func (t Threshold) Crossed(list []Difference) (crossed bool, why string) {
	i := slices.IndexFunc(list, func(d Difference) bool { return d.Metric.Name == t.Metric })
	if i < 0 {
		return true, t.Metric + " is not in both files"
	}
	r := list[i].Ratio
	switch t.Op {
	case ">":
		crossed = r > t.Bound
	case ">=":
		crossed = r >= t.Bound
	case "<":
		crossed = r < t.Bound
	case "<=":
		crossed = r <= t.Bound
	}
	return crossed, fmt.Sprintf("%s is %s times A's, which is %s %v (%s)", t.Metric, report.Number(r), t.Op, t.Bound, list[i].Verdict)
}
