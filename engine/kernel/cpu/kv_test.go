package cpu

import (
	"testing"

	"corenode/engine/kernel"
)

// TestPagesAreTakenWhenWritten: a pool of several slabs takes exactly the pages
// that were written, in any order, and a page that is written again takes nothing.
func TestPagesAreTakenWhenWritten(t *testing.T) {
	b := open(t, Options{Threads: 2})
	for _, kv := range kvAll {
		cfg := kernel.CacheConfig{Layers: 28, KVHeads: 8, HeadDim: 128, PageTokens: 64, Pages: 100, KV: kv}
		if per := slabPages(cfg); per < 2 || per >= cfg.Pages/2 {
			t.Fatalf("%s: %d pages per slab, want several slabs of several pages", kv, per)
		}
		cache, err := b.NewCache(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x := normals(newRand(1), 8*128, 1)
		ids := []int32{99, 0, 50, 1, 99, 0}
		for i, id := range ids {
			b.StoreKV(cache, 27, upload(b, x), upload(b, x),
				&kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: i, Pages: []int32{id}}}})
			if want := int64(min(i+1, 4)) * b.PageBytes(cfg); cache.BytesUsed() != want {
				t.Fatalf("%s: %d bytes after %v, want %d", kv, cache.BytesUsed(), ids[:i+1], want)
			}
		}
		cache.Close()
		if cache.BytesUsed() != 0 {
			t.Errorf("%s: %d bytes after Close", kv, cache.BytesUsed())
		}
	}
}

// TestPageBytes: 16, 32 and 8.5 bits a number, heads padded to whole blocks.
func TestPageBytes(t *testing.T) {
	b := open(t, Options{Threads: 1})
	for kv, bits := range map[kernel.KVType]int{kernel.KVF16: 32, kernel.KVF32: 64, kernel.KVQ8: 17} { // in half bits
		for dim, padded := range map[int]int{128: 128, 80: 96, 16: 32} {
			want := int64(2 * 3 * 2 * 32 * padded * bits / 16)
			if got := b.PageBytes(kernel.CacheConfig{Layers: 3, KVHeads: 2, HeadDim: dim, PageTokens: 32, KV: kv}); got != want {
				t.Errorf("%s, heads of %d: %d bytes, want %d", kv, dim, got, want)
			}
		}
	}
}

// TestSharedPagesAreHalf: where V is K, a page takes half the memory.
func TestSharedPagesAreHalf(t *testing.T) {
	b := open(t, Options{Threads: 1})
	for _, kv := range kvAll {
		c := kernel.CacheConfig{Layers: 3, KVHeads: 1, HeadDim: 576, PageTokens: 32, Pages: 1, KV: kv}
		both := b.PageBytes(c)
		c.Shared = true
		if got := b.PageBytes(c); 2*got != both {
			t.Errorf("%s: %d bytes shared, %d not", kv, got, both)
		}
	}
}

// TestCacheRefuses names what a cache cannot be made of.
func TestCacheRefuses(t *testing.T) {
	b := open(t, Options{Threads: 1})
	for _, c := range []kernel.CacheConfig{
		{Layers: 1, KVHeads: 1, HeadDim: 16, PageTokens: 16, KV: kernel.KVQ8 + 1},
		{Layers: 1, KVHeads: 1, HeadDim: headDimMax + 1, PageTokens: 16},
		{Layers: 1, KVHeads: 1, HeadDim: 16, PageTokens: 24},
		{Layers: 1, KVHeads: -1, HeadDim: 16, PageTokens: 16},
		{LinearLayers: 1}, {LinearLayers: 1, ConvKernel: 1, States: kernel.StateBF16},
	} {
		if _, err := b.NewCache(c); err == nil {
			t.Errorf("a cache of %+v", c)
		}
	}
}

// TestCeilings: the measure of arithmetic gives a number that any processor exceeds.
func TestCeilings(t *testing.T) {
	if rate := open(t, Options{Threads: 1}).multiplyPass() / 1e9; rate < 0.01 {
		t.Errorf("%g GFLOPS", rate)
	}
}
