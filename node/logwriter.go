package main

import (
	"bytes"
	"io"
	stdlog "log"
	"log/slog"
	"sync"
	"time"
)

const (
	// logDelay is the longest a log line stays in memory: what a killed process loses.
	logDelay = 20 * time.Millisecond
	// logBufferMax is the most bytes that wait; over it the writer of a line waits for the disk.
	logBufferMax = 256 << 10
)

// logKeepMax is the largest buffer that is kept for the next lines: one line may be longer than all that wait.
const logKeepMax = 2 * logBufferMax

// logWriter gathers log lines and writes them together, since a system call
// per line costs a small request a tenth of its time. Close writes the rest.
type logWriter struct {
	to    io.Writer
	mu    sync.Mutex
	lines []byte // Guarded by mu
	spare []byte // Guarded by mu
	armed bool   // Guarded by mu: a flush is coming

	writing sync.Mutex // one write at a time, in order
}

func newLogWriter(to io.Writer) *logWriter { return &logWriter{to: to} }

// Write queues whole lines. It fails never: nobody could be told.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	w.lines = append(w.lines, line...)
	full := len(w.lines) >= logBufferMax
	if !w.armed && !full {
		w.armed = true
		time.AfterFunc(logDelay, w.flush)
	}
	w.mu.Unlock()
	if full {
		w.flush()
	}
	return len(line), nil
}

func (w *logWriter) flush() {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	lines := w.lines
	w.lines, w.spare, w.armed = w.spare[:0], nil, false
	w.mu.Unlock()
	if len(lines) > 0 {
		_, _ = w.to.Write(lines) // a log that cannot be written has nowhere to say so
	}
	w.mu.Lock()
	if w.spare = lines[:0]; cap(lines) > logKeepMax {
		w.spare = nil
	}
	w.mu.Unlock()
}

// Close writes what waits.
func (w *logWriter) Close() { w.flush() }

// takeLibraries makes lines of the log of what libraries say with Go's standard logger, until the function that it
// returns is called.
func takeLibraries(log *slog.Logger) (giveBack func()) {
	to, flags := stdlog.Writer(), stdlog.Flags()
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryWriter{log})
	return func() {
		stdlog.SetFlags(flags)
		stdlog.SetOutput(to)
	}
}

// libraryWriter is where the standard logger writes, a line at a time.
type libraryWriter struct{ log *slog.Logger }

func (w libraryWriter) Write(line []byte) (int, error) {
	w.log.Warn("a library says", "text", string(bytes.TrimSpace(line)))
	return len(line), nil
}
