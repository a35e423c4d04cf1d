package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
)

var (
	errBehind = errors.New("ledger: the store does not have all rows yet")
	errSlow   = errors.New("ledger: the store takes too long")
	errRoom   = errors.New("ledger: the spill journal has no room for what open requests may settle")
)

// keptRows is how many rows of an open request the ledger may not refuse: a
// settlement and a refund.
const keptRows = 2

// rowBytesMax is the most that one row takes in the spill journal.
const rowBytesMax = 2 << 10

// outcome is what became of a transaction. rows is how many rows it has that stand in the spill
// journal, from the next one that Batches gives.
type outcome struct {
	verdicts []limit.Verdict
	err      error
	rows     int
}

// slow is a transaction that took the store longer than SlowAfter.
type slow struct {
	rows int // as in outcome
}

// write gives a batch to the store, made of those items, after all rows of the spill journal. If the store
// fails, it writes the rows to the journal, and nothing is decided.
func (l *Log) write(b limit.Batch, of []item, d *decisions) (err error) {
	asked := l.behind.Load() > 0 || !isEmpty(b)
	if l.cfg.Spill == nil {
		d.verdicts, d.err = l.put(b)
		d.maybe = d.err != nil
	} else if d.err = l.replay(); d.err == nil {
		d.verdicts, d.maybe, d.err = l.putWithTimeout(b)
	}
	switch {
	case d.err == nil:
		if asked {
			l.worked()
		}
		return nil
	case l.cfg.Rejects(d.err):
		d.maybe = false // the store said so, and wrote nothing: it works
		l.worked()
		return d.err
	case l.cfg.Spill == nil:
		return d.err
	}
	l.cause = d.err
	if err = l.spill(batchOf(of).Rows, d.err); err == nil && d.maybe && l.stuck != nil {
		l.stuck.rows = len(b.Rows) // it was asked, so the journal was empty
	}
	return err
}

// free says whether the store may be asked: not while a slow transaction goes on. What became
// of one that has ended is late, for the rows of the journal, or the reason why it failed.
func (l *Log) free() bool {
	if l.stuck == nil {
		return true
	}
	select {
	case late := <-l.ends:
		l.reason = nil
		if late.err == nil || l.cfg.Rejects(late.err) {
			l.late = outcome{err: late.err, rows: l.stuck.rows}
		} else {
			l.reason = late.err
		}
		l.stuck = nil
		return true
	default:
		return false
	}
}

// tooSlow says that the store takes too long, and why the last one failed that did: nobody waited for that.
func (l *Log) tooSlow() error {
	if l.reason == nil {
		return errSlow
	}
	return fmt.Errorf("%w; a transaction before ended with: %w", errSlow, l.reason)
}

// putWithTimeout gives a batch to the store, whose it is from then on, and waits at most SlowAfter. A call that
// takes longer goes on in the background; until it ends the store gets no other call, and
// asked is false. Its rows are in the journal meanwhile. If it succeeds after all, the next
// replay goes on behind them.
func (l *Log) putWithTimeout(b limit.Batch) (verdicts []limit.Verdict, asked bool, err error) {
	if !l.free() {
		return nil, false, l.tooSlow()
	}
	if isEmpty(b) {
		return nil, true, nil
	}
	l.asking.do(func() {
		defer func() {
			if r := recover(); r != nil {
				l.ends <- outcome{err: fmt.Errorf("store panicked: %v", r)}
			}
		}()
		verdicts, err := l.put(b)
		l.ends <- outcome{verdicts: verdicts, err: err}
	})
	timer := time.NewTimer(l.cfg.SlowAfter)
	defer timer.Stop()
	select {
	case is := <-l.ends:
		return is.verdicts, true, is.err
	case <-timer.C:
		l.stuck = new(slow)
		return nil, true, l.tooSlow()
	}
}

// replay writes the rows of the spill journal to the store and empties the journal. It
// leaves out a row that the store rejects for what it says, and goes on behind what the store
// has. A store that is still away costs the read of one batch; even so, in an outage not every
// commit tries it.
func (l *Log) replay() (err error) {
	if l.behind.Load() == 0 {
		return nil
	}
	if time.Since(l.replayed) < l.cfg.RetryMax/8 {
		return l.cause
	}
	defer func() { l.replayed = time.Now() }()
	if !l.free() {
		return l.tooSlow()
	}
	if err = l.cfg.Spill.Batches(l.cfg.BatchMax, l.replayBatch); err == nil {
		err = l.cfg.Spill.Reset()
	}
	if err == nil {
		l.behind.Store(0)
	}
	return err
}

