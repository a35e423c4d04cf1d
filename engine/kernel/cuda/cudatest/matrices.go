package cudatest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// entry begins a kernel whose threads have %from and %to, their places in the
// arrays of in and out, which have IN and OUT bytes for each.
const entry = `.version 8.4
.target sm_90a
.address_size 64
SHARED
.visible .entry check(.param .u64 in, .param .u64 out)
{
.reg .pred %p;
.reg .b32 %t, %n, %x, %s, %r<200>;
.reg .b64 %in, %out, %from, %to, %off, %rd<8>;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
cvta.to.global.u64 %in, %in;
cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x;
mov.u32 %n, %ntid.x;
mov.u32 %x, %ctaid.x;
mad.lo.s32 %n, %x, %n, %t;
mul.wide.u32 %off, %n, INBYTES;
add.s64 %from, %in, %off;
mul.wide.u32 %off, %n, OUTBYTES;
add.s64 %to, %out, %off;
BODY
ret;
}
`

// Try runs a body of 128 threads with 8 words of input and of output each, and
// returns what the device says of it. %s is free, %t the thread's number. The
// input begins with the map of a tensor of 8 rows of 64 bytes, cut into boxes of
// 2 rows of 32 bytes; the rest is zeros.
func Try(d cuda.Driver, shared, body string) error {
	const words = 8
	size := fmt.Sprint(4 * words)
	text := strings.NewReplacer("INBYTES", size, "OUTBYTES", size, "SHARED", shared, "BODY", body).Replace(entry)
	at, err := d.Alloc(8 * 64)
	if err != nil {
		return err
	}
	m, err := d.TensorMap(cuda.Tensor{Elem: cuda.U8, At: at, Dims: []int{64, 8}, Strides: []int64{64}, Box: []int{32, 2}})
	if err != nil {
		return err
	}
	in := make([]byte, 4*words*threads)
	copy(in, m[:])
	return errors.Join(launch(d, text, 1, in, make([]byte, len(in))), d.Free(at))
}

// words runs a body with in and out words per thread, and returns all outputs.
func words(t *testing.T, d cuda.Driver, shared, body string, in []uint32, perIn, perOut int) []uint32 {
	t.Helper()
	count := len(in) / perIn
	sizes := []string{"INBYTES", fmt.Sprint(4 * perIn), "OUTBYTES", fmt.Sprint(4 * perOut)}
	text := strings.NewReplacer(append(sizes, "SHARED", shared, "BODY", body)...).Replace(entry)
	var bytes []byte
	for _, w := range in {
		bytes = binary.LittleEndian.AppendUint32(bytes, w)
	}
	out := make([]byte, count*perOut*4)
	if err := launch(d, text, count/threads, bytes, out); err != nil {
		t.Errorf("%s: %v", body, err)
		return nil
	}
	results := make([]uint32, count*perOut)
	for i := range results {
		results[i] = binary.LittleEndian.Uint32(out[i*4:])
	}
	return results
}

// loads reads n words into %r<first> and on; stores writes them.
func loads(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "ld.global.b32 %%r%d, [%%from+%d];\n", first+i, 4*i)
	}
	return b.String()
}

func stores(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "st.global.b32 [%%to+%d], %%r%d;\n", 4*i, first+i)
	}
	return b.String()
}

