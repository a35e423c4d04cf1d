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

// following is the oracle of a guess from a place: what stands there, and at the
// end of the tokens what was guessed first, and so on.
func following(tokens []int32, place int) []int32 {
	all := slices.Clone(tokens)
	for i := range TokensMax {
		all = append(all, all[place+i])
	}
	return all[len(tokens):]
}

// TestGuessIsWhatFollowedBefore compares every guess with all places of the
// sequence: it is what stands after one whose match is as long as it says. But
// for the runs whose hashes are equal, and long runs at more than placesMax
// places, no match is longer.
func TestGuessIsWhatFollowedBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	guesses, long, missed := 0, 0, 0
	for range 40 {
		tokens := text(r, 400)
		l := &lookup{}
		for n := 1 + r.IntN(100); n <= len(tokens); n += 1 + r.IntN(3) {
			guess, match := l.follow(nil, tokens[:n])
			best, stands := 0, false
			for place := shortRun; place < n; place++ {
				m := equal(tokens[:n], place)
				best = max(best, m)
				stands = stands || m == match && slices.Equal(guess, following(tokens[:n], place))
			}
			switch {
			case match > best || (match > 0) != (len(guess) == TokensMax) || match > 0 && !stands:
				t.Fatalf("after %v: %v by a match of %d; the longest is %d", tokens[:n], guess, match, best)
			case best >= longRun && match < best && places(tokens[:n]) < placesMax, best >= shortRun && match == 0:
				missed++
			}
			if best >= shortRun {
				guesses++
			}
			if match >= longRun {
				long++
			}
		}
	}
	if guesses < 1000 || long < 300 || missed > guesses/20 {
		t.Errorf("%d places for guesses, %d by long runs, %d missed", guesses, long, missed)
	}
	t.Logf("%d places for guesses, %d by long runs, %d missed", guesses, long, missed)
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

// TestGuessGoesOnWithAPeriod: a loop shorter than a guess is guessed on.
func TestGuessGoesOnWithAPeriod(t *testing.T) {
	for period := 1; period <= 6; period++ {
		var tokens []int32
		for i := range 3*period + 5 {
			tokens = append(tokens, int32(i%period))
		}
		guess, _ := New(nil).Guess(tokens)
		for i, id := range guess {
			if want := int32((len(tokens) + i) % period); id != want {
				t.Fatalf("period %d: token %d of the guess is %d, want %d", period, i, id, want)
			}
		}
		if len(guess) != TokensMax {
			t.Errorf("period %d: %d tokens", period, len(guess))
		}
	}
}

// TestLookupInPieces: tokens that come one by one, a few or all at once give the
// same guesses, across every size of the books.
func TestLookupInPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	tokens := text(r, 5*windowLeast)
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
		guess, match := l.follow(nil, said)
		found := match == longRun && slices.Equal(guess, following(said, at+longRun))
		if found != (back < windowMax) {
			t.Errorf("a run %d tokens ago: found %v, by a match of %d", back, found, match)
		}
		tokens = append(said, int32(len(said)))
	}
	if bytes := 4 * (len(l.long) + len(l.before) + len(l.short)); bytes != 20*windowMax {
		t.Errorf("the books have %d bytes, want %d", bytes, 20*windowMax)
	}
}

// TestStopsEndAGuess: nothing is guessed from a stop on.
func TestStopsEndAGuess(t *testing.T) {
	guess, _ := New([]int32{9}).Guess([]int32{1, 2, 3, 4, 9, 5, 1, 2, 3})
	if !slices.Equal(guess, []int32{4}) {
		t.Errorf("guess %v, want [4]", guess)
	}
	guess, chance := New([]int32{9}).Guess([]int32{1, 2, 9, 5, 1, 2})
	if len(guess) > 0 || chance != 0 {
		t.Errorf("guess %v with chance %g, want none", guess, chance)
	}
}

// TestTrustIsWhatWasSeen: the chance comes close to how often guesses are right,
// also when that changes, and without any of them being computed.
func TestTrustIsWhatWasSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	d := New(nil)
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8}
	for _, p := range []float64{0.9, 0.1, 0.6} {
		sum, n := 0.0, 0
		for i := range 3000 {
			guess, chance := d.Guess(tokens)
			next := int32(r.IntN(8))
			if len(guess) > 0 && r.Float64() < p {
				next = guess[0]
			} else if len(guess) > 0 && next == guess[0] {
				next++
			}
			d.Saw([]int32{next})
			tokens = append(tokens, next)
			if len(guess) > 0 && i > 500 {
				sum, n = sum+chance, n+1
			}
		}
		if mean := sum / float64(n); mean < p-0.05 || mean > p+0.05 {
			t.Errorf("guesses are right with %g, the mean chance is %g", p, mean)
		}
	}
}

// TestSawCountsOnce: what comes after the first wrong token, or after a guess
// that counted already, teaches nothing.
func TestSawCountsOnce(t *testing.T) {
	d := New(nil)
	d.Guess([]int32{1, 2, 3, 4, 1, 2})
	d.Saw([]int32{3, 5, 1, 2})
	once := d.trust
	if seen := once[kindOf(2)]; seen.seen < 1.9 || seen.seen > 2 || seen.right > 1 {
		t.Errorf("one right and one wrong were counted as %+v", seen)
	}
	d.Saw([]int32{3, 4})
	if d.trust != once {
		t.Error("a guess counted twice")
	}
}

func BenchmarkGuess(b *testing.B) {
	tokens := text(rand.New(rand.NewPCG(4, 4)), 32768)
	b.Run("token", func(b *testing.B) {
		b.ReportAllocs()
		d := New([]int32{40, 41})
		for i := 0; b.Loop(); i++ {
			if i%16384 == 0 {
				d = New([]int32{40, 41}) // tokens only grow
			}
			guess, _ := d.Guess(tokens[:16384+i%16384])
			d.Saw(guess[:min(1, len(guess))])
		}
	})
	b.Run("prompt of 32768", func(b *testing.B) {
		for b.Loop() {
			New(nil).Guess(tokens)
		}
	})
}
