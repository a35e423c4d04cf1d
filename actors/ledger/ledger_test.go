package ledger

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// memory is a store that can be told to fail, for one request or for all.
type memory struct {
	failing atomic.Bool
	panics  atomic.Bool // the next transaction does
	poison  string

	mu      sync.Mutex
	delay   time.Duration
	batches [][]account.Entry
	rows    map[string]int // by kind and request
	reading func()         // called by each read; may be nil
	sum     abi.Nano
}

func (m *memory) Append(entries []account.Entry) error {
	m.mu.Lock()
	delay := m.delay
	m.mu.Unlock()
	time.Sleep(delay)
	if m.panics.CompareAndSwap(true, false) {
		panic("store fault")
	}
	if m.failing.Load() {
		return errors.New("disk full")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if m.poison != "" && e.RequestID == m.poison {
			return errors.New("bad row")
		}
	}
	m.batches = append(m.batches, entries)
	for _, e := range entries {
		m.rows[string(e.Kind)+" "+e.RequestID]++
		m.sum += e.Amount
	}
	return nil
}

func (m *memory) Balance(string) (abi.Nano, abi.Nano, error) {
	if m.reading != nil {
		m.reading()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sum, 0, nil
}

func (m *memory) AccountHolds(string) ([]account.Entry, error) { return nil, nil }

func (m *memory) Counters(string) ([]account.CounterUse, error) { return nil, nil }

func (m *memory) KeysCharged(string, time.Time) ([]account.KeyUse, error) { return nil, nil }

func (m *memory) count(kind account.EntryKind, id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[string(kind)+" "+id]
}

// start runs a ledger in the bubble of the test.
func start(t *testing.T, cfg Config, m *memory) (*Log, *system.Ref) {
	m.rows = map[string]int{}
	l := NewLog(cfg, m)
	s := system.New(system.Config{})
	ref, err := s.Start(system.Spec{Name: "ledger", MailboxMax: 1000, New: func() system.Actor { return New(l) },
		Policy: system.Policy{FailuresMax: 10, Within: time.Minute, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		l.Wait()
	})
	return l, ref
}

func row(kind account.EntryKind, id string, amount abi.Nano) (Append, chan Commit) {
	done := make(chan Commit, 2)
	return Append{Entry: account.Entry{Kind: kind, AccountID: "a", RequestID: id, Amount: amount},
		Done: func(c Commit) { done <- c }}, done
}

// TestGroupCommit: what gathers during one transaction goes into the next, and
// everyone is answered with its commit.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond}
		l, ref := start(t, Config{BatchMax: 60}, m)
		var answers []chan Commit
		for i := range 101 {
			a, done := row(account.Hold, fmt.Sprint(i), 0)
			if err := ref.Send(a); err != nil {
				t.Fatal(err)
			}
			answers = append(answers, done)
			synctest.Wait()
		}
		for i, done := range answers {
			want := uint64(1 + (i+59)/60) // 1, then 60, then 40
			if c := <-done; c.Err != nil || c.Seq != want {
				t.Fatalf("row %d: %+v, want commit %d", i, c, want)
			}
		}
		if st := l.Stats(); st != (Stats{Commits: 3, Rows: 101, Busy: 3 * time.Millisecond}) {
			t.Errorf("stats %+v", st)
		}
	})
}

// TestFailure: rows that may be refused are refused at once; settlements stay,
// a poisoned one does not hold up the others, and each is in the store once.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond, poison: "bad"}
		_, ref := start(t, Config{}, m)
		m.failing.Store(true)
		first, held := row(account.Hold, "h1", 0)
		_ = ref.Send(first)
		synctest.Wait() // h1 is being committed, the rest waits
		var settled []chan Commit
		for _, id := range []string{"s1", "bad", "s2", "s3"} {
			a, done := row(account.Settlement, id, -1)
			_ = ref.Send(a)
			settled = append(settled, done)
		}
		second, untried := row(account.Hold, "h2", 0)
		_ = ref.Send(second)
		if c := <-held; c.Err == nil || c.Err.Kind != abi.Overloaded || c.Refused {
			t.Errorf("hold in the failed transaction: %+v", c)
		}
		if c := <-untried; c.Err == nil || !c.Refused {
			t.Errorf("hold behind it: %+v", c)
		}
		third, refused := row(account.Hold, "h3", 0)
		_ = ref.Send(third)
		if c := <-refused; c.Err == nil || !c.Refused {
			t.Errorf("hold while the store is failing: %+v", c)
		}
		time.Sleep(time.Minute)
		m.failing.Store(false)
		time.Sleep(time.Minute)
		for i, id := range []string{"s1", "s2", "s3"} {
			if n := m.count(account.Settlement, id); n != 1 {
				t.Errorf("settlement %s is there %d times", id, n)
			}
			if c := <-settled[[]int{0, 2, 3}[i]]; c.Err != nil {
				t.Errorf("settlement %s: %+v", id, c)
			}
		}
		m.mu.Lock()
		m.poison = ""
		m.mu.Unlock()
		time.Sleep(time.Minute)
		if c := <-settled[1]; c.Err != nil || m.count(account.Settlement, "bad") != 1 {
			t.Errorf("the poisoned one: %+v", c)
		}
	})
}

