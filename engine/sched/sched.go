// Package sched decides what each step of the engine computes: continuous
// batching over kv's pages. It is pure: time is an argument, nothing waits.
//
// A sequence waits in its account's queue, runs, and is done. While it runs it
// has one of SequencesMax slots, and each step computes its next token or a
// piece of its prefill. A preempted or paused sequence loses slot and pages.
// Later it computes its tokens again, with what the prefix cache still has.
//
// A step is planned in this order:
//
//   - Decode: each running sequence with one token to compute gets it.
//   - Admission: the highest priority goes first, but a level is worth only
//     PriorityWait, so that none starves. Within a priority the account goes
//     first that was served least, and within an account the sequence that
//     arrived first. Service is counted in tokens, and the counter of an account
//     that comes back is raised to those that wait (virtual token counters). The
//     first in line is never passed over for one that would fit better, so large
//     prompts do not starve.
//   - Prefill: as many rows as can be computed in time, in pieces. Accounts go
//     by service again, but in quanta, so that they do not alternate with every
//     piece. Within an account prefills are computed one after the other.
//   - Drafts: decodes get rows for drafted tokens where that promises more
//     tokens per second (draft.go).
//
// While one step is on its way, PlanFollowing plans the one behind it if all that run decode.
//
// Time is predicted by a cost model that learns from every step (Measured).
// Beside decodes a step lasts as long as GapMax and GapStretchMax allow, or
// what the smallest piece takes. Where nothing decodes, the first prefill gets
// up to four times GapMax, and others share its step within GapMax. Those that
// began together take steps of that length until each has a token. A sequence
// is admitted while the decodes then leave room for a piece within the gap. A
// step may also be a quarter longer than that of one sequence with a piece. So
// under overload requests wait, and the running ones keep their pace.
//
// A sequence whose expected wait is longer than QueueTimeout is refused at
// once, and told when there will be room.
//
// Pieces end at absolute multiples of 64 (of 16 for models without recurrent
// state), at the end of the tokens, or at the place of a snapshot, a page
// multiple. No piece of the next prompt begins while one has rows left that
// found no room.
//
// When pages run out, they are taken in this order: cached pages, session pins
// (both in kv), the hits of waiting sequences (latest arrival first), and last
// a running sequence, which is preempted. That is the latest arrival of the
// account that runs most sequences, or the latest of all where no account runs
// two. So the sequence that arrived first is preempted only if it is alone. Add
// has made sure that alone it fits. So it always makes progress, and then the
// next one does.
//
// The account that was served least in the first priority waits at most
// FairWait for a slot and pages if nothing of it runs and others run two or
// more: the latest of those are preempted for it. Where only the steps' time is
// lacking, it waits until a sequence ends, or for ten times FairWait. From then
// on all this holds for any account of that priority. Priorities order only what
// waits: nothing is preempted for its low priority.
//
// A Scheduler and its pool are not safe for concurrent use: the step loop owns
// both.
package sched

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"corenode/engine/cost"
	"corenode/engine/kv"
	"corenode/engine/priority"
)

// TooLargeError says that a sequence could not run even if it were alone.
type TooLargeError struct {
	Tokens    int // prompt and the most it may generate
	TokensMax int // what the page pool holds
}

// Error gives both numbers.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("sched: sequence of up to %d tokens, the page pool holds %d", e.Tokens, e.TokensMax)
}

// Align is what pieces of a prefill end at multiples of: the chunk of the
// recurrence's parallel form. Models without recurrent state do with less.
const Align = 64

