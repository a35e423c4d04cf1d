package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/cost/costtest"
	"corenode/engine/draft"
	"corenode/engine/kv"
)

// TestChooseDrafts: rows go where a token is most likely to be kept, as many as
// pay by what they are expected to cost.
func TestChooseDrafts(t *testing.T) {
	free := func(int) float64 { return 1 }
	dear := func(rows int) float64 { return float64(rows) }
	knee := func(rows int) float64 { return 1 + math.Max(0, float64(rows-4)) }
	steps := func(rows int) float64 { return 1 + 0.4*float64((rows-1)/4) } // every fourth row costs
	steep := func(rows int) float64 { return 1 + 0.4*float64(rows-1) }
	for name, c := range map[string]struct {
		most                []int
		chance              []float64
		room, decodes, rows int
		seconds             func(int) float64
		want                []int
	}{
		"free rows":               {[]int{15}, []float64{0.5}, 32, 1, 1, free, []int{15}},
		"rows like steps":         {[]int{15}, []float64{0.99}, 32, 1, 1, dear, []int{0}},
		"up to the knee":          {[]int{15}, []float64{0.9}, 32, 1, 1, knee, []int{3}},
		"little room":             {[]int{15}, []float64{0.9}, 2, 1, 1, knee, []int{2}},
		"no room":                 {[]int{15}, []float64{0.9}, 0, 1, 1, free, []int{0}},
		"unlikely":                {[]int{15}, []float64{0.02}, 32, 1, 1, knee, []int{0}},
		"over a stair":            {[]int{15}, []float64{0.98}, 32, 1, 1, steps, []int{15}},
		"not over a stair":        {[]int{15}, []float64{0.5}, 32, 1, 1, steps, []int{3}},
		"the likelier first":      {[]int{15, 15}, []float64{0.3, 0.95}, 32, 2, 2, knee, []int{0, 2}},
		"both":                    {[]int{15, 15}, []float64{0.9, 0.9}, 4, 2, 2, free, []int{2, 2}},
		"certain":                 {[]int{15, 15, 15}, []float64{1, 1, 1}, 7, 3, 3, free, []int{3, 2, 2}},
		"beside a prefill":        {[]int{15}, []float64{0.9}, 32, 1, 65, func(rows int) float64 { return 1 + 0.05*float64(rows-1) }, []int{13}},
		"others wait too long":    {[]int{15}, []float64{0.99}, 32, 4, 4, func(rows int) float64 { return 1 + 0.1*float64(rows-4) }, []int{2}},
		"alone it would take all": {[]int{15}, []float64{0.99}, 32, 1, 1, func(rows int) float64 { return 1 + 0.1*float64(rows-1) }, []int{15}},
		"nothing known":           {[]int{15}, []float64{0.99}, 32, 1, 1, func(int) float64 { return 0 }, []int{0}},
		"steep":                   {[]int{15}, []float64{0.3}, 32, 1, 1, steep, []int{0}},
	} {
		choices := make([]draftChoice, len(c.most))
		for i := range choices {
			choices[i] = draftChoice{item: i, tokensMax: c.most[i], chance: c.chance[i], gain: c.chance[i]}
		}
		chooseDrafts(choices, c.room, c.decodes, c.seconds(c.decodes), func(added int) float64 { return c.seconds(c.rows + added) })
		var got []int
		for _, g := range choices {
			got = append(got, g.kept)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v drafted tokens, want %v", name, got, c.want)
		}
	}
}

// speaker is a sequence of which all tokens are known beforehand.
type speaker struct {
	Sequence
	truth   []int32
	drafter *draft.Drafter
	said    int // tokens at the latest draft
}

// newSpeaker makes an answer that copies its prompt: after each token it goes on
// with chance p, else a token comes that nobody can know.
func newSpeaker(r *rand.Rand, p float64, tokens int) *speaker {
	const alphabet, prompt = 5000, 300
	truth := make([]int32, prompt)
	for i := range truth {
		truth[i] = int32(r.IntN(alphabet))
	}
	for at := r.IntN(prompt); len(truth) < prompt+tokens; at++ {
		if r.Float64() < p {
			truth = append(truth, truth[at])
			continue
		}
		truth = append(truth, int32(r.IntN(alphabet)))
		at = r.IntN(prompt)
	}
	return &speaker{truth: truth, drafter: draft.New(nil), said: prompt,
		Sequence: Sequence{Namespace: "n", Account: "a", Tokens: slices.Clone(truth[:prompt]), Max: tokens}}
}

// curve is how long a step of so many rows takes, in steps of one row.
type curve struct {
	name    string
	seconds func(rows int) float64
}

