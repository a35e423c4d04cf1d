package cudatest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// boxKernel loads one box to shared memory and copies that to out, 16 bytes per
// thread and round.
const boxKernel = `.version 8.3
.target sm_90a
.address_size 64
.shared .align 1024 .b8 tile[BYTES];
.shared .align 8 .b64 bar;
.visible .entry check(.param .u64 map, .param .u64 out)
{
.reg .pred %p;
.reg .b32 %t, %s, %b, %i, %r<4>;
.reg .b64 %map, %out, %off;
ld.param.u64 %map, [map];
ld.param.u64 %out, [out];
cvta.to.global.u64 %out, %out;
mov.u32 %t, %tid.x;
mov.u32 %s, tile;
mov.u32 %b, bar;
setp.ne.u32 %p, %t, 0;
@%p bra wait;
mbarrier.init.shared.b64 [%b], 1;
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], BYTES;
cp.async.bulk.tensor.RANKd.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%map, {COORDS}], [%b];
wait:
bar.sync 0;
again:
mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0;
@!%p bra again;
shl.b32 %i, %t, 4;
next:
setp.ge.u32 %p, %i, BYTES;
@%p bra done;
add.u32 %t, %s, %i;
ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%t];
cvt.u64.u32 %off, %i;
add.s64 %off, %out, %off;
st.global.v4.b32 [%off], {%r0, %r1, %r2, %r3};
add.u32 %i, %i, 2048;
bra next;
done:
ret;
}
`

// Boxes checks tensor loads of random shapes, at coordinates inside and outside.
func Boxes(t *testing.T, d cuda.Driver) {
	random := rand.New(rand.NewPCG(25, 26))
	var seen places
	for range 60 {
		m := tensor.Map{Swizzle: []tensor.Swizzle{0, 32, 64, 128}[random.IntN(4)]}
		elem := []cuda.Elem{cuda.U8, cuda.BF16, cuda.F32}[random.IntN(3)]
		m.Size = elem.Bytes()
		row := uint32(m.Swizzle)
		if row == 0 {
			row = 16 * (1 + random.Uint32N(8))
		}
		m.Box, m.Dims = []uint32{row / uint32(m.Size)}, []uint64{1 + random.Uint64N(150)}
		stride := (m.Dims[0]*uint64(m.Size)+15)&^15 + 16*random.Uint64N(3)
		coords := []int32{random.Int32N(200) - 80}
		coords[0] -= coords[0] % int32(16/m.Size)
		for range random.IntN(4) {
			m.Box, m.Dims = append(m.Box, 1+random.Uint32N(5)), append(m.Dims, 1+random.Uint64N(7))
			m.Strides = append(m.Strides, stride)
			stride = stride * m.Dims[len(m.Dims)-1]
			coords = append(coords, random.Int32N(10)-3)
		}
		memory := make([]byte, stride)
		for i := range memory {
			memory[i] = byte(random.Uint32())
		}
		if err := box(t, d, m, elem, coords, memory, &seen); err != nil {
			t.Errorf("%+v at %v: %v", m, coords, err)
			return
		}
	}
	if seen.inside == 0 || seen.partly == 0 || seen.outside == 0 || seen.before == 0 {
		t.Errorf("of the boxes %+v: one kind was not asked for", seen)
	}
}

// places counts boxes by where they lie: inside of the tensor, partly, wholly outside, and before its rows begin.
type places struct{ inside, partly, outside, before int }

// count adds a box, of whose bytes so many lie in the tensor.
func (p *places) count(within, all int, first int32) {
	switch within {
	case all:
		p.inside++
	case 0:
		p.outside++
	default:
		p.partly++
	}
	if first < 0 {
		p.before++
	}
}

// box loads one box and compares it with what package tensor moves.
func box(t *testing.T, d cuda.Driver, m tensor.Map, elem cuda.Elem, coords []int32, memory []byte, seen *places) error {
	t.Helper()
	stream, err := d.NewStream()
	if err != nil {
		return err
	}
	at, err1 := d.Alloc(int64(len(memory)))
	mapAt, err2 := d.Alloc(128)
	out, err3 := d.Alloc(int64(m.Bytes()))
	if err := errors.Join(err1, err2, err3, stream.CopyIn(at, memory)); err != nil {
		return err
	}
	m.At = uint64(at)
	if err := m.Check(); err != nil {
		return err
	}
	described := cuda.Tensor{Elem: elem, At: at, Swizzle: int(m.Swizzle)}
	for i := range m.Dims {
		described.Dims, described.Box = append(described.Dims, int(m.Dims[i])), append(described.Box, int(m.Box[i]))
		if i > 0 {
			described.Strides = append(described.Strides, int64(m.Strides[i-1]))
		}
	}
	encoded, err := d.TensorMap(described)
	if err != nil {
		return err
	}
	got := make([]byte, m.Bytes())
	if err := loadBox(d, stream, encoded, mapAt, out, coords, got); err != nil {
		return err
	}
	const base = 1024
	want, within := make([]byte, len(got)), 0
	if err := m.Runs(base, coords, func(r tensor.Run) {
		if r.Device != 0 {
			within += copy(want[r.Shared-base:][:r.Bytes], memory[r.Device-m.At:])
		}
	}); err != nil {
		return err
	}
	seen.count(within, len(want), coords[0])
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
	return errors.Join(d.Free(at), d.Free(mapAt), d.Free(out), stream.Close())
}

// loadBox runs the kernel.
func loadBox(d cuda.Driver, stream cuda.Stream, m cuda.TensorMap, mapAt, out cuda.Pointer, coords []int32, got []byte) error {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(coords), " ", ", "), "[]")
	text := strings.NewReplacer("BYTES", fmt.Sprint(len(got)), "RANK", fmt.Sprint(len(coords)), "COORDS", list).Replace(boxKernel)
	module, err := d.Load([]byte(text))
	if err != nil {
		return err
	}
	check, err := module.Function("check")
	if err != nil {
		return err
	}
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(mapAt)), uint64(out))
	return errors.Join(
		stream.CopyIn(mapAt, m[:]),
		stream.Launch(check, cuda.Launch{Grid: cuda.Dim{X: 1}, Block: cuda.Dim{X: threads}, Params: params}),
		stream.CopyOut(got, out), stream.Synchronize(),
	)
}
