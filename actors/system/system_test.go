package system

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// echo counts what it is told. It answers ask messages.
type echo struct {
	made    *atomic.Int64
	stopped *atomic.Int64
	gate    chan struct{} // if set, every message waits for a value
}

type ask struct {
	reply chan error
}

func (a ask) Refuse(err error) { a.reply <- err }

func (e *echo) Started(*Context) { e.made.Add(1) }
func (e *echo) Stopped()         { e.stopped.Add(1) }

func (e *echo) Receive(c *Context, m any) {
	if e.gate != nil {
		<-e.gate
	}
	switch m := m.(type) {
	case ask:
		m.reply <- nil
	case Sweep:
		c.Retire()
	case chan struct{}:
		<-m
	}
}

func restart(n int) Policy {
	return Policy{FailuresMax: n, Within: time.Minute, BackoffMin: time.Millisecond, BackoffMax: time.Second}
}

func TestDelay(t *testing.T) {
	p := Policy{BackoffMin: 100, BackoffMax: 1000}
	for n, want := range []time.Duration{0, 100, 200, 400, 800, 1000, 1000, 1000} {
		if n == 0 {
			continue
		}
		if got := p.delay(n, 0); got != want {
			t.Errorf("failure %d: %d, want %d", n, got, want)
		}
		if got := p.delay(n, 0.999999); got < want/2 || got > want/2+1 {
			t.Errorf("failure %d with the largest jitter: %d, want %d", n, got, want/2)
		}
	}
	if got := (Policy{}).delay(5, 0.5); got != 0 {
		t.Errorf("no backoff: %d", got)
	}
}

// TestRestartAndGiveUp: the mailbox outlives restarts, the failing message does
// not; after too many failures every message is refused, none is lost.
func TestRestartAndGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped, failed atomic.Int64
		s := New(Config{Failed: func(string, any) { failed.Add(1) }})
		var child *Ref
		_, err := s.Start(Spec{Name: "root", Policy: restart(3), MailboxMax: 10, New: func() Actor {
			return &Group{Spawned: func(refs []*Ref) { child = refs[0] }, Specs: []Spec{{Name: "echo", Policy: restart(3), MailboxMax: 4,
				New: func() Actor { return &echo{made: &made, stopped: &stopped} }}}}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		synctest.Wait()
		for i := range 3 {
			a := ask{reply: make(chan error, 1)}
			hold := make(chan struct{})
			_ = child.Send(hold) // until both are there
			_ = child.Send(Kill{})
			if err := child.Send(a); err != nil {
				t.Fatal(err)
			}
			close(hold)
			want := error(nil)
			if i == 2 {
				want = ErrStopped
			}
			if got := <-a.reply; got != want {
				t.Errorf("after failure %d: %v, want %v", i+1, got, want)
			}
		}
		synctest.Wait()
		if made.Load() != 3 || stopped.Load() != 1 || failed.Load() != 3 || child.Alive() {
			t.Errorf("made %d stopped %d failed %d", made.Load(), stopped.Load(), failed.Load())
		}
		if err := child.Send(ask{}); err != ErrStopped {
			t.Errorf("send to a stopped actor: %v", err)
		}
		if s.DeadLetters() != 1 {
			t.Errorf("%d dead letters", s.DeadLetters())
		}
	})
}

func TestMailboxCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped atomic.Int64
		gate := make(chan struct{})
		s := New(Config{})
		ref, err := s.Start(Spec{Name: "slow", Policy: restart(3), MailboxMax: 2, New: func() Actor {
			return &echo{made: &made, stopped: &stopped, gate: gate}
		}})
		if err != nil {
			t.Fatal(err)
		}
		var replies []chan error
		for i, want := range []error{nil, nil, nil, ErrFull, ErrFull} { // one in hand, two wait
			a := ask{reply: make(chan error, 1)}
			if got := ref.Send(a); got != want {
				t.Errorf("message %d: %v, want %v", i, got, want)
			}
			if want == nil {
				replies = append(replies, a.reply)
			}
			synctest.Wait()
		}
		last := ask{reply: make(chan error, 1)}
		if err := ref.Tell(last); err != nil || ref.Depth() != 3 {
			t.Errorf("past the cap: %v, depth %d", err, ref.Depth())
		}
		close(gate)
		for _, r := range append(replies, last.reply) {
			if err := <-r; err != nil {
				t.Error(err)
			}
		}
		s.Stop()
	})
}

