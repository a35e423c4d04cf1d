package guest

import (
	"slices"
	"strings"
	"testing"
)

// TestPrintedPiecesAreLines: Go's runtime prints a panic in pieces, and people
// read lines.
func TestPrintedPiecesAreLines(t *testing.T) {
	var p printed
	var got []string
	long := strings.Repeat("x", logLineMax)
	for _, piece := range []string{"panic: ", "", "index out of range [", "5", "]\n\ngoroutine ", "1:\nmain.", "main()\n", long + "y\n"} {
		got = append(got, p.add([]byte(piece))...)
	}
	want := []string{"panic: index out of range [5]", "", "goroutine 1:", "main.main()", long}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if p.add([]byte("unfinished")) != nil || len(p.line) != len("unfinished") {
		t.Errorf("%q is kept of an unfinished line", p.line)
	}
}
