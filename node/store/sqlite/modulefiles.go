package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
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

// moduleFile ends the name of a module's own file, which begins with the digest of its bytes in hexadecimal.
const moduleFile, digestPrefix = ".wasm", "sha256:"

// isSound says whether a file, if it is to have the name of a module, has the bytes for it.
func isSound(path, name string) (bool, error) {
	digest, module := strings.CutSuffix(name, moduleFile)
	if !module {
		return true, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)) == digest, err
}

// isKept says whether a backup has a file of a folder of modules: not what a kill left of one, nor what was moved aside.
func isKept(e fs.DirEntry) bool {
	name := e.Name()
	ends := func(end string) bool { return strings.HasSuffix(name, end) }
	return e.Type().IsRegular() && !strings.HasPrefix(name, ".") &&
		(isState(name) && ends(".json") || ends(moduleFile) || ends(".sig") || ends(".config.json"))
}

// isState says whether a file says which modules serve.
func isState(name string) bool { return strings.HasPrefix(name, "state.") }

// sizeOfModules is what the files of a folder of modules take in a backup.
func sizeOfModules(dir string) (n int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isKept(e) { // one without was removed meanwhile
			n += info.Size()
		}
	}
	return n, err
}

// copyModules copies the files of a folder of modules, not those of folders in it, into another one
// and syncs them: what says which modules serve before them, since it is written behind them. What is
// there stays, unless it is a damaged module. Without a folder there is nothing to copy.
// It returns the digests of modules that are damaged and not copied.
func copyModules(from, to string) (damaged []string, err error) {
	if _, err := copyFiles(from, to, isState); err != nil {
		return nil, err
	}
	return copyFiles(from, to, func(name string) bool { return !isState(name) })
}

// copyFiles copies those that are wanted, and returns which modules are damaged and not copied.
func copyFiles(from, to string, wanted func(name string) bool) (damaged []string, err error) {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = store.MakeFolder(to)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // in the order of their names
		if !isKept(e) || !wanted(e.Name()) {
			continue
		}
		sound, err := copyModule(from, to, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile: the check of what is missing says whether it counts
		}
		if err != nil {
			return nil, err
		}
		if !sound {
			damaged = append(damaged, digestPrefix+strings.TrimSuffix(e.Name(), moduleFile))
		}
	}
	return damaged, store.SyncFolder(to)
}

// copyModule copies a file of that name, unless it is there or is a module that is not sound.
func copyModule(from, to, name string) (sound bool, err error) {
	path := filepath.Join(to, name)
	if sound, err := isSound(path, name); err == nil && sound {
		if _, err := os.Lstat(path); err == nil {
			return true, nil
		}
	}
	part := path + ".part" // of a copy that was killed, what is left has no name that counts
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := copyDurably(filepath.Join(from, name), part); err != nil {
		return false, err
	}
	if sound, err = isSound(part, name); err == nil && sound {
		return true, os.Rename(part, path)
	}
	return false, errors.Join(err, os.Remove(part))
}

// missingModules are the digests of modules that rows of a database name, and that have no file in a folder, or a damaged one.
func missingModules(database, dir string) (missing []string, err error) {
	c, err := dialLong(database, "")
	if err != nil {
		return nil, err
	}
	defer c.close()
	missing = []string{}
	seen := map[string]bool{} // kept here: SQLite would sort all rows for it
	err = c.viewEach(`SELECT module_digest FROM ledger WHERE module_digest LIKE 'sha256:%'`, func(r row) error {
		digest := r.text(0)
		if seen[digest] {
			return nil
		}
		seen[digest] = true
		name := strings.TrimPrefix(digest, digestPrefix) + moduleFile
		sound, err := isSound(filepath.Join(dir, name), name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !sound {
			missing = append(missing, digest)
			return nil
		}
		return err
	})
	slices.Sort(missing)
	return missing, err
}

// copyOfModules copies modules, and returns which of those that a database names are missing then, and which damaged ones
// are not copied.
func copyOfModules(from, to, database string) (missing []string, err error) {
	damaged, err := copyModules(from, to)
	if err != nil {
		return nil, err
	}
	if missing, err = missingModules(database, to); err != nil {
		return nil, err
	}
	missing = append(missing, damaged...)
	slices.Sort(missing)
	return slices.Compact(missing), nil
}
