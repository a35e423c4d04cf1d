package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// onEveryScanner runs a test once per scanner of this machine.
func onEveryScanner(t *testing.T, test func(t *testing.T)) {
	used := scan
	defer func() { scan = used }()
	for _, s := range scanners {
		scan = s
		t.Run(s.name, test)
	}
}

// define draws as the package comment says, the slow way, with the library's
// functions: all tokens are sorted, each filter shortens the list, and the
// draw walks over what is left, by likelihood with a small top_k, else by id. In doubt
// means that a sum is so near to its target that rounding may decide.
func define(p Params, logits []float32, draw float64) (id int32, doubt bool) {
	var all []candidate
	for i, x := range logits {
		if x > minusInf {
			all = append(all, candidate{logit: x, id: int32(i)})
		}
	}
	slices.SortFunc(all, byLikelihood)
	if math.IsInf(float64(all[0].logit), 1) {
		return all[0].id, false
	}
	sum := func() (mass float64) {
		for _, c := range all {
			mass += c.weight
		}
		return mass
	}
	for i := range all {
		all[i].weight = math.Exp((float64(all[i].logit) - float64(all[0].logit)) / float64(p.Temperature))
	}
	few := p.TopK > 0 && p.TopK <= fewMax && p.TopK < len(logits)
	if p.TopK > 0 {
		all = all[:min(p.TopK, len(all))]
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9*math.Max(a, b) }
	mass := sum()
	if p.TopP < 1 {
		kept := 0.0
		for i, c := range all {
			if kept += c.weight; kept >= float64(p.TopP)*mass {
				doubt = near(kept, float64(p.TopP)*mass) || near(kept-c.weight, float64(p.TopP)*mass)
				all = all[:i+1]
				break
			}
		}
	}
	for i, c := range all {
		doubt = doubt || c.weight < 1 && near(c.weight, float64(p.MinP))
		if c.weight < float64(p.MinP) {
			all = all[:i]
			break
		}
	}
	if !few {
		slices.SortFunc(all, func(a, b candidate) int { return int(a.id - b.id) })
	}
	target, at := draw*sum(), 0.0
	for _, c := range all {
		doubt = doubt || near(at, target)
		if at += c.weight; at > target {
			return c.id, doubt || near(at, target)
		}
	}
	return -1, true
}

// shape fills n logits in one of several ways that are hard for something:
// ties, one peak over a flat rest, impossible and certain tokens, extremes.
func shape(kind, n int, g *rand.Rand) []float32 {
	x := noise(n, []float64{0.01, 1, 3, 30, 1000}[g.IntN(5)], g.Uint64())
	for i := range x {
		switch kind {
		case 1: // ties
			x[i] = float32(math.Round(float64(x[i]) * 2))
		case 2: // mostly impossible
			if g.IntN(10) > 0 {
				x[i] = []float32{minusInf, nan}[g.IntN(2)]
			}
		case 3: // one value but for a few
			if g.IntN(500) > 0 {
				x[i] = -1.5
			}
		case 4: // extremes
			x[i] *= []float32{1, 1e30, 1e-40, -1e35}[g.IntN(4)]
		case 5: // a long tail
			x[i] = -float32(math.Log(g.Float64()*1e5 + 1e-3))
		}
	}
	x[g.IntN(n)] = 2
	if kind == 6 { // a peak, and a certain token now and then
		x[g.IntN(n)] = []float32{20, 9, plusInf}[g.IntN(3)]
	}
	return x
}

func TestSampleAgainstDefinition(t *testing.T) {
	onEveryScanner(t, func(t *testing.T) {
		g := rand.New(rand.NewPCG(5, 5))
		doubts, rounds := 0, 1000
		if testing.Short() {
			rounds = 500
		}
		pick := func(of ...float32) float32 { return of[g.IntN(len(of))] }
		for round := range rounds {
			n := 1 + g.IntN([]int{5, 100, 2000, 20000}[min(3, g.IntN(40)/10)])
			logits := shape(round%7, n, g)
			p := Params{Temperature: pick(0.01, 0.3, 0.7, 1, 1, 2, 100, 1e30), TopP: pick(1, 1, 0.1, 0.5, 0.9, 0.95, 0.999),
				MinP: pick(0, 0, 0.001, 0.1, 1),
				TopK: []int{0, 0, 0, 2, 20, 200, 1500, 6000}[g.IntN(8)], Seed: g.Uint64()}
			s := New(p, nil, nil)
			want, doubt := define(p, logits, s.draw())
			if doubt {
				doubts++
				continue
			}
			if got := s.Sample(slices.Clone(logits)); got != want {
				t.Fatalf("round %d, %+v, %d logits: token %d (%v), want %d (%v)", round, p, n, got, logits[got], want, logits[want])
			}
		}
		if doubts > rounds/10 {
			t.Errorf("%d of %d draws were in doubt", doubts, rounds)
		}
	})
}

