// Package tree is the actor tree of a node and the way in: it admits requests,
// hands them to their model, bills them and gives back what they held.
//
// One request is one message through three actors (limiter, session, batcher)
// and one answer on a channel. The answer is a Stream whose events come straight
// from the step loop. A request is registered before it asks for anything and until it is
// settled, with all that it was given. So any actor may fail at any point and nothing leaks.
//
// The tree, with the policies of policy.go:
//
//	node
//	|- ledger     one
//	|- limits     one limiter per active account, spawned by its first request
//	|- sessions   one session per live conversation, spawned by its first turn
//	'- models     one batcher per model, each with a step loop beside it
package tree

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/limiter"
	"corenode/actors/session"
	"corenode/actors/system"
	"corenode/engine"
	"corenode/wasm/abi"
)

// model is one batcher.
type model struct {
	unit     *batcher.Unit
	ref      *system.Ref
	pinBytes int64
	load     func(*abi.Counters) // may be nil
}

// refusal says why a batcher did not take a message.
func (m *model) refusal(err error) *abi.Error {
	if errors.Is(err, system.ErrStopped) {
		return system.OverloadedFor(30*time.Second, "tree.Generate", "the model is down", err)
	}
	return system.TooManyRequests("tree.Generate", err)
}

// Tree is a running actor tree. It is safe for concurrent use.
type Tree struct {
	cfg      Config
	deps     Deps
	log      *slog.Logger
	sys      *system.System
	limits   *system.Pool[string, limiter.Cell]
	sessions *system.Pool[session.Key, session.Cell]
	budget   *session.Budget
	keys     *keyMaker
	models   map[string]*model // by id; not changed after Start
	units    []*model          // the same, in their order
	ledger   *system.Ref
	journal  *ledger.Log
	node     *system.Ref
	branches []*system.Ref // limits, sessions, models
	requests *requests
	counters Counters
	freeID   atomic.Uint64
	freeName string // begins the ids of requests that have none: a cluster's store tells them from those of other trees

	draining   atomic.Bool
	quit       chan struct{}  // ends the sweep
	sweeper    sync.WaitGroup // the sweep
	background sync.WaitGroup // settlements without an owner; at most one per request
	stop       sync.Once
}

// Start builds the tree and its models and returns when it takes requests. The
// caller must Stop it.
func Start(cfg Config, deps Deps) (*Tree, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tree config: %w", err)
	}
	t := &Tree{cfg: cfg, deps: deps, log: deps.Logger, models: map[string]*model{},
		requests: newRequests(cfg.RequestsMax), keys: newKeyMaker(cfg.Secret), quit: make(chan struct{}),
		budget: session.NewBudget(cfg.AccountSessionsMax, cfg.AccountPinnedBytesMax), freeName: "free-" + rand.Text() + "-"}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.counters.init()
	t.sys = system.New(system.Config{Logger: t.log, Failed: t.counters.failed, Fatal: deps.Fatal})
	if err := t.spawn(); err != nil {
		t.Stop()
		return nil, err
	}
	t.sweeper.Go(t.sweepLoop)
	if t.clustered() {
		t.sweeper.Go(t.recallLoop)
	}
	return t, nil
}

// spawn starts the actors, branch by branch, and waits for the models.
func (t *Tree) spawn() error {
	t.journal = ledger.NewLog(t.ledgerConfig(), t.deps.Store)
	t.limits = system.NewPool(t.limitsSpec())
	t.sessions = system.NewPool(t.sessionsSpec())
	batchers, err := t.batcherSpecs()
	if err != nil {
		return err
	}
	var ready sync.WaitGroup
	ready.Add(2) // the node's children and the models
	children := []system.Spec{
		t.spec(ledgerActor, func() system.Actor { return ledger.New(t.journal) }),
		t.limits.Spec(), t.sessions.Spec(),
		t.spec(modelsActor, func() system.Actor {
			return &system.Group{Specs: batchers, Spawned: func(refs []*system.Ref) {
				for i, m := range t.units {
					m.ref = refs[i]
				}
				ready.Done()
			}}
		}),
	}
	children[0].MailboxMax = t.journalMailbox()
	t.node, err = t.sys.Start(t.spec(nodeActor, func() system.Actor {
		return &system.Group{Specs: children, Spawned: func(refs []*system.Ref) {
			t.ledger = refs[0]
			t.limits.Bind(refs[1])
			t.sessions.Bind(refs[2])
			t.branches = refs[1:]
			ready.Done()
		}}
	}))
	if err != nil {
		return fmt.Errorf("start actors: %w", err)
	}
	ready.Wait()
	for _, m := range t.units {
		if err := <-m.unit.First(); err != nil {
			return fmt.Errorf("start model %s: %w", m.unit.Stats().Model, err)
		}
	}
	return nil
}

