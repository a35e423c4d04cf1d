package system

import (
	"sync"
	"sync/atomic"
)

// Group is a branch of the tree: an actor that does nothing but have children.
type Group struct {
	Specs []Spec
	// Spawned is called once all children exist, with them in the order of Specs.
	Spawned func(children []*Ref)
}

// Started spawns the children.
func (g *Group) Started(c *Context) {
	refs := make([]*Ref, len(g.Specs))
	for i, spec := range g.Specs {
		refs[i] = c.Spawn(spec)
	}
	g.Spawned(refs)
}

// Receive implements Actor. A group ignores all messages.
func (g *Group) Receive(*Context, any) {}

// PoolSpec says how a Pool makes its actors.
type PoolSpec[K comparable, C any] struct {
	Name       string // of the supervisor
	Child      string // of each child
	Policy     Policy // of the supervisor. It must resume: a restart would stop every child
	Children   Policy
	MailboxMax int // of the supervisor and of each child
	// Max is the most keys at once. A message for one more key is refused.
	Max int
	// TellBeyondMax says that only one of Send is: those of Tell are bounded elsewhere, and sent again when they are refused.
	TellBeyondMax bool
	// SweepMax is the most children that one sweep asks: stopping many at once is slow.
	SweepMax int
	// New makes the actor of a key. The cell, which begins as the zero value, survives restarts of the actor and is
	// owned by it; the cell's type says who else may read it.
	New func(K, *C) Actor
}

// Pool supervises one actor per key. The first message for a key spawns its actor; a
// sweep stops it when it is idle. It is safe for concurrent use.
type Pool[K comparable, C any] struct {
	spec     PoolSpec[K, C]
	ref      *Ref
	sweeping atomic.Bool // the supervisor's mailbox holds a sweep

	mu      sync.RWMutex // guards entries; only the supervisor's goroutine writes
	entries map[K]*entry[C]
}

// entry is one key. ref is nil while it has a cell but no actor.
type entry[C any] struct {
	ref  *Ref
	cell *C
	at   int // its place in the order of the sweep. Owned by the supervisor's goroutine
}

// NewPool makes a pool. Spawn its Spec and call Bind before the first message.
func NewPool[K comparable, C any](spec PoolSpec[K, C]) *Pool[K, C] {
	return &Pool[K, C]{spec: spec, entries: map[K]*entry[C]{}}
}

// Spec returns the spec of the pool's supervisor. Spawn it once.
func (p *Pool[K, C]) Spec() Spec {
	return Spec{Name: p.spec.Name, Policy: p.spec.Policy, MailboxMax: p.spec.MailboxMax,
		New: func() Actor { return &poolActor[K, C]{pool: p} }}
}

// Bind gives the pool its supervisor, before the first message.
func (p *Pool[K, C]) Bind(ref *Ref) { p.ref = ref }

// Send delivers m to the actor of k and spawns it if there is none. A refusal is
// returned at once, or comes later through Refuser.
func (p *Pool[K, C]) Send(k K, m any) error { return p.deliver(k, m, true) }

// Tell is Send without the bounds of the mailboxes, as Ref.Tell, and of the keys where the spec says so.
func (p *Pool[K, C]) Tell(k K, m any) error { return p.deliver(k, m, false) }

func (p *Pool[K, C]) deliver(k K, m any, capped bool) error {
	if ref := p.Live(k); ref != nil {
		if err := ref.box.offer(m, capped); err != ErrStopped {
			return err
		}
	}
	return p.ref.box.offer(route[K]{k, m, capped}, capped)
}

// Notify tells m to the actors of some keys, and to those that are being made in this moment; where there is neither it comes to nothing.
func (p *Pool[K, C]) Notify(m any, keys ...K) {
	var absent []K
	for _, k := range keys {
		if ref := p.Live(k); ref == nil || ref.Tell(m) != nil {
			absent = append(absent, k)
		}
	}
	if len(absent) > 0 { // one message: many would fill the mailbox for those who ask for an actor
		_ = p.ref.Tell(notice[K]{absent, m}) // behind what makes one
	}
}

// Live returns the actor of k, or nil when there is none.
func (p *Pool[K, C]) Live(k K) *Ref {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e := p.entries[k]; e != nil {
		return e.ref
	}
	return nil
}

// Cell returns the cell of k, or nil.
func (p *Pool[K, C]) Cell(k K) *C {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e := p.entries[k]; e != nil {
		return e.cell
	}
	return nil
}

// Len returns the number of keys.
func (p *Pool[K, C]) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.entries)
}

// Each calls f for up to n keys. f must not call the pool.
func (p *Pool[K, C]) Each(n int, f func(k K, depth int, cell *C)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for k, e := range p.entries {
		if n--; n < 0 {
			return
		}
		depth := 0
		if e.ref != nil {
			depth = e.ref.Depth()
		}
		f(k, depth, e.cell)
	}
}

