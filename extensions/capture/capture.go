// Package capture keeps what the modules of a slot were asked, for a time and within
// bounds, and runs it on two builds of a module to show what changed between them.
//
// A Capture is in memory only: nothing here writes, logs or encodes it. What it keeps
// is grouped by request, since a translator's calls depend on those before them. A
// request is of one account, and each account's run on instances of their own.
package capture

import (
	"slices"
	"sync"
	"time"

	"corenode/wasm/abi"
)

// Bounds of one capture.
const (
	BytesMax    = 8 << 20 // of all inputs
	RequestsMax = 1000
	TimeMax     = time.Hour // for which it takes requests
	// KeptFor is how long after that it is kept.
	KeptFor = time.Hour
)

// Status is what an operator sees of a capture.
type Status struct {
	Slot     string    `json:"slot"`
	Account  string    `json:"account,omitempty"` // "" = all
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // it takes requests until then, and is forgotten KeptFor later
	Requests int       `json:"requests"`
	Bytes    int       `json:"bytes"`
	Missed   uint64    `json:"missed" doc:"Requests for which there was no room."`
}

// Capture may be used by several goroutines. A nil one takes nothing.
type Capture struct {
	account      string // "" = all
	since, until time.Time

	mu       sync.Mutex // guards what follows, and the calls of its requests
	requests []*Request // those that ended, oldest first
	bytes    int        // of all inputs, those of requests that run included
	missed   uint64
	ended    chan struct{} // closed when it is forgotten, and takes no more
}

// Request is what was asked for one request. It is complete when End was called. A
// nil one takes nothing.
type Request struct {
	Account, ID string

	of    *Capture
	bytes int
	cut   bool // there was no room for all of it
	calls []call
}

// call is one call as a module was asked; a translator's has neither state nor what was
// kept, which each build makes itself.
type call struct {
	op   abi.Op
	in   []byte
	held []abi.Counter // what a charge's request holds of counters, of whichever module
}

// New makes a capture of an account's requests, or of all.
func New(account string, since, until time.Time) *Capture {
	return &Capture{account: account, since: since, until: until, ended: make(chan struct{})}
}

// Begin takes a request in; nil when it is not one of those that are taken.
func (c *Capture) Begin(account, id string, now time.Time) *Request {
	if c == nil || c.account != "" && c.account != account || !now.Before(c.until) {
		return nil
	}
	return &Request{Account: account, ID: id, of: c}
}

// Add keeps what a call was asked; in appends it.
func (r *Request) Add(op abi.Op, in func([]byte) []byte) {
	if r != nil {
		r.add(call{op: op, in: in(nil)})
	}
}

// Charge keeps what a charge was asked, and what its request holds of counters: each build has its own.
func (r *Request) Charge(in abi.ChargeInput, held []abi.Counter) {
	if r != nil {
		r.add(call{abi.OpCharge, in.Append(nil), slices.Clone(held)})
	}
}

func (r *Request) add(one call) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.cut || r.of.forgotten() {
		return
	}
	n := len(one.in)
	for _, c := range one.held {
		n += len(c.Name)
	}
	if r.of.bytes += n; r.of.bytes > BytesMax || len(r.of.requests) >= RequestsMax {
		r.of.bytes -= r.bytes + n
		r.cut, r.calls = true, nil
		r.of.missed++
		return
	}
	r.bytes += n
	r.calls = append(r.calls, one)
}

// Events keeps an event group of a stream.
func (r *Request) Events(facts abi.Facts, group []abi.Event) {
	if r == nil {
		return
	}
	in := abi.EventsInput{Facts: facts}
	for i := range group {
		in.Events = abi.AppendFrame(in.Events, &group[i])
	}
	r.Add(abi.OpEvents, in.Append)
}

// End says that the request asks no more; more than once is harmless.
func (r *Request) End() {
	if r == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.cut || r.of.forgotten() || len(r.calls) == 0 {
		return
	}
	r.cut = true // it takes no more
	r.of.requests = append(r.of.requests, r)
}

// Forget drops what was taken, and takes no more.
func (c *Capture) Forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forgotten() {
		close(c.ended)
		c.requests, c.bytes = nil, 0
	}
}

// Forgotten is closed when the capture is.
func (c *Capture) Forgotten() <-chan struct{} { return c.ended }

// forgotten says whether it is. mu is held.
func (c *Capture) forgotten() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Requests are those that ended so far, oldest first. They change no more.
func (c *Capture) Requests() []*Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Request(nil), c.requests...)
}

// Status says what it has come to.
func (c *Capture) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Account: c.account, Since: c.since, Until: c.until, Requests: len(c.requests), Bytes: c.bytes, Missed: c.missed}
}
