package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/engine/draft"
	"corenode/engine/grammar"
	"corenode/engine/kernel"
	"corenode/engine/kv"
	"corenode/engine/output"
	"corenode/engine/sample"
	"corenode/engine/sched"
	"corenode/engine/tokenizer"
	"corenode/engine/trail"
	"corenode/wasm/abi"
)

// Observer is told what the step loop measures. Its methods must not block.
type Observer interface {
	// Gap is the time between two consecutive tokens of one sequence, as its reader
	// sees it: of several tokens that one step gave, the first has the time since
	// the step before, the others have none.
	Gap(time.Duration)
	// Step is one forward pass with the sampling after it: prefill and decode rows,
	// drafted ones among the latter, and how long it took.
	Step(prefill, decode int, took time.Duration)
}

type noObserver struct{}

func (noObserver) Gap(time.Duration)            {}
func (noObserver) Step(int, int, time.Duration) {}

const (
	// decodeSnapshotTokens is how far apart a hybrid model's decode moves its
	// snapshot along: the most tokens of an answer that a next turn computes again.
	decodeSnapshotTokens = 64
	// fairWait is how long an account with nothing running waits before others make room for it.
	fairWait = 250 * time.Millisecond
	// statsEvery is how often the step loop publishes its gauges.
	statsEvery = 50 * time.Millisecond
)

// run is one job between Submit and its end. Owned by the step loop.
type run struct {
	job     *Job
	seq     sched.Sequence
	sampler *sample.Sampler
	matcher *grammar.Matcher // nil for a free answer, and until the first token is wanted
	decoder *tokenizer.Decoder
	parser  *output.Parser
	drafter drafter // nil without drafts
	// layerDrafter drafts with the model's own layer: nil without one, or without
	// drafts. fromLayer says that the draft is the layer's.
	layerDrafter *draft.LayerDrafter
	fromLayer    bool
	trail        *trail.Trail // nil where none is kept
	events       []abi.Event  // scratch of one step's events
	sampled      []int32      // in one step
	outcome      outcome      // after them

	produced   int
	thoughtEnd int       // how many of the tokens that end a thought there are
	first      time.Time // of the first token, zero before it
	last       time.Time // of the latest token
	stalled    time.Time // since when the reader is behind, zero while it keeps up
	paused     bool
}

// runOf is the run that a sequence is of, nil once that has ended.
func runOf(q *sched.Sequence) *run {
	r, _ := q.Owner.(*run)
	return r
}

// Stepper is the single owner of one model's KV memory, prefix cache and
// scheduler. One goroutine calls it: the step loop.
type Stepper struct {
	engine *Engine
	cache  kernel.Cache
	pool   *kv.Pool
	sched  *sched.Scheduler
	order  []*run // by arrival: what a step does is a function of its inputs
	mask   []int32
	stops  []int32
	held   heldGrammars

	launching
	published time.Time
	touched   int // rows since the model file's pages were given back

	layer        layerDrafting
	lookupDrafts Drafts
	layerDrafts  Drafts
	drafts       bool
	loaded       uint64 // which stepper of the engine this is
}

// NewStepper takes memory for a step loop. The engine must outlive it. Where a device failed under the
// last one, it is opened and gets its weights again first.
func (e *Engine) NewStepper() (*Stepper, error) {
	if err := e.revive(); err != nil {
		return nil, err
	}
	o := e.options
	pool, err := kv.New(e.memory.poolConfig(o, newSeed()))
	if err != nil {
		return nil, err
	}
	s := &Stepper{
		engine: e, pool: pool, loaded: e.loads.Add(1),
		mask: e.unreachable(), stops: e.tokenizer.Stops(),
		drafts: o.Draft && o.Kind != Instant, held: heldGrammars{max: heldMax, uses: map[*grammar.Grammar]int{}},
	}
	config := sched.Config{
		StepTokensMax: o.Batch.StepTokensMax, SequencesMax: o.Batch.SequencesMax, ChunkTokens: o.Batch.ChunkTokens,
		GapMax: o.Batch.GapMax, GapStretchMax: o.Batch.GapStretchMax,
		QueueMax: o.Batch.QueueMax, QueueTokensMax: o.Batch.QueueTokensMax, QueueTimeout: o.Batch.QueueTimeout,
		FairWait: fairWait, DecodeSnapshotTokens: decodeSnapshotTokens,
		Draft: s.drafts,
	}
	if s.sched, err = sched.New(config, pool); err != nil {
		return nil, err
	}
	if s.cache, err = e.newCache(e.memory); err != nil {
		return nil, err
	}
	if s.program, s.device, err = e.newProgram(); err != nil && s.cache != nil {
		s.cache.Close()
	}
	return s, err
}

