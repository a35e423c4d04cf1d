package sqlite

import (
	"strings"
	"time"
)

// SetClock replaces the clock.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// Exec runs SQL past the store.
func (s *Store) Exec(sql string) error {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	return s.write.db.Exec(sql)
}

// FillUsage makes the sums of usage anew, by the migration that made their table.
func (s *Store) FillUsage() error {
	for _, script := range migrations() {
		if strings.Contains(script, "CREATE TABLE usage") {
			return s.Exec(`DROP TABLE usage; DROP INDEX ledger_time; ` + script)
		}
	}
	panic("no migration makes the table")
}
