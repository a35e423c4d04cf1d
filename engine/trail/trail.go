// Package trail remembers how the prompts of requests began, as hashes of their pages and never
// as text, and says why two requests did not share what was cached.
//
// A Log is a queue bounded in bytes: the oldest trails go first. A trail is written once, when
// its request is matched with the prefix cache; then only the time at which its prompt was
// computed is added. All decisions are pure functions of two trails.
package trail

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"corenode/engine/kv"
)

// Trail is what is kept of one request. Only Computed changes after it is in a log.
type Trail struct {
	Request   string
	Partition string // account, or what stands for it, whose prefixes it may use
	Model     string
	Loaded    uint64 // which memory of the model it ran in: one is made at each start and after each failure
	Recurrent bool   // the model needs snapshots
	PageSize  int    // tokens of a page
	Prompt    int    // tokens
	Cached    int    // tokens found in the cache
	// States are the places in its prompt, ascending, after which a state was to be kept.
	States   []int
	Branch   int // tokens whose pages were found, where a snapshot was missing; 0 without
	Matched  time.Time
	computed atomic.Pointer[time.Time] // when the whole prompt was; nil before
	// hashes has one hash for each full page of the prompt, chained, and one for what is behind the
	// last of them.
	hashes []uint32
}

// Computed says that the whole prompt is computed now.
func (t *Trail) Computed(now time.Time) { t.computed.CompareAndSwap(nil, &now) }

// trailBytes is about what a trail takes beside its texts and hashes.
const trailBytes = 256

func (t *Trail) bytes() int {
	return trailBytes + len(t.Request) + len(t.Partition) + 4*cap(t.hashes) + 8*len(t.States)
}

// hashesMax bounds the pages of one prompt that are remembered; those behind them count as one.
const hashesMax = 1 << 14

// Log keeps the latest trails. It is safe for concurrent use.
type Log struct {
	bytesMax int
	seed     uint64

	mu    sync.Mutex // guards all below
	queue []*Trail   // the oldest first
	byID  map[string]*Trail
	bytes int
}

// NewLog makes a log of at most so many bytes.
func NewLog(bytesMax int) *Log {
	return &Log{bytesMax: bytesMax, seed: rand.Uint64(), byID: map[string]*Trail{}}
}

// Add hashes a prompt and keeps its trail.
func (l *Log) Add(t *Trail, prompt []int32) {
	t.Prompt = len(prompt)
	t.hashes = l.hash(make([]uint32, 0, min(len(prompt)/t.PageSize, hashesMax)+1), t.PageSize, prompt)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, t)
	l.byID[t.Request] = t
	l.bytes += t.bytes()
	for l.bytes > l.bytesMax && len(l.queue) > 0 {
		old := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.bytes -= old.bytes()
		if l.byID[old.Request] == old {
			delete(l.byID, old.Request)
		}
	}
}

// hash appends the hashes of a prompt's pages and of its rest.
func (l *Log) hash(to []uint32, size int, prompt []int32) []uint32 {
	h := l.seed
	for len(prompt) >= size && len(to) < hashesMax {
		h = kv.Chain(h, prompt[:size])
		to, prompt = append(to, uint32(h)), prompt[size:]
	}
	return append(to, uint32(kv.Chain(h, prompt)))
}

// Find returns the trail of a request, nil when none is kept.
func (l *Log) Find(request string) *Trail {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[request]
}

// Pages is how many full pages at the beginning of two prompts are equal.
func Pages(a, b *Trail) (n int) {
	for n < min(len(a.hashes), len(b.hashes))-1 && a.hashes[n] == b.hashes[n] {
		n++
	}
	return n
}

// BeginsWith says whether tokens, of full pages from the first on, are those that the trail begins with.
func (l *Log) BeginsWith(t *Trail, tokens []int32) bool {
	n := len(tokens) / t.PageSize
	if n == 0 || n > len(t.hashes)-1 {
		return false
	}
	h := l.seed
	for at := 0; at < n*t.PageSize; at += t.PageSize {
		h = kv.Chain(h, tokens[at:at+t.PageSize])
	}
	return uint32(h) == t.hashes[n-1]
}

// Limit says what kept a request from using more of the cache.
type Limit string

// The limits, in the order in which they are asked for.
const (
	LimitModel    Limit = "model"    // they asked for different models
	LimitAccount  Limit = "account"  // they are of different accounts
	LimitShort    Limit = "short"    // less than a page is equal
	LimitReloaded Limit = "reloaded" // the model's memory was made anew between them
	LimitNone     Limit = "none"     // all that could be shared was
	LimitEarly    Limit = "early"    // the first one's prompt was not computed yet
	LimitSnapshot Limit = "snapshot" // the pages were there, and no recurrent state at their end
	LimitEvicted  Limit = "evicted"  // what was equal was not in the cache any more
)

