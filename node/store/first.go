package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"corenode/actors/account"
)

// DefaultAccount is the account that the first start of a node makes.
const DefaultAccount = "default"

// First is the account of a first start, its key, and the secret of that.
type First struct {
	Account account.Account
	Key     account.Key
	Secret  string
}

// KeyName is the file of the data folder with the secret of the first key.
const KeyName = "default.key"

// FirstStart makes the unlimited account "default" with one key, so that a fresh node
// answers a first request. It writes the key's secret to default.key (0600) in the data
// folder, the only secret that is kept readable. It does so once in the life of a store,
// and not at all when an account of that name exists. It returns the path of the key file, "" when there is none (any more),
// and where it put a file that was there before: the only readable copy of the key of another store.
func FirstStart(s Store, dir string, first First) (keyFile, aside string, err error) {
	keyFile = filepath.Join(dir, KeyName)
	made, err := s.DefaultMade()
	if err == nil && !made {
		aside, err = makeDefault(s, keyFile, first)
	}
	if err != nil {
		return "", "", fmt.Errorf("make the account %q: %w", DefaultAccount, err)
	}
	if _, err := os.Stat(keyFile); err != nil {
		return "", aside, nil // deleted, as the operator may
	}
	return keyFile, aside, nil
}

// makeDefault writes the file first: a crash in between leaves a file that the
// next start sets aside, never an account whose key nobody has. A node that comes second
// takes its file back.
func makeDefault(s Store, keyFile string, first First) (aside string, err error) {
	if aside, err = setAside(keyFile); err != nil {
		return "", err
	}
	if err := WriteSecret(keyFile, first.Secret); err != nil {
		return "", err
	}
	made, err := s.MakeDefault(first)
	if err != nil || made {
		return aside, err
	}
	if aside != "" {
		return "", os.Rename(aside, keyFile)
	}
	return "", os.Remove(keyFile)
}

// setAside gives a file a name that no other has, and returns that; "" without the file.
func setAside(path string) (aside string, err error) {
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s.%d", path, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		err := os.Rename(path, aside)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return aside, err
	}
}

// secretName begins the name of a secret that is not whole yet.
const secretName = ".secret-"

// WriteSecret replaces a file that only the owner may read (0600). A reader
// sees the old content or the new, never a part, also after a crash.
func WriteSecret(path, secret string) error {
	file, err := os.CreateTemp(filepath.Dir(path), secretName+"*") // made with mode 0600
	if err != nil {
		return err
	}
	Own(file)
	_, err = file.WriteString(secret + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		return err
	}
	return SyncFolder(filepath.Dir(path))
}