// TestRetriesBeginAnew: after an outage has ended, the next failure is tried again as soon as the first one ever was.
func TestRetriesBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond}
		_, ref := start(t, Config{RetryMin: time.Second, RetryMax: time.Hour}, m)
		for i, c := range []struct{ outage, wait time.Duration }{{time.Minute, time.Hour}, {10 * time.Millisecond, time.Second}} {
			id := fmt.Sprint("s", i)
			m.failing.Store(true)
			a, _ := row(account.Settlement, id, -1)
			_ = ref.Send(a)
			time.Sleep(c.outage)
			m.failing.Store(false)
			if n := m.count(account.Settlement, id); n != 0 {
				t.Errorf("%s is there in the outage", id)
			}
			if time.Sleep(c.wait); m.count(account.Settlement, id) != 1 {
				t.Errorf("%s is not there after %v", id, c.wait)
			}
		}
	})
}

// TestRejectedSettlement: one that the store rejects when it is alone is told
// and given up; the others are in the store, and the next hold is taken at once.
// While the store is down nothing is given up.
func TestRejectedSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond, poison: "bad"}
		var told []error
		l, ref := start(t, Config{Rejects: func(err error) bool { return err.Error() == "bad row" },
			Failed: func(err error, _ int) { told = append(told, err) }}, m)
		m.failing.Store(true)
		var settled []chan Commit
		for _, id := range []string{"s1", "bad", "s2"} {
			a, done := row(account.Settlement, id, -7)
			_ = ref.Send(a)
			settled = append(settled, done)
		}
		time.Sleep(time.Minute)
		if n := len(settled[0]) + len(settled[1]) + len(settled[2]); n != 0 {
			t.Errorf("%d were answered while the store was down", n)
		}
		m.failing.Store(false)
		time.Sleep(time.Minute)
		for _, i := range []int{0, 2} {
			if c := <-settled[i]; c.Err != nil || c.Rejected {
				t.Errorf("settlement %d: %+v", i, c)
			}
		}
		if len(settled[1]) == 0 {
			t.Fatal("the rejected one is not answered")
		}
		if c := <-settled[1]; c.Err == nil || !c.Rejected || c.Err.Kind != abi.Internal {
			t.Errorf("the rejected one: %+v", c)
		}
		if text := fmt.Sprint(told); !strings.Contains(text, "settlement of request bad, account a, -7 nano-dollars: bad row") {
			t.Errorf("told: %s", text)
		}
		before := l.Stats().Failures
		if c := put(ref, account.Hold, "h", 0); c.Err != nil {
			t.Errorf("a hold afterwards: %+v", c)
		}
		time.Sleep(time.Minute)
		if st := l.Stats(); st.Failures != before || st.Waiting != 0 || m.count(account.Settlement, "bad") != 0 {
			t.Errorf("it is tried on: %+v, %d failures before", st, before)
		}
	})
}

// TestRejectedTogether: a rejected settlement takes no other row of its
// transaction with it that must be kept, and the hold that it replaced is answered.
func TestRejectedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond, poison: "bad"}
		_, ref := start(t, Config{Spill: &ledgertest.Spill{RoomFor: 100}, Rejects: func(err error) bool { return err.Error() == "bad row" }}, m)
		first, _ := row(account.Hold, "committing", 0)
		_ = ref.Send(first)
		synctest.Wait() // the rest gathers behind it
		hold, held := row(account.Hold, "bad", 0)
		bad, settled := row(account.Settlement, "bad", -7)
		good, kept := row(account.Settlement, "good", -7)
		for _, a := range []Append{hold, bad, good} {
			_ = ref.Send(a)
		}
		time.Sleep(time.Minute)
		if c := <-kept; c.Err != nil || m.count(account.Settlement, "good") != 1 {
			t.Errorf("the good one: %+v", c)
		}
		if len(settled) == 0 || len(held) == 0 {
			t.Fatal("the bad one is not answered")
		}
		if c, h := <-settled, <-held; !c.Rejected || h.Err == nil {
			t.Errorf("the bad one: %+v, its hold %+v", c, h)
		}
	})
}