// Verdict is why the later of two requests did not use what the earlier one left.
type Verdict struct {
	Earlier, Later *Trail
	// Equal is how many tokens at the beginning are equal; with Exact to the token, else to the page.
	Equal int
	Exact bool
	// Part says that they differ there; else the shorter prompt is the beginning of the longer.
	Part      bool
	Shareable int // tokens that the later one could have found: whole pages, and one token left to compute
	Limit     Limit
}

// Compare judges two requests. token, if it is not -1, is the first token in which their prompts
// differ, where that is known.
func Compare(a, b *Trail, token int) Verdict {
	if b.Matched.Before(a.Matched) {
		a, b = b, a
	}
	v := Verdict{Earlier: a, Later: b}
	if a.Model != b.Model {
		v.Limit, v.Exact = LimitModel, true // other tokens: nothing is compared
		return v
	}
	pages := Pages(a, b)
	whole := len(a.hashes) == len(b.hashes) && a.hashes[pages] == b.hashes[pages]
	v.Equal = pages * b.PageSize
	switch {
	case whole:
		v.Equal, v.Exact = a.Prompt, true
	case token >= 0:
		v.Equal, v.Exact, v.Part = token, true, token < min(a.Prompt, b.Prompt)
	default:
		v.Part = true
	}
	v.Shareable = min(pages, (b.Prompt-1)/b.PageSize) * b.PageSize
	v.Limit = v.limit()
	return v
}

func (v Verdict) limit() Limit {
	a, b := v.Earlier, v.Later
	computed := a.computed.Load()
	switch {
	case a.Partition != b.Partition:
		return LimitAccount
	case v.Shareable == 0:
		return LimitShort
	case a.Loaded != b.Loaded:
		return LimitReloaded
	case b.Cached >= v.Shareable:
		return LimitNone
	case computed == nil || computed.After(b.Matched):
		return LimitEarly
	case b.Recurrent && (b.Branch > b.Cached || b.Cached >= v.deepest()):
		return LimitSnapshot
	}
	return LimitEvicted
}

// deepest is where the last state was to be kept that both prompts could use.
func (v Verdict) deepest() (at int) {
	for _, state := range v.Earlier.States {
		if state <= v.Shareable {
			at = state / v.Later.PageSize * v.Later.PageSize
		}
	}
	return at
}

// Sentence says it for people.
func (v Verdict) Sentence() string {
	if v.Limit == LimitModel {
		return fmt.Sprintf("They asked for different models, %s and %s: each has a cache of its own.", v.Earlier.Model, v.Later.Model)
	}
	return v.beginning() + " " + v.reason()
}

func (v Verdict) beginning() string {
	size := v.Later.PageSize
	switch {
	case v.Exact && !v.Part && v.Earlier.Prompt == v.Later.Prompt:
		return fmt.Sprintf("Their prompts are equal, all %d tokens.", v.Equal)
	case v.Exact && !v.Part:
		return fmt.Sprintf("The shorter prompt, %d tokens, is the beginning of the other.", v.Equal)
	case v.Exact:
		return fmt.Sprintf("Their prompts are equal up to token %d and differ in the next, on page %d.", v.Equal, v.Equal/size+1)
	}
	return fmt.Sprintf("Their prompts are equal for %d tokens and part within the next page, before token %d.", v.Equal, v.Equal+size+1)
}

func (v Verdict) reason() string {
	b := v.Later
	switch v.Limit {
	case LimitAccount:
		return "They are of different accounts, which never share what is cached."
	case LimitShort:
		return fmt.Sprintf("Only whole pages of %d tokens are shared, and the last token of a prompt is always computed.", b.PageSize)
	case LimitReloaded:
		return "The model began with an empty cache between them: it was restarted after a failure."
	case LimitNone:
		return fmt.Sprintf("The later one found %d tokens in the cache, all that whole pages allow.", b.Cached)
	case LimitEarly:
		return fmt.Sprintf("The later one came before the earlier one's prompt was computed, and found %d tokens.", b.Cached)
	case LimitSnapshot:
		return fmt.Sprintf("The model has recurrent layers: a prompt goes on only from where a state was kept, and of the %d tokens "+
			"that could be shared the deepest was after token %d.", v.Shareable, b.Cached)
	}
	if b.Recurrent {
		return fmt.Sprintf("Of %d tokens that could be shared %d were there: the others, or their states, were evicted or never kept.",
			v.Shareable, b.Cached)
	}
	return fmt.Sprintf("Of %d tokens that could be shared %d were there: the others were evicted.", v.Shareable, b.Cached)
}
