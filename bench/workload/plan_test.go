package workload

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLengthsThatAreRead(t *testing.T) {
	for in, want := range map[string]string{
		"251": "fixed:251", "fixed:3": "fixed:3", "uniform:10-20": "uniform:10-20", "lognormal:100,0.5": "lognormal:100,0.5,800", "lognormal:100,0.5,300": "lognormal:100,0.5,300",
	} {
		l, err := ParseLengths(in)
		if err != nil || l.String() != want {
			t.Errorf("%q: %v, %v", in, l, err)
		}
		if again, err := ParseLengths(l.String()); err != nil || again != l {
			t.Errorf("%q: read again: %v, %v", l, again, err)
		}
	}
	for _, in := range []string{"", "x", "0", "-5", "NaN", "fixed:1,2", "uniform:5", "uniform:9-3", "uniform:1-99999999", "lognormal:5", "lognormal:5,-1", "lognormal:5,1,2", "zipf:1", "2000000"} {
		if l, err := ParseLengths(in); err == nil {
			t.Errorf("%q became %v", in, l)
		}
	}
}

// draw returns many lengths.
func draw(t *testing.T, text string) []float64 {
	l, err := ParseLengths(text)
	if err != nil {
		t.Fatal(err)
	}
	r, values := Random(7, streamSample, 0), make([]float64, 40_000)
	for i := range values {
		values[i] = float64(l.Draw(r))
	}
	return values
}

func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean, variance
}

// near says whether a number is within a share of another.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// The oracles are the moments that the distributions have by their formulas.
func TestDistributionsHaveTheirMoments(t *testing.T) {
	mean, variance := moments(draw(t, "uniform:10-109"))
	if !near(mean, 59.5, 0.01) || !near(variance, (100*100-1)/12.0, 0.02) {
		t.Errorf("uniform: mean %v, variance %v", mean, variance)
	}
	values := draw(t, "lognormal:200,0.4,100000")
	mean, variance = moments(values)
	s2 := 0.4 * 0.4
	if m := 200 * math.Exp(s2/2); !near(mean, m, 0.01) || !near(variance, (math.Exp(s2)-1)*m*m, 0.05) {
		t.Errorf("lognormal: mean %v, variance %v", mean, variance)
	}
	slices.Sort(values)
	if !near(values[len(values)/2], 200, 0.02) {
		t.Errorf("lognormal: median %v", values[len(values)/2])
	}
	if v := draw(t, "lognormal:200,2,300"); slices.Max(v) != 300 || slices.Min(v) < 1 {
		t.Errorf("cut lognormal: %v to %v", slices.Min(v), slices.Max(v))
	}
}

// arrivals takes the first n.
func arrivals(t *testing.T, a Arrivals, n int) []float64 {
	list, before := make([]float64, n), time.Duration(0)
	for i := range list {
		at, ok := a()
		if !ok || at < before {
			t.Fatalf("arrival %d at %v after %v, %v", i, at, before, ok)
		}
		list[i], before = at.Seconds(), at
	}
	return list
}

// Gaps of a Poisson process are exponential: mean and deviation are both
// 1/rate, and the numbers in equal spans have their mean as variance.
func TestPoisson(t *testing.T) {
	const rate, n = 50.0, 50_000
	at := arrivals(t, Poisson(rate, 0, Random(3, StreamArrivals, 0)), n)
	gaps, perSpan := make([]float64, 0, n), make([]float64, int(at[n-1]))
	for i := 1; i < n; i++ {
		gaps = append(gaps, at[i]-at[i-1])
		if s := int(at[i]); s < len(perSpan) {
			perSpan[s]++
		}
	}
	mean, variance := moments(gaps)
	if !near(mean, 1/rate, 0.02) || !near(variance, 1/rate/rate, 0.05) {
		t.Errorf("gaps: mean %v, variance %v", mean, variance)
	}
	if mean, variance = moments(perSpan); !near(mean, rate, 0.02) || !near(variance, rate, 0.12) {
		t.Errorf("per second: mean %v, variance %v", mean, variance)
	}
	again := arrivals(t, Poisson(rate, 0, Random(3, StreamArrivals, 0)), 100)
	other := arrivals(t, Poisson(rate, 0, Random(4, StreamArrivals, 0)), 100)
	if !slices.Equal(at[:100], again) || slices.Equal(at[:100], other) {
		t.Error("a seed does not say when requests arrive")
	}
}

func TestRampIsALine(t *testing.T) {
	at := arrivals(t, Constant(100, 10*time.Second), 1000)
	// The integral of the rate: 100*t*t/20 within the ramp, 500 in all, then 100 a second.
	for i, want := range map[int]float64{4: 1, 19: 2, 124: 5, 499: 10, 599: 11, 999: 15} {
		if math.Abs(at[i]-want) > 1e-6 {
			t.Errorf("arrival %d at %v, want %v", i, at[i], want)
		}
	}
}

