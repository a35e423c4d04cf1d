package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var nan, inf, negativeZero = float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))

// expected is the distribution that the package comment describes, computed the
// slow way: sort everything, filter one after the other, normalize.
func expected(p Params, logits []float32) []float64 {
	type token struct {
		id int
		w  float64
	}
	var all []token
	most := math.Inf(-1)
	for _, x := range logits {
		most = math.Max(most, float64(x))
	}
	for i, x := range logits {
		all = append(all, token{i, math.Exp((float64(x) - most) / float64(p.Temperature))})
	}
	slices.SortStableFunc(all, func(a, b token) int {
		return int(math.Copysign(1, float64(logits[b.id])-float64(logits[a.id]))) * btoi(logits[a.id] != logits[b.id])
	})
	sum := func() (s float64) {
		for _, x := range all {
			s += x.w
		}
		return s
	}
	if p.TopK > 0 && p.TopK < len(all) {
		all = all[:p.TopK]
	}
	total, have := sum(), 0.0
	for i, x := range all {
		if have += x.w; have >= float64(p.TopP)*total*(1-1e-12) && p.TopP < 1 {
			all = all[:i+1]
			break
		}
	}
	for i, x := range all {
		if x.w < float64(p.MinP)*all[0].w {
			all = all[:i]
			break
		}
	}
	out := make([]float64, len(logits))
	total = sum()
	for _, x := range all {
		out[x.id] = x.w / total
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func noise(n int, spread float64, seed uint64) []float32 {
	g := rand.New(rand.NewPCG(seed, 7))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(g.NormFloat64() * spread)
	}
	return out
}

// TestDistribution draws many times and compares the counts with the
// expected distribution by Pearson's chi-square; 6 standard deviations above
// its mean never happen by chance, and the draws are seeded anyway.
func TestDistribution(t *testing.T) {
	tied := append(noise(40, 1, 3), 2, 2, 2, 2, 2, 2)
	wide := noise(3000, 2, 4) // several blocks
	cases := []struct {
		name   string
		p      Params
		logits []float32
	}{
		{"plain", Params{Temperature: 1, TopP: 1}, noise(50, 2, 1)},
		{"hot", Params{Temperature: 50, TopP: 1}, noise(50, 2, 1)},
		{"cold", Params{Temperature: 0.3, TopP: 1}, noise(50, 2, 1)},
		{"top_k", Params{Temperature: 1, TopP: 1, TopK: 7}, noise(50, 2, 2)},
		{"top_k of ties", Params{Temperature: 1, TopP: 1, TopK: 3}, tied},
		{"top_k above the vocabulary", Params{Temperature: 1, TopP: 1, TopK: 51}, noise(50, 2, 2)},
		{"top_p", Params{Temperature: 1, TopP: 0.8}, noise(50, 2, 2)},
		{"top_p of ties", Params{Temperature: 1, TopP: 0.3}, tied},
		{"top_p of all equal", Params{Temperature: 1, TopP: 0.5}, make([]float32, 64)},
		{"min_p", Params{Temperature: 1, TopP: 1, MinP: 0.1}, noise(50, 2, 2)},
		{"min_p of one", Params{Temperature: 1, TopP: 1, MinP: 1}, tied},
		{"everything", Params{Temperature: 0.7, TopP: 0.9, TopK: 20, MinP: 0.02}, noise(50, 2, 5)},
		{"top_p and min_p", Params{Temperature: 2, TopP: 0.95, MinP: 0.05}, noise(50, 2, 5)},
		{"many tokens", Params{Temperature: 1, TopP: 1}, wide},
		{"many tokens, top_p", Params{Temperature: 1.5, TopP: 0.9}, wide},
		{"many tokens, large top_k", Params{Temperature: 1.5, TopP: 1, TopK: 1500}, wide},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const draws = 10000
			s := New(c.p, nil, nil)
			counts := make([]int, len(c.logits))
			work := make([]float32, len(c.logits))
			for range draws {
				copy(work, c.logits)
				id := s.Sample(work)
				s.Accept(id)
				counts[id]++
			}
			checkCounts(t, counts, expected(c.p, c.logits), draws)
		})
	}
}

