package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogWriterKeepsEveryLineWhole(t *testing.T) {
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
