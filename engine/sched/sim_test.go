package sched

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/kv"
)

var simSeeds = flag.Uint64("sim.seeds", 4, "seeds per shape of the simulation")

// client is one request of the simulation.
type client struct {
	seq     *Sequence
	session *session
	oracle  oracle
	stop    int  // tokens after which it ends
	rows    int  // computed for it so far
	upset   bool // preempted, paused, or its hit may have been given up
	decodes bool // had one token to compute when the step was planned
}

// draft proposes what the client's sequence will say, with mistakes, and
// sometimes more than it may say or nothing.
func (c *client) draft(r *rand.Rand, hybrid bool) {
	o, tokens := c.oracle, slices.Clone(c.seq.Tokens)
	c.seq.Draft, c.seq.Chance = nil, r.Float64()
	for range r.IntN(16) {
		next := int32(o.output(tokens, hybrid) % 50)
		if r.IntN(6) == 0 {
			next = int32(r.IntN(50))
		}
		tokens = append(tokens, next)
		c.seq.Draft = append(c.seq.Draft, next)
	}
}

// keep is how many rows of an item with a draft are the sequence's, by their outputs.
func (c *client) keep(it *Item, out []uint64) int {
	n := 1
	for n < len(out) && it.Draft[n-1] == int32(out[n-1]%50) && len(c.seq.Tokens)+n < c.stop {
		n++
	}
	return n
}

type session struct {
	space  string
	tokens []int32
	turn   int // length of the prompt of the last turn
	handle kv.Handle
	busy   bool
}

type sim struct {
	r        *rand.Rand
	pool     *kv.Pool
	s        *Scheduler
	m        *fakeModel
	now      time.Time
	clients  []*client
	sessions []*session
	done     int
	dropped  int64
	open     []computed // at most two
	followed int
	parted   int // sequences that left with a step that computes them
}

// computed is a plan with what its items gave: the device is as far as can be.
type computed struct {
	plan *Plan
	out  [][]uint64
}

func newSim(seed uint64, pc kv.Config, c Config) (*sim, error) {
	pool, err := kv.New(pc)
	if err != nil {
		return nil, err
	}
	s, err := New(c, pool)
	return &sim{r: rand.New(rand.NewPCG(seed, 7)), pool: pool, s: s, m: newFakeModel(pc),
		now: time.Unix(1_000_000, 0)}, err
}

func (m *sim) tokens(n int) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = int32(m.r.IntN(50))
	}
	return t
}

// prompt makes the prompt of a request: a new session that shares one of a
// few system prompts, or the next turn of a session, from its end or from
// where the last turn's answer began (as when its thinking is dropped).
func (m *sim) prompt(sizeMax int) (*session, []int32, []int) {
	var open []*session
	for _, s := range m.sessions {
		if !s.busy && len(s.tokens) < sizeMax*2/3 {
			open = append(open, s)
		}
	}
	if len(open) > 0 && m.r.IntN(3) > 0 {
		s := open[m.r.IntN(len(open))]
		base := s.tokens
		if m.r.IntN(2) == 0 {
			base = base[:s.turn]
		}
		return s, append(slices.Clone(base), m.tokens(1+m.r.IntN(max(1, sizeMax/6)))...), []int{s.turn}
	}
	s := &session{space: fmt.Sprintf("account%d/model", m.r.IntN(4))}
	system := make([]int32, []int{5, 70, 130}[m.r.IntN(3)])
	for i := range system {
		system[i] = int32(100 + i%7 + len(system))
	}
	m.sessions = append(m.sessions, s)
	if len(m.sessions) > 40 {
		m.pool.Unpin(m.sessions[0].handle)
		m.sessions = m.sessions[1:]
	}
	return s, append(system[:min(len(system), sizeMax/2)], m.tokens(1+m.r.IntN(sizeMax/4))...), []int{len(system)}
}