// checkCounts pools tokens expected fewer than 5 times, as the test requires.
func checkCounts(t *testing.T, counts []int, want []float64, draws int) {
	t.Helper()
	var chi, rareWant float64
	var rare, degrees int
	add := func(n int, e float64) {
		chi += (float64(n) - e) * (float64(n) - e) / e
		degrees++
	}
	for id, p := range want {
		e := p * float64(draws)
		switch {
		case p == 0 && counts[id] > 0:
			t.Fatalf("token %d was drawn %d times, but is filtered out", id, counts[id])
		case e < 5:
			rareWant += e
			rare += counts[id]
		default:
			add(counts[id], e)
		}
	}
	if rareWant >= 5 {
		add(rare, rareWant)
	}
	free := float64(degrees - 1)
	if chi > free+6*math.Sqrt(2*max(free, 1)) {
		t.Fatalf("chi-square %.1f with %d degrees of freedom", chi, degrees-1)
	}
	if float64(rare) > rareWant+6*math.Sqrt(rareWant+1) {
		t.Fatalf("rare tokens were drawn %d times, expected %.1f", rare, rareWant)
	}
}

// TestCutsAgree: the kept set must be the expected one exactly, on distributions that are
// hard for bins: flat, steep, with outliers. Every kept token gets drawn
// when weights are made equal, so compare the cuts themselves.
func TestCutsAgree(t *testing.T) {
	shapes := map[string][]float32{
		"normal": noise(5000, 3, 1), "flat": noise(5000, 1e-4, 2), "steep": noise(5000, 1e4, 3),
		"equal": make([]float32, 5000), "outlier": append(noise(5000, 1, 4), -1e30),
		"impossible": append(noise(5000, 1, 5), minusInf, nan),
	}
	params := []Params{
		{Temperature: 1, TopP: 0.5}, {Temperature: 1, TopP: 0.95}, {Temperature: 1, TopP: 0.999999},
		{Temperature: 100, TopP: 0.9}, {Temperature: 1e-3, TopP: 0.9}, {Temperature: 1e30, TopP: 0.25},
		{Temperature: 1, TopP: 1, MinP: 0.01}, {Temperature: 3, TopP: 0.7, MinP: 0.3},
	}
	for name, logits := range shapes {
		for _, p := range params {
			t.Run(fmt.Sprintf("%s/%v", name, p), func(t *testing.T) {
				possible := slices.DeleteFunc(slices.Clone(logits), func(x float32) bool { return !(x > minusInf) })
				want := 0
				for _, x := range expected(p, possible) {
					want += btoi(x > 0)
				}
				all := New(p, nil, nil)
				got := kept(all, logits)
				few := New(p, nil, nil) // the other path, keeping all
				list := few.topK(logits, len(logits))
				slices.SortFunc(list, byLikelihood)
				f := few.softmax(list[0].logit)
				var mass float64
				for i := range list {
					list[i].weight = f.weight(list[i].logit)
					mass += list[i].weight
				}
				list, _ = few.cutFew(list, mass)
				list = slices.DeleteFunc(list, func(c candidate) bool { return c.weight == 0 })
				// Sums in another order may move the cut by a token when weights are all alike.
				if diff := got - want; diff < -1 || diff > 1 {
					t.Errorf("bins keep %d tokens, want %d", got, want)
				}
				if diff := len(list) - want; diff < -1 || diff > 1 {
					t.Errorf("the sorted list keeps %d tokens, want %d", len(list), want)
				}
			})
		}
	}
}

// kept counts the tokens that sampleAll can draw.
func kept(s *Sampler, logits []float32) int {
	f := s.softmax(logits[Greedy(logits)])
	last := s.least(logits, f)
	n := 0
	for i, x := range logits {
		if c := (candidate{logit: x, id: int32(i)}); x > minusInf && !last.before(c) {
			n += btoi(f.weight(x) > 0)
		}
	}
	return n
}

// TestExp compares with the library's function over the whole range of weights.
func TestExp(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	check := func(x float64) {
		got, want := exp(x), math.Exp(x)
		if math.Abs(got-want) > 1e-12*want && want > 1e-300 || got < 0 || got > 1e-299 && want < 1e-300 {
			t.Fatalf("exp(%g) is %g, want %g", x, got, want)
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), -1e-300, -1, -707, -708, -709, -745, -1e30, math.Inf(-1), -math.Ln2} {
		check(x)
	}
	for range 100000 {
		check(-g.ExpFloat64() * 60)
		check(-g.Float64() * 1e-3)
	}
}

