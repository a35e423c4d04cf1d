package fused

import (
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/sample"
)

var (
	types  = []kernel.Type{kernel.F32, kernel.F16, kernel.BF16}
	stores = []kernel.KVType{kernel.KVF16, kernel.KVF32, kernel.KVQ8}
)

// plans have each width of heads with each storage, and each type of matrix at each place; blocks of two types come
// last.
func plans() (all []plan) {
	for i, store := range stores {
		for j, d := range []int{64, 128, 250} {
			k := (i + j) % 3
			p := plan{
				name: string(rune('a'+i)) + string(rune('a'+j)), heads: []int{2, 9, 4}[j], kvHeads: []int{1, 1, 2}[j], d: d, store: store,
				hidden: 64, vocab: 40, types: [3]kernel.Type{types[k], types[(k+1)%3], types[(k+2)%3]},
				state: 64, taps: 4 + 4*(k%2), half: 12,
				ff: 24, wider: 8,
				predicts: i == 0,
				experts:  5, top: 2, gated: j == 0, extras: i != j, shared: i != 2, ungated: i == 1, layers: []string{"aL", "Al", "aA"}[j],
			}
			if i < 2 && j == 1 {
				p.state = 128
			}
			if i == 1 {
				p.states = kernel.StateBF16
			}
			all = append(all, p)
		}
	}
	mixed := blocks("mixed", kernel.F8E4M3, 256)
	mixed.types[1], mixed.types[2] = kernel.Q4_K, kernel.Q8_0
	// A row of 2048 values has several loads of each thread on their way.
	long := plan{name: "long", heads: 1, kvHeads: 1, d: 64, hidden: 2048, vocab: 8, half: 12, ff: 8, layers: "a"}
	return append(all, blocks("q8", kernel.Q8_0, 64), blocks("q4", kernel.Q4_K, 256), blocks("f8", kernel.F8E4M3, 128), mixed, long)
}

// blocks is a small plan whose matrices are all of one type.
func blocks(name string, typ kernel.Type, width int) plan {
	return plan{
		name: name, heads: width / 64, kvHeads: 1, d: 64, hidden: width, vocab: 16, types: [3]kernel.Type{typ, typ, typ}, half: 12,
		ff: width, experts: 3, top: 2, shared: true, layers: "aA", predicts: true,
	}
}

// kernelsOf are the names of a package's kernels.
func kernelsOf(images map[string]string) (names []string) {
	for _, text := range images {
		names = append(names, devicetest.Entries(text)...)
	}
	return names
}

// TestStepsAgreeWithTheReference computes steps of one sequence, of a few and of many. On the interpreter it looks for races
// and runs every instruction of every kernel.
func TestStepsAgreeWithTheReference(t *testing.T) {
	left := map[string]int{} // how many networks did not run a line
	all, own := plans(), kernelsOf(images())
	for i, p := range all {
		t.Run(p.name, func(t *testing.T) {
			d := devicetest.Open(t, interp.Config{Shadow: true, Workers: 2})
			r := newRig(t, p, d, images(), 70, 0, 33, 5, 40, 16)
			defer r.cuda.Close()
			check := func(in *kernel.Input) {
				in.Tokens[0] = 0
				want := r.pass(in)
				in.Tokens[0] = kernel.Sampled(0) // nothing was drawn: it is still 0
				out := r.run(in)
				if far := devicetest.Distance(slices.Concat(out.Logits...), want); !(far <= r.tolerance()) {
					t.Errorf("%d rows of %+v: error %g", len(in.Tokens), p, far)
				}
			}
			in := r.drafted([]int{2, 1}, 0, 3) // of the first one a row or two are kept, of the second all
			check(in)
			graphs := 4
			if p.predicts {
				checkPredictions(r, in)
				graphs = 6 // the step's and what was remembered behind it are forgotten: memory for a draft is new
			}
			r.keep(in, 0, 0, 1+i%2)
			check(r.step(0, 1, 2, 3, 4, 5))
			check(r.step(0))
			check(r.step(4, 0, 2))
			check(r.step(0))
			if len(r.fused.graphs) != graphs {
				t.Errorf("%d graphs for three buckets, drafts and predictions, want %d", len(r.fused.graphs), graphs)
			}
			if interpreted, ok := d.(*interp.Device); ok {
				for _, line := range interpreted.Unexecuted() {
					left[line]++
				}
			}
		})
	}
	for line, networks := range left {
		if name := regexp.MustCompile(`^\w+`).FindString(line); networks == len(all) && slices.Contains(own, name) {
			t.Errorf("no test runs %s", line)
		}
	}
}