// TestPool: one actor per key, made by the first message, gone when idle; no
// message is lost when it crosses the actor's retirement.
func TestPool(t *testing.T) {
	var made, stopped atomic.Int64
	s := New(Config{})
	p := NewPool(PoolSpec[int, int]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
		Children: restart(100), MailboxMax: 100, Max: 10, SweepMax: 100,
		New: func(int, *int) Actor { return &echo{made: &made, stopped: &stopped} }})
	spec := p.Spec()
	ref, err := s.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	p.Bind(ref)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { // goes on until many actors were retired under its hands
			for i := 0; i < 500 || made.Load() < 30 && i < 500_000; i++ {
				a := ask{reply: make(chan error, 1)}
				if err := p.Send(i%10, a); err != nil {
					t.Error(err)
				} else if err := <-a.reply; err != nil {
					t.Error(err)
				}
				if i%20 == 0 {
					p.Sweep()
				}
			}
		})
	}
	wg.Wait()
	empty := func() {
		for deadline := time.Now().Add(time.Minute); p.Len() > 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			p.Sweep()
		}
	}
	empty() // so that every key below comes to the pool behind a sweep that is still on its way, and none is retired by it
	over := ask{reply: make(chan error, 1)}
	for k := range 11 {
		a := ask{reply: over.reply}
		if err := p.Send(k, a); err != nil {
			t.Fatal(err)
		}
		if err := <-over.reply; (err == nil) != (k < 10) || k == 10 && !errors.Is(err, ErrFull) {
			t.Errorf("key %d: %v", k, err)
		}
	}
	if p.Len() != 10 {
		t.Errorf("%d keys", p.Len())
	}
	empty()
	s.Stop()
	if p.Len() != 0 || made.Load() != stopped.Load() || made.Load() < 20 {
		t.Errorf("%d keys left, %d made, %d stopped", p.Len(), made.Load(), stopped.Load())
	}
	if err := p.Send(1, over); err != ErrStopped {
		t.Errorf("after the stop: %v", err)
	}
}

// hears keeps the texts that it gets.
type hears struct{ heard chan string }

func (a hears) Receive(_ *Context, m any) {
	if text, ok := m.(string); ok {
		a.heard <- text
	}
}

// TestNotify: what is told while an actor is made, and is not yet known, reaches it: what it read to begin with may be older.
// Where there is none, none is made.
func TestNotify(t *testing.T) {
	heard := make(chan string, 10)
	var p *Pool[int, int]
	s := New(Config{})
	p = NewPool(PoolSpec[int, int]{Name: "pool", Child: "child", Policy: restart(1), Children: restart(1), MailboxMax: 10, Max: 10, SweepMax: 10,
		New: func(k int, _ *int) Actor {
			p.Notify("while it is made", 2, k)
			return hears{heard}
		}})
	ref, err := s.Start(p.Spec())
	if err != nil {
		t.Fatal(err)
	}
	p.Bind(ref)
	p.Notify("before it is made", 1, 2)
	if err := p.Send(1, "first"); err != nil {
		t.Fatal(err)
	}
	got := []string{<-heard, <-heard}
	p.Notify("then", 2, 1)
	if got = append(got, <-heard); !slices.Equal(got, []string{"first", "while it is made", "then"}) || p.Len() != 1 {
		t.Errorf("it heard %q; %d keys", got, p.Len())
	}
	s.Stop()
}

// TestToldBeyondMax: a pool that says so makes an actor for what it is told although it has as many keys as it may; what is
// sent is refused.
func TestToldBeyondMax(t *testing.T) {
	for _, beyond := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var made, stopped atomic.Int64
			s := New(Config{})
			p := NewPool(PoolSpec[int, int]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
				Children: restart(3), MailboxMax: 10, Max: 1, TellBeyondMax: beyond, SweepMax: 10,
				New: func(int, *int) Actor { return &echo{made: &made, stopped: &stopped} }})
			ref, err := s.Start(p.Spec())
			if err != nil {
				t.Fatal(err)
			}
			p.Bind(ref)
			for k, c := range []struct {
				deliver func(int, any) error
				refused bool
			}{{p.Send, false}, {p.Send, true}, {p.Tell, !beyond}} {
				a := ask{reply: make(chan error, 1)}
				if err := c.deliver(k, a); err != nil {
					t.Fatal(err)
				}
				if err := <-a.reply; (err == ErrFull) != c.refused || (err == nil) == c.refused {
					t.Errorf("beyond %v, key %d: %v", beyond, k, err)
				}
			}
			p.Sweep()
			synctest.Wait()
			if p.Len() != 0 || made.Load() != stopped.Load() {
				t.Errorf("%d keys are left, %d actors made, %d stopped", p.Len(), made.Load(), stopped.Load())
			}
			s.Stop()
		})
	}
}

