package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/clock"
	"corenode/node/store"
	"corenode/wasm/abi"
)

const (
	renewsPerLease = 10 // how often a node renews within a lease
	callShare      = 5  // a lease divided by it is how long one answer is waited for
)

// Config says who a node is, among whom.
type Config struct {
	Nodes store.Nodes
	Log   *slog.Logger
	// Presence is what the node says of itself; State and Known are filled in here.
	Presence func() store.Presence
	// Drain is called, once or more often, when an operator asked this node to drain. It must not block.
	Drain func()
	// Pause is called before each word with the store. It is for tests: one that waits is a node that stands still.
	Pause func()
}

// Handler reads something again of which others say that it changed. All subjects of one read of
// the changes come at once; nil means any. An error has it called again, with them and what came later.
type Handler func(subjects []string) error

// Member is a node that runs among others.
type Member struct {
	cfg   Config
	lease time.Duration
	base  time.Time // monotonic, as all times here

	// until is when admission ends, in nanoseconds after base. It is all that a request looks at.
	until atomic.Int64
	known atomic.Pointer[store.Position] // of the changes that were applied; nil is none

	mu       sync.Mutex
	life     Life
	heard    error        // of the last word with the store; nil when it answered
	taken    bool         // another process runs as this node, as far as the store last said
	silent   bool         // the log says that the place is not renewed, and not yet that the node admits again
	live     []store.Node // as of the last renewal
	handlers map[string]Handler
	counts   Counts

	// read is which gap was the last after which everything was read. Owned by follow.
	read int
	// unread says that the last try to read what changed failed. Owned by follow.
	unread bool

	renewSoon, followSoon chan struct{} // have room for one
	following             chan struct{} // closed when there is somebody to tell of changes
}

// Counts are what a node counted since its start.
type Counts struct {
	Renewals uint64 // that were answered
	Fenced   uint64 // times at which it stopped admitting by itself, or was told that its fence is gone
	Fences   uint64 // nodes that it counted out
	Changes  uint64 // that it applied
}

// Join registers the node. Run keeps it known.
func Join(ctx context.Context, c Config) (*Member, error) {
	m := &Member{cfg: c, lease: c.Nodes.Lease(), base: clock.Now(), handlers: map[string]Handler{},
		renewSoon: make(chan struct{}, 1), followSoon: make(chan struct{}, 1), following: make(chan struct{})}
	m.life.Times = TimesOf(m.lease)
	return m, m.register(ctx)
}

// Handle says who reads what again of a topic. It replaces the one before.
func (m *Member) Handle(topic string, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers[topic] = h
}

// Follow begins to follow changes from a position on: what is kept is at least as new.
func (m *Member) Follow(from store.Position) {
	m.known.Store(&from)
	m.mu.Lock()
	m.read = m.life.Gaps()
	m.mu.Unlock()
	close(m.following)
}

// Serve says that the node has started.
func (m *Member) Serve() { m.change((*Life).Serves) }

// Draining says that the node takes no more.
func (m *Member) Draining() { m.change((*Life).Drains) }

func (m *Member) change(how func(*Life)) {
	m.mu.Lock()
	how(&m.life)
	m.mu.Unlock()
	poke(m.renewSoon)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake
	}
}

// Run renews and follows until stopped is closed.
func (m *Member) Run(stopped <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { m.cfg.Nodes.Listen(ctx, func() { poke(m.followSoon); poke(m.renewSoon) }) })
	all.Go(func() { m.each(stopped, m.renewSoon, func() { m.renew(ctx) }) })
	all.Go(func() {
		select {
		case <-m.following:
			m.each(stopped, m.followSoon, func() { m.follow(ctx) })
		case <-stopped:
		}
	})
	<-stopped
	cancel()
	all.Wait()
}

// each does something now, at each tick and when it is wanted sooner, with some time between two.
func (m *Member) each(stopped, soon <-chan struct{}, do func()) {
	ticks := time.NewTicker(m.lease / renewsPerLease)
	defer ticks.Stop()
	for {
		if m.cfg.Pause != nil {
			m.cfg.Pause()
		}
		do()
		select {
		case <-time.After(m.lease / renewsPerLease / 20):
		case <-stopped:
			return
		}
		select {
		case <-ticks.C:
		case <-soon:
		case <-stopped:
			return
		}
	}
}