// TestTopK: what is found in one pass are the first of all logits sorted.
func TestTopK(t *testing.T) {
	g := rand.New(rand.NewPCG(6, 6))
	for round := range 700 {
		logits, k := shape(round%7, 1+g.IntN(1000), g), 1+g.IntN(1+g.IntN(200))
		var want []candidate
		for i, x := range logits {
			if x > minusInf {
				want = append(want, candidate{logit: x, id: int32(i)})
			}
		}
		slices.SortFunc(want, byLikelihood)
		got := New(Params{}, nil, nil).topK(logits, k)
		slices.SortFunc(got, byLikelihood)
		if want = want[:min(k, len(want))]; want[0].logit == plusInf { // nothing else is drawn then
			got, want = got[:1], want[:1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: the best %d of %v are %v, want %v", round, k, logits, got, want)
		}
	}
}

// TestEqualTokens: of n tokens that are equally likely, the number u in [0, 1) draws that with the number un, by whatever
// filter n are left, and whether they are few or not.
func TestEqualTokens(t *testing.T) {
	for _, c := range []struct {
		p    Params
		n    int
		kept int
	}{
		{Params{TopP: 1}, 3000, 3000},
		{Params{TopP: 0.5}, 4000, 2000},
		{Params{TopP: 0.5}, 600, 300},
		{Params{TopP: 1, TopK: 1500}, 3000, 1500},
		{Params{TopP: 0.5, TopK: 3000}, 6000, 1500},
		{Params{TopP: 1, TopK: 500}, 600, 500},
		{Params{TopP: 0.5, TopK: 500}, 600, 250},
	} {
		logits, ends := make([]float32, c.n), []int{0, 1, blockTokens - 1, blockTokens, c.kept - 1}
		for draw := range 20 * c.kept {
			u := Uniform(1, uint64(draw))
			want := int(u * float64(c.kept))
			if draw > 30 && !slices.Contains(ends, want) {
				continue
			}
			c.p.Temperature, c.p.Seed = 1, 1
			if got := Resume(c.p, State{Draw: uint64(draw)}).Preview(logits); int(got) != want {
				t.Fatalf("%+v, %v: token %d of %d, want %d", c.p, u, got, c.n, want)
			}
		}
	}
}

// TestFew: the device asks it too.
func TestFew(t *testing.T) {
	for _, c := range []struct {
		topK, vocabulary int
		want             bool
	}{{0, 5, false}, {1, 2, true}, {2, 2, false}, {fewMax, fewMax + 1, true}, {fewMax + 1, 5000, false}} {
		if got := (Params{TopK: c.topK}).Few(c.vocabulary); got != c.want {
			t.Errorf("%d of %d: %v", c.topK, c.vocabulary, got)
		}
	}
}

// TestWholeVocabulary is the same on the sizes in use, where a drawn token
// comes out of partial sums and top_p ends among thousands of tokens.
func TestWholeVocabulary(t *testing.T) {
	onEveryScanner(t, func(t *testing.T) {
		for i, p := range []Params{
			{Temperature: 1, TopP: 1}, {Temperature: 1, TopP: 0.9}, {Temperature: 100, TopP: 0.9}, {Temperature: 0.6, TopP: 0.95, TopK: 20},
			{Temperature: 1, TopP: 1, MinP: 0.05}, {Temperature: 5, TopP: 1, MinP: 0.05}, {Temperature: 3, TopP: 0.99, MinP: 0.01},
			{Temperature: 2, TopP: 0.98, TopK: 100_000}, {Temperature: 2, TopP: 1, MinP: 0.01, TopK: 150_000},
		} {
			logits := noise(151936+i, 3, uint64(i))
			s := New(p, nil, nil)
			want, doubt := define(p, logits, s.draw())
			if got := s.Sample(slices.Clone(logits)); got != want && !doubt {
				t.Errorf("%+v: token %d, want %d", p, got, want)
			}
		}
	})
}

// TestScannersAgree compares every scanner with the portable one, to the bit,
// at lengths around what a round of the assembly takes.
func TestScannersAgree(t *testing.T) {
	g := rand.New(rand.NewPCG(2, 8))
	for _, s := range scanners {
		for round := range 4000 {
			x := shape(round%7, 1+g.IntN(300), g)
			lo, hi := x[g.IntN(len(x))], x[g.IntN(len(x))]
			if got, want := s.firstIn(x, lo, hi), firstIn(x, lo, hi); got != want {
				t.Fatalf("%s: the first of %v to %v in %v is %d, want %d", s.name, lo, hi, x, got, want)
			}
			f := softmax{float64(x[Greedy(x)]), 1 / float64([]float32{1, 0.7, 1e-45, 1e38, 30}[g.IntN(5)])}
			if math.IsInf(f.most, 1) {
				continue
			}
			bar := max(f.floor(), []float32{minusInf, lo, float32(f.most)}[g.IntN(3)])
			if got, want := s.weightSum(x, f, bar), weightSum(x, f, bar); got != want {
				t.Fatalf("%s: the weights of %v from %v sum to %v, want %v", s.name, x, bar, got, want)
			}
		}
	}
}

// TestSumIsOfWeights sums whole numbers of halves, which no order can round.
func TestSumIsOfWeights(t *testing.T) {
	x := make([]float32, 1000)
	for i := range x {
		x[i] = -float32(i % 8)
	}
	f := softmax{0, math.Ln2}
	for _, s := range scanners {
		if got := s.weightSum(x, f, -3); math.Abs(got-125*(1+0.5+0.25+0.125)) > 1e-9 {
			t.Errorf("%s: %v", s.name, got)
		}
	}
}

func TestReach(t *testing.T) {
	for _, f := range []softmax{{10, 1}, {-3, 2}, {0, 1e-38}, {math.MaxFloat32, 1e-38}, {5, 7e44}} {
		for _, w := range []float64{math.SmallestNonzeroFloat64, 1e-10, 0.05, 0.5, 1} {
			x := f.reach(w)
			if f.weight(x) < w || x > -math.MaxFloat32 && f.weight(previous(x)) >= w {
				t.Errorf("%+v: the smallest logit of weight %v is not %v", f, w, x)
			}
		}
	}
}