// unreachable are the ids that no text has, ascending: padding of the vocabulary,
// and rows of the model behind it.
func (e *Engine) unreachable() []int32 {
	ids := e.tokenizer.Unreachable()
	for id := e.tokenizer.Size(); id < e.vocab; id++ {
		ids = append(ids, int32(id))
	}
	return ids
}

// Submit takes a job: the cached prefix is matched and kept, EventStart is
// pushed with the final input counts, and Finished will be called. Whether it
// is taken it says before it returns. After an error, of kind Overloaded,
// nothing is kept and Finished is not called.
func (s *Stepper) Submit(j *Job, now time.Time, taken func(*abi.Error)) {
	if err := s.submit(j, now); err != nil {
		taken(abi.AsError(err))
		return
	}
	taken(nil)
}

func (s *Stepper) submit(j *Job, now time.Time) error {
	q := j.Request
	r := &run{
		job: j, sampler: sample.New(q.Sampling, s.masked(q.Hidden), q.Distinct),
		decoder: s.engine.tokenizer.NewDecoder(q.Parse.Begun), parser: output.New(q.Parse),
		seq: sched.Sequence{
			Namespace: namespace(j.Account, q.Model), Account: j.Account, Priority: j.Priority,
			Tokens: append(make([]int32, 0, len(q.Prompt)+min(q.MaxTokens, 1024)), q.Prompt...),
			Max:    q.MaxTokens, SnapshotAt: q.Snapshots, Unpaid: j.Forwarded,
		},
	}
	grammars := q.grammars()
	if s.held.over(grammars) {
		if refused := s.sched.RefuseMemory(); refused != nil {
			return refusal(refused)
		}
	}
	if s.drafts {
		r.drafter = draft.New(s.stops)
		if s.predictionLayer() != nil {
			r.layerDrafter = s.layer.layer.NewDrafter(s.stops)
		}
	}
	cached, err := s.sched.Add(&r.seq, now)
	if err != nil {
		return refusal(err)
	}
	s.held.add(grammars)
	r.trail = s.follow(j, &r.seq, now)
	r.seq.Owner = r
	s.order = append(s.order, r)
	j.cached.Store(int64(cached))
	j.Output.Push(abi.Event{Kind: abi.EventStart, Usage: abi.Usage{
		InputUncached: int64(len(q.Prompt) - cached), CacheRead: int64(cached)}})
	return nil
}

// masked are the ids that an answer never has: those that none has, and its own.
func (s *Stepper) masked(hidden []int32) []int32 {
	if len(hidden) == 0 {
		return s.mask
	}
	all := slices.Concat(s.mask, hidden)
	slices.Sort(all)
	return all
}

func refusal(err error) *abi.Error {
	if large, ok := errors.AsType[*sched.TooLargeError](err); ok {
		return &abi.Error{Kind: abi.InvalidRequest, Op: "engine.Submit", Param: "max_tokens", Err: err,
			Detail: abi.Detail{Reason: abi.ReasonMemory, Value: int64(large.Tokens), Bound: int64(large.TokensMax)}}
	}
	refused, ok := errors.AsType[*sched.RefusedError](err)
	if !ok {
		panic(fmt.Sprintf("engine: the scheduler refuses with %v", err))
	}
	msg := "the model's queue is full; try again"
	if refused.Reason == sched.RefusedWait {
		msg = "the model's queue is too long for this request to start in time; try again"
	}
	return &abi.Error{Kind: abi.Overloaded, Op: "engine.Submit", RetryAfter: refused.RetryAfter, Msg: msg, Err: err}
}

// Step computes one forward pass and delivers its tokens; how long that takes
// from now on teaches the scheduler what the next ones cost. It returns false
// when nothing can run now. A panic leaves the stepper unusable.
func (s *Stepper) Step(now time.Time) bool {
	s.pool.Advance(now.Unix())
	s.sweep(now)
	if len(s.open) == 0 && !s.launchNext(now) {
		return false
	}
	s.launchFollowing()
	s.publish(now, false)
	s.collect()
	return true
}

// launchNext plans a step and launches it. It returns false if there is nothing to compute.
func (s *Stepper) launchNext(now time.Time) bool {
	plan := s.sched.Plan(now)
	for _, q := range plan.Expired {
		s.end(runOf(q), &abi.Error{Kind: abi.Overloaded, Op: "engine.Step", RetryAfter: s.sched.RetryAfter(),
			Msg: fmt.Sprintf("the request waited longer than %v in the queue; try again", s.engine.options.Batch.QueueTimeout)}, now)
	}
	s.owe(plan.Before)
	if len(plan.Items) == 0 {
		s.publish(now, len(s.order) == 0)
		return false
	}
	s.launch(plan, now)
	return true
}

