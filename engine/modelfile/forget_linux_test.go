package modelfile

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Forget has the system give up what it has of a file in memory, as far as it can.
func Forget(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}
