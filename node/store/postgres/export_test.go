package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// SetClock replaces the clock.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// SetDatabaseClock replaces the database's clock.
func (s *Store) SetDatabaseClock(now func() time.Time) { s.clock = now }

// Exec runs SQL past the store.
func (s *Store) Exec(sql string) error {
	_, err := s.pool.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// count reads one number past the store.
func (s *Store) count(sql string) (n int64, err error) {
	err = s.pool.QueryRow(context.Background(), sql).Scan(&n)
	return n, err
}