func TestDeterminism(t *testing.T) {
	logits := noise(100, 1, 9)
	run := func(seed uint64, disturb bool) (out []int32) {
		s := New(Params{Temperature: 1, TopP: 0.99, Seed: seed, FrequencyPenalty: 2, RepetitionPenalty: 2}, []int32{7}, []int32{1, 2, 3})
		other := New(Params{Temperature: 1, TopP: 1, Seed: 99}, nil, nil)
		for i := range 50 {
			if disturb {
				other.Sample(slices.Clone(logits))
			}
			if disturb && i == 20 { // a preemption: rebuilt from the tokens
				s = New(s.p, s.mask, s.prompt)
				for _, id := range out {
					s.Accept(id)
				}
			}
			if disturb && i == 30 { // another sampler goes on
				s = Resume(s.p, s.State())
			}
			id := s.Sample(slices.Clone(logits))
			if again := s.Sample(slices.Clone(logits)); again != id {
				t.Fatalf("draw %d changed from %d to %d without a new token", i, id, again)
			}
			s.Accept(id)
			out = append(out, id)
		}
		return out
	}
	first := run(1, false)
	if got := run(1, true); !slices.Equal(got, first) {
		t.Errorf("same seed, other tokens: %v and %v", got, first)
	}
	if got := run(2, false); slices.Equal(got, first) {
		t.Error("another seed gives the same tokens")
	}
	if slices.Equal(first[:25], first[25:]) {
		t.Error("draws repeat")
	}
}

// TestUniform: mix is the finalizer of splitmix64, whose first numbers from 0 its authors publish, and a draw is 53 bits of it.
func TestUniform(t *testing.T) {
	state := uint64(0)
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		state += 0x9e3779b97f4a7c15
		if got := mix(state); got != want {
			t.Errorf("number %d is %#x, want %#x", i, got, want)
		}
		if got, want := Uniform(0, uint64(i+1)), float64(want>>11)/(1<<53); got != want {
			t.Errorf("draw %d is %v, want %v", i+1, got, want)
		}
	}
}

func TestEdges(t *testing.T) {
	cases := []struct {
		name   string
		p      Params
		logits []float32
		mask   []int32
		want   int32
	}{
		{"greedy", Params{}, []float32{1, 3, 3, 2}, nil, 1},
		{"temperature 0", Params{TopP: 1}, []float32{1, 3, 2.9, 3}, nil, 1},
		{"temperature 0, top_k", Params{TopP: 0.9, TopK: 3}, []float32{1, 3, 2.9, 3}, nil, 1},
		{"greedy, mask", Params{}, []float32{1, 3, 3, 2}, []int32{-5, 1, 100}, 2},
		{"greedy, NaN first", Params{}, []float32{nan, 3, nan, 4}, nil, 3},
		{"all NaN", Params{Temperature: 1, TopP: 1}, []float32{nan, nan}, nil, 0},
		{"all NaN, top_k", Params{Temperature: 1, TopP: 1, TopK: 1}, []float32{nan, nan}, []int32{0}, 1},
		{"all -Inf", Params{Temperature: 1, TopP: 0.5}, []float32{-inf, -inf, -inf}, []int32{0}, 1},
		{"all -Inf, top_k 2", Params{Temperature: 1, TopP: 0.5, TopK: 2}, []float32{-inf, -inf, -inf}, []int32{0, 1}, 2},
		{"all masked", Params{Temperature: 1, TopP: 1}, []float32{1, 2}, []int32{0, 1}, 0},
		{"one possible", Params{Temperature: 1, TopP: 1}, []float32{nan, -inf, -4, -inf}, nil, 2},
		{"one possible, top_p", Params{Temperature: 1, TopP: 0.5}, []float32{nan, -inf, -4, -inf}, nil, 2},
		{"one possible, top_k", Params{Temperature: 1, TopP: 1, TopK: 2}, []float32{nan, -inf, -4, -inf}, nil, 2},
		{"+Inf is certain", Params{Temperature: 1, TopP: 1}, []float32{5, inf, inf}, nil, 1},
		{"+Inf is certain, top_p", Params{Temperature: 1, TopP: 0.9}, []float32{5, inf, inf}, nil, 1},
		{"+Inf is certain, top_k", Params{Temperature: 1, TopP: 1, TopK: 2}, []float32{5, inf, inf}, nil, 1},
		{"tiniest temperature", Params{Temperature: math.SmallestNonzeroFloat32, TopP: 0.9}, []float32{-3e38, 3e38, 2.9e38}, nil, 1},
		{"tiniest temperature, top_k", Params{Temperature: math.SmallestNonzeroFloat32, TopP: 1, TopK: 2}, []float32{-3e38, 3e38, 2.9e38}, nil, 1},
		{"tiniest temperature, -0 is the largest", Params{Temperature: math.SmallestNonzeroFloat32, TopP: 0.9}, []float32{-3, negativeZero, -2}, nil, 1},
		{"top_p, -0 is the largest", Params{Temperature: 0.25, TopP: 0.5}, []float32{-3, negativeZero, -2}, nil, 1},
		{"the first token, of many", Params{Temperature: 1, TopP: 1}, append([]float32{40}, make([]float32, 3000)...), nil, 0},
		{"top_p 0", Params{Temperature: 9, TopP: 0}, []float32{1, 2, 1}, nil, 1},
		{"min_p 1", Params{Temperature: 9, TopP: 1, MinP: 1}, []float32{1, 2, 1}, nil, 1},
		{"top_k 1 of ties", Params{Temperature: 9, TopP: 1, TopK: 1}, []float32{1, 2, 2}, nil, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				c.p.Seed = seed
				if got := New(c.p, c.mask, nil).Sample(slices.Clone(c.logits)); got != c.want {
					t.Fatalf("seed %d: token %d, want %d", seed, got, c.want)
				}
			}
		})
	}
}

