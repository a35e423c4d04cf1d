package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTouched: who may not ask the kernel goes by a file that says of one synchronization only that it was.
func TestTouched(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "synchronized"), time.Now()
	if touched(path, now) {
		t.Error("a file that is not there was touched")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{time.Minute: true, keptTrue + time.Minute: false} {
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		if got := touched(path, now); got != want {
			t.Errorf("touched %v ago: %v", age, got)
		}
	}
}
