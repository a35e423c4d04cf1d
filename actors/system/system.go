// Package system wraps the actor library; no other package imports it. The tree is
// built from its parts: actors with one mailbox each and a Policy, groups of actors,
// and pools with one actor per key.
//
// Life of an actor: New -> Started -> Receive, one message at a time -> Stopped.
// A panic in Receive drops the message. Then the actor's Policy decides: resume with
// the state kept, restart with New after a delay, or stop. The mailbox survives a
// restart. When an actor stops, the messages that wait for it are refused and not
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

// ErrFull means that the mailbox already holds as many messages as it may.
var ErrFull = errors.New("mailbox is full")

// ErrStopped means that the actor has stopped for good.
var ErrStopped = errors.New("actor has stopped")

// Actor handles messages. It is called from one goroutine at a time.
type Actor interface {
	Receive(c *Context, m any)
}

// Starter is an Actor that acts before its first message. It does so after each restart too.
type Starter interface{ Started(c *Context) }

// Restarter is an Actor that saves something after it failed, before a new one
// takes its place.
type Restarter interface{ Restarting(c *Context) }

// Stopper is an Actor that gives something back when it stops for good. A restart
// does not call it.
type Stopper interface{ Stopped() }

// Refuser is a message whose sender waits for an answer. Refuse is called with
// ErrStopped or ErrFull when no actor will see the message. It must not wait.
type Refuser interface{ Refuse(err error) }

// Kill makes the actor that receives it panic. Only tests send it, to check what a
// restart forgets.
type Kill struct{ Reason string }

// Sweep asks an actor of a Pool whether it is idle. An idle actor calls Context.Retire.
type Sweep struct{}

// ChildStopped tells a parent that one of its children has stopped for good.
type ChildStopped struct{ Ref *Ref }

// Spec says how to make and supervise one actor.
type Spec struct {
	Name       string
	New        func() Actor
	Policy     Policy
	MailboxMax int // messages waiting; Send refuses beyond it
	tag        any // the key, in a Pool
}

// Config of a System.
type Config struct {
	Logger *slog.Logger
	// Failed is called after every panic of an actor.
	Failed func(name string, reason any)
	// Fatal is called once, when a policy gives up with FailNode. It must not wait.
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &System{cfg: cfg, disp: startWorkers()}
	// The library logs whole messages and panics, so its log is discarded: this package
	// logs what matters. Its throttle of dead letters would leave a goroutine behind.
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

// DeadLetters counts the messages that reached no actor.
func (s *System) DeadLetters() uint64 { return s.dead.Load() }

// Start spawns the root of the tree. Call it once.
func (s *System) Start(spec Spec) (*Ref, error) {
	ref, props := s.prepare(spec)
	s.refs.Store(ref.id, ref) // first: the supervisor looks it up when the actor fails
	pid, err := s.lib.Root.SpawnNamed(props.Configure(actor.WithGuardian(s.policy)), ref.id)
	if err != nil {
		return nil, err
	}
	ref.pid = pid
	s.root = ref
	return ref, nil
}

// Stop stops every actor, children first, and waits.
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

// prepare makes the reference of an actor that the library has not started yet.
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

// refuse answers a message in place of an actor that has stopped.
func (s *System) refuse(m any, err error) {
	s.dead.Add(1)
	if r, ok := m.(Refuser); ok {
		r.Refuse(err)
	}
}

// Ref sends messages to an actor. It survives restarts. It is safe for concurrent use.
type Ref struct {
	spec Spec
	sys  *System
	id   string
	pid  *actor.PID // of the root only
	box  mailbox
	done chan struct{}
}

// Send puts m into the mailbox, or returns ErrFull or ErrStopped. It never waits.
func (r *Ref) Send(m any) error { return r.box.offer(m, true) }

// Tell is Send without the bound of the mailbox. It is for messages whose number is
// bounded elsewhere, such as the end of an admitted request.
func (r *Ref) Tell(m any) error { return r.box.offer(m, false) }

// Depth returns the number of messages that wait.
func (r *Ref) Depth() int { return r.box.UserMessageCount() }

// Alive says whether the mailbox still takes messages.
func (r *Ref) Alive() bool { return !r.box.isClosed() }

// Context is what an actor may do while it handles a message. It is valid during that call only.
type Context struct {
	lib actor.Context
	ref *Ref
}

// Self returns the actor's own reference.
func (c *Context) Self() *Ref { return c.ref }

// Spawn starts a child of the actor.
func (c *Context) Spawn(spec Spec) *Ref {
	ref, props := c.ref.sys.prepare(spec)
	c.ref.sys.refs.Store(c.lib.Self().Id+"/"+ref.id, ref)      // first, as in Start
	if _, err := c.lib.SpawnNamed(props, ref.id); err != nil { // ids are never reused
		panic("spawn " + ref.id + ": " + err.Error())
	}
	return ref
}

// Retire stops the actor if no message waits for it, and says whether it did. From
// then on Send returns ErrStopped at once, so that the sender can use a successor.
func (c *Context) Retire() bool {
	if !c.ref.box.retire() {
		return false
	}
	c.lib.Stop(c.lib.Self())
	return true
}

// shell adapts an Actor to the library. Each incarnation has its own.
type shell struct {
	ref     *Ref
	inner   Actor
	context Context // reused: it is only valid during one call
}

// Receive turns the library's lifecycle messages into calls of the Actor.
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
		// Without children the mailbox stays open until Stopped has run: the next message
		// may make a successor, and the two share a cell.
		if len(lib.Children()) > 0 {
			s.ref.box.close() // it would wait for ever for a child that it spawns now
		}
	case *actor.Stopped:
		s.stopped()
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

// stopped runs what an actor does at its end. Each part runs even if another one panics.
func (s *shell) stopped() {
	defer close(s.ref.done)
	defer s.ref.box.close()
	if a, ok := s.inner.(Stopper); ok {
		a.Stopped()
	}
}
