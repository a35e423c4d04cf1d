package cudatest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// tileBytes is the shared memory of one check of wgmma.
const tileBytes = 16384

// Groups checks wgmma: random bytes in shared memory, read by descriptors of
// every kind. Operands overlap, which is as good as any.
func Groups(t *testing.T, d cuda.Driver) {
	for _, swizzle := range []tensor.Swizzle{0, 32, 64, 128} {
		for _, f := range []tensor.Format{tensor.BF16, tensor.F16, tensor.E4M3} {
			for transposed := range 4 {
				if f != tensor.E4M3 || transposed == 0 {
					group(t, d, f, swizzle, transposed&1, transposed>>1)
				}
			}
			groupRegisters(t, d, f)
		}
	}
}

// group runs m64n16 once for 128 threads.
func group(t *testing.T, d cuda.Driver, f tensor.Format, swizzle tensor.Swizzle, transA, transB int) {
	t.Helper()
	const n, perThread = 16, tileBytes / threads / 4
	name := map[tensor.Format]string{
		tensor.BF16: "m64n16k16.f32.bf16.bf16", tensor.F16: "m64n16k16.f32.f16.f16", tensor.E4M3: "m64n16k32.f32.e4m3.e4m3",
	}[f]
	random := rand.New(rand.NewPCG(uint64(swizzle), uint64(f)))
	stride := max(swizzle.Period(), 256)
	a := tensor.Descriptor{Leading: 128, Stride: stride, Swizzle: swizzle}
	b := tensor.Descriptor{Start: 2048, Leading: 128, Stride: stride, Swizzle: swizzle}
	if swizzle != 0 {
		a.Leading, b.Leading = 2*stride, 2*stride
	}
	tail := ", 1, 1, 1;\n"
	if f != tensor.E4M3 {
		tail = fmt.Sprintf(", 1, 1, 1, %d, %d;\n", transA, transB)
	}
	// Each thread copies its part; the descriptors are those of the host, moved to where the tile lies.
	body := "mov.u32 %s, tile;\n"
	for i := 0; i < perThread; i += 4 {
		body += loads4(4*i) +
			fmt.Sprintf("mad.lo.u32 %%r10, %%t, %d, %%s;\nst.shared.v4.b32 [%%r10+%d], %s;\n", 4*perThread, 4*i, registers(0, 4))
	}
	body += "fence.proxy.async;\nbar.sync 0;\nshr.u32 %r11, %s, 4;\ncvt.u64.u32 %off, %r11;\n" +
		fmt.Sprintf("add.s64 %%rd0, %%off, %d;\nadd.s64 %%rd1, %%off, %d;\n", a.Bits(), b.Bits())
	for i := range n / 2 {
		body += fmt.Sprintf("mov.b32 %%r%d, 0f%08X;\n", 20+i, math.Float32bits(float32(i)-3.25))
	}
	body += "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned." + name + " " + registers(20, n/2) + ", %rd0, %rd1" + tail +
		"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + stores(20, n/2)
	in := make([]uint32, threads*perThread)
	for i := range in {
		in[i] = random.Uint32()
		if f.Bytes() == 2 {
			in[i] = in[i]&0x83ff_83ff | 0x3c00_3c00
		} else {
			in[i] &= 0xbfbf_bfbf // no NaN
		}
	}
	got := words(t, d, fmt.Sprintf(".shared .align 1024 .b8 tile[%d];", tileBytes), body, in, perThread, n/2)
	if got == nil {
		return
	}
	tile := func(at uint32) uint32 { return in[at/4] >> (8 * (at % 4)) & (1<<(8*f.Bytes()) - 1) }
	read := func(d tensor.Descriptor, row, trans int) (line []tensor.Number) {
		for k := range 32 / f.Bytes() {
			at := d.At(row, k, f.Bytes())
			if trans == 1 {
				at = d.AtTransposed(row, k)
			}
			line = append(line, f.Take(tile(at)))
		}
		return line
	}
	unit := tensor.Wide
	if f == tensor.E4M3 {
		unit = tensor.Narrow
	}
	for thread := range threads {
		for i := range n / 2 {
			p := tensor.AtWideD(thread, i)
			want := unit.Dot(float32(i)-3.25, f, f, read(a, p.Row, transA), read(b, p.Column, transB))
			if g := math.Float32frombits(got[thread*n/2+i]); g != want {
				t.Errorf("wgmma %s, swizzle %d, transposed %d %d: %v is %g, want %g", name, swizzle, transA, transB, p, g, want)
				return
			}
		}
	}
}

