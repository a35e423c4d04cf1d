// Package upstream answers a model id with servers elsewhere: vLLM, SGLang, llama-server,
// other nodes of this program, or any server of the messages or chat protocol.
//
// A Model has replicas, each a base URL. Prepare makes the body that goes out; a Stepper
// takes jobs as the step loop of an engine of ours does, and gives each a relay: a goroutine
// that chooses a replica (package route), sends the body, and turns the stream that comes
// back into events (package wire). Requests always stream upstream, so what an answer has
// taken so far is known at any time.
//
// Until the first content of a stream, or the end of a plain answer, nothing of it has been
// shown, and a relay may try another replica. After that a failure ends the answer, as a failure of an engine of ours
// does. Nothing that a replica says is trusted further than it can be checked: usage is
// compared with what was asked for and counted, calls with their schemas, but for those of a node that
// shares the model: these were held to their schemas there.
//
// The probes of a Model run for as long as it is open, on one goroutine for each replica.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// Flavor is the make of a model's servers, one of wire.Flavors.
type Flavor = wire.Flavor

// Counter counts the prompt tokens of a request exactly: an engine that has the model's
// tokenizer and chat template.
type Counter interface {
	Count(q *messages.Request) (int, error)
}

// Options say which servers answer a model, and how they are asked.
type Options struct {
	engine.Info
	Flavor wire.Flavor
	// URLs are the base URLs of the replicas, without /v1. DNS is a name and port instead
	// that is asked for the replicas' addresses, again and again.
	URLs []string
	DNS  string
	// Model is the model's name at the replicas; empty = its id here.
	Model string
	// Key is sent as a bearer token; empty sends none. See SetKey.
	Key string
	// Counter counts tokens; nil asks the replicas.
	Counter Counter
	// Sampling are those of the flavor's optional fields (wire.Traits) that the servers know; see SetSampling.
	Sampling []string
	// SharedCache lets accounts share the prefix cache of a flavor that cannot keep them
	// apart. Then cached tokens are neither shown nor discounted.
	SharedCache bool
	// PassInvalidCalls lets through calls that do not fit their tool's schema or are of no tool, and counts them. Arguments
	// that are no JSON object end the answer all the same.
	PassInvalidCalls bool
	// ConnectionsMax is the most requests on one replica at once. Default 256.
	ConnectionsMax int
	// QueueMax is the most requests that wait for a replica that is not full, QueueTimeout
	// how long. Defaults 1024, 60 s.
	QueueMax     int
	QueueTimeout time.Duration
	// FirstTimeout bounds the time until the first content of an answer, StallTimeout between two
	// pieces of it. Pings of another node count as pieces for as long as FirstTimeout, with Own
	// always. Defaults 600 s, 60 s.
	FirstTimeout, StallTimeout time.Duration
	// CountTimeout bounds one question for the tokens of a request. Default 10 s.
	CountTimeout time.Duration
	// ReaderTimeout is how long a client may not read before its request is cancelled. Default 5 min.
	ReaderTimeout time.Duration
	// ProbeEvery and ResolveEvery are the periods of probes and of the DNS. Defaults 2 s, 5 s.
	ProbeEvery, ResolveEvery time.Duration
	// Secret is the node's: what replicas are told of accounts and sessions are HMACs with it.
	Secret []byte
	// Own is the base URL under which other nodes know this one, where its own engine and theirs
	// have the model: URLs and DNS are empty then, Follow names the others, and they are told of accounts
	// by their ids. See NewReplicatedStepper.
	Own string
	// TLS says how the certificate of a replica at a base URL is checked; nil is by its name.
	TLS func(base string) *tls.Config
	// PrefixAge is how long it is remembered what a replica has cached. Default 2 min.
	PrefixAge time.Duration
	Log       *slog.Logger
}