// TestStorePanics: a transaction that panics is one that failed: its row goes into the spill journal or is refused, and the next
// transaction runs.
func TestStorePanics(t *testing.T) {
	for _, s := range []*ledgertest.Spill{nil, {RoomFor: 100}} {
		synctest.Test(t, func(t *testing.T) {
			m, cfg := &memory{}, Config{}
			if s != nil {
				cfg.Spill = s
			}
			_, ref := start(t, cfg, m)
			m.panics.Store(true)
			c := put(ref, account.Hold, "h", 0)
			if kept := s != nil && s.Rows() == 1; kept != (s != nil) || kept != (c.Err == nil) || c.Refused {
				t.Errorf("in the journal %t: %+v", kept, c)
			}
			if c := put(ref, account.Settlement, "s", -1); c.Err != nil {
				t.Errorf("the next row: %+v", c)
			}
			time.Sleep(time.Minute)
			if n := m.count(account.Settlement, "s"); n != 1 {
				t.Errorf("the next row is there %d times", n)
			}
		})
	}
}

// TestKilled: a restart loses no row and answers nobody twice.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: 2 * time.Millisecond}
		_, ref := start(t, Config{}, m)
		var answers []chan Commit
		for i := range 50 {
			a, done := row(account.Settlement, fmt.Sprint(i), -1)
			_ = ref.Send(a)
			answers = append(answers, done)
			if i%10 == 3 {
				_ = ref.Tell(system.Kill{})
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		for i, done := range answers {
			if len(done) != 1 || m.count(account.Settlement, fmt.Sprint(i)) != 1 {
				t.Errorf("row %d: %d answers, %d in the store", i, len(done), m.count(account.Settlement, fmt.Sprint(i)))
			}
		}
	})
}

// TestReadIsOrdered: a read sees exactly the commits up to its own number.
func TestReadIsOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond}
		_, ref := start(t, Config{BatchMax: 3}, m)
		sums := map[uint64]abi.Nano{}
		var mu sync.Mutex
		var reads []Balance
		for i := range 100 {
			a := Append{Entry: account.Entry{Kind: account.Settlement, RequestID: fmt.Sprint(i), Amount: -1}, Done: func(c Commit) {
				mu.Lock()
				sums[c.Seq]--
				mu.Unlock()
			}}
			_ = ref.Send(a)
			_ = ref.Send(Read{Done: func(b Balance) {
				mu.Lock()
				reads = append(reads, b)
				mu.Unlock()
			}})
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(reads) != 100 {
			t.Fatalf("%d reads", len(reads))
		}
		for _, r := range reads {
			want := abi.Nano(0)
			for seq, sum := range sums {
				if seq <= r.Seq {
					want += sum
				}
			}
			if r.Balance != want {
				t.Errorf("read at commit %d: %d, want %d", r.Seq, r.Balance, want)
			}
		}
	})
}

// TestReadBesideAFailure: who asks while the store fails is answered.
func TestReadBesideAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond}
		m.failing.Store(true)
		_, ref := start(t, Config{}, m)
		a, _ := row(account.Settlement, "r", -1)
		answers := make(chan Balance, 1)
		for _, m := range []any{a, Read{AccountID: "a", Done: func(b Balance) { answers <- b }}} {
			if err := ref.Send(m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		select {
		case b := <-answers:
			if b.Err == nil {
				t.Errorf("the answer is %+v", b)
			}
		default:
			t.Error("there is no answer")
		}
	})
}

// TestRowsAreAnsweredBeforeReads: who waits for a row is answered when that is durable, however long the reads take that were
// sent with it. Those still see the row, and none behind it.
func TestRowsAreAnsweredBeforeReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Millisecond}
		_, ref := start(t, Config{}, m)
		answered := make(chan struct{})
		m.reading = func() {
			select {
			case <-answered:
			case <-time.After(time.Hour):
				t.Error("a row that is durable waits for a read")
			}
		}
		first, _ := row(account.Settlement, "committing", -1)
		_ = ref.Send(first)
		synctest.Wait()     // the rest gathers behind it
		var reads []Balance // in one goroutine: the commit's
		read := Read{AccountID: "a", Done: func(b Balance) { reads = append(reads, b) }}
		_, _ = ref.Send(read), ref.Send(read)
		second, done := row(account.Settlement, "second", -1)
		_ = ref.Send(second)
		_ = ref.Send(read)
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		third, _ := row(account.Settlement, "third", -1)
		_ = ref.Send(third)
		seq := (<-done).Seq
		close(answered)
		time.Sleep(time.Minute)
		synctest.Wait() // what the commits' goroutines wrote is there
		if len(reads) != 3 || m.count(account.Settlement, "third") != 1 {
			t.Fatalf("%d reads", len(reads))
		}
		for _, b := range reads {
			if b.Err != nil || b.Balance != -2 || b.Seq < seq {
				t.Errorf("read %+v, want what was durable with commit %d", b, seq)
			}
		}
	})
}

