// Package report turns measurements into what people read: the spread of a
// number over rounds, and tables in plain text.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Spread is one number over several rounds. The median is the result; the other
// two say how far to trust it.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// SpreadOf returns the spread of values, which it does not change; zero for
// none. The median of an even number is the mean of the middle two.
func SpreadOf(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]}
}

// SpreadBy is the spread of one number of each of a list.
func SpreadBy[T any](list []T, of func(T) float64) Spread {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = of(list[i])
	}
	return SpreadOf(values)
}

// String shows the median, and the range when there is one.
func (s Spread) String() string {
	if s.Min == s.Max {
		return Number(s.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", Number(s.Median), Number(s.Min), Number(s.Max))
}

// Number shows three digits, as many as a measurement here is worth, and all
// digits left of the point.
func Number(x float64) string {
	switch a := math.Abs(x); {
	case a == 0 || math.IsInf(x, 0) || math.IsNaN(x):
		return fmt.Sprintf("%.0f", x)
	case a < 0.995:
		return fmt.Sprintf("%.3f", x)
	case a < 9.995:
		return fmt.Sprintf("%.2f", x)
	case a < 99.95:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.0f", x)
	}
}

// Table writes rows under their headings in aligned columns. A row may be
// shorter than the headings.
func Table(w io.Writer, headings []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{headings}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t")) // errors are kept for Flush
	}
	return t.Flush()
}

// Ratio is a/b, 0 when there is no b: nothing was measured.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// WriteJSON writes a result for programs, and for people who look into it.
func WriteJSON(path string, result any) error { return writeJSON(path, result, "  ") }

// WriteCompact is WriteJSON without line ends: of results with many numbers.
func WriteCompact(path string, result any) error { return writeJSON(path, result, "") }

func writeJSON(path string, result any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	if err := e.Encode(result); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
