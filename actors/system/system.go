// Package system is the one place that knows the actor library. It offers what
// the tree is built from: actors with one mailbox each, supervised by a Policy,
// groups of them, and pools with one actor per key.
//
// Life of an actor: New -> Started -> Receive, one message at a time -> Stopped.
// A panic in Receive drops the message and asks the actor's Policy: resume with
// the state kept, restart with New after a delay, or give up and stop. The mailbox
// outlives restarts. Messages that a stopped actor leaves behind are refused, not
// lost: see Refuser.
package system

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrFull is returned for a message that found its mailbox at the cap.
var ErrFull = errors.New("mailbox is full")

// ErrStopped is returned for a message to an actor that has stopped.
var ErrStopped = errors.New("actor has stopped")

// Actor is the waiting half of a component. It is called from one goroutine at a time.
type Actor interface {
	Receive(c *Context, m any)
}

// Starter is an Actor that wants to act before its first message, after each restart too.
type Starter interface{ Started(c *Context) }

// Restarter is an Actor that has something to save when it failed and is about
// to be replaced by a new one.
type Restarter interface{ Restarting(c *Context) }

// Stopper is an Actor that gives something back when it stops for good. It is
// not called before a restart.
type Stopper interface{ Stopped() }

// Refuser is a message that owes somebody an answer. It is called with ErrStopped
// or ErrFull when no actor will ever see the message. It must not wait.
type Refuser interface{ Refuse(err error) }

// Kill makes the actor that receives it panic. Tests use it to check what a
// restart forgets; nothing else sends it.
type Kill struct{ Reason string }

// Sweep asks an actor of a Pool whether it is idle; one that is calls Context.Retire.
type Sweep struct{}

// ChildStopped tells a parent that one of its children has stopped for good.
type ChildStopped struct{ Ref *Ref }

// Spec says how to make and supervise one actor.
type Spec struct {
	Name       string
	New        func() Actor
	Policy     Policy
	MailboxMax int // messages waiting; Send refuses beyond it
	// Stopped is called once when the actor has stopped for good, after its
	// Stopper. It may be nil and must not wait.
	Stopped func()
	tag     any // the key, in a Pool
}

// Config of a System.
type Config struct {
	Logger *slog.Logger
	// Workers is the number of goroutines kept for actors; more are started when
	// all of them are busy. Default 16.
	Workers int
	// Failed is told of every panic of an actor.
	Failed func(name string, reason any)
	// Fatal is told once when a policy gives up with FailNode. It must not wait.
	Fatal func(name string, reason any)
}

// System runs one tree of actors.
type System struct {
	cfg    Config
	lib    *actor.ActorSystem
	disp   *workers
	policy *supervisor
	refs   sync.Map // actor id -> *Ref, while it lives
	ids    atomic.Uint64
	dead   atomic.Uint64
	fatal  sync.Once
	root   *Ref
}

// New makes a system without actors.
func New(cfg Config) *System {
	if cfg.Workers == 0 {
		cfg.Workers = 16
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &System{cfg: cfg, disp: startWorkers(cfg.Workers)}
	// The library logs whole messages and panics; what matters is logged here.
	// Its throttle for that would leave a goroutine behind for its interval.
	s.lib = actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(1),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	s.policy = &supervisor{sys: s}
	s.lib.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok && !isSystem(d.Message) {
			s.dead.Add(1)
		}
	})
	return s
}