// Config is fixed for the life of a Scheduler.
type Config struct {
	// StepTokensMax is the most rows of one step, at least SequencesMax + Align
	// so that decodes always leave room for a piece of prefill.
	StepTokensMax int
	// SequencesMax is the number of slots, at least 1.
	SequencesMax int
	// ChunkTokens is the most prefill rows of a step in which something
	// decodes, a multiple of Align; 0 is no bound but GapMax.
	ChunkTokens int
	// GapMax is the longest that a decoding sequence should wait for its next token. By the
	// learned cost of steps it bounds the prefill rows of a step and the number of running
	// sequences: see gap, affordable and newRoom. 0 is no bound.
	GapMax time.Duration
	// GapStretchMax bounds the gap of a sequence among others, in gaps of a sequence that runs
	// alone. Both are the gap that one in a hundred exceeds. It applies within GapMax, and once
	// sequences ran alone. 0 is no bound.
	GapStretchMax int
	// QueueMax is the most sequences that wait for their first slot, at least 1.
	QueueMax int
	// QueueTokensMax is the most prompt tokens of those; a single sequence may
	// have more when no other waits. 0 is no bound.
	QueueTokensMax int64
	// QueueTimeout is how long a sequence may wait for its first slot; 0 is no bound.
	QueueTimeout time.Duration
	// FairWait is how long the account that was served least waits while nothing of it runs.
	// Then it takes a slot or pages from an account that runs several. After ten times as long
	// this holds for any account, and where only time for it is lacking in the steps.
	FairWait time.Duration
	// PriorityWait is what one level of priority is worth in waiting. A priority that has
	// waited n times this long goes before one that is n levels higher. 0 is priority.Wait.
	PriorityWait time.Duration
	// DecodeSnapshotTokens is the distance at which decoding moves a snapshot of its state
	// along, so that the next turn can go on from the end of this one. It is a multiple of the
	// page size, 0 for none. Each move copies one state.
	DecodeSnapshotTokens int
	// Draft computes drafted tokens of sequences where that pays, by what Measured has learned.
	Draft bool
}

// Validate names every field that is out of bounds for a page size.
func (c Config) Validate(pageTokens int) error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.SequencesMax >= 1, "sequences max is %d, want at least 1", c.SequencesMax)
	bad(c.StepTokensMax >= c.SequencesMax+Align, "step tokens max is %d, want at least sequences max + %d = %d",
		c.StepTokensMax, Align, c.SequencesMax+Align)
	bad(c.ChunkTokens >= 0 && c.ChunkTokens%Align == 0, "chunk tokens is %d, want a multiple of %d", c.ChunkTokens, Align)
	bad(c.GapMax >= 0, "gap max is %v, want at least 0", c.GapMax)
	bad(c.GapStretchMax >= 0, "gap stretch max is %d, want at least 0", c.GapStretchMax)
	bad(c.QueueMax >= 1, "queue max is %d, want at least 1", c.QueueMax)
	bad(c.QueueTokensMax >= 0, "queue tokens max is %d, want at least 0", c.QueueTokensMax)
	bad(c.QueueTimeout >= 0, "queue timeout is %v, want at least 0", c.QueueTimeout)
	bad(c.FairWait >= 0, "fair wait is %v, want at least 0", c.FairWait)
	bad(c.PriorityWait >= 0, "priority wait is %v, want at least 0", c.PriorityWait)
	bad(c.DecodeSnapshotTokens >= 0 && c.DecodeSnapshotTokens%pageTokens == 0,
		"decode snapshot tokens is %d, want a multiple of the page size %d", c.DecodeSnapshotTokens, pageTokens)
	return errors.Join(errs...)
}

// Scheduler holds every sequence between Add and Finish.
type Scheduler struct {
	config Config
	pool   *kv.Pool
	hybrid bool

	arrivals uint64
	starts   uint64
	running  []*Sequence // by arrival
	waiting  int         // in queues: fresh, preempted and resumed
	paused   int

	fresh       list[Sequence] // bounded by QueueMax and QueueTokensMax
	freshTokens int64
	hits        list[Sequence]
	hitPages    int // in the tables of hits, shared ones counted for each

	accounts map[string]*account // those with sequences, and idle ones
	classes  []*class            // highest priority first
	idle     list[account]       // at most idleAccountsMax
	virtual  int64               // counter of the account admitted last, never falling

	queued   work // of all that wait
	forecast forecast

	opening opening
	align   int // Align, or less without recurrent state
	cost    cost.Model
	jitter  jitter
	last    lastStep
	context int // mean tokens of the sequences that ran last

	plan      Plan
	planned   time.Time   // when plan was made
	following Plan        // made by PlanFollowing, in turn with plan
	open      []*Plan     // have items and are not committed: at most two
	parted    []*kv.Table // of sequences that left while a plan with them is open
	rows      int         // of plan
	reserved  int         // pages that running sequences still need for the tokens they have
	planning  []*Sequence // scratch of planDecodes and planPrefills
	closing   []*kv.Table
	after     []kv.StateOp
	choices   []draftChoice
	assumed   func(rows int) float64 // see AssumeSteps
	count     Stats
	checks    checks
}

