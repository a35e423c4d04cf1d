package trace

import (
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func newServer(t testing.TB, h http.Handler) (url string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// BenchmarkUnsampled is what a request pays whose trace is not kept.
func BenchmarkUnsampled(b *testing.B) {
	tracer, header := &Tracer{cfg: Config{Share: 0}}, []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	b.ReportAllocs()
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
	tracer := &Tracer{of: resourceOf(Config{}, Node{"v1", "127.0.0.1:8080"}), log: slog.New(slog.DiscardHandler)}
	b.ReportAllocs()
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
