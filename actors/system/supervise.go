package system

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// GiveUp says what happens when an actor fails too often.
type GiveUp uint8

const (
	// StopActor stops the actor. It is told so as a Stopper, and its messages are refused.
	StopActor GiveUp = iota
	// FailNode stops the actor and calls Config.Fatal: the node cannot serve without it.
	FailNode
)

// Policy says what happens when an actor panics.
type Policy struct {
	// Resume drops the message and keeps the actor. Without it New makes another actor.
	Resume bool
	// FailuresMax is how many failures within Within make the supervisor give up.
	FailuresMax int
	Within      time.Duration
	// The delay before the first restart is BackoffMin. It doubles with each failure
	// within Within, up to BackoffMax. Up to half of it is taken off at random.
	BackoffMin, BackoffMax time.Duration
	GiveUp                 GiveUp
}

// delay returns the time before restart number n (from 1); random is in [0, 1).
func (p Policy) delay(n int, random float64) time.Duration {
	d := p.BackoffMin
	for ; n > 1 && d < p.BackoffMax; n-- {
		d *= 2
	}
	d = min(d, p.BackoffMax)
	return d - time.Duration(random*float64(d)/2)
}

// supervisor applies the policy of a failed actor. All parents share it.
type supervisor struct{ sys *System }

// HandleFailure implements the library's SupervisorStrategy. It runs on the parent's
// goroutine and does not wait: a timer does a delayed restart.
func (s *supervisor) HandleFailure(_ *actor.ActorSystem, parent actor.Supervisor, child *actor.PID,
	stats *actor.RestartStatistics, reason, _ any) {
	ref := s.find(child)
	if ref == nil { // it stopped meanwhile
		return
	}
	p := ref.spec.Policy
	if stats.NumberOfFailures(p.Within) == 0 {
		stats.Reset() // so that the list never has more than FailuresMax failures
	}
	stats.Fail()
	n := stats.NumberOfFailures(p.Within)
	switch {
	case n >= p.FailuresMax:
		s.giveUp(ref, parent, child, n, reason)
	case p.Resume:
		parent.ResumeChildren(child)
	default:
		if d := p.delay(n, rand.Float64()); d > 0 {
			time.AfterFunc(d, func() { parent.RestartChildren(child) })
			return
		}
		parent.RestartChildren(child)
	}
}

func (s *supervisor) giveUp(ref *Ref, parent actor.Supervisor, child *actor.PID, n int, reason any) {
	s.sys.cfg.Logger.Error("actor fails too often and is stopped", "actor", ref.spec.Name, "failures", n)
	parent.StopChildren(child)
	if ref.spec.Policy.GiveUp == FailNode && s.sys.cfg.Fatal != nil {
		s.sys.fatal.Do(func() { s.sys.cfg.Fatal(ref.spec.Name, reason) })
	}
}

func (s *supervisor) find(pid *actor.PID) *Ref {
	if r, ok := s.sys.refs.Load(pid.Id); ok {
		return r.(*Ref)
	}
	return nil
}

// workersMin is how many goroutines always wait for work. When all of them are busy, more are started.
const workersMin = 16

// workers is the library's dispatcher on a fixed set of goroutines. A new goroutine
// for each wake-up would spend most of its time growing its stack.
type workers struct {
	work chan func() // nil ends who takes it
	wg   sync.WaitGroup
}

func startWorkers() *workers {
	w := &workers{work: make(chan func())}
	for range workersMin {
		w.wg.Go(w.run)
	}
	return w
}

func (w *workers) run() {
	for f := <-w.work; f != nil; f = <-w.work {
		f()
	}
}

// Schedule implements the library's Dispatcher. It starts a goroutine when all workers
// are busy, so nothing waits for one of them.
func (w *workers) Schedule(f func()) {
	select {
	case w.work <- f:
	default:
		go f()
	}
}

// Throughput implements the library's Dispatcher. Our mailbox counts by itself.
func (w *workers) Throughput() int { return messagesPerRound }

func (w *workers) stop() {
	for range workersMin {
		w.work <- nil
	}
	w.wg.Wait()
}
