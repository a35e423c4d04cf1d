package interp_test

import (
	"errors"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda/cudatest"
	"corenode/engine/kernel/cuda/interp"
)

// rule is a program that keeps a rule of the machine. Without cut it breaks it,
// and the report has want.
type rule struct {
	name string
	body string
	cut  string // what the wrong program lacks
	put  string // what it has instead
	want string
}

const (
	ruleShared = ".shared .align 1024 .b8 tile[8192];\n.shared .align 8 .b64 bar;"
	// Each thread's own word, and that of the thread 64 further on.
	ruleStart = "mov.u32 %s, tile;\nmov.u32 %r12, bar;\nshl.b32 %r10, %t, 2;\nadd.u32 %r10, %s, %r10;\n" +
		"add.u32 %r11, %t, 64;\nand.b32 %r11, %r11, 127;\nshl.b32 %r11, %r11, 2;\nadd.u32 %r11, %s, %r11;\nsetp.eq.u32 %p, %t, 0;\n"
	ruleBarrier = "@%p mbarrier.init.shared.b64 [%r12], 128;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
	ruleAwait   = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [%r12], 0;\n@!%p bra again;\n"
	ruleLoad    = "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 512;\n" +
		"@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%from], 512, [%r12];\n"
	ruleBox = "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 64;\n" +
		"@%p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%from, {16, 1}], [%r12];\n"
	ruleOne = "@%p mbarrier.init.shared.b64 [%r12], 1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
	// A descriptor of the tile without a swizzle, and 8 columns of result.
	ruleGroup = "shr.u32 %r13, %s, 4;\ncvt.u64.u32 %rd0, %r13;\nadd.s64 %rd0, %rd0, 0x1000080000;\n" +
		"wgmma.fence.sync.aligned;\n" +
		"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r20, %r21, %r22, %r23}, %rd0, %rd0, 0, 1, 1, 0, 0;\n" +
		"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nst.global.b32 [%to], %r20;\n"
	ruleFill = "mov.u32 %r14, 0;\nmov.u32 %r15, %r10;\nfill:\nst.shared.b32 [%r15], %r14;\n" +
		"add.u32 %r15, %r15, 512;\nadd.u32 %r14, %r14, 1;\nsetp.lt.u32 %p, %r14, 16;\n@%p bra fill;\n"
)

