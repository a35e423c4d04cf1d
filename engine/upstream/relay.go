package upstream

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"corenode/engine"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// requestIDMax bounds what of a replica's request id is kept, in bytes.
const requestIDMax = 128

// attemptsMax is on how many replicas a request is tried.
const attemptsMax = 3

// relay is one job on its way: a goroutine that ends with the job.
type relay struct {
	stepper *Stepper
	model   *Model
	job     *engine.Job
	sent    *sent
	taken   func(*abi.Error) // for the step loop; see Stepper.Submit
	told    bool             // something was reported, or taken called. Guarded by stepper.mu once the relay runs
	chosen  place            // for the first attempt; none: the relay chooses

	ctx    context.Context // ends when the job is cancelled or aborted
	cancel context.CancelFunc
	cause  atomic.Pointer[abi.Error] // why it was aborted; nil for a job that was cancelled
	done   chan struct{}

	result engine.Result // the step loop reads it behind the last report

	// Owned by the relay's goroutine:
	submitted, sentAt, firstAt time.Time
	firstBy                    time.Time // until when this attempt waits for the first content
	source                     engine.Source
	reader                     *wire.Reader
	pending                    []abi.Event // before the first content
	events                     []abi.Event // scratch
	asked                      bool        // the replica of this attempt may have begun with the prompt
	unpaid                     int64       // see bounds; known with the first content
	content                    bool        // this attempt has given some
	shown                      bool        // content was pushed: no other replica may be tried
	misfit                     bool        // it ends for a call that does not hold
	expired                    bool        // it has waited for all its time, and the last replica was full: it waits in no other queue
	span                       [8]byte     // of this attempt, in the request's trace
}

func newRelay(s *Stepper, j *engine.Job, now time.Time, taken func(*abi.Error)) *relay {
	ctx, cancel := context.WithCancel(context.Background())
	return &relay{stepper: s, model: s.model, job: j, sent: j.Request.Remote.(*sent), taken: taken,
		ctx: ctx, cancel: cancel, done: make(chan struct{}), submitted: now}
}

// stop ends the relay in whatever phase it is, with err, or as a job that was cancelled. The
// connection to the replica is closed, which is how the replica learns of it.
func (r *relay) stop(err *abi.Error) {
	if err != nil {
		r.cause.CompareAndSwap(nil, err)
	}
	r.cancel()
}