// TestCellOutlivesFailure: a key whose actor was stopped for failing keeps its
// cell for the next one; a retired one does not.
func TestCellOutlivesFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped, cells atomic.Int64
		s := New(Config{})
		p := NewPool(PoolSpec[string, int]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
			Children: restart(1), MailboxMax: 10, Max: 10, SweepMax: 10,
			New: func(_ string, cell *int) Actor {
				if *cell == 0 {
					cells.Add(1)
				}
				*cell++
				return &echo{made: &made, stopped: &stopped}
			}})
		ref, err := s.Start(p.Spec())
		if err != nil {
			t.Fatal(err)
		}
		p.Bind(ref)
		touch := func() {
			t.Helper()
			a := ask{reply: make(chan error, 1)}
			if err := p.Send("k", a); err != nil || <-a.reply != nil {
				t.Error("refused")
			}
		}
		touch()
		_ = p.Live("k").Tell(Kill{})
		synctest.Wait()
		if p.Live("k") != nil || p.Cell("k") == nil {
			t.Error("a stopped actor is still there, or its cell is not")
		}
		touch()
		if cells.Load() != 1 || made.Load() != 2 {
			t.Errorf("%d cells, %d actors", cells.Load(), made.Load())
		}
		_ = p.Live("k").Tell(Kill{})
		synctest.Wait()
		p.Sweep() // gives the orphaned cell an actor, which retires
		synctest.Wait()
		if p.Len() != 0 {
			t.Error("the cell of a dead actor is kept for ever")
		}
		touch()
		if cells.Load() != 2 {
			t.Errorf("%d cells", cells.Load())
		}
		s.Stop()
	})
}

// slowToStop says its last words through a gate, with the others that have its cell.
type slowToStop struct {
	echo
	cell *atomic.Int64
	gate chan struct{}
	both *atomic.Bool
}

func (a *slowToStop) Started(c *Context) {
	a.echo.Started(c)
	if a.cell.Add(1) > 1 {
		a.both.Store(true)
	}
}

func (a *slowToStop) Stopped() {
	<-a.gate
	a.cell.Add(-1)
	a.echo.Stopped()
}

// TestOneActorPerCell: the successor of an actor that was stopped for failing
// begins when that one's last words are said, since both have one cell.
func TestOneActorPerCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped atomic.Int64
		var both atomic.Bool
		gate := make(chan struct{})
		s := New(Config{})
		p := NewPool(PoolSpec[int, atomic.Int64]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
			Children: restart(1), MailboxMax: 10, Max: 10, SweepMax: 10,
			New: func(_ int, cell *atomic.Int64) Actor {
				return &slowToStop{echo{made: &made, stopped: &stopped}, cell, gate, &both}
			}})
		ref, err := s.Start(p.Spec())
		if err != nil {
			t.Fatal(err)
		}
		p.Bind(ref)
		send := func() ask {
			a := ask{reply: make(chan error, 1)}
			if err := p.Send(1, a); err != nil {
				a.reply <- err
			}
			return a
		}
		if err := <-send().reply; err != nil {
			t.Fatal(err)
		}
		_ = p.Live(1).Tell(Kill{})
		synctest.Wait() // it is about to say its last words
		early := send()
		synctest.Wait()
		close(gate)
		<-early.reply // refused or answered, but not lost
		synctest.Wait()
		if err := <-send().reply; err != nil || both.Load() || made.Load() != 2 {
			t.Errorf("%d actors made, two at once: %v; the second answered %v", made.Load(), both.Load(), err)
		}
		s.Stop()
	})
}

