package eager

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/ref"
)

// mutation plants one fault in a module, at each place that matches or at the first ones.
type mutation struct {
	what, file string
	kernel     string // the part of the file to change
	line, with string
	places     int // at most; 0 is all
	run        func(r *rig, b kernel.Backend) []float32
	want       string // in the report of the device; empty: the numbers are wrong instead
}

var mutations = []mutation{
	{"barrier removed", "rows.ptx", "rmsNorm", `bar\.sync`, "", 0, mutantNorm, "race"},
	{"barrier removed", "attention.ptx", "attendF16x2", `bar\.sync`, "", 0, mutantAttention, "race"},
	{"barrier removed", "deltanet.ptx", "recur", `bar\.sync`, "", 0, mutantRecurrence, "race"},
	{"store out of bounds", "matmul.ptx", "matmul4", `(st\.global\.f32 *\t?\[%rd\d+)[^\]]*`, "${1}+1073741824", 1, mutantProduct, "outside of every"},
	{"load out of bounds", "matmul.ptx", "matmul4", `(ld\.global\.v4\.u32 .*\[%rd\d+)[^\]]*`, "${1}+1073741824", 1, mutantBlocks, "outside of every"},
	{"misaligned load", "matmul.ptx", "matmul4", `(ld\.global\.v4\.u32 .*\[%rd\d+)[^\]]*`, "${1}+4", 1, mutantBlocks, "align|address"},
	{"lanes left out of a sum", "matmul.ptx", "matmul4", `mov\.b32 (.*), 16;|mov\.u32 (.*), 16;`, "mov.u32 $1$2, 8;", 1, mutantProduct, ""},
	{"the other half of a word", "matmul.ptx", "matmul4", `shr\.u32 (.*), 16;`, "shr.u32 $1, 8;", 1, mutantCodes, ""},
	{"the scale before", "matmul.ptx", "matmul4", `(xor\.b64 .*), -4;`, "$1, -8;", 1, mutantCodes, ""},
	{"bounds compared the wrong way round", "attention.ptx", "attendF16x2", `(setp\.g[te]\.s32 .*), (%r\d+), (%r\d+);`, "$1, $3, $2;", 1, mutantAttention, ""},
	{"rounded towards zero", "deltanet.ptx", "recur", `cvt\.rn\.bf16`, "cvt.rz.bf16", 0, mutantBrain, ""},
	{"read as another number", "deltanet.ptx", "recur", `(shl\.b32 .*), 16;`, "$1, 15;", 0, mutantBrain, ""},
	{"barrier removed", "draw.ptx", "draw", `bar\.sync`, "", 1, mutantDraws, "race"},
	{"tokens not counted", "draw.ptx", "draw", `atom\.global\.add\.u32 (.*), (\[.*\]), .*;`, "ld.global.u32 $1, $2;", 1, mutantDraws, ""},
	{"lanes left out of a sum", "draw.ptx", "draw", `mov\.[bu]32 (.*), 16;`, "mov.u32 $1, 8;", 1, mutantDraws, ""},
	{"the other one chosen", "draw.ptx", "draw", `selp\.f64 (.*), (.*), (.*), (.*);`, "selp.f64 $1, $3, $2, $4;", 2, mutantDraws, ""},
	{"an exponential left out", "deltanet.ptx", "recur", `ex2\.approx\.f32 (.*), (.*);`, "mov.f32 $1, $2;", 1, mutantRecurrence, ""},
}

func mutantNorm(r *rig, b kernel.Backend) []float32 {
	x := upload(b, devicetest.Fixed(2*2304))
	b.RMSNorm(x, x, upload(b, devicetest.Fixed(2304)), 2, 2304, 1e-6)
	return download(b, x)
}

func mutantProduct(r *rig, b kernel.Backend) []float32 {
	data := make([]byte, 0, 2*8*512)
	for i := range 8 * 512 { // small numbers as float16
		data = append(data, byte(i*7), byte(0x30+i%5))
	}
	w := r.Load(b, kernel.Source{Name: "w", Type: kernel.F16, Experts: 1, Rows: 8, Cols: 512, Data: data})
	to := b.NewBuffer(4 * 8)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(4*512)), 4, []kernel.Weight{w})
	return download(b, to)
}

