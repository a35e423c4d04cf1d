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
	// logBufferMax is the most bytes that wait; over it the writer of a line waits for whoever takes them.
	logBufferMax = 256 << 10
	// logPatience is the longest such wait. Whoever takes nothing for so long, as a program that was stopped, loses lines.
	logPatience = 2 * time.Second
	// logKeepMax is the largest buffer that is kept for the next lines: one line may be longer than all that wait.
	logKeepMax = 2 * logBufferMax
)

// logWriter gathers log lines and writes them together, since a system call
// per line costs a small request a tenth of its time. Close writes the rest.
type logWriter struct {
	to    io.Writer
	mu    sync.Mutex
	lines []byte        // Guarded by mu
	spare []byte        // Guarded by mu
	armed bool          // Guarded by mu: a flush is coming
	room  chan struct{} // Guarded by mu: closed when lines are taken; nil where nobody waits for that
	stuck bool          // Guarded by mu: a wait for room was in vain, and nothing was written since
	lost  int           // Guarded by mu: lines that are not written, and of which the log does not know
	torn  bool          // Owned by who writes: what was written last is no whole line

	writing chan struct{} // has room for who writes: one at a time, in order
}

func newLogWriter(to io.Writer) *logWriter {
	return &logWriter{to: to, writing: make(chan struct{}, 1)}
}

// Write queues whole lines, or loses them where nobody takes what is queued. It fails never: nobody could be told.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.hasRoom() {
		w.lost++
		return len(line), nil
	}
	w.add(line)
	return len(line), nil
}

// add queues a line and sees to it that it is written. Its caller has mu locked.
func (w *logWriter) add(line []byte) {
	w.lines = append(w.lines, line...)
	if len(w.lines) >= logBufferMax {
		w.armed = true
		go w.flush()
	} else if !w.armed {
		w.armed = true
		time.AfterFunc(logDelay, w.flush)
	}
}

// hasRoom waits for room, with mu unlocked meanwhile. Its caller has mu locked.
func (w *logWriter) hasRoom() bool {
	for len(w.lines) >= logBufferMax && !w.stuck {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
			w.mu.Lock()
		case <-time.After(logPatience):
			w.mu.Lock()
			w.stuck = room == w.room // nobody came meanwhile
		}
	}
	return len(w.lines) < logBufferMax
}

func (w *logWriter) flush() {
	w.writing <- struct{}{}
	w.write()
	<-w.writing
}

// write writes what waits. Its caller is the only one who writes.
func (w *logWriter) write() {
	w.mu.Lock()
	lines := w.lines
	w.lines, w.spare, w.armed = w.spare[:0], nil, false
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	w.mu.Unlock()
	lost := w.put(lines)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spare = lines[:0]; cap(lines) > logKeepMax {
		w.spare = nil
	}
	w.stuck, w.lost = false, w.lost+lost
	if len(lines) > 0 && lost == 0 && w.lost > 0 {
		var said bytes.Buffer
		slog.New(slog.NewJSONHandler(&said, nil)).Warn("lines of the log are lost: for some time none could be written", "lines", w.lost)
		w.lost = 0
		w.add(said.Bytes())
	}
}

// put writes lines and returns how many of them are lost, cut ones among them: nobody can be told before some can be
// written again. What is behind one that was cut begins a line of its own.
func (w *logWriter) put(lines []byte) (lost int) {
	if len(lines) == 0 {
		return 0
	}
	began := 0 // where they begin
	if w.torn {
		lines, began = append([]byte{'\n'}, lines...), 1
	}
	n, err := w.to.Write(lines)
	if n > 0 {
		w.torn = lines[n-1] != '\n'
	}
	if err == nil {
		return 0
	}
	return bytes.Count(lines[max(n, began):], []byte{'\n'})
}

// Close writes what waits, unless nobody takes it.
func (w *logWriter) Close() {
	select {
	case w.writing <- struct{}{}:
	case <-time.After(logPatience):
		return
	}
	done := make(chan struct{})
	go func() {
		w.write()
		w.write() // what the first one had to say of lost lines
		<-w.writing
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(logPatience):
	}
}

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
