package interp

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// words runs a body over blocks of threads. Thread t of the launch has its number
// in %t and may leave a word in %r, which is returned. %x is the address of more memory.
func words(t *testing.T, c Config, blocks, threads int, body string) ([]uint32, error) {
	t.Helper()
	text := `.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{
.reg .b64 %a, %x, %o; .reg .b32 %t, %b, %n, %r, %u, %v; .reg .pred %p, %q; .reg .f32 %f;
ld.param.u64 %a, [p]; ld.param.u64 %x, [q];
mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %t, %b, %n, %t;
mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
` + body + `
st.global.u32 [%a], %r; ret;
}
`
	r := newRig(t, c)
	out := make([]byte, 4*blocks*threads)
	p := r.room(len(out))
	r.must(r.stream.Launch(r.function(text, "k"), cuda.Launch{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: threads},
		Params: params(p, r.in(make([]byte, 256)))}))
	r.must(r.stream.CopyOut(out, p))
	err := r.stream.Synchronize()
	var all []uint32
	for i := range blocks * threads {
		all = append(all, binary.LittleEndian.Uint32(out[4*i:]))
	}
	return all, err
}

func TestWarpInstructions(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want func(l uint32) uint32
	}{
		"shuffle up":      {"shfl.sync.up.b32 %r, %t, 3, 0, -1;", func(l uint32) uint32 { return l - 3*uint32(truth(l >= 3)) }},
		"shuffle down":    {"shfl.sync.down.b32 %r, %t, 5, 31, -1;", func(l uint32) uint32 { return l + 5*uint32(truth(l < 27)) }},
		"shuffle by lane": {"shfl.sync.idx.b32 %r, %t, 7, 31, -1;", func(l uint32) uint32 { return 7 }},
		"halves of a warp": {"shfl.sync.down.b32 %r|%p, %t, 9, 0x100f, -1; @!%p mov.u32 %r, 99;", func(l uint32) uint32 {
			if l%16+9 < 16 {
				return l + 9
			}
			return 99
		}},
		"ballot": {"setp.lt.u32 %p, %t, 5; vote.sync.ballot.b32 %r, %p, -1;", func(l uint32) uint32 { return 31 }},
		"any":    {"setp.eq.u32 %p, %t, 9; vote.sync.any.pred %q, %p, -1; selp.u32 %r, 1, 0, %q;", func(l uint32) uint32 { return 1 }},
		"all":    {"setp.ne.u32 %p, %t, 9; vote.sync.all.pred %q, %p, -1; selp.u32 %r, 1, 0, %q;", func(l uint32) uint32 { return 0 }},
		"match": {"and.b32 %u, %t, 3; match.any.sync.b32 %r, %u, -1;", func(l uint32) uint32 {
			return 0x1111_1111 << (l % 4)
		}},
		"reduce":     {"redux.sync.add.u32 %r, %t, -1;", func(l uint32) uint32 { return 31 * 32 / 2 }},
		"reduce max": {"sub.u32 %u, %t, 7; redux.sync.max.s32 %r, %u, -1;", func(l uint32) uint32 { return 24 }},
		"lane masks": {"mov.u32 %u, %lanemask_lt; mov.u32 %v, %lanemask_ge; popc.b32 %u, %u; popc.b32 %v, %v; mad.lo.u32 %r, %u, 100, %v;",
			func(l uint32) uint32 { return l*100 + 32 - l }},
		"divergence": {`setp.lt.u32 %p, %t, 11; @%p bra low; mov.u32 %r, 500; mov.u32 %u, %t;
more: add.u32 %r, %r, 1; sub.u32 %u, %u, 1; setp.gt.u32 %q, %u, 10; @%q bra more; bra.uni join;
low: mul.lo.u32 %r, %t, 2;
join: shfl.sync.bfly.b32 %v, %r, 16, 31, -1; add.u32 %r, %r, %v;`, func(l uint32) uint32 {
			of := func(l uint32) uint32 {
				if l < 11 {
					return l * 2
				}
				return 500 + l - 10
			}
			return of(l) + of(l^16)
		}},
		"half warps that vote alone": {`setp.lt.u32 %p, %t, 16; @%p bra low; vote.sync.ballot.b32 %r, %p, 0xffff0000; bra.uni end;
low: vote.sync.ballot.b32 %r, %p, 0x0000ffff; end: ;`, func(l uint32) uint32 { return 0xffff * uint32(truth(l < 16)) }},
		"local memory": {`.local .align 4 .b8 place[16]; st.local.u32 [place+4], %t; ld.local.u32 %r, [place+4];`, func(l uint32) uint32 { return l }},
		"bytes and signs": {`.shared .align 4 .b8 cell[128]; .reg .b32 %s; mov.u32 %s, cell; mad.lo.u32 %s, %t, 4, %s; sub.u32 %u, 3, %t;
st.shared.u8 [%s], %u; ld.shared.s8 %r, [%s];`, func(l uint32) uint32 { return 3 - l }},
	} {
		for seed := range uint64(4) {
			got, err := words(t, Config{Seed: seed, Shadow: true}, 1, 32, c.body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			for l, v := range got {
				if want := c.want(uint32(l)); v != want {
					t.Errorf("%s, lane %d: %d, want %d", name, l, v, want)
					break
				}
			}
		}
	}
}

