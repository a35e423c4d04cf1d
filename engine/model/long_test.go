package model

import (
	"fmt"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"
)

// longPiece is how many rows of a long prompt are computed at once.
const longPiece = 512

// BenchmarkLongPrompt is what a token of a prompt of the embedded model takes, by the length of the
// prompt: as rows of a prompt, and as generated ones, which keep float32. Of a long prompt
// four pieces stand for all; the positions before them hold zeros. The two kinds take
// turns, and the shortest time of each piece counts.
func BenchmarkLongPrompt(b *testing.B) {
	f, err := modelfile.Open("../embedded/core-1.1-mini.gguf")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const page, longest, samples = 32, 65_536, 4
	be, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	m := loadOn(b, f, be)
	cache := newCache(b, m, page, longest/page, 1, kernel.KVF16)
	pages := make([]int32, longest/page)
	for i := range pages {
		pages[i] = int32(i)
	}
	tokens := someTokens(m, longPiece, 1)
	piece := func(at int, prompt bool) float64 {
		step := &kernel.Step{Rows: longPiece, Spans: []kernel.Span{{Len: longPiece, Pos: at, Pages: pages, Prompt: prompt}}}
		cache.ResetState(0)
		start := time.Now()
		if err := m.Forward(step, tokens, cache, nil, nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(start).Seconds()
	}
	lengths := []int{1024, 4608, 16_384, longest}
	best := map[string]float64{}
	perToken := func(length int, prompt bool) (us float64) {
		for i := range samples {
			at := (2*i + 1) * (length - longPiece) / (2 * samples) / longPiece * longPiece
			key := fmt.Sprint(length, at, prompt)
			took := piece(at, prompt)
			if was, ok := best[key]; !ok || took < was {
				best[key] = took
			}
			us += best[key] / (samples * longPiece) * 1e6
		}
		return us
	}
	var last [2][4]float64
	for b.Loop() {
		for i, length := range lengths {
			for kind := range last {
				last[kind][i] = perToken(length, kind == 1)
			}
		}
	}
	for kind, name := range []string{"float32", "prompt"} {
		for i, length := range lengths {
			b.ReportMetric(last[kind][i], fmt.Sprintf("us/token-%s-%d", name, length))
		}
	}
}
