// Package ledgertest is a spill journal for tests of what stands on the ledger.
package ledgertest

import (
	"errors"
	"slices"
	"sync"

	"corenode/actors/account"
)

// Spill is a journal in memory.
type Spill struct {
	RoomFor int  // rows
	Broken  bool // refuses all rows
	Peak    int  // rows, the most that it had
	Resets  int

	mu    sync.Mutex // guards what changes, here and above
	rows  []account.Entry
	given int // rows, behind which Batches goes on
}

// Append takes rows for which there is room.
func (s *Spill) Append(entries []account.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Broken || len(s.rows)+len(entries) > s.RoomFor {
		return errors.New("no room")
	}
	s.rows = append(s.rows, entries...)
	s.Peak = max(s.Peak, len(s.rows))
	return nil
}

// Batches gives the rows, at most n at once, behind those that were taken before.
func (s *Spill) Batches(n int, put func([]account.Entry) (int, error)) error {
	s.mu.Lock()
	rows := slices.Clone(s.rows)
	s.mu.Unlock()
	for s.given < len(rows) {
		taken, err := put(rows[s.given:min(s.given+n, len(rows))])
		if s.given += taken; err != nil {
			return err
		}
	}
	return nil
}

// Reset forgets all rows.
func (s *Spill) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.given, s.Resets = nil, 0, s.Resets+1
	return nil
}

// Rows is how many there are.
func (s *Spill) Rows() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Room is in bytes, of which the ledger reckons 2 KiB for a row.
func (s *Spill) Room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.RoomFor-len(s.rows)) << 11
}
