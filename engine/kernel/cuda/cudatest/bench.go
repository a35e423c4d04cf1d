// Package cudatest asks a device whether it computes what the PTX ISA says. Each
// check is a kernel of a few lines, run on random and on awkward values, and an
// answer that is computed without the device: in exact fractions, in math/bits,
// or by package tensor. The same checks run on the interpreter and, where there
// is one, on a GPU. It is for tests only.
package cudatest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// kernel wraps instructions in a kernel. Each thread has three values of 64 bits:
// in %a, %b and %c, their lower halves in %ra, %rb, %rc and their lowest 16 bits
// in %ha, %hb, %hc. What the body leaves in %d is the thread's result.
const kernel = `.version 8.3
.target sm_90a
.address_size 64
.visible .entry check(.param .u64 in, .param .u64 out)
{
.reg .pred %p, %q;
.reg .b16 %ha, %hb, %hc, %hd;
.reg .b32 %ra, %rb, %rc, %rd, %re, %rt, %rn, %rx;
.reg .b64 %a, %b, %c, %d, %in, %out, %off;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
cvta.to.global.u64 %in, %in;
cvta.to.global.u64 %out, %out;
mov.u32 %rt, %tid.x;
mov.u32 %rn, %ntid.x;
mov.u32 %rx, %ctaid.x;
mad.lo.s32 %rt, %rx, %rn, %rt;
mul.wide.u32 %off, %rt, 24;
add.s64 %in, %in, %off;
ld.global.b64 %a, [%in];
ld.global.b64 %b, [%in+8];
ld.global.b64 %c, [%in+16];
cvt.u32.u64 %ra, %a;
cvt.u32.u64 %rb, %b;
cvt.u32.u64 %rc, %c;
cvt.u16.u64 %ha, %a;
cvt.u16.u64 %hb, %b;
cvt.u16.u64 %hc, %c;
BODY
mul.wide.u32 %off, %rt, 8;
add.s64 %out, %out, %off;
st.global.b64 [%out], %d;
ret;
}
`

// Endings of a body: what becomes the result.
const (
	result16 = "\ncvt.u64.u16 %d, %hd;"
	result32 = "\ncvt.u64.u32 %d, %rd;"
)

const threads = 128

// run gives each thread its three values and returns the results.
func run(t *testing.T, d cuda.Driver, body string, values [][3]uint64) []uint64 {
	t.Helper()
	for len(values)%threads != 0 {
		values = append(values, values[0])
	}
	in := make([]byte, 0, len(values)*24)
	for _, v := range values {
		for _, x := range v {
			in = binary.LittleEndian.AppendUint64(in, x)
		}
	}
	out := make([]byte, len(values)*8)
	if err := launch(d, strings.Replace(kernel, "BODY", body, 1), len(values)/threads, in, out); err != nil {
		t.Errorf("%s: %v", body, err)
		return nil
	}
	results := make([]uint64, len(values))
	for i := range results {
		results[i] = binary.LittleEndian.Uint64(out[i*8:])
	}
	return results
}

// launch runs kernel check of a text once, with the addresses of in and out.
func launch(d cuda.Driver, text string, blocks int, in, out []byte) error {
	module, err := d.Load([]byte(text))
	if err != nil {
		return err
	}
	check, err := module.Function("check")
	if err != nil {
		return err
	}
	stream, err := d.NewStream()
	if err != nil {
		return err
	}
	from, err1 := d.Alloc(int64(len(in)))
	to, err2 := d.Alloc(int64(len(out)))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(from)), uint64(to))
	err = errors.Join(
		stream.CopyIn(from, in),
		stream.Launch(check, cuda.Launch{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: threads}, Params: params}),
		stream.CopyOut(out, to),
		stream.Synchronize(),
	)
	return errors.Join(err, d.Free(from), d.Free(to), stream.Close())
}

// expect compares the results of a body with the answer for each value.
func expect(t *testing.T, d cuda.Driver, body string, values [][3]uint64, answer func(a, b, c uint64) uint64) {
	t.Helper()
	results := run(t, d, body, values)
	wrong := 0
	for i, v := range values {
		if results == nil {
			return
		}
		if want := answer(v[0], v[1], v[2]); results[i] != want {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: of %#x, %#x, %#x: %#x, want %#x", strings.ReplaceAll(body, "\n", " "), v[0], v[1], v[2], results[i], want)
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%s: %d of %d results are wrong", strings.ReplaceAll(body, "\n", " "), wrong, len(values))
	}
}

// op32 is an instruction of 32-bit operands.
func op32(name string, operands int) string {
	return fmt.Sprintf("%s %%rd%s;", name, []string{"", ", %ra", ", %ra, %rb", ", %ra, %rb, %rc"}[operands]) + result32
}

// op16 is an instruction of 16-bit operands.
func op16(name string, operands int) string {
	return fmt.Sprintf("%s %%hd%s;", name, []string{"", ", %ha", ", %ha, %hb", ", %ha, %hb, %hc"}[operands]) + result16
}

// op64 is an instruction of 64-bit operands.
func op64(name string, operands int) string {
	return fmt.Sprintf("%s %%d%s;", name, []string{"", ", %a", ", %a, %b", ", %a, %b, %c"}[operands])
}
