package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/actors/account"
)

var (
	errBehind = errors.New("ledger: the store does not have all rows yet")
	errSlow   = errors.New("ledger: the store takes too long")
	errRoom   = errors.New("ledger: the spill journal has no room for what open requests may settle")
)

// keptRows is how many rows an open request may need that the ledger never
// refuses: a settlement and a refund.
const keptRows = 2

// rowBytesMax is what one row may take in the spill journal.
const rowBytesMax = 2 << 10

// write makes rows durable: in the store or, while that fails, in the spill
// journal. Rows that wait there go to the store first.
func (l *Log) write(entries []account.Entry) error {
	if l.cfg.Spill == nil {
		return l.append(entries)
	}
	err := l.replay()
	if err == nil {
		err = l.appendWithTimeout(entries)
	}
	if err == nil || l.cfg.Rejects(err) {
		return err
	}
	return l.spill(entries, err)
}

// append asks the store; without rows there is nothing to ask.
func (l *Log) append(entries []account.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return l.store.Append(entries)
}

// appendWithTimeout asks the store for as long as SlowAfter. A call that takes longer
// goes on alone; until it ends the store gets nothing else. Should it succeed in
// the end, its rows are there twice: the store ignores those of the journal.
func (l *Log) appendWithTimeout(entries []account.Entry) error {
	if l.stuck != nil {
		select {
		case <-l.stuck:
			l.stuck = nil
		default:
			return errSlow
		}
	}
	if len(entries) == 0 {
		return nil
	}
	own := slices.Clone(entries) // the store writes ids into them
	done, result := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				result <- fmt.Errorf("store panicked: %v", r)
			}
		}()
		result <- l.store.Append(own)
	}()
	timer := time.NewTimer(l.cfg.SlowAfter)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		l.stuck = done
		return errSlow
	}
}

// replay brings what was spilled to the store and empties the journal. A row
// that the store rejects, which it would have rejected then, is left out. It
// reads the whole journal, so in an outage it is not tried with every commit.
func (l *Log) replay() (err error) {
	if l.behind.Load() == 0 {
		return nil
	}
	if time.Since(l.replayed) < l.cfg.RetryMax/8 {
		return errBehind
	}
	defer func() { l.replayed = time.Now() }()
	entries, err := l.cfg.Spill.Entries()
	if err == nil {
		err = Replay(entries, l.cfg.BatchMax, l.appendWithTimeout, l.cfg.Rejects, l.leftOut)
	}
	if err == nil {
		err = l.cfg.Spill.Reset()
	}
	if err == nil {
		l.behind.Store(0)
	}
	return err
}

// Replay appends spilled rows in order, batchMax in a transaction: rows of one
// share the pages that they write, and one by one they would need sixteen times
// the journal's size in the write-ahead log, on a disk that was just full. Of a
// batch that is rejected each row is tried by itself, and those that are
// rejected then are told to leftOut. Any other error ends it.
func Replay(entries []account.Entry, batchMax int, appendRows func([]account.Entry) error, rejects func(error) bool, leftOut func(account.Entry, error)) error {
	for batch := range slices.Chunk(entries, batchMax) {
		err := appendRows(batch)
		if err == nil {
			continue
		}
		if !rejects(err) {
			return err
		}
		if len(batch) == 1 {
			leftOut(batch[0], err)
			continue
		}
		if err := Replay(batch, 1, appendRows, rejects, leftOut); err != nil {
			return err
		}
	}
	return nil
}

// spill writes rows to the journal. A batch that opens requests is refused when
// what all open ones may settle would not fit beside it.
func (l *Log) spill(entries []account.Entry, cause error) error {
	if len(entries) == 0 {
		return nil // a read; it is told by itself
	}
	opens := slices.ContainsFunc(entries, func(e account.Entry) bool { return !e.Kept() })
	if opens && l.cfg.Spill.Room() < int64(len(entries)+keptRows*l.cfg.Open())*rowBytesMax {
		return fmt.Errorf("%w: %w", errRoom, cause)
	}
	if err := l.cfg.Spill.Append(entries); err != nil {
		return errors.Join(err, cause)
	}
	l.behind.Store(int64(l.cfg.Spill.Rows()))
	l.failed(fmt.Errorf("%d rows are in the spill journal: %w", l.behind.Load(), cause))
	return nil
}

// Room says whether another request may open: in an outage the spill journal must
// hold, for it and for all that are open, a hold, a checkpoint and the kept rows.
func (l *Log) Room() bool {
	if l.behind.Load() == 0 {
		return true
	}
	return l.cfg.Spill.Room() >= (2+keptRows)*int64(1+l.cfg.Open())*rowBytesMax
}

// leftOut tells of a row that the store rejects: an operator who wants its
// amount in the books must be able to bring it there.
func (l *Log) leftOut(e account.Entry, err error) {
	kind := string(e.Kind)
	if e.Refund {
		kind = "refund"
	}
	l.failed(fmt.Errorf("a row is left out: %s of request %s, account %s, %d nano-dollars: %w", kind, e.RequestID, e.AccountID, e.Amount, err))
}

// failed counts a failure and tells whoever wants to know.
func (l *Log) failed(err error) {
	l.failures.Add(1)
	if l.cfg.Failed != nil {
		l.cfg.Failed(err)
	}
}