func (o *Options) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.QueueTimeout, time.Minute)
	set(&o.FirstTimeout, 600*time.Second)
	set(&o.StallTimeout, time.Minute)
	set(&o.CountTimeout, 10*time.Second)
	set(&o.ReaderTimeout, 5*time.Minute)
	set(&o.ProbeEvery, 2*time.Second)
	set(&o.ResolveEvery, 5*time.Second)
	set(&o.PrefixAge, 2*time.Minute)
	if o.ConnectionsMax == 0 {
		o.ConnectionsMax = 256
	}
	if o.QueueMax == 0 {
		o.QueueMax = 1024
	}
	if o.Model == "" {
		o.Model = o.ID
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// prefixesMax is how much is remembered of a replica's cache: some hundred bytes each, and a few dozen of a long conversation.
const prefixesMax = 16384

// Model is one model id answered by replicas. It is safe for concurrent use.
type Model struct {
	options Options
	traits  wire.Traits
	counts  Counts
	told    sync.Map // fields of requests of which the log was told

	mu          sync.Mutex // guards what follows; held for arithmetic only
	set         *route.Set
	budget      route.Budget
	replicas    map[string]*replica
	ready       map[string]bool // replicas that passed their first probe, and count tokens if they have to
	line        line            // relays that wait for a place
	sampling    []string        // Options.Sampling, or what SetSampling said last
	owner       string          // the account that has a cache which cannot be shared: whose body was sent first
	otherToldAt time.Time       // when the log was last told of another account
	keys        []string        // the one that new replicas are sent, as SetKey said last, then those before; never written to

	counting chan struct{} // a place for each request whose tokens replicas are asked for

	ctx        context.Context // ends when the model is closed
	cancel     context.CancelFunc
	background sync.WaitGroup
}

// Counts are what happened, since the start.
type Counts struct {
	Attempts, Retries, Failures, Full, InvalidCalls atomic.Int64
	Ejections                                       [reasons]atomic.Int64 // by Reason
	// PrefixKnown and PrefixAsked are parts of prompts whose replica was thought to have
	// them cached, and all.
	PrefixKnown, PrefixAsked atomic.Int64
	// UsageCounted are answers that are charged by this node's count: their reported usage could not be, or was not there.
	UsageCounted atomic.Int64
}

// attempt counts that a request goes to a replica: one that the own engine computes goes to none.
func (c *Counts) attempt(p place) {
	c.Attempts.Add(1)
	c.PrefixKnown.Add(int64(p.known))
	c.PrefixAsked.Add(int64(len(p.prefixes)))
}

// Open makes a model and begins to probe its replicas. It does not wait for one: until one
// answers, requests are refused as Overloaded.
func Open(o Options) (*Model, error) {
	o.defaults()
	if o.Own != "" {
		o.Flavor = wire.Corenode
	}
	m := &Model{options: o, traits: o.Flavor.Traits(), replicas: map[string]*replica{}, ready: map[string]bool{},
		sampling: o.Sampling, keys: []string{o.Key}, counting: make(chan struct{}, max(countsMin, o.ConnectionsMax)),
		set: route.New(route.Config{PrefixesMax: prefixesMax, PrefixAge: o.PrefixAge, InFlightMax: o.ConnectionsMax,
			Seed: uint64(time.Now().UnixNano())})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	switch {
	case o.Counter == nil && m.traits.Count == "":
		return nil, fmt.Errorf("model %s: servers of flavor %s cannot count tokens: name a tokenizer", o.ID, o.Flavor)
	case o.Own != "":
		m.replicas[o.Own], m.ready[o.Own] = &replica{base: o.Own, byHand: true, removed: make(chan struct{})}, true
		m.set.Add(o.Own)
		return m, nil
	case (len(o.URLs) == 0) == (o.DNS == ""):
		return nil, fmt.Errorf("model %s: name either urls or dns", o.ID)
	}
	for _, u := range o.URLs {
		if err := m.add(u, false); err != nil {
			m.Close()
			return nil, fmt.Errorf("model %s: %w", o.ID, err)
		}
	}
	if o.DNS != "" {
		m.background.Go(m.resolve)
	}
	return m, nil
}

// Close ends the probes. No Stepper of the model may be in use.
func (m *Model) Close() {
	m.cancel()
	m.background.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.replicas {
		r.close()
	}
}

// Info is what clients may know of the model.
func (m *Model) Info() engine.Info { return m.options.Info }

// ForwardHeaders are the headers of a client's that go along to a server of the messages
// protocol, with counts and answers, as sent: those of the protocol's version, under the names
// that SDKs know.
func (m *Model) ForwardHeaders() []string {
	if !m.traits.Messages {
		return nil
	}
	return []string{"Protocol-Version", "Protocol-Beta", "Anthropic-Version", "Anthropic-Beta"}
}

// SetSampling replaces Options.Sampling for requests that are prepared from here on.
func (m *Model) SetSampling(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sampling = names
}

func (m *Model) moreSampling() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sampling
}

// Describe names what answers, such as "upstream/vllm".
func (m *Model) Describe() string { return "upstream/" + string(m.options.Flavor) }

// Counts are the model's counters.
func (m *Model) Counts() *Counts { return &m.counts }

// ErrReplica means that no replica has a URL.
var ErrReplica = errors.New("no such replica")

// ErrOwn means that a replica is the own engine of a node, which cannot be removed.
var ErrOwn = errors.New("this node's own engine stays; drain it, so that other nodes get its requests")

// ErrShared means that nodes share the model: a replica is sent what nodes show each other, so only a node may be one.
var ErrShared = errors.New("nodes share this model: the live nodes that have it answer it, and no other server is added")

// Add takes a replica in, or lets one that drains answer again. It stays until Remove,
// whatever Follow and the DNS say. Of a model with Options.Own only that one can be named.
func (m *Model) Add(base string) error {
	if own := m.options.Own; own != "" && strings.TrimRight(base, "/") != own {
		return fmt.Errorf("%w: %s", ErrShared, base)
	}
	return m.add(base, true)
}

// add is Add. One that nobody added by hand goes when Follow does not name it any more.
func (m *Model) add(base string, byHand bool) error {
	base = strings.TrimRight(base, "/")
	u, err := parseURL(base)
	if err != nil {
		return fmt.Errorf("url %q: %w", base, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(base, u, byHand)
	return nil
}

// take is add for a base without a slash at its end. mu is held.
func (m *Model) take(base string, u *url.URL, byHand bool) {
	r := m.replicas[base]
	switch {
	case r == nil:
		r = newReplica(base, u)
		r.tls, r.key, r.idleConnsMax = m.options.TLS, m.keys[0], m.options.ConnectionsMax
		m.replicas[base] = r
		m.set.Add(base)
		m.background.Go(func() { m.probe(r) })
	case byHand || r.leaving: // what an operator drains stays so when the DNS names it again
		r.drained, r.key = r.drained && !byHand, m.keys[0]
		m.set.Drain(base, r.drained)
		m.serveWaiting()
	}
	r.byHand = r.byHand || byHand
	r.leaving = false
}

// Follow makes the replicas those of bases, and those that were added by hand: new ones join,
// others take no new requests, and are removed when nothing runs there.
func (m *Model) Follow(bases []string) {
	named := m.parsed(bases)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follow(named)
}

// parsed are the URLs of replicas by their bases, without those that are none.
func (m *Model) parsed(bases []string) map[string]*url.URL {
	named := map[string]*url.URL{}
	for _, base := range bases {
		base = strings.TrimRight(base, "/")
		u, err := parseURL(base)
		if err != nil {
			m.options.Log.Warn("an address of the model's servers is not taken", "model", m.options.ID,
				"error", fmt.Sprintf("url %q: %v", base, err))
			continue
		}
		named[base] = u
	}
	return named
}

// follow is Follow. mu is held.
func (m *Model) follow(named map[string]*url.URL) {
	for base, u := range named {
		m.take(base, u, false)
	}
	for base, r := range m.replicas {
		if named[base] == nil && !r.byHand {
			r.leaving = true
			m.set.Drain(base, true)
		}
	}
	m.serveWaiting()
}

// keysMax bounds the keys that are looked for in what servers say: what runs longest was sent one of the last few.
const keysMax = 8

// SetKey replaces Options.Key. Where bases are named the replicas are those, as by Follow, and they alone are sent it:
// one that leaves, or that was added by hand, keeps the key that it has, until it is named or added again. Without bases
// all have it that are not about to leave. No replica is sent a key that was not meant for it in between.
func (m *Model) SetKey(key string, bases []string) {
	named := m.parsed(bases)
	m.mu.Lock()
	defer m.mu.Unlock()
	before := slices.DeleteFunc(slices.Clone(m.keys), func(k string) bool { return k == key })
	m.keys = append([]string{key}, before[:min(len(before), keysMax-1)]...)
	for base, r := range m.replicas {
		if named[base] != nil || len(bases) == 0 && !r.leaving {
			r.key = key
		}
	}
	if len(bases) > 0 {
		m.follow(named)
	}
}

// HasKey says whether a key is the one that new replicas are sent.
func (m *Model) HasKey(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[0] == key
}

// keyOf is what a replica is sent as its key.
func (m *Model) keyOf(r *replica) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.key
}

func parseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "", u.User != nil:
		return nil, errors.New("want a base URL, such as http://10.0.0.7:8000, without user, password and parameters")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		return nil, errors.New("want it without /v1")
	}
	return u, nil
}

