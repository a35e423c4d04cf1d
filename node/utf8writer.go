package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"unicode/utf8"
)

// utf8Writer passes on what is UTF-8, with U+FFFD in place of what is not: names
// and messages of others may hold any bytes, and a terminal or whoever collects
// logs must not get them. A buffer before it may cut a character in two: the
// beginning waits for its rest, and Close gives it up.
type utf8Writer struct {
	to  io.Writer
	mu  sync.Mutex
	cut []byte // Guarded by mu: the beginning of a character, at most three bytes
}

// Write writes all of p but what waits, or says why not, and how many bytes of p are written all the same.
func (w *utf8Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.cut) > 0 {
		text = append(bytes.Clone(w.cut), p...)
	}
	whole := wholeCharacters(text)
	if n, err := w.pass(text[:whole]); err != nil {
		return max(0, min(n-len(w.cut), len(p))), err
	}
	w.cut = append(w.cut[:0], text[whole:]...)
	return len(p), nil
}

// Close writes U+FFFD in place of what waits. More may be written after it.
func (w *utf8Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	cut := w.cut
	w.cut = nil
	_, err := w.pass(cut)
	return err
}

// pass writes whole characters, and says how many bytes are written.
func (w *utf8Writer) pass(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	return w.to.Write(text)
}

// wholeCharacters is how many bytes there are before a character that the end of the text cuts.
func wholeCharacters(text []byte) int {
	for at := len(text) - 1; at >= max(0, len(text)-utf8.UTFMax+1); at-- {
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// Stat is that of the file that is written to: whether it is a terminal.
func (w *utf8Writer) Stat() (os.FileInfo, error) {
	if f, ok := w.to.(interface{ Stat() (os.FileInfo, error) }); ok {
		return f.Stat()
	}
	return nil, errors.ErrUnsupported
}