// journalMailbox lets the ledger be told as much as it may queue: its own bound decides.
func (t *Tree) journalMailbox() int { return max(t.cfg.MailboxMax, 2*t.cfg.RequestsMax) }

func (t *Tree) spec(name string, make func() system.Actor) system.Spec {
	return system.Spec{Name: name, New: make, Policy: policyOf(name), MailboxMax: t.cfg.MailboxMax}
}

func (t *Tree) ledgerConfig() ledger.Config {
	c := t.cfg.Ledger
	c.Hook = t.cfg.hook
	c.Open = t.requests.len
	if t.clustered() {
		c.Cluster = t.deps.Cluster
	}
	c.Failed = func(err error, failures int) {
		t.log.Error("the ledger could not commit", "err", err, "failures", failures)
	}
	c.Recovered = func(failures int) { t.log.Info("the ledger commits again", "failures", failures) }
	return c
}

func (t *Tree) limitsSpec() system.PoolSpec[string, limiter.Cell] {
	deps := limiter.Deps{Load: t.load, Live: t.requests.live, PendingMax: t.cfg.MailboxMax, Hook: t.cfg.hook}
	make := func(id string, c *limiter.Cell) system.Actor { return limiter.New(id, c, deps) }
	if t.clustered() {
		cluster := t.clusterLimits()
		make = func(id string, c *limiter.Cell) system.Actor { return limiter.NewClustered(id, c, cluster) }
	}
	return system.PoolSpec[string, limiter.Cell]{Name: limitsActor, Child: limiterActor,
		Policy: policyOf(limitsActor), Children: policyOf(limiterActor),
		MailboxMax: t.cfg.MailboxMax, Max: t.cfg.LimitersMax, TellBeyondMax: true, SweepMax: t.cfg.SweepMax,
		New: make}
}

func (t *Tree) sessionsSpec() system.PoolSpec[session.Key, session.Cell] {
	deps := session.Deps{Release: t.release, Budget: t.budget, IdleMax: t.cfg.SessionIdleMax, Hook: t.cfg.hook,
		Evict: func(k session.Key) {
			if ref := t.sessions.Live(k); ref != nil {
				_ = ref.Tell(session.Evict{}) // one that stopped has given its pin back
			}
		}}
	return system.PoolSpec[session.Key, session.Cell]{Name: sessionsActor, Child: sessionActor,
		Policy: policyOf(sessionsActor), Children: policyOf(sessionActor),
		MailboxMax: t.cfg.MailboxMax, Max: t.cfg.SessionsMax, SweepMax: t.cfg.SweepMax,
		New: func(k session.Key, c *session.Cell) system.Actor { return session.New(k, c, deps) }}
}

// batcherSpecs makes one unit per model.
func (t *Tree) batcherSpecs() ([]system.Spec, error) {
	var specs []system.Spec
	for _, d := range t.deps.Models {
		m := &model{pinBytes: d.PinBytesPerToken, load: d.Load, unit: batcher.NewUnit(batcher.Config{
			Model: d.ID, New: d.New, PollEvery: d.PollEvery, InboxMax: t.cfg.InboxMax, Hook: t.cfg.hook})}
		if t.models[d.ID] != nil {
			return nil, fmt.Errorf("model id %s is served twice", d.ID)
		}
		t.models[d.ID] = m
		t.units = append(t.units, m)
		specs = append(specs, t.spec(batcherActor, func() system.Actor { return batcher.New(m.unit) }))
	}
	return specs, nil
}

