package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"corenode/bench/report"
)

// found is a result of two numbers.
type found struct{ Runs, Failed int }

func (f found) Print(w io.Writer) error {
	_, err := io.WriteString(w, "found\n")
	return err
}

func (f found) Met() bool { return f.Failed == 0 }

// noReader is the end of a pipe that nobody reads.
type noReader struct{ file string }

var errNoReader = errors.New("nobody reads")

func (r noReader) Write([]byte) (int, error) {
	if _, err := os.Stat(r.file); err != nil {
		return 0, err
	}
	return 0, errNoReader
}

// TestResultIsWrittenBeforeItIsPrinted: printing to a pipe that nobody reads ends the program, and hours of
// measuring would be lost with it. A file that cannot be written is no reason not to print.
func TestResultIsWrittenBeforeItIsPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	cmd := &cobra.Command{}
	cmd.SetOut(noReader{path})
	if err := deliver(cmd, found{Runs: 3}, path, report.WriteJSON, errGate); !errors.Is(err, errNoReader) {
		t.Errorf("printed to nobody: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{\n  \"Runs\": 3,\n  \"Failed\": 0\n}\n" {
		t.Errorf("the file: %q, %v", text, err)
	}
	printed := false
	cmd.SetOut(writer(func(p []byte) (int, error) { printed = true; return len(p), nil }))
	if err := deliver(cmd, found{}, filepath.Join(path, "x"), report.WriteJSON, errGate); err == nil || !printed {
		t.Errorf("a file that cannot be written: %v, printed: %v", err, printed)
	}
	if err := deliver(cmd, found{Failed: 1}, "", report.WriteJSON, errGate); !errors.Is(err, errGate) {
		t.Errorf("a gate that was missed: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