// replayBatch gives the store rows of the spill journal, and says how many it has. A transaction
// that ended late answers for its rows.
func (l *Log) replayBatch(batch []account.Entry) (taken int, err error) {
	late, n := l.late, min(l.late.rows, len(batch))
	if n > 0 && late.err == nil {
		l.late.rows -= n
		return n, nil
	}
	l.late = outcome{}
	if n == 0 || n < late.rows { // nobody knows which part is rejected
		return Replay(batch, l.cfg.BatchMax, l.appendSpilled, l.cfg.Rejects, l.leftOut)
	}
	answered := false
	return Replay(batch[:n], l.cfg.BatchMax, func(rows []account.Entry) error {
		if answered {
			return l.appendSpilled(rows)
		}
		answered = true
		return late.err
	}, l.cfg.Rejects, l.leftOut)
}

// appendSpilled is putWithTimeout of rows that the journal gives next.
func (l *Log) appendSpilled(rows []account.Entry) error {
	rows = slices.Clone(rows) // the store writes ids into them
	_, _, err := l.putWithTimeout(limit.Batch{Rows: rows})
	if l.stuck != nil { // it was asked: the first batch is given when nothing is on its way, and none after one that takes too long
		l.stuck.rows = len(rows)
	}
	return err
}

// Replay appends spilled rows in order, batchMax in one transaction. The rows of a
// transaction share the pages that they change. With a transaction for each row the
// write-ahead log would need sixteen times the journal's size, on a disk that was just
// full. When a batch is rejected, Replay tries each of its rows alone and calls leftOut
// for those that are rejected again. It returns any other error, and how many rows from the
// first one are done with.
func Replay(entries []account.Entry, batchMax int, appendRows func([]account.Entry) error, rejects func(error) bool,
	leftOut func(account.Entry, error)) (done int, err error) {
	for batch := range slices.Chunk(entries, batchMax) {
		err := appendRows(batch)
		switch {
		case err == nil:
		case !rejects(err):
			return done, err
		case len(batch) == 1:
			leftOut(batch[0], err)
		default:
			if n, err := Replay(batch, 1, appendRows, rejects, leftOut); err != nil {
				return done + n, err
			}
		}
		done += len(batch)
	}
	return done, nil
}

// spill writes rows to the journal. It refuses a batch that opens requests unless the
// journal also has room for what all open requests may settle.
func (l *Log) spill(entries []account.Entry, cause error) error {
	if len(entries) == 0 { // reads, which get their own error
		if l.behind.Load() > 0 {
			l.lasts(cause)
		}
		return nil
	}
	opens := slices.ContainsFunc(entries, func(e account.Entry) bool { return !e.Kept() })
	if opens && l.cfg.Spill.Room() < int64(len(entries)+keptRows*l.cfg.Open())*rowBytesMax {
		return fmt.Errorf("%w: %w", errRoom, cause)
	}
	if err := l.cfg.Spill.Append(entries); err != nil {
		return errors.Join(err, cause)
	}
	l.behind.Store(int64(l.cfg.Spill.Rows()))
	l.failed(l.inJournal(cause))
	return nil
}

// Room says whether another request may open. In an outage the spill journal must have
// room for a hold, a checkpoint and the kept rows of this and of each open request.
func (l *Log) Room() bool {
	if l.behind.Load() == 0 {
		return true
	}
	return l.cfg.Spill.Room() >= (2+keptRows)*int64(1+l.cfg.Open())*rowBytesMax
}

// leftOut reports a row that the store rejects, with all that an operator needs to
// enter its amount by hand.
func (l *Log) leftOut(e account.Entry, err error) {
	kind := string(e.Kind)
	if e.Refund {
		kind = "refund"
	}
	l.rowFailed(fmt.Errorf("a row is left out: %s of request %s, account %s, %d nano-dollars: %w",
		kind, e.RequestID, e.AccountID, e.Amount, err))
}

// rowFailed counts a failure that is about a row, and reports it.
func (l *Log) rowFailed(err error) {
	l.failures.Add(1)
	if l.cfg.Failed != nil {
		l.cfg.Failed(err, 1)
	}
}

func (l *Log) inJournal(cause error) error {
	return fmt.Errorf("%d rows are in the spill journal: %w", l.behind.Load(), cause)
}

// failed counts a failure of the store, and reports the first of an outage and few others.
func (l *Log) failed(err error) {
	l.failures.Add(1)
	if n, tell := l.said.Failed(time.Now()); tell && l.cfg.Failed != nil {
		l.cfg.Failed(err, n)
	}
}

// lasts reports at times that the store does not take the rows of the journal, also while nothing else asks for it.
func (l *Log) lasts(cause error) {
	if n, tell := l.said.Lasts(time.Now()); tell && l.cfg.Failed != nil {
		l.cfg.Failed(l.inJournal(cause), n)
	}
}

// worked says that the store has all rows. It ends an outage.
func (l *Log) worked() {
	l.reason = nil
	if n, tell := l.said.Worked(time.Now()); tell && l.cfg.Recovered != nil {
		l.cfg.Recovered(n)
	}
}
