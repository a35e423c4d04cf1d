package fused

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
)

// mutation plants one fault in a kernel, at each place that matches or at the first ones.
type mutation struct {
	what, file, kernel string
	line, with         string
	places             int    // at most; 0 is all
	want               string // in the report of the device; empty: the numbers may be wrong instead
}

var mutations = []mutation{
	{"barrier removed", "products.ptx", "normed4", `bar\.sync`, "", 0, "race"},
	{"barrier removed", "mixers.ptx", "attend2", `bar\.sync`, "", 0, "race"},
	{"barrier removed", "mixers.ptx", "recur64", `bar\.sync`, "", 0, "race"},
	{"barrier removed", "mixture.ptx", "group", `bar\.sync`, "", 0, "race"},
	{"store out of bounds", "products.ptx", "added4", `(st\.global\.f32 *\t?\[%rd\d+)[^\]]*`, "${1}+1073741824", 1, "outside of every"},
	{"misaligned load", "products.ptx", "normed4", `(ld\.v4\.u32 .*\[%rd\d+)[^\]]*`, "${1}+4", 1, "align|address"},
	{"lanes left out of a sum", "mixture.ptx", "expertDown4", `mov\.[bu]32 (.*), 16;`, "mov.u32 $1, 8;", 1, ""},
	{"a reciprocal left out", "mixers.ptx", "merge", `rcp\.approx\.f32 (.*), (.*);`, "mov.f32 $1, $2;", 1, ""},
	{"taken away instead of added", "mixture.ptx", "sumExperts", `add\.f32(.*)`, "sub.f32$1", 1, ""},
}

// mutants are the texts with the fault planted, one for each place.
func (m mutation) mutants(t *testing.T, text string) (all []string) {
	t.Helper()
	line, within := regexp.MustCompile(m.line), false
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".visible .entry ") {
			within = strings.HasPrefix(l, ".visible .entry "+m.kernel+"(")
		}
		if !within || !line.MatchString(l) || m.places > 0 && len(all) == m.places {
			continue
		}
		changed := line.ReplaceAllString(l, m.with)
		if m.with == "" {
			changed = ""
		}
		all = append(all, strings.Join(lines[:i], "\n")+"\n"+changed+"\n"+strings.Join(lines[i+1:], "\n"))
	}
	if len(all) == 0 {
		t.Fatalf("nothing in %s matches %s", m.kernel, m.line)
	}
	return all
}

// outcome runs a mutant and says how its fault shows, "" where it does not.
func (m mutation) outcome(t *testing.T, text string) (how string) {
	all := images()
	all[m.file] = text
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *cuda.Error:
			how = e.Error()
		default:
			panic(e)
		}
	}()
	r := newRig(t, plans()[0], interp.Open(interp.Config{Seed: rand.Uint64(), Workers: 2, Shadow: true}), all, 70, 5, 40)
	defer r.cuda.Close()
	r.fused.blocks = 4 // one part of attention, with several tiles
	in := r.step(0, 1, 2)
	want := r.pass(in)
	if far := distance(slices.Concat(r.run(in).Logits...), want); !(far <= exact) {
		return fmt.Sprintf("error %g", far)
	}
	return ""
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.kernel+"/"+m.what, func(t *testing.T) {
			for i, text := range m.mutants(t, images()[m.file]) {
				how := m.outcome(t, text)
				if how == "" || m.want != "" && !regexp.MustCompile(m.want).MatchString(how) || m.want == "" && !strings.HasPrefix(how, "error") {
					t.Errorf("place %d: %q, want %q", i, how, m.want)
				}
				if i == 0 {
					t.Log(how)
				}
			}
		})
	}
}
