package batcher

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// control is one thing for the step loop; exactly one field is set.
type control struct {
	ticket  Ticket
	release *Pin
	abort   *abi.Error
	visit   *Visit
}

// lost answers what no loop will see.
func (c control) lost(why *abi.Error) {
	if c.ticket != nil {
		c.ticket.Refused(why)
	}
	if c.visit != nil {
		c.visit.Lost()
	}
}

// inbox is the queue between the actor and the step loop. Jobs are bounded by
// jobsMax; releases by the pins that exist, aborts and visits by the operator.
type inbox struct {
	jobsMax int
	ready   chan struct{} // has a value after every put and wake

	mu     sync.Mutex // guards all below
	items  []control
	jobs   int
	closed bool
}

func newInbox(jobsMax int) inbox {
	return inbox{jobsMax: jobsMax, ready: make(chan struct{}, 1)}
}

// put queues c and says whether there was room.
func (q *inbox) put(c control) bool {
	q.mu.Lock()
	ok := !q.closed && (c.ticket == nil || q.jobs < q.jobsMax)
	if ok {
		q.items = append(q.items, c)
		if c.ticket != nil {
			q.jobs++
		}
	}
	q.mu.Unlock()
	q.wake()
	return ok
}

// drain appends everything queued to dst. closed says that the loop must end.
func (q *inbox) drain(dst []control) (_ []control, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dst = append(dst, q.items...)
	clear(q.items)
	q.items, q.jobs = q.items[:0], 0
	return dst, q.closed
}

// close refuses further items and returns those queued.
func (q *inbox) close() []control {
	q.mu.Lock()
	left := q.items
	q.items, q.jobs, q.closed = nil, 0, true
	q.mu.Unlock()
	q.wake()
	return left
}

func (q *inbox) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs
}

func (q *inbox) wake() {
	select {
	case q.ready <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// loop is one incarnation of a model's step loop. Everything in it is owned by
// its goroutine.
type loop struct {
	unit        *Unit
	incarnation uint64
	stepper     Stepper
	// live are the jobs that were submitted and have not finished, each with its ticket
	// until that was answered.
	live  map[*engine.Job]Ticket
	batch []control // reused by drain
	next  int       // first of batch that was not handled
	done  chan struct{}
}

// run steps until the unit is closed ("") or something panics (the reason).
func (l *loop) run() (reason string) {
	defer func() {
		if r := recover(); r != nil {
			reason = fmt.Sprintf("%v\n%s", r, debug.Stack())
			l.fail()
		}
	}()
	s, err := l.unit.make()
	if err != nil {
		l.fail()
		return "make stepper: " + err.Error()
	}
	l.stepper = s
	for {
		if closed := l.drain(); closed {
			l.end(errDown(l.unit.cfg.Model))
			return ""
		}
		l.unit.steps.Add(1)
		if !s.Step(time.Now()) {
			l.park()
		}
	}
}

// drain handles what the inbox holds.
func (l *loop) drain() (closed bool) {
	l.batch, closed = l.unit.inbox.drain(l.batch[:0])
	for l.next = 0; l.next < len(l.batch); {
		c := l.batch[l.next]
		l.batch[l.next] = control{}
		l.next++
		l.handle(c)
	}
	return closed
}

func (l *loop) handle(c control) {
	switch {
	case c.ticket != nil:
		l.submit(c.ticket)
	case c.release != nil:
		if c.release.Incarnation == l.incarnation {
			l.stepper.Release(c.release.Handle)
		}
	case c.abort != nil:
		l.stepper.Abort(c.abort)
	case c.visit != nil:
		c.visit.Do(l.stepper)
	}
}

// submit gives a job to the stepper and keeps track of it until it finishes.
func (l *loop) submit(t Ticket) {
	if t.Gone() {
		t.Refused(&abi.Error{Kind: abi.Canceled, Op: "batcher.submit", Msg: "the request was given up"})
		return
	}
	j := t.Job()
	l.track(j, t)
	l.stepper.Submit(j, time.Now(), func(err *abi.Error) { l.answer(j, err) })
}

// answer answers a job's ticket, once.
func (l *loop) answer(j *engine.Job, err *abi.Error) {
	t := l.live[j]
	switch {
	case t == nil: // it was answered, or given up
	case err != nil:
		l.untrack(j)
		t.Refused(err)
	default:
		l.live[j] = nil
		t.Accepted(l.incarnation)
	}
}

// track makes Finished run exactly once, whoever ends the job.
func (l *loop) track(j *engine.Job, t Ticket) {
	l.live[j] = t
	l.unit.live.Add(1)
	finished := j.Finished
	j.Finished = func(r engine.Result) {
		if l.untrack(j) {
			finished(r)
		}
	}
}

func (l *loop) untrack(j *engine.Job) bool {
	_, ok := l.live[j]
	if ok {
		delete(l.live, j)
		l.unit.live.Add(-1)
	}
	return ok
}

// park waits until there is something to do: a message, the stepper's deadline,
// or, while jobs live that cannot run, the next poll of their readers.
func (l *loop) park() {
	deadline, ok := l.stepper.NextDeadline()
	if every := l.unit.cfg.PollEvery; every > 0 && len(l.live) > 0 {
		if poll := time.Now().Add(every); !ok || poll.Before(deadline) {
			deadline, ok = poll, true
		}
	}
	if !ok {
		<-l.unit.inbox.ready
		return
	}
	d := time.Until(deadline)
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.unit.inbox.ready:
	case <-t.C:
	}
}

// end closes the stepper in good order.
func (l *loop) end(why *abi.Error) {
	l.stepper.Abort(why)
	l.abandon(why)
	l.stepper.Close()
}

// answered is a stepper whose jobs servers elsewhere answer. Fail ends them after a panic: one may have its answer by then, with its
// last event, and must not end with an error.
type answered interface{ Fail(err *abi.Error) }

// fail ends every job after a panic: with one error event, unless the stepper had
// finished it or pushed its last event, and with Finished. What was drained but not submitted is refused; what the inbox
// holds waits for the next loop.
func (l *loop) fail() {
	err := errCrashed()
	for _, c := range l.batch[min(l.next, len(l.batch)):] {
		c.lost(unavailable(err))
	}
	if s, ok := l.stepper.(answered); ok {
		try(func() { s.Fail(err) })
	}
	l.abandon(err)
	if l.stepper != nil {
		try(l.stepper.Close)
	}
}

// try calls a stepper that panicked and may do so again: its memory is garbage.
func try(f func()) {
	defer func() { _ = recover() }()
	f()
}

// abandon ends the jobs that the stepper did not. One that has its last event gets no other: it ends as that says.
func (l *loop) abandon(err *abi.Error) {
	for j, t := range l.live {
		if t != nil {
			l.answer(j, err)
			continue
		}
		last, ended := j.Output.Last()
		if !ended {
			last = abi.Event{Kind: abi.EventError, Err: err}
			j.Output.Push(last)
		}
		j.Finished(resultOf(j, last))
	}
}

// resultOf is that of a job with its last event, of which its stepper did not tell how it ended.
func resultOf(j *engine.Job, last abi.Event) engine.Result {
	if last.Kind == abi.EventEnd {
		return engine.Result{Usage: last.Usage, Stop: last.Stop}
	}
	u := j.Observed()
	if u.InputUncached == 0 && u.Output == 0 {
		u = abi.Usage{} // it was still queued: a cache hit alone costs nothing
	}
	return engine.Result{Usage: u, Err: last.Err}
}