// registers is a vector of n registers.
func registers(first, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%%r%d", first+i)
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// Matrices checks mma.sync and ldmatrix.
func Matrices(t *testing.T, d cuda.Driver) {
	for _, c := range []struct {
		name string
		f    tensor.Format
		k    int
	}{
		{"m16n8k16.row.col.f32.bf16.bf16.f32", tensor.BF16, 16},
		{"m16n8k16.row.col.f32.f16.f16.f32", tensor.F16, 16},
		{"m16n8k8.row.col.f32.tf32.tf32.f32", tensor.TF32, 8},
		{"m16n8k32.row.col.f32.e4m3.e4m3.f32", tensor.E4M3, 32},
		{"m16n8k32.row.col.f32.e5m2.e5m2.f32", tensor.E5M2, 32},
	} {
		multiply(t, d, "mma.sync.aligned."+c.name, c.f.Bytes(), func(a, b []uint32, acc uint32) uint32 {
			if c.f.Bytes() == 1 {
				return math.Float32bits(tensor.DotUnpacked(math.Float32frombits(acc), c.f, c.f, a, b))
			}
			x, y := make([]tensor.Number, c.k), make([]tensor.Number, c.k)
			for k := range c.k {
				x[k], y[k] = c.f.Take(a[k]), c.f.Take(b[k])
			}
			return math.Float32bits(tensor.Wide.Dot(math.Float32frombits(acc), c.f, c.f, x, y))
		})
	}
	multiply(t, d, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 1, func(a, b []uint32, acc uint32) uint32 {
		x, y := make([]int32, 32), make([]int32, 32)
		for k := range 32 {
			x[k], y[k] = int32(int8(a[k])), int32(int8(b[k]))
		}
		return uint32(tensor.DotInt(int32(acc), x, y, false))
	})
	loadMatrices(t, d)
	storeMatrices(t, d)
}

// multiply runs an mma of 16-byte wide fragments and compares each element of D
// with dot of its row, its column and its accumulator.
func multiply(t *testing.T, d cuda.Driver, name string, size int, dot func(a, b []uint32, acc uint32) uint32) {
	t.Helper()
	random := rand.New(rand.NewPCG(17, 18))
	const perIn, warps = 10, 64
	in := make([]uint32, warps*32*perIn)
	for i := range in {
		in[i] = random.Uint32()
		if i/(32*perIn)%2 == 0 && size == 2 { // most bits near 1, so that sums cancel and round
			in[i] = in[i]&0x83ff_83ff | 0x3c00_3c00
		}
		if i%perIn >= 6 && i/(32*perIn)%2 == 0 {
			in[i] = in[i]&0x807f_ffff | (120+random.Uint32N(14))<<23
		}
	}
	operands := strings.Join([]string{registers(20, 4), registers(0, 4), registers(4, 2), registers(6, 4)}, ", ")
	body := loads(0, perIn) + name + " " + operands + ";\n" + stores(20, 4)
	got := words(t, d, "", body, in, perIn, 4)
	per, k := 4/size, 32/size
	element := func(w uint32, i int) uint32 { return w >> (8 * size * i) & uint32(1<<(8*size)-1) }
	for warp := range warps {
		var a [16][]uint32
		var b [8][]uint32
		for i := range a {
			a[i] = make([]uint32, k)
		}
		for i := range b {
			b[i] = make([]uint32, k)
		}
		for lane := range 32 {
			w := in[(warp*32+lane)*perIn:]
			for i := range per {
				for r := range 4 {
					p := tensor.AtA(lane, r, i, size)
					a[p.Row][p.Column] = element(w[r], i)
				}
				for r := range 2 {
					p := tensor.AtB(lane, r, i, size)
					b[p.Column][p.Row] = element(w[4+r], i)
				}
			}
		}
		for lane := range 32 {
			for i := range 4 {
				if got == nil {
					return
				}
				p := tensor.AtC(lane, i)
				want := dot(a[p.Row], b[p.Column], in[(warp*32+lane)*perIn+6+i])
				if g := got[(warp*32+lane)*4+i]; g != want {
					t.Errorf("%s: warp %d, %v is %#x, want %#x", name, warp, p, g, want)
					return
				}
			}
		}
	}
}

// loadMatrices checks ldmatrix on a block of shared memory that all threads fill
// with their numbers.
func loadMatrices(t *testing.T, d cuda.Driver) {
	const shared = ".shared .align 16 .b8 tile[2048];"
	for _, trans := range []bool{false, true} {
		name := "ldmatrix.sync.aligned.m8n8.x4" + map[bool]string{true: ".trans"}[trans] + ".shared.b16 "
		body := loads(0, 5) + `mov.u32 %s, tile;
shl.b32 %r10, %t, 4;
add.u32 %r10, %s, %r10;
st.shared.v4.b32 [%r10], {%r0, %r1, %r2, %r3};
bar.sync 0;
shl.b32 %r11, %r4, 4;
add.u32 %r11, %s, %r11;
` + name + registers(20, 4) + ", [%r11];\n" + stores(20, 4)
		random := rand.New(rand.NewPCG(19, 20))
		in := make([]uint32, threads*5)
		for i := range in {
			if in[i] = random.Uint32(); i%5 == 4 {
				in[i] %= threads // the row of 16 bytes that the thread names
			}
		}
		got := words(t, d, shared, body, in, 5, 4)
		half := func(row uint32, i int) uint32 { return in[int(row)*5+i/2] >> (16 * (i % 2)) & 0xffff }
		for thread := range threads {
			for m := range 4 {
				if got == nil {
					return
				}
				want := uint32(0)
				for i := range 2 {
					p := tensor.AtMatrix(thread%32, i, trans)
					row := in[(thread/32*32+m*8+p.Row)*5+4]
					want |= half(row, p.Column) << (16 * i)
				}
				if g := got[thread*4+m]; g != want {
					t.Fatalf("%s: thread %d, matrix %d: %#x, want %#x", name, thread, m, g, want)
				}
			}
		}
	}
}

// storeMatrices checks that stmatrix puts registers where ldmatrix gets them.
func storeMatrices(t *testing.T, d cuda.Driver) {
	random := rand.New(rand.NewPCG(31, 32))
	in := make([]uint32, threads*4)
	for i := range in {
		in[i] = random.Uint32()
	}
	for _, trans := range []string{"", ".trans"} {
		body := loads(0, 4) + "mov.u32 %s, tile;\nshl.b32 %r10, %t, 4;\nadd.u32 %r10, %s, %r10;\n" +
			"stmatrix.sync.aligned.m8n8.x4" + trans + ".shared.b16 [%r10], " + registers(0, 4) + ";\nbar.sync 0;\n" +
			"ld.shared.v4.b32 " + registers(20, 4) + ", [%r10];\n" + stores(20, 4)
		got := words(t, d, ".shared .align 16 .b8 tile[2048];", body, in, 4, 4)
		if got == nil {
			return
		}
		for lane := range threads { // of a register, which has two elements of one matrix
			for m := range 4 {
				for i := range 2 {
					p := tensor.AtMatrix(lane%32, i, trans != "")
					row := got[(lane/32*32+m*8+p.Row)*4:]
					if g, want := row[p.Column/2]>>(16*(p.Column%2))&0xffff, in[lane*4+m]>>(16*i)&0xffff; g != want {
						t.Errorf("stmatrix%s: matrix %d, %v is %#x, want %#x", trans, m, p, g, want)
						return
					}
				}
			}
		}
	}
}
