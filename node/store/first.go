package store

import (
	"errors"
	"fmt"
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

// FirstStart makes the unlimited account "default" with one key, so that a fresh node
// answers a first request. It writes the key's secret to default.key (0600) in the data
// folder, the only secret that is kept readable. It does so once in the life of a store,
// and not at all when an account of that name exists. It returns the path of the key file, "" when there is none (any more).
func FirstStart(s Store, dir string, first First) (keyFile string, err error) {
	keyFile = filepath.Join(dir, "default.key")
	made, err := s.DefaultMade()
	if err == nil && !made {
		err = makeDefault(s, keyFile, first)
	}
	if err != nil {
		return "", fmt.Errorf("make the account %q: %w", DefaultAccount, err)
	}
	if _, err := os.Stat(keyFile); err != nil {
		return "", nil // deleted, as the operator may
	}
	return keyFile, nil
}

// makeDefault writes the file first: a crash in between leaves a file that the
// next start replaces, never an account whose key nobody has. A node that comes second
// takes its file back.
func makeDefault(s Store, keyFile string, first First) error {
	if err := WriteSecret(keyFile, first.Secret); err != nil {
		return err
	}
	made, err := s.MakeDefault(first)
	if err == nil && !made {
		err = os.Remove(keyFile)
	}
	return err
}

// WriteSecret replaces a file that only the owner may read (0600). A reader
// sees the old content or the new, never a part, also after a crash.
func WriteSecret(path, secret string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // made with mode 0600
	if err != nil {
		return err
	}
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