func (m *sim) arrive(sizeMax int) error {
	session, prompt, snaps := m.prompt(sizeMax)
	most := 1 + m.r.IntN([]int{10, 60, 250}[m.r.IntN(3)])
	if m.r.IntN(20) > 0 { // else it may be too large
		most = max(1, min(most, sizeMax-len(prompt)))
	}
	q := &Sequence{Namespace: session.space, Account: session.space, Tokens: prompt, Max: most,
		Priority: []int8{0, 0, 0, 1, 7, -2}[m.r.IntN(6)], SnapshotAt: append(snaps, len(prompt))}
	slices.Sort(q.SnapshotAt)
	cached, err := m.s.Add(q, m.now)
	var large *TooLargeError
	switch {
	case refused(err):
		return nil
	case errors.As(err, &large):
		if m.pool.PagesFor(len(prompt)+most-1) <= m.pool.Config().Pages {
			return fmt.Errorf("refused as too large: %w", err)
		}
		return nil
	case err != nil:
		return err
	case cached >= len(prompt) || cached != q.Cached:
		return fmt.Errorf("%d of %d cached", cached, len(prompt))
	}
	session.busy = true
	m.clients = append(m.clients, &client{seq: q, session: session, stop: len(prompt) + 1 + m.r.IntN(most),
		oracle: oracle{salt: saltOf(q.Namespace)}})
	return nil
}

// finish ends a client; a completed turn goes on in its session, pinned.
func (m *sim) finish(c *client, completed bool) error {
	var pin int64
	if completed && m.r.IntN(3) > 0 {
		pin = int64(m.r.IntN(int(m.pool.Config().PageBytes)*m.pool.Config().Pages/3 + 1))
	}
	h := m.s.Finish(c.seq, m.now, pin)
	if m.s.Finish(c.seq, m.now, pin) != (kv.Handle{}) {
		return fmt.Errorf("finished twice")
	}
	m.pool.Unpin(c.session.handle)
	if m.r.IntN(5) == 0 {
		m.pool.Unpin(c.session.handle) // stale: must be harmless
	}
	c.session.handle, c.session.busy = h, false
	if !slices.Contains(m.sessions, c.session) { // swept while it was busy
		m.pool.Unpin(h)
	}
	if completed {
		c.session.tokens, c.session.turn = c.seq.Tokens, c.seq.Prompt
		m.done++
	}
	m.clients = slices.DeleteFunc(m.clients, func(o *client) bool { return o == c })
	return nil
}

func (m *sim) find(q *Sequence) *client {
	for _, c := range m.clients {
		if c.seq == q {
			return c
		}
	}
	return nil
}

// meddle cancels, pauses or resumes someone.
func (m *sim) meddle(p int) error {
	if len(m.clients) == 0 || m.r.IntN(100) >= p {
		return nil
	}
	c := m.clients[m.r.IntN(len(m.clients))]
	switch m.r.IntN(4) {
	case 0:
		return m.finish(c, false)
	case 1:
		m.s.Pause(c.seq, m.now)
		c.upset = true
	default:
		m.s.Resume(c.seq, m.now)
	}
	return nil
}

// checkPlan verifies what every plan promises.
func (m *sim) checkPlan(p *Plan) error {
	rows, prefill, decodes := 0, 0, 0
	seen := map[*Sequence]bool{}
	for _, it := range p.Items {
		q, end := it.Seq, it.Start+it.Len
		c := m.find(q)
		own := end - len(it.Draft)
		if c == nil || seen[q] || it.Len < 1 || it.Start != q.Computed() || own > len(q.Tokens) ||
			len(it.Pages) < m.pool.PagesFor(end) || len(it.Pages) > m.pool.PagesFor(end)+1 || it.Logits != (own == len(q.Tokens)) ||
			(it.State != kv.NoState) != m.pool.Hybrid() {
			return fmt.Errorf("item %+v is wrong", it)
		}
		cut := m.pool.Hybrid() && slices.Contains(q.cuts, end)
		// The recurrence's parallel form wants absolute multiples of its chunk; without
		// it a piece may end anywhere, and only small ones are not worth a step.
		if end < len(q.Tokens) && end != q.Prompt && end%m.s.align != 0 && !cut {
			return fmt.Errorf("sequence %d: a piece ends at %d", q.order, end)
		}
		if it.Start < q.Prompt && end > q.Prompt {
			return fmt.Errorf("sequence %d: a piece from %d to %d of a prompt of %d", q.order, it.Start, end, q.Prompt)
		}
		if err := m.checkDraft(&it); err != nil {
			return err
		}
		seen[q] = true
		rows += it.Len
		if c.decodes {
			decodes++
		} else {
			prefill += it.Len - len(it.Draft)
		}
	}
	if c := m.s.config; rows != p.Rows || rows > c.StepTokensMax || decodes > 0 && prefill > c.ChunkTokens {
		return fmt.Errorf("%d rows, says %d, %d of prefill beside %d decodes", rows, p.Rows, prefill, decodes)
	}
	if st := m.s.Stats(); len(p.Items) == 0 && st.Running+st.Waiting > 0 {
		return fmt.Errorf("an empty plan, but %+v", st)
	}
	for _, q := range p.Preempted {
		if c := m.find(q); c != nil {
			c.upset = true
		}
	}
	for _, q := range p.Expired {
		if c := m.find(q); c == nil || q.Started != (time.Time{}) {
			return fmt.Errorf("sequence %d expired though it ran", q.order)
		} else if err := m.finish(c, false); err != nil {
			return err
		}
	}
	return nil
}

