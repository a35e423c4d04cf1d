package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogWriterKeepsEveryLineWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what it waits for a write cannot be over while it is at work
		var out bytes.Buffer
		w := newLogWriter(&out)
		var writers sync.WaitGroup
		for g := range 8 {
			writers.Go(func() {
				for i := range 2000 {
					fmt.Fprintf(w, "writer %d line %d %s\n", g, i, strings.Repeat("x", 40))
				}
			})
		}
		writers.Wait()
		w.Close()
		next := [8]int{}
		for line := range strings.Lines(out.String()) {
			var g, i int
			if _, err := fmt.Sscanf(line, "writer %d line %d ", &g, &i); err != nil || i != next[g] {
				t.Fatalf("line %q, want line %d of its writer", line, next[g])
			}
			next[g]++
		}
		for g, n := range next {
			if n != 2000 {
				t.Errorf("writer %d: %d lines", g, n)
			}
		}
	})
}

// TestLogWriterGivesBack: a line of many MB does not leave buffers as large as it behind.
func TestLogWriterGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := newLogWriter(&out)
		for range 3 {
			fmt.Fprintln(w, strings.Repeat("x", 8<<20))
			fmt.Fprintln(w, "short")
		}
		w.Close()
		time.Sleep(2 * logDelay) // what was to be written later has been
		synctest.Wait()
		if kept := cap(w.lines) + cap(w.spare); kept > 4*logBufferMax {
			t.Errorf("it keeps %d bytes", kept)
		}
		if got := strings.Count(out.String(), "\n"); got != 6 {
			t.Errorf("%d lines, want 6", got)
		}
	})
}

func TestLogWriterWritesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := newLogWriter(&out)
		w.Write([]byte("one\n"))
		time.Sleep(logDelay + time.Millisecond)
		synctest.Wait()
		if out.String() != "one\n" {
			t.Errorf("after %v: %q", logDelay, out.String())
		}
	})
}

// stopped is a reader of the log that stands still until it goes on.
type stopped struct {
	bytes.Buffer
	goesOn chan struct{}
}

func (s *stopped) Write(lines []byte) (int, error) {
	<-s.goesOn
	return s.Buffer.Write(lines)
}

// TestLogReaderStandsStill: who writes a line does not wait for ever for who reads them. What there is no room for is lost,
// which the log says when it goes on; all other lines are there, and in order.
func TestLogReaderStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stopped{goesOn: make(chan struct{})}
		w := newLogWriter(out)
		const lines = 4 * logBufferMax / 1024
		began := time.Now()
		for i := range lines {
			fmt.Fprintf(w, "line %d %s\n", i, strings.Repeat("x", 1015))
		}
		if took := time.Since(began); took > logPatience {
			t.Errorf("%d lines took %v, want %v at most", lines, took, logPatience)
		}
		w.Close()
		close(out.goesOn)
		time.Sleep(logDelay)
		synctest.Wait()
		fmt.Fprintln(w, "line last")
		w.Close()
		read := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, line := range read[:len(read)-2] {
			if !strings.HasPrefix(line, fmt.Sprintf("line %d ", i)) {
				t.Fatalf("line %d is %.20q", i, line)
			}
		}
		var said struct {
			Level, Msg string
			Lines      int
		}
		if err := json.Unmarshal([]byte(read[len(read)-2]), &said); err != nil || said.Level != "WARN" || said.Lines != lines-(len(read)-2) {
			t.Errorf("%d lines are lost, and the log says %.200q (%v)", lines-(len(read)-2), read[len(read)-2], err)
		}
		if got := read[len(read)-1]; got != "line last" {
			t.Errorf("at the end there is %.20q", got)
		}
	})
}

// fullDisk is a file whose disk has room for so many bytes.
type fullDisk struct {
	bytes.Buffer
	room int
}

func (f *fullDisk) Write(lines []byte) (int, error) {
	n, _ := f.Buffer.Write(lines[:min(len(lines), f.room)])
	if f.room -= n; n < len(lines) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestLogDiskIsFull: a line that was cut has a line of its own, so the next one is whole, and the log says how many it lacks.
func TestLogDiskIsFull(t *testing.T) {
	disk := &fullDisk{room: 25}
	w := newLogWriter(&utf8Writer{to: disk})
	for i := range 6 {
		fmt.Fprintf(w, "line %d é\n", i)
		if w.Close(); i == 3 {
			disk.room = 1 << 20
		}
		if i == 4 && !strings.Contains(disk.String(), `"lines":2}`) {
			t.Errorf("an end here does not say what is lost: %q", disk.String())
		}
	}
	const want = "line 0 é\nline 1 é\nline \nline 4 é\n{"
	if got := disk.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, `"lines":2}`+"\nline 5 é\n") {
		t.Errorf("%q, want %q and that two lines are lost", got, want)
	}
}