// TestLargestTemperature: everything possible is about equally likely.
func TestLargestTemperature(t *testing.T) {
	for _, p := range []Params{{TopP: 1}, {TopP: 1, TopK: 3}, {TopP: 0.99}} {
		p.Temperature = math.MaxFloat32
		s, counts := New(p, []int32{4}, nil), map[int32]int{}
		for range 3000 {
			id := s.Sample([]float32{-40, 9, 0, -inf, 7})
			s.Accept(id)
			counts[id]++
		}
		for id := range int32(3) {
			if n := counts[id]; n < 850 || n > 1150 {
				t.Errorf("%+v: token %d was drawn %d times of 3000, want about 1000", p, id, n)
			}
		}
	}
}

func TestPenalties(t *testing.T) {
	cases := []struct {
		name   string
		p      Params
		tokens []int32
		want   []float32 // logits {2, -2, 1, 0} after the penalties
	}{
		{"none", Params{}, []int32{0, 1}, []float32{2, -2, 1, 0}},
		{"one is none", Params{RepetitionPenalty: 1}, []int32{0, 1}, []float32{2, -2, 1, 0}},
		{"repetition", Params{RepetitionPenalty: 2}, []int32{0, 1, 0}, []float32{1, -4, 1, 0}},
		{"presence", Params{PresencePenalty: 0.5}, []int32{0, 0, 3}, []float32{1.5, -2, 1, -0.5}},
		{"frequency", Params{FrequencyPenalty: 0.5}, []int32{0, 0, 3}, []float32{1, -2, 1, -0.5}},
		{"negative", Params{FrequencyPenalty: -1}, []int32{2}, []float32{2, -2, 2, 0}},
		{"all", Params{RepetitionPenalty: 2, PresencePenalty: 1, FrequencyPenalty: 0.25}, []int32{0, 0, 1},
			[]float32{-0.5, -5.25, 1, 0}},
		{"outside the vocabulary", Params{PresencePenalty: 1}, []int32{-1, 4, 1 << 30}, []float32{2, -2, 1, 0}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := New(c.p, nil, nil)
			for _, id := range c.tokens {
				s.Accept(id)
			}
			got := []float32{2, -2, 1, 0}
			id := s.Sample(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("logits %v, want %v", got, c.want)
			}
			if id != Greedy(c.want) {
				t.Errorf("token %d, want %d", id, Greedy(c.want))
			}
		})
	}
}

// TestPenaltiesAgainstTheFormula: random answers and penalties give the logits
// of the formula, computed from the whole answer, and the token drawn from them.
func TestPenaltiesAgainstTheFormula(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 9))
	for round := range 300 {
		p := Params{Temperature: float32(round % 2), TopP: 1, Seed: uint64(round),
			PresencePenalty: g.Float32()*4 - 2, FrequencyPenalty: g.Float32()*4 - 2, RepetitionPenalty: g.Float32() * 2}
		switch round % 5 {
		case 0:
			p.PresencePenalty, p.RepetitionPenalty = 0, 0
		case 1:
			p.FrequencyPenalty, p.RepetitionPenalty = 0, 1
		}
		var answer, prompt []int32
		for range (round % 3) * 40 {
			prompt = append(prompt, int32(g.IntN(250))-10) // some are no tokens
		}
		logits, s := noise(200, 3, uint64(round)), New(p, nil, Distinct(prompt))
		for range g.IntN(100) {
			id := int32(g.IntN(1 + g.IntN(len(logits))))
			answer = append(answer, id)
			s.Accept(id)
		}
		want := slices.Clone(logits)
		for id := range want {
			n := 0
			for _, a := range answer {
				n += btoi(int(a) == id)
			}
			if n > 0 || slices.Contains(prompt, int32(id)) {
				want[id] = penalized(p, want[id], n)
			}
		}
		plain := New(Params{Temperature: p.Temperature, TopP: 1, Seed: p.Seed}, nil, nil)
		for range answer {
			plain.Accept(0)
		}
		got := slices.Clone(logits)
		if id, other := s.Sample(got), plain.Sample(slices.Clone(want)); !slices.Equal(got, want) || id != other {
			t.Fatalf("%+v after %v and %v: token %d of logits %v,\nwant %d of %v", p, prompt, answer, id, got, other, want)
		}
	}
}

