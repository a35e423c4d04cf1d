package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// clusterMemory is a memory that decides: it admits all but the request that it refuses.
type clusterMemory struct {
	*memory
	refuses string
	batches []limit.Batch
	// lost makes calls fail that did what they were asked.
	lost atomic.Bool
}

func (m *clusterMemory) Commit(b limit.Batch) ([]limit.Verdict, error) {
	if err := m.Append(b.Rows); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, b)
	if m.lost.Load() {
		return nil, errors.New("connection lost")
	}
	var all []limit.Verdict
	for i, p := range b.Asks {
		v := limit.Verdict{Reservation: limit.Reservation{Hold: p.Upper, Arrival: uint64(i + 1)}}
		if p.RequestID == m.refuses {
			v = limit.Verdict{Refusal: &abi.Error{Kind: abi.RateLimited}}
		}
		all = append(all, v)
	}
	return all, nil
}

func startCluster(t *testing.T, cfg Config) (*clusterMemory, *Log, *system.Ref) {
	m := &clusterMemory{memory: &memory{}, refuses: "no"}
	cfg.Cluster = m
	l, ref := start(t, cfg, m.memory)
	return m, l, ref
}

func propose(ref *system.Ref, id string, free bool) chan Verdict {
	done := make(chan Verdict, 2)
	p := limit.Proposal{AccountID: "a", Ask: limit.Ask{RequestID: id, Free: free, Upper: 5}}
	if !free {
		p.Hold = account.Entry{Kind: account.Hold, AccountID: "a", RequestID: id, Model: "m"}
	}
	if err := ref.Send(Propose{Proposal: p, Done: func(v Verdict) { done <- v }}); err != nil {
		panic(err)
	}
	return done
}

// TestProposalsRideWithRows: what gathers during a transaction is decided in the next, in order, in one
// with the rows; each proposal gets its own verdict, with the time before the store was asked.
func TestProposalsRideWithRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, ref := startCluster(t, Config{Spill: &ledgertest.Spill{RoomFor: 10}})
		m.delay = time.Millisecond
		began := time.Now()
		first := propose(ref, "first", false)
		synctest.Wait()
		var all []chan Verdict
		for _, id := range []string{"1", "no", "2"} {
			all = append(all, propose(ref, id, false))
			a, _ := row(account.Settlement, "s"+id, -1)
			_ = ref.Send(a)
		}
		_ = ref.Send(GiveBack{Release: limit.Release{AccountID: "a", RequestID: "free"}})
		_ = ref.Send(GiveBack{Return: limit.Return{AccountID: "a", Number: 7}})
		<-first
		for i, done := range all {
			v := <-done
			if v.Err != nil || !v.Asked.Equal(began.Add(time.Millisecond)) || (v.Refusal != nil) != (i == 1) {
				t.Errorf("verdict %d: %+v", i, v)
			}
			if i != 1 && v.Arrival != uint64(i+1) {
				t.Errorf("verdict %d is that of proposal %d", i, v.Arrival)
			}
		}
		if len(m.batches) != 2 || len(m.batches[1].Rows) != 3 || len(m.batches[1].Asks) != 3 || len(m.batches[1].Releases) != 1 ||
			len(m.batches[1].Returns) != 1 {
			t.Errorf("batches %+v", m.batches)
		}
	})
}

// TestCountsOfProposals: a transaction of proposals alone is one that was written, with a row for each hold; one that decides
// nothing is none, nor is a read.
func TestCountsOfProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l, ref := startCluster(t, Config{Spill: &ledgertest.Spill{RoomFor: 10}})
		m.delay, m.reading = 10*time.Millisecond, func() { time.Sleep(400 * time.Millisecond) }
		for range 25 {
			all := []chan Verdict{propose(ref, "1", false), propose(ref, "no", false), propose(ref, "2", false), propose(ref, "free", true)}
			for _, done := range all {
				<-done
			}
			balance(ref)
		}
		_ = ref.Send(GiveBack{Return: limit.Return{AccountID: "a", Number: 7}})
		time.Sleep(time.Second)
		synctest.Wait()
		want := Stats{Commits: uint64(len(m.batches)), Rows: 50, Busy: time.Duration(len(m.batches)) * m.delay}
		if got := l.Stats(); got != want || want.Commits < 26 {
			t.Errorf("%+v, want %+v", got, want)
		}
		m.lost.Store(true)
		if v := <-propose(ref, "free2", true); v.Err == nil {
			t.Errorf("a lost verdict: %+v", v)
		}
		if got := l.Stats(); got.Commits != want.Commits || got.Busy != want.Busy || got.Rows != want.Rows {
			t.Errorf("after a transaction that decided nothing: %+v, want %+v", got, want)
		}
		m.lost.Store(false)
		time.Sleep(time.Minute)
	})
}

