package sqlite

import (
	"errors"

	"corenode/node/store"
)

// DefaultMade implements store.Store.
func (s *Store) DefaultMade() (bool, error) {
	_, err := s.Account(store.DefaultAccount)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	n, err := s.read.number(`SELECT count(*) FROM settings WHERE name = 'default_account'`)
	return n > 0, err
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
