package trace

import (
	"encoding/hex"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reportProcessor adds the processor time of each operation, which a busy machine leaves as it is.
func reportProcessor(b *testing.B) (done func()) {
	runtime.LockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := used()
	return func() {
		b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op")
		runtime.UnlockOSThread()
	}
}

// BenchmarkUnsampled is what a request pays whose trace is not kept.
func BenchmarkUnsampled(b *testing.B) {
	tracer, header := &Tracer{cfg: Config{Share: 0}}, []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	b.ReportAllocs()
	defer reportProcessor(b)()
	for i := 0; b.Loop(); i++ {
		c := tracer.Begin(header, nil, false)
		if tracer.Keep(&c, time.Duration(i%100)*time.Microsecond+time.Millisecond, false, true) == KeptByChance {
			b.Fatal("kept")
		}
	}
}

// BenchmarkSampled is what one pays whose trace is kept, but for the collector's connection: its record, its
// spans, and their encoding and compression with those of others.
func BenchmarkSampled(b *testing.B) {
	tracer := &Tracer{of: resourceOf(Config{}, onLoopback), log: slog.New(slog.DiscardHandler)}
	b.ReportAllocs()
	defer reportProcessor(b)()
	batch, bytes := make([]*Record, 0, batchMax), 0
	at := time.Unix(1700000000, 0)
	for i := 0; b.Loop(); i++ {
		at = at.Add(time.Duration(i%1000) * 1234567)
		r := fullAt(at)
		r.Attempts, r.Calls, r.Context = nil, nil, tracer.Begin(nil, nil, false)
		r.RequestID, r.Conversation = "req_"+hex.EncodeToString(r.Trace[:12]), r.Trace
		if batch = append(batch, r); len(batch) == batchMax {
			bytes += len(tracer.pack(batch))
			batch = batch[:0]
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "wire-B/op")
}
