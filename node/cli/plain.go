package cli

import (
	"fmt"
	"io"

	"corenode/extensions/guest"
)

// plainWriter passes on what a person reads, without what a terminal would act on: names, descriptions and messages
// are of models, modules and servers of others. Each Write has whole characters, as those of package fmt.
type plainWriter struct{ to io.Writer }

// Write writes p but for that.
func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, guest.CleanLines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// inCell is a text of others in one cell of a table.
func inCell(text string) string { return guest.Clean(text, len(text)) }

// SayError tells the error that a command ended with.
func SayError(w io.Writer, err error) { fmt.Fprintln(plainWriter{w}, "corenode:", err) }
