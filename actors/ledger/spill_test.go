package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// put sends a row and returns its fate.
func put(ref *system.Ref, kind account.EntryKind, id string, amount abi.Nano) Commit {
	a, done := row(kind, id, amount)
	_ = ref.Send(a)
	return <-done
}

// balance reads through the ledger.
func balance(ref *system.Ref) Balance {
	got := make(chan Balance, 1)
	_ = ref.Send(Read{AccountID: "a", Done: func(b Balance) { got <- b }})
	return <-got
}

// TestOutage: while the store is gone rows are durable in the journal and
// nothing is read; when it is back it has every row once, in order, and reads
// see them all.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{}, &ledgertest.Spill{RoomFor: 100}
		l, ref := start(t, Config{Spill: s}, m)
		put(ref, account.TopUp, "t", 100)
		m.failing.Store(true)
		for _, id := range []string{"1", "2", "3"} {
			if c := put(ref, account.Hold, id, 0); c.Err != nil {
				t.Errorf("hold %s: %+v", id, c)
			}
			if c := put(ref, account.Settlement, id, -10); c.Err != nil {
				t.Errorf("settlement %s: %+v", id, c)
			}
		}
		if b := balance(ref); !errors.Is(b.Err, errBehind) {
			t.Errorf("read in the outage: %+v", b)
		}
		if st := l.Stats(); st.Spilled != 6 || m.count(account.Settlement, "1") != 0 {
			t.Errorf("in the outage: %+v", st)
		}
		m.failing.Store(false)
		time.Sleep(10 * time.Second) // nothing asks for the store; it is tried all the same
		if st := l.Stats(); st.Spilled != 0 || s.Rows() != 0 || s.Resets != 1 {
			t.Errorf("after the outage: %+v, %d rows left", st, s.Rows())
		}
		if b := balance(ref); b.Err != nil || b.Balance != 70 {
			t.Errorf("read after the outage: %+v", b)
		}
		var order []string
		for _, batch := range m.batches {
			for _, e := range batch {
				order = append(order, string(e.Kind)+e.RequestID)
			}
		}
		if want := []string{"topupt", "hold1", "settlement1", "hold2", "settlement2", "hold3", "settlement3"}; !slices.Equal(order, want) {
			t.Errorf("the store has %v, want %v", order, want)
		}
	})
}

// TestOutageWithoutRoom: what open requests may settle keeps its room: new
// requests are refused before, settlements never.
func TestOutageWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s, open := &memory{}, &ledgertest.Spill{RoomFor: 10}, 0
		_, ref := start(t, Config{Spill: s, Open: func() int { return open }}, m)
		m.failing.Store(true)
		for i := 0; ; i++ {
			open++
			if c := put(ref, account.Hold, string(rune('a'+i)), 0); c.Err != nil {
				open--
				if c.Err.Kind != abi.Overloaded {
					t.Errorf("refused with %+v", c.Err)
				}
				break
			}
		}
		if open < 2 || open+s.Rows() > 10 {
			t.Fatalf("%d requests were let in, %d rows are spilled, room for 10", open, s.Rows())
		}
		for i := range open {
			if c := put(ref, account.Settlement, string(rune('a'+i)), -1); c.Err != nil {
				t.Errorf("settlement %d: %+v", i, c)
			}
		}
		m.failing.Store(false)
		time.Sleep(time.Minute)
		if s.Rows() != 0 || m.count(account.Settlement, "a") != 1 {
			t.Errorf("%d rows are left after the outage", s.Rows())
		}
	})
}

// TestSlowStore: a transaction that hangs delays nobody for longer than
// SlowAfter, and its rows are not doubled when it comes back after all.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{delay: 30 * time.Second}, &ledgertest.Spill{RoomFor: 100}
		l, ref := start(t, Config{Spill: s, SlowAfter: time.Second}, m)
		began := time.Now()
		if c := put(ref, account.Hold, "1", 0); c.Err != nil || time.Since(began) != time.Second {
			t.Errorf("hold: %+v after %v", c, time.Since(began))
		}
		if c := put(ref, account.Settlement, "1", -5); c.Err != nil || time.Since(began) != time.Second {
			t.Errorf("settlement behind it: %+v after %v", c, time.Since(began))
		}
		m.mu.Lock()
		m.delay = 0
		m.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if st := l.Stats(); st.Spilled != 0 || m.count(account.Settlement, "1") != 1 {
			t.Errorf("after all: %+v, %d settlements", st, m.count(account.Settlement, "1"))
		}
		if n := m.count(account.Hold, "1"); n != 1 {
			t.Errorf("%d holds", n)
		}
	})
}

