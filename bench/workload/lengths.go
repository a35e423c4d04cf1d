package workload

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// lengthMax bounds every length, in tokens.
const lengthMax = 1 << 20

// Lengths is a distribution of lengths in tokens. The zero value is not one.
type Lengths struct {
	kind string  // fixed, uniform, lognormal
	a, b float64 // the length; least and most; median and sigma
	max  float64 // of lognormal
}

// ParseLengths reads "N" or "fixed:N", "uniform:MIN-MAX", or
// "lognormal:MEDIAN,SIGMA" with ",MAX" if it is to be cut off (default: eight
// times the median). Sigma is that of the logarithm.
func ParseLengths(text string) (Lengths, error) {
	kind, values, ok := strings.Cut(text, ":")
	if !ok {
		kind, values = "fixed", text
	}
	fail := func(why string) (Lengths, error) {
		return Lengths{}, fmt.Errorf("lengths %q: %s; want N, uniform:MIN-MAX or lognormal:MEDIAN,SIGMA[,MAX]", text, why)
	}
	separator, valuesMin, valuesMax := ",", 1, 1
	switch kind {
	case "fixed":
	case "uniform":
		separator, valuesMin, valuesMax = "-", 2, 2
	case "lognormal":
		valuesMin, valuesMax = 2, 3
	default:
		return fail("unknown kind")
	}
	var v []float64
	for _, s := range strings.Split(values, separator) {
		x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(x) {
			return fail("not a number: " + s)
		}
		v = append(v, x)
	}
	if len(v) < valuesMin || len(v) > valuesMax {
		return fail(fmt.Sprintf("%d numbers", len(v)))
	}
	if v[0] < 1 || v[0] > lengthMax {
		return fail(fmt.Sprintf("lengths are 1 to %d", lengthMax))
	}
	l := Lengths{kind: kind, a: v[0]}
	switch kind {
	case "uniform":
		if l.b = v[1]; l.b < l.a || l.b > lengthMax {
			return fail(fmt.Sprintf("the most must be %v to %d", l.a, lengthMax))
		}
	case "lognormal":
		if l.b, l.max = v[1], min(8*l.a, lengthMax); l.b < 0 || l.b > 5 {
			return fail("sigma is 0 to 5")
		}
		if len(v) == 3 {
			if l.max = v[2]; l.max < l.a || l.max > lengthMax {
				return fail(fmt.Sprintf("the most must be %v to %d", l.a, lengthMax))
			}
		}
	}
	return l, nil
}

// Fixed is always the same length.
func Fixed(tokens int) Lengths { return Lengths{kind: "fixed", a: float64(tokens)} }

// Draw returns one length.
func (l Lengths) Draw(r *rand.Rand) int {
	switch l.kind {
	case "uniform":
		return int(l.a) + r.IntN(int(l.b)-int(l.a)+1)
	case "lognormal":
		return int(math.Round(min(max(1, l.a*math.Exp(l.b*r.NormFloat64())), l.max)))
	}
	return int(l.a)
}

// String is the form that ParseLengths reads.
func (l Lengths) String() string {
	switch l.kind {
	case "uniform":
		return fmt.Sprintf("uniform:%g-%g", l.a, l.b)
	case "lognormal":
		return fmt.Sprintf("lognormal:%g,%g,%g", l.a, l.b, l.max)
	}
	return fmt.Sprintf("fixed:%g", l.a)
}

// Pair is the length of a prompt and of the answer to it.
type Pair struct{ Input, Output int }

// ReadPairs reads lines of two numbers, input tokens and output tokens. A first
// line that has no numbers is a heading.
func ReadPairs(r io.Reader) ([]Pair, error) {
	rows, err := readRows(r, 2)
	if err != nil {
		return nil, err
	}
	pairs := make([]Pair, len(rows))
	for i, row := range rows {
		if row[0] < 1 || row[0] > lengthMax || row[1] < 1 || row[1] > lengthMax {
			return nil, fmt.Errorf("pair %d: lengths are 1 to %d", i+1, lengthMax)
		}
		pairs[i] = Pair{int(row[0]), int(row[1])}
	}
	return pairs, nil
}

// readRows reads lines with at least that many numbers at their begin.
func readRows(r io.Reader, columns int) ([][]float64, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.TrimLeadingSpace, in.Comment = -1, true, '#'
	var rows [][]float64
	for first := true; ; first = false {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		row := make([]float64, columns)
		for i := range row {
			if i >= len(record) {
				return nil, fmt.Errorf("line %d: %d columns, want %d", line, len(record), columns)
			}
			if row[i], err = strconv.ParseFloat(strings.TrimSpace(record[i]), 64); err != nil || math.IsNaN(row[i]) ||
				math.IsInf(row[i], 0) {
				row = nil
				break
			}
		}
		switch {
		case row != nil:
			rows = append(rows, row)
		case !first:
			return nil, fmt.Errorf("line %d: not numbers: %.80q", line, record)
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("no line with numbers")
	}
	return rows, nil
}

// ReadFile reads a file with one of the readers of this package.
func ReadFile[T any](path string, read func(io.Reader) (T, error)) (v T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return v, err
	}
	defer f.Close()
	if v, err = read(f); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}