// CheckURL says what is wrong with a replica's base URL, and never what it is: it may have a secret. nil if nothing is.
func CheckURL(base string) error {
	_, err := parseURL(base)
	return err
}

// Drain keeps new requests from a replica, or lets them come again; those that run go on.
func (m *Model) Drain(base string, draining bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[strings.TrimRight(base, "/")]
	if r == nil {
		return fmt.Errorf("%w: %s", ErrReplica, base)
	}
	r.drained = draining
	m.set.Drain(r.base, draining)
	m.serveWaiting()
	return nil
}

// Remove forgets a replica; requests that run there go on. The own engine stays.
func (m *Model) Remove(base string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[strings.TrimRight(base, "/")]
	if r == nil {
		return fmt.Errorf("%w: %s", ErrReplica, base)
	}
	if r.base == m.options.Own {
		return fmt.Errorf("%w: %s", ErrOwn, base)
	}
	m.remove(r)
	return nil
}

// remove forgets a replica. mu is held.
func (m *Model) remove(r *replica) {
	m.set.Remove(r.base)
	delete(m.replicas, r.base)
	delete(m.ready, r.base)
	close(r.removed)
	r.close()
	m.serveWaiting()
}

// Replica is one replica as an operator sees it.
type Replica struct {
	route.State
	// Ready says that it has answered a probe, and can count tokens where it has to.
	Ready   bool
	Version string
}