// Generate admits a request and hands it to its model. It returns when the model
// has queued it, or why it was not; the error is an *abi.Error. Every Stream that it
// returns must be settled.
func (t *Tree) Generate(c account.Call) (*Stream, account.Limits, error) {
	if c.Peer.Forwards() {
		s, err := t.generatePeer(c)
		if err != nil {
			return nil, t.Limits(c.Account, c.Key), t.refuse(err)
		}
		return s, t.Limits(c.Account, c.Key), nil
	}
	r, err := t.newRequest(c)
	if err == nil {
		if err = t.consult(r); err == nil {
			err = t.register(r)
		}
		if err != nil {
			r.quote.Close() // nobody will remove it
		}
	}
	if err != nil {
		return nil, t.Limits(c.Account, c.Key), t.refuse(r.asked(err))
	}
	answer := t.admit(r)
	if answer.err != nil {
		return nil, t.limitsOr(answer.limits, c.Account, c.Key), t.refuse(r.asked(answer.err))
	}
	if err := r.sendHold(); err != nil {
		r.cancel()
		return nil, answer.limits, t.refuse(r.asked(err))
	}
	return &Stream{r: r}, answer.limits, nil
}

// newRequest prepares the request's job, and prices one that is billed here.
func (t *Tree) newRequest(c account.Call) (*request, *abi.Error) {
	m := t.models[c.Request.Model]
	if m == nil {
		return nil, &abi.Error{Kind: abi.ModelNotFound, Op: "tree.Generate", Param: "model",
			Msg: fmt.Sprintf("model %q is not served", c.Request.Model)}
	}
	now := time.Now()
	r := &request{t: t, call: c, model: m,
		began: now, expires: now.Add(t.cfg.RequestExpiry), lostAt: now.Add(2 * t.cfg.AdmissionTimeout),
		ask: limit.Ask{RequestID: c.RequestID, Prompt: int64(c.Request.InputTokens()), OutputMax: int64(c.Request.MaxTokens),
			Key: c.Key},
		key:   t.keys.key(c),
		reply: make(chan reply, 1), done: make(chan struct{}), settledCh: make(chan struct{}),
		hold: hold{told: make(chan error, 1)}}
	r.job.ID, r.job.Account, r.job.Request, r.job.Pin = c.RequestID, c.Account.CacheAccount(c.Peer), c.Request, m.pinBytes > 0
	r.job.Session, r.job.Forwarded = string(r.key[:]), r.peer()
	if c.Request.Stream {
		r.job.Output = engine.NewOutput(t.cfg.OutputEventsMax)
	} else {
		r.job.Output = engine.NewWholeOutput()
	}
	r.job.Finished = r.finished
	if r.peer() {
		r.job.Priority = c.Priority
		return r, nil
	}
	return r, r.setQuote()
}

// setQuote asks billing what the request may cost.
func (r *request) setQuote() *abi.Error {
	began := time.Now()
	quote, err := r.t.quote(r.ask.RequestID, abi.QuoteInput{Input: r.ask.Prompt, OutputMax: r.ask.OutputMax, At: r.beganAt().Unix(),
		Model: r.call.Request.Model, Account: r.call.Account.ID})
	r.quoteTook = time.Since(began)
	if err != nil {
		return abi.AsError(fmt.Errorf("quote: %w", err))
	}
	r.quote, r.billing = quote, quote.Module()
	b := quote.Bounds()
	r.ask.Upper, r.ask.Minimum, r.ask.Takes = b.Upper, b.Minimum, b.Takes
	r.ask.CoveredUpper, r.ask.CoveredMinimum = b.CoveredUpper, b.CoveredMinimum
	return nil
}

// keyMaker names conversations. Its HMACs are used again: making one hashes
// the secret twice.
type keyMaker struct{ macs sync.Pool }

func newKeyMaker(secret []byte) *keyMaker {
	return &keyMaker{sync.Pool{New: func() any { return &keyMAC{h: hmac.New(sha256.New, secret)} }}}
}

// keyMAC is one HMAC and the text that it hashes, kept for its memory.
type keyMAC struct {
	h    hash.Hash
	text []byte
}

// part adds a part of the key; the length before each keeps them apart.
func (m *keyMAC) part(s string) {
	m.text = binary.LittleEndian.AppendUint64(m.text, uint64(len(s)))
	m.text = append(m.text, s...)
}