// mutantBlocks is of blocks of 4 bits, which the kernels read by 16 bytes.
func mutantBlocks(r *rig, b kernel.Backend) []float32 {
	data := make([]byte, 0, 8*2*144)
	for i := range 8 * 2 * 144 { // scales and minima are small numbers as float16
		data = append(data, byte(0x28+i*7%13))
	}
	w := r.Load(b, kernel.Source{Name: "w", Type: kernel.Q4_K, Experts: 1, Rows: 8, Cols: 512, Data: data})
	to := b.NewBuffer(4 * 8)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(4*512)), 4, []kernel.Weight{w})
	return download(b, to)
}

// mutantCodes is of codes of E4M3, which the kernels read first.
func mutantCodes(r *rig, b kernel.Backend) []float32 {
	w := kernel.Source{Name: "w", Type: kernel.F8E4M3, Experts: 1, Rows: 8, Cols: 512}
	for block := range 8 * 4 {
		for i := range 128 {
			w.Data = append(w.Data, byte(i*3%127)) // no code of NaN
		}
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(float32(1+block%3)))
	}
	to := b.NewBuffer(4 * 8)
	b.MatMul([]kernel.Buffer{to}, upload(b, devicetest.Fixed(4*512)), 4, []kernel.Weight{r.Load(b, w)})
	return download(b, to)
}

// mutantDraws are tokens, of package sample where the backend is the reference.
func mutantDraws(r *rig, b kernel.Backend) (tokens []float32) {
	rows, logits := hardRows(), devicetest.Fixed(hardVocab)
	for i := range logits { // many are equal
		logits[i] = float32(math.Round(float64(8*logits[i])) / 8)
	}
	all := slices.Repeat([][]float32{logits}, len(rows))
	if b == kernel.Backend(r.cuda) {
		out, _ := r.drawTogether(rows, all, len(rows)*3/2)
		for _, token := range out.Tokens {
			tokens = append(tokens, float32(token))
		}
		return tokens
	}
	in := r.sequences(rows)
	for i := range rows {
		token, _ := devicetest.Drawn(in, i, in.Tokens, slices.Clone(logits))
		tokens = append(tokens, float32(token))
	}
	return tokens
}

func mutantAttention(r *rig, b kernel.Backend) []float32 {
	c := devicetest.Attention{Heads: 2, KVHeads: 1, Dim: 64, Page: 16, Spans: [][2]int{{19, 2}}, Window: 6}
	k := devicetest.Fixed(21 * 64)
	return c.Attend(r, b, [3][]float32{k, devicetest.Fixed(22 * 64)[64:], devicetest.Fixed(2 * 2 * 64)})
}

func mutantRecurrence(r *rig, b kernel.Backend) []float32 {
	return mutantStates(r, b, kernel.StateF32)
}

// mutantBrain is the same with states as bfloat16.
func mutantBrain(r *rig, b kernel.Backend) []float32 { return mutantStates(r, b, kernel.StateBF16) }

func mutantStates(r *rig, b kernel.Backend, states kernel.StateType) []float32 {
	c := devicetest.Recurrence{KHeads: 1, VHeads: 1, Dim: 64, Taps: 4, Tiled: true, States: states, Spans: threeSpans}
	return delta(r, c, b, c.Input(rand.New(rand.NewPCG(6, 6))))
}

// outcome runs a mutant and says how its fault shows, "" where it does not.
func (m mutation) outcome(t *testing.T, text string) string {
	all := images()
	all[m.file] = text
	d := interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2, Shadow: true})
	b := newBackend(d, Options{})
	if err := b.prepare(all); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := &rig{&devicetest.Rig{T: t, Device: d, CUDA: b, Ref: ref.New()}, b}
	if far := distance(m.run(r, b), m.run(r, r.Ref)); !(far <= exact) {
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
