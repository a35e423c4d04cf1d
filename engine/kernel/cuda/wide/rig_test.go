package wide

import (
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
)

// tensor is how far from the reference a result of matrix units may be, as a relative Frobenius error.
const tensor = 5e-3

// rig is a backend on an interpreted device, and the reference.
type rig struct {
	*testing.T
	device cuda.Driver
	cuda   *Backend
	ref    kernel.Backend
	random *rand.Rand
}

func newRig(t *testing.T, c interp.Config) *rig {
	t.Helper()
	c.Workers = 2
	d := devicetest.Open(t, c)
	b, err := New(d, eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.shapes.GroupBlocks = 2 // each takes several tiles
	seed := rand.Uint64()
	t.Logf("input of seed %d", seed)
	return &rig{t, d, b, ref.New(), rand.New(rand.NewPCG(seed, 1))}
}

// with is the rig of a subtest.
func (r *rig) with(t *testing.T) *rig { c := *r; c.T = t; return &c }

func (r *rig) normals(n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.random.NormFloat64() * scale)
	}
	return v
}

func upload(b kernel.Backend, v []float32) kernel.Buffer {
	x := b.NewBuffer(len(v))
	b.Upload(x, 0, v)
	return x
}

func download(b kernel.Backend, x kernel.Buffer) []float32 {
	v := make([]float32, x.Len())
	b.Download(v, x, 0)
	return v
}

// source is a random matrix of a type.
func (r *rig) source(typ kernel.Type, experts, rows, cols int) kernel.Source {
	r.Helper()
	data, err := modelfile.Quantize(typ, r.normals(experts*rows*cols, 0.3))
	if err != nil {
		r.Fatal(err)
	}
	return kernel.Source{Name: "w", Type: typ, Experts: experts, Rows: rows, Cols: cols, Data: data}
}

func (r *rig) load(b kernel.Backend, s kernel.Source) kernel.Weight {
	r.Helper()
	w, err := b.Load(s)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// agree runs an operation on both backends and compares what it returns.
func (r *rig) agree(what string, limit float64, run func(b kernel.Backend) []float32) {
	r.Helper()
	want, got := run(r.ref), run(r.cuda)
	far := distance(got, want)
	if !(far <= limit) {
		r.Errorf("%s: error %g, at most %g", what, far, limit)
	}
	r.Logf("%s: error %.2g", what, far)
}

// distance is the relative Frobenius error; NaN when a value is none.
func distance(got, want []float32) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += math.Pow(float64(got[i])-float64(w), 2)
		norm += float64(w) * float64(w)
	}
	return math.Sqrt(diff / norm)
}