// key names the conversation: by the client's id, or by its content.
func (k *keyMaker) key(c account.Call) session.Key {
	m := k.macs.Get().(*keyMAC)
	defer k.macs.Put(m)
	m.text = m.text[:0]
	m.part(c.Account.CacheAccount(c.Peer))
	m.part(c.Request.Model)
	if c.SessionID != "" {
		m.part("id")
		m.part(c.SessionID)
	} else {
		m.part("content")
		m.part(string(c.Request.Conversation[:]))
	}
	m.h.Reset()
	m.h.Write(m.text)
	m.text = m.h.Sum(m.text[:0]) // the text is hashed: its memory takes the sum
	return session.Key(m.text)
}

// register takes a place among the live requests.
func (t *Tree) register(r *request) *abi.Error {
	if t.draining.Load() {
		return errDraining()
	}
	if !r.ask.Free && !r.peer() && !t.journal.Room() {
		return system.LedgerUnavailable("tree.register", errors.New("the spill journal has no room"))
	}
	switch ok, full := t.requests.add(r); {
	case full:
		return system.TooManyRequests("tree.register", errors.New("too many requests"))
	case !ok:
		return &abi.Error{Kind: abi.Internal, Op: "tree.register", Msg: "internal error: request id is in use"}
	}
	if t.draining.Load() { // Drain may have looked just before
		t.requests.remove(r)
		return errDraining()
	}
	return nil
}

// errStopping is the cause of every errDraining: the engine did not fail.
var errStopping = errors.New("the tree stops")

func errDraining() *abi.Error {
	return system.OverloadedFor(5*time.Second, "tree.register", "the node is shutting down; try again", errStopping)
}

// admit sends the request on its way and waits for its one answer.
func (t *Tree) admit(r *request) reply {
	m := limiter.Reserve{Ask: r.ask, Ticket: r}
	if err := t.limits.Send(r.call.Account.ID, m); err != nil {
		t.requests.remove(r)
		return reply{err: system.TooManyRequests("tree.admit", err)}
	}
	return t.await(r)
}

// await waits for the one answer of a request that is on its way.
func (t *Tree) await(r *request) reply {
	timer := time.AfterFunc(t.cfg.AdmissionTimeout, func() {
		r.decide(abandoned, reply{err: system.TooManyRequests("tree.admit", errors.New("admission timed out"))})
	})
	defer timer.Stop()
	answer := <-r.reply
	if r.phase.Load() == abandoned {
		t.counters.Abandoned.Add(1)
	}
	return answer
}

// refuse counts a refusal and returns it as a plain error.
func (t *Tree) refuse(err *abi.Error) error {
	t.counters.refused(err.Kind)
	return err
}

// asked is a refusal of the request that carries what modules took for it and which servers were asked, if that is recorded. Other
// requests may have the same err. A request of a model that is not served is nil.
func (r *request) asked(err *abi.Error) *abi.Error {
	if r == nil || !r.call.Request.Trace.Record {
		return err
	}
	refusal := *err
	asked := account.Settled{Billing: r.billing, Quote: r.quoteTook, Verdict: r.verdictTook}
	if tried, ok := errors.AsType[*engine.Tried](err); ok {
		asked.Attempted = tried.Attempts
	}
	refusal.Err = &account.Refused{Settled: asked, Err: err.Err}
	return &refusal
}

// Enter admits a request that generates nothing: it takes a permit until release
// is called, which may be called again.
func (t *Tree) Enter(a account.Account, key account.LimitedKey) (release func(), l account.Limits, err error) {
	id := t.freeName + strconv.FormatUint(t.freeID.Add(1), 10)
	now := time.Now()
	r := &request{t: t, call: account.Call{RequestID: id, Account: a, Key: key}, ask: limit.Ask{RequestID: id, Free: true, Key: key},
		began: now, expires: now.Add(freeExpiry), lostAt: now.Add(2 * t.cfg.AdmissionTimeout), reply: make(chan reply, 1)}
	if err := t.register(r); err != nil {
		return nil, t.Limits(a, key), t.refuse(err)
	}
	answer := t.admit(r)
	if answer.err != nil {
		return nil, t.limitsOr(answer.limits, a, key), t.refuse(answer.err)
	}
	return r.release, answer.limits, nil
}

