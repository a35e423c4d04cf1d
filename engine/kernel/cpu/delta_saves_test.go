package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// TestDeltaSaves: spans that save states give the rows, the saved states and
// the state after them that one token per step gives, bit by bit.
func TestDeltaSaves(t *testing.T) {
	layers := deltaLayers{kernel.DeltaShape{KHeads: 2, VHeads: 4, Dim: 24, ConvKernel: 4, Tiled: true, Eps: 1e-6}, 3, 100, nil}
	forLevels(t, func(t *testing.T, level string) {
		for _, threads := range []int{1, 2} {
			const sequences, saves = 3, 8
			one := layers.on(t, open(t, Options{Level: level, Threads: 1}), sequences)
			many := layers.on(t, open(t, Options{Level: level, Threads: threads}), sequences*(1+saves))
			r := newRand(uint64(threads))
			for pos, round := 0, 0; pos < 70; round++ {
				n := 1 + r.IntN(8)
				var pieces []deltaPiece
				for s := range sequences {
					p := deltaPiece{seq: s, pos: pos, n: n, slot: int32(s)}
					for i := range r.IntN(n + 1) {
						p.saves = append(p.saves, int32(sequences+s*saves+i))
					}
					pieces = append(pieces, p)
				}
				got := many.step(pieces...)
				for s, p := range pieces {
					checkSaved(t, fmt.Sprintf("round %d, sequence %d, %d rows, %d saved", round, s, n, len(p.saves)), one, many, p, got[s])
				}
				pos += n
			}
		}
	})
}

// checkSaved computes a piece token by token.
func checkSaved(t *testing.T, what string, one, many *deltaRun, p deltaPiece, got []float32) {
	t.Helper()
	width := one.width()
	want := make([][]float32, one.layers)
	for i := range p.n {
		rows := one.step(deltaPiece{seq: p.seq, pos: p.pos + i, n: 1, slot: p.slot})[0]
		for l := range want {
			want[l] = append(want[l], rows[l*width:(l+1)*width]...)
		}
		if i < len(p.saves) {
			sameState(t, fmt.Sprintf("%s: saved after row %d", what, i), many, p.saves[i], one, p.slot)
		}
	}
	sameState(t, what+": state", many, p.slot, one, p.slot)
	for l, w := range want {
		same(t, fmt.Sprintf("%s: layer %d", what, l), got[l*p.n*width:(l+1)*p.n*width], w)
	}
}

// sameState compares two slots, all layers.
func sameState(t *testing.T, what string, a *deltaRun, slotA int32, b *deltaRun, slotB int32) {
	t.Helper()
	x, y := a.cache.(*cache).state(slotA), b.cache.(*cache).state(slotB)
	same(t, what+": inputs", x.conv, y.conv)
	same(t, what+": matrices", x.s, y.s)
}

// TestDeltaSavedContinues: what goes on from a saved state is what goes on
// from a sequence that computed no more than the rows before it.
func TestDeltaSavedContinues(t *testing.T) {
	layers := deltaLayers{kernel.DeltaShape{KHeads: 1, VHeads: 2, Dim: 128, ConvKernel: 4, Eps: 1e-6}, 2, 200, nil}
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for _, keep := range []int{1, 2, 4} {
			run := layers.on(t, b, 6)
			run.step(deltaPiece{seq: 0, n: 90, slot: 0}, deltaPiece{seq: 0, n: 90, slot: 5})
			run.step(deltaPiece{seq: 0, pos: 90, n: 5, slot: 0, saves: []int32{1, 2, 3, 4}})
			for i := range keep {
				run.step(deltaPiece{seq: 0, pos: 90 + i, n: 1, slot: 5})
			}
			run.cache.CopyState(0, int32(keep)) // the sequence goes back
			next := []deltaPiece{{seq: 1, pos: 90 + keep, n: 70, slot: 0}, {seq: 1, pos: 90 + keep, n: 70, slot: int32(keep)},
				{seq: 1, pos: 90 + keep, n: 70, slot: 5}}
			out := run.step(next...)
			same(t, fmt.Sprintf("%d rows kept, copied back", keep), out[0], out[2])
			same(t, fmt.Sprintf("%d rows kept, in the saved slot", keep), out[1], out[2])
		}
	})
}
