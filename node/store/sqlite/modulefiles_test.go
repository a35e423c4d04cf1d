package sqlite

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/storetest"
)

// TestBackupHasTheModules: what charges name lies beside the backup and comes back with it; what is
// missing is named; a backup from before there were modules in it is restored all the same.
func TestBackupHasTheModules(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 1000)
	one, two := storetest.Charged(a.ID, "one", false), storetest.Charged(a.ID, "two", false)
	aa, bb := digestOf("wasm"), digestOf("of none")
	one.ModuleDigest, two.ModuleDigest = "sha256:"+aa, "sha256:"+bb
	never := digestOf("what no charge names")
	builtin := storetest.Charged(a.ID, "three", false)
	builtin.ModuleDigest = "builtin:tariff@1"
	if err := s.Append([]account.Entry{one, two, builtin}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{aa + ".wasm": "wasm", aa + ".sig": "signature", aa + ".config.json": "{}",
		never + ".wasm": "what no charge names", "state.json": "{}", "cache/cc": "compiled",
		"." + aa + ".wasm-17": "half", ".state.json-17": "half", aa + ".wasm.part": "half", "state.json.damaged": "}"}
	apart := []string{"cache/cc", "." + aa + ".wasm-17", ".state.json-17", aa + ".wasm.part", "state.json.damaged"} // of what is kept
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
	if missing, err := s.Backup(backup); err != nil || !slices.Equal(missing, []string{"sha256:" + bb}) {
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
	if !slices.Equal(missing, []string{"sha256:" + bb}) {
		t.Errorf("missing after a restore: %v", missing)
	}
	for name, text := range files {
		got, err := os.ReadFile(filepath.Join(dir, ModulesDir, name))
		if left := slices.Contains(apart, name); left != (err != nil) || !left && string(got) != text {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if _, err := s.Backup(backup); err == nil {
		t.Error("a backup was written over")
	}
	wantNoDamaged(t, s, backup, aa, never)
	if err := os.RemoveAll(backup + modulesSuffix); err != nil {
		t.Fatal(err)
	}
	want := []string{"sha256:" + aa, "sha256:" + bb}
	slices.Sort(want)
	if _, missing := restore(backup); !slices.Equal(missing, want) {
		t.Errorf("missing of a backup without modules: %v", missing)
	}
}

// TestStateIsCopiedFirst: modules that are loaded and begin to serve while others are copied are in the backup whose state
// names them.
func TestStateIsCopiedFirst(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), ModulesDir)
	module := digestOf("wasm") + moduleFile
	for name, text := range map[string]string{module: "wasm", "state.json": "{}", "state.copy.json": "{}"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if damaged, err := copyModules(from, to); err != nil || len(damaged) > 0 {
		t.Fatal(damaged, err)
	}
	made := func(name string) time.Time {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for _, state := range []string{"state.json", "state.copy.json"} {
		if made(state).After(made(module)) {
			t.Errorf("%s was copied behind the modules", state)
		}
	}
}

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// wantNoDamaged: a module whose bytes are not those of its name is no module, neither in a backup nor in a folder, whether
// charges name it or not. It is named and left out, and a restore puts a whole one in the place of a damaged one.
func wantNoDamaged(t *testing.T, s *Store, backup string, modules ...string) {
	t.Helper()
	damage := func(dir string) {
		for _, digest := range modules {
			if err := os.WriteFile(filepath.Join(dir, digest+".wasm"), []byte("other"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, missing []string, err error, dir string) {
		t.Helper()
		for _, digest := range modules {
			if !slices.Contains(missing, "sha256:"+digest) {
				t.Errorf("%s: %v, %v; want %s among the missing", what, missing, err, digest)
			}
			if _, err := os.Lstat(filepath.Join(dir, digest+".wasm")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a damaged module is there, %v", what, err)
			}
		}
	}
	once, folder := filepath.Join(t.TempDir(), "once.db"), filepath.Join(t.TempDir(), "data")
	if _, err := s.Backup(once); err != nil {
		t.Fatal(err)
	}
	damage(once + modulesSuffix)
	r, err := Restore(once, folder)
	want("a restore", r.ModulesMissing, err, filepath.Join(folder, ModulesDir))
	for _, file := range []string{DatabaseName, store.LockName} { // restored again, of a whole backup
		if err := os.Remove(filepath.Join(folder, file)); err != nil {
			t.Fatal(err)
		}
	}
	damage(filepath.Join(folder, ModulesDir))
	if r, err = Restore(backup, folder); err != nil || len(r.ModulesMissing) != 1 {
		t.Errorf("over damaged ones: %v, %v", r.ModulesMissing, err)
	}
	damage(filepath.Join(s.dir, ModulesDir))
	once = filepath.Join(t.TempDir(), "twice.db")
	missing, err := s.Backup(once)
	want("a backup", missing, err, once+modulesSuffix)
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
