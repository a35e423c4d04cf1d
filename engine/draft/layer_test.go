package draft

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// flat is a machine on which rows up to knee cost nothing and each beyond as much as
// a whole step.
func flat(step float64, knee int) func(int) float64 {
	return func(rows int) float64 { return step * float64(1+max(0, rows-knee)) }
}

// knowing is a layer whose passes take a share of a step.
func knowing(share float64) *Layer {
	l := &Layer{}
	l.record.all = tally{firstTries, firstTries}
	l.Took(1, 1, time.Duration(share*float64(time.Second)), flat(1, 99))
	return l
}

// TestWorth: passes are made exactly where they give more tokens in a second, which
// is computed here from its definition.
func TestWorth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worth, not := 0, 0
	for range 2000 {
		share, decodes, knee := r.Float64(), 1+r.IntN(6), 1+r.IntN(12)
		drafted := r.IntN(4)
		var gains []float64
		for range 1 + r.IntN(decodes) {
			gains = append(gains, r.Float64())
		}
		slices.SortFunc(gains, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
		seconds := flat(0.02, knee)
		got := knowing(share).Worth(gains, decodes, drafted, seconds)
		best, most := 0, 0.0
		for n := 1; n <= len(gains); n++ {
			tokens := 0.0
			for _, g := range gains[:n] {
				tokens += g
			}
			took := seconds(decodes+drafted+n) - seconds(decodes+drafted) + share*seconds(n)
			if gain := tokens - layerGain*took*float64(decodes)/seconds(decodes); gain > most {
				best, most = n, gain
			}
		}
		if got != best {
			t.Fatalf("gains %v, %d decodes, %d drafted, share %g, knee %d: %d, want %d", gains, decodes, drafted, share, knee, got, best)
		}
		if got > 0 {
			worth++
		} else {
			not++
		}
	}
	if worth < 100 || not < 100 {
		t.Errorf("%d worth it, %d not: a case is missing", worth, not)
	}
}

// TestBegin: the first pass waits for what a step costs, shows what a pass costs, and
// comes again now and then where it does not pay.
func TestBegin(t *testing.T) {
	l := &Layer{}
	gains := []float64{0.9, 0.5}
	if n := l.Begin(gains, 2, func(int) float64 { return 0 }); n != 0 {
		t.Errorf("%d before any step was measured", n)
	}
	if n := l.Begin(nil, 2, flat(1, 9)); n != 0 {
		t.Errorf("%d of no sequence", n)
	}
	if n := l.Begin(gains, 2, flat(1, 9)); n != 2 {
		t.Errorf("%d for the first pass, want all", n)
	}
	l.Took(2, 2, 100*time.Millisecond, flat(1, 9))
	if n := l.Begin(gains, 2, flat(1, 9)); n != 2 {
		t.Errorf("%d, want both where a pass costs a tenth of a step", n)
	}
	tried := knowing(2)
	for tried.record.all = (tally{}); tried.record.all.seen < firstTries-1; tried.record.all.learn(true, forgetLayer) {
		if n := tried.Begin(gains, 2, flat(1, 9)); n != 2 {
			t.Fatalf("%d after %g tries, want both", n, tried.record.all.seen)
		}
	}
	dear := knowing(2)
	for i := range 3 * tryEvery {
		if n := dear.Begin(gains, 2, flat(1, 9)); (n > 0) != (i%tryEvery == tryEvery-1) {
			t.Fatalf("step %d: %d where a pass costs two steps", i, n)
		}
	}
}

// TestTook: the share settles at what passes take, whatever one of them took.
func TestTook(t *testing.T) {
	l := knowing(0.3)
	for i := range 100 {
		took := 600 * time.Millisecond
		if i == 97 {
			took = time.Hour
		}
		l.Took(3, 3, took, flat(1, 9))
	}
	if l.share < 0.55 || l.share > 0.75 {
		t.Errorf("the share is %g, want about 0.6", l.share)
	}
	before := l.share
	l.Took(1, 1, time.Second, func(int) float64 { return 0 }) // nothing to compare with
	if l.share != before {
		t.Errorf("the share became %g", l.share)
	}
	few := knowing(0.5)
	few.Took(1, 4, time.Second, func(rows int) float64 { // nothing is known of one row
		if rows < 4 {
			return 0
		}
		return 2
	})
	if few.share != 0.5 {
		t.Errorf("half of the smallest step known is a share of %g", few.share)
	}
}

