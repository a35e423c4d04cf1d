package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPasswordFile: the password is read where only its owner may.
func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPassword(path); err != nil || got != "a b" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPassword(path); err == nil || !strings.Contains(err.Error(), "want 0600") {
		t.Errorf("a file that others may read: %v", err)
	}
}
