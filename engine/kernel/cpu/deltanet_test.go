package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
)

// deltaShapes take every path: whole and padded columns, one and several V heads
// per K head, chunks (a multiple of 32) or none, other taps.
var deltaShapes = []kernel.DeltaShape{
	{KHeads: 1, VHeads: 1, Dim: 16, ConvKernel: 4, Eps: 1e-6},
	{KHeads: 1, VHeads: 2, Dim: 24, ConvKernel: 4, Tiled: true, Eps: 1e-6},
	{KHeads: 2, VHeads: 6, Dim: 32, ConvKernel: 3, Eps: 1e-6},
	{KHeads: 2, VHeads: 4, Dim: 64, ConvKernel: 4, Tiled: true, Eps: 1e-6},
	{KHeads: 1, VHeads: 2, Dim: 128, ConvKernel: 4, Eps: 1e-6},
}

// hardGates gives each V head gates of its own kind: as they come, a state that
// never fades, one that is forgotten at once, both in turn, one that is
// never written, one that fades at once in mid-chunk and never else.
func hardGates(_, pos, head int, alpha, beta float32) (float32, float32) {
	const never, all = -1e4, 1e4
	switch head % 6 {
	case 1:
		return never, all
	case 2:
		return all, beta
	case 3:
		if pos%5 > 0 {
			return never, beta
		}
		return all, all
	case 4:
		return alpha, never
	case 5:
		if pos%37 > 0 {
			return never, all
		}
		return 300, beta
	}
	return alpha, beta
}

// TestDeltaNet compares spans of many lengths, from any position on, with the recurrent
// form in float64.
func TestDeltaNet(t *testing.T) {
	const tokens = 364
	for _, shape := range deltaShapes {
		for _, gates := range []func(int, int, int, float32, float32) (float32, float32){nil, hardGates} {
			layers := deltaLayers{shape, 1 + 32/shape.Dim, tokens, gates}
			want := layers.on(t, reference, 1).sequence(0, 0, tokens)
			what := fmt.Sprintf("%+v hard %v", shape, gates != nil)
			forLevels(t, func(t *testing.T, level string) {
				run := layers.on(t, open(t, Options{Level: level, Threads: 1}), 1)
				step := 24
				if shape.Dim == deltaPair {
					step = 7
				}
				if level == "portable" || testing.Short() {
					step = max(2*step, 16)
				}
				r, worst := newRand(7), 0.0
				for n := 1; n <= 300; n += 1 + r.IntN(step) {
					start := r.IntN(tokens - n + 1)
					run.cache.ResetState(0)
					for at := 0; at < start; { // by pieces, too short for chunks or not
						piece := min(1+r.IntN(90), start-at)
						run.step(deltaPiece{n: piece, pos: at})
						at += piece
					}
					got := run.step(deltaPiece{n: n, pos: start})[0]
					for l := range layers.layers {
						rows := want[(l*tokens+start)*layers.width() : (l*tokens+start+n)*layers.width()]
						worst = max(worst, farthest(got[l*n*layers.width():(l+1)*n*layers.width()], rows))
						near(t, fmt.Sprintf("%s: layer %d, %d rows from %d on", what, l, n, start),
							got[l*n*layers.width():(l+1)*n*layers.width()], rows, relative(rows, 2e-5))
					}
				}
				t.Logf("%s: largest error %.2g", what, worst)
			})
		}
	}
}

// farthest is the largest difference of two slices, relative to the largest value wanted.
func farthest(got, want []float32) float64 {
	var far, top float64
	for i, w := range want {
		far, top = max(far, math.Abs(float64(got[i])-float64(w))), max(top, math.Abs(float64(w)))
	}
	return far / max(top, 1e-30)
}

