package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"corenode/actors/account"
)

// DefaultAccount is the account that the first start of a node makes.
const DefaultAccount = "default"

// FirstStart makes the unlimited account "default" with one key, so that a fresh node
// answers a first request. It writes the key's secret to default.key (0600) in the data
// folder, the only secret that is kept readable. It does so once in the life of a data
// folder, and not at all when an account of that name exists. It returns the path of the
// key file, "" when there is none (any more).
func (s *Store) FirstStart() (keyFile string, err error) {
	keyFile = filepath.Join(s.dir, "default.key")
	made, err := s.madeDefault()
	if err == nil && !made {
		err = s.makeDefault(keyFile)
	}
	if err != nil {
		return "", fmt.Errorf("make the account %q: %w", DefaultAccount, err)
	}
	if _, err := os.Stat(keyFile); err != nil {
		return "", nil // deleted, as the operator may
	}
	return keyFile, nil
}

func (s *Store) madeDefault() (bool, error) {
	_, err := s.Account(DefaultAccount)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return false, err
	}
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	n, err := s.read.number(`SELECT count(*) FROM settings WHERE name = 'default_account'`)
	return n > 0, err
}

// makeDefault writes the file first: a crash in between leaves a file that the
// next start replaces, never an account whose key nobody has.
func (s *Store) makeDefault(keyFile string) error {
	a := account.Account{ID: newID("acct_"), Name: DefaultAccount, Unlimited: true, Created: s.now().UTC()}
	key, secret := newKey(a.ID, s.now(), time.Time{})
	if err := WriteSecret(keyFile, secret); err != nil {
		return err
	}
	return s.write.transaction(func() error {
		if err := s.write.insertAccount(a); err != nil {
			return err
		}
		if err := s.write.insertKey(key); err != nil {
			return err
		}
		return s.write.exec(`INSERT INTO settings (name, value) VALUES ('default_account', ?)`, []byte(a.ID))
	})
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
	return syncFolder(filepath.Dir(path))
}