var curves = []curve{
	{"bandwidth bound", func(rows int) float64 { return 1 + 0.02*float64(rows-1) + 0.08*math.Max(0, float64(rows-8)) }},
	{"half bound", func(rows int) float64 { return 1 + 0.2*float64(rows-1) }},
	{"compute bound", func(rows int) float64 { return float64(rows) }},
	{"stairs", func(rows int) float64 { return 1 + 0.35*float64((rows+2)/4) + 0.01*float64(rows) }},
}

// speak runs speakers to their end on a machine that is disturbed now and then,
// and returns the time it took and how many tokens were drafted and kept.
func speak(t *testing.T, m curve, speakers []*speaker, draft bool, seed uint64) (seconds float64, st Stats) {
	r := rand.New(rand.NewPCG(seed, 5))
	pool, err := kv.New(kv.Config{Pages: 2000, PageTokens: 32, PageBytes: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{StepTokensMax: 512, SequencesMax: 32, ChunkTokens: 512, QueueMax: 64, Draft: draft}
	s, err := New(c, pool)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(0, 0)
	for _, sp := range speakers {
		if _, err := s.Add(&sp.Sequence, at); err != nil {
			t.Fatal(err)
		}
	}
	of := func(q *Sequence) *speaker {
		return speakers[slices.IndexFunc(speakers, func(sp *speaker) bool { return &sp.Sequence == q })]
	}
	for {
		p := s.Plan(at)
		if len(p.Items) == 0 {
			return seconds, s.Stats()
		}
		took := m.seconds(p.Rows) * 0.01 * (0.95 + 0.1*r.Float64())
		if r.IntN(50) == 0 {
			took *= 4
		}
		if p.Items[0].Len-len(p.Items[0].Draft) == 1 { // prefills are the same with and without
			seconds += took
		}
		for i := range p.Items {
			it, sp := &p.Items[i], of(p.Items[i].Seq)
			for it.Kept = 1; it.Kept <= len(it.Draft) && it.Draft[it.Kept-1] == sp.truth[it.Start+it.Kept]; it.Kept++ {
			}
		}
		s.Commit(p)
		for _, it := range p.Items {
			if q := it.Seq; it.Logits {
				advance(s, of(q), at)
			}
		}
		s.Measured(time.Duration(took * float64(time.Second)))
	}
}

// advance gives a speaker its next token, and the scheduler the next draft.
func advance(s *Scheduler, sp *speaker, at time.Time) {
	n := len(sp.Tokens)
	sp.drafter.Observe(sp.truth[sp.said : n+1])
	if n == len(sp.truth)-1 {
		s.Finish(&sp.Sequence, at, 0)
		return
	}
	s.Append(&sp.Sequence, sp.truth[n])
	sp.Draft, sp.Chance = sp.drafter.Draft(sp.Tokens)
	sp.said = len(sp.Tokens)
}

// TestDraftsPayOrAreLeft: whatever the machine, the company and the text, it
// is never more than little slower than without drafts, and where it can win it
// does. The bounds on the gain are what a drafter that knows chance and cost
// exactly could reach, less a third.
func TestDraftsPayOrAreLeft(t *testing.T) {
	for _, m := range curves {
		for _, n := range []int{1, 4, 16} {
			for i, p := range []float64{0, 0.5, 0.8, 0.9, 0.97, 1} {
				if testing.Short() && (n > 1 || i%2 == 1) {
					continue // all of them take minutes under the race detector
				}
				r := rand.New(rand.NewPCG(uint64(n), uint64(100*p)))
				var with, without []*speaker
				for range n {
					sp := newSpeaker(r, p, 1200)
					other := *sp
					other.Tokens, other.drafter = slices.Clone(sp.Tokens), draft.New(nil)
					with, without = append(with, sp), append(without, &other)
				}
				slow, _ := speak(t, m, without, false, 1)
				fast, st := speak(t, m, with, true, 1)
				for i := range with {
					if !slices.Equal(with[i].Tokens, without[i].Tokens) {
						t.Fatal("the tokens differ")
					}
				}
				gain, possible := slow/fast, possibleGain(m, n, p)
				t.Logf("%-15s %2d sequences, copies with %.2f: %.2f times as fast, %.2f possible; %d tokens, %d drafted, %d right",
					m.name, n, p, gain, possible, 1200*n, st.DraftedTokens, st.AcceptedTokens)
				if gain < 0.97 || gain < possible*2/3 {
					t.Errorf("%s, %d sequences that copy with %.2f: %.3f times as fast as without drafts, %.2f possible", m.name, n, p, gain, possible)
				}
			}
		}
	}
}

// possibleGain is that of a draft of the best length when all sequences have one:
// a token is kept with chance p times that of having found the place again, which
// takes the shortest run that is looked up.
func possibleGain(m curve, n int, p float64) (gain float64) {
	gain = 1
	for k := 1; k <= draft.TokensMax && n*k <= draftRowsMax; k++ {
		tokens, chance := 1.0, 1.0
		for range k {
			chance *= p
			tokens += chance
		}
		// After a token that was not copied two more come without a draft.
		lost := (1 - p) * 2
		perToken := (1-lost)*m.seconds(n*(1+k))/m.seconds(n)/tokens + lost
		if lost < 1 {
			gain = max(gain, 1/perToken)
		}
	}
	return gain
}

// TestDraftsAreCharged: computed rows count as service, kept or not, and a draft
// ends where the answer must.
func TestDraftsAreCharged(t *testing.T) {
	pool, err := kv.New(kv.Config{Pages: 50, PageTokens: 16, PageBytes: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{StepTokensMax: 256, SequencesMax: 4, ChunkTokens: 128, QueueMax: 4, Draft: true}, pool)
	if err != nil {
		t.Fatal(err)
	}
	s.AssumeSteps(func(int) float64 { return 1 })
	now := time.Unix(0, 0)
	q := &Sequence{Namespace: "n", Account: "a", Tokens: make([]int32, 30), Max: 8}
	if _, err := s.Add(q, now); err != nil {
		t.Fatal(err)
	}
	s.Commit(s.Plan(now))
	s.Append(q, 1)
	for _, step := range []struct{ offered, drafted, kept int }{{3, 3, 1}, {4, 4, 3}, {9, 2, 3}} {
		before := s.accounts["a"].counter
		q.Draft, q.Chance = make([]int32, step.offered), 0.9
		p := s.Plan(now)
		it := &p.Items[0]
		if p.Rows != it.Len || it.Len != 1+step.drafted || len(it.Draft) != step.drafted || s.Stats().Drafting != 1 {
			t.Fatalf("offered %d: %+v of %d rows", step.offered, it, p.Rows)
		}
		if got, want := s.accounts["a"].counter-before, int64(decodeCost+step.drafted*prefillCost); got != want {
			t.Errorf("a draft of %d is charged %d, want %d", step.drafted, got, want)
		}
		it.Kept = step.kept
		tokens := len(q.Tokens)
		s.Commit(p)
		if len(q.Tokens) != tokens+step.kept-1 || q.Computed() != len(q.Tokens) {
			t.Fatalf("%d rows of %d kept: %d tokens, %d computed, %d before", step.kept, step.drafted+1, len(q.Tokens), q.Computed(), tokens)
		}
		s.Append(q, 2)
	}
	if st := s.Stats(); st.DraftedTokens != 9 || st.AcceptedTokens != 4 || st.DecodeTokens != 7 || len(q.Tokens) != 38 {
		t.Errorf("%+v, %d tokens", st, len(q.Tokens))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestLastPageIsDraftedOnce: where two drafts could have the last free page, one gets it, and the other ends
// with the pages that its sequence has.
func TestLastPageIsDraftedOnce(t *testing.T) {
	b := newBench(t, 5, 0, func(c *Config) { c.Draft = true })
	b.s.AssumeSteps(func(int) float64 { return 1 })
	first, second := b.add("a", 30, 20), b.add("b", 30, 20)
	b.until(5, started(second))
	for _, q := range []*Sequence{first, second} {
		q.Draft, q.Chance = make([]int32, 9), 1
	}
	p := b.s.Plan(b.now)
	if len(p.Items) != 2 || len(p.Items[0].Draft) != 9 || len(p.Items[1].Draft) != 32-len(second.Tokens) {
		t.Errorf("beside %d free pages: %+v", b.s.pool.PagesFree(), p.Items)
	}
	if err := b.s.Check(); err != nil {
		t.Error(err)
	}
}

// TestDraftsArePredicted: what a step is said to take with drafts is what a step of their load is said to take.
func TestDraftsArePredicted(t *testing.T) {
	c := newComputer(t, costtest.Machines(21)[1], nil)
	c.one()
	for range 8 {
		c.must("a", 300, 100)
	}
	for c.s.waiting > 0 || slices.ContainsFunc(c.s.running, func(q *Sequence) bool { return !started(q)() }) {
		c.step()
	}
	items := c.s.Plan(c.now).Items
	c.s.choices = make([]draftChoice, 1)
	alone, with := c.s.draftSeconds(loadOf(items))
	for added := range 9 {
		if added > 0 {
			it := &items[added-1]
			it.Draft, it.Len = []int32{1}, 2
		}
		want := c.s.cost.Predict(loadOf(items)).Seconds()
		if got := with(added); len(items) != 8 || alone != with(0) || math.Abs(got-want) > want/1000 {
			t.Errorf("%d of %d decodes with a draft are said to take %g s, want %g s", added, len(items), got, want)
		}
	}
}
