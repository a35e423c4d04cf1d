package ledger

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
)

// countingSpill counts how many batches of the journal are read.
type countingSpill struct {
	fakeSpill
	reads int
}

func (s *countingSpill) Batches(n int, put func([]account.Entry) error) error {
	return s.fakeSpill.Batches(n, func(batch []account.Entry) error {
		s.mu.Lock()
		s.reads++
		s.mu.Unlock()
		return put(batch)
	})
}

// TestOutageDoesNotReadTheJournalEachTime: a long outage costs each row one
// write, and a try of the store one batch, not a read of all rows before it.
func TestOutageDoesNotReadTheJournalEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{}, &countingSpill{fakeSpill: fakeSpill{roomFor: 10_000}}
		_, ref := start(t, Config{Spill: s, BatchMax: 64}, m)
		m.failing.Store(true)
		const rows, each = 2000, time.Millisecond
		for i := range rows {
			if c := put(ref, account.Settlement, fmt.Sprint(i), -1); c.Err != nil {
				t.Fatalf("row %d: %+v", i, c)
			}
			time.Sleep(each)
		}
		s.mu.Lock()
		if s.reads > 5 {
			t.Errorf("%d batches of the journal were read in an outage of %v", s.reads, rows*each)
		}
		s.mu.Unlock()
		m.failing.Store(false)
		time.Sleep(10 * time.Second)
		if s.Rows() != 0 || m.count(account.Settlement, "0") != 1 {
			t.Errorf("%d rows left after the outage", s.Rows())
		}
	})
}
