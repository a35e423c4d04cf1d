// Package plot draws charts as SVG: pure, from numbers to markup, with colours
// left to the classes of the page around it (s0, s1 and so on).
package plot

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Kind says how a series is drawn.
type Kind int

// Line joins points and breaks where a value is NaN, Dots are single, Bars
// stand on the axis from X to X2, Area is a line with what is below it filled.
const (
	Line Kind = iota
	Dots
	Bars
	Area
)

// Series is one set of values.
type Series struct {
	Name  string
	Kind  Kind
	Color int // class s0, s1, ...
	X, Y  []float64
	X2    []float64 // of bars, their right edges
}

// Mark is a value on the X axis with a line and a name.
type Mark struct {
	X    float64
	Name string
}

// Chart is one plot.
type Chart struct {
	Title, XName, YName string
	// LogX and LogY ask for logarithmic axes; one whose values are close together
	// is straight all the same.
	LogX, LogY bool
	Series     []Series
	Marks      []Mark
	// Window, if its end is above 0, is the part of the X axis that counts; what
	// is before and behind it is shaded.
	Window [2]float64
	// XMax, if not 0, is the axis' end whatever the values.
	XMax float64
}

// Size of the drawing, and of the room around it, in its own units.
const (
	width, height            = 640.0, 260.0
	left, right, top, bottom = 56.0, 12.0, 14.0, 38.0
)

// Empty says that there is nothing to draw.
func (c Chart) Empty() bool {
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

// limits finds the ends of an axis from its values.
func limits(wanted bool, each func(func(float64))) (low, high float64, log bool) {
	log = wanted
	low, high = math.Inf(1), math.Inf(-1)
	each(func(v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			return
		}
		low, high = min(low, v), max(high, v)
	})
	if low > high {
		return 0, 1, false
	}
	if log = log && high > low*logFrom; !log {
		low = min(low, 0)
		if high == low {
			high = low + 1
		}
	}
	return low, high, log
}

func (c Chart) scales() (x, y scale) {
	xLow, xHigh, xLog := limits(c.LogX, func(see func(float64)) {
		for _, s := range c.Series {
			for _, v := range append(append([]float64(nil), s.X...), s.X2...) {
				see(v)
			}
		}
	})
	if c.XMax > 0 {
		xHigh = c.XMax
	}
	yLow, yHigh, yLog := limits(c.LogY, func(see func(float64)) {
		for _, s := range c.Series {
			for _, v := range s.Y {
				see(v)
			}
		}
	})
	if !yLog {
		yHigh *= 1.05
	}
	return scale{xLow, xHigh, left, width - right, xLog}, scale{yLow, yHigh, height - bottom, top, yLog}
}

// SVG draws the chart. Names are escaped, numbers are our own.
func (c Chart) SVG() template.HTML {
	x, y := c.scales()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.Title))
	if c.Window[1] > 0 {
		shade(&b, left, x.at(c.Window[0]))
		shade(&b, x.at(c.Window[1]), width-right)
	}
	c.axes(&b, x, y)
	for _, s := range c.Series {
		s.draw(&b, x, y)
	}
	for i, m := range c.Marks {
		at := x.at(m.X)
		anchor, off := "start", 3.0
		if at > width-right-80 {
			anchor, off = "end", -3
		}
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="marked" x="%.1f" y="%g" text-anchor="%s">%s</text>`,
			at, at, top, height-bottom, at+off, top+8+11*float64(i), anchor, html.EscapeString(m.Name))
	}
	fmt.Fprintf(&b, `<line class="cursor" x1="0" x2="0" y1="%g" y2="%g"/></svg>`, top, height-bottom)
	return template.HTML(b.String())
}

func shade(b *strings.Builder, from, to float64) {
	if to > from {
		fmt.Fprintf(b, `<rect class="shade" x="%.1f" y="%g" width="%.1f" height="%g"><title>outside of the window</title></rect>`,
			from, top, to-from, height-top-bottom)
	}
}

func (c Chart) axes(b *strings.Builder, x, y scale) {
	for _, v := range y.ticks(5) {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, width-right, at, at, left-6, at+3.5, label(v))
	}
	for _, v := range x.ticks(8) {
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="tick" x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x.at(v), x.at(v), height-bottom, height-bottom+4, x.at(v), height-bottom+16, label(v))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`, left, width-right, height-bottom, height-bottom)
	fmt.Fprintf(b, `<text class="name" x="%g" y="%g" text-anchor="middle">%s</text>`, (left+width-right)/2, height-4, html.EscapeString(c.XName))
	fmt.Fprintf(b, `<text class="name" transform="translate(12 %g) rotate(-90)" text-anchor="middle">%s</text>`, (top+height-bottom)/2, html.EscapeString(c.YName))
}

