package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// text is n tokens of a small alphabet in which runs come again.
func text(r *rand.Rand, n int) []int32 {
	out := make([]int32, 0, n)
	for len(out) < n {
		if len(out) > 20 && r.IntN(3) > 0 {
			at := r.IntN(len(out) - 10)
			out = append(out, out[at:at+1+r.IntN(10)]...)
		} else {
			out = append(out, int32(r.IntN(30)))
		}
	}
	return out[:n]
}

// following is the oracle of a draft from a place: what stands there, and at the
// end of the tokens what was drafted first, and so on.
func following(tokens []int32, place int) []int32 {
	all := slices.Clone(tokens)
	for i := range TokensMax {
		all = append(all, all[place+i])
	}
	return all[len(tokens):]
}

// TestDraftIsWhatFollowedBefore compares every draft with all places of the
// sequence: it is what stands after one whose match is as long as it says. But
// for the runs whose hashes are equal, and long runs at more than placesMax
// places, no match is longer.
func TestDraftIsWhatFollowedBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	drafts, long, missed := 0, 0, 0
	for range 40 {
		tokens := text(r, 400)
		l := &lookup{}
		for n := 1 + r.IntN(100); n <= len(tokens); n += 1 + r.IntN(3) {
			draft, match := l.follow(nil, tokens[:n])
			best, stands := 0, false
			for place := shortRun; place < n; place++ {
				m := equal(tokens[:n], place)
				best = max(best, m)
				stands = stands || m == match && slices.Equal(draft, following(tokens[:n], place))
			}
			switch {
			case match > best || (match > 0) != (len(draft) == TokensMax) || match > 0 && !stands:
				t.Fatalf("after %v: %v by a match of %d; the longest is %d", tokens[:n], draft, match, best)
			case best >= longRun && match < best && places(tokens[:n]) < placesMax, best >= shortRun && match == 0:
				missed++
			}
			if best >= shortRun {
				drafts++
			}
			if match >= longRun {
				long++
			}
		}
	}
	if drafts < 1000 || long < 300 || missed > drafts/20 {
		t.Errorf("%d places for drafts, %d by long runs, %d missed", drafts, long, missed)
	}
	t.Logf("%d places for drafts, %d by long runs, %d missed", drafts, long, missed)
}

// places is how often the latest long run stands in tokens.
func places(tokens []int32) (n int) {
	if len(tokens) < longRun {
		return 0
	}
	for place := longRun; place < len(tokens); place++ {
		if equal(tokens, place) >= longRun {
			n++
		}
	}
	return n
}

// TestDraftGoesOnWithAPeriod: a loop shorter than a draft is drafted on.
func TestDraftGoesOnWithAPeriod(t *testing.T) {
	for period := 1; period <= 6; period++ {
		var tokens []int32
		for i := range 3*period + 5 {
			tokens = append(tokens, int32(i%period))
		}
		draft, _ := New(nil).Draft(tokens)
		for i, id := range draft {
			if want := int32((len(tokens) + i) % period); id != want {
				t.Fatalf("period %d: token %d of the draft is %d, want %d", period, i, id, want)
			}
		}
		if len(draft) != TokensMax {
			t.Errorf("period %d: %d tokens", period, len(draft))
		}
	}
}

// TestLookupInPieces: tokens that come one by one, a few or all at once give the
// same drafts, across every size of the books.
func TestLookupInPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	tokens := text(r, 5*windowMin)
	grown := &lookup{}
	for n := 1; n <= len(tokens); n += 1 + r.IntN(2) {
		got, match := grown.follow(nil, tokens[:n])
		if n%17 > 0 {
			continue
		}
		want, wantMatch := (&lookup{}).follow(nil, tokens[:n])
		if !slices.Equal(got, want) || match != wantMatch {
			t.Fatalf("after %d tokens %v by %d, at once %v by %d", n, got, match, want, wantMatch)
		}
	}
}

// TestLookupIsBounded: a very long sequence takes no more than the window, what is
// older is not found, what is in it is.
func TestLookupIsBounded(t *testing.T) {
	tokens := make([]int32, 3*windowMax)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	l := &lookup{}
	for _, back := range []int{10, windowMax / 2, windowMax - 10, windowMax + 10, 2 * windowMax} {
		at := len(tokens) - back
		said := append(tokens, tokens[at:at+longRun]...)
		draft, match := l.follow(nil, said)
		found := match == longRun && slices.Equal(draft, following(said, at+longRun))
		if found != (back < windowMax) {
			t.Errorf("a run %d tokens ago: found %v, by a match of %d", back, found, match)
		}
		tokens = append(said, int32(len(said)))
	}
	if bytes := 4 * (len(l.long) + len(l.before) + len(l.short)); bytes != 20*windowMax {
		t.Errorf("the books have %d bytes, want %d", bytes, 20*windowMax)
	}
}

// TestStopsEndADraft: nothing is drafted from a stop on.
func TestStopsEndADraft(t *testing.T) {
	draft, _ := New([]int32{9}).Draft([]int32{1, 2, 3, 4, 9, 5, 1, 2, 3})
	if !slices.Equal(draft, []int32{4}) {
		t.Errorf("draft %v, want [4]", draft)
	}
	draft, chance := New([]int32{9}).Draft([]int32{1, 2, 9, 5, 1, 2})
	if len(draft) > 0 || chance != 0 {
		t.Errorf("draft %v with chance %g, want none", draft, chance)
	}
}

// TestAcceptanceIsWhatWasSeen: the chance comes close to how often drafts are right,
// also when that changes, and without any of them being computed.
func TestAcceptanceIsWhatWasSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	d := New(nil)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	for _, p := range []float64{0.9, 0.1, 0.6} {
		sum, n := 0.0, 0
		for i := range 3000 {
			draft, chance := d.Draft(tokens)
			next := int32(r.IntN(8))
			if len(draft) > 0 && r.Float64() < p {
				next = draft[0]
			} else if len(draft) > 0 && next == draft[0] {
				next++
			}
			d.Observe([]int32{next})
			tokens = append(tokens, next)
			if len(draft) > 0 && i > 500 {
				sum, n = sum+chance, n+1
			}
		}
		if mean := sum / float64(n); mean < p-0.05 || mean > p+0.05 {
			t.Errorf("drafts are right with %g, the mean chance is %g", p, mean)
		}
	}
}

// TestObserveCountsOnce: what comes after the first wrong token, or after a draft
// that counted already, teaches nothing.
func TestObserveCountsOnce(t *testing.T) {
	d := New(nil)
	d.Draft([]int32{1, 2, 3, 4, 1, 2})
	d.Observe([]int32{3, 5, 1, 2})
	once := d.acceptance
	if seen := once[kindOf(2)]; seen.seen < 1.9 || seen.seen > 2 || seen.right > 1 {
		t.Errorf("one right and one wrong were counted as %+v", seen)
	}
	d.Observe([]int32{3, 4})
	if d.acceptance != once {
		t.Error("a draft counted twice")
	}
}

func BenchmarkDraft(b *testing.B) {
	tokens := text(rand.New(rand.NewPCG(4, 4)), 32768)
	b.Run("token", func(b *testing.B) {
		b.ReportAllocs()
		d := New([]int32{40, 41})
		for i := 0; b.Loop(); i++ {
			if i%16384 == 0 {
				d = New([]int32{40, 41}) // tokens only grow
			}
			draft, _ := d.Draft(tokens[:16384+i%16384])
			d.Observe(draft[:min(1, len(draft))])
		}
	})
	b.Run("prompt of 32768", func(b *testing.B) {
		for b.Loop() {
			New(nil).Draft(tokens)
		}
	})
}