// New returns an empty scheduler that is the pool's only user besides the
// caller's Unpin and reads.
func New(c Config, pool *kv.Pool) (*Scheduler, error) {
	if err := c.Validate(pool.Config().PageTokens); err != nil {
		return nil, fmt.Errorf("sched: %w", err)
	}
	c.PriorityWait = cmp.Or(c.PriorityWait, priority.Wait)
	align := Align
	if !pool.Hybrid() {
		align = alignPlain
	}
	return &Scheduler{
		config: c, pool: pool, hybrid: pool.Hybrid(),
		fresh: sequenceList(inFresh), hits: sequenceList(inHits),
		accounts: make(map[string]*account),
		idle:     idleList(), align: align,
	}, nil
}

// Add puts a new sequence into the queue and keeps its longest cached prefix from eviction. It
// returns the length of that prefix: Cached is final. It refuses with a *RefusedError or a
// *TooLargeError, and keeps nothing of the sequence then.
func (s *Scheduler) Add(q *Sequence, now time.Time) (cached int, err error) {
	defer s.check()
	if q.phase != phaseNew || len(q.Tokens) == 0 || q.Max < 1 {
		panic(fmt.Sprintf("sched: Add of a sequence in phase %d with %d tokens and max %d", q.phase, len(q.Tokens), q.Max))
	}
	// The last token it may generate is never computed.
	if need := len(q.Tokens) + q.Max - 1; s.pool.PagesFor(need) > s.pool.Config().Pages {
		s.count.RefusedTooLarge++
		return 0, &TooLargeError{Tokens: need + 1, TokensMax: s.pool.Config().Pages*s.pool.Config().PageTokens + 1}
	}
	if refused := s.full(len(q.Tokens)); refused != nil {
		s.count.RefusedQueueFull++
		return 0, refused
	}
	q.fresh, q.Prompt = true, len(q.Tokens)
	var branch int
	q.Cached, branch = s.match(q, q.Tokens)
	q.Branch = branch
	expected, refused := s.late(q)
	if refused != nil {
		s.pool.Close(&q.table)
		s.count.RefusedWait++
		return 0, refused
	}
	s.arrivals++
	q.order, q.Arrived, q.expected = s.arrivals, now, expected
	q.account = s.join(q.Account)
	q.Peak = q.Cached
	if s.hybrid {
		q.setCuts(s.pool.Config().PageTokens, branch)
	}
	if q.Cached > 0 {
		s.hits.pushBack(q)
		s.hitPages += len(q.table.Pages)
	}
	s.fresh.pushBack(q)
	s.freshTokens += int64(q.Prompt)
	s.enqueue(q, now)
	return q.Cached, nil
}

// match opens the table of a sequence with what the prefix cache has of tokens.
func (s *Scheduler) match(q *Sequence, tokens []int32) (cached, branch int) {
	cached, branch = s.pool.Open(&q.table, q.Namespace, tokens)
	if q.Unpaid {
		s.pool.Disown(&q.table)
	}
	return cached, branch
}

// Pay says that an Unpaid sequence is paid for, with all that it computed.
func (s *Scheduler) Pay(q *Sequence) {
	defer s.check()
	q.Unpaid = false
	s.pool.Pay(&q.table)
}

// Append adds the token that was sampled from the last kept row of a sequence. It follows the
// Commit of every item with Logits, unless Finish does.
func (s *Scheduler) Append(q *Sequence, token int32) {
	defer s.check()
	if q.phase == phaseNew || q.phase == phaseDone || len(q.Tokens) >= q.Prompt+q.Max {
		panic(fmt.Sprintf("sched: Append in phase %d to %d tokens of at most %d", q.phase, len(q.Tokens), q.Prompt+q.Max))
	}
	q.Tokens = append(q.Tokens, token)
	q.Draft = nil
}

