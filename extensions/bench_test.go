//go:build unix

package extensions

import (
	"testing"

	"golang.org/x/sys/unix"

	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// cpu reports the processor time of each of n parts of an iteration: unlike
// the wall clock it does not count what else the machine does.
func cpu(b *testing.B, n int) func() {
	used := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N*n), "cpu-ns") }
}

// benchTranslation opens a stream on a module.
func benchTranslation(b *testing.B, wasm []byte) *Translation {
	h, _ := openTest(b, Options{})
	activate(b, h, wasm)
	tr := h.Translate(SlotChat, "account", abi.Facts{ID: "abcdefghijklmnop", Created: 1_700_000_000, Model: "core-1.1", Stream: true})
	b.Cleanup(tr.Close)
	return tr
}

// BenchmarkEmptyCall is one call into a guest that does nothing: input and
// output are copied and checked, the instance is lent and taken back.
func BenchmarkEmptyCall(b *testing.B) {
	g := newGuest(SlotChat, "bench")
	g.answers[abi.OpError] = nil
	g.call = wasmtest.Asm().I64(g.place(okFrame(nil)))
	tr := benchTranslation(b, g.bytes(b))
	in, out := make([]byte, 64), make([]byte, 0, 64)
	b.ReportAllocs()
	defer cpu(b, 1)()
	for b.Loop() {
		if _, f := tr.generation.do(abi.OpError, "account", in, out); f != nil {
			b.Fatal(f)
		}
	}
}

func benchEvents(b *testing.B, group int) {
	tr := benchTranslation(b, chatGuest(b, "bench"))
	events := make([]abi.Event, group)
	for i := range events {
		events[i] = abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: " token"}
	}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	defer cpu(b, group)()
	for b.Loop() {
		if _, err := tr.Events(dst[:0], events); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvents1 and 8 are the host's share of a streamed event, in groups.
func BenchmarkEvents1(b *testing.B) { benchEvents(b, 1) }
func BenchmarkEvents8(b *testing.B) { benchEvents(b, 8) }

// BenchmarkEventsNative is the same without a guest.
func BenchmarkEventsNative(b *testing.B) {
	h, _ := openTest(b, Options{})
	tr := h.Translate(SlotChat, "account", abi.Facts{ID: "abcdefghijklmnop"})
	defer tr.Close()
	events := []abi.Event{{Kind: abi.EventDelta, Block: abi.BlockText, Text: " token"}}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	defer cpu(b, 1)()
	for b.Loop() {
		if _, err := tr.Events(dst[:0], events); err != nil {
			b.Fatal(err)
		}
	}
}