// penalized is the logit of a token of the prompt or the answer that was generated n times.
func penalized(p Params, x float32, n int) float32 {
	switch repeat := p.RepetitionPenalty; {
	case repeat == 0: // none
	case x > 0:
		x /= repeat
	default:
		x *= repeat
	}
	if n == 0 {
		return x
	}
	return x - (float32(n)*p.FrequencyPenalty + p.PresencePenalty)
}

// TestPreview: a look ahead is the draw, and changes neither it nor the logits.
func TestPreview(t *testing.T) {
	for _, p := range []Params{{}, {Temperature: 1, TopP: 1},
		{Temperature: 1.3, TopP: 0.9, TopK: 20, PresencePenalty: 1, RepetitionPenalty: 1.2, Seed: 7}} {
		looking, plain := New(p, []int32{3}, []int32{5}), New(p, []int32{3}, []int32{5})
		for n := range uint64(50) {
			logits := noise(300, 2, n)
			before := slices.Clone(logits)
			got := looking.Preview(logits)
			if !slices.Equal(logits, before) {
				t.Fatal("a look ahead changes the logits")
			}
			drawn, want := looking.Sample(logits), plain.Sample(before)
			if got != want || drawn != want {
				t.Fatalf("%+v: previewed %d, drew %d; without a look %d", p, got, drawn, want)
			}
			looking.Accept(drawn)
			plain.Accept(want)
		}
	}
}

// TestHide: what is hidden for one draw is drawn again at the next.
func TestHide(t *testing.T) {
	s := New(Params{RepetitionPenalty: 2}, []int32{2}, []int32{0})
	logits := []float32{1, 5, 9, 4}
	hidden := slices.Clone(logits)
	Hide(hidden, []int32{1, -1, 4, 9})
	if a, b := s.Sample(hidden), s.Sample(slices.Clone(logits)); a != 3 || b != 1 {
		t.Errorf("drew %d with token 1 hidden and %d without, want 3 and 1", a, b)
	}
	if Hide(logits, []int32{0}); logits[0] != minusInf {
		t.Errorf("token 0 is possible, with %v", logits[0])
	}
}

func TestValidate(t *testing.T) {
	good := []Params{{}, {Temperature: 1e30, TopP: 1, TopK: 1 << 30, MinP: 1, RepetitionPenalty: 1.1, PresencePenalty: -2,
		FrequencyPenalty: 2}}
	for _, p := range good {
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	bad := map[string]Params{
		"temperature": {Temperature: -0.1}, "temperature is NaN": {Temperature: nan}, "temperature is +Inf": {Temperature: inf},
		"top_p": {TopP: 1.01}, "min_p": {MinP: -0.5}, "top_k": {TopK: -1}, "presence_penalty": {PresencePenalty: 2.5},
		"frequency_penalty": {FrequencyPenalty: nan}, "repetition_penalty": {RepetitionPenalty: -1},
		"repetition_penalty is 0.001": {RepetitionPenalty: 0.001}, "repetition_penalty is 101": {RepetitionPenalty: 101},
	}
	for want, p := range bad {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %s", p, err, want)
		}
	}
	all := Params{Temperature: -1, TopP: 2, MinP: 2, TopK: -1}.Validate()
	if all == nil || strings.Count(all.Error(), "want") != 4 {
		t.Errorf("error %v, want all four values", all)
	}
}

