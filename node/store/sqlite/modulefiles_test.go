package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"corenode/actors/account"
	"corenode/node/store/storetest"
)

// TestBackupHasTheModules: what charges name lies beside the backup and comes back with it; what is
// missing is named; a backup from before there were modules in it is restored all the same.
func TestBackupHasTheModules(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1000)
	one, two := storetest.Charged(a.ID, "one", false), storetest.Charged(a.ID, "two", false)
	one.ModuleDigest, two.ModuleDigest = "sha256:aa", "sha256:bb"
	builtin := storetest.Charged(a.ID, "three", false)
	builtin.ModuleDigest = "builtin:tariff@1"
	if err := s.Append([]account.Entry{one, two, builtin}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"aa.wasm": "wasm", "aa.sig": "signature", "aa.config.json": "{}", "state.json": "{}", "cache/cc": "compiled"}
	for name, text := range files {
		path := filepath.Join(s.dir, ModulesDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(t.TempDir(), "b.db")
	if missing, err := s.Backup(backup); err != nil || !slices.Equal(missing, []string{"sha256:bb"}) {
		t.Fatal(missing, err)
	}
	restore := func(from string) (dir string, missing []string) {
		dir = filepath.Join(t.TempDir(), "data")
		r, err := Restore(from, dir)
		if err != nil {
			t.Fatal(err)
		}
		return dir, r.ModulesMissing
	}
	dir, missing := restore(backup)
	if !slices.Equal(missing, []string{"sha256:bb"}) {
		t.Errorf("missing after a restore: %v", missing)
	}
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(dir, ModulesDir, name))
		if compiled := name == "cache/cc"; compiled != (err != nil) || !compiled && string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := s.Backup(backup); err == nil {
		t.Error("a backup was written over")
	}
	if err := os.RemoveAll(backup + modulesSuffix); err != nil {
		t.Fatal(err)
	}
	if _, missing := restore(backup); !slices.Equal(missing, []string{"sha256:aa", "sha256:bb"}) {
		t.Errorf("missing of a backup without modules: %v", missing)
	}
}

// TestCopyIsWholeOrNone: what cannot be read to its end leaves no file, which would count as there.
func TestCopyIsWholeOrNone(t *testing.T) {
	to := filepath.Join(t.TempDir(), "aa.wasm")
	if err := copyDurably(t.TempDir(), to); err == nil {
		t.Fatal("a folder was copied as a file")
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
}
