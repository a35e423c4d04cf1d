//go:build unix

package extensions

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
	tr := h.Translate(SlotChat, "account", "", abi.Facts{ID: "abcdefghijklmnop", Created: 1_700_000_000, Model: "core-1.1", Stream: true})
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
		if _, f := tr.generation.do(abi.OpError, caller{account: "account"}, in, 0, out); f != nil {
			b.Fatal(f)
		}
	}
}

func benchEvents(b *testing.B, wasm []byte, group int) {
	tr := benchTranslation(b, wasm)
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
func BenchmarkEvents1(b *testing.B) { benchEvents(b, chatGuest(b, "bench"), 1) }
func BenchmarkEvents8(b *testing.B) { benchEvents(b, chatGuest(b, "bench"), 8) }

// BenchmarkExampleEvents1 and 8 are all of it, with the example in C.
func BenchmarkExampleEvents1(b *testing.B) { benchEvents(b, exampleC(b), 1) }
func BenchmarkExampleEvents8(b *testing.B) { benchEvents(b, exampleC(b), 8) }

// BenchmarkEventsNative is the same without a guest.
func BenchmarkEventsNative(b *testing.B) {
	h, _ := openTest(b, Options{})
	tr := h.Translate(SlotChat, "account", "", abi.Facts{ID: "abcdefghijklmnop"})
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

// BenchmarkSwaps loads and activates a new module each time while four streams
// run, and removes an old one: the time of a swap with everything it takes, the
// streams that failed, and the growth of the process.
func BenchmarkSwaps(b *testing.B) {
	h, _ := openTest(b, Options{Dir: b.TempDir()})
	l := startLoad(b, h, 4)
	swap := func(n int) {
		activate(b, h, chatGuest(b, fmt.Sprint("v", n)))
		if n > 1 {
			if err := h.Remove(fmt.Sprint("test@v", n-2)); err != nil {
				b.Error(err)
			}
		}
	}
	for n := range 20 {
		swap(n)
	}
	before := resident(b)
	n := 20
	for b.Loop() {
		swap(n)
		n++
	}
	b.StopTimer()
	calls := l.end(b)
	b.ReportMetric(float64(l.failed.Load()), "failed")
	b.ReportMetric(float64(calls), "streams")
	b.ReportMetric(float64(before)/(1<<20), "rss-before-MiB")
	b.ReportMetric(float64(resident(b))/(1<<20), "rss-after-MiB")
}

// resident is the memory of the process, after a collection.
func resident(b *testing.B) int64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// BenchmarkCollection is a garbage collection while four guests compute without
// end: they let others run at their safepoints.
func BenchmarkCollection(b *testing.B) {
	h, _ := openTest(b, Options{PoolMax: 4})
	g := newGuest(SlotChat, "spin")
	g.manifest.Ticks.Call = 200_000_000
	done := g.place(okFrame(nil))
	g.locals = []byte{wasmtest.I32}
	g.call = wasmtest.Asm().I32(20_000_000).Set(2).
		Loop(wasmtest.Void).Get(2).I32(1).Op(wasmtest.I32Sub).Tee(2).BrIf(0).End().I64(done)
	activate(b, h, g.bytes(b))
	spinning := h.slot(SlotChat).now.Load().active
	var stop atomic.Bool
	var w sync.WaitGroup
	for range 4 {
		w.Go(func() {
			for !stop.Load() {
				if _, f := spinning.do(abi.OpError, caller{account: "a"}, nil, 0, nil); f != nil {
					b.Error(f)
					return
				}
			}
		})
	}
	for spinning.pool.Use().Busy < 4 {
		runtime.Gosched()
	}
	for b.Loop() {
		runtime.GC()
	}
	stop.Store(true)
	w.Wait()
}