func isSystem(m any) bool {
	switch m.(type) {
	case actor.SystemMessage, actor.MailboxMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}

// DeadLetters counts the messages that no actor will ever see.
func (s *System) DeadLetters() uint64 { return s.dead.Load() }

// Start spawns the root of the tree. Call it once.
func (s *System) Start(spec Spec) (*Ref, error) {
	ref, props := s.prepare(spec)
	s.refs.Store(ref.id, ref) // before it can fail
	pid, err := s.lib.Root.SpawnNamed(props.Configure(actor.WithGuardian(s.policy)), ref.id)
	if err != nil {
		return nil, err
	}
	ref.pid = pid
	s.root = ref
	return ref, nil
}

// Stop stops the root and with it every actor, children first, and waits.
func (s *System) Stop() {
	if s.root != nil {
		select {
		case <-s.root.done: // its policy gave up
		default:
			s.lib.Root.Stop(s.root.pid)
		}
		<-s.root.done
	}
	s.disp.stop()
}

// prepare makes the reference of an actor before the actor: nothing can be sent
// to it until the library has it.
func (s *System) prepare(spec Spec) (*Ref, *actor.Props) {
	ref := &Ref{spec: spec, sys: s, done: make(chan struct{})}
	ref.id = spec.Name + "$" + strconv.FormatUint(s.ids.Add(1), 36)
	ref.box.max = spec.MailboxMax
	ref.box.refused = s.refuse
	ref.box.failed = func(r any, stack []byte) {
		s.cfg.Logger.Error("actor failed", "actor", spec.Name, "reason", r, "stack", string(stack))
		if s.cfg.Failed != nil {
			s.cfg.Failed(spec.Name, r)
		}
	}
	props := actor.PropsFromProducer(func() actor.Actor { return &shell{ref: ref, inner: spec.New()} },
		actor.WithMailbox(func() actor.Mailbox { return &ref.box }),
		actor.WithDispatcher(s.disp), actor.WithSupervisor(s.policy))
	return ref, props
}

// refuse answers for an actor that is gone.
func (s *System) refuse(m any, err error) {
	s.dead.Add(1)
	if r, ok := m.(Refuser); ok {
		r.Refuse(err)
	}
}

// Ref is how others reach an actor. It stays valid over restarts. It is safe for concurrent use.
type Ref struct {
	spec Spec
	sys  *System
	id   string
	pid  *actor.PID // of the root only
	box  mailbox
	done chan struct{}
}

// Send delivers m, or says ErrFull or ErrStopped. It never waits.
func (r *Ref) Send(m any) error { return r.box.offer(m, true) }

// Tell delivers m without regard to the cap. It is for messages whose number is
// bounded by something granted before, such as the end of a request.
func (r *Ref) Tell(m any) error { return r.box.offer(m, false) }

// Depth returns the number of messages that wait.
func (r *Ref) Depth() int { return r.box.UserMessageCount() }

// Alive says whether messages are still accepted.
func (r *Ref) Alive() bool { return !r.box.isClosed() }

// Context is what an actor may do while it handles a message. It is only valid during that call.
type Context struct {
	lib actor.Context
	ref *Ref
}

// Self returns the actor's own reference.
func (c *Context) Self() *Ref { return c.ref }

// Spawn starts a child of the actor.
func (c *Context) Spawn(spec Spec) *Ref {
	ref, props := c.ref.sys.prepare(spec)
	c.ref.sys.refs.Store(c.lib.Self().Id+"/"+ref.id, ref)      // before it can fail
	if _, err := c.lib.SpawnNamed(props, ref.id); err != nil { // ids are never reused
		panic("spawn " + ref.id + ": " + err.Error())
	}
	return ref
}

// Retire stops the actor if no message waits for it. After true every further
// message is answered with ErrStopped at once, so its sender can turn to a successor.
func (c *Context) Retire() bool {
	if !c.ref.box.retire() {
		return false
	}
	c.lib.Stop(c.lib.Self())
	return true
}

// shell adapts an Actor to the library. One exists per incarnation.
type shell struct {
	ref     *Ref
	inner   Actor
	context Context // reused: it is only valid during one call
}

// Receive passes the library's lifecycle on in our words.
func (s *shell) Receive(lib actor.Context) {
	s.context = Context{lib: lib, ref: s.ref}
	c := &s.context
	switch m := lib.Message().(type) {
	case *actor.Started:
		if a, ok := s.inner.(Starter); ok {
			a.Started(c)
		}
	case *actor.Restarting:
		if a, ok := s.inner.(Restarter); ok {
			a.Restarting(c)
		}
	case *actor.Stopping:
		// One without children is closed after its last words: a successor, which the
		// next message may get, shares its cell.
		if len(lib.Children()) > 0 {
			s.ref.box.close() // a child spawned from here on it would wait for for ever
		}
	case *actor.Stopped:
		s.stopped(lib.Self().Id)
	case *actor.Terminated:
		if child, ok := s.ref.sys.refs.LoadAndDelete(m.Who.Id); ok {
			s.inner.Receive(c, ChildStopped{child.(*Ref)})
		}
	case Kill:
		panic("killed by a test: " + m.Reason)
	default:
		s.inner.Receive(c, m)
	}
}

// stopped runs the last words of an actor; none of them may keep the others from being said.
func (s *shell) stopped(id string) {
	defer close(s.ref.done)
	if s.ref.spec.Stopped != nil {
		defer s.ref.spec.Stopped()
	}
	defer s.ref.box.close()
	if a, ok := s.inner.(Stopper); ok {
		a.Stopped()
	}
}