// presence is what the node says of itself now.
func (m *Member) presence() store.Presence {
	p := m.cfg.Presence()
	if known := m.known.Load(); known != nil {
		p.Known = *known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.State = m.life.Claims()
	return p
}

func (m *Member) register(ctx context.Context) error {
	p, sent := m.presence(), clock.Now()
	err := m.cfg.Nodes.Register(ctx, p)
	m.learn(err, func(l *Life) { l.Registered(sent) })
	if err == nil {
		poke(m.followSoon)
	}
	return err
}

// renew says that the node runs, or registers it anew.
func (m *Member) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.lease/callShare)
	defer cancel()
	m.mu.Lock()
	registers, fences := m.life.Registers(), m.life.Fences(clock.Now())
	m.mu.Unlock()
	if registers {
		wasTaken := m.Taken()
		if err := m.register(ctx); err != nil {
			if m.Taken() && !wasTaken { // said once, and not with each try
				m.cfg.Log.Error("this node cannot join again: it admits nothing while another process is the node of its id",
					"error", err.Error())
			}
			return
		}
		m.cfg.Log.Warn("the node joined again, with a new fence")
	}
	p, sent := m.presence(), clock.Now()
	told, err := m.cfg.Nodes.Renew(ctx, p, fences)
	switch {
	case errors.Is(err, store.ErrFenced):
		m.learn(err, (*Life).Lost)
		m.cfg.Log.Error("the other nodes counted this one out, since it was silent: it admits nothing until it has joined again")
		return
	case err != nil:
		m.learn(err, nil)
		m.complain(err)
		return
	}
	m.learn(nil, func(l *Life) { l.Renewed(sent, clock.Now()) })
	m.mu.Lock()
	m.live = told.Live
	m.counts.Renewals++
	m.counts.Fences += uint64(len(told.Lost))
	m.mu.Unlock()
	for _, id := range told.Lost {
		m.cfg.Log.Warn("a node was silent for the lease and is counted out", "node", id)
	}
	if told.Drain {
		m.cfg.Drain()
	}
}

// complain says to the log, once, that admission ended for want of an answer.
func (m *Member) complain(err error) {
	m.mu.Lock()
	silent, over := m.life.Silence(clock.Now())
	tell := over && !m.silent
	m.silent = m.silent || over
	m.mu.Unlock()
	if tell {
		m.cfg.Log.Error("the database does not renew the place of this node, which admits nothing meanwhile", "error", err.Error(),
			"since", time.Now().Add(-silent))
	}
}

// learn takes what came of a word with the store.
func (m *Member) learn(err error, what func(*Life)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.heard = err; err == nil || errors.Is(err, store.ErrNodeTaken) {
		m.taken = err != nil
	}
	gaps, out := m.life.Gaps(), m.life.Registers()
	if what != nil && (err == nil || errors.Is(err, store.ErrFenced)) {
		what(&m.life)
	}
	if m.life.Gaps() != gaps {
		poke(m.followSoon)
		if !out {
			m.counts.Fenced++
		}
	}
	m.publish()
}

// publish shows admission until when it may go on. The caller holds mu.
func (m *Member) publish() {
	until := time.Duration(0)
	if at := m.life.Until(); !at.IsZero() {
		until = at.Sub(m.base)
	}
	m.until.Store(int64(until))
}

// follow applies what changed, and has the others learn that it did.
func (m *Member) follow(ctx context.Context) {
	m.mu.Lock()
	gaps := m.life.Gaps()
	m.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, m.lease/callShare)
	defer cancel()
	changes, behind, err := m.cfg.Nodes.Changes(reading, *m.known.Load())
	if err == nil {
		if gaps != m.read { // it may have been away for longer than changes are kept one by one
			changes = append(changes, store.Change{Topic: store.TopicAll})
		}
		err = m.apply(changes)
	}
	if err != nil {
		if ctx.Err() == nil && !m.unread { // said once, and not with each try
			m.unread = true
			m.cfg.Log.Warn("what others changed was not read; it is read again until it is", "error", err.Error())
		}
		return
	}
	if m.unread {
		m.unread = false
		m.cfg.Log.Info("what others changed was read again")
	}
	m.known.Store(&behind)
	m.read = gaps
	m.mu.Lock()
	m.counts.Changes += uint64(len(changes))
	now := clock.Now()
	before := m.life.Admits(now)
	m.life.Followed(gaps)
	joined := !before && m.life.Admits(now)
	back := joined && m.silent
	m.silent = m.silent && !joined
	m.publish()
	m.mu.Unlock()
	if back {
		m.cfg.Log.Info("the node admits again")
	}
	if len(changes) > 0 || joined {
		poke(m.renewSoon)
	}
}