// Finish ends a sequence in any phase, completed or canceled, also between Plan and Commit.
// Slot, state and pages are given back, of a planned sequence when no plan is open any more; full
// computed pages stay cached. With pinBytes > 0 its
// path is pinned for a session; pinBytes bounds what the whole namespace pins (kv.Pool.Pin).
// The zero Handle says that nothing was pinned, as nothing of an Unpaid one is. A second call does nothing.
func (s *Scheduler) Finish(q *Sequence, now time.Time, pinBytes int64) kv.Handle {
	defer s.check()
	if q.phase == phaseNew || q.phase == phaseDone {
		return kv.Handle{}
	}
	if !q.Started.IsZero() {
		s.forecast.ended(q)
	}
	var h kv.Handle
	if pinBytes > 0 && q.table.IsOpen() {
		h = s.pool.Pin(&q.table, q.cuts, pinBytes)
	}
	s.stop(q, now)
	q.phase = phaseDone
	s.leave(q.account)
	return h
}

// Pause takes slot and pages from a sequence whose reader is slow. It neither runs nor waits
// nor expires until Resume.
func (s *Scheduler) Pause(q *Sequence, now time.Time) {
	defer s.check()
	if q.phase != phaseWaiting && q.phase != phaseRunning {
		return
	}
	s.stop(q, now)
	q.phase = phasePaused
	s.paused++
}

// Resume puts a paused sequence back into its account's queue, at the place of its arrival. It
// does not count against the bounds of the queue.
func (s *Scheduler) Resume(q *Sequence, now time.Time) {
	defer s.check()
	if q.phase != phasePaused {
		return
	}
	s.paused--
	s.enqueue(q, now)
}

// stop takes a sequence out of wherever it is and gives back its memory.
func (s *Scheduler) stop(q *Sequence, now time.Time) {
	switch q.phase {
	case phaseWaiting:
		s.dequeue(q, now)
	case phasePaused:
		s.paused--
	case phaseRunning:
		at := slices.Index(s.running, q)
		s.running = slices.Delete(s.running, at, at+1)
		q.account.running--
		s.placeSlotless(q.account, now)
	}
	if q.planned > 0 { // the step may be on its way, and write to its pages
		t := new(kv.Table)
		s.pool.Move(t, &q.table)
		s.parted = append(s.parted, t)
	}
	s.pool.Close(&q.table)
	q.fresh, q.planned, q.rematch = false, 0, true
	q.computed, q.rolling = 0, 0
}

// Stats is the present state of a Scheduler, and what it has done since New.
type Stats struct {
	Running  int
	Waiting  int // for a slot, preempted and resumed ones included
	Paused   int
	Accounts int // remembered, idle ones included
	Drafting int // in the latest step: sequences with a draft

	StepMeasured  time.Duration // of the last step
	StepPredicted time.Duration // what was expected of it
	Gap           time.Duration // what a step in which something decodes may take, as planned
	PrefillBudget int           // rows of prefill that fit beside what decodes now
	BatchMax      int           // sequences like those that run that would be admitted
	SequencesMax  int           // as configured
	QueueWait     time.Duration // what the work that waits will take

	Counters
}

// Counters are the numbers that only rise.
type Counters struct {
	PrefillTokens    int64 // rows committed that were part of a prefill
	RecomputedTokens int64 // of them, those computed before: the price of preemption
	DecodeTokens     int64 // those produced, not those drafted
	DraftedTokens    int64 // computed and committed, kept or not
	AcceptedTokens   int64 // of them, those that were kept
	Preempted        int64 // for pages
	PreemptedFair    int64 // for the slot or pages of an account without any
	HitsDropped      int64 // hits of waiting sequences given up for pages
	Expired          int64
	RefusedQueueFull int64 // for a bound of the queue's size
	RefusedWait      int64 // for the time it would wait
	RefusedTooLarge  int64
}

// Stats returns the numbers; of sequences it looks at those that run.
func (s *Scheduler) Stats() Stats {
	c := s.StatsSince(Stats{})
	c.BatchMax = s.batchMax(s.one())
	if s.config.GapMax > 0 {
		c.Gap, c.PrefillBudget = s.gap(), s.prefillBudget()
	}
	return c
}

// StatsSince is Stats with what the running sequences allow as it was: predicting it takes as
// long as a step of a small model.
func (s *Scheduler) StatsSince(last Stats) Stats {
	c := s.count
	c.Running, c.Waiting, c.Paused = len(s.running), s.waiting, s.paused
	c.Accounts, c.SequencesMax = len(s.accounts), s.config.SequencesMax
	c.QueueWait, c.BatchMax, c.Gap, c.PrefillBudget = s.QueueWait(), last.BatchMax, last.Gap, last.PrefillBudget
	return c
}
