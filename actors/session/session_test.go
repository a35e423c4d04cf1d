package session

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/batcher"
	"corenode/actors/system"
	"corenode/engine"
)

// TestRetiresWithoutPin: an idle session gives its pin back while messages still
// come to it. Later it would take a successor's pin out of the budget.
func TestRetiresWithoutPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool *system.Pool[Key, Cell]
		k, released := Key{1}, 0
		deps := Deps{Budget: NewBudget(10, 1000), IdleMax: time.Minute, Evict: func(Key) { t.Error("evicted") }}
		deps.Release = func(string, batcher.Pin) {
			released++
			if r := pool.Live(k); r == nil || !r.Alive() {
				t.Error("the pin is given back by a session that has retired")
			}
		}
		policy := system.Policy{Resume: true, FailuresMax: 3, Within: time.Minute}
		pool = system.NewPool(system.PoolSpec[Key, Cell]{Name: "sessions", Child: "session", Policy: policy, Children: policy,
			MailboxMax: 10, Max: 10, SweepMax: 10,
			New: func(k Key, c *Cell) system.Actor { return New(k, c, deps) }})
		s := system.New(system.Config{})
		ref, err := s.Start(pool.Spec())
		if err != nil {
			t.Fatal(err)
		}
		pool.Bind(ref)
		pin := batcher.Pin{Handle: engine.Handle{ID: 1, Epoch: 1}, Incarnation: 1}
		if err := pool.Send(k, Finished{Pin: pin, Account: "a", Bytes: 10, Lost: func() { t.Error("lost") }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, bytes := deps.Budget.Total(); n != 1 || bytes != 10 {
			t.Errorf("%d pins of %d bytes", n, bytes)
		}
		time.Sleep(2 * time.Minute)
		pool.Sweep()
		synctest.Wait()
		if n, _ := deps.Budget.Total(); n != 0 || released != 1 || pool.Len() != 0 {
			t.Errorf("%d pins counted, %d released, %d sessions", n, released, pool.Len())
		}
		s.Stop()
	})
}

// TestEvictedBeforeItsTurnEnded: an eviction that comes behind a newer pin of the same
// conversation leaves that one alone.
func TestEvictedBeforeItsTurnEnded(t *testing.T) {
	var released []int32
	evicted := map[Key]int{}
	deps := Deps{Budget: NewBudget(1, 1000), IdleMax: time.Minute, Evict: func(k Key) { evicted[k]++ },
		Release: func(_ string, p batcher.Pin) { released = append(released, p.Handle.ID) }}
	a, b := New(Key{1}, &Cell{}, deps), New(Key{2}, &Cell{}, deps)
	finish := func(s system.Actor, id int32) {
		s.Receive(nil, Finished{Pin: batcher.Pin{Handle: engine.Handle{ID: id}}, Account: "a", Bytes: 10, Lost: func() { t.Error("lost") }})
	}
	finish(b, 1)
	finish(a, 2) // tells b to give pin 1 up, but b has a message before that:
	finish(b, 3) // which tells a
	b.Receive(nil, Evict{})
	if evicted[Key{1}] != 1 || evicted[Key{2}] != 1 || !slices.Equal(released, []int32{1}) || !deps.Budget.Has(Key{2}) {
		t.Errorf("evictions %v, released %v", evicted, released)
	}
}
