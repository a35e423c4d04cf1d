package sched

import (
	"slices"
	"time"

	"corenode/engine/kv"
)

// Sequence is one token stream. The caller fills in the first group of fields
// and hands it to Add; from then to Finish the scheduler owns it, and the
// caller only reads. A Sequence is used once.
type Sequence struct {
	Namespace string // account and model: who may share pages with it
	Account   string // who is charged in the order of service
	// Priority is its class while it waits: higher goes first, 0 is the usual one.
	Priority int8
	// Tokens is the prompt, then what was generated. Append adds to it.
	Tokens []int32
	// Max is the most tokens it may generate, at least 1. Together with the
	// prompt it must fit the page pool.
	Max int
	// SnapshotAt are positions, ascending, after which a snapshot of the
	// recurrent state would be useful: the scheduler rounds them down to full
	// pages. Ignored for models without one.
	SnapshotAt []int
	// Stalled is set while nobody reads the sequence's tokens. It keeps its slot and pages
	// unless it is preempted, but its next token is not computed. The caller may change it
	// between Commit and Plan.
	Stalled bool
	// Unpaid says that nobody pays for what the sequence computes until Pay. Nobody has a hit on
	// that before, and where the sequence loses its pages, none of it stays cached that only
	// such sequences computed. After Add only Pay changes it.
	Unpaid bool
	// Draft are tokens that may follow Tokens. Chance is the probability that one of them is
	// right when those before it are. The caller may change both between Commit and Plan. They
	// are used when the sequence decodes next, and Append empties Draft. See Config.Draft.
	Draft  []int32
	Chance float64
	// Owner is what the caller knows the sequence by. The scheduler does not look at it.
	Owner any

	// Prompt is how many of Tokens are the prompt. Set by Add.
	Prompt int
	// Cached is how many prompt tokens the prefix cache had at Add: final.
	// Computing some of them again after a preemption does not change it.
	Cached int
	// Branch is what kv.Pool.Open said of it at Add.
	Branch int
	// Peak is how many tokens were computed or cached at the most, so the input
	// to pay for a canceled prefill is max(0, min(Peak, Prompt) - Cached).
	Peak int
	// Arrived and Started are the times of Add and of the Plan that gave it a
	// slot first; Started is zero before that. Their difference is the queue time.
	Arrived, Started time.Time

	phase    phase
	order    uint64        // of arrival; kept across preemptions
	fresh    bool          // never had a slot
	planned  int           // how many plans that are not committed have an item of it
	rematch  bool          // its hit was given up: look again at admission
	place    uint64        // of its last start among all starts
	computed int           // positions with KV, and where the state stands
	rolling  int           // position of the snapshot that decoding moves along, or 0
	due      work          // left when it began to wait, as its line counts it
	expected time.Duration // in the queue, when it arrived
	cuts     []int         // page multiples to take snapshots at, ascending
	table    kv.Table
	account  *account
	line     *line // where it waits, else nil
	links    [linkKinds]link[Sequence]
}

// phase is where a sequence is. new -> waiting -> running -> done; running ->
// waiting when preempted; any but done -> paused -> waiting.
type phase uint8

const (
	phaseNew phase = iota
	phaseWaiting
	phaseRunning
	phasePaused
	phaseDone
)

// The lists that a sequence can be in.
const (
	inQueue = iota // its line, by arrival
	inFresh        // all that never had a slot, by arrival
	inHits         // waiting ones whose table holds pages, by arrival
	linkKinds
)

func sequenceList(kind int) list[Sequence] {
	return list[Sequence]{at: func(q *Sequence) *link[Sequence] { return &q.links[kind] }}
}

// Computed is the number of tokens whose KV exists now; the others of Tokens
// are still to be computed.
func (q *Sequence) Computed() int { return q.computed }

// Pages is the page table: the positions that have memory now. It is read only and
// valid until the next Plan, Finish or Pause.
func (q *Sequence) Pages() []int32 { return q.table.Pages }

// Running says whether the sequence has a slot.
func (q *Sequence) Running() bool { return q.phase == phaseRunning }

func (q *Sequence) pending() int { return len(q.Tokens) - q.computed }

// decodes says whether the next step computes one next token of a running
// sequence. A stalled one does not, yet it is no prefill either.
func (q *Sequence) decodes() bool { return q.pending() == 1 && !q.Stalled }

// resting says whether a sequence waits for its reader in the middle of an answer. Neither its
// next token nor tokens that a preemption took are worth computing then.
func (q *Sequence) resting() bool { return q.Stalled && len(q.Tokens) > q.Prompt }

// setCuts makes cuts from SnapshotAt and the place up to which pages matched beyond the last
// snapshot.
func (q *Sequence) setCuts(pageTokens, branch int) {
	for _, n := range append(slices.Clone(q.SnapshotAt), branch) {
		if n = min(n, len(q.Tokens)) / pageTokens * pageTokens; n > 0 {
			q.cuts = append(q.cuts, n)
		}
	}
	slices.Sort(q.cuts)
	q.cuts = slices.Compact(q.cuts)
}

// nextStop is the first position after n where a piece of prefill must end: the next cut, the
// end of the prompt, or the end of all tokens. Output that a preemption took is computed apart
// from the prompt, so that it gets the same bits again.
func (q *Sequence) nextStop(n int) int {
	if cut := q.nextCut(n); cut > 0 {
		return cut // no later than the prompt's end
	}
	if n < q.Prompt {
		return q.Prompt
	}
	return len(q.Tokens)
}

// nextCut is the first cut after position n, or 0.
func (q *Sequence) nextCut(n int) int {
	i, found := slices.BinarySearch(q.cuts, n)
	if found {
		i++
	}
	if i == len(q.cuts) {
		return 0
	}
	return q.cuts[i]
}
