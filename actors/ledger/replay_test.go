package ledger

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/system"
)

// countingSpill counts how many batches of the journal are read.
type countingSpill struct {
	ledgertest.Spill
	reads atomic.Int64
}

func (s *countingSpill) Batches(n int, put func([]account.Entry) (int, error)) error {
	return s.Spill.Batches(n, func(batch []account.Entry) (int, error) {
		s.reads.Add(1)
		return put(batch)
	})
}

// TestOutageDoesNotReadTheJournalEachTime: a long outage costs each row one
// write, and a try of the store one batch, not a read of all rows before it.
func TestOutageDoesNotReadTheJournalEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{}, &countingSpill{Spill: ledgertest.Spill{RoomFor: 10_000}}
		_, ref := start(t, Config{Spill: s, BatchMax: 64}, m)
		m.failing.Store(true)
		const rows, each = 2000, time.Millisecond
		for i := range rows {
			if c := put(ref, account.Settlement, fmt.Sprint(i), -1); c.Err != nil {
				t.Fatalf("row %d: %+v", i, c)
			}
			time.Sleep(each)
		}
		if n := s.reads.Load(); n > 5 {
			t.Errorf("%d batches of the journal were read in an outage of %v", n, rows*each)
		}
		m.failing.Store(false)
		time.Sleep(10 * time.Second)
		if s.Rows() != 0 || m.count(account.Settlement, "0") != 1 {
			t.Errorf("%d rows left after the outage", s.Rows())
		}
	})
}

// once fails for each row that the store does not have exactly once.
func once(t *testing.T, m *memory, kind account.EntryKind, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if n := m.count(kind, id); n != 1 {
			t.Errorf("the store has the %s of %s %d times, want once", kind, id, n)
		}
	}
}

// spilledIDs are the requests whose checkpoints inOutage leaves in the journal.
var spilledIDs = []string{"1", "2", "3", "4", "5"}

// inOutage runs a ledger that spilled a checkpoint of each of spilledIDs. The store still fails.
func inOutage(t *testing.T, m *memory, cfg Config) (*Log, *system.Ref, *ledgertest.Spill) {
	s := &ledgertest.Spill{RoomFor: 100}
	cfg.Spill, cfg.BatchMax, cfg.SlowAfter = s, 2, time.Second
	l, ref := start(t, cfg, m)
	m.failing.Store(true)
	for _, id := range spilledIDs {
		if c := put(ref, account.Checkpoint, id, 0); c.Err != nil {
			t.Fatalf("checkpoint %s: %+v", id, c)
		}
	}
	return l, ref, s
}

// TestReplayGoesOnBehindWhatWasTaken: what a store takes of the journal, in time or late, it is
// not given again: it would write checkpoints with each try, and get no further when it is slow.
func TestReplayGoesOnBehindWhatWasTaken(t *testing.T) {
	t.Run("a slow store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			l, ref, s := inOutage(t, m, Config{})
			m.mu.Lock()
			m.delay = 3 * time.Second
			m.mu.Unlock()
			m.failing.Store(false)
			time.Sleep(5 * time.Second)
			if c := put(ref, account.Checkpoint, "6", 0); c.Err != nil { // behind the others
				t.Errorf("checkpoint: %+v", c)
			}
			time.Sleep(time.Minute)
			if st := l.Stats(); st.Spilled != 0 || s.Rows() != 0 {
				t.Errorf("%+v, %d rows are left", st, s.Rows())
			}
			put(ref, account.Checkpoint, "7", 0) // slow, with nothing in the journal
			put(ref, account.Checkpoint, "8", 0) // not given meanwhile
			time.Sleep(time.Minute)
			once(t, m, account.Checkpoint, append(slices.Clone(spilledIDs), "6", "7", "8")...)
			if s.Rows() != 0 {
				t.Errorf("%d rows are left", s.Rows())
			}
		})
	})
	t.Run("a batch behind fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{poison: "4"}
			_, _, s := inOutage(t, m, Config{})
			m.failing.Store(false)
			time.Sleep(time.Minute)
			once(t, m, account.Checkpoint, "1", "2")
			m.mu.Lock()
			m.poison = ""
			m.mu.Unlock()
			time.Sleep(10 * time.Second)
			once(t, m, account.Checkpoint, spilledIDs...)
			if s.Rows() != 0 {
				t.Errorf("%d rows are left", s.Rows())
			}
		})
	})
	t.Run("a slow store rejects a row", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, out := &memory{poison: "2"}, 0
			_, _, s := inOutage(t, m, Config{Rejects: func(err error) bool { return err.Error() == "bad row" },
				Failed: func(err error, _ int) {
					if strings.Contains(err.Error(), "left out") {
						out++
					}
				}})
			m.mu.Lock()
			m.delay = 3 * time.Second
			m.mu.Unlock()
			m.failing.Store(false)
			time.Sleep(2 * time.Minute)
			once(t, m, account.Checkpoint, "1", "3", "4", "5")
			if s.Rows() != 0 || out != 1 {
				t.Errorf("%d rows are left, %d were left out, want 1", s.Rows(), out)
			}
		})
	})
}