// TestDeltaNetBits: cuts at multiples of 64, company, the number of threads and
// with it the parts of heads change no bit; nor do any cuts when all pieces are
// shorter than a chunk may be.
func TestDeltaNetBits(t *testing.T) {
	for _, shape := range deltaShapes[1:] {
		layers := deltaLayers{shape, 1, 200, nil}
		forLevels(t, func(t *testing.T, level string) {
			alone := layers.on(t, open(t, Options{Level: level, Threads: 1}), 1)
			want := alone.sequence(0, 0, 200)
			alone.cache.ResetState(0)
			wantShort := alone.sequence(0, 0, slices.Repeat([]int{1}, 30)...)
			for _, threads := range []int{1, 3, 16} {
				run := layers.on(t, open(t, Options{Level: level, Threads: threads}), 4)
				what := fmt.Sprintf("%+v, %d threads", shape, threads)
				same(t, what, run.sequence(0, 0, 200), want)
				same(t, what+": cut at 64", run.sequence(0, 1, 64, 128, 8), want)
				var rows []float32
				for i, n := range []int{128, 72} {
					out := run.step(deltaPiece{seq: 1, pos: i * 50, n: 50, slot: 2}, deltaPiece{pos: i * 128, n: n, slot: 3},
						deltaPiece{seq: 2, pos: i, n: 1, slot: 0})
					rows = append(rows, out[1]...)
				}
				same(t, what+": in company", rows, want)
				run.cache.ResetState(0)
				same(t, what+": short pieces", run.sequence(0, 0, 7, 1, 15, 4, 3), wantShort)
			}
		})
	}
}

// TestDeltaNetForgets: a sequence of nothing but NaN changes no bit of the one after it.
func TestDeltaNetForgets(t *testing.T) {
	nan := float32(math.NaN())
	for _, shape := range deltaShapes {
		layers := deltaLayers{shape, 1, 64, func(seq, _, _ int, alpha, beta float32) (float32, float32) {
			if seq == 1 {
				return nan, nan
			}
			return alpha, beta
		}}
		forLevels(t, func(t *testing.T, level string) {
			want := layers.on(t, open(t, Options{Level: level, Threads: 1}), 1).sequence(0, 0, 20)
			run := layers.on(t, open(t, Options{Level: level, Threads: 1}), 2)
			run.sequence(1, 1, 64)
			same(t, fmt.Sprintf("%+v", shape), run.sequence(0, 0, 20), want)
		})
	}
}

// TestDeltaChunkEnd: where a chunk ends changes none of its rows, as long as it
// is one.
func TestDeltaChunkEnd(t *testing.T) {
	layers := deltaLayers{deltaShapes[3], 1, 64, nil}
	forLevels(t, func(t *testing.T, level string) {
		run := layers.on(t, open(t, Options{Level: level, Threads: 2}), 1)
		want := run.sequence(0, 0, 64)
		for n := deltaChunkMin; n < 64; n++ {
			run.cache.ResetState(0)
			same(t, fmt.Sprintf("%d rows", n), run.sequence(0, 0, n), want[:n*layers.width()])
		}
	})
}

// TestDeltaNotANumber: what one sequence holds reaches no other.
func TestDeltaNotANumber(t *testing.T) {
	layers := deltaLayers{deltaShapes[3], 1, 130, nil}
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 1})
		want := layers.on(t, b, 1).sequence(0, 0, 61, 40)
		run := layers.on(t, b, 2)
		bad := run.inputs(1, 0)
		for i := range bad[0] {
			bad[0][i] = float32(math.NaN())
		}
		var rows []float32
		for _, n := range []int{61, 40} {
			rows = append(rows, run.step(deltaPiece{seq: 1, n: 64, slot: 1}, deltaPiece{pos: len(rows) / layers.width(), n: n},
				deltaPiece{seq: 1, n: 64, slot: 1})[1]...)
		}
		same(t, "beside NaN", rows, want)
	})
}

