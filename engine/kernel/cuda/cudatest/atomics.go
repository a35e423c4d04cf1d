package cudatest

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
)

// Atomics checks atomic operations of all threads on one place, and that each
// old value is handed out once.
func Atomics(t *testing.T, d cuda.Driver) {
	random := rand.New(rand.NewPCG(23, 24))
	in := make([]uint32, 2*threads)
	for i := range in {
		in[i] = random.Uint32()
	}
	for name, f := range map[string]func(v, x uint32) uint32{
		"add.u32":  func(v, x uint32) uint32 { return v + x },
		"min.s32":  func(v, x uint32) uint32 { return uint32(min(int32(v), int32(x))) },
		"max.u32":  func(v, x uint32) uint32 { return max(v, x) },
		"or.b32":   func(v, x uint32) uint32 { return v | x&0x0101_0101 },
		"exch.b32": nil,
	} {
		operand := "%r0"
		if name == "or.b32" {
			operand = "%r2"
		}
		body := loads(0, 2) + "and.b32 %r2, %r0, 0x01010101;\nmov.u32 %s, cell;\n" +
			"setp.eq.u32 %p, %t, 0;\n@%p st.shared.b32 [%s], %r1;\nbar.sync 0;\n" +
			"atom.shared." + name + " %r20, [%s], " + operand + ";\nbar.sync 0;\nld.shared.b32 %r21, [%s];\n" + stores(20, 2)
		got := words(t, d, ".shared .align 4 .b32 cell;", body, in, 2, 2)
		if got == nil {
			continue
		}
		want := in[1]
		if f == nil {
			exchanged(t, in, got)
			continue
		}
		for i := range threads {
			want = f(want, in[2*i])
		}
		for i := range threads {
			if got[2*i+1] != want {
				t.Errorf("atom.%s: thread %d reads %#x, want %#x", name, i, got[2*i+1], want)
				break
			}
		}
	}
	// All together, each in its way: a loop that compares and swaps, a float, whose
	// sums are exact here, and a reduction that returns nothing. Thread i adds i.
	for _, adds := range []string{
		"mov.u32 %r20, 0;\nagain:\nadd.u32 %r21, %r20, %t;\nmov.b32 %r22, %r20;\n" +
			"atom.shared.cas.b32 %r20, [%s], %r22, %r21;\nsetp.ne.u32 %p, %r20, %r22;\n@%p bra again;\n",
		"red.shared.add.u32 [%s], %t;\n",
		"cvt.rn.f32.u32 %r20, %t;\natom.shared.add.f32 %r21, [%s], %r20;\nbar.sync 0;\n" +
			"setp.eq.u32 %p, %t, 0;\n@%p ld.shared.b32 %r20, [%s];\n@%p cvt.rzi.u32.f32 %r20, %r20;\n@%p st.shared.b32 [%s], %r20;\n",
	} {
		body := "mov.u32 %s, cell;\nsetp.eq.u32 %p, %t, 0;\n@%p st.shared.b32 [%s], 0;\nbar.sync 0;\n" + adds +
			"bar.sync 0;\nld.shared.b32 %r20, [%s];\n" + stores(20, 1)
		for i, g := range words(t, d, ".shared .align 4 .b32 cell;", body, in, 2, 1) {
			if g != threads*(threads-1)/2 {
				t.Errorf("%s: thread %d reads %d, want %d", adds, i, g, threads*(threads-1)/2)
				break
			}
		}
	}
}

// exchanged checks that the values handed out, and the one left, are those that
// went in: each once.
func exchanged(t *testing.T, in, got []uint32) {
	t.Helper()
	balance := map[uint32]int{in[1]: 1, got[1]: -1}
	for i := range threads {
		balance[in[2*i]]++
		balance[got[2*i]]--
	}
	for v, n := range balance {
		if n != 0 {
			t.Errorf("atom.exch: value %#x of %d bits went in %d times more than it came out", v, bits.Len32(v), n)
			return
		}
	}
}
