package wide

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
)

// mutation plants one fault in a kernel, at each place that matches or at the first ones.
type mutation struct {
	what, file, kernel string
	line, with         string
	places             int // at most; 0 is all
	run                func(r *rig, b kernel.Backend) []float32
	want               string // in the report of the device; empty: the numbers may be wrong instead
}

var mutations = []mutation{
	{"barrier removed", "gemm.ptx", "productF16", `bar\.sync`, "", 0, mutantProduct, "race"},
	{"wait removed", "gemm.ptx", "productF16", `cp\.async\.wait_group 1`, "", 0, mutantProduct, "under way"},
	{"one group too many may be left", "gemm.ptx", "productF16", `(cp\.async\.wait_group )1`, "${1}2", 0, mutantProduct, "under way"},
	{"commit removed", "gemm.ptx", "productF16", `cp\.async\.commit_group`, "", 0, mutantProduct, "under way"},
	{"another row of a fragment", "gemm.ptx", "productF16", `ldmatrix\.(.*)\[(%r\d+)\]`, "ldmatrix.${1}[${2}+128]", 1, mutantProduct, ""},
	{"misaligned copy", "gemm.ptx", "productF16", `(cp\.async\.cg\.shared\.global \[%r\d+)`, "${1}+4", 1, mutantProduct, "to address"},
	{"barrier removed", "gemm.ptx", "productQ8", `bar\.sync`, "", 1, mutantBlocks, "race"},
	{"values further on", "gemm.ptx", "productQ8", `(st\.shared\.v4\.b32 \[%r\d+)\]`, "${1}+16]", 1, mutantBlocks, ""},
	{"another scale", "gemm.ptx", "productE4M3", `not\.b32`, "neg.s32", 1, mutantCodes, ""},
	{"mbarrier wait removed", "group.ptx", "productGroupF16", `mbarrier\.try_wait\.parity\.shared::cta\.b64 p, .*;`, "mov.pred p, 1;", 0,
		mutantProduct, "race|arrivals too many"},
	{"wrong stride in a descriptor", "group.ptx", "productGroupF16", `4611686293305360384`, "4611686155866406912", 0, mutantProduct, ""},
	{"wrong swizzle in a descriptor", "group.ptx", "productGroupF16", `4611686293305360384`, "9223372311732748288", 0, mutantProduct, ""},
	{"initialization not fenced", "group.ptx", "productGroupF16", `fence\.proxy\.async`, "", 0, mutantProduct, "fence.proxy.async"},
	{"wrong number of bytes", "group.ptx", "productGroupF16", `(mbarrier\.arrive\.expect_tx.*\], )(%r\d+)`, "${1}8192", 0, mutantProduct, ""},
	{"arrival removed", "group.ptx", "productGroupF16", `mbarrier\.arrive\.shared.*`, "", 1, mutantProduct, "deadlock"},
	{"wait for the last products removed", "group.ptx", "productGroupF16", `wgmma\.wait_group\.sync\.aligned 0`, "", 0, mutantProduct, ""},
	{"one group too many may be left", "group.ptx", "productGroupF16", `(wgmma\.wait_group\.sync\.aligned )1`, "${1}2", 0, mutantProduct, ""},
	{"sums not awaited", "group.ptx", "productGroupF16", `bar\.warp\.sync`, "", 0, mutantProduct, "race"},
	{"barrier removed", "attention.ptx", "attendMany64", `bar\.sync`, "", 0, mutantAttention, "race"},
	{"wait removed", "attention.ptx", "attendMany64", `cp\.async\.wait_group`, "", 0, mutantAttention, "under way"},
	{"values not transposed", "attention.ptx", "attendMany64", `ldmatrix(.*)\.trans`, "ldmatrix$1", 1, mutantAttention, ""},
	{"barrier removed", "deltanet.ptx", "prepare64", `bar\.sync`, "", 0, mutantRecurrence, "race"},
	{"barrier removed", "deltanet.ptx", "scan64", `bar\.sync`, "", 0, mutantRecurrence, "race"},
	{"wait removed", "deltanet.ptx", "scan64", `cp\.async\.wait_group`, "", 0, mutantRecurrence, "under way"},
	{"stored as another number", "deltanet.ptx", "scan64", `cvt\.rn\.bf16\.f32 (.*), .*;`, "mov.b16 $1, 0;", 1, mutantBrain, ""},
	{"barrier removed", "experts.ptx", "sortPairs", `bar\.sync`, "", 0, mutantExperts, "race"},
}