// TestRejectedRowsAreNotSpilled: a row that the store will never take is the
// caller's fault, in an outage as without one.
func TestRejectedRowsAreNotSpilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{poison: "bad"}, &ledgertest.Spill{RoomFor: 100}
		_, ref := start(t, Config{Spill: s, Rejects: func(err error) bool { return err.Error() == "bad row" }}, m)
		if c := put(ref, account.Hold, "bad", 0); c.Err == nil || s.Rows() != 0 {
			t.Errorf("rejected: %+v, %d rows spilled", c, s.Rows())
		}
		m.failing.Store(true)
		put(ref, account.Hold, "bad", 0) // nobody can tell now
		put(ref, account.Hold, "good", 0)
		m.failing.Store(false)
		time.Sleep(time.Minute)
		if s.Rows() != 0 || m.count(account.Hold, "good") != 1 || m.count(account.Hold, "bad") != 0 {
			t.Errorf("%d rows left, good %d, bad %d", s.Rows(), m.count(account.Hold, "good"), m.count(account.Hold, "bad"))
		}
	})
}

// TestBrokenJournal: with store and journal gone it is as without a journal.
func TestBrokenJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{}, &ledgertest.Spill{RoomFor: 100, Broken: true}
		_, ref := start(t, Config{Spill: s}, m)
		m.failing.Store(true)
		if c := put(ref, account.Hold, "1", 0); c.Err == nil {
			t.Errorf("a hold that is nowhere: %+v", c)
		}
		a, done := row(account.Settlement, "2", -5)
		_ = ref.Send(a)
		time.Sleep(time.Minute)
		m.failing.Store(false)
		if c := <-done; c.Err != nil || m.count(account.Settlement, "2") != 1 {
			t.Errorf("settlement: %+v", c)
		}
	})
}

// TestReplayAfterRefusal: the replay is asked for again also when the commit that
// it waited behind failed, and nothing else is sent.
func TestReplayAfterRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{delay: time.Second}, &ledgertest.Spill{RoomFor: 1}
		_, ref := start(t, Config{Spill: s, SlowAfter: time.Minute}, m)
		m.failing.Store(true)
		put(ref, account.Settlement, "1", -5)
		time.Sleep(time.Second) // the replay comes while the hold is being committed
		if c := put(ref, account.Hold, "2", 0); c.Err == nil || s.Rows() != 1 {
			t.Errorf("a hold without room: %+v, %d rows spilled", c, s.Rows())
		}
		m.failing.Store(false)
		time.Sleep(time.Minute)
		if s.Rows() != 0 || m.count(account.Settlement, "1") != 1 {
			t.Errorf("%d rows are left after the outage", s.Rows())
		}
	})
}

// TestOutageIsToldOf: of a long outage few words are said, each with what the store said, and one when it is over: when
// the journal is empty again, and without one when the store takes a row.
func TestOutageIsToldOf(t *testing.T) {
	for _, spills := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var told []string
			m, cfg, failed := &memory{}, Config{RetryMin: time.Millisecond, RetryMax: 5 * time.Second}, 0
			cfg.Failed = func(err error, failures int) {
				told = append(told, err.Error())
				failed += failures
			}
			cfg.Recovered = func(failures int) {
				told = append(told, "over")
				failed += failures
			}
			if spills {
				cfg.Spill = &ledgertest.Spill{RoomFor: 100}
			}
			l, ref := start(t, cfg, m)
			put(ref, account.Hold, "before", 0)
			m.failing.Store(true)
			for i := range 100 {
				put(ref, account.Hold, fmt.Sprint(i), 0)
				time.Sleep(150 * time.Millisecond)
				balance(ref) // a read asks the store for no row: it says nothing of it
			}
			m.failing.Store(false)
			time.Sleep(20 * time.Second)
			put(ref, account.Hold, "behind", 0)
			synctest.Wait()
			if len(told) != 3 || told[2] != "over" {
				t.Fatalf("spills %v: it said %q, want two failures and the end", spills, told)
			}
			for _, line := range told[:2] {
				if !strings.Contains(line, "disk full") || strings.Contains(line, errBehind.Error()) ||
					strings.Contains(line, "journal") != spills {
					t.Errorf("spills %v: it said %q, want why", spills, line)
				}
			}
			if all := l.Stats().Failures; failed != 100 || all != 100 {
				t.Errorf("spills %v: it said that %d transactions failed, and counted %d, want 100", spills, failed, all)
			}
		})
	}
}

