// Package sqlitetest makes data folders of a size that the store's own calls,
// each of them durable, would take minutes for. It is for tests only.
package sqlitetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store/sqlite"
)

// Fill makes accounts in a data folder, each with so many keys and a dollar. Names, ids
// and secrets follow from the numbers of account and key.
func Fill(dir string, accounts, keysEach int) error {
	s, err := sqlite.Open(dir) // makes the schema
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sqlite3.Open(filepath.Join(dir, sqlite.DatabaseName))
	if err != nil {
		return err
	}
	// Not durable: who needs the folder after a crash makes it again.
	err = db.Exec(`PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; BEGIN`)
	if err == nil {
		err = errors.Join(insertAccounts(db, accounts), insertKeys(db, accounts, keysEach), db.Exec(`COMMIT`))
	}
	return errors.Join(err, db.Close())
}

// AccountID is the id of account a, counted from 0. Ids are in no order, like those of the store.
func AccountID(a int) string { return scattered("acct_", a, 0) }

// AccountName is the name of account a.
func AccountName(a int) string { return fmt.Sprintf("customer-%06d", a) }

// KeyID is the id of key k of account a.
func KeyID(a, k int) string { return scattered("key_", a, k) }

// Secret is what key k of account a is sent as.
func Secret(a, k int) string { return scattered("sk-", a, k) }

func scattered(prefix string, a, k int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", prefix, a, k))
	return fmt.Sprintf("%s%x", prefix, sum[:10])
}

func insertAccounts(db *sqlite3.Conn, accounts int) error {
	return errors.Join(
		insert(db, `INSERT INTO accounts VALUES (?, ?, 0, 0, 8, 100000, '[]', 1)`, accounts, func(s *sqlite3.Stmt, i int) error {
			return errors.Join(s.BindText(1, AccountID(i)), s.BindText(2, AccountName(i)))
		}),
		db.Exec(`INSERT INTO ledger (kind, account_id, time, amount) SELECT 'topup', id, 1, 1000000000 FROM accounts`),
		db.Exec(`INSERT INTO balances (account_id, amount) SELECT id, 1000000000 FROM accounts`))
}

func insertKeys(db *sqlite3.Conn, accounts, keysEach int) error {
	const key = `INSERT INTO keys (id, account_id, hash, hint, created, expires, revoked, last_used) VALUES (?, ?, ?, ?, 1, 0, 0, 0)`
	return insert(db, key, accounts*keysEach, func(s *sqlite3.Stmt, i int) error {
		a, k := i/keysEach, i%keysEach
		hash := sha256.Sum256([]byte(Secret(a, k)))
		return errors.Join(s.BindText(1, KeyID(a, k)), s.BindText(2, AccountID(a)), s.BindBlob(3, hash[:]), s.BindText(4, Secret(a, k)[:7]))
	})
}

// insert runs one statement with the values of row 0, 1, ...
func insert(db *sqlite3.Conn, query string, rows int, bind func(*sqlite3.Stmt, int) error) error {
	s, _, err := db.Prepare(query)
	if err != nil {
		return err
	}
	for i := 0; i < rows && err == nil; i++ {
		if err = bind(s, i); err == nil {
			err = errors.Join(s.Exec(), s.Reset())
		}
	}
	return errors.Join(err, s.Close())
}
