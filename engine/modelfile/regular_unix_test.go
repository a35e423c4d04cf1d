//go:build unix

package modelfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"corenode/engine/modelfile"
)

// TestPipesAreNotOpened: who opens a pipe waits for somebody who writes to it, and a start would wait for ever.
func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ pipe, open string }{{"model.gguf", "model.gguf"}, {"folder/config.json", "folder"}} {
		pipe := filepath.Join(dir, c.pipe)
		if err := os.MkdirAll(filepath.Dir(pipe), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Skip("no pipes here: ", err)
		}
		var opened atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for somebody who reads
			opened.Store(true)
			if err == nil {
				f.Close()
			}
		}()
		_, err := modelfile.Open(filepath.Join(dir, c.open))
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", c.pipe, err)
		}
		if opened.Load() {
			t.Errorf("%s was opened", c.pipe)
		}
		f, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets the writer go
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		f.Close()
	}
}
