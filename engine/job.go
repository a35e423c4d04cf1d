package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/engine/kv"
	"corenode/wasm/abi"
)

// Handle pins a conversation's prefix in the cache; the session that holds it
// gives it back with Stepper.Release. Its epoch makes a second release harmless.
type Handle = kv.Handle

// Job is one prepared request on its way through a step loop.
type Job struct {
	ID      string // request id
	Account string // an account, or another node's partition of it; prefixes are never shared between two
	Session string // names the conversation
	Request *Request
	// Priority orders the jobs that wait for a slot, or for a place on a server elsewhere, higher
	// first; 0 is the usual one. A level is worth priority.Wait, so none waits for ever.
	Priority int8
	// Pin asks for a Handle on the computed prefix when the job ends.
	Pin bool
	// Forwarded says that another node sent it and charges for it, by what it is given.
	Forwarded bool
	// Output receives the events. The step loop never waits for it.
	Output *Output
	// Finished is called exactly once, on the step loop, after the last event
	// was pushed. It must not block.
	Finished func(Result)

	canceled atomic.Bool
	onCancel atomic.Pointer[func()]
	input    atomic.Int64
	cached   atomic.Int64
	output   atomic.Int64
	// delivered is output as it was at the last content that was pushed.
	delivered atomic.Int64
	// For Progress. The times are written once each, but for TakenBack, in Unix nanoseconds; 0 before.
	started, first atomic.Int64
	replica        atomic.Pointer[string]
}

// Cancel ends the job at the next step at the latest, in whatever phase it is. Any goroutine may call it.
func (j *Job) Cancel() {
	j.canceled.Store(true)
	if f := j.onCancel.Load(); f != nil {
		(*f)()
	}
}

// OnCancel makes Cancel call f, which must not block and may be called again; at once where it was called before. It is
// for a stepper that does not look at its jobs at each step.
func (j *Job) OnCancel(f func()) {
	j.onCancel.Store(&f)
	if j.Canceled() {
		f()
	}
}

// Canceled says whether Cancel was called.
func (j *Job) Canceled() bool { return j.canceled.Load() }

// Observed is the usage so far: before the first token the
// input computed, as for a job canceled in prefill. Any goroutine may call it.
func (j *Job) Observed() abi.Usage {
	u := abi.Usage{InputUncached: j.input.Load(), Output: j.output.Load()}
	if u.Output > 0 {
		u.CacheRead = j.cached.Load()
	}
	return u
}

// Delivered is Observed with the output up to the last content that the reader was given, not with
// what is held back, such as a call until its end: it is for checkpoints. Any goroutine may call it.
func (j *Job) Delivered() abi.Usage {
	u := j.Observed()
	if u.Output = min(u.Output, j.delivered.Load()); u.Output == 0 {
		u.CacheRead = 0
	}
	return u
}

// Observe tells the usage so far of a job that another engine than this package's computes, and how
// many tokens of its output are held back.
func (j *Job) Observe(u abi.Usage, held int64) {
	j.input.Store(u.InputUncached)
	j.cached.Store(u.CacheRead)
	j.output.Store(u.Output)
	j.delivered.Store(max(0, u.Output-held))
}

// Progress is how far a job has come.
type Progress struct {
	Started, First time.Time // its first step, its first output token; zero before
	// Input counts prompt tokens that were computed so far, Cached those that were found.
	Input, Cached, Output int64
	Behind                bool   // its reader does not keep up
	Replica               string // the server elsewhere that it was sent to last, unless it was taken back
}

// Progress looks at the job. Any goroutine may call it; it costs the step loop nothing.
func (j *Job) Progress() Progress {
	p := Progress{Started: timeOf(&j.started), First: timeOf(&j.first), Input: j.input.Load(), Cached: j.cached.Load(),
		Output: j.output.Load(), Behind: !j.Output.Room()}
	if replica := j.replica.Load(); replica != nil {
		p.Replica = *replica
	}
	return p
}

