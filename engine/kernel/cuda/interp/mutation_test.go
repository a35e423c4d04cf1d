package interp

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// mutation plants one fault in a kernel: the line that matches, counted from 0
// among those that do (-1: each of them on its own), becomes another one.
type mutation struct {
	kernel, what string
	line         string
	which        int
	with         string
	want         string // in the report; empty: the numbers may be wrong instead
}

var mutations = []mutation{
	{"rmsnorm", "barrier removed", `bar\.sync`, -1, "", "race"},
	{"gemm", "barrier removed", `bar\.sync`, -1, "", "race"},
	{"gemm", "wait removed", `cp\.async\.wait_group`, -1, "", "under way"},
	{"gemm", "one group too many may be left", `(cp\.async\.wait_group )1`, -1, "${1}2", "under way"},
	{"gemm", "commit removed", `cp\.async\.commit_group`, -1, "", "under way"},
	{"gemm", "address out of bounds", `(st\.global\.f32 *\t?\[%rd\d+)[^\]]*`, -1, "${1}+1048576", "outside of every allocation"},
	{"gemm", "misaligned address", `(cp\.async\.cg\.shared\.global \[%r\d+)`, -1, "${1}+4", "to address"},
	{"wgemm", "mbarrier wait removed", `mbarrier\.try_wait\.parity\.shared::cta\.b64 p, .*;`, -1, "mov.pred p, 1;", "race|arrivals too many"},
	{"wgemm", "wrong stride in a descriptor", `4611686293305360384`, -1, "4611686155866406912", ""},
	{"wgemm", "wrong swizzle in a descriptor", `4611686293305360384`, -1, "9223372311732748288", ""},
	{"wgemm", "wrong address in a descriptor", `(add\.s64.*, )(461168629330536038)?(2|6);`, -1, "${1}${2}0;", ""},
	{"wgemm", "arrival removed", `mbarrier\.arrive\.shared.*`, 0, "", "deadlock"},
	{"wgemm", "wrong number of bytes", `(mbarrier\.arrive\.expect_tx.*\], )(%r\d+)`, -1, "${1}8192", ""},
	{"wgemm", "initialization not fenced", `fence\.proxy\.async`, 0, "", "fence.proxy.async"},
	{"wgemm", "result not fenced", `fence\.proxy\.async`, 1, "", "fence.proxy.async"},
	{"wgemm", "initialization not awaited", `bar\.sync.*\t0`, -1, "", ""},
	{"wgemm", "result not awaited", `bar\.sync 1, 128`, -1, "", "race"},
	{"wgemm", "wrong count of a barrier", `bar\.sync 1, 128`, -1, "bar.sync 1, 160", "deadlock"},
	{"wgemm", "wait for wgmma removed", `wgmma\.wait_group`, -1, "", ""},
	{"wgemm", "one wgmma group too many may be left", `(wgmma\.wait_group\.sync\.aligned )0`, -1, "${1}1", ""},
	{"wgemm", "wait for the store removed", `cp\.async\.bulk\.wait_group`, -1, "", "under way"},
	{"wgemm", "store in no group", `cp\.async\.bulk\.commit_group`, -1, "", "under way"},
}

// mutants returns the texts with the fault planted, one for each place.
func (m mutation) mutants(t *testing.T, text string) []string {
	line := regexp.MustCompile(m.line)
	var all []string
	n := 0
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !line.MatchString(l) {
			continue
		}
		if n++; m.which >= 0 && n-1 != m.which {
			continue
		}
		changed := line.ReplaceAllString(l, m.with)
		if m.with == "" {
			changed = ""
		}
		all = append(all, strings.Join(lines[:i], "\n")+"\n"+changed+"\n"+strings.Join(lines[i+1:], "\n"))
	}
	if len(all) == 0 {
		t.Fatalf("nothing matches %s", m.line)
	}
	return all
}

// found runs one mutant and says how its fault shows.
func (m mutation) found(t *testing.T, c kernelCase, text string, seed uint64) (how string, ok bool) {
	r := newRig(t, Config{Seed: seed, Workers: 2, Shadow: true})
	got, err := c.run(r, text)
	switch {
	case err != nil:
		return err.Error(), regexp.MustCompile(m.want).MatchString(err.Error())
	case !(got <= c.limit):
		return fmt.Sprintf("error %g", got), m.want == ""
	}
	return "not found", false
}

func TestMutationsAreFound(t *testing.T) {
	base := rand.Uint64()
	texts := ptxFiles(t)
	for _, m := range mutations {
		for _, c := range kernelCases {
			for _, compiler := range []string{"nvcc", "clang"} {
				if m.kernel != c.name {
					continue
				}
				t.Run(m.kernel+"/"+m.what+"/"+compiler, func(t *testing.T) {
					for i, text := range m.mutants(t, texts[m.kernel+"."+compiler+".ptx"]) {
						how, ok := m.found(t, c, text, base+uint64(i))
						if !ok {
							t.Errorf("place %d, seed %d: %s, want %q", i, base+uint64(i), how, m.want)
						}
						if i == 0 {
							t.Log(how)
						}
					}
				})
			}
		}
	}
}
