package cudatest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
)

// A thread of a copy check has 8 words: 4 to copy, one that says how many bytes
// of them are read, and 3 that keep the others at multiples of 16.
const copyWords = 8

// Parts of the kernels of copy checks. Each thread copies 16 bytes and reads those
// of the thread after it.
const (
	copyShared = ".shared .align 128 .b8 tile[2048];\n.shared .align 8 .b64 bar;"
	copyPlaces = "mov.u32 %s, tile;\nshl.b32 %r10, %t, 4;\nadd.u32 %r10, %s, %r10;\nmov.u32 %r12, bar;\n" +
		"add.u32 %r11, %t, 1;\nand.b32 %r11, %r11, 127;\nshl.b32 %r11, %r11, 4;\nadd.u32 %r11, %s, %r11;\n"
	copyIssue = "cp.async.cg.shared.global [%r10], [%from], 16;\n"
	copyWait  = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [%r12], 0;\n@!%p bra again;\n"
	copyRead  = "ld.shared.v4.b32 " // of the neighbor
)

// copyBarrier is an mbarrier of some arrivals that all threads may use.
func copyBarrier(arrivals int) string {
	return fmt.Sprintf("setp.eq.u32 %%p, %%t, 0;\n@%%p mbarrier.init.shared.b64 [%%r12], %d;\n", arrivals) +
		"fence.proxy.async.shared::cta;\nbar.sync 0;\n"
}

// Copies checks copies to and from shared memory that run beside their threads.
func Copies(t *testing.T, d cuda.Driver) {
	whole := func(words []uint32, i int) uint32 { return words[i] }
	some := func(words []uint32, i int) uint32 {
		left := int(words[4]) - 4*i // bytes of this word that are read; the others are zero
		if left >= 4 {
			return words[i]
		}
		return words[i] & (1<<(8*max(left, 0)) - 1)
	}
	const sync = "bar.sync 0;\n"
	for _, c := range []struct {
		body   string
		answer func(words []uint32, i int) uint32
	}{
		{copyIssue + "cp.async.commit_group;\ncp.async.wait_group 0;\n" + sync, whole},
		{copyIssue + "cp.async.wait_all;\n" + sync, whole},
		// The empty group after the copy may be left; the copy's may not.
		{copyIssue + "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;\n" + sync, whole},
		{"ld.global.b32 %r4, [%from+16];\ncp.async.cg.shared.global [%r10], [%from], 16, %r4;\ncp.async.wait_all;\n" + sync, some},
		{copyBarrier(threads) + copyIssue + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r12];\n" + copyWait, whole},
		// Each thread announces its bytes and arrives; the engine copies.
		{copyBarrier(threads) + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 16;\n" +
			"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%from], 16, [%r12];\n" + copyWait, whole},
		// Bytes are expected before the only arrival, which alone does not end the phase.
		{copyBarrier(1) + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r12], 16;\n" + sync +
			"@%p mbarrier.arrive.shared::cta.b64 _, [%r12];\n" +
			"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%from], 16, [%r12];\n" + copyWait, whole},
	} {
		copied(t, d, copyPlaces+c.body+copyRead+registers(20, 4)+", [%r11];\n"+stores(20, 4), 1, c.answer)
	}
	// Out again by the engine: the thread's own bytes, so nothing is read from shared memory here.
	out := "fence.proxy.async.shared::cta;\ncp.async.bulk.global.shared::cta.bulk_group [%to], [%r10], 16;\n" +
		"cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
	copied(t, d, copyPlaces+loads4(0)+"st.shared.v4.b32 [%r10], "+registers(0, 4)+";\n"+out, 0, whole)
}

// copied runs a body and compares what each thread writes with the words of the
// thread that many after it.
func copied(t *testing.T, d cuda.Driver, body string, after int, answer func(words []uint32, i int) uint32) {
	t.Helper()
	random := rand.New(rand.NewPCG(27, 28))
	in := make([]uint32, threads*copyWords)
	for i := range in {
		if in[i] = random.Uint32(); i%copyWords == 4 {
			in[i] %= 17
		}
	}
	got := words(t, d, copyShared, body, in, copyWords, 4)
	for i, g := range got {
		from := in[(i/4+after)%threads*copyWords:]
		if want := answer(from, i%4); g != want {
			t.Errorf("%s: thread %d, word %d: %#x, want %#x", body, i/4, i%4, g, want)
			return
		}
	}
}