func TestBarriersAndAtomics(t *testing.T) {
	got, err := words(t, Config{Seed: 4, Shadow: true}, 1, 128, `.shared .align 4 .b8 sum[4]; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [sum], 0;
bar.sync 0; atom.shared.add.u32 %u, [sum], %t; bar.sync 0; ld.shared.u32 %r, [sum];`)
	if err != nil || got[0] != 127*128/2 || got[127] != got[0] {
		t.Errorf("sum %d, %v", got[0], err)
	}
	got, err = words(t, Config{Seed: 4}, 1, 96, `and.b32 %u, %t, 1; setp.eq.u32 %p, %u, 1; bar.red.popc.u32 %r, 0, %p;`)
	if err != nil || got[5] != 48 {
		t.Errorf("count %d, %v", got[5], err)
	}
	got, err = words(t, Config{Seed: 4, Shadow: true}, 1, 96, `.shared .align 4 .b8 cell[4]; setp.ge.u32 %p, %t, 64; @%p bra late;
setp.eq.u32 %q, %t, 3; @%q st.shared.u32 [cell], 77; bar.arrive 2, 96; mov.u32 %r, 1; bra.uni end;
late: bar.sync 2, 96; ld.shared.u32 %r, [cell]; end: ;`)
	if err != nil || got[0] != 1 || got[70] != 77 {
		t.Errorf("producer and consumer: %d %d, %v", got[0], got[70], err)
	}
	seen := map[uint32]bool{}
	got, err = words(t, Config{Seed: 4, Workers: 2}, 8, 64, `atom.global.add.u32 %r, [%x], 1;`)
	for _, v := range got {
		seen[v] = true
	}
	if err != nil || len(seen) != 512 {
		t.Errorf("%d tickets of 512, %v", len(seen), err)
	}
}