// apply calls the handlers of what changed.
func (m *Member) apply(changes []store.Change) error {
	subjects := map[string][]string{}
	for _, c := range changes {
		subjects[c.Topic] = append(subjects[c.Topic], c.Subject)
	}
	m.mu.Lock()
	handlers := maps.Clone(m.handlers)
	m.mu.Unlock()
	_, all := subjects[store.TopicAll]
	for _, topic := range slices.Sorted(maps.Keys(handlers)) {
		changed, ok := subjects[topic]
		if all {
			changed, ok = nil, true
		}
		if !ok {
			continue
		}
		if err := handlers[topic](changed); err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
	}
	return nil
}

// Admits says why no request may be admitted now, as far as other nodes are concerned; nil when it may.
func (m *Member) Admits() *abi.Error {
	if int64(clock.Now().Sub(m.base)) < m.until.Load() {
		return nil
	}
	return &abi.Error{Kind: abi.Overloaded, Op: "cluster.Admits", RetryAfter: retryAfter,
		Msg: "the node has lost its place among the others; retry"}
}

// retryAfter is what clients are told to wait: another node takes them at once.
const retryAfter = 2 * time.Second

// Ready says why the node should get no requests.
func (m *Member) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.heard != nil && !errors.Is(m.heard, store.ErrFenced):
		return m.heard
	case m.life.Admits(clock.Now()):
		return nil
	case m.life.Registers():
		return store.ErrFenced
	}
	return errors.New("this node joins again: it reads what changed meanwhile")
}

// Taken says whether another process runs as this node, which cannot join therefore.
func (m *Member) Taken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

// Live are the live nodes as of the last renewal. Nobody changes them.
func (m *Member) Live() []store.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// Differences says which live nodes serve other models than this one, or at other prices.
func (m *Member) Differences() (all []string) {
	own := m.cfg.Presence()
	for _, n := range m.Live() {
		if n.ModelsDigest != "" && own.ModelsDigest != "" && n.ModelsDigest != own.ModelsDigest {
			all = append(all, fmt.Sprintf("the node %s serves other models than this one", n.ID))
		}
		if n.PricesDigest != "" && own.PricesDigest != "" && n.PricesDigest != own.PricesDigest {
			all = append(all, fmt.Sprintf("the node %s has other prices than this one", n.ID))
		}
	}
	return all
}

// State is how the node is now, and what it counted.
func (m *Member) State() (store.NodeState, Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life.State(clock.Now()), m.counts
}

// spreadPoll is how often it is asked who knows a change.
const spreadPoll = 20 * time.Millisecond

// Spread returns when every live node has applied all changes of a subject, or is counted out. It
// waits for a lease at most, and names those that have not by then: within it a node that hears
// nothing has stopped admitting.
func (m *Member) Spread(ctx context.Context, topic, subject string) (unaware []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.lease)
	defer cancel()
	poke(m.followSoon) // this node's own word is waited for too
	for wait := spreadPoll; ; wait = min(2*wait, 10*spreadPoll) {
		now, err := m.cfg.Nodes.Unaware(ctx, topic, subject)
		if err == nil {
			if unaware = now; len(unaware) == 0 {
				return nil, nil
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return m.lastLook(topic, subject, unaware)
		}
	}
}

// lastLook asks once more when the time is over.
func (m *Member) lastLook(topic, subject string, unaware []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.lease/callShare)
	defer cancel()
	now, err := m.cfg.Nodes.Unaware(ctx, topic, subject)
	if err != nil {
		return unaware, fmt.Errorf("which nodes know of it is not known: %w", err)
	}
	return now, nil
}
