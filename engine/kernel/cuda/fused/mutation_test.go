package fused

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
)

// mutation plants one fault in a kernel, at each place that matches or at the first ones.
type mutation struct {
	what, file, kernel string
	line, with         string
	places             int    // at most; 0 is all
	want               string // in the report of the device; empty: the numbers may be wrong instead
	of                 string // a network: of matrices of codes of E4M3, or with brain states, of bfloat16; empty: another one
}

var mutations = []mutation{
	{"barrier removed", "products.ptx", "normed4", `bar\.sync`, "", 0, "race", ""},
	{"barrier removed", "mixers.ptx", "attend2", `bar\.sync`, "", 0, "race", ""},
	{"barrier removed", "mixers.ptx", "recur64", `bar\.sync`, "", 0, "race", ""},
	{"barrier removed", "mixers.ptx", "recurSpan64", `bar\.sync`, "", 0, "race", ""},
	{"value not saved", "mixers.ptx", "recurSpan64", `st\.global\.f32`, "", 2, "", ""},
	{"channel not handed on", "mixers.ptx", "convolveSpan", `st\.global\.f32`, "", 1, "", ""},
	{"barrier removed", "mixture.ptx", "group", `bar\.sync`, "", 0, "race", ""},
	{"store out of bounds", "products.ptx", "added4", `(st\.global\.f32 *\t?\[%rd\d+)[^\]]*`, "${1}+1073741824", 1, "outside of every", ""},
	{"misaligned load", "products.ptx", "normed4", `(ld\.v4\.u32 .*\[%rd\d+)[^\]]*`, "${1}+4", 1, "align|address", ""},
	{"lanes left out of a sum", "mixture.ptx", "expertDown4", `mov\.[bu]32 (.*), 16;`, "mov.u32 $1, 8;", 1, "", ""},
	{"a reciprocal left out", "mixers.ptx", "merge", `rcp\.approx\.f32 (.*), (.*);`, "mov.f32 $1, $2;", 1, "", ""},
	{"the scale before", "products.ptx", "normed4", `(xor\.b64 .*), -4;`, "$1, -8;", 1, "", "codes"},
	{"stored as another number", "mixers.ptx", "recurSpan64", `cvt\.rn\.bf16\.f32 (.*), .*;`, "mov.b16 $1, 0x4040;", 1, "", "brain"},
	{"taken away instead of added", "mixture.ptx", "sumExperts", `add\.f32(.*)`, "sub.f32$1", 1, "", ""},
}

// outcome runs a mutant and says how its fault shows, "" where it does not.
func (m mutation) outcome(t *testing.T, text string) string {
	all := images()
	all[m.file] = text
	p := plans()[0]
	switch m.of {
	case "codes":
		p = blocks("codes", kernel.F8E4M3, 128)
	case "brain":
		p.states = kernel.StateBF16
	}
	r := newRig(t, p, interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2, Shadow: true}), all, 70, 5, 40)
	defer r.cuda.Close()
	r.fused.blocks = 4 // one part of attention, with several tiles
	compute := func(in *kernel.Input) string {
		want := r.pass(in)
		if far := devicetest.Distance(slices.Concat(r.run(in).Logits...), want); !(far <= r.tolerance()) {
			return fmt.Sprintf("error %g", far)
		}
		return ""
	}
	if !strings.Contains(m.kernel, "Span") {
		return compute(r.step(0, 1, 2))
	}
	in := r.drafted([]int{2, 1}, 0, 1)
	if how := compute(in); how != "" {
		return how
	}
	r.keep(in, 0, 0, 2)
	return compute(r.step(0))
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
