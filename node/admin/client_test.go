package admin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"corenode/node/operators"
)

func TestAnnounce(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("empty folder: %v", err)
	}
	withdraw, err := Announce(dir, "127.0.0.1:1", operators.NewToken(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{addressFile, tokenFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("nobody listens there: %v", err)
	}
	withdraw()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestAnnounceAllAddresses: a node that listens everywhere is found on loopback.
func TestAnnounceAllAddresses(t *testing.T) {
	for listens, want := range map[string]string{"0.0.0.0:81": "127.0.0.1:81", "[::]:81": "127.0.0.1:81",
		"10.1.2.3:81": "10.1.2.3:81", "[::1]:81": "[::1]:81", "127.0.0.1:81": "127.0.0.1:81"} {
		dir := t.TempDir()
		if _, err := Announce(dir, listens, operators.NewToken(), ""); err != nil {
			t.Fatal(err)
		}
		if got, err := readLine(dir, addressFile); err != nil || got != want {
			t.Errorf("%s is announced as %q, want %q (%v)", listens, got, want, err)
		}
	}
}
