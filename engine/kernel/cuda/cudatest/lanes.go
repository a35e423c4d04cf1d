package cudatest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
)

// warpOf runs a body with two words per thread and compares every thread with
// answer, which sees the words of its whole warp.
func warpOf(t *testing.T, d cuda.Driver, body string, in []uint32, answer func(a, b []uint32, lane int) uint32) {
	t.Helper()
	got := words(t, d, "", loads(0, 2)+body+"\n"+stores(20, 1), in, 2, 1)
	for thread := range got {
		var a, b [32]uint32
		for lane := range 32 {
			a[lane], b[lane] = in[(thread/32*32+lane)*2], in[(thread/32*32+lane)*2+1]
		}
		if want := answer(a[:], b[:], thread%32); got[thread] != want {
			t.Errorf("%s: lane %d is %#x, want %#x", body, thread%32, got[thread], want)
			return
		}
	}
}

// Lanes checks what the lanes of a warp do together.
func Lanes(t *testing.T, d cuda.Driver) {
	random := rand.New(rand.NewPCG(21, 22))
	in := make([]uint32, 2*threads*8)
	for i := range in {
		in[i] = random.Uint32()
	}
	few := make([]uint32, len(in)) // values that meet
	for i := range few {
		few[i] = in[i] >> 29
	}
	for _, distance := range []int{0, 1, 5, 16, 31} {
		for _, width := range []int{32, 16, 8} {
			shuffles(t, d, in, distance, width)
		}
	}
	warpOf(t, d, "shfl.sync.idx.b32 %r20, %r0, %r1, 31, 0xffffffff;", in, func(a, b []uint32, lane int) uint32 { return a[b[lane]&31] })
	warpOf(t, d, "setp.lt.u32 %p, %r0, %r1;\nvote.sync.ballot.b32 %r20, %p, 0xffffffff;", in, func(a, b []uint32, _ int) (v uint32) {
		for i := range a {
			if a[i] < b[i] {
				v |= 1 << i
			}
		}
		return v
	})
	warpOf(t, d, "match.any.sync.b32 %r20, %r0, 0xffffffff;", few, func(a, _ []uint32, lane int) (v uint32) {
		for i := range a {
			if a[i] == a[lane] {
				v |= 1 << i
			}
		}
		return v
	})
	for name, f := range map[string]func(v, x uint32) uint32{
		"add.u32": func(v, x uint32) uint32 { return v + x },
		"min.u32": func(v, x uint32) uint32 { return min(v, x) },
		"max.s32": func(v, x uint32) uint32 { return uint32(max(int32(v), int32(x))) },
		"xor.b32": func(v, x uint32) uint32 { return v ^ x },
		"and.b32": func(v, x uint32) uint32 { return v & x },
	} {
		warpOf(t, d, "redux.sync."+name+" %r20, %r0, 0xffffffff;", in, func(a, _ []uint32, _ int) uint32 {
			v := a[0]
			for _, x := range a[1:] {
				v = f(v, x)
			}
			return v
		})
	}
	warpOf(t, d, "activemask.b32 %r20;", in, func(_, _ []uint32, _ int) uint32 { return 0xffff_ffff })
	warpOf(t, d, "elect.sync %r21|%p, 0xffffffff;\nselp.b32 %r20, 1, 0, %p;\nredux.sync.add.u32 %r20, %r20, 0xffffffff;", in,
		func(_, _ []uint32, _ int) uint32 { return 1 })
	branches(t, d, in)
	barriers(t, d, in)
}

// barriers checks barriers of a number and a count: the lower two warps produce
// and only arrive, the upper two wait for them; and the vote of a barrier.
func barriers(t *testing.T, d cuda.Driver, in []uint32) {
	const shared = ".shared .align 4 .b8 tile[512];"
	body := loads(0, 2) + `mov.u32 %s, tile;
shl.b32 %r10, %t, 2;
add.u32 %r10, %s, %r10;
mov.u32 %r20, 0;
setp.ge.u32 %p, %t, 64;
@%p bra consume;
st.shared.b32 [%r10], %r0;
bar.arrive 3, 128;
bra join;
consume:
bar.sync 3, 128;
ld.shared.b32 %r20, [%r10+-256];
join:
setp.gt.u32 %p, %r0, %r1;
bar.red.popc.u32 %r21, 0, %p;
` + stores(20, 2)
	got := words(t, d, shared, body, in, 2, 2)
	for i := range len(got) / 2 {
		want, more := uint32(0), uint32(0)
		if i%threads >= 64 {
			want = in[2*(i-64)]
		}
		for j := range threads {
			more += uint32(b2i(in[2*(i/threads*threads+j)] > in[2*(i/threads*threads+j)+1]))
		}
		if got[2*i] != want || got[2*i+1] != more {
			t.Errorf("barriers: thread %d has %#x and %d, want %#x and %d", i, got[2*i], got[2*i+1], want, more)
			return
		}
	}
}

// shuffles checks the three shuffles by a distance within groups of a width.
func shuffles(t *testing.T, d cuda.Driver, in []uint32, distance, width int) {
	t.Helper()
	for mode, from := range map[string]func(lane int) int{
		"up":   func(lane int) int { return lane - distance },
		"down": func(lane int) int { return lane + distance },
		"bfly": func(lane int) int { return lane ^ distance },
	} {
		control := (32-width)<<8 | 31
		if mode == "up" {
			control = (32 - width) << 8
		}
		body := fmt.Sprintf("shfl.sync.%s.b32 %%r20|%%p, %%r0, %d, %d, 0xffffffff;\n@!%%p not.b32 %%r20, %%r20;", mode, distance, control)
		warpOf(t, d, body, in, func(a, _ []uint32, lane int) uint32 {
			first := lane / width * width
			source := from(lane)
			// The exchange may leave its group downward: only the upper end is watched.
			if source >= first+width || mode == "up" && source < first {
				return ^a[lane]
			}
			return a[source]
		})
	}
}

// branches checks that lanes which part at a branch, and in a loop of different
// lengths, meet again at a shuffle.
func branches(t *testing.T, d cuda.Driver, in []uint32) {
	body := `and.b32 %r2, %r1, 7;
mov.u32 %r3, 0;
again:
setp.ge.u32 %p, %r3, %r2;
@%p bra done;
mad.lo.u32 %r0, %r0, 5, 1;
add.u32 %r3, %r3, 1;
bra again;
done:
setp.lt.u32 %p, %r2, 4;
@%p bra low;
add.u32 %r0, %r0, 77;
bra join;
low:
xor.b32 %r0, %r0, 99;
join:
shfl.sync.bfly.b32 %r20, %r0, 1, 31, 0xffffffff;`
	warpOf(t, d, body, in, func(a, b []uint32, lane int) uint32 {
		lane ^= 1
		v, n := a[lane], b[lane]&7
		for range n {
			v = v*5 + 1
		}
		if n < 4 {
			return v ^ 99
		}
		return v + 77
	})
}