// release ends a request without a job.
func (r *request) release() {
	r.leave(abi.Usage{})
	r.t.requests.remove(r)
}

// Limits returns the state of an account, for one of its keys, without asking its limiter.
func (t *Tree) Limits(a account.Account, key account.LimitedKey) account.Limits {
	now := time.Now()
	if c := t.limits.Cell(a.ID); c != nil {
		if st, ok := c.Limits(key, now); ok {
			return st
		}
	}
	return limit.FullLimits(a, key, now)
}

// limitsOr fills in for a limiter that could not say its state.
func (t *Tree) limitsOr(st account.Limits, a account.Account, key account.LimitedKey) account.Limits {
	if st == (account.Limits{}) {
		return t.Limits(a, key)
	}
	return st
}

// AccountChanged makes the limiters of accounts, of those that have one, read them again.
func (t *Tree) AccountChanged(ids ...string) { t.limits.Notify(limiter.Changed{}, ids...) }

// load reads an account for its limiter: from the ledger in order with its
// commits, then from the accounts.
func (t *Tree) load(id string, done func(limit.Loaded, error)) {
	m := ledger.Read{AccountID: id, Done: func(b ledger.Balance) {
		if b.Err != nil {
			done(limit.Loaded{}, b.Err)
			return
		}
		a, err := t.deps.Accounts.Account(id)
		done(limit.Loaded{Account: a, Balance: b.Balance, Holds: b.Holds, Counters: b.Counters,
			Keys: b.Keys, At: b.At, Seq: b.Seq}, err)
	}}
	if err := t.ledger.Send(m); err != nil {
		done(limit.Loaded{}, err)
	}
}

// limiterOf returns what sends to the limiter of an account what a request gives back: for that there is always room.
func (t *Tree) limiterOf(account string) func(limiter.Message) {
	return func(m limiter.Message) { _ = t.limits.Tell(account, m) } // fails only when the whole tree stops
}

// release gives a pin back to its model.
func (t *Tree) release(id string, p batcher.Pin) {
	if m := t.models[id]; m != nil {
		_ = m.ref.Tell(batcher.Release{Pin: p}) // a model that is down has no pins
	}
}

// Drain refuses new requests and waits for the live ones. When ctx ends, it ends
// those that are left with an Overloaded error event, and waits a little for them
// to be settled. The error says how many were not.
func (t *Tree) Drain(ctx context.Context) error {
	t.draining.Store(true)
	select {
	case <-t.requests.whenEmpty():
		return nil
	case <-ctx.Done():
	}
	grace := time.NewTimer(abortGrace)
	defer grace.Stop()
	again := time.NewTicker(100 * time.Millisecond) // a request may still be on its way to its model
	defer again.Stop()
	for {
		for _, m := range t.units {
			_ = m.ref.Tell(batcher.Abort{Err: errDraining()})
		}
		select {
		case <-t.requests.whenEmpty():
			return nil
		case <-again.C:
		case <-grace.C:
			return fmt.Errorf("drain: %d requests left", t.requests.len())
		}
	}
}

// Stop ends everything and waits. Requests that live are ended with an error
// event and settled if the ledger lets them be; call Drain before.
func (t *Tree) Stop() {
	t.stop.Do(func() {
		t.draining.Store(true)
		if t.node != nil && t.ledger != nil {
			t.endRequests()
			t.returnGrants()
		}
		close(t.quit)
		t.sweeper.Wait()
		t.sys.Stop()
		for _, m := range t.units {
			m.unit.Wait()
		}
		t.journal.Wait()
		t.background.Wait()
	})
}

// endRequests aborts what lives and settles it, within SettleWait.
func (t *Tree) endRequests() {
	deadline := time.NewTimer(t.cfg.SettleWait)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		for _, m := range t.units {
			if m.ref != nil {
				_ = m.ref.Tell(batcher.Abort{Err: errDraining()})
			}
		}
		for _, r := range t.requests.all() {
			if r.doneAt.Load() != nil {
				r.selfSettle()
			}
		}
		select {
		case <-t.requests.whenEmpty():
			return
		case <-again.C:
		case <-deadline.C:
			return
		}
	}
}
