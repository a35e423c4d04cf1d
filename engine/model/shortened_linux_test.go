package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// TestShortenedFileIsRefused: a file that somebody made shorter after it was opened does not load, and its process goes on.
func TestShortenedFileIsRefused(t *testing.T) {
	e := newEdit(t, "tiny-qwen3-f16")
	whole := gguftest.Bytes(e.meta, e.tensors)
	path := filepath.Join(t.TempDir(), "m.gguf")
	for _, gone := range []int{0, 100, len(whole) / 4, len(whole) / 2} {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := modelfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(len(whole)-gone)); err != nil {
			t.Fatal(err)
		}
		b := newCPU(t, cpu.Options{Threads: 2})
		m, err := Load(f, b)
		switch {
		case gone == 0 && err != nil:
			t.Error(err)
		case gone > 0 && (err == nil || !strings.Contains(err.Error(), path+": it is shorter")):
			t.Errorf("without %d bytes: %v", gone, err)
		}
		if m != nil {
			m.Close()
		} else {
			b.Close()
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