// checkDraft verifies what only items with a draft promise.
func (m *sim) checkDraft(it *Item) error {
	q, end := it.Seq, it.Start+it.Len
	switch {
	case len(it.Draft) == 0 && len(it.Saves) == 0:
		return nil
	case it.Len != 1+len(it.Draft) || !slices.Equal(it.Draft, q.Draft[:len(it.Draft)]):
		return fmt.Errorf("item %+v drafts, the sequence has draft %v", it, q.Draft)
	case end > q.Prompt+q.Max-1:
		return fmt.Errorf("a draft ends at %d, the sequence computes at most %d", end, q.Prompt+q.Max-1)
	case m.pool.Hybrid() != (len(it.Saves) == len(it.Draft)):
		return fmt.Errorf("%d saves for a draft of %d", len(it.Saves), len(it.Draft))
	}
	every := m.s.config.DecodeSnapshotTokens
	for n := it.Start + 1; n < end && m.pool.Hybrid(); n++ {
		if slices.Contains(q.cuts, n) || every > 0 && n%every == 0 {
			return fmt.Errorf("a draft from %d to %d runs over the place of a snapshot at %d", it.Start, end, n)
		}
	}
	return nil
}

func (m *sim) step(meddling int) error {
	m.now = m.now.Add(time.Duration(m.r.IntN(20)) * time.Millisecond)
	if err := m.meddle(meddling); err != nil {
		return err
	}
	for _, c := range m.clients {
		c.decodes = c.seq.Running() && c.seq.pending() == 1
		if m.s.config.Draft && c.decodes {
			c.draft(m.r, m.pool.Hybrid())
		}
	}
	if len(m.open) == 0 {
		p := m.s.Plan(m.now)
		if err := m.checkPlan(p); err != nil {
			return err
		}
		m.open = append(m.open, computed{p, m.m.step(p)})
	}
	if m.r.IntN(4) > 0 {
		if err := m.planFollowing(); err != nil {
			return err
		}
	}
	if err := m.s.Check(); err != nil {
		return fmt.Errorf("after Plan: %w", err)
	}
	if err := m.meddle(meddling / 2); err != nil { // between Plan and Commit
		return err
	}
	p, out := m.open[0].plan, m.open[0].out
	m.open = slices.Delete(m.open, 0, 1)
	m.parted = max(m.parted, len(m.s.parted))
	for i := range p.Items {
		if c := m.find(p.Items[i].Seq); c != nil && len(p.Items[i].Draft) > 0 {
			p.Items[i].Kept = c.keep(&p.Items[i], out[i])
		}
	}
	m.m.do(m.s.Commit(p))
	if m.s.config.GapMax > 0 { // steps take anything: only the time it takes may suffer
		m.s.Measured(time.Duration(m.r.ExpFloat64() * float64(p.Rows) * float64(time.Millisecond)))
	}
	if err := m.s.Check(); err != nil {
		return fmt.Errorf("after Commit: %w", err)
	}
	for i, it := range p.Items {
		c := m.find(it.Seq)
		if c == nil || !it.Seq.Running() || it.Seq.Computed() != it.Start+it.kept() {
			continue // canceled or paused meanwhile
		}
		c.rows += it.kept()
		if err := m.sampled(c, it, out[i]); err != nil {
			return err
		}
	}
	return nil
}