func TestDeltaParts(t *testing.T) {
	for _, c := range []struct{ heads, group, pairs, threads, want int }{
		{16, 2, 8, 2, 1}, {16, 2, 8, 8, 1}, {16, 2, 8, 16, 2}, {16, 2, 8, 64, 8}, {1, 2, 4, 1, 2}, {1, 1, 1, 8, 1},
		{1, 6, 6, 2, 6}, {1, 3, 12, 2, 4}, {1, 1, 4, 2, 4}, {2, 2, 4, 1, 1},
	} {
		got := deltaParts(c.heads, c.group, c.pairs, c.threads)
		if got != c.want {
			t.Errorf("deltaParts%+v is %d", c, got)
		}
	}
}

func TestStateSlots(t *testing.T) {
	b := open(t, Options{Threads: 1})
	kc, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 1, StateSlots: 3, ConvDim: 48, ConvKernel: 4, VHeads: 1,
		StateDim: 16})
	if err != nil {
		t.Fatal(err)
	}
	if n := kc.BytesUsed(); n != 0 {
		t.Fatalf("%d bytes before the first use", n)
	}
	c := kc.(*cache)
	c.ResetState(0)
	one := c.BytesUsed()
	c.slots[0].s[5], c.slots[0].conv[7] = 3, 4
	c.CopyState(2, 0)
	if c.slots[2].s[5] != 3 || c.slots[2].conv[7] != 4 || c.BytesUsed() != 2*one || one == 0 {
		t.Fatalf("copy holds %g and %g in %d bytes", c.slots[2].s[5], c.slots[2].conv[7], c.BytesUsed())
	}
	c.ResetState(2)
	if c.slots[2].s[5] != 0 || c.slots[0].s[5] != 3 {
		t.Fatal("reset did not clear its slot, or cleared another")
	}
}

// TestStatePieces: states that all threads copy and clear together are copied
// and cleared whole.
func TestStatePieces(t *testing.T) {
	b := open(t, Options{Threads: 2})
	kc, err := b.NewCache(kernel.CacheConfig{LinearLayers: 7, StateSlots: 2, ConvDim: 1024, ConvKernel: 4, VHeads: 8, StateDim: 208})
	if err != nil {
		t.Fatal(err)
	}
	c := kc.(*cache)
	c.ResetState(0)
	if n := len(c.slots[0].mem.b); n <= 2*statePiece || n%statePiece == 0 {
		t.Fatalf("a state of %d bytes is no test", n)
	}
	x := c.slots[0].mem.floats()
	for i := range x {
		x[i] = float32(i%1000 + 1)
	}
	c.CopyState(1, 0)
	same(t, "copy", c.slots[1].mem.floats(), x)
	c.ResetState(0)
	same(t, "reset", x, make([]float32, len(x)))
}

// TestGates compares the gates of every level with float64, far out too.
func TestGates(t *testing.T) {
	for _, l := range levels() {
		for x := float32(-110); x <= 110; x += 0.037 {
			log, beta := [16]float32{x}, [16]float32{x}
			var decay [16]float32
			const a, bias = -1.7, 0.25
			l.gates(&log[0], &decay[0], &beta[0], a, bias, 16)
			sum := float64(x + bias)
			want := a * (max(sum, 0) + math.Log1p(math.Exp(-math.Abs(sum))))
			if d := math.Abs(float64(log[0]) - want); !(d <= 5e-7*math.Abs(want)+1e-37) {
				t.Fatalf("%s: log decay of %g is %g, want %g", l.name, x, log[0], want)
			}
			if e := math.Exp(float64(log[0])); !(math.Abs(float64(decay[0])-e) <= 3e-7*e+1.2e-38) {
				t.Fatalf("%s: decay of %g is %g, want %g", l.name, x, decay[0], e)
			}
			if s := 1 / (1 + math.Exp(-float64(x))); !(math.Abs(float64(beta[0])-s) <= 4e-7*s+1e-37) {
				t.Fatalf("%s: beta of %g is %g, want %g", l.name, x, beta[0], s)
			}
		}
	}
}