// TestProposalsInAnOutage: they are refused, at once from the second on, while rows are durable in the
// journal. What the store may have decided is closed, and what was given back reaches it once it is back.
func TestProposalsInAnOutage(t *testing.T) {
	t.Run("free", func(t *testing.T) { testOutage(t, true, "ask") })
	t.Run("with a hold", func(t *testing.T) { testOutage(t, false) })
}

func testOutage(t *testing.T, free bool, wantReleased ...string) {
	synctest.Test(t, func(t *testing.T) {
		s := &ledgertest.Spill{RoomFor: 100}
		m, l, ref := startCluster(t, Config{Spill: s})
		m.failing.Store(true)
		if v := <-propose(ref, "ask", free); v.Err == nil || v.Err.Kind != abi.Overloaded || v.Err.RetryAfter <= 0 {
			t.Errorf("in the outage: %+v", v)
		}
		_ = ref.Send(GiveBack{Release: limit.Release{AccountID: "a", RequestID: "free"}})
		put(ref, account.Settlement, "x", -1)
		failures := l.Stats().Failures
		began := time.Now()
		for i := range 100 {
			if v := <-propose(ref, fmt.Sprint(i), false); v.Err == nil {
				t.Errorf("decided in an outage: %+v", v)
			}
		}
		if l.Stats().Failures != failures || time.Since(began) != 0 {
			t.Error("the store was asked for each, although it is away")
		}
		m.failing.Store(false)
		time.Sleep(20 * time.Second)
		if v := <-propose(ref, "after", false); v.Err != nil {
			t.Errorf("after the outage: %+v", v)
		}
		if closed := m.count(account.Settlement, "ask") == 1; closed == free || m.count(account.Settlement, "x") != 1 {
			t.Errorf("rows %v", m.rows)
		}
		var released []string
		for _, b := range m.batches {
			for _, r := range b.Releases {
				released = append(released, r.RequestID)
			}
		}
		slices.Sort(released)
		if !slices.Equal(released, append(wantReleased, "free")) {
			t.Errorf("released %v", released)
		}
	})
}

// TestProposalsThatAreNotClosed: of a batch that the store rejects nothing was decided; a proposal that
// waited behind a failed one was never seen.
func TestProposalsThatAreNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, ref := startCluster(t, Config{Rejects: func(err error) bool { return err.Error() == "bad row" }})
		m.poison = "bad"
		m.delay = time.Millisecond
		first := propose(ref, "first", false)
		synctest.Wait()
		a, rejected := row(account.Settlement, "bad", -1)
		_ = ref.Send(a)
		beside := propose(ref, "beside", false)
		<-first
		if v := <-beside; v.Err == nil {
			t.Errorf("beside a bad row: %+v", v)
		}
		if c := <-rejected; !c.Rejected {
			t.Errorf("bad row: %+v", c)
		}
		time.Sleep(time.Minute)
		if n := m.count(account.Settlement, "beside"); n != 0 {
			t.Errorf("%d settlements of what was never decided", n)
		}
	})
}

// TestLostVerdicts: a transaction whose answer is lost is closed, without a spill journal too.
func TestLostVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, ref := startCluster(t, Config{})
		m.lost.Store(true)
		if v := <-propose(ref, "lost", false); v.Err == nil {
			t.Errorf("lost: %+v", v)
		}
		m.mu.Lock()
		m.lost.Store(false)
		m.mu.Unlock()
		time.Sleep(time.Minute)
		if n := m.count(account.Settlement, "lost"); n != 1 {
			t.Errorf("%d settlements of what may be decided", n)
		}
		for _, b := range m.batches {
			for _, e := range b.Rows {
				if e.RequestID == "lost" && e.Note != account.NeverRan {
					t.Errorf("it is closed like one that ran: %+v", e)
				}
			}
		}
	})
}
