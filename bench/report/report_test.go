package report

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSpread(t *testing.T) {
	cases := []struct {
		in   []float64
		want Spread
		text string
	}{
		{nil, Spread{}, "0"},
		{[]float64{7}, Spread{7, 7, 7}, "7.00"},
		{[]float64{3, 1, 2}, Spread{1, 2, 3}, "2.00 (1.00-3.00)"},
		{[]float64{4, 1, 2, 3}, Spread{1, 2.5, 4}, "2.50 (1.00-4.00)"},
		{[]float64{-1, 1}, Spread{-1, 0, 1}, "0 (-1.00-1.00)"},
	}
	for _, c := range cases {
		before := slices.Clone(c.in)
		if got := SpreadOf(c.in); got != c.want || got.String() != c.text {
			t.Errorf("%v: %+v %q, want %+v %q", c.in, got, got, c.want, c.text)
		}
		if !slices.Equal(before, c.in) {
			t.Errorf("%v became %v", before, c.in)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.01234: "0.012", 0.9949: "0.995", 0.996: "1.00", 9.994: "9.99", 9.996: "10.0",
		-12.34: "-12.3", 99.96: "100", 1234.5: "1234", math.Inf(1): "+Inf",
	} {
		if got := Number(in); got != want {
			t.Errorf("%v: %s, want %s", in, got, want)
		}
	}
}

func TestTableAligns(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, []string{"a", "long", "c"}, [][]string{{"wide", "x", "y"}, {"z"}}); err != nil {
		t.Fatal(err)
	}
	if want := "a     long  c\nwide  x     y\nz\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