// FuzzSample: whatever the logits, the token exists, is not masked unless all are, and is possible
// if any is.
func FuzzSample(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f, 1, 2, 3, 4}, float32(1), float32(0.5), float32(0.1), uint16(2), uint64(3))
	f.Add(make([]byte, 40), float32(1e-45), float32(1), float32(1), uint16(0), uint64(0))
	f.Add([]byte{0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0x7f}, float32(math.MaxFloat32), float32(0.9999), float32(0), uint16(0),
		uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, temperature, topP, minP float32, topK uint16, seed uint64) {
		p := Params{Temperature: temperature, TopP: topP, MinP: minP, TopK: int(topK), Seed: seed}
		if p.Validate() != nil || len(raw) < 4 {
			return
		}
		var logits []float32
		possible := false
		for ; len(raw) >= 4; raw = raw[4:] {
			x := math.Float32frombits(uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24)
			logits = append(logits, x)
			possible = possible || x > minusInf && len(logits) > 1
		}
		before := slices.Clone(logits)
		id := New(p, []int32{0}, nil).Sample(logits)
		if id < 0 || int(id) >= len(logits) || id == 0 && len(logits) > 1 || possible && !(before[id] > minusInf) {
			t.Fatalf("%+v of %v: token %d", p, before, id)
		}
	})
}

func TestAllocations(t *testing.T) {
	logits := noise(10000, 3, 1)
	for _, p := range benchParams {
		s, work := New(p.Params, []int32{1, 2}, nil), make([]float32, len(logits))
		once := func() {
			copy(work, logits)
			s.Accept(s.Sample(work))
		}
		for range 200 { // scratch and the table of seen tokens grow to their size
			once()
		}
		if n := testing.AllocsPerRun(200, once); n >= 1 {
			t.Errorf("%s: %v allocations per token", p.name, n)
		}
	}
}

var benchParams = []struct {
	name string
	Params
}{
	{"greedy", Params{}},
	{"top_k 20, top_p 0.95", Params{Temperature: 0.6, TopP: 0.95, TopK: 20}},
	{"top_k 20, presence", Params{Temperature: 1, TopP: 0.95, TopK: 20, PresencePenalty: 1.5}},
	{"top_k 20, all penalties", Params{Temperature: 0.7, TopP: 0.8, TopK: 20, PresencePenalty: 1.5, FrequencyPenalty: 0.1, RepetitionPenalty: 1.05}},
	{"greedy, both penalties", Params{PresencePenalty: 1, FrequencyPenalty: 0.5}},
	{"top_k 100000", Params{Temperature: 1, TopP: 0.95, TopK: 100_000}},
	{"temperature", Params{Temperature: 1, TopP: 1}},
	{"top_p 0.9", Params{Temperature: 0.7, TopP: 0.9}},
	{"top_p 0.95", Params{Temperature: 1, TopP: 0.95}},
	{"min_p 0.05", Params{Temperature: 1, TopP: 1, MinP: 0.05}},
	{"temperature 100, top_p 0.9", Params{Temperature: 100, TopP: 0.9}},
}

// TestLikeliest compares with the sum of exponentials in float64, by every scanner.
func TestLikeliest(t *testing.T) {
	defer func(s scanner) { scan = s }(scan)
	r := rand.New(rand.NewPCG(4, 4))
	for _, scan = range scanners {
		for _, n := range []int{1, 7, 64, 1000, 4099} {
			logits := make([]float32, n)
			for i := range logits {
				logits[i] = float32(8 * r.NormFloat64())
			}
			if n > 7 {
				logits[3], logits[5] = minusInf, float32(math.NaN())
			}
			mask := []int32{int32(n / 3), int32(n + 5)}
			if n == 1 {
				mask = nil
			}
			token, p := Likeliest(logits, mask)
			sum := 0.0
			for _, x := range logits {
				if x == x {
					sum += math.Exp(float64(x) - float64(logits[token]))
				}
			}
			if n > 1 && (token == mask[0] || logits[mask[0]] > minusInf) {
				t.Errorf("%s, %d logits: the masked token is possible", scan.name, n)
			}
			if token != Greedy(logits) || math.Abs(p*sum-1) > 1e-9 {
				t.Errorf("%s, %d logits: token %d with %g, want %d with %g", scan.name, n, token, p, Greedy(logits), 1/sum)
			}
		}
	}
	if _, p := Likeliest([]float32{minusInf, minusInf}, nil); p != 0 {
		t.Errorf("probability %g where nothing is possible", p)
	}
	if token, p := Likeliest([]float32{1, plusInf}, nil); token != 1 || p != 1 {
		t.Errorf("token %d with %g, want the certain one", token, p)
	}
}