func (r *relay) run() {
	defer close(r.done)
	defer r.cancel()
	var rest *leftover
	err := func() (err *abi.Error) {
		defer func() {
			if p := recover(); p != nil {
				err = &abi.Error{Kind: abi.Internal, Op: "upstream.relay", Msg: "internal error",
					Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		if r.job.Request.Stream {
			timer := time.AfterFunc(acceptWait, func() { r.stepper.report(r, relayTaken, nil) })
			defer timer.Stop()
		}
		rest, err = r.answer()
		return err
	}()
	r.end(err)
	rest.recycle()
}

// end tells how the job ended.
func (r *relay) end(err *abi.Error) {
	switch {
	case r.ownMayAnswer(err):
		r.job.Observe(abi.Usage{}, 0)
		r.stepper.report(r, relayBack, nil)
		return
	case err != nil && !r.shown && r.stepper.report(r, relayRefused, r.tried(err)):
		return // before anything was promised
	}
	r.result.Err = err
	r.result.Source = r.source
	if err != nil {
		r.result.Usage = r.observed(err)
		if r.misfit {
			r.result.Untold = r.computed() - r.result.Usage.Input() - r.result.Usage.Output
		}
		r.job.Output.Push(abi.Event{Kind: abi.EventError, Err: err})
	}
	r.result.Took(r.submitted, r.sentAt, r.firstAt, time.Now())
	r.stepper.report(r, relayEnded, nil)
}

// ownMayAnswer says whether there is an own engine that can answer what another node did not: it failed, and nothing was shown.
func (r *relay) ownMayAnswer(err *abi.Error) bool {
	return err != nil && r.stepper.back != nil && !r.shown && !r.expired && r.ctx.Err() == nil && err.Kind != abi.Canceled
}

// observed is the usage of an answer that did not end: nothing before its first piece,
// since a replica does not say how far a prefill is; then the prompt and what was delivered, and for
// who left also what was computed and not delivered: a call that was held back, or thinking left out.
func (r *relay) observed(err *abi.Error) abi.Usage {
	switch {
	case err.Kind == abi.Canceled && r.reader != nil && r.reader.Delivered() > 0:
		usage, _ := r.usage()
		r.job.Observe(usage, r.reader.Held())
	case !r.content:
		if err.Kind == abi.Canceled && r.asked {
			r.result.Untold = int64(r.sent.counted)
		}
		return abi.Usage{}
	}
	r.source.Usage = engine.UsageCounted
	if u := r.reader.Usage(); err.Kind == abi.Canceled && u.Known && u.Output >= r.reader.Delivered() {
		r.source.Usage = engine.UsageReported
	}
	r.result.Source = r.source
	if r.source.Usage == engine.UsageCounted && (r.job.Request.Stream || err.Kind == abi.Canceled || err.Kind == abi.Timeout) {
		r.model.counts.UsageCounted.Add(1) // nobody pays any other
	}
	if err.Kind != abi.Canceled {
		return r.job.Delivered()
	}
	return r.job.Observed()
}

// computed is how many tokens the prompt and the answer so far have, as far as is known, whoever pays them.
func (r *relay) computed() int64 {
	usage, _ := r.usage()
	return int64(r.sent.counted) + max(usage.Output, r.reader.Delivered())
}

// answer tries replicas until one has answered, or none may be tried any more.
func (r *relay) answer() (*leftover, *abi.Error) {
	m := r.model
	m.request()
	key := r.sent.key(r.job.Session)
	var tried []string
	var last *outcome
	for len(tried) < attemptsMax {
		rep, err := r.chosen, (*abi.Error)(nil)
		if rep.replica == nil || len(tried) > 0 {
			rep, err = r.choose(key, tried, last)
		}
		if err != nil {
			return nil, err
		}
		tried = append(tried, rep.base)
		rest, o := r.tryOne(rep, len(tried))
		switch {
		case o == nil:
			return rest, nil
		case r.ctx.Err() != nil:
			return nil, r.stopped()
		case o.verdict.final():
			return nil, o.refusal()
		case r.shown || o.last:
			return nil, &abi.Error{Kind: abi.Internal, Op: "upstream.relay", Err: fmt.Errorf("%w: %w", engine.ErrElsewhere, o.err),
				Msg: "the model failed while it was answering; try again"}
		}
		last = o
		r.reader, r.content = nil, false // who leaves before the next attempt begins does not pay this one
		r.job.Observe(abi.Usage{}, 0)
		r.expired = o.verdict == full && time.Since(r.submitted) >= m.options.QueueTimeout
		if r.expired || r.chosen.replica != nil { // the own engine is nearer than another node
			break
		}
	}
	return nil, last.refusal()
}

// tryOne is an attempt whose place on the replica is given back, whatever happens. One that
// was stopped says nothing of the replica.
func (r *relay) tryOne(rep place, n int) (rest *leftover, o *outcome) {
	over := false
	r.model.counts.attempt(rep)
	defer r.recorded(rep.replica, time.Now())(&o)
	defer func() {
		switch {
		case !over, o != nil && r.ctx.Err() != nil:
			r.model.giveBack(rep)
		default:
			r.model.release(rep, o)
		}
	}()
	rest, o = r.attempt(rep.replica, n)
	over = true
	r.account(rep.replica, o)
	if o != nil {
		o.err, o.said = r.model.keyless(o.err), cut(r.model.withoutKey(o.said), saidMax)
	}
	return rest, o
}

// stopped is why a relay was stopped.
func (r *relay) stopped() *abi.Error {
	if err := r.cause.Load(); err != nil {
		return err
	}
	return &abi.Error{Kind: abi.Canceled, Op: "upstream.relay", Msg: "the request was given up"}
}

// choose picks a replica and counts the request there. Where all are full it waits.
func (r *relay) choose(key route.Key, tried []string, last *outcome) (place, *abi.Error) {
	m := r.model
	retry := last != nil && last.verdict != absent && last.verdict != full // else nothing of the request had begun: it costs no budget
	w := &waiter{wish: wish{key, r.job.Account, tried, retry}, priority: r.job.Priority, submitted: r.submitted,
		told: make(chan choice, 1)}
	c, waits := m.chooseOrWait(w)
	if waits {
		var err *abi.Error
		if c, err = r.wait(w); err != nil {
			return place{}, err
		}
	}
	switch {
	case c.why == route.AllFull:
		return place{}, errQueue(errors.New("too many requests wait for a server of the model"))
	case c.why == route.NoneUp && last != nil:
		return place{}, last.refusal()
	case c.why == route.NoneUp:
		return place{}, m.noneUp()
	}
	if last != nil && last.verdict != full {
		m.counts.Retries.Add(1)
	}
	return c.place, nil
}

// wait waits in line until the request is told of a place, or that there is none.
func (r *relay) wait(w *waiter) (choice, *abi.Error) {
	m := r.model
	deadline := time.NewTimer(max(0, m.options.QueueTimeout-time.Since(r.submitted)))
	defer deadline.Stop()
	var err *abi.Error
	select {
	case c := <-w.told:
		return c, nil
	case <-deadline.C:
		err = errQueue(errors.New("no place came free in time"))
	case <-r.ctx.Done():
		err = r.stopped()
	}
	if m.leave(w) {
		return choice{}, err
	}
	c := <-w.told // at the same moment
	if r.ctx.Err() != nil && c.why == route.Chosen {
		m.giveBack(c.place, c.place.fresh...)
		return choice{}, err
	}
	return c, nil
}

// attempt asks one replica. The outcome is nil when the answer is complete.
func (r *relay) attempt(rep *replica, n int) (*leftover, *outcome) {
	r.reader = wire.NewReader(r.model.options.Flavor, r.sent.stops, func() string { return engine.NewID("toolu_") })
	if r.sent.quiet {
		r.reader.HideThinking()
	}
	if r.sent.single {
		r.reader.OneCall()
	}
	r.pending, r.content, r.asked, r.unpaid = r.pending[:0], false, false, 0
	r.source = engine.Source{Replica: rep.base, Attempts: n}
	r.job.SentTo(rep.base)
	c, resp, err := r.send(rep, n)
	if err != nil {
		r.asked = r.asked && r.left()
		return nil, failedSend(err)
	}
	stop := context.AfterFunc(r.ctx, func() { c.Close() })
	defer stop()
	r.source.RequestID = cut(printable(cmp.Or(resp.Header.Get("X-Request-Id"), resp.Header.Get("Request-Id"))), requestIDMax)
	o := r.status(rep.base, resp)
	if r.asked = o == nil; r.asked {
		r.stepper.report(r, relayTaken, nil)
		o = r.stream(c, resp.Body)
	}
	if o != nil || !stop() { // a cancel that came with the last piece closes it, when another request may have it
		c.Close()
		return nil, o
	}
	return &leftover{rep, c, resp.Body}, nil
}

// send sends the body and reads the head of the answer. An idle connection that the replica
// closed meanwhile is replaced by a fresh one.
func (r *relay) send(rep *replica, n int) (*conn, *http.Response, error) {
	for fresh := false; ; fresh = true {
		c, err := rep.connect(r.ctx, fresh)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		if refusal := r.model.mayUse(r.job.Account, true); refusal != nil { // another account's was sent meanwhile
			c.Close()
			return nil, nil, refusal
		}
		if r.sentAt.IsZero() {
			r.sentAt = time.Now()
			r.job.Began(r.sentAt)
		}
		stop := context.AfterFunc(r.ctx, func() { c.Close() })
		r.firstBy = time.Now().Add(r.model.options.FirstTimeout)
		_ = c.SetDeadline(r.firstBy) // a closed connection says so below
		r.asked = true
		resp, err := rep.ask(c, &question{http.MethodPost, r.model.options.Flavor.Path(), r.header(rep, n), r.sent.body})
		stop()
		if err == nil {
			return c, resp, nil
		}
		c.Close()
		if !c.reused || !errors.Is(err, errNotSent) || r.ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// header is what goes out with the body: nothing of it says whose the request is.
func (r *relay) header(rep *replica, n int) []field {
	m := r.model
	h := m.header(rep, r.job.Account)
	if p := r.job.Priority; m.traits.Partition && p != 0 {
		h = append(h, field{wire.PriorityHeader, strconv.Itoa(int(p))})
	}
	h = append(h, field{"Accept", "text/event-stream"},
		field{"X-Request-Id", r.job.ID + "-r" + strconv.Itoa(n)}, field{"X-Session-Id", m.secretName("session", r.job.Session)})
	return append(m.forwarded(h, r.sent.forward), r.traceHeader()...)
}

// streamBuffer is what is read of an answer at once, in bytes.
const streamBuffer = 16 << 10

var buffers = sync.Pool{New: func() any { return new([streamBuffer]byte) }}

// stream reads the answer to its end.
func (r *relay) stream(c *conn, body io.Reader) *outcome {
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	m := r.model
	wait := pace{first: m.options.FirstTimeout, stall: m.options.StallTimeout, due: r.firstBy,
		pings: m.traits.Pings, own: m.options.Own != ""}
	count := 0
	for {
		_ = c.SetReadDeadline(wait.due) // a closed connection says so in Read
		n, err := body.Read(buf[:])
		before, pings := r.reader.Delivered(), r.reader.Pings()
		events, bad := r.reader.Feed(r.events[:0], buf[:n])
		if bad == nil && err == io.EOF {
			events, bad = r.reader.End(events)
		}
		r.events = events
		if count += len(events); r.tooLong(count) {
			return &outcome{err: errors.New("the answer goes on far over max_tokens"), reason: ReasonBroken, last: true}
		}
		if len(events) > 0 {
			if o := r.deliver(events); o != nil {
				return o
			}
		}
		switch promised := !r.content && r.reader.Delivered() == 0; { // and nothing else so far
		case !promised && (len(events) > 0 || r.reader.Delivered() > before): // a call is held back, and comes all the same
			wait.piece(time.Now())
		case r.reader.Pings() > pings:
			wait.ping(time.Now())
		}
		switch failure, failed := errors.AsType[*wire.Failure](bad); {
		case r.reader.Ended():
			return nil
		case failed:
			return r.failure(r.source.Replica, failure.Status, serverError{msg: r.model.withoutKey(failure.Msg)})
		case bad != nil:
			return &outcome{err: bad, reason: ReasonBroken}
		case timeout(err):
			return &outcome{err: fmt.Errorf("read of the answer: %w", err), reason: ReasonStall}
		case err != nil:
			return &outcome{err: fmt.Errorf("read of the answer: %w", unquoted(err)), reason: ReasonBroken}
		}
	}
}

// tooLong says that an answer has more than any of max_tokens tokens can have: a server that
// does not end must not fill the memory. A token has at most some hundred bytes.
func (r *relay) tooLong(events int) bool {
	tokens := int64(r.job.Request.MaxTokens)
	return r.reader.Bytes() > 1<<20+1024*tokens || int64(events) > 4096+8*tokens
}

// deliver checks calls and hands events on, once there is content.
func (r *relay) deliver(events []abi.Event) *outcome {
	if o := r.checkCalls(events); o != nil {
		return o
	}
	if !r.content && slices.ContainsFunc(events, func(e abi.Event) bool { return e.Kind == abi.EventDelta || e.Kind == abi.EventEnd }) {
		r.content, r.firstAt = true, time.Now()
		r.job.Answered(r.firstAt)
		r.unpaid = r.model.unpaid(r.source.Replica, r.sent)
	}
	usage, source := r.usage()
	if r.content {
		r.job.Observe(usage, r.reader.Held())
	}
	if !r.shown {
		r.pending = append(r.pending, events...)
		if !r.content || !r.job.Request.Stream && !r.reader.Ended() { // a plain answer is shown when it is complete
			return nil
		}
		r.shown, events = true, r.pending
	}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case abi.EventStart:
			e.Usage = abi.Usage{InputUncached: usage.InputUncached, CacheRead: usage.CacheRead}
		case abi.EventBlockStop:
			if e.Signature != "" {
				e.Signature = signatureMark + base64.StdEncoding.EncodeToString([]byte(e.Signature))
			}
		case abi.EventEnd:
			e.Usage = usage
			r.source.Usage = source
			r.result.Usage, r.result.Stop = usage, e.Stop
			if source == engine.UsageCounted {
				r.model.counts.UsageCounted.Add(1)
			}
			if r.thinksUnasked(r.reader.Usage()) {
				r.model.tellOnce(slog.LevelWarn, "thinking", "the model's servers think where requests switch it off: that is dropped")
			}
		}
	}
	return r.push(events)
}

// push hands events to the client's writer, and waits while it is behind: what is not read
// here the replica cannot write for long.
func (r *relay) push(events []abi.Event) *outcome {
	out := r.job.Output
	out.Push(events...)
	if events[len(events)-1].Kind == abi.EventEnd || out.Room() {
		return nil
	}
	timer := time.NewTimer(r.model.options.ReaderTimeout)
	defer timer.Stop()
	for !out.Room() {
		select {
		case <-out.Drained():
		case <-r.ctx.Done():
			return &outcome{err: r.ctx.Err()}
		case <-timer.C:
			r.job.Cancel()
			r.cancel()
			return &outcome{err: errors.New("the client does not read")}
		}
	}
	return nil
}

// checkCalls looks at the calls among events, each of which is complete, and makes what they are given normal.
func (r *relay) checkCalls(events []abi.Event) *outcome {
	name := ""
	for i := range events {
		e := &events[i]
		if e.Block != abi.BlockToolUse {
			continue
		}
		switch e.Kind {
		case abi.EventBlockStart:
			name = e.Name
		case abi.EventDelta:
			text, err := r.sent.calls.check(name, e.Text)
			if e.Text = text; err == nil {
				continue
			}
			r.model.counts.InvalidCalls.Add(1)
			if text == "" || !r.model.options.PassInvalidCalls {
				r.misfit = true
				return &outcome{verdict: ofRequest, err: errInvalidCall(err)}
			}
		}
	}
	return nil
}