func (s Series) draw(b *strings.Builder, x, y scale) {
	switch s.Kind {
	case Dots:
		size := 1.8
		if len(s.X) < 200 {
			size = 3 // few points are hard to see
		}
		fmt.Fprintf(b, `<g class="dots s%d">`, s.Color)
		for i := range s.X {
			if !math.IsNaN(s.Y[i]) {
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%g"/>`, x.at(s.X[i]), y.at(s.Y[i]), size)
			}
		}
		b.WriteString("</g>")
	case Bars:
		fmt.Fprintf(b, `<g class="bars s%d">`, s.Color)
		for i := range s.X {
			from, to, high := x.at(s.X[i]), x.at(s.X2[i]), y.at(s.Y[i])
			fmt.Fprintf(b, `<rect x="%.2f" y="%.1f" width="%.2f" height="%.1f"/>`, from, high, max(to-from-0.7, 0.7), max(height-bottom-high, 0))
		}
		b.WriteString("</g>")
	case Line, Area:
		for _, part := range s.parts() {
			s.drawPart(b, part[0], part[1], x, y)
		}
	}
}

// parts are the stretches without NaN, as index ranges.
func (s Series) parts() (parts [][2]int) {
	begin := -1
	for i := 0; i <= len(s.Y); i++ {
		if i < len(s.Y) && !math.IsNaN(s.Y[i]) {
			if begin < 0 {
				begin = i
			}
		} else if begin >= 0 {
			parts = append(parts, [2]int{begin, i})
			begin = -1
		}
	}
	return parts
}

func (s Series) drawPart(b *strings.Builder, from, to int, x, y scale) {
	if to-from == 1 { // a line of one point is a dot
		fmt.Fprintf(b, `<circle class="point s%d" cx="%.1f" cy="%.1f" r="2.5"/>`, s.Color, x.at(s.X[from]), y.at(s.Y[from]))
		return
	}
	var path strings.Builder
	for i := from; i < to; i++ {
		letter := "L"
		if i == from {
			letter = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", letter, x.at(s.X[i]), y.at(s.Y[i]))
	}
	if s.Kind == Area {
		fmt.Fprintf(b, `<path class="area s%d" d="%sL%.1f %gL%.1f %gZ"/>`, s.Color, path.String(), x.at(s.X[to-1]), height-bottom, x.at(s.X[from]), height-bottom)
	}
	fmt.Fprintf(b, `<path class="line s%d" d="%s"/>`, s.Color, path.String())
}

// Data is what the page's script needs to show values under the pointer: the
// lines and bars, each point with its place.
func (c Chart) Data() template.JS {
	x, _ := c.scales()
	type row struct {
		At    float64  `json:"at"` // place, in the drawing's units
		Texts []string `json:"t"`
	}
	rows := map[float64]int{}
	list := []row{}
	for _, s := range c.Series {
		if s.Kind == Dots {
			continue
		}
		for i := range s.X {
			if math.IsNaN(s.Y[i]) {
				continue
			}
			value, head := s.X[i], label(s.X[i])
			if s.Kind == Bars {
				value, head = (s.X[i]+s.X2[i])/2, label(s.X[i])+" to "+label(s.X2[i])
			}
			j, ok := rows[value]
			if !ok {
				j = len(list)
				rows[value] = j
				list = append(list, row{At: math.Round(x.at(value)*10) / 10, Texts: []string{c.XName + ": " + head}})
			}
			list[j].Texts = append(list[j].Texts, s.Name+": "+label(math.Round(s.Y[i]*1000)/1000))
		}
	}
	b, err := json.Marshal(list) // escapes what would end a script
	if err != nil {
		return "[]"
	}
	return template.JS(b)
}
