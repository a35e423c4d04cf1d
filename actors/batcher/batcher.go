// Package batcher runs one model. An actor handles control messages. Beside it runs the
// step loop: one goroutine that owns the stepper, and with it the scheduler and all KV
// memory of the model. No token passes an actor: the step loop pushes them into each
// job's own queue.
//
// The goroutine is not locked to an OS thread; the kernels' own threads are. A locked
// loop pays two thread switches each time it sleeps and wakes (211 against 254 us of CPU
// per request on an instant engine). A device that binds its context to a thread locks
// it in Stepper.
//
// Life of a Unit: running -> failed -> running again -> down. When the loop panics, every
// job ends with an error event. The supervisor restarts the actor, which makes a new
// stepper. After too many failures the unit is down for good. If only the actor fails,
// the loop goes on, and clients see nothing of it.
package batcher

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/system"
	"corenode/engine"
	"corenode/wasm/abi"
)

// Stepper is the engine of one model. One goroutine calls it.
type Stepper interface {
	// Submit takes a job: it pushes EventStart and later calls Finished. Whether it is taken
	// it says once, on the step loop: before it returns, or in a later Step where a server
	// elsewhere has to say so. After an error Finished is not called.
	Submit(j *engine.Job, now time.Time, taken func(*abi.Error))
	// Step computes one forward pass; false means that nothing can run now.
	Step(now time.Time) bool
	// NextDeadline says when Step must be called although nothing can run.
	NextDeadline() (time.Time, bool)
	// Release gives a pinned prefix back.
	Release(h engine.Handle)
	// Abort ends every job with err.
	Abort(err *abi.Error)
	Close()
}

// Pin is a pinned prefix of one incarnation of a unit's stepper. Pins of an
// earlier incarnation died with its memory; releasing one does nothing.
type Pin struct {
	Handle      engine.Handle
	Incarnation uint64
}

// Ticket is a job on its way to the stepper. Exactly one of Accepted and Refused
// is called, and neither may wait.
type Ticket interface {
	Job() *engine.Job
	// Gone says that nobody wants the answer any more; such a job is not submitted.
	Gone() bool
	// Accepted is called when the stepper has the job. Its Finished follows.
	Accepted(incarnation uint64)
	Refused(*abi.Error)
}

// Message is the closed set of things a batcher is told.
type Message interface{ batcherMessage() }

// Enqueue hands a job over.
type Enqueue struct{ Ticket Ticket }

// Release gives a pin back.
type Release struct{ Pin Pin }

// Abort ends every job with Err, the waiting ones too.
type Abort struct{ Err *abi.Error }

// Visit runs Do on the step loop, between two steps: streams wait for its end, so it has to
// be short. Lost is called instead when no loop will run it.
type Visit struct {
	Do   func(Stepper)
	Lost func()
}

// loopDown is sent by a step loop that panicked, after it ended its jobs.
type loopDown struct{ reason string }

func (Enqueue) batcherMessage()  {}
func (Release) batcherMessage()  {}
func (Abort) batcherMessage()    {}
func (Visit) batcherMessage()    {}
func (loopDown) batcherMessage() {}

// Refuse answers a visit that no batcher will see.
func (m Visit) Refuse(error) { m.Lost() }

// Refuse answers a job that no batcher will see.
func (m Enqueue) Refuse(err error) { m.Ticket.Refused(unavailable(err)) }

func unavailable(err error) *abi.Error {
	return system.Overloaded("batcher.Enqueue", "the model is overloaded or restarting; try again", err)
}

// errDown is what clients see of a model that failed too often.
func errDown(model string) *abi.Error {
	return system.OverloadedFor(30*time.Second, "batcher.Enqueue", fmt.Sprintf("model %s is down", model), nil)
}

// errCrashed is what the clients of a stepper that panicked see.
func errCrashed() *abi.Error {
	return &abi.Error{Kind: abi.Internal, Op: "batcher.loop", Msg: "the model failed while it was answering; try again"}
}

// Config of a Unit.
type Config struct {
	Model string
	// New makes a stepper: at the start and after each failure. It is called on the step loop.
	// wake makes the loop call Step soon, and may be called from any goroutine.
	New func(wake func()) (Stepper, error)
	// PollEvery is how often Step is called while jobs live but none can run, because their
	// readers are behind; 0 for a stepper that wakes the loop itself.
	PollEvery time.Duration
	// InboxMax is the most jobs that wait for the step loop between two steps.
	InboxMax int
	Hook     system.Hook
}