// planFollowing computes the step behind the open one, if it can be planned.
func (m *sim) planFollowing() error {
	p := m.s.PlanFollowing()
	if p == nil {
		return nil
	}
	m.followed++
	last := m.open[0]
	for i, it := range p.Items {
		q := it.Seq
		if it.Start != last.plan.Items[i].Start+1 || q != last.plan.Items[i].Seq || !it.Logits || it.Len != 1 ||
			len(it.Pages) < m.pool.PagesFor(it.Start+1) || it.Start+2 > q.Prompt+q.Max {
			return fmt.Errorf("item %+v behind %+v is wrong", it, last.plan.Items[i])
		}
		m.m.coming[q] = int32(last.out[i][0] % 50)
	}
	m.open = append(m.open, computed{p, m.m.step(p)})
	clear(m.m.coming)
	return nil
}

func (m *sim) sampled(c *client, it Item, outs []uint64) error {
	if !it.Logits {
		return nil
	}
	q := it.Seq
	kept := 1
	if len(it.Draft) > 0 {
		kept = it.Kept
	}
	for i, out := range outs[:kept] {
		at := len(q.Tokens) - kept + 1 + i
		if want := c.oracle.output(q.Tokens[:at], m.pool.Hybrid()); out != want {
			return fmt.Errorf("sequence %d of %q at %d: output %x, alone and uncached %x", q.order, q.Namespace, at, out, want)
		}
	}
	out := outs[kept-1]
	if q.Peak != len(q.Tokens) {
		return fmt.Errorf("sequence %d: peak %d of %d", q.order, q.Peak, len(q.Tokens))
	}
	dropped := m.s.Stats().HitsDropped
	if dropped == m.dropped && !c.upset && c.rows != q.Computed()-q.Cached {
		return fmt.Errorf("sequence %d: %d rows for %d tokens of which %d were cached", q.order, c.rows, q.Computed(), q.Cached)
	}
	m.s.Append(q, int32(out%50))
	if len(q.Tokens) >= c.stop {
		return m.finish(c, true)
	}
	return nil
}

