package tensor_test

import (
	"testing"

	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// pick returns a where the condition holds, else b.
func pick(condition bool, a, b int) int {
	if condition {
		return a
	}
	return b
}

// TestLanesAreThoseOfTheManual compares with the formulas that the PTX ISA prints
// for each fragment, in terms of the element's number within the thread.
func TestLanesAreThoseOfTheManual(t *testing.T) {
	for thread := range 128 {
		lane, warp := thread%32, thread/32
		group, in := lane>>2, lane%4
		same := func(what string, i int, got, want tensor.Place) {
			t.Helper()
			if got != want {
				t.Fatalf("%s, thread %d, element %d: at %v, want %v", what, thread, i, got, want)
			}
		}
		for i := range 8 { // m16n8k16 of 16 bits
			low := i < 2 || i >= 4 && i < 6
			want := tensor.Place{Row: pick(low, group, group+8), Column: in*2 + i&1 + pick(i < 4, 0, 8)}
			same("A of 16 bits", i, tensor.AtA(lane, i/2, i%2, 2), want)
			want.Row += 16 * warp
			same("A of wgmma", i, tensor.AtWideA(thread, i/2, i%2, 2), want)
		}
		for i := range 4 {
			same("B of 16 bits", i, tensor.AtB(lane, i/2, i%2, 2), tensor.Place{Row: in*2 + i&1 + pick(i < 2, 0, 8), Column: group})
			same("C", i, tensor.AtC(lane, i), tensor.Place{Row: pick(i < 2, group, group+8), Column: in*2 + i&1})
			same("A of tf32", i, tensor.AtA(lane, i, 0, 4), tensor.Place{Row: pick(i%2 == 0, group, group+8), Column: in + pick(i < 2, 0, 4)})
		}
		for i := range 16 { // m16n8k32 of 8 bits
			low := i < 4 || i >= 8 && i < 12
			same("A of 8 bits", i, tensor.AtA(lane, i/4, i%4, 1), tensor.Place{Row: pick(low, group, group+8), Column: in*4 + i&3 + pick(i < 8, 0, 16)})
		}
		for i := range 8 {
			same("B of 8 bits", i, tensor.AtB(lane, i/4, i%4, 1), tensor.Place{Row: in*4 + i&3 + pick(i < 4, 0, 16), Column: group})
		}
		for i := range 128 { // m64n256
			want := tensor.Place{Row: 16*warp + pick(i%4 < 2, group, group+8), Column: 8*(i/4) + 2*in + i&1}
			same("D of wgmma", i, tensor.AtWideD(thread, i), want)
		}
	}
}

func TestEveryElementHasOneLane(t *testing.T) {
	tables := map[string]struct {
		threads, each, rows, columns int
		at                           func(thread, i int) tensor.Place
	}{
		"A m16k16": {32, 8, 16, 16, func(l, i int) tensor.Place { return tensor.AtA(l, i/2, i%2, 2) }},
		"A m16k32": {32, 16, 16, 32, func(l, i int) tensor.Place { return tensor.AtA(l, i/4, i%4, 1) }},
		"B k16n8":  {32, 4, 16, 8, func(l, i int) tensor.Place { return tensor.AtB(l, i/2, i%2, 2) }},
		"B k8n8":   {32, 2, 8, 8, func(l, i int) tensor.Place { return tensor.AtB(l, i, 0, 4) }},
		"C m16n8":  {32, 4, 16, 8, tensor.AtC},
		"A m64k16": {128, 8, 64, 16, func(l, i int) tensor.Place { return tensor.AtWideA(l, i/2, i%2, 2) }},
		"D m64n96": {128, 48, 64, 96, tensor.AtWideD},
		"ldmatrix": {32, 2, 8, 8, func(l, i int) tensor.Place { return tensor.AtMatrix(l, i, false) }},
		"trans":    {32, 2, 8, 8, func(l, i int) tensor.Place { return tensor.AtMatrix(l, i, true) }},
	}
	for name, c := range tables {
		seen := make([]bool, c.rows*c.columns)
		for thread := range c.threads {
			for i := range c.each {
				p := c.at(thread, i)
				if p.Row >= c.rows || p.Column >= c.columns || seen[p.Row*c.columns+p.Column] {
					t.Fatalf("%s: thread %d, element %d: %v is outside or has a lane already", name, thread, i, p)
				}
				seen[p.Row*c.columns+p.Column] = true
			}
		}
		if c.threads*c.each != len(seen) {
			t.Errorf("%s: %d elements in lanes, want %d", name, c.threads*c.each, len(seen))
		}
	}
	for lane := range 32 { // the transposed load is the fragment that B wants of a row-major matrix
		for i := range 2 {
			if m, b := tensor.AtMatrix(lane, i, true), tensor.AtB(lane, 0, i, 2); m != b {
				t.Errorf("lane %d, element %d: .trans loads %v, B wants %v", lane, i, m, b)
			}
		}
	}
}