// checkPredictions predicts behind a step of two sequences, which keep two rows each, and twice more behind that, the
// last time for one of them.
func checkPredictions(r *rig, in *kernel.Input) {
	r.Helper()
	first, second := in.Step.Spans[0], in.Step.Spans[1]
	var next []int32
	for range in.Tokens {
		next = append(next, int32(r.random.IntN(r.vocab)))
	}
	want, hidden := r.predict(&in.Step, next), []int32{0, 7}
	r.fused.Remember(next)
	check := func(step *kernel.Step, rows, tokens []int32, want [][]float32) {
		r.Helper()
		got := make([]kernel.Drafted, len(want))
		r.fused.Draft(step, rows, tokens, hidden, got)
		for i, logits := range want {
			token, probability := sample.Likeliest(slices.Clone(logits), hidden)
			if got[i].Token != token || !(math.Abs(float64(got[i].Probability)-probability) <= 1e-4*probability) {
				r.Errorf("draft %d of %+v: %+v, want %d with %g", i, r.plan, got[i], token, probability)
			}
		}
	}
	row := func(i int32) []float32 { return want[int(i)*r.vocab:][:r.vocab] }
	after := func(i int, s kernel.Span, pos int) kernel.Span {
		return kernel.Span{Row: i, Len: 1, Pos: pos, Pages: s.Pages}
	}
	kept := []int32{int32(second.Row) + 1, int32(first.Row) + 1}
	step := &kernel.Step{Rows: 2, Spans: []kernel.Span{after(0, second, second.Pos+1), after(1, first, first.Pos+1)}}
	check(step, kept, nil, [][]float32{row(kept[0]), row(kept[1])})
	ids := []int32{1, 0}
	from := r.refs.NewBuffer(2 * r.want.Hidden)
	r.refs.GatherRows(from, r.hidden, []int32{kept[1], kept[0]}, r.want.Hidden)
	r.hidden = from
	step = &kernel.Step{Rows: 2, Spans: []kernel.Span{after(0, first, first.Pos+2), after(1, second, second.Pos+2)}}
	tokens := []int32{3, 11}
	want = r.predict(step, tokens)
	check(step, ids, tokens, [][]float32{row(0), row(1)})
	from = r.refs.NewBuffer(r.want.Hidden)
	r.refs.GatherRows(from, r.hidden, []int32{1}, r.want.Hidden)
	r.hidden = from
	step, tokens = &kernel.Step{Rows: 1, Spans: []kernel.Span{after(0, second, second.Pos+3)}}, []int32{2}
	want = r.predict(step, tokens)
	check(step, []int32{1}, tokens, [][]float32{row(0)})
}

// TestBitsDependOnTheBucketAlone repeats a step with other sequences beside its own.
func TestBitsDependOnTheBucketAlone(t *testing.T) {
	p := plans()[0]
	logits := func(sequences ...int) [][]float32 {
		r := newRig(t, p, interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2}), images(), 20, 3, 7, 11)
		defer r.cuda.Close()
		in := r.step(sequences...)
		for i, s := range sequences {
			in.Tokens[i] = int32(s)
		}
		return r.run(in).Logits
	}
	all, some := logits(0, 1, 2, 3), logits(3, 2, 1)
	for i, row := range some {
		for id, x := range row {
			if other := all[3-i][id]; math.Float32bits(x) != math.Float32bits(other) {
				t.Fatalf("sequence %d: logit %d is %g, and %g in a larger step", 3-i, id, x, other)
			}
		}
	}
}

// TestBitsDoNotDependOnHowManyRowsABlockTakes computes a step in each way that a table of launch shapes may say.
func TestBitsDoNotDependOnHowManyRowsABlockTakes(t *testing.T) {
	var want [][]float32
	for _, once := range [][]int{{8}, {1}, {4}} {
		r := newRig(t, plans()[0], interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2}), images(), 20, 3)
		r.fused.rowsAtOnce = once
		in := r.step(0, 1)
		in.Tokens[0], in.Tokens[1] = 1, 2
		got := r.run(in).Logits
		r.cuda.Close()
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v rows at once give other bits than 8", once)
		}
	}
}