// Unit is one model with its step loop. It is safe for concurrent use.
type Unit struct {
	cfg   Config
	inbox inbox

	rebuilds atomic.Uint64
	live     atomic.Int64
	steps    atomic.Uint64
	down     atomic.Bool
	first    chan error // the outcome of the first call of New

	mu          sync.Mutex // guards loop and incarnation
	loop        *loop      // nil before the first start and after a failure
	incarnation uint64
}

// NewUnit makes a unit. Its loop starts with its actor.
func NewUnit(cfg Config) *Unit {
	return &Unit{cfg: cfg, inbox: newInbox(cfg.InboxMax), first: make(chan error, 1)}
}

// Stats describe a unit.
type Stats struct {
	Model    string
	Live     int64  // jobs the stepper has
	Waiting  int    // jobs in the inbox
	Steps    uint64 // calls of Step
	Rebuilds uint64 // steppers made after a failure
	Down     bool
}

// Stats may be called from any goroutine.
func (u *Unit) Stats() Stats {
	return Stats{u.cfg.Model, u.live.Load(), u.inbox.len(), u.steps.Load(), u.rebuilds.Load(), u.down.Load()}
}

// Wake makes an idle step loop look again, after a job was canceled.
func (u *Unit) Wake() { u.inbox.wake() }

// First receives the outcome of making the first stepper.
func (u *Unit) First() <-chan error { return u.first }

// make calls New and turns its panic into an error.
func (u *Unit) make() (s Stepper, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
		select {
		case u.first <- err:
		default: // not the first, or nobody asked
		}
	}()
	return u.cfg.New(u.Wake)
}

// start makes sure that a loop runs. It reports to self when the loop dies.
func (u *Unit) start(self *system.Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.loop != nil {
		return
	}
	u.incarnation++
	if u.incarnation > 1 {
		u.rebuilds.Add(1)
	}
	l := &loop{unit: u, incarnation: u.incarnation, live: map[*engine.Job]Ticket{}, done: make(chan struct{})}
	u.loop = l
	go func() {
		defer close(l.done)
		reason := l.run()
		if reason == "" {
			return
		}
		u.mu.Lock()
		u.loop = nil
		u.mu.Unlock()
		_ = self.Tell(loopDown{reason}) // a stopped actor closes the unit by itself
	}()
}

// close ends the loop for good and refuses what waits.
func (u *Unit) close(why *abi.Error) {
	u.down.Store(true)
	for _, c := range u.inbox.close() {
		c.lost(why)
	}
}

// Wait returns when the step loop has ended. Call it after the actor has stopped.
func (u *Unit) Wait() {
	u.mu.Lock()
	l := u.loop
	u.mu.Unlock()
	if l != nil {
		<-l.done
	}
}

// New returns the actor of a unit. At most one lives at a time.
func New(u *Unit) system.Actor { return &batcher{unit: u} }

// batcher is the actor. All its state is in the unit.
type batcher struct{ unit *Unit }

// Started starts the step loop, or goes on with the one that runs.
func (b *batcher) Started(c *system.Context) { b.unit.start(c.Self()) }

// Stopped closes the unit: the supervisor gave up or the node ends.
func (b *batcher) Stopped() { b.unit.close(errDown(b.unit.cfg.Model)) }

// Receive implements system.Actor.
func (b *batcher) Receive(_ *system.Context, m any) {
	switch m := m.(type) {
	case Enqueue:
		b.enqueue(m.Ticket)
	case Release:
		b.unit.inbox.put(control{release: &m.Pin})
	case Abort:
		b.unit.inbox.put(control{abort: m.Err})
	case Visit:
		if !b.unit.inbox.put(control{visit: &m}) {
			m.Lost()
		}
	case loopDown:
		panic("step loop of " + b.unit.cfg.Model + ": " + m.reason)
	}
}

// enqueue passes a job to the step loop or refuses it.
func (b *batcher) enqueue(t Ticket) {
	passed := false
	defer system.OnPanic(func(reason any) {
		if !passed {
			t.Refused(unavailable(fmt.Errorf("batcher: %v", reason)))
		}
	})
	b.unit.cfg.Hook.At("batcher.enqueue")
	if passed = b.unit.inbox.put(control{ticket: t}); !passed {
		t.Refused(unavailable(system.ErrFull))
	}
}