func TestQueue(t *testing.T) {
	var q queue
	next, want := 0, 0
	for round := range 50 {
		for range 1 + round*60%4000 {
			q.push(next)
			next++
		}
		for range (1 + round*60%4000) * 9 / 10 {
			if got := q.pop(); got != want {
				t.Fatalf("popped %v, want %d", got, want)
			}
			want++
		}
	}
	for q.len() > 0 {
		if got := q.pop(); got != want {
			t.Fatalf("popped %v, want %d", got, want)
		}
		want++
	}
	if want != next || cap(q.items) > keptCapacity {
		t.Errorf("popped %d of %d; an empty queue keeps room for %d", want, next, cap(q.items))
	}
}

// stubborn goes to the next actor when the one that it was for has stopped.
type stubborn struct{ pool *Pool[int, int] }

func (m stubborn) Refuse(error) { _ = m.pool.Tell(2, m) }

// TestStoppingPoolSpawnsNothing: a pool that stops with the root that was given up
// takes no new keys while a child is busy, since it would wait for their actors for
// ever, and is not kept busy by what comes again when it is refused.
func TestStoppingPoolSpawnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped atomic.Int64
		gate := make(chan struct{})
		s := New(Config{})
		p := NewPool(PoolSpec[int, int]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
			Children: restart(3), MailboxMax: 10, Max: 10, SweepMax: 10,
			New: func(int, *int) Actor { return &echo{made: &made, stopped: &stopped, gate: gate} }})
		root, err := s.Start(Spec{Name: "root", Policy: restart(1), MailboxMax: 10, New: func() Actor {
			return &Group{Specs: []Spec{p.Spec()}, Spawned: func(refs []*Ref) { p.Bind(refs[0]) }}
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		busy, late := ask{reply: make(chan error, 1)}, ask{reply: make(chan error, 1)}
		if err := p.Send(1, busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = root.Tell(Kill{})
		synctest.Wait() // the pool waits for its busy child
		if err := p.Send(2, late); err != ErrStopped {
			t.Errorf("a message for a new key: %v", err)
		}
		stubborn{p}.Refuse(nil)
		synctest.Wait() // returns when everything is at rest
		close(gate)
		synctest.Wait()
		s.Stop()
		if made.Load() != 1 {
			t.Errorf("%d actors made", made.Load())
		}
	})
}

// TestPoolOrderIsItsKeys: what a sweep walks is the keys and nothing else, however
// many come and go between two sweeps.
func TestPoolOrderIsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, stopped atomic.Int64
		s := New(Config{})
		p := NewPool(PoolSpec[int, int]{Name: "pool", Child: "child", Policy: Policy{Resume: true, FailuresMax: 3, Within: time.Minute},
			Children: restart(3), MailboxMax: 10, Max: 10, SweepMax: 2,
			New: func(int, *int) Actor { return &echo{made: &made, stopped: &stopped} }})
		var pool *poolActor[int, int]
		spec := p.Spec()
		spec.New = func() Actor { pool = &poolActor[int, int]{pool: p}; return pool }
		ref, err := s.Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Bind(ref)
		touch := func(k int) {
			t.Helper()
			a := ask{reply: make(chan error, 1)}
			if err := p.Send(k, a); err != nil || <-a.reply != nil {
				t.Errorf("key %d is refused", k)
			}
		}
		for k := range 5 {
			touch(k)
		}
		for i := range 1000 { // retires without a sweep, as an evicted session does
			k := 5 + i%5
			touch(k)
			_ = p.Live(k).Tell(Sweep{})
			synctest.Wait()
		}
		if len(pool.order) != 5 || p.Len() != 5 {
			t.Errorf("%d keys in the order of the sweep, %d in the pool, want 5", len(pool.order), p.Len())
		}
		for k := range 5 { // one after the other, in another order than they came
			_ = p.Live((k * 3) % 5).Tell(Sweep{})
			synctest.Wait()
			for at, k := range pool.order {
				if e := p.entries[k]; e == nil || e.at != at {
					t.Errorf("key %d is at %d of the order: %+v", k, at, e)
				}
			}
		}
		touch(1)
		touch(2)
		touch(3)
		for range 2 { // two of three, then the last
			p.Sweep()
			synctest.Wait()
		}
		if p.Len() != 0 || len(pool.order) != 0 {
			t.Errorf("%d keys left, %d in the order", p.Len(), len(pool.order))
		}
		s.Stop()
	})
}
