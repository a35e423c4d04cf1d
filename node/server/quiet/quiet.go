// Package quiet keeps a line off standard error that the library of metrics writes before main begins, where the kernel counts
// no stalls of control groups: with each command, and as the first line of a node's log, which is JSON otherwise.
//
// Packages are initialized in the order of their import paths, but for what they import (the Go specification, "Program
// initialization"): this one comes before the library, since it imports nothing that the library does not.
package quiet

import (
	"bytes"
	"io"
	"log"
	"os"
)

// unsaid is how the line begins, behind its time.
const unsaid = "INFO: metrics: disable exposing PSI metrics"

var _ = begin()

// begin has the standard logger write to standard error, as before, without that line.
func begin() bool {
	log.SetOutput(lines{os.Stderr})
	return true
}

// lines writes all lines but one. The logger gives it one at a time.
type lines struct{ to io.Writer }

func (l lines) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(unsaid)) {
		return len(line), nil
	}
	return l.to.Write(line)
}
