package drive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"corenode/bench/client"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

// driver is one run.
type driver struct {
	o       Options
	encoder protocol.Encoder
	heads   [][]byte // of each key
	pool    *client.Pool
	begun   time.Time
	from    time.Duration // the window
	until   time.Duration // 0: not by time
	rec     *stats.Recorder
	scratch sync.Pool
	ended   func(*stats.Record) // may be nil

	next    atomic.Int64 // number of the next conversation
	counted atomic.Int64 // requests due in the window
	retried atomic.Int64
	played  bool // all of the trace: set by open
}

// Watch is told about a run while it goes on. Its functions are called from
// several goroutines at once.
type Watch struct {
	// Ended is given every record, in the order of their ends; not to be kept.
	Ended func(*stats.Record)
	// Progress is called about twice a second.
	Progress func(elapsed time.Duration, now stats.Live)
}

const progressEvery = 500 * time.Millisecond

// Run drives the server until the run is over and every reply has been read. A
// context that ends stops it at once; the numbers so far are returned, marked.
func Run(ctx context.Context, o Options, w Watch) (stats.Run, error) {
	if err := o.Validate(); err != nil {
		return stats.Run{}, err
	}
	encoder, err := o.Template.Encoder()
	if err != nil {
		return stats.Run{}, err
	}
	d := newDriver(o, encoder, w.Ended)
	defer d.pool.Close()
	stop := context.AfterFunc(ctx, d.pool.Close) // wakes whoever waits for a reply
	defer stop()
	before, err := proc.ReadClocks()
	known := err == nil
	d.begun = time.Now()
	var background sync.WaitGroup
	finished := make(chan struct{})
	if w.Progress != nil {
		background.Go(func() { d.report(finished, w.Progress) })
	}
	if o.Closed() {
		d.closed(ctx)
	} else {
		d.open(ctx)
	}
	close(finished)
	background.Wait()
	run := d.finish(ctx)
	after, err := proc.ReadClocks()
	run.Harness.CPUShare, run.Harness.BusyShare = -1, -1
	if passed := after.Since(before); known && err == nil && passed.Total > 0 {
		run.Harness.CPUSeconds = passed.Ours.Seconds()
		run.Harness.CPUShare, run.Harness.BusyShare = float64(passed.Ours)/float64(passed.Total), float64(passed.Busy)/float64(passed.Total)
	}
	return run, nil
}

// Collect makes a run and returns its records too, without their gaps. With
// strict, the first failure ends the run and is the error: numbers of a load
// that partly failed would mean nothing.
func Collect(ctx context.Context, o Options, strict bool) (run stats.Run, records []stats.Record, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex // guards records: Ended is called from several goroutines
	run, err = Run(ctx, o, Watch{Ended: func(rec *stats.Record) {
		mu.Lock()
		defer mu.Unlock()
		one := *rec
		one.Gaps = nil // borrowed
		records = append(records, one)
		if strict && rec.Kind != "" {
			cancel(fmt.Errorf("%s: %s", rec.Kind, rec.Detail))
		}
	}})
	return run, records, cmp.Or(err, context.Cause(ctx))
}

func newDriver(o Options, e protocol.Encoder, ended func(*stats.Record)) *driver {
	d := &driver{o: o, encoder: e, pool: client.NewPool(o.Target, o.Connection), ended: ended, from: o.Ramp + o.Warmup}
	d.o.Shape.Keys = len(o.Keys)
	if o.Duration > 0 {
		d.until = d.from + o.Duration
	}
	for _, key := range o.Keys {
		d.heads = append(d.heads, o.Target.Head(o.Template.Protocol.Path(), o.Template.Stream, o.Template.Protocol.Header(key)))
	}
	d.rec = stats.New(stats.Config{From: d.from, Until: d.until, Streamed: o.Template.Stream, Objectives: o.Objectives, Seed: o.Shape.Seed})
	d.scratch.New = func() any { return new(scratch) }
	return d
}

func (d *driver) now() time.Duration { return time.Since(d.begun) }

func (d *driver) report(finished chan struct{}, progress func(time.Duration, stats.Live)) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			progress(d.now(), d.rec.Progress())
		}
	}
}

func (d *driver) finish(ctx context.Context) stats.Run {
	switch {
	case ctx.Err() != nil:
		d.rec.Cut(d.now())
	case d.o.Count > 0 && d.counted.Load() >= int64(d.o.Count), d.played:
		d.rec.Cut(0)
	}
	run := d.rec.Finish()
	run.Seed, run.Started, run.Stopped = d.o.Shape.Seed, d.begun.UTC().Format(time.RFC3339), ctx.Err() != nil
	run.Harness.Connections, run.Harness.Retried = d.pool.Opened(), d.retried.Load()
	return run
}

// admit says whether a request that is due may be sent: not when the run is
// over, nor when all that were to be counted have been sent.
func (d *driver) admit(due time.Duration) bool {
	if d.until > 0 && due >= d.until {
		return false
	}
	return d.o.Count == 0 || due < d.from || d.counted.Add(1) <= int64(d.o.Count)
}