// TestDrawsAreOfTheStep: a row that is drawn greedily gets the likeliest token of its logits, and the next step begins
// with it, also where several blocks of a launch, and several launches, draw for a row.
func TestDrawsAreOfTheStep(t *testing.T) {
	many := plans()[0]
	many.vocab = 4500
	for _, p := range []plan{plans()[0], many} {
		r := newRig(t, p, interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2}), images(), 20, 20, 3)
		defer r.cuda.Close()
		first := r.step(0, 2)
		first.Rows[1] = kernel.Row{Row: 1, Trigger: -1}
		next := r.step(2)
		next.Tokens[0] = kernel.Sampled(1)
		want := r.pass(first)[r.vocab:]
		token := int32(slices.Index(want, slices.Max(want)))
		if got := r.run(first).Tokens[1]; got != token {
			t.Fatalf("token %d of %d, want %d", got, p.vocab, token)
		}
		known := *next
		known.Tokens = []int32{token}
		if far := devicetest.Distance(r.run(next).Logits[0], r.pass(&known)); !(far <= r.tolerance()) {
			t.Errorf("what follows the token of %d: error %g", p.vocab, far)
		}
	}
}

// TestAStepBeginsWithADrawOfItsOwnBucket: with the token that the step before drew, where both replay the first graph
// that was ever recorded.
func TestAStepBeginsWithADrawOfItsOwnBucket(t *testing.T) {
	r := newRig(t, plans()[0], interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2}), images(), 20)
	defer r.cuda.Close()
	first := r.step(0)
	first.Rows[0] = kernel.Row{Trigger: -1, Hidden: []int32{0}}
	r.pass(first)
	token := r.run(first).Tokens[0]
	next := r.step(0)
	next.Tokens[0] = kernel.Sampled(0)
	known := *next
	known.Tokens = []int32{token}
	if far := devicetest.Distance(r.run(next).Logits[0], r.pass(&known)); token == 0 || !(far <= r.tolerance()) {
		t.Errorf("what follows token %d: error %g", token, far)
	}
}

// TestABlockTakesAsManyRowsAsADeviceHasRoomFor: devices from compute capability 8.6 on have less shared memory than 8.0.
func TestABlockTakesAsManyRowsAsADeviceHasRoomFor(t *testing.T) {
	p := plan{name: "large", heads: 1, kvHeads: 1, d: 64, hidden: 2048, vocab: 8, half: 12, ff: 8, layers: "a"}
	r := newRig(t, p, interp.Open(interp.Config{Seed: 1, Shared: 48 << 10}), images(), 0)
	defer r.cuda.Close()
	for _, c := range []struct{ table, want []int }{{[]int{1, 4, 8}, []int{1, 4}}, {[]int{8}, []int{1}}} {
		shapes := r.cuda.Shapes()
		shapes.RowsAtOnce = c.table
		r.cuda.Reshape(shapes)
		f, err := r.cuda.Fuse(r.network)
		if d, ok := f.(*decoder); err != nil || !ok || !slices.Equal(d.rowsAtOnce, c.want) {
			t.Errorf("of %v rows at once %+v are left (%v), want %v", c.table, f, err, c.want)
		}
	}
}

// TestOtherStepsAreLeftAlone: rows of prompts, and too many of them.
func TestOtherStepsAreLeftAlone(t *testing.T) {
	r := newRig(t, plans()[0], interp.Open(interp.Config{Seed: 1}), images(), 20, 3)
	defer r.cuda.Close()
	in := r.step(0, 1)
	in.Step.Spans = []kernel.Span{{Len: 2, Pages: r.spans[0].Pages, Prompt: true}}
	if r.fused.Step(in) || r.fused.Step(&kernel.Input{Step: kernel.Step{Rows: 300}, Rows: in.Rows, Cache: r.cache}) {
		t.Error("it was fused")
	}
	unknown := *r.network
	unknown.Layers = slices.Clone(unknown.Layers)
	unknown.Layers[1].Experts.Limit = 7
	if f, err := r.cuda.Fuse(&unknown); f != nil || err != nil {
		t.Errorf("a network that the kernels do not know: %v, %v", f, err)
	}
}

// TestMemoryIsGivenBack closes programs, and grows in between.
func TestMemoryIsGivenBack(t *testing.T) {
	d := interp.Open(interp.Config{Seed: 1, Workers: 2})
	r := newRig(t, plans()[0], d, images(), 20, 3, 5)
	defer r.cuda.Close()
	var before int64
	for round := range 3 {
		r.run(r.step(0))
		r.run(r.step(0, 1, 2))
		r.fused.Close()
		free, _, err := d.Memory()
		if err != nil || round > 0 && free != before {
			t.Fatalf("%d bytes are free, %d before (%v)", free, before, err)
		}
		before = free
	}
}