// weights is a matrix of small numbers as float16.
func weights(experts, rows, cols int) kernel.Source {
	var data []byte
	for i := range experts * rows * cols {
		data = append(data, byte(i*7), byte(0x30+i%5))
	}
	return kernel.Source{Name: "w", Type: kernel.F16, Experts: experts, Rows: rows, Cols: cols, Data: data}
}

func mutantProduct(r *rig, b kernel.Backend) []float32 {
	to := b.NewBuffer(160 * 16)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(160*456)), 160, []kernel.Weight{r.Load(b, weights(1, 16, 456))})
	return download(b, to)
}

func mutantBlocks(r *rig, b kernel.Backend) []float32 {
	w := kernel.Source{Name: "w", Type: kernel.Q8_0, Experts: 1, Rows: 16, Cols: 256}
	for i := range 16 * 8 * 34 {
		w.Data = append(w.Data, byte(0x30+i%7))
	}
	to := b.NewBuffer(32 * 16)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(32*256)), 32, []kernel.Weight{r.Load(b, w)})
	return download(b, to)
}

func mutantCodes(r *rig, b kernel.Backend) []float32 {
	data, err := modelfile.Quantize(kernel.F8E4M3, devicetest.Fixed(16*256))
	if err != nil {
		r.Fatal(err)
	}
	w, to := kernel.Source{Name: "w", Type: kernel.F8E4M3, Experts: 1, Rows: 16, Cols: 256, Data: data}, b.NewBuffer(32*16)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(32*256)), 32, []kernel.Weight{r.Load(b, w)})
	return download(b, to)
}

func mutantExperts(r *rig, b kernel.Backend) []float32 {
	to, w := b.NewBuffer(32*8), r.Load(b, weights(3, 8, 8))
	b.Experts(to, upload(b, devicetest.Fixed(32*8)), upload(b, devicetest.Fixed(32*3)), 32, kernel.ExpertStack{Gate: w, Up: w, Down: w},
		kernel.Routing{Top: 2})
	return download(b, to)
}

func mutantAttention(r *rig, b kernel.Backend) []float32 {
	c := devicetest.Attention{Heads: 1, KVHeads: 1, Dim: 64, Page: 16, Spans: [][2]int{{100, 40}}}
	return c.Attend(r, b, [3][]float32{devicetest.Fixed(140 * 64), devicetest.Fixed(141 * 64)[64:], devicetest.Fixed(42 * 64)[128:]})
}

func mutantRecurrence(r *rig, b kernel.Backend) []float32 {
	return mutantStates(r, b, kernel.StateF32)
}

// mutantBrain is the same with states as bfloat16.
func mutantBrain(r *rig, b kernel.Backend) []float32 { return mutantStates(r, b, kernel.StateBF16) }

func mutantStates(r *rig, b kernel.Backend, states kernel.StateType) []float32 {
	c := devicetest.Recurrence{KHeads: 1, VHeads: 1, Dim: 64, Taps: 4, Tiled: true, States: states, Spans: []kernel.Span{{Len: 100}}}
	return delta(r, c, b, c.Input(rand.New(rand.NewPCG(6, 6))))
}

// outcome runs a mutant and says how its fault shows, "" where it does not.
func (m mutation) outcome(t *testing.T, text string) string {
	all := images()
	all[m.file] = text
	d := interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2, Shadow: true})
	plain, err := eager.New(d, eager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{Backend: plain, able: map[string]bool{}}
	if err := b.prepare(all); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.groups, b.shapes.GroupBlocks = m.file == groupFile, 1
	r := &rig{&devicetest.Rig{T: t, Device: d, CUDA: b, Ref: ref.New()}, b}
	if far := distance(m.run(r, b), m.run(r, r.Ref)); !(far <= tensor) {
		return fmt.Sprintf("error %g", far)
	}
	return ""
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.kernel+"/"+m.what, func(t *testing.T) {
			for i, text := range devicetest.Mutants(t, images()[m.file], m.kernel, m.line, m.with, m.places) {
				devicetest.WantFound(t, i, devicetest.Reported(func() string { return m.outcome(t, text) }), m.want)
			}
		})
	}
}