func TestBound(t *testing.T) {
	j := journal{rowsMax: 2, batchMax: 10}
	hold, settlement := item{}, item{must: true}
	for i, c := range []struct {
		it   item
		want bool
	}{{hold, true}, {settlement, true}, {hold, true}, {hold, false}, {settlement, true}} {
		if got := j.add(c.it); got != c.want {
			t.Errorf("item %d: %v", i, got)
		}
	}
	if n := len(j.take()); n != 4 || j.take() != nil {
		t.Errorf("%d being committed", n)
	}
	if !j.add(hold) {
		t.Error("a commit still takes room")
	}
}

// TestStoppedAnswers: what waits when the ledger ends is answered.
func TestStoppedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Second, rows: map[string]int{}}
		l := NewLog(Config{}, m)
		s := system.New(system.Config{})
		ref, err := s.Start(system.Spec{Name: "ledger", MailboxMax: 10, New: func() system.Actor { return New(l) },
			Policy: system.Policy{FailuresMax: 1, Within: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		var answers []chan Commit
		for i := range 3 {
			a, done := row(account.Settlement, fmt.Sprint(i), -1)
			_ = ref.Send(a)
			answers = append(answers, done)
			synctest.Wait()
		}
		s.Stop()
		l.Wait()
		if c := <-answers[0]; c.Err != nil {
			t.Errorf("the one being committed: %+v", c)
		}
		for _, done := range answers[1:] {
			if c := <-done; c.Err == nil || !c.Refused {
				t.Errorf("one that waited: %+v", c)
			}
		}
	})
}

// TestSettlementTakesTheHoldsPlace: while a transaction runs, a hold and its
// settlement arrive. One row is written and both are answered with its commit;
// a hold being committed, or one before a read, stays.
func TestSettlementTakesTheHoldsPlace(t *testing.T) {
	j := journal{rowsMax: 4, batchMax: 8}
	answered := map[string]Commit{}
	row := func(kind account.EntryKind, id string) item {
		return item{entry: account.Entry{Kind: kind, RequestID: id}, must: kind == account.Settlement,
			done: func(c Commit) { answered[string(kind)+" "+id] = c }}
	}
	j.add(row(account.Hold, "committing"))
	j.take()
	j.add(row(account.Hold, "a"))
	j.add(row(account.Hold, "b"))
	j.add(row(account.Settlement, "committing"))
	j.add(row(account.Settlement, "a"))
	if j.optional != 1 || len(j.waiting) != 3 {
		t.Fatalf("%d rows wait, %d of them optional; want 3 and 1", len(j.waiting), j.optional)
	}
	j.succeed()
	for _, it := range j.take() {
		answer(it, Commit{Seq: 7})
		if it.entry.NeverHeld != (it.entry.RequestID == "a") {
			t.Errorf("%s of %s: never held is %v", it.entry.Kind, it.entry.RequestID, it.entry.NeverHeld)
		}
	}
	for _, who := range []string{"hold a", "settlement a", "settlement committing", "hold b"} {
		if answered[who].Seq != 7 {
			t.Errorf("%s was answered %+v", who, answered[who])
		}
	}
	j.succeed()
	j.add(row(account.Hold, "c"))
	j.add(item{read: &Read{AccountID: "x"}})
	j.add(row(account.Settlement, "c"))
	if len(j.waiting) != 3 {
		t.Errorf("a hold before a read was withdrawn: %d wait", len(j.waiting))
	}
}

// TestStoppedBeforeTheNews: a commit that ended while its ledger was failing for
// the last time is answered with what became of it.
func TestStoppedBeforeTheNews(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{delay: 3 * time.Millisecond} // less than nine restarts take
			_, ref := start(t, Config{}, m)
			m.failing.Store(failing)
			a, done := row(account.Settlement, "s", -1)
			_ = ref.Send(a)
			synctest.Wait()
			for range 10 {
				_ = ref.Tell(system.Kill{})
			}
			time.Sleep(time.Second)
			if ref.Alive() {
				t.Fatal("the ledger lives")
			}
			select {
			case c := <-done:
				if durable := m.count(account.Settlement, "s") == 1; durable == failing || (c.Err == nil) != durable {
					t.Errorf("a row that is durable, %t: %+v", durable, c)
				}
			default:
				t.Error("nobody was told")
			}
		})
	}
}

// TestWait: after Wait the store is asked nothing.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Second}
		l := NewLog(Config{}, m)
		m.rows = map[string]int{}
		s := system.New(system.Config{})
		ref, err := s.Start(system.Spec{Name: "ledger", MailboxMax: 10, New: func() system.Actor { return New(l) }})
		if err != nil {
			t.Fatal(err)
		}
		a, done := row(account.Settlement, "s", -1)
		_ = ref.Send(a)
		synctest.Wait()
		s.Stop()
		l.Wait()
		if m.count(account.Settlement, "s") != 1 || len(done) != 1 {
			t.Error("a transaction was still on its way")
		}
	})
}