// pause waits; false when there is no more to wait for.
func (d *driver) pause(ctx context.Context, length time.Duration) bool {
	if length <= 0 {
		return ctx.Err() == nil
	}
	if d.until > 0 && d.now()+length >= d.until {
		return false // nothing is sent at the window's end any more
	}
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// closed runs the clients of a closed loop.
func (d *driver) closed(ctx context.Context) {
	var running sync.WaitGroup
	for i := range d.o.Clients {
		running.Go(func() {
			if d.pause(ctx, d.o.Ramp*time.Duration(i)/time.Duration(d.o.Clients)) {
				d.client(ctx)
			}
		})
	}
	running.Wait()
}

// client has one conversation after another.
func (d *driver) client(ctx context.Context) {
	for ctx.Err() == nil {
		due := d.now()
		if !d.admit(due) {
			return
		}
		wait, more := d.converse(ctx, int(d.next.Add(1)-1), due)
		if !more || wait > 0 && !d.pause(ctx, wait) {
			return
		}
	}
}

// open begins a conversation whenever one is due, in a goroutine of its own. It is
// admitted here, since its goroutine may start behind others that are due later.
func (d *driver) open(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	arrivals := d.arrivals()
	var active atomic.Int64
	for {
		due, ok := arrivals()
		d.played = !ok && len(d.o.Trace) > 0
		if !ok || d.until > 0 && due >= d.until || !d.pause(ctx, due-d.now()) {
			return
		}
		if !d.admit(due) {
			return
		}
		number := int(d.next.Add(1) - 1)
		if active.Load() >= int64(d.o.InFlightMax) {
			d.rec.NotSent(due)
			continue
		}
		active.Add(1)
		running.Go(func() {
			defer active.Add(-1)
			d.converse(ctx, number, due)
		})
	}
}

func (d *driver) arrivals() workload.Arrivals {
	switch {
	case len(d.o.Trace) > 0:
		return workload.Trace(d.o.Trace)
	case d.o.Constant:
		return workload.Constant(d.o.Rate, d.o.Ramp)
	default:
		return workload.Poisson(d.o.Rate, d.o.Ramp, workload.Random(d.o.Shape.Seed, workload.StreamArrivals, 0))
	}
}

// converse has one conversation, whose first turn is admitted, and due now or was before. It
// ends with its last turn, or with the first that fails. It returns how long a
// client should wait then, and whether there is anything more to send.
func (d *driver) converse(ctx context.Context, number int, due time.Duration) (wait time.Duration, more bool) {
	s := d.scratch.Get().(*scratch)
	defer d.scratch.Put(s)
	c := d.o.Shape.Conversation(number)
	var turns []protocol.Turn
	for turn := 1; ; turn++ {
		ask, ok := c.Next()
		if !ok {
			return 0, true
		}
		if ask.Think > 0 {
			if !d.pause(ctx, ask.Think) {
				return 0, false
			}
			due += ask.Think
		}
		if turn > 1 && !d.admit(due) {
			return 0, false
		}
		turns = append(turns, protocol.Turn{Role: "user", Text: ask.Prompt})
		rec := stats.Record{Conversation: number, Turn: turn, Key: c.Key, Intended: due, OutputMax: ask.OutputMax}
		if !d.turn(ctx, s, c, turns, &rec) {
			return 0, false
		}
		if rec.Kind != "" {
			return max(d.o.ErrorPause, min(rec.RetryAfter, d.o.RetryAfterMax)), true
		}
		turns = append(turns, protocol.Turn{Role: "assistant", Text: answer(s.reader.Text())})
		due = rec.End
	}
}

// answer is what an assistant said, fit to be sent back: servers refuse an empty
// text, and bytes that are not UTF-8.
func answer(text []byte) []byte {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("I see.")
	}
	return bytes.ToValidUTF8(bytes.Clone(text), []byte("?"))
}

// turn makes one exchange and records it; false when the harness cut it off.
func (d *driver) turn(ctx context.Context, s *scratch, c *workload.Conversation, turns []protocol.Turn, rec *stats.Record) bool {
	q := request{head: d.heads[c.Key], stream: d.o.Template.Stream, protocol: d.o.Template.Protocol, keepText: d.o.Shape.Turns > 1}
	if d.o.SessionHeader != "" {
		q.headers = d.o.SessionHeader + ": " + c.Session + "\r\n"
	}
	if q.body = d.o.Body; q.body == nil {
		s.body = d.encoder.Append(s.body[:0], rec.OutputMax, c.System, turns)
		q.body = s.body
	}
	rec.Sent = d.now()
	d.rec.Begin(rec.Sent)
	d.exchange(ctx, s, q, rec)
	if ctx.Err() != nil && rec.Kind != "" {
		d.rec.Abort(rec.End)
		return false
	}
	d.rec.Add(rec)
	if d.ended != nil {
		d.ended(rec)
	}
	return true
}
