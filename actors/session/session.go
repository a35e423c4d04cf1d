// Package session keeps what a conversation has in the prefix cache: one actor
// per live conversation owns the pin of its last finished turn.
//
// Life of a session: its first turn spawns it. After each finished turn it takes the new
// pin and releases the old one. It retires when it is idle, and is evicted when its
// account pins too much. A restart forgets nothing: the pin is in the cell, which the
// next incarnation takes over. A pin carries the step loop's incarnation and an epoch,
// which make a second release harmless.
package session

import (
	"fmt"
	"time"

	"corenode/actors/batcher"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// Key names a conversation of one account on one model. It is secret: it is
// neither logged nor shown.
type Key [32]byte

// Ticket is a turn on its way to the batcher. Exactly one of its methods decides
// it; neither may wait.
type Ticket interface {
	// Enqueue passes the turn on. An error means that it could not be; Refused follows.
	Enqueue() *abi.Error
	Refused(*abi.Error)
}

// unpinnedIdleMax is how long a session without a pin waits for one: it holds
// nothing that the next turn could use.
const unpinnedIdleMax = 10 * time.Second

// Message is the closed set of things a session is told.
type Message interface{ sessionMessage() }

// Turn is one request of the conversation.
type Turn struct{ Ticket Ticket }

// Finished says that a turn left a pinned prefix of a conversation of Bytes bytes.
// The pin is the session's from now on.
type Finished struct {
	Pin     batcher.Pin
	Model   string
	Account string
	Bytes   int64
	// Lost is called if no session takes the pin, which must then be released.
	Lost func()
}

// Evict takes the pin from a session whose account pins too much.
type Evict struct{}

func (Turn) sessionMessage()     {}
func (Finished) sessionMessage() {}
func (Evict) sessionMessage()    {}

// Refuse answers a turn that no session will see, because there are too many:
// it goes on without one. A session only makes the prefix cache better, so a
// client that opens many costs nobody else a request.
func (m Turn) Refuse(error) {
	if err := m.Ticket.Enqueue(); err != nil {
		m.Ticket.Refused(err)
	}
}

// failed answers a turn whose session panicked with it in hand.
func (m Turn) failed(reason any) {
	m.Ticket.Refused(system.Overloaded("session.Turn", "the node could not take the request; try again", fmt.Errorf("session: %v", reason)))
}

// Refuse gives the pin back.
func (m Finished) Refuse(error) { m.Lost() }

// Cell is what outlives a session's restarts. Owned by the session's actor.
type Cell struct {
	pin     batcher.Pin
	model   string
	pinned  bool
	lastUse time.Time
}

// Deps is what a session needs from outside.
type Deps struct {
	// Release gives a pin back to a model. It must not wait.
	Release func(model string, p batcher.Pin)
	// Evict tells another session to give its pin up. It must not wait.
	Evict   func(Key)
	Budget  *Budget
	IdleMax time.Duration // a session unused for so long retires
	Hook    system.Hook
}

// New returns the actor of a conversation.
func New(k Key, cell *Cell, deps Deps) system.Actor {
	return &session{key: k, cell: cell, deps: deps}
}

type session struct {
	key  Key
	cell *Cell
	deps Deps
}

// Started counts the spawn as a use, so that a sweep does not meet a session before its turn.
func (s *session) Started(*system.Context) { s.cell.lastUse = time.Now() }

// Stopped gives the pin back, however the session ended.
func (s *session) Stopped() { s.drop() }

// Receive implements system.Actor.
func (s *session) Receive(c *system.Context, m any) {
	switch m := m.(type) {
	case Turn:
		s.turn(m)
	case Finished:
		s.finished(m)
	case Evict:
		if s.deps.Budget.Has(s.key) {
			return // a turn has finished since: its pin is a new one, and counted
		}
		s.drop()
		c.Retire()
	case system.Sweep:
		idle := time.Since(s.cell.lastUse)
		if idle >= s.deps.IdleMax || !s.cell.pinned && idle >= unpinnedIdleMax {
			s.drop() // first: of the same key a successor may count a pin once this one is retired
			c.Retire()
		}
	}
}

// turn passes a request on to its batcher.
func (s *session) turn(m Turn) {
	passed := false
	defer system.OnPanic(func(reason any) {
		if !passed {
			m.failed(reason)
		}
	})
	s.cell.lastUse = time.Now()
	s.deps.Hook.At("session.turn")
	err := m.Ticket.Enqueue()
	passed = true
	if err != nil {
		m.Ticket.Refused(err)
	}
}

// finished swaps the pin: the new one covers the turn that just ended, as far as its bytes go.
func (s *session) finished(m Finished) {
	taken := false
	defer func() {
		if !taken {
			m.Lost()
		}
	}()
	s.drop()
	s.cell.pin, s.cell.model, s.cell.pinned = m.Pin, m.Model, true
	s.cell.lastUse = time.Now()
	taken = true
	for _, k := range s.deps.Budget.Set(m.Account, s.key, m.Bytes) {
		s.deps.Evict(k)
	}
}

// drop releases the pin once.
func (s *session) drop() {
	if !s.cell.pinned {
		return
	}
	s.cell.pinned = false
	s.deps.Budget.Forget(s.key)
	s.deps.Release(s.cell.model, s.cell.pin)
}