func timeOf(at *atomic.Int64) time.Time {
	if ns := at.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Began says when the job's first step was. Only the first call counts.
func (j *Job) Began(at time.Time) { j.started.CompareAndSwap(0, at.UnixNano()) }

// Answered says when its first output token was there. Only the first call counts.
func (j *Job) Answered(at time.Time) { j.first.CompareAndSwap(0, at.UnixNano()) }

// SentTo says which server elsewhere the job was sent to.
func (j *Job) SentTo(replica string) { j.replica.Store(&replica) }

// TakenBack says that no server elsewhere answers the job: it waits for its first step.
func (j *Job) TakenBack() {
	j.replica.Store(nil)
	j.started.Store(0)
	j.first.Store(0)
}

// ErrElsewhere is in the cause of an internal error that is the fault of a server elsewhere, and not of this node.
var ErrElsewhere = errors.New("a server elsewhere broke its answer")

// UsageSource says who counted the tokens of an answer.
type UsageSource uint8

const (
	// UsageOwn is an engine of the node's own, whose counts are exact.
	UsageOwn UsageSource = iota
	// UsageReported is what the server that answered says, but a prompt that this node counts exactly.
	UsageReported
	// UsageCounted is the node's own count of what another server answered.
	UsageCounted
)

var sourceNames = [...]string{"", "reported", "counted"}

// String returns the source's name in rows and logs; empty for the node's own engine.
func (s UsageSource) String() string { return sourceNames[s] }

// Source is which server elsewhere answered a job; zero for an engine of the node's own.
type Source struct {
	Replica   string // its base URL
	RequestID string // what it calls the request
	Attempts  int    // servers it was tried on
	Usage     UsageSource
}

// Result is how a job ended.
type Result struct {
	// Usage is what was observed: for a job that was canceled in prefill, the input computed so far.
	Usage abi.Usage
	// Untold are tokens that another server may have computed, that Usage does not have and that nobody pays; the limits
	// count them: the prompt of a job that was cancelled meanwhile, of which the server does not say how far it came, and
	// what an answer took that was ended for a call in it.
	Untold int64
	Stop   abi.StopReason
	// Err is nil for a finished job, Kind Canceled for a canceled one.
	Err    *abi.Error
	Handle Handle // zero unless Pin was asked and granted
	// Computed is how many tokens had KV at the end, read from the cache or not: what the
	// pin of Handle covers, as far as its bytes go.
	Computed int
	// Queue, Prefill and Decode are the time until the first step with it, until the
	// first output token, and until the end. A phase that was not reached is zero.
	Queue, Prefill, Decode time.Duration
	Source                 Source
	Attempts               []Attempt // of a request whose Trace records them
}

// Took sets Queue, Prefill and Decode of a job that ends now, by when it was submitted, was started, which is zero for one that
// was not, and gave its first token, if any.
func (r *Result) Took(submitted, started, first, now time.Time) {
	switch {
	case started.IsZero():
		r.Queue = now.Sub(submitted)
	case first.IsZero():
		r.Queue, r.Prefill = started.Sub(submitted), now.Sub(started)
	default:
		r.Queue, r.Prefill, r.Decode = started.Sub(submitted), first.Sub(started), now.Sub(first)
	}
}

// Output is the bounded queue between the step loop, which pushes, and the
// request's writer, which drains everything queued at once. The step loop
// never waits: it asks Room before a step and pauses the sequence when there is none.
type Output struct {
	mu     sync.Mutex
	events []abi.Event // nil before the first and empty once it is closed. Guarded by mu
	most   int         // events that were drained at once, at most. Guarded by mu
	first  time.Time   // when the first token was pushed, of a queue without a bound. Guarded by mu
	last   abi.Event   // EventEnd or EventError, once that was pushed. Guarded by mu
	ready  chan struct{}
	// drained has a value after a Drain of a queue that had no room; nil of one without a bound.
	drained chan struct{}
	max     int // 0: no bound but the answer's own
}

// buffers are the memory of queues that were closed.
var buffers = sync.Pool{New: func() any { return new([]abi.Event) }}

// A buffer of more than bufferMax events is not used again: 144 KB. Nor is one of more than bufferSmall of which little was used:
// what whole answers and readers far behind made large would in time be the buffers of all streams.
const bufferMax, bufferSmall = 1024, 32

func takeBuffer() []abi.Event { return *buffers.Get().(*[]abi.Event) }

// NewOutput makes a queue that has Room while fewer than eventsMax events wait. It takes memory with its first event: what is refused
// has none, and what waits for its first step.
func NewOutput(eventsMax int) *Output {
	return &Output{ready: make(chan struct{}, 1), drained: make(chan struct{}, 1), max: eventsMax}
}

// NewWholeOutput makes a queue for an answer that is read when it is complete:
// it always has Room, being bounded by the request's max_tokens, and Ready
// speaks up with the last event only.
func NewWholeOutput() *Output {
	return &Output{ready: make(chan struct{}, 1)}
}

// Close gives the memory of the queue, and of events that its reader drained, to other queues. Its reader calls it when it
// reads no more. Who has not ended yet may push behind it.
func (o *Output) Close(events []abi.Event) {
	o.mu.Lock()
	queued := o.events
	keep := min(max(bufferSmall, 4*o.most, 4*len(queued)), bufferMax)
	o.events = []abi.Event{}
	o.mu.Unlock()
	for _, b := range [][]abi.Event{events, queued} {
		if b = b[:cap(b)]; len(b) > 0 && len(b) <= keep {
			clear(b) // of what its events refer to
			b = b[:0]
			buffers.Put(&b)
		}
	}
}

// Ready receives a value when events were pushed since the last Drain.
func (o *Output) Ready() <-chan struct{} { return o.ready }

// First is when the first token was pushed, of an answer that is read when it is
// complete: its reader has not seen it come. Zero without one.
func (o *Output) First() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// Last is the event that ended the answer, EventEnd or EventError, whether it was drained or not. ended is false before it was pushed.
func (o *Output) Last() (last abi.Event, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.last.Kind != abi.EventStart // the zero kind
}

// IsToken says whether an event is the first that a reader sees text of.
func IsToken(e abi.Event) bool { return e.Kind == abi.EventDelta && e.Text != "" }

// Drained receives a value when a queue without room was drained: whoever pushes from a
// goroutine of its own waits for it, and then asks Room again.
func (o *Output) Drained() <-chan struct{} { return o.drained }

// Drain takes all queued events and empties the queue. Behind what dst has, they are appended to it; an empty dst
// is the queue's from here on, so that the two change hands and nothing is copied.
func (o *Output) Drain(dst []abi.Event) []abi.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most = max(o.most, len(o.events))
	if o.max > 0 && len(o.events) >= o.max {
		select {
		case o.drained <- struct{}{}:
		default: // it is known already
		}
	}
	if len(dst) == 0 {
		if cap(dst) == 0 {
			dst = takeBuffer()
		}
		dst, o.events = o.events, dst
		return dst
	}
	dst = append(dst, o.events...)
	clear(o.events)
	o.events = o.events[:0]
	return dst
}

// Push queues events. Those of one step's tokens are pushed together, so the
// queue exceeds its bound by at most those.
func (o *Output) Push(events ...abi.Event) {
	if len(events) == 0 {
		return
	}
	o.mu.Lock()
	if o.events == nil {
		o.events = takeBuffer()
		if o.max == 0 {
			o.events = slices.Grow(o.events, 24) // those of a short answer
		}
	}
	o.events = append(o.events, events...)
	if o.max == 0 && o.first.IsZero() && slices.ContainsFunc(events, IsToken) {
		o.first = time.Now()
	}
	last := &events[len(events)-1]
	ended := last.Kind == abi.EventEnd || last.Kind == abi.EventError
	if ended {
		o.last = *last
	}
	o.mu.Unlock()
	if o.max == 0 && !ended {
		return
	}
	select {
	case o.ready <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Room says whether the reader keeps up.
func (o *Output) Room() bool {
	if o.max == 0 {
		return true
	}
	o.mu.Lock()
	queued := len(o.events)
	o.mu.Unlock()
	return queued < o.max
}
