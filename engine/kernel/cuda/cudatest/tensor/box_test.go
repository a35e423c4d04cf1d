package tensor_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda/cudatest/tensor"
)

const deviceAt = 0x7000

// draw makes a map of random shape and device memory for it.
func draw(random *rand.Rand) (tensor.Map, []byte) {
	m := tensor.Map{At: deviceAt, Size: []int{1, 2, 4}[random.IntN(3)], Swizzle: []tensor.Swizzle{0, 32, 64, 128}[random.IntN(4)]}
	stride := uint64(0)
	for i := range 1 + random.IntN(4) {
		dim, box := 1+random.Uint64N(9), 1+random.Uint32N(4)
		if i == 0 {
			row := 16 * (1 + random.IntN(4))
			if m.Swizzle != 0 {
				row = int(m.Swizzle)
			}
			box, dim = uint32(row/m.Size), 1+random.Uint64N(80)
			stride = (dim*uint64(m.Size)+15)&^15 + 16*random.Uint64N(3)
		} else {
			m.Strides = append(m.Strides, stride)
			stride = stride*dim + 16*random.Uint64N(2)
		}
		m.Dims, m.Box = append(m.Dims, dim), append(m.Box, box)
	}
	memory := make([]byte, stride)
	for i := range memory {
		memory[i] = byte(1 + random.IntN(255)) // never 0: what lies outside reads as 0
	}
	return m, memory
}

// element is byte b of an element of the tensor by its definition, 0 outside.
func element(m tensor.Map, memory []byte, at []int64, b int) byte {
	offset := at[0]*int64(m.Size) + int64(b)
	for i := range at {
		if at[i] < 0 || at[i] >= int64(m.Dims[i]) {
			return 0
		}
		if i > 0 {
			offset += at[i] * int64(m.Strides[i-1])
		}
	}
	return memory[offset]
}

func TestBoxesMoveEveryByteOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	outside, inside := 0, 0
	for range 2000 {
		m, memory := draw(random)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		corner := make([]int32, len(m.Dims))
		for i := range corner {
			corner[i] = random.Int32N(int32(m.Dims[i])+int32(m.Box[i])+2) - int32(m.Box[i]) - 1
		}
		corner[0] -= corner[0] % int32(16/m.Size)
		base := 1024 * (1 + random.Uint32N(4))
		shared, written := make([]byte, m.Bytes()+1024), make([]int, m.Bytes()+1024)
		err := m.Runs(base, corner, func(r tensor.Run) {
			for i := range uint32(r.Bytes) {
				to := r.Shared - base + i
				written[to]++
				if r.Device != 0 {
					shared[to] = memory[r.Device-deviceAt+uint64(i)]
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		pattern := mode{}
		for _, p := range modes {
			if p.swizzle == m.Swizzle {
				pattern = p
			}
		}
		for b := range m.Bytes() {
			at := make([]int64, len(m.Dims))
			rest := b / m.Size
			for i := range at {
				at[i] = int64(corner[i]) + int64(rest%int(m.Box[i]))
				rest /= int(m.Box[i])
			}
			to, want := pattern.exchange(base+uint32(b))-base, element(m, memory, at, b%m.Size)
			if shared[to] != want || written[to] != 1 {
				t.Fatalf("%+v at %v: byte %d is %d and was written %d times, want %d once", m, corner, b, shared[to], written[to], want)
			}
			if want == 0 {
				outside++
			} else {
				inside++
			}
			written[to] = 0
		}
		for to, n := range written {
			if n != 0 {
				t.Fatalf("%+v at %v: byte %d after the box was written", m, corner, to)
			}
		}
	}
	if outside == 0 || inside == 0 {
		t.Fatalf("%d bytes outside, %d inside: one of them was not tested", outside, inside)
	}
}

func TestMapRules(t *testing.T) {
	good := func() tensor.Map {
		return tensor.Map{At: deviceAt, Size: 2, Dims: []uint64{100, 8}, Strides: []uint64{208}, Box: []uint32{64, 8}, Swizzle: 128}
	}
	m := good()
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	rows := map[string]func(m *tensor.Map){
		"want a multiple of 16\n":  func(m *tensor.Map) { m.At++ },
		"elements of 3 bytes":      func(m *tensor.Map) { m.Size = 3 },
		"stride 200":               func(m *tensor.Map) { m.Strides[0] = 200 },
		"has 0 elements":           func(m *tensor.Map) { m.Dims[1] = 0 },
		"box has 257":              func(m *tensor.Map) { m.Box[1] = 257 },
		"box row has 6 bytes":      func(m *tensor.Map) { m.Box[0] = 3 },
		"want its swizzle's 128":   func(m *tensor.Map) { m.Box[0] = 32 },
		"swizzle 96":               func(m *tensor.Map) { m.Swizzle = 96 },
		"1 dimensions, 2 box size": func(m *tensor.Map) { m.Dims = m.Dims[:1] },
	}
	for want, spoil := range rows {
		m := good()
		spoil(&m)
		if err := m.Check(); err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	none := func(tensor.Run) { t.Error("a refused copy moved something") }
	if err := m.Runs(64, []int32{0, 0}, none); err == nil {
		t.Error("a shared address of 64 was taken")
	}
	if err := m.Runs(1024, []int32{4, 0}, none); err == nil {
		t.Error("a box that begins 8 bytes into a row was taken")
	}
	if err := m.Runs(1024, []int32{0}, none); err == nil {
		t.Error("one coordinate was taken for two dimensions")
	}
}

// stage copies rows x 64 bf16 values as one box of rows to shared memory.
func stage(t *testing.T, shared []byte, at uint32, values []float64, rows int) {
	t.Helper()
	memory := make([]byte, len(values)*2)
	for i, v := range values {
		bits := tensor.BF16.Encode(v, tensor.Conversion{})
		memory[2*i], memory[2*i+1] = byte(bits), byte(bits>>8)
	}
	m := tensor.Map{At: deviceAt, Size: 2, Dims: []uint64{64, uint64(rows)}, Strides: []uint64{128}, Swizzle: 128}
	m.Box = []uint32{64, uint32(rows)}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if err := m.Runs(at, []int32{0, 0}, func(r tensor.Run) {
		copy(shared[r.Shared:], memory[r.Device-deviceAt:][:r.Bytes])
	}); err != nil {
		t.Fatal(err)
	}
}

// product computes m64n32 over 64 of k as a kernel does: four instructions whose
// descriptors begin 32 bytes after each other.
func product(shared []byte, a, b tensor.Descriptor) []float32 {
	d := make([]float32, 64*32)
	load := func(d tensor.Descriptor, row int) (line []tensor.Number) {
		for k := range 16 {
			at := d.At(row, k, 2)
			line = append(line, tensor.BF16.Take(uint32(shared[at])|uint32(shared[at+1])<<8))
		}
		return line
	}
	for range 4 {
		for thread := range 128 {
			for i := range 16 {
				p := tensor.AtWideD(thread, i)
				at := p.Row*32 + p.Column
				d[at] = tensor.Wide.Dot(d[at], tensor.BF16, tensor.BF16, load(a, p.Row), load(b, p.Column))
			}
		}
		a.Start += 32
		b.Start += 32
	}
	return d
}

func TestCopiedTilesMultiply(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	values := func(n int) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = tensor.BF16.Decode(tensor.BF16.Encode(random.NormFloat64(), tensor.Conversion{}))
		}
		return all
	}
	x, y := values(64*64), values(32*64)
	shared := make([]byte, 1<<15)
	stage(t, shared, 1024, x, 64)
	stage(t, shared, 1024+64*128, y, 32)
	distance := func(d []float32) float64 {
		off, norm := 0.0, 0.0
		for row := range 64 {
			for col := range 32 {
				want := 0.0
				for k := range 64 {
					want += x[row*64+k] * y[col*64+k]
				}
				off += (float64(d[row*32+col]) - want) * (float64(d[row*32+col]) - want)
				norm += want * want
			}
		}
		return math.Sqrt(off / norm)
	}
	a := tensor.Descriptor{Start: 1024, Leading: 16, Stride: 1024, Swizzle: 128}
	b := tensor.Descriptor{Start: 1024 + 64*128, Leading: 16, Stride: 1024, Swizzle: 128}
	if e := distance(product(shared, a, b)); e > 1e-6 {
		t.Errorf("relative error %g, want 1e-6", e)
	}
	for what, spoil := range map[string]func(d *tensor.Descriptor){
		"stride":  func(d *tensor.Descriptor) { d.Stride = 512 },
		"swizzle": func(d *tensor.Descriptor) { d.Swizzle = 64 },
		"start":   func(d *tensor.Descriptor) { d.Start += 16 },
	} {
		wrong := a
		spoil(&wrong)
		if e := distance(product(shared, wrong, b)); e < 0.1 {
			t.Errorf("with a wrong %s the relative error is %g: the test sees nothing", what, e)
		}
	}
}