// Replicas lists the replicas by URL.
func (m *Model) Replicas() []Replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := m.set.States(time.Now())
	all := make([]Replica, len(states))
	for i, s := range states {
		all[i] = Replica{State: s, Ready: m.ready[s.ID], Version: m.replicas[s.ID].version}
	}
	return all
}

// Waiting is how many requests wait for a replica that is not full.
func (m *Model) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.len()
}

// mayUse says whether an account's requests may go to this model's caches: those of a flavor
// that cannot keep accounts apart are the account's alone of which a request was sent first.
// sends says that one is about to be.
func (m *Model) mayUse(account string, sends bool) *abi.Error {
	if m.options.Flavor.Isolates() || m.options.SharedCache {
		return nil
	}
	owns, tell := m.owns(account, sends)
	if owns {
		return nil
	}
	if tell {
		m.options.Log.Error("a second account asked for a model whose servers cannot keep prefix caches apart; "+
			"set upstream.shared_cache if accounts may share them", "model", m.options.ID, "flavor", string(m.options.Flavor))
	}
	return &abi.Error{Kind: abi.Overloaded, Op: "upstream.mayUse", RetryAfter: 30 * time.Second,
		Msg: "the model is not available to this account"}
}

// owns is mayUse where the caches are one account's, and says whether to tell the log of another one.
func (m *Model) owns(account string, sends bool) (owns, tell bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == "" && sends {
		m.owner = account
	}
	if m.owner == "" || m.owner == account {
		return true, false
	}
	now := time.Now()
	if tell = now.Sub(m.otherToldAt) >= toldEvery; tell {
		m.otherToldAt = now
	}
	return false, tell
}

// anyReady says whether a replica has answered a probe.
func (m *Model) anyReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ready) > 0
}

// urls lists the replicas that are ready, the less loaded ones first: those that are up, or all where none is.
func (m *Model) urls() (all []*replica) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := m.set.States(time.Now())
	slices.SortStableFunc(states, func(a, b route.State) int { return a.InFlight - b.InFlight })
	var others []*replica
	for _, s := range states {
		switch {
		case !m.ready[s.ID]:
		case s.Up && !s.Draining:
			all = append(all, m.replicas[s.ID])
		default:
			others = append(others, m.replicas[s.ID])
		}
	}
	if len(all) == 0 {
		return others
	}
	return all
}
