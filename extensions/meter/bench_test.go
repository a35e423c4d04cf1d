//go:build unix

package meter

import (
	"context"
	"testing"

	"corenode/wasm/builtin"
)

// BenchmarkRewrite is what each start of a node does with each module that ships.
func BenchmarkRewrite(b *testing.B) {
	wasm, err := builtin.Modules()[0].Wasm()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Rewrite(wasm, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverhead runs the same calls on plain and metered guests, in turns
// so that both see the same noise, and reports the difference.
//
//	go test -run '^$' -bench Overhead -benchtime 300x -count 5
func BenchmarkOverhead(b *testing.B) {
	doc := document(100_000)
	n := uint64(len(doc))
	group := frames(8, 24)
	for _, c := range []struct {
		name, lang, fn string
		input          []byte
		args           []uint64
		batch          int // calls per measurement
	}{
		{"empty/c", "c", "empty", nil, nil, 20000},
		{"empty/go", "go", "empty", nil, nil, 20000},
		{"frame1/c", "c", "frame", group, []uint64{32}, 10000},
		{"frame8/c", "c", "frame", group, []uint64{uint64(len(group))}, 3000},
		{"escape/c", "c", "escape", doc, []uint64{n}, 3},
		{"scan/c", "c", "scan", doc, []uint64{n}, 3},
		{"hash/c", "c", "hash", doc, []uint64{n}, 6},
		{"sort/c", "c", "sort", doc, []uint64{2000}, 3},
		{"fib/c", "c", "fib", nil, []uint64{18}, 10},
		{"copy4k/c", "c", "copy", doc, []uint64{4096, 100}, 30},
		{"copy16/c", "c", "copy", doc, []uint64{16, 1000}, 30},
		{"escape/go", "go", "escape", doc, []uint64{n}, 1},
		{"hash/go", "go", "hash", doc, []uint64{n}, 2},
		{"json/go", "go", "roundtrip", doc[:0], []uint64{0}, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.fn == "roundtrip" {
				c.input = document(5000)
				c.args = []uint64{uint64(len(c.input))}
			}
			benchPair(b, c.lang, c.fn, c.input, c.args, c.batch)
		})
	}
}

// benchPair reports medians of CPU time per call.
func benchPair(b *testing.B, lang, fn string, input []byte, args []uint64, batch int) {
	var times [2][]float64
	var run [2]func()
	for i, metered := range []bool{false, true} {
		g := startGuest(b, lang, metered)
		if input != nil {
			g.fill(input)
		}
		f := g.mod.ExportedFunction(fn)
		stack := make([]uint64, max(len(args), 1))
		ctx := context.Background()
		run[i] = func() {
			if metered {
				g.arm(1<<40, guestOptions)
			}
			for range batch {
				copy(stack, args)
				if err := f.CallWithStack(ctx, stack); err != nil {
					b.Fatal(err)
				}
			}
		}
		run[i]()
	}
	b.ResetTimer()
	for range b.N {
		for i := range run {
			t := cpuTime()
			run[i]()
			times[i] = append(times[i], (cpuTime()-t)/float64(batch))
		}
	}
	plain, metered := median(times[0]), median(times[1])
	b.ReportMetric(plain, "plain-ns")
	b.ReportMetric(metered, "metered-ns")
	b.ReportMetric(100*(metered/plain-1), "overhead-%")
	b.ReportMetric(0, "ns/op")
}
