package cpu

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"corenode/engine/kernel"
)

// runExperts computes n rows, optionally one by one.
func runExperts(t *testing.T, b kernel.Backend, src [3]kernel.Source, x, logits []float32, n int, r kernel.Routing) []float32 {
	t.Helper()
	out := b.NewBuffer(n * src[2].Rows)
	b.Experts(out, upload(b, x), upload(b, logits), n,
		kernel.ExpertStack{Gate: load(t, b, src[0]), Up: load(t, b, src[1]), Down: load(t, b, src[2])}, r)
	return download(b, out, n*src[2].Rows)
}

func TestExperts(t *testing.T) {
	const experts, hidden, width, n, top = 11, 64, 96, 9, 3
	cases := []struct {
		name      string
		types     [3]kernel.Type
		tolerance float64
	}{
		{"float", [3]kernel.Type{kernel.F32, kernel.F16, kernel.BF16}, 1e-5},
		{"exactly even", [3]kernel.Type{kernel.F32, kernel.F32, kernel.F32}, 1e-5},
		{"quantized", [3]kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q8_0}, 0.03}, // the error of int8 activations
		{"mixed", [3]kernel.Type{kernel.Q8_0, kernel.F16, kernel.F32}, 0.03},
	}
	forLevels(t, func(t *testing.T, level string) {
		one, two := open(t, Options{Level: level, Threads: 1}), open(t, Options{Level: level, Threads: 2})
		for _, c := range cases {
			r := newRand(12)
			src := [3]kernel.Source{
				randomSource(r, c.types[0], experts, width, hidden),
				randomSource(r, c.types[1], experts, width, hidden),
				randomSource(r, c.types[2], experts, hidden, width),
			}
			x, logits := normals(r, n*hidden, 1), normals(r, n*experts, 2)
			for i := range experts {
				logits[i] = 0.5 // a tie: the lower experts win
			}
			got := runExperts(t, two, src, x, logits, n, kernel.Routing{Top: top})
			want := runExperts(t, reference, src, x, logits, n, kernel.Routing{Top: top})
			near(t, c.name, got, want, relative(want, c.tolerance))
			for i := range n {
				row := runExperts(t, one, src, x[i*hidden:(i+1)*hidden], logits[i*experts:(i+1)*experts], 1, kernel.Routing{Top: top})
				same(t, fmt.Sprintf("%s row %d", c.name, i), got[i*hidden:(i+1)*hidden], row)
			}
		}
	})
}

// TestRouting: every way of choosing gives what the reference gives.
func TestRouting(t *testing.T) {
	const experts, hidden, width, n = 12, 64, 96, 40
	r := newRand(13)
	src := [3]kernel.Source{
		randomSource(r, kernel.F32, experts, width, hidden),
		randomSource(r, kernel.F32, experts, width, hidden),
		randomSource(r, kernel.F32, experts, hidden, width),
	}
	x, logits, bias := normals(r, n*hidden, 1), normals(r, n*experts, 2), normals(r, experts, 0.5)
	b := open(t, Options{Threads: 2})
	for i := range 64 {
		how := kernel.Routing{Top: 1 + i%5, Sigmoid: i&1 > 0, Plain: i&2 > 0}
		if i&4 > 0 {
			how.Scale = 1.75
		}
		if i&8 > 0 {
			how.Groups, how.GroupsUsed, how.GroupTop = 4, 2, 1+i%3
		}
		ours, theirs := how, how
		if i&16 > 0 {
			ours.Bias, theirs.Bias = upload(b, bias), upload(reference, bias)
		}
		want := runExperts(t, reference, src, x, logits, n, theirs)
		near(t, fmt.Sprintf("%+v", how), runExperts(t, b, src, x, logits, n, ours), want, relative(want, 1e-5))
	}
}

// TestBiasedExperts: biases and limits give what the reference gives, and what leaves out one of them
// gives something else.
func TestBiasedExperts(t *testing.T) {
	const experts, hidden, width, n = 5, 64, 96, 9
	r := newRand(14)
	src := [3]kernel.Source{
		randomSource(r, kernel.F32, experts, width, hidden),
		randomSource(r, kernel.F32, experts, width, hidden),
		randomSource(r, kernel.F32, experts, hidden, width),
	}
	x, logits := normals(r, n*hidden, 1), normals(r, n*experts, 2)
	biases := [3][]float32{normals(r, experts*width, 2), normals(r, experts*width, 2), normals(r, experts*hidden, 2)}
	run := func(b kernel.Backend, limit float32) []float32 {
		out := b.NewBuffer(n * hidden)
		b.Experts(out, upload(b, x), upload(b, logits), n, kernel.ExpertStack{
			Gate: load(t, b, src[0]), Up: load(t, b, src[1]), Down: load(t, b, src[2]), Limit: limit, Alpha: 1.7,
			GateBias: upload(b, biases[0]), UpBias: upload(b, biases[1]), DownBias: upload(b, biases[2]),
		}, kernel.Routing{Top: 2})
		return download(b, out, n*hidden)
	}
	free := run(reference, 0)
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		near(t, "biased", run(b, 0), free, relative(free, 1e-5))
		want := run(reference, 1.5)
		near(t, "limited", run(b, 1.5), want, relative(want, 1e-5))
	})
}

// TestLoadLetsGoOfStacks: what a stack was packed from may be a copy that nobody
// else holds.
func TestLoadLetsGoOfStacks(t *testing.T) {
	b := open(t, Options{Threads: 1})
	src := randomSource(newRand(1), kernel.Q8_0, 4, 64, 256)
	held := weak.Make(&src.Data[0])
	w := load(t, b, src)
	src = kernel.Source{}
	runtime.GC()
	if held.Value() != nil {
		t.Error("the backend holds the data of a stack that it has packed")
	}
	runtime.KeepAlive(w)
	runtime.KeepAlive(src)
}
