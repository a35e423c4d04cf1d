package plot

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	cases := []struct {
		s     scale
		about int
		want  []float64
	}{
		{scale{low: 0, high: 10}, 5, []float64{0, 2, 4, 6, 8, 10}},
		{scale{low: 0, high: 0.9}, 5, []float64{0, 0.2, 0.4, 0.6, 0.8}},
		{scale{low: -5, high: 5}, 4, []float64{-5, 0, 5}},
		{scale{low: 3, high: 3}, 5, []float64{3}},
		{scale{low: 1, high: 100, log: true}, 5, []float64{1, 2, 5, 10, 20, 50, 100}},
		{scale{low: 0.001, high: 1000, log: true}, 4, []float64{0.01, 1, 100}},
	}
	for _, c := range cases {
		got := c.s.ticks(c.about)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
	for in, want := range map[float64]string{0: "0", 0.001: "0.001", 1.5: "1.5", 5000: "5000", 20000: "20k", 2.5e6: "2.5M", math.Copysign(0, -1) + 0: "0"} {
		if got := label(in); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	linear, log := scale{0, 10, 100, 200, false}, scale{1, 100, 0, 50, true}
	for in, want := range map[float64]float64{0: 100, 5: 150, 10: 200, -3: 100, 12: 200} {
		if got := linear.at(in); got != want {
			t.Errorf("%v at %v, want %v", in, got, want)
		}
	}
	for in, want := range map[float64]float64{1: 0, 10: 25, 100: 50, 0: 0, 1e6: 50} {
		if got := log.at(in); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v at %v, want %v", in, got, want)
		}
	}
}

// counted parses markup and counts its elements by their classes.
func counted(t *testing.T, svg string) map[string]int {
	seen, in := map[string]int{}, xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return seen
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s %s=%q", e.Name.Local, a.Name.Local, a.Value)
				}
				if a.Name.Local == "class" {
					seen["."+a.Value]++
				}
			}
		}
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	nan := math.NaN()
	c := Chart{Title: `a <b> & "c"`, XName: "s", YName: "<ms>", LogY: true, Window: [2]float64{2, 6}, Marks: []Mark{{3, "<here>"}, {7.9, "end"}}, XMax: 8, Series: []Series{
		{Name: "line", Kind: Line, Color: 1, X: []float64{0, 1, 2, 3, 4}, Y: []float64{1, nan, 10, 1000, nan}},
		{Name: "area", Kind: Area, Color: 2, X: []float64{0, 1, 2}, Y: []float64{5, 6, 0}},
		{Name: "dots", Kind: Dots, Color: 0, X: []float64{1, 2, 3}, Y: []float64{3, nan, 4}},
		{Name: "bars", Kind: Bars, Color: 3, X: []float64{0, 1}, X2: []float64{1, 2}, Y: []float64{3, 4}},
	}}
	seen := counted(t, string(c.SVG()))
	// The line has a part of one point, and one of two.
	for what, want := range map[string]int{".line s1": 1, ".point s1": 1, ".line s2": 1, ".area s2": 1, ".dots s0": 1, ".bars s3": 1, ".shade": 2, ".mark": 2, ".cursor": 1, "circle": 3} {
		if seen[what] != want {
			t.Errorf("%d %s, want %d", seen[what], what, want)
		}
	}
	var rows []struct {
		At float64
		T  []string
	}
	if err := json.Unmarshal([]byte(c.Data()), &rows); err != nil || len(rows) == 0 || strings.Contains(string(c.Data()), "<") {
		t.Errorf("%v: %s", err, c.Data())
	}
}

func TestChartsOfNothing(t *testing.T) {
	for _, c := range []Chart{{}, {Series: []Series{{X: []float64{1}, Y: []float64{math.NaN()}}}}} {
		if !c.Empty() {
			t.Errorf("%+v is not empty", c)
		}
		counted(t, string(c.SVG()))
	}
	one := Chart{LogX: true, LogY: true, Series: []Series{{X: []float64{1}, Y: []float64{0}}}}
	if one.Empty() {
		t.Error("a zero is something")
	}
	counted(t, string(one.SVG()))
}
