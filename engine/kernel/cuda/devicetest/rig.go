package devicetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
)

// Rig is a backend on a device, the reference, and random numbers for both.
type Rig struct {
	*testing.T
	Device cuda.Driver
	CUDA   kernel.Backend
	Ref    kernel.Backend
	Random *rand.Rand
}

// NewRig makes the rig of the backend that open makes on a device, which is interpreted as c says, by two
// workers, where it is no GPU. The test's end closes it.
func NewRig[B interface {
	kernel.Backend
	Close()
}](t *testing.T, c interp.Config, open func(cuda.Driver) (B, error)) (*Rig, B) {
	t.Helper()
	c.Workers = 2
	d := Open(t, c)
	b, err := open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	seed := rand.Uint64()
	t.Logf("input of seed %d", seed)
	return &Rig{t, d, b, ref.New(), rand.New(rand.NewPCG(seed, 1))}, b
}

// With is the rig of a subtest.
func (r *Rig) With(t *testing.T) *Rig { c := *r; c.T = t; return &c }

// Normals are n random numbers.
func (r *Rig) Normals(n int, scale float64) []float32 { return Normals(r.Random, n, scale) }

// Source is a random matrix of a type.
func (r *Rig) Source(typ kernel.Type, experts, rows, cols int) kernel.Source {
	r.Helper()
	data, err := modelfile.Quantize(typ, r.Normals(experts*rows*cols, 0.3))
	if err != nil {
		r.Fatal(err)
	}
	return kernel.Source{Name: "w", Type: typ, Experts: experts, Rows: rows, Cols: cols, Data: data}
}

// Load loads a matrix onto a backend.
func (r *Rig) Load(b kernel.Backend, s kernel.Source) kernel.Weight {
	r.Helper()
	w, err := b.Load(s)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// Agree runs an operation on both backends and compares what it returns: the Distance is at most limit.
func (r *Rig) Agree(what string, limit float64, run func(b kernel.Backend) []float32) {
	r.Helper()
	want, got := run(r.Ref), run(r.CUDA)
	far := Distance(got, want)
	if !(far <= limit) {
		r.Errorf("%s: error %g, at most %g", what, far, limit)
	}
	r.Logf("%s: error %.2g", what, far)
}

// Normals are n numbers of a normal distribution.
func Normals(random *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(random.NormFloat64() * scale)
	}
	return v
}

// Upload is a new buffer of a backend with these values.
func Upload(b kernel.Backend, v []float32) kernel.Buffer {
	x := b.NewBuffer(len(v))
	b.Upload(x, 0, v)
	return x
}

// Download is what a buffer has.
func Download(b kernel.Backend, x kernel.Buffer) []float32 {
	v := make([]float32, x.Len())
	b.Download(v, x, 0)
	return v
}

// Distance is the relative Frobenius error, the absolute one where nothing is wanted but zeros; NaN when a value is none.
func Distance(got, want []float32) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += math.Pow(float64(got[i])-float64(w), 2)
		norm += float64(w) * float64(w)
	}
	if norm == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff / norm)
}
