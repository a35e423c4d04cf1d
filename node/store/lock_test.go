package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeftSecretsAreRemoved: a token that a kill left in plain text beside its file goes when the folder is locked. All else stays.
func TestLeftSecretsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	there := map[string]bool{".secret-17": false, ".trial-18": false, ".secret-notes": true, "secret-19": true, KeyName: true}
	for name := range there {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for name, want := range there {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
