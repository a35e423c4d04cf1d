//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"corenode/node/store"
	"corenode/node/store/storetest"
)

// service is the user of a node that is not root's.
const service = 54321

// serviceFolder makes a folder of the service; without the rights for that the test is skipped.
func serviceFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root makes files for others")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, service, service); err != nil {
		t.Skip("skipped: this root may give nothing away: ", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantServices holds all that is in a folder, names among it, to be the service's and nobody else's.
func wantServices(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Sys().(*syscall.Stat_t).Uid != service || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s belongs to root, or has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFilesAreTheFolders: what root makes in the data folder of a service belongs to the service, also where the
// command is killed, and after a restore.
func TestFilesAreTheFolders(t *testing.T) {
	dir := serviceFolder(t)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.MustCreate(t, s, "a", 7)
	spill, err := store.OpenSpill(dir, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer spill.Close()
	if err := store.JoinCluster(dir, "node_1"); err != nil {
		t.Fatal(err)
	}
	wantServices(t, dir, DatabaseName, DatabaseName+"-wal", DatabaseName+"-shm", store.LockName, store.SpillName, "node.id")

	if err := os.Mkdir(filepath.Join(dir, ModulesDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ModulesDir, "state.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	backup, restored := filepath.Join(t.TempDir(), "backup.db"), serviceFolder(t)
	if _, err := s.Backup(backup); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(backup, restored); err != nil {
		t.Fatal(err)
	}
	wantServices(t, restored, DatabaseName, store.LockName, filepath.Join(ModulesDir, "state.json"))
}

// TestNothingElseIsGivenAway: what is there already stays whose it is. Root follows no link of the service's to give away
// what it leads to.
func TestNothingElseIsGivenAway(t *testing.T) {
	dir, target := serviceFolder(t), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, store.LockName)); err != nil {
		t.Fatal(err)
	}
	lock, err := store.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if info, err := os.Stat(target); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("what a link leads to was given away, %v", err)
	}
}