// A draft ends before a stop and at its largest.
func TestLayerDrafterEnds(t *testing.T) {
	l := &Layer{}
	p := l.NewDrafter([]int32{7, 3})
	if draft, chance := p.Draft(); draft != nil || chance != 0 {
		t.Errorf("draft %v with chance %g of nothing", draft, chance)
	}
	for _, last := range []int32{7, 3} {
		if !p.Add(1, 0.99) || p.Add(last, 0.99) {
			t.Errorf("the draft goes on behind %d", last)
		}
		if draft, _ := p.Draft(); !slices.Equal(draft, []int32{1}) {
			t.Errorf("draft %v, want 1", draft)
		}
		p.Observe(nil)
	}
	for i := range LayerTokensMax {
		if more := p.Add(5, 0.5); more != (i < LayerTokensMax-1) {
			t.Errorf("token %d: more %v", i, more)
		}
	}
	if p.Add(5, 0.5) {
		t.Error("the draft has no end")
	}
	p.Observe(nil)
	foretold := l.NewDrafter([]int32{7})
	for i := range 40 { // a stop is a draft too, which nobody drafts
		if foretold.Add(7, 0.9) {
			t.Fatal("the draft goes on behind a stop")
		}
		foretold.Observe([]int32{int32(7 + i%2)})
	}
	if c := foretold.Expected(); math.Abs(c-0.5) > 0.05 {
		t.Errorf("expected %g where every other stop came", c)
	}
}

// The chance of a draft follows what was right, by confidence, here and in other sequences.
func TestLayerDrafterLearns(t *testing.T) {
	l := &Layer{}
	p := l.NewDrafter([]int32{7, 3})
	before := p.Expected()
	for i := range 200 { // sure ones are right, others in one of four
		sure := i%2 == 0
		confidence, said := 0.3, int32(i%8)
		if sure {
			confidence, said = 0.995, 5
		}
		p.Add(5, confidence)
		p.Add(6, confidence) // does not count where the first was wrong
		if sure {
			p.Observe([]int32{said, 6})
		} else {
			p.Observe([]int32{said})
		}
	}
	chance := func(p *LayerDrafter, confidence float64) float64 {
		defer p.Observe(nil)
		p.Add(5, confidence)
		_, c := p.Draft()
		return c
	}
	other := l.NewDrafter(nil)
	for name, q := range map[string]*LayerDrafter{"its own": p, "another sequence's": other} {
		if sure, unsure := chance(q, 0.995), chance(q, 0.3); sure < 0.9 || unsure > 0.4 || unsure < 0.1 {
			t.Errorf("%s: chances %g and %g, want about 1 and 1/4", name, sure, unsure)
		}
	}
	if p.Expected() == before || other.Expected() < 0.4 {
		t.Errorf("expected %g of its own, %g of others", p.Expected(), other.Expected())
	}
	p.Add(5, 0.995)
	p.Add(6, 0.3)
	whole := chance(p, 0.995) // and a third: the mean of the three
	if whole < 0.4 || whole > 0.75 {
		t.Errorf("mean chance %g of tokens with chances of about 1, 1/4 and 1", whole)
	}
}

func TestRight(t *testing.T) {
	for _, c := range []struct {
		n      int
		chance float64
		want   float64
	}{{0, 0.5, 0}, {1, 0.5, 0.5}, {3, 0.5, 0.875}, {4, 1, 4}, {5, 0, 0}} {
		if got := Right(c.n, c.chance); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d with chance %g: %g, want %g", c.n, c.chance, got, c.want)
		}
	}
}
