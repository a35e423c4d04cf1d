package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/ref"
)

// forLevels runs f once per level that this processor can run.
func forLevels(t *testing.T, f func(t *testing.T, level string)) {
	t.Helper()
	names := Levels()
	if len(names) == 0 {
		t.Fatal("no level to test")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

// open makes a backend that is closed with the test.
func open(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// normals is n values of a normal distribution.
func normals(r *rand.Rand, n int, sigma float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * sigma)
	}
	return x
}

// upload makes a buffer of x.
func upload(b kernel.Backend, x []float32) kernel.Buffer {
	buf := b.NewBuffer(len(x))
	b.Upload(buf, 0, x)
	return buf
}

// download is the first n values of a buffer.
func download(b kernel.Backend, buf kernel.Buffer, n int) []float32 {
	x := make([]float32, n)
	b.Download(x, buf, 0)
	return x
}

var allTypes = []kernel.Type{kernel.F32, kernel.F16, kernel.BF16, kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K,
	kernel.Q5_0, kernel.IQ4_NL, kernel.MXFP4}

// randomSource is a matrix of random blocks: every code can occur, scales are
// such that values are of the order of 0.1.
func randomSource(r *rand.Rand, t kernel.Type, experts, rows, cols int) kernel.Source {
	s := sources[t]
	data := make([]byte, experts*rows*cols/s.values*s.bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for at := 0; at < len(data); at += s.bytes {
		fixBlock(r, t, data[at:at+s.bytes])
	}
	return kernel.Source{Name: fmt.Sprintf("w%d.%d", t, r.Uint32()), Type: t, Experts: experts, Rows: rows, Cols: cols, Data: data}
}

// fixBlock replaces the floats of a random block by sane ones.
func fixBlock(r *rand.Rand, t kernel.Type, b []byte) {
	put := func(at int, v float64) { binary.LittleEndian.PutUint16(b[at:], floatToHalf(float32(v))) }
	v := 0.1 * r.NormFloat64()
	switch t {
	case kernel.F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	case kernel.F16:
		put(0, v)
	case kernel.BF16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
	case kernel.Q8_0:
		put(0, v/64)
	case kernel.Q4_0:
		put(0, v/4)
	case kernel.Q4_K:
		put(0, v/256)
		put(2, 0.1*r.NormFloat64()/32)
	case kernel.Q5_K:
		put(0, v/512)
		put(2, 0.1*r.NormFloat64()/32)
	case kernel.Q6_K:
		put(208, v/2048)
	case kernel.Q5_0:
		put(0, v/8)
	case kernel.IQ4_NL:
		put(0, v/64)
	case kernel.MXFP4:
		b[0] = byte(119 + r.IntN(6))
	}
}

// near fails when got differs from want by more than tolerance(i).
func near(t *testing.T, what string, got, want []float32, tolerance func(i int) float64) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%s: %d values, want %d (not 0)", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= tolerance(i)) {
			t.Fatalf("%s: value %d is %g, want %g: off by %.3g, at most %.3g", what, i, got[i], want[i], d, tolerance(i))
		}
	}
}

// relative is a tolerance of f times the largest value, for results whose
// error does not depend on the single value.
func relative(want []float32, f float64) func(int) float64 {
	var top float64
	for _, v := range want {
		top = max(top, math.Abs(float64(v)))
	}
	return func(int) float64 { return f*top + 1e-30 }
}

// same fails unless the two are equal bit by bit.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%s: %d values, want %d (not 0)", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %g, want exactly %g", what, i, got[i], want[i])
		}
	}
}

// load brings src to b.
func load(t testing.TB, b kernel.Backend, src kernel.Source) kernel.Weight {
	t.Helper()
	w, err := b.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// roundActivations is x as the backend sees it before quantized weights: the
// codes times their scales. It turns a comparison with the reference into one
// of arithmetic, without the error of quantizing.
func roundActivations(x []float32) []float32 {
	out := make([]float32, len(x))
	for i := 0; i+blockCols <= len(x); i += blockCols {
		top := float32(1e-30)
		for _, v := range x[i : i+blockCols] {
			top = max(top, float32(math.Abs(float64(v))))
		}
		d, inv := top/127, 127/top
		for k, v := range x[i : i+blockCols] {
			out[i+k] = d * float32(math.RoundToEven(float64(v*inv)))
		}
	}
	return out
}

var reference = ref.New()