// run simulates load, then lets everything end: nothing may be stuck.
func (m *sim) run(steps, load, meddling int) error {
	sizeMax := min(400, m.pool.Config().Pages*m.pool.Config().PageTokens)
	for i := range steps {
		for m.r.IntN(100) < load {
			if err := m.arrive(sizeMax); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if err := m.step(meddling); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if m.r.IntN(10) == 0 { // rows are only comparable while no hold was dropped
			m.dropped = m.s.Stats().HitsDropped
			for _, c := range m.clients {
				c.upset = c.upset || m.dropped > 0
			}
		}
	}
	left := 0
	for _, c := range m.clients {
		m.s.Resume(c.seq, m.now)
		left += c.stop
	}
	for i := 0; len(m.clients)+len(m.open) > 0; i++ {
		if i > 20*left+1000 {
			return fmt.Errorf("%d sequences are stuck: %+v", len(m.clients), m.s.Stats())
		}
		if err := m.step(0); err != nil {
			return fmt.Errorf("draining: %w", err)
		}
	}
	for _, s := range m.sessions {
		m.pool.Unpin(s.handle)
	}
	st := m.pool.Stats()
	if st.PagesOwned != 0 || st.PagesPinned != 0 || st.Tables != 0 || st.Handles != 0 ||
		st.StatesFree+st.Snapshots != m.pool.Config().States {
		return fmt.Errorf("something leaked: %+v", st)
	}
	return m.s.Check()
}

// simCosts are kinds of machines: without drafts, rows that cost nothing, rows
// that cost the more the more there are.
var simCosts = []func(rows int) float64{
	nil,
	func(int) float64 { return 1 },
	func(rows int) float64 { return 1 + float64(rows*rows)/500 },
}

// TestSimulation compares thousands of steps with the oracle, and checks all
// books after each. Shapes from ample to so tight that nothing fits beside
// the largest sequence; the sums at the end show that every path was taken.
func TestSimulation(t *testing.T) {
	var sum Stats
	var pool kv.Stats
	var followed, parted int64
	for _, shape := range []struct {
		name           string
		pages          int // for 16 tokens each
		states, snaps  int
		steps, load    int
		slots, rolling int
	}{
		{"ample", 400, 0, 0, 500, 25, 8, 0},
		{"tight", 60, 0, 0, 700, 35, 6, 0},
		{"tiny", 20, 0, 0, 700, 40, 8, 0},
		{"hybrid ample", 400, 40, 30, 500, 25, 8, 64},
		{"hybrid tight", 80, 10, 5, 700, 35, 6, 64},
		{"hybrid tiny", 20, 6, 3, 700, 40, 8, 64},
		{"hybrid few states", 100, 3, 2, 500, 30, 6, 64},
		{"hybrid one state", 48, 1, 0, 200, 10, 4, 0},
	} {
		for _, size := range []int{16, 32, 64} {
			if testing.Short() && size == 32 {
				continue
			}
			for seed := range *simSeeds {
				pc := kv.Config{Pages: shape.pages * 16 / size, PageTokens: size, PageBytes: 100, States: shape.states,
					SnapshotsMax: shape.snaps, StateBytes: 300, Seed: seed}
				m, err := newSim(seed, pc, Config{StepTokensMax: 256, SequencesMax: shape.slots, ChunkTokens: 64 * (1 + int(seed%2)),
					QueueMax: 12, QueueTokensMax: 2000, QueueTimeout: 2 * time.Second, FairWait: 300 * time.Millisecond,
					PriorityWait:         150 * time.Millisecond,
					DecodeSnapshotTokens: shape.rolling, Draft: seed%3 > 0,
					GapMax: time.Duration(seed/2%2) * 40 * time.Millisecond, GapStretchMax: int(seed % 3)})
				if err != nil {
					t.Fatal(err)
				}
				m.s.AssumeSteps(simCosts[seed%uint64(len(simCosts))])
				if err := m.run(shape.steps, shape.load, 12); err != nil {
					t.Fatalf("%s, page size %d, seed %d: %v", shape.name, size, seed, err)
				}
				if m.done == 0 {
					t.Fatalf("%s, page size %d, seed %d: nothing completed", shape.name, size, seed)
				}
				add(&sum, &pool, m)
				followed, parted = followed+int64(m.followed), parted+int64(m.parted)
			}
		}
	}
	t.Logf("scheduler %+v", sum)
	t.Logf("pool %+v", pool)
	for name, n := range map[string]int64{
		"preemptions": sum.Preempted, "fair preemptions": sum.PreemptedFair, "recomputed": sum.RecomputedTokens,
		"steps that follow": followed, "left a step on its way": parted,
		"hits dropped": sum.HitsDropped, "queue full": sum.RefusedQueueFull, "hits": pool.Hits, "evictions": pool.PagesEvicted,
		"snapshots evicted": pool.SnapshotsEvicted, "snapshots skipped": pool.SnapshotsSkipped, "pins broken": pool.PinsBroken,
		"drafted": sum.DraftedTokens - sum.AcceptedTokens, "drafts accepted": sum.AcceptedTokens,
		"pins displaced": pool.PinsDisplaced, "stale handles": pool.StaleHandles, "too large": sum.RefusedTooLarge, "expired": sum.Expired,
	} {
		if n == 0 {
			t.Errorf("the simulation never saw: %s", name)
		}
	}
}

func add(sum *Stats, pool *kv.Stats, m *sim) {
	a, b := m.s.Stats(), m.pool.Stats()
	sum.Preempted += a.Preempted
	sum.PreemptedFair += a.PreemptedFair
	sum.RecomputedTokens += a.RecomputedTokens
	sum.PrefillTokens += a.PrefillTokens
	sum.DecodeTokens += a.DecodeTokens
	sum.DraftedTokens += a.DraftedTokens
	sum.AcceptedTokens += a.AcceptedTokens
	sum.HitsDropped += a.HitsDropped
	sum.Expired += a.Expired
	sum.RefusedQueueFull += a.RefusedQueueFull
	sum.RefusedTooLarge += a.RefusedTooLarge
	pool.Hits += b.Hits
	pool.HitTokens += b.HitTokens
	pool.PagesEvicted += b.PagesEvicted
	pool.SnapshotsTaken += b.SnapshotsTaken
	pool.SnapshotsEvicted += b.SnapshotsEvicted
	pool.SnapshotsSkipped += b.SnapshotsSkipped
	pool.PinsBroken += b.PinsBroken
	pool.PinsDisplaced += b.PinsDisplaced
	pool.StaleHandles += b.StaleHandles
}