// collect waits for the first step on its way, and takes what it gave to the sequences, the
// scheduler and the readers.
func (s *Stepper) collect() {
	l := s.await()
	plan := l.plan
	s.sample(l)
	s.remember(l)
	l.drop()
	s.owe(s.sched.Commit(plan))
	done := time.Now()
	s.touch(plan.Rows)
	prefill, decode := s.account(plan)
	s.engine.options.Observer.Step(prefill, decode, done.Sub(l.begun))
	s.deliver(plan, done)
	spent := s.draftByLayer(plan) // on what the next step may save: no part of this one's load
	now := time.Now()
	s.sched.Measured(now.Sub(l.begun) - spent)
	if len(s.open) > 0 {
		s.open[0].begun = now
	}
}

// touchedMax is how many rows may touch a model file until its pages are given back.
// A row of embeddings brings 64 KiB around it into memory.
const touchedMax = 4096

func (s *Stepper) touch(rows int) {
	if s.touched += rows; s.touched >= touchedMax {
		s.touched = 0
		s.engine.file.ReleasePages()
	}
}

// sweep ends canceled jobs and handles readers that are behind: their
// sequences first skip steps, then lose their pages, then end.
func (s *Stepper) sweep(now time.Time) {
	o := s.engine.options.Batch
	for i := 0; i < len(s.order); i++ {
		r := s.order[i]
		switch {
		case r.job.Canceled():
			s.end(r, &abi.Error{Kind: abi.Canceled, Op: "engine.Step", Msg: "the request was cancelled"}, now)
			i--
		case r.job.Output.Room():
			r.stalled, r.seq.Stalled = time.Time{}, false
			if r.paused {
				r.paused = false
				s.sched.Resume(&r.seq, now)
			}
		case r.stalled.IsZero():
			r.stalled, r.seq.Stalled = now, true
		case now.Sub(r.stalled) >= o.CancelAfter:
			s.end(r, &abi.Error{Kind: abi.Canceled, Op: "engine.Step", Msg: "the client did not read its answer"}, now)
			i--
		case !r.paused && (now.Sub(r.stalled) >= o.PauseAfter || r.preempted()):
			r.paused = true
			s.sched.Pause(&r.seq, now)
		}
	}
}

// preempted says whether a job has lost its slot: it has to wait for one again, and
// while its reader is behind it would only keep one.
func (r *run) preempted() bool { return !r.seq.Started.IsZero() && !r.seq.Running() }

// account updates what jobs have observed and counts the step's rows.
func (s *Stepper) account(plan *sched.Plan) (prefill, decode int) {
	for _, it := range plan.Items {
		decode += len(it.Draft)
		rows := it.Len - len(it.Draft)
		if it.Start >= it.Seq.Prompt && rows == 1 {
			decode++
			continue
		}
		prefill += rows
		if r := runOf(it.Seq); r != nil {
			r.job.input.Store(computedInput(&r.seq))
			r.job.Began(r.seq.Started)
		}
	}
	return prefill, decode
}

// computedInput is the prompt tokens computed for a sequence so far, those
// that a preemption made it compute again counted once.
func computedInput(q *sched.Sequence) int64 {
	return int64(max(0, min(q.Peak, q.Prompt)-q.Cached))
}

// deliver pushes the events of the step's tokens.
func (s *Stepper) deliver(plan *sched.Plan, now time.Time) {
	for _, it := range plan.Items {
		if r := runOf(it.Seq); r != nil && it.Logits {
			s.advance(r, now)
		}
	}
}

// advance takes what a step gave a sequence to its reader.
func (s *Stepper) advance(r *run, now time.Time) {
	for range r.sampled {
		if r.first.IsZero() {
			r.first = now
			r.job.Answered(now)
			if r.trail != nil {
				r.trail.Computed(now)
			}
		} else {
			s.engine.options.Observer.Gap(now.Sub(r.last))
		}
		r.last = now
	}
	if r.outcome != goesOn {
		s.complete(r, r.outcome == truncated, now)
		return
	}
	s.sched.Append(&r.seq, r.sampled[len(r.sampled)-1])
	r.draftNext()
	r.job.Output.Push(r.events...)
	for i := range r.events {
		if r.events[i].Kind == abi.EventDelta {
			s.delivered(r)
			break
		}
	}
}

// delivered tells that the reader was given all there is up to here: from then on another node pays for the job, too.
func (s *Stepper) delivered(r *run) {
	r.job.delivered.Store(int64(r.produced))
	if r.seq.Unpaid {
		s.sched.Pay(&r.seq)
	}
}

// complete ends an answer that the model or its budget ended.
func (s *Stepper) complete(r *run, truncated bool, now time.Time) {
	r.events = r.parser.Feed(r.events, r.decoder.Flush())
	r.events = r.parser.Finish(r.events, truncated)
	stop, sequence := r.parser.Stop()
	usage := r.usage()
	r.job.Output.Push(append(r.events, abi.Event{Kind: abi.EventEnd, Stop: stop, StopSequence: sequence, Usage: usage})...)
	s.delivered(r)
	s.leave(r, Result{Usage: usage, Stop: stop}, now)
}

