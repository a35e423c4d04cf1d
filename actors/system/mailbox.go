package system

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// messagesPerRound is how many messages an actor handles before it yields its
// processor.
const messagesPerRound = 300

// keptCapacity is the largest capacity that an empty queue keeps, in messages.
const keptCapacity = 1024

// mailbox is the queue of one actor. Senders spin on a full mailbox of the library's
// bounded kind, and its unbounded kind forgets the messages of a stopped actor. This one
// refuses: a message that finds it full, and all that a stopped actor leaves behind.
//
// States: idle -> running -> idle. Suspended: a failure is being decided, and only
// system messages are handled. Closed: the actor has stopped, or waits for its
// children to stop.
type mailbox struct {
	max     int
	refused func(m any, err error)
	failed  func(reason any, stack []byte)

	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	run        func() // process, as a value made once

	mu        sync.Mutex // guards all below
	user      queue
	system    queue
	running   bool
	suspended bool
	closed    bool
	retired   bool // closed by the actor itself, because it was idle
}

// offer queues m for the actor, or says why not.
func (b *mailbox) offer(m any, capped bool) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrStopped
	}
	if capped && b.user.len() >= b.max {
		b.mu.Unlock()
		return ErrFull
	}
	b.user.push(m)
	wake := !b.running && !b.suspended
	b.running = b.running || wake
	b.mu.Unlock()
	if wake {
		b.dispatcher.Schedule(b.run)
	}
	return nil
}

// PostUserMessage implements the library's Mailbox. Our messages come through offer.
func (b *mailbox) PostUserMessage(m any) {
	if err := b.offer(m, false); err != nil {
		b.refused(m, err)
	}
}

// PostSystemMessage implements the library's Mailbox. The actor's lifecycle and its
// children bound the number of these messages.
func (b *mailbox) PostSystemMessage(m any) {
	b.mu.Lock()
	b.system.push(m)
	wake := !b.running
	b.running = true
	b.mu.Unlock()
	if wake {
		b.dispatcher.Schedule(b.run)
	}
}

// RegisterHandlers implements the library's Mailbox.
func (b *mailbox) RegisterHandlers(i actor.MessageInvoker, d actor.Dispatcher) {
	b.invoker, b.dispatcher, b.run = i, d, b.process
}

// Start implements the library's Mailbox.
func (b *mailbox) Start() {}

// UserMessageCount implements the library's Mailbox.
func (b *mailbox) UserMessageCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.user.len()
}

// process handles messages until there are none.
func (b *mailbox) process() {
	for b.round() {
		runtime.Gosched()
	}
}

// round handles messages until none is left, until it has handled messagesPerRound, or
// until one panics. Only in the first case it returns false.
func (b *mailbox) round() (again bool) {
	var m any
	defer func() {
		if r := recover(); r != nil {
			b.failed(r, debug.Stack())
			b.invoker.EscalateFailure(r, m)
			again = true
		}
	}()
	for range messagesPerRound {
		var system, ok bool
		if m, system, ok = b.next(); !ok {
			return false
		}
		if system {
			b.invoker.InvokeSystemMessage(m)
		} else {
			b.invoker.InvokeUserMessage(m)
		}
	}
	return true
}

// next takes a message, system messages first. Without one the mailbox becomes idle.
func (b *mailbox) next() (m any, system, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.system.len() > 0 {
		m = b.system.pop()
		switch m.(type) {
		case *actor.SuspendMailbox:
			b.suspended = true
		case *actor.ResumeMailbox:
			b.suspended = false
		default:
			return m, true, true
		}
	}
	if !b.suspended && b.user.len() > 0 {
		return b.user.pop(), false, true
	}
	b.running = false
	return nil, false, false
}

// retire closes an empty mailbox and says whether it was empty.
func (b *mailbox) retire() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.user.len() > 0 || b.closed {
		return false
	}
	b.closed, b.retired = true, true
	return true
}

// close refuses what waits, and from then on every message.
func (b *mailbox) close() {
	b.mu.Lock()
	b.closed = true
	left := b.user.rest()
	b.mu.Unlock()
	for _, m := range left {
		b.refused(m, ErrStopped)
	}
}

func (b *mailbox) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *mailbox) isRetired() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.retired
}

// queue is first in, first out. The zero queue is empty.
type queue struct {
	items []any
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(m any) { q.items = append(q.items, m) }

func (q *queue) pop() any {
	m := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	switch {
	case q.head < len(q.items):
		if q.head >= keptCapacity && 2*q.head >= len(q.items) {
			q.items = append(q.items[:0:0], q.items[q.head:]...)
			q.head = 0
		}
	case cap(q.items) > keptCapacity:
		*q = queue{}
	default:
		q.items, q.head = q.items[:0], 0
	}
	return m
}

// rest empties the queue.
func (q *queue) rest() []any {
	left := q.items[q.head:]
	*q = queue{}
	return left
}
