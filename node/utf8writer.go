package main

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// utf8Writer passes on what is UTF-8, with U+FFFD in place of each byte that is
// not: names and messages of others may hold any bytes, and a terminal or whoever
// collects logs must not get them. Each write is taken for whole characters.
type utf8Writer struct{ to io.Writer }

// Write writes all of p, or says why not.
func (w *utf8Writer) Write(p []byte) (int, error) {
	text := p
	if !utf8.Valid(p) {
		text = bytes.ToValidUTF8(p, []byte("\uFFFD"))
	}
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
