package sqlite

import (
	"errors"

	"corenode/node/store"
)

// DefaultMade implements store.Store.
func (s *Store) DefaultMade() (made bool, err error) {
	_, err = s.Account(store.DefaultAccount)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	err = s.read.viewEach(`SELECT 1 FROM settings WHERE name = 'default_account'`, func(row) error {
		made = true
		return nil
	})
	return made, err
}

// MakeDefault implements store.Store. Who has the folder's lock is never second.
func (s *Store) MakeDefault(first store.First) (made bool, err error) {
	err = s.write.transaction(func() error {
		if err := s.write.insertAccount(first.Account); err != nil {
			return err
		}
		if err := s.write.insertKey(first.Key); err != nil {
			return err
		}
		return s.write.exec(`INSERT INTO settings (name, value) VALUES ('default_account', ?)`, []byte(first.Account.ID))
	})
	return err == nil, err
}