// TestRejectedRowEndsAnOutage: a store that rejects a row works.
func TestRejectedRowEndsAnOutage(t *testing.T) {
	for _, spill := range []Spill{nil, &ledgertest.Spill{RoomFor: 100}} {
		synctest.Test(t, func(t *testing.T) {
			over := 0
			m := &memory{poison: "bad"}
			_, ref := start(t, Config{Spill: spill, RetryMin: time.Millisecond, RetryMax: 5 * time.Second, Recovered: func(int) { over++ },
				Rejects: func(err error) bool { return err.Error() == "bad row" }}, m)
			m.failing.Store(true)
			put(ref, account.Hold, "1", 0)
			m.failing.Store(false)
			put(ref, account.Settlement, "bad", -1)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if over != 1 {
				t.Errorf("spills %v: the outage ended %d times", spill != nil, over)
			}
		})
	}
}

// TestOutageIsToldOfWithoutRows: an outage that begins right after another is told of although nothing is asked for
// meanwhile, and once each outage.Every. Only what failed is counted.
func TestOutageIsToldOfWithoutRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		m, began := &memory{}, time.Now()
		tell := func(what string, failures int) {
			told = append(told, fmt.Sprintf("%ds %s %d", int(time.Since(began).Seconds()), what, failures))
		}
		cfg := Config{Spill: &ledgertest.Spill{RoomFor: 100}, RetryMax: 4 * time.Second}
		cfg.Failed = func(err error, failures int) { tell(err.Error(), failures) }
		cfg.Recovered = func(failures int) { tell("over", failures) }
		l, ref := start(t, cfg, m)
		for _, id := range []string{"1", "2"} {
			m.failing.Store(true)
			put(ref, account.Settlement, id, -1)
			time.Sleep(500 * time.Millisecond)
			if id == "1" {
				m.failing.Store(false)
				time.Sleep(2 * time.Second)
			}
		}
		time.Sleep(23 * time.Second)
		m.failing.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		const fails = "1 rows are in the spill journal: disk full"
		want := []string{"0s " + fails + " 1", "1s over 0", "10s " + fails + " 1", "20s " + fails + " 0", "26s over 0"}
		if !slices.Equal(told, want) {
			t.Errorf("it said %q, want %q", told, want)
		}
		if n := l.Stats().Failures; n != 2 {
			t.Errorf("it counted %d failures, want 2", n)
		}
	})
}

// TestOutageSaysWhyLate: a store that takes too long has its reason in the log once it has said it, and no more once it
// has worked, in time or late.
func TestOutageSaysWhyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		m, cfg := &memory{delay: 3 * time.Second}, Config{Spill: &ledgertest.Spill{RoomFor: 100}}
		cfg.Failed = func(err error, _ int) {
			said := slices.DeleteFunc([]string{"too long", "disk full"}, func(why string) bool { return !strings.Contains(err.Error(), why) })
			told = append(told, strings.Join(said, ", "))
		}
		cfg.Recovered = func(int) { told = append(told, "over") }
		_, ref := start(t, cfg, m)
		stall := func(delay time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.delay = delay
		}
		m.failing.Store(true)
		put(ref, account.Settlement, "1", -1)
		time.Sleep(15 * time.Second)
		stall(0)
		time.Sleep(3 * time.Second) // the one that is slow fails too
		m.failing.Store(false)
		time.Sleep(10 * time.Second)
		stall(3 * time.Second)
		put(ref, account.Settlement, "in time", -1)
		time.Sleep(10 * time.Second)
		m.failing.Store(true)
		put(ref, account.Settlement, "2", -1)
		time.Sleep(15 * time.Second)
		m.failing.Store(false)
		for i := range 10 {
			put(ref, account.Settlement, fmt.Sprint("late ", i), -1)
			time.Sleep(1100 * time.Millisecond) // no put begins in the moment in which a transaction ends
		}
		synctest.Wait()
		const no, yes, over = "too long", "too long, disk full", "over"
		if want := []string{no, yes, over, no, over, no, yes, no, no}; !slices.Equal(told, want) {
			t.Errorf("it said %q, want %q", told, want)
		}
	})
}
