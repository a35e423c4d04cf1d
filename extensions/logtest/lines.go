// Package logtest is a log that tests read while it is written.
package logtest

import (
	"strings"
	"sync"
)

// Lines is what was logged.
type Lines struct {
	mu   sync.Mutex
	text strings.Builder // Guarded by mu.
}

// Write implements io.Writer.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String is all that was written so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