// end ends a job that will not complete, telling its reader why.
func (s *Stepper) end(r *run, err *abi.Error, now time.Time) {
	r.job.Output.Push(abi.Event{Kind: abi.EventError, Err: err})
	s.leave(r, Result{Usage: r.observed(), Err: err}, now)
}

// leave takes a run out of the books and reports its result.
func (s *Stepper) leave(r *run, result Result, now time.Time) {
	var pin int64
	if r.job.Pin && !r.seq.Started.IsZero() {
		pin = s.engine.options.Cache.PinBytesMax
	}
	result.Computed = r.seq.Computed()
	result.Handle = s.sched.Finish(&r.seq, now, pin)
	r.seq.Owner = nil
	s.held.drop(r.job.Request.grammars())
	s.order = slices.DeleteFunc(s.order, func(o *run) bool { return o == r })
	result.Took(r.seq.Arrived, r.seq.Started, r.first, now)
	r.job.Finished(result)
}

// usage is that of a complete answer.
func (r *run) usage() abi.Usage {
	return abi.Usage{InputUncached: int64(r.seq.Prompt - r.seq.Cached), CacheRead: int64(r.seq.Cached),
		Output: int64(r.produced), Reasoning: int64(r.parser.Thoughts())}
}

// observed is the usage of a job that ends early: nothing in the queue, the
// input computed so far in prefill, all of it in decode.
func (r *run) observed() abi.Usage {
	switch {
	case r.seq.Started.IsZero():
		return abi.Usage{}
	case r.produced == 0:
		return abi.Usage{InputUncached: computedInput(&r.seq)}
	default:
		return r.usage()
	}
}

// NextDeadline says when Step must be called although nothing can run: a
// request's time in the queue may end, a slow reader's patience, or the time
// that an account has to wait for a place that another's readers do not use.
func (s *Stepper) NextDeadline() (at time.Time, ok bool) {
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if t, entitled := s.sched.NextEntitled(); entitled {
		sooner(t)
	}
	o := s.engine.options.Batch
	for _, r := range s.order {
		if r.seq.Started.IsZero() && o.QueueTimeout > 0 {
			sooner(r.seq.Arrived.Add(o.QueueTimeout))
		}
		if !r.stalled.IsZero() {
			if r.paused {
				sooner(r.stalled.Add(o.CancelAfter))
			} else {
				sooner(r.stalled.Add(o.PauseAfter))
			}
		}
	}
	return at, ok
}

// Release gives a session's pin back. A stale handle changes nothing.
func (s *Stepper) Release(h Handle) { s.pool.Unpin(h) }

// Abort ends every job with err.
func (s *Stepper) Abort(err *abi.Error) {
	now := time.Now()
	for len(s.order) > 0 {
		s.end(s.order[0], err, now)
	}
}

// Close gives the cache's memory back. Nobody waits for a job that is left, as after a panic.
func (s *Stepper) Close() {
	s.clearGauges() // first: what follows may panic after a panic
	s.program.Close()
	if s.cache != nil { // Instant has none
		s.cache.Close()
	}
}

// Stats are the gauges of one model's step loop.
type Stats struct {
	Pool         kv.Stats
	Scheduler    sched.Stats
	CacheBytes   int64  // memory taken for pages and states
	LookupDrafts Drafts // drafts from a sequence's own prompt and output
	LayerDrafts  Drafts // drafts of the model's prediction layer
}

// clearGauges makes the gauges those of a model without a step loop, for until there is another. It asks neither pool nor
// scheduler: they may have panicked.
func (s *Stepper) clearGauges() {
	if last := s.engine.stats.Load(); last != nil {
		s.engine.stats.Store(&Stats{Pool: kv.Stats{Counters: last.Pool.Counters}, Scheduler: sched.Stats{Counters: last.Scheduler.Counters},
			LookupDrafts: last.LookupDrafts, LayerDrafts: last.LayerDrafts})
	}
}

// publish makes the gauges readable for other goroutines, every now and then, and before the
// loop goes to sleep: then only those that cost nothing, unless it is time for all.
func (s *Stepper) publish(now time.Time, asleep bool) {
	due, last := now.Sub(s.published) >= statsEvery, s.engine.stats.Load()
	if !asleep && !due {
		return
	}
	st := &Stats{Pool: s.pool.Stats(), LookupDrafts: s.lookupDrafts, LayerDrafts: s.layerDrafts}
	if due || last == nil {
		st.Scheduler, s.published = s.sched.Stats(), now
	} else {
		st.Scheduler = s.sched.StatsSince(last.Scheduler)
	}
	if s.cache != nil {
		st.CacheBytes = s.cache.BytesUsed()
	}
	s.engine.stats.Store(st)
}
