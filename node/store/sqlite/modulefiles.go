package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"corenode/node/store"
)

// ModulesDir is the folder of a data folder with the modules that charges name, one file for each
// digest. Beside a backup it is named as the backup with this suffix.
const (
	ModulesDir    = "modules"
	modulesSuffix = ".modules"
)

// copyModules copies the files of a folder of modules, not those of folders in it, into another one
// and syncs them. What is there stays. Without a folder there is nothing to copy.
func copyModules(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = store.MakeFolder(to)
	}
	if err != nil {
		return err
	}
	for _, e := range entries { // in the order of their names
		path := filepath.Join(to, e.Name())
		if !e.Type().IsRegular() {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		part := path + ".part" // of a copy that was killed, what is left has no name that counts
		if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := copyDurably(filepath.Join(from, e.Name()), part)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile: the check of what is missing says whether it counts
		}
		if err == nil {
			err = os.Rename(part, path)
		}
		if err != nil {
			return err
		}
	}
	return store.SyncFolder(to)
}

// missingModules are the digests of modules that rows of a database name, and that have no file in a folder.
func missingModules(database, dir string) (missing []string, err error) {
	c, err := dial(database, "")
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	missing = []string{}
	seen := map[string]bool{} // kept here: SQLite would sort all rows for it
	err = c.each(`SELECT module_digest FROM ledger WHERE module_digest LIKE 'sha256:%'`, func(r row) error {
		digest := r.text(0)
		if seen[digest] {
			return nil
		}
		seen[digest] = true
		_, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")+".wasm"))
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, digest)
			return nil
		}
		return err
	})
	slices.Sort(missing)
	return missing, err
}