var rules = []rule{
	{"a barrier orders two warps",
		"st.shared.b32 [%r10], %t;\nbar.sync 0;\nld.shared.b32 %r0, [%r11];\n", "bar.sync 0;\n", "", "race"},
	{"a read comes before the next write",
		"ld.shared.b32 %r0, [%r11];\nbar.sync 0;\nst.shared.b32 [%r10], %t;\n", "bar.sync 0;\n", "", "race"},
	{"an arrival at an mbarrier orders",
		ruleBarrier + "st.shared.b32 [%r10], %t;\nmbarrier.arrive.shared::cta.b64 _, [%r12];\n" + ruleAwait +
			"ld.shared.b32 %r0, [%r11];\n", ruleAwait, "", "race"},
	{"atomics need no order, plain writes do",
		"atom.shared.add.u32 %r0, [%s], 1;\n", "atom.shared.add.u32 %r0, [%s], 1;\n", "st.shared.b32 [%s], %t;\n", "race"},
	{"named barriers order those who meet",
		"setp.lt.u32 %p, %t, 64;\n@%p bra low;\nst.shared.b32 [%r11], 1;\nbar.sync 2, 128;\nbra leave;\nlow:\n" +
			"bar.sync 2, 128;\nld.shared.b32 %r0, [%r10];\nleave:\n", "low:\nbar.sync 2, 128;\n", "low:\nbar.sync 3, 64;\n", "race"},
	{"a copy is read after its wait",
		"cp.async.ca.shared.global [%r10], [%from], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %r0, [%r10];\n",
		"cp.async.wait_group 0;\n", "", "race"},
	{"a wait leaves the groups that it says",
		"cp.async.ca.shared.global [%r10], [%from], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %r0, [%r10];\n",
		"wait_group 0", "wait_group 1", "race"},
	{"others see a copy after a barrier",
		"cp.async.ca.shared.global [%r10], [%from], 4;\ncp.async.wait_all;\nbar.sync 0;\nld.shared.b32 %r0, [%r11];\n",
		"bar.sync 0;\n", "", "race"},
	{"a bulk copy is read after its phase",
		ruleOne + ruleLoad + ruleAwait + "ld.shared.b32 %r0, [%r10];\n", ruleAwait, "", "under way"},
	{"a phase has the bytes that were announced",
		ruleOne + ruleLoad + ruleAwait, "[%r12], 512;", "[%r12], 528;", "deadlock"},
	{"an mbarrier has as many arrivals as it says",
		ruleOne + "@%p mbarrier.arrive.shared::cta.b64 _, [%r12];\n" + ruleAwait, "[%r12], 1;", "[%r12], 2;", "deadlock"},
	{"an mbarrier is initialized",
		ruleOne + "@%p mbarrier.arrive.shared::cta.b64 _, [%r12];\n" + ruleAwait, "@%p mbarrier.init.shared.b64 [%r12], 1;\n", "", "mbarrier"},
	{"wgmma sees writes after a proxy fence", ruleFill + "fence.proxy.async.shared::cta;\nbar.sync 0;\n" + ruleGroup,
		"fence.proxy.async.shared::cta;\n", "", "fence.proxy.async"},
	{"results of wgmma are there after the wait", ruleFill + "fence.proxy.async.shared::cta;\nbar.sync 0;\n" + ruleGroup,
		"wgmma.wait_group.sync.aligned 0;\n", "", "under way"},
	{"a bulk store sees writes after a proxy fence",
		"@%p st.shared.v4.b32 [%s], {%t, %t, %t, %t};\nfence.proxy.async.shared::cta;\n" +
			"@%p cp.async.bulk.global.shared::cta.bulk_group [%to], [%s], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
		"fence.proxy.async.shared::cta;\n", "", "fence.proxy.async"},
	{"a box begins at 16 bytes of a row",
		ruleOne + ruleBox + ruleAwait + "ld.shared.b32 %r0, [%s];\n", "{16, 1}", "{8, 1}", "no multiple of 16"},
	{"shared memory ends", "@%p st.shared.b32 [%s+4], 1;\n", "%s+4", "%s+80000", "shared"},
	{"allocations end", "ld.global.b32 %r0, [%from+4];\n", "%from+4", "%from+1048576", "outside of every allocation"},
	{"addresses are aligned", "ld.global.b32 %r0, [%from+4];\n", "%from+4", "%from+2", "no multiple of 4"},
	{"a warp's instruction has all lanes",
		"shfl.sync.idx.b32 %r0, %t, 0, 31, 0xffffffff;\n", "shfl", "@%p shfl", "deadlock"},
	{"ldmatrix has rows of 16 bytes",
		"mov.u32 %r0, %s;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r0];\n", "mov.u32 %r0, %s;", "add.u32 %r0, %s, 8;", "16"},
}

// prepared makes the tile known where a rule reads what it does not write.
func prepared(body string) string {
	if strings.Contains(body, "ldmatrix") || strings.HasPrefix(body, "ld.shared") || strings.HasPrefix(body, "atom") {
		return "st.shared.b32 [%r10], 0;\nbar.sync 0;\n" + body
	}
	return body
}

// run runs a program with several orders of warps and returns the first report.
func run(body string) error {
	for seed := range uint64(6) {
		d := interp.Open(interp.Config{Seed: seed, Shadow: true})
		if err := cudatest.Try(d, ruleShared, ruleStart+prepared(body)); err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			return errors.New(first)
		}
	}
	return nil
}

func TestBrokenRulesAreReported(t *testing.T) {
	for _, r := range rules {
		if err := run(r.body); err != nil {
			t.Errorf("%s: the right program is refused: %v", r.name, err)
		}
		wrong := strings.Replace(r.body, r.cut, r.put, 1)
		if wrong == r.body {
			t.Errorf("%s: nothing was cut", r.name)
		}
		err := run(wrong)
		if err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: the wrong program gives %v, want %q", r.name, err, r.want)
		}
	}
}
