package interp

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// rig is a device with the stream that a test uses.
type rig struct {
	t      testing.TB
	device *Device
	stream cuda.Stream
	loaded map[string]cuda.Function // by text
}

func newRig(t testing.TB, c Config) *rig {
	t.Helper()
	d := Open(c)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, d, s, map[string]cuda.Function{}}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// in returns device memory with a content.
func (r *rig) in(b []byte) cuda.Pointer {
	r.t.Helper()
	p, err := r.device.Alloc(int64(len(b)))
	r.must(err)
	r.must(r.stream.CopyIn(p, b))
	return p
}

func (r *rig) room(n int) cuda.Pointer {
	r.t.Helper()
	p, err := r.device.Alloc(int64(n))
	r.must(err)
	return p
}

func (r *rig) function(text, name string) cuda.Function {
	r.t.Helper()
	if f := r.loaded[text]; f != nil {
		return f
	}
	m, err := r.device.Load([]byte(text))
	r.must(err)
	f, err := m.Function(name)
	r.must(err)
	r.loaded[text] = f
	return f
}

// params packs 8-byte and 4-byte values.
func params(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case cuda.Pointer:
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b
}

func brainBytes(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
	}
	return b
}

func floatBytes(v []float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func floats(b []byte) []float64 {
	v := make([]float64, len(b)/4)
	for i := range v {
		v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return v
}

func brains(b []byte) []float64 {
	v := make([]float64, len(b)/2)
	for i := range v {
		v[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16))
	}
	return v
}

// brainValues are random numbers that bf16 represents.
func brainValues(random *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(math.Float32bits(float32(random.NormFloat64())) &^ 0xffff)
	}
	return v
}

// distance is the relative Frobenius error; NaN when a value is none.
func distance(got, want []float64) float64 {
	var diff, norm float64
	for i := range want {
		diff += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	if norm == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff / norm)
}

// matrixProductOf is a·bᵀ in float64.
func matrixProductOf(a, b []float32, m, n, k int) []float64 {
	c := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for x := range k {
				c[i*n+j] += float64(a[i*k+x]) * float64(b[j*k+x])
			}
		}
	}
	return c
}

// kernelCase runs one of the kernels of testdata and returns its error, or how
// far it is from float64 arithmetic.
type kernelCase struct {
	name  string
	limit float64
	run   func(r *rig, text string) (float64, error)
}

var kernelCases = []kernelCase{{"rmsnorm", 3e-3, runNorm}, {"gemm", 1e-5, runGemm}, {"wgemm", 1e-5, runGroupGemm}}

func seeded(r *rig) *rand.Rand { return rand.New(rand.NewPCG(r.device.config.Seed, 7)) }

func runNorm(r *rig, text string) (worst float64, err error) {
	for _, d := range []int{104, 2304, 10496} { // less than a round, and more than an unrolled loop
		far, err := runNormOf(r, text, d)
		if err != nil {
			return far, err
		}
		worst = max(worst, far)
	}
	return worst, nil
}

func runNormOf(r *rig, text string, d int) (float64, error) {
	const rows = 3
	random := seeded(r)
	in, weight := brainValues(random, rows*d), brainValues(random, d)
	out := make([]byte, rows*d*2)
	to := r.room(len(out))
	f := r.function(text, "rmsnorm")
	r.must(r.stream.Launch(f, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256},
		Params: params(to, r.in(brainBytes(in)), r.in(floatBytes(weight)), d, float32(1e-6))}))
	r.must(r.stream.CopyOut(out, to))
	if err := r.stream.Synchronize(); err != nil {
		return 0, err
	}
	var want []float64
	for i := range rows {
		var sum float64
		for _, x := range in[i*d:][:d] {
			sum += float64(x) * float64(x)
		}
		for j, x := range in[i*d:][:d] {
			want = append(want, float64(x)*float64(weight[j])/math.Sqrt(sum/float64(d)+1e-6))
		}
	}
	return distance(brains(out), want), nil
}

func runGemm(r *rig, text string) (float64, error) {
	if empty, err := runGemmOf(r, text, 0); err != nil || empty > 0 {
		return empty, err
	}
	return runGemmOf(r, text, 224)
}

// runGemmOf multiplies matrices of k columns; without any the result is 0.
func runGemmOf(r *rig, text string, k int) (float64, error) {
	const m, n = 128, 64
	random := seeded(r)
	a, b := brainValues(random, max(m*k, 8)), brainValues(random, max(n*k, 8))
	out := make([]byte, m*n*4)
	to := r.room(len(out))
	f := r.function(text, "gemm")
	r.must(r.stream.Launch(f, cuda.Launch{Grid: cuda.Dim{X: n / 64, Y: m / 64}, Block: cuda.Dim{X: 128},
		Params: params(to, r.in(brainBytes(a)), r.in(brainBytes(b)), n, k)}))
	r.must(r.stream.CopyOut(out, to))
	if err := r.stream.Synchronize(); err != nil {
		return 0, err
	}
	return distance(floats(out), matrixProductOf(a, b, m, n, k)), nil
}

func runGroupGemm(r *rig, text string) (float64, error) {
	const m, n, k = 64, 128, 704 // 11 steps: two rounds of an unrolled loop and a rest
	random := seeded(r)
	a, b := brainValues(random, m*k), brainValues(random, n*k)
	out := make([]byte, m*n*4)
	to := r.room(len(out))
	maps := func(at cuda.Pointer, e cuda.Elem, rows, cols, swizzle int) cuda.Pointer {
		m, err := r.device.TensorMap(cuda.Tensor{Elem: e, At: at, Dims: []int{cols, rows}, Strides: []int64{int64(cols * e.Bytes())},
			Box: []int{64, 64}, Swizzle: swizzle})
		r.must(err)
		return r.in(m[:])
	}
	f := r.function(text, "wgemm")
	const dynamic = 4*2*8192 + 64*64*4
	r.must(f.AllowShared(dynamic))
	r.must(r.stream.Launch(f, cuda.Launch{Grid: cuda.Dim{X: n / 64, Y: m / 64}, Block: cuda.Dim{X: 160}, Shared: dynamic,
		Params: append(params(maps(r.in(brainBytes(a)), cuda.BF16, m, k, 128), maps(r.in(brainBytes(b)), cuda.BF16, n, k, 128),
			maps(to, cuda.F32, m, n, 0)), params(k)...)}))
	r.must(r.stream.CopyOut(out, to))
	if err := r.stream.Synchronize(); err != nil {
		return 0, err
	}
	return distance(floats(out), matrixProductOf(a, b, m, n, k)), nil
}

// seeds is how many random orders a kernel is run with.
const seeds = 3

func TestKernelsAgreeWithFloat64(t *testing.T) {
	base := rand.Uint64()
	for _, c := range kernelCases {
		for file, text := range ptxFiles(t) {
			if !strings.HasPrefix(file, c.name+".") {
				continue
			}
			t.Run(file, func(t *testing.T) {
				for i := range uint64(seeds) {
					r := newRig(t, Config{Seed: base + i, Workers: 2, Shadow: true})
					got, err := c.run(r, text)
					if err != nil || !(got <= c.limit) {
						t.Fatalf("seed %d: error %g, at most %g: %v", base+i, got, c.limit, err)
					}
					t.Logf("error %.2g, %d instructions", got, r.device.Instructions())
				}
			})
		}
	}
}
