package page

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"math"
)

// library is Chart.js 4.5.1, MIT, as released on npm (chartjs/LICENSE.md).
//
//go:embed chartjs/chart.umd.min.js
var library string

// kind says how a series is drawn.
type kind string

// A line breaks where a value is NaN, dots are single, steps are the columns of
// a histogram from each X to the next, an area is a line with what is below it filled.
const (
	line  kind = "line"
	dots  kind = "dots"
	steps kind = "steps"
	area  kind = "area"
)

// series is one set of values of a chart.
type series struct {
	Name  string
	Kind  kind
	Color int // number of the style's variables --s0, --s1, ...
	X, Y  numbers
}

// mark is a value on the X axis with a line and a name.
type mark struct {
	X    float64
	Name string
}

// chart is one plot, as the page's script reads it.
type chart struct {
	Title, XName, YName string
	// LogX and LogY ask for logarithmic axes; one whose values are close together
	// is straight all the same.
	LogX, LogY bool
	Series     []series
	Marks      []mark
	// Window, if its end is above 0, is the part of the X axis that counts; what
	// is before and behind it is shaded.
	Window [2]float64
	// XMax, if not 0, is the axis' end whatever the values.
	XMax float64
}

// numbers are written with null for NaN, which JSON does not have.
type numbers []float64

// MarshalJSON returns a JSON array.
func (n numbers) MarshalJSON() ([]byte, error) {
	list := make([]*float64, len(n))
	for i := range n {
		if !math.IsNaN(n[i]) {
			list[i] = &n[i]
		}
	}
	return json.Marshal(list)
}

// empty says that there is nothing to draw.
func (c *chart) empty() bool {
	for _, s := range c.Series {
		for _, y := range s.Y {
			if !math.IsNaN(y) {
				return false
			}
		}
	}
	return true
}

// logFrom is the ratio of the ends from which a logarithmic axis shows more than
// a straight one.
const logFrom = 8

// wide says whether values that are above 0 are far enough apart for a logarithmic axis.
func (c *chart) wide(of func(series) numbers) bool {
	low, high := math.Inf(1), 0.0
	for _, s := range c.Series {
		for _, v := range of(s) {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return high > low*logFrom
}

// data is the chart for the page's script. It cannot end the script that it stands in.
func (c chart) data() (template.JS, error) {
	c.LogX = c.LogX && c.wide(func(s series) numbers { return s.X })
	c.LogY = c.LogY && c.wide(func(s series) numbers { return s.Y })
	b, err := json.Marshal(c) // escapes <, > and &
	return template.JS(b), err
}