func TestTraces(t *testing.T) {
	offsets, err := ReadTrace(strings.NewReader("offset_s,more\n# a remark\n0,x\n0.5\n 0.5\n2,y\n"))
	if err != nil || !slices.Equal(offsets, []time.Duration{0, time.Second / 2, time.Second / 2, 2 * time.Second}) {
		t.Errorf("%v, %v", offsets, err)
	}
	a := Trace(offsets)
	arrivals(t, a, 4)
	if _, ok := a(); ok {
		t.Error("a trace has no end")
	}
	for _, in := range []string{"", "heading\n", "1\n0\n", "-1\n", "1\nx\n", "NaN\nNaN\n"} {
		if got, err := ReadTrace(strings.NewReader(in)); err == nil {
			t.Errorf("%q became %v", in, got)
		}
	}
	pairs, err := ReadPairs(strings.NewReader("input,output\n100,20\n7,3\n"))
	if err != nil || !slices.Equal(pairs, []Pair{{100, 20}, {7, 3}}) {
		t.Errorf("%v, %v", pairs, err)
	}
	for _, in := range []string{"5\n6\n", "0,1\n", "1,99999999\n"} {
		if got, err := ReadPairs(strings.NewReader(in)); err == nil {
			t.Errorf("%q became %v", in, got)
		}
	}
}

func TestWordsAreWhatTheyAreCountedAs(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range words {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" || seen[w] {
			t.Errorf("word %q", w)
		}
		seen[w] = true
	}
	if len(words) != 256 { // a byte of random bits each
		t.Errorf("%d words", len(words))
	}
	for _, n := range []int{1, 8, 9, 1000} {
		if got := len(bytes.Fields(AppendWords(nil, Random(1, streamSample, 0), n))); got != n {
			t.Errorf("%d words, want %d", got, n)
		}
	}
}

func shape(t *testing.T) Shape {
	in, err1 := ParseLengths("uniform:50-150")
	out, err2 := ParseLengths("lognormal:20,1")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return Shape{Seed: 9, Input: in, Output: out, Turns: 3, Think: time.Second, Keys: 2, PrefixTokens: 40, PrefixGroup: 3,
		Size: Calibration{PerWord: 1.25, Overhead: 10}}
}

// asks are all turns of a conversation.
func asks(c *Conversation) (list []Ask) {
	for a, ok := c.Next(); ok; a, ok = c.Next() {
		list = append(list, a)
	}
	return list
}

func TestConversationsFollowFromSeedAndNumber(t *testing.T) {
	s, other := shape(t), shape(t)
	other.Seed++
	prompts := map[string]bool{}
	for number := range 50 {
		c := s.Conversation(number)
		a, b, x := asks(c), asks(s.Conversation(number)), asks(other.Conversation(number))
		if len(a) != 3 || len(b) != 3 || c.Key != number%2 {
			t.Fatalf("conversation %d: %d turns, key %d", number, len(a), c.Key)
		}
		for i := range a {
			if !bytes.Equal(a[i].Prompt, b[i].Prompt) || a[i].OutputMax != b[i].OutputMax || bytes.Equal(a[i].Prompt, x[i].Prompt) {
				t.Errorf("conversation %d, turn %d does not follow from its seed", number, i)
			}
			if prompts[string(a[i].Prompt)] {
				t.Errorf("conversation %d, turn %d was asked before", number, i)
			}
			prompts[string(a[i].Prompt)] = true
			if first := i == 0; first != (a[i].Think == 0) {
				t.Errorf("turn %d after %v", i, a[i].Think)
			}
		}
		if n := len(bytes.Fields(a[0].Prompt)); n < (50-10)*4/5 || n > (150-10)*4/5+1 {
			t.Errorf("%d words for 50 to 150 tokens", n)
		}
		if same := bytes.Equal(c.System, s.Conversation(number/3*3).System); !same || len(bytes.Fields(c.System)) != 32 {
			t.Errorf("conversation %d has %d words of system, those of its group: %v", number, len(bytes.Fields(c.System)), same)
		}
	}
	if bytes.Equal(s.Conversation(2).System, s.Conversation(3).System) || s.Conversation(2).Session == s.Conversation(3).Session {
		t.Error("two groups share a prefix, or two conversations a session")
	}
	s.PrefixGroup = 0
	if !bytes.Equal(s.Conversation(0).System, s.Conversation(99).System) {
		t.Error("with a group of 0 not all share the prefix")
	}
}

func TestPairsAndRandomPauses(t *testing.T) {
	s := shape(t)
	s.Pairs, s.ThinkRandom, s.Turns = []Pair{{110, 5}, {210, 9}}, true, 2000
	s.Size = Calibration{PerWord: 1}
	sum := 0.0
	for i, a := range asks(s.Conversation(0)) {
		if n := len(bytes.Fields(a.Prompt)); n != 110 && n != 210 || (n == 110) != (a.OutputMax == 5) {
			t.Fatalf("turn %d: %d words, at most %d tokens", i, n, a.OutputMax)
		}
		sum += a.Think.Seconds() / 1999
	}
	if !near(sum, 1, 0.1) {
		t.Errorf("pauses of %v s on average, want 1", sum)
	}
}

func TestFit(t *testing.T) {
	c, err := Fit(24, 40, 216, 280)
	if err != nil || !near(c.PerWord, 1.25, 1e-9) || !near(c.Overhead, 10, 1e-9) || c.Words(251, c.Overhead) != 193 ||
		c.Words(1, c.Overhead) != 1 {
		t.Errorf("%+v, %v, %d words", c, err, c.Words(251, c.Overhead))
	}
	if _, err := Fit(24, 40, 216, 40); err == nil {
		t.Error("a server that counts the same for any prompt was believed")
	}
}