// TestReports wants each broken rule named, with thread and line.
func TestReports(t *testing.T) {
	for body, want := range map[string]string{
		"setp.lt.u32 %p, %t, 32; @%p bar.sync 0; @!%p bar.sync 1;":                                     "deadlock: threads 0 to 31",
		"setp.lt.u32 %p, %t, 8; @%p bra x; shfl.sync.idx.b32 %r, %t, 0, 31, -1; x: bar.warp.sync -1; ": "deadlock",
		"setp.lt.u32 %p, %t, 8; @%p ret; shfl.sync.idx.b32 %r, %t, 0, 31, -1;":                         "have ended",
		"shfl.sync.idx.b32 %r, %t, 0, 31, 1;":                                                          "lacks the thread itself",
		"ld.global.u32 %r, [%x+256];":                                                                  "outside of every allocation",
		"ld.global.u32 %r, [%x+2];":                                                                    "no multiple of 4",
		"ld.shared.u32 %r, [%t];":                                                                      "shared memory",
		".shared .align 4 .b8 cell[4]; st.shared.u32 [cell], %t;":                                      "race",
		".shared .align 8 .b8 m[8]; mbarrier.arrive.shared.b64 _, [m];":                                "no mbarrier that was initialized",
		"trap;":                "gave up",
		"bar.sync 0, 96;":      "deadlock",
		"bar.sync 17;":         "barrier 17",
		"st.const.u32 [0], 1;": "constant bytes",
	} {
		_, err := words(t, Config{Seed: 2, Shadow: true}, 1, 64, body)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestEndlessBlockIsReported(t *testing.T) {
	f, err := parse(kernelText("l: bra l;"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := decode(f, f.entries[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(k, cuda.Launch{Params: make([]byte, k.paramBytes)}, sharedMax)
	if err != nil {
		t.Fatal(err)
	}
	r.memory, r.ran, r.limit = &arena{}, make([]bool, len(k.code)), 1000
	if fault := r.execute(1); fault == nil || !strings.Contains(fault.msg, "does not end") {
		t.Errorf("report: %v", fault)
	}
}

// TestMatricesOfSharedMemory moves a 16x16 matrix of 16 bits through ldmatrix, as
// it is and transposed, and back through stmatrix.
func TestMatricesOfSharedMemory(t *testing.T) {
	for _, trans := range []string{"", ".trans"} {
		body := `.shared .align 16 .b8 m[512]; .reg .b32 %s, %d, %w<4>; .reg .b16 %h, %h2; mov.u32 %s, m; mad.lo.u32 %d, %t, 16, %s;
mul.lo.u32 %u, %t, 8; mov.u32 %v, 0;
l: add.u32 %n, %u, %v; cvt.u16.u32 %h, %n; mad.lo.u32 %b, %v, 2, %d; st.shared.u16 [%b], %h; add.u32 %v, %v, 1; setp.lt.u32 %p, %v, 8; @%p bra l;
bar.sync 0; ldmatrix.sync.aligned.m8n8.x4` + trans + `.shared.b16 {%w0, %w1, %w2, %w3}, [%d]; bar.sync 0;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%d], {%w0, %w1, %w2, %w3}; bar.sync 0;
mad.lo.u32 %d, %t, 4, %s; ld.shared.u32 %r, [%d];`
		got, err := words(t, Config{Seed: 2, Shadow: true}, 1, 32, body)
		if err != nil {
			t.Fatal(err)
		}
		for l, v := range got { // the first half of the first matrix: rows of 8 values
			row, col := uint32(l/4), uint32(l%4*2)
			want := row*8 + col | (row*8+col+1)<<16
			if trans != "" {
				want = col*8 + row | ((col+1)*8+row)<<16
			}
			if v != want {
				t.Fatalf("lane %d%s: %#x, want %#x", l, trans, v, want)
			}
		}
	}
}

// TestTensorCopies loads boxes at the edge of a tensor with each swizzle, and
// compares every byte with its place by another formula.
func TestTensorCopies(t *testing.T) {
	for _, swizzle := range []int{0, 32, 64, 128} {
		const rows, box = 20, 16
		width := swizzle
		if width == 0 {
			width = 48
		}
		data := make([]byte, rows*256)
		for i := range data {
			data[i] = byte(i*7 + i/256*13)
		}
		r := newRig(t, Config{Seed: 6, Shadow: true})
		m, err := r.device.TensorMap(cuda.Tensor{Elem: cuda.U8, At: r.in(data), Dims: []int{200, rows}, Strides: []int64{256},
			Box: []int{width, box}, Swizzle: swizzle})
		r.must(err)
		size := width * box
		out := make([]byte, size)
		to := r.room(size)
		r.must(r.stream.Launch(r.function(copyText(size), "k"), cuda.Launch{Block: cuda.Dim{X: 32}, Params: params(r.in(m[:]), to)}))
		r.must(r.stream.CopyOut(out, to))
		r.must(r.stream.Synchronize())
		for i := range size {
			row, col := i/width+10, i%width+176
			want := byte(0)
			if col < 200 && row < rows {
				want = data[row*256+col]
			}
			at := i // the chunk of 16 bytes is exchanged by the row of 128 bytes that it is in
			if swizzle > 0 {
				chunks := swizzle / 16
				line := i / 128 % chunks
				at = i&^(swizzle-1) | (i/16%chunks^line)*16 | i%16
			}
			if out[at] != want {
				t.Fatalf("swizzle %d, byte %d (at %d): %d, want %d", swizzle, i, at, out[at], want)
			}
		}
	}
}

// copyText is a kernel that loads a box at column 176, row 10 and copies the bytes out as they lie.
func copyText(size int) string {
	return fmt.Sprintf(`.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q)
{
.shared .align 1024 .b8 box[%d]; .shared .align 8 .b8 bar[8];
.reg .b64 %%m, %%o, %%d; .reg .b32 %%t, %%v, %%s; .reg .pred %%p, %%q;
ld.param.u64 %%m, [p]; ld.param.u64 %%o, [q]; mov.u32 %%t, %%tid.x; setp.eq.u32 %%q, %%t, 0;
@%%q mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; bar.sync 0; @!%%q bra wait;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], %d;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%%m, {176, 10}], [bar];
wait: mbarrier.try_wait.parity.shared.b64 %%p, [bar], 0; @!%%p bra wait;
mul.lo.u32 %%s, %%t, 4;
l: mov.u32 %%v, box; add.u32 %%v, %%v, %%s; ld.shared.u32 %%v, [%%v]; cvt.u64.u32 %%d, %%s; add.u64 %%d, %%d, %%o; st.global.u32 [%%d], %%v;
add.u32 %%s, %%s, 128; setp.lt.u32 %%p, %%s, %d; @%%p bra l; ret;
}
`, size, size, size)
}