// Sweep asks the next SweepMax children whether they are idle. It does nothing while
// the sweep before it still waits.
func (p *Pool[K, C]) Sweep() {
	if p.sweeping.CompareAndSwap(false, true) && p.ref.Tell(tick{}) != nil {
		p.sweeping.Store(false)
	}
}

// route carries a message for a key that had no actor when it was sent.
type route[K comparable] struct {
	k      K
	m      any
	capped bool
}

// Refuse refuses the message inside.
func (r route[K]) Refuse(err error) {
	if m, ok := r.m.(Refuser); ok {
		m.Refuse(err)
	}
}

// notice carries a message for keys that had no actor yet when it was sent.
type notice[K comparable] struct {
	keys []K
	m    any
}

type tick struct{}

// poolActor is the supervisor of a pool. Nobody else writes the entries.
type poolActor[K comparable, C any] struct {
	pool  *Pool[K, C]
	order []K // the keys of the entries, in the order of the sweep
	next  int
}

// Receive implements Actor.
func (a *poolActor[K, C]) Receive(c *Context, m any) {
	switch m := m.(type) {
	case route[K]:
		delivered := false
		defer func() {
			if !delivered {
				c.ref.sys.refuse(m, ErrStopped)
			}
		}()
		a.route(c, m)
		delivered = true
	case notice[K]:
		for _, k := range m.keys {
			if e := a.pool.entries[k]; e != nil && e.ref != nil {
				_ = e.ref.Tell(m.m) // one that stopped has nobody to tell
			}
		}
	case tick:
		a.pool.sweeping.Store(false)
		a.sweep(c)
	case ChildStopped:
		a.drop(m.Ref.spec.tag.(K), m.Ref)
	}
}

// route delivers to the key's actor and makes one if there is none.
func (a *poolActor[K, C]) route(c *Context, r route[K]) {
	e := a.pool.entries[r.k]
	if e != nil && e.ref != nil {
		err := e.ref.box.offer(r.m, r.capped)
		if err == nil {
			return
		}
		if err != ErrStopped {
			c.ref.sys.refuse(r, err)
			return
		}
		a.drop(r.k, e.ref)
	}
	ref := a.spawn(c, r.k, r.capped || !a.pool.spec.TellBeyondMax)
	if ref == nil {
		c.ref.sys.refuse(r, ErrFull)
		return
	}
	if err := ref.box.offer(r.m, r.capped); err != nil {
		c.ref.sys.refuse(r, err)
	}
}

// spawn makes the actor of k. It uses the cell that an earlier actor left, if there is one.
// It returns nil when the pool is full and that counts.
func (a *poolActor[K, C]) spawn(c *Context, k K, capped bool) *Ref {
	p := a.pool
	e := p.entries[k]
	if e == nil {
		if capped && len(p.entries) >= p.spec.Max {
			return nil
		}
		e = &entry[C]{cell: new(C), at: len(a.order)}
	}
	cell := e.cell
	ref := c.Spawn(Spec{Name: p.spec.Child, Policy: p.spec.Children, MailboxMax: p.spec.MailboxMax, tag: k,
		New: func() Actor { return p.spec.New(k, cell) }})
	if e.at == len(a.order) { // a new key
		a.order = append(a.order, k)
	}
	p.mu.Lock()
	p.entries[k] = &entry[C]{ref, cell, e.at}
	p.mu.Unlock()
	return ref
}

// drop forgets an actor that stopped. If it failed, its cell stays for a successor. If it
// retired, the cell holds nothing worth keeping and goes too.
func (a *poolActor[K, C]) drop(k K, ref *Ref) {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[k]
	switch {
	case e == nil || e.ref != ref: // a successor is there already
	case ref.box.isRetired():
		delete(p.entries, k)
		a.forget(e.at)
	default:
		p.entries[k] = &entry[C]{nil, e.cell, e.at}
	}
}

// forget takes a key out of the order of the sweep: the last key moves to its place.
func (a *poolActor[K, C]) forget(at int) {
	last := len(a.order) - 1
	if at != last {
		moved := a.order[last]
		a.order[at] = moved
		a.pool.entries[moved].at = at
	}
	a.order = a.order[:last]
}

// sweep asks the next few keys. It spawns an actor for a key that has only a cell, so
// that the cell goes when that actor retires.
func (a *poolActor[K, C]) sweep(c *Context) {
	for range min(a.pool.spec.SweepMax, len(a.order)) {
		if a.next >= len(a.order) {
			a.next = 0
		}
		k := a.order[a.next]
		a.next++
		if ref := a.pool.entries[k].ref; ref != nil {
			_ = ref.Tell(Sweep{}) // fails if it has stopped; its ChildStopped is on the way
			continue
		}
		a.route(c, route[K]{k, Sweep{}, false})
	}
}
