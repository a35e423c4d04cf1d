package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// BenchmarkAttendLatent is a layer's attention over latents, as DeepSeek V2 Lite and V3 have them,
// beside quantized weights: a prompt's rows, and one row that was generated.
func BenchmarkAttendLatent(b *testing.B) {
	const dim, page, depth = 576, 64, 4096
	for _, level := range Levels() {
		for _, heads := range []int{16, 128} {
			for _, rows := range []int{256, 1} {
				for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8} {
					b.Run(fmt.Sprintf("%s/heads=%d/rows=%d/%s", level, heads, rows, kv), func(b *testing.B) {
						be := open(b, Options{Level: level})
						load(b, be, randomSource(newRand(1), kernel.Q8_0, 1, 32, 32)) // products round
						n := (depth + rows + page - 1) / page
						cache, err := be.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 1, HeadDim: dim, PageTokens: page, Pages: n,
							KV: kv, Shared: true})
						if err != nil {
							b.Fatal(err)
						}
						pages := make([]int32, n)
						for i := range pages {
							pages[i] = int32(i)
						}
						all := &kernel.Step{Rows: depth + rows, Spans: []kernel.Span{{Len: depth + rows, Pages: pages}}}
						be.StoreKV(cache, 0, upload(be, normals(newRand(2), all.Rows*dim, 1)), nil, all)
						step := &kernel.Step{Rows: rows, Spans: []kernel.Span{{Len: rows, Pos: depth, Pages: pages, Prompt: rows > 1}}}
						q, out := upload(be, normals(newRand(3), rows*heads*dim, 1)), be.NewBuffer(rows*heads*dim)
						for b.Loop() {
							be.Attend(cache, 0, out, q, step, heads, 0, 0.07, nil)
						}
					})
				}
			}
		}
	}
}
