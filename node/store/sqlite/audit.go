package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store"
	"corenode/node/store/rules"
)

// Audit implements store.Store.
func (s *Store) Audit(r store.AuditRow) error {
	err := s.write.transaction(func() error {
		return s.write.exec(`INSERT INTO audit (time, operator, method, path, target, account_id, key_id, status)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, s.now(), r.Operator, r.Method, r.Path, r.Target, r.AccountID, r.KeyID, r.Status)
	})
	return wrapped(err, "write the audit")
}

// Audited implements store.Store.
func (s *Store) Audited(operator string, before int64, limit int) (page []store.AuditRow, err error) {
	where, args := `id < ?`, []any{before}
	if before == 0 {
		where, args = `id > ?`, []any{int64(0)}
	}
	if operator != "" {
		where, args = where+` AND operator = ?`, append(args, operator)
	}
	err = s.asked.viewEach(`SELECT id, time, operator, method, path, target, account_id, key_id, status FROM audit WHERE `+where+
		` ORDER BY id DESC LIMIT ?`, func(r row) error {
		page = append(page, store.AuditRow{ID: r.num(0), Time: r.time(1), Operator: r.text(2), Method: r.text(3), Path: r.text(4),
			Target: r.text(5), AccountID: r.text(6), KeyID: r.text(7), Status: r.num(8)})
		return nil
	}, append(args, int64(min(max(limit, 1), store.EntriesMax)))...)
	return page, wrapped(err, "read the audit")
}

// ErrUnmerged means that a database cannot be read as it lies, and that what a crash left in its WAL may make it whole.
var ErrUnmerged = errors.New("what a crash left in the WAL is not in the database")

// LastBackup is when a call of path made a backup, as the audit of a folder says that no node uses; zero is never.
// Nothing is written, no schema brought up to date and no lock taken. What a crash left in the WAL is not seen.
// An error says that the database cannot be opened; with ErrUnmerged, that it perhaps can.
func LastBackup(dir, path string) (at time.Time, err error) {
	file := filepath.Join(dir, DatabaseName)
	db, err := sqlite3.OpenFlags(fileURI(file, "immutable=1"), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return at, err
	}
	c := &conn{db: db, stmts: map[string]*statement{}, done: func() {}}
	newest, err := c.lastBackup(path)
	if newest > 0 {
		at = rules.ToTime(newest)
	}
	if wal, statErr := os.Stat(file + "-wal"); errors.Is(err, sqlite3.CORRUPT) && statErr == nil && wal.Size() > 0 {
		err = fmt.Errorf("%w: %w", ErrUnmerged, err)
	}
	return at, errors.Join(err, c.close())
}

// lastBackup is 0 in a schema without an audit, and refuses one that this binary does not know.
func (c *conn) lastBackup(path string) (newest int64, err error) {
	version, err := c.number(`PRAGMA user_version`)
	if err == nil {
		err = wantKnown(version, len(migrations()))
	}
	audits := int64(0)
	if err == nil {
		audits, err = c.number(`SELECT count(*) FROM sqlite_schema WHERE name = 'audit'`)
	}
	if err != nil || audits == 0 {
		return 0, err
	}
	// The last row, and not the latest time: the clock may have been ahead before.
	return c.number(`SELECT time FROM audit WHERE path = ? AND status = 201 ORDER BY id DESC LIMIT 1`, path)
}