// loads4 reads 16 bytes of a thread's words.
func loads4(at int) string {
	return fmt.Sprintf("ld.global.v4.b32 %s, [%%from+%d];\n", registers(0, 4), at)
}

// groupRegisters runs m64n8 with A from registers, B from
// shared memory without a swizzle, and no accumulator to begin with.
func groupRegisters(t *testing.T, d cuda.Driver, f tensor.Format) {
	t.Helper()
	name, tail := map[tensor.Format]string{
		tensor.BF16: "m64n8k16.f32.bf16.bf16", tensor.F16: "m64n8k16.f32.f16.f16", tensor.E4M3: "m64n8k32.f32.e4m3.e4m3",
	}[f], ", %rd1, %p, 1, 1, 0;\n"
	if f == tensor.E4M3 {
		tail = ", %rd1, %p, 1, 1;\n"
	}
	b := tensor.Descriptor{Leading: 128, Stride: 256}
	body := "mov.u32 %s, tile;\n" + loads(0, 6) + "mad.lo.u32 %r10, %t, 8, %s;\nst.shared.v2.b32 [%r10], {%r4, %r5};\n" +
		"fence.proxy.async;\nbar.sync 0;\nshr.u32 %r11, %s, 4;\ncvt.u64.u32 %off, %r11;\n" +
		fmt.Sprintf("add.s64 %%rd1, %%off, %d;\nsetp.ne.u32 %%p, %%t, %%t;\n", b.Bits()) +
		"wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned." + name + " " + registers(20, 4) + ", " + registers(0, 4) + tail +
		"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + stores(20, 4)
	random := rand.New(rand.NewPCG(29, uint64(f)))
	in := make([]uint32, threads*6)
	for i := range in {
		if in[i] = random.Uint32() & 0xbfbf_bfbf; f.Bytes() == 2 {
			in[i] = random.Uint32()&0x83ff_83ff | 0x3c00_3c00
		}
	}
	got := words(t, d, ".shared .align 1024 .b8 tile[1024];", body, in, 6, 4)
	if got == nil {
		return
	}
	k, per, mask := 32/f.Bytes(), 4/f.Bytes(), uint32(1)<<(8*f.Bytes())-1
	var rows [64][32]uint32
	for thread := range threads {
		for r := range 4 {
			for i := range per {
				p := tensor.AtWideA(thread, r, i, f.Bytes())
				rows[p.Row][p.Column] = in[thread*6+r] >> (8 * f.Bytes() * i) & mask
			}
		}
	}
	unit := tensor.Wide
	if f == tensor.E4M3 {
		unit = tensor.Narrow
	}
	for thread := range threads {
		for i := range 4 {
			p := tensor.AtWideD(thread, i)
			x, y := make([]tensor.Number, k), make([]tensor.Number, k)
			for j := range k {
				at := b.At(p.Column, j, f.Bytes())
				x[j] = f.Take(rows[p.Row][j])
				y[j] = f.Take(in[at/8*6+4+at/4%2] >> (8 * (at % 4)) & mask)
			}
			if g, want := math.Float32frombits(got[thread*4+i]), unit.Dot(0, f, f, x, y); g != want {
				t.Errorf("wgmma %s, A in registers: %v is %g, want %g", name, p, g, want)
				return
			}
		}
	}
}
