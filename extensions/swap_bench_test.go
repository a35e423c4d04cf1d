//go:build unix

package extensions

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/meter"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// BenchmarkSwapExample and BenchmarkSwapShipped swap the generations of a slot
// under four callers, 200 times the C example and 10 times the shipped chat
// module, each generation a file of its own that was never compiled, by the host
// itself or by another process. They report failed calls, memory before and after,
// and the 99th percentile of a call without and during swaps.
func BenchmarkSwapExample(b *testing.B) {
	benchSwaps(b, exampleC(b), []byte(`{"model":"core-1.1","prompt":"Once","max_tokens":8,"stream":true}`), 200)
}

// exampleC is the example translator in C with its manifest.
func exampleC(b *testing.B) []byte {
	dir := filepath.Join("..", "wasm", "examples", "translator-c")
	module, err := os.ReadFile(filepath.Join(dir, "module.wasm"))
	if err != nil {
		b.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		b.Fatal(err)
	}
	if module, err = meter.WithCustomSection(module, guest.ManifestSection, manifest); err != nil {
		b.Fatal(err)
	}
	return module
}

func BenchmarkSwapShipped(b *testing.B) {
	for _, m := range builtin.Modules() {
		if m.Name != "chat" {
			continue
		}
		module, err := m.Wasm()
		if err != nil {
			b.Fatal(err)
		}
		manifest, err := json.Marshal(guest.Manifest{Name: "swapped", Kind: guest.KindTranslator, Protocol: "chat",
			Version: "1", ABI: "1.0", Runtime: guest.RuntimeGo})
		if err != nil {
			b.Fatal(err)
		}
		if module, err = meter.WithCustomSection(module, guest.ManifestSection, manifest); err != nil { // its name is taken
			b.Fatal(err)
		}
		body := []byte(`{"model":"core-1.1","stream":true,"messages":[{"role":"user","content":"Say hello."}]}`)
		benchSwaps(b, module, body, 10)
	}
}

// salted is the same module as another file.
func salted(b *testing.B, module []byte, n int) []byte {
	b.Helper()
	m, err := meter.WithCustomSection(module, "salt", fmt.Append(nil, n))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func benchSwaps(b *testing.B, module, body []byte, swaps int) {
	b.Run("itself", func(b *testing.B) { // without a folder nothing is compiled before
		benchSwapsOf(b, Options{}, module, body, swaps)
	})
	b.Run("process", func(b *testing.B) {
		command, _ := compilers(b, "compiles")
		benchSwapsOf(b, Options{CacheDir: filepath.Join(b.TempDir(), "cache"), CompileCommand: command}, module, body, swaps)
	})
}

func benchSwapsOf(b *testing.B, o Options, module, body []byte, swaps int) {
	h, _ := openTest(b, o)
	n := 0
	swap := func() {
		if err := os.RemoveAll(o.CacheDir); err != nil { // nothing for ""
			b.Fatal(err)
		}
		i := activate(b, h, salted(b, module, n))
		n++
		for _, other := range h.Modules() { // of older ones only the previous is kept
			if other.Digest != i.Digest && (other.State == StateStored || other.State == StateLoaded) {
				if err := h.Remove(other.Digest); err != nil {
					b.Error(err)
				}
			}
		}
	}
	for range 3 {
		swap()
	}
	for b.Loop() {
		c := &callers{}
		c.start(b, h, body)
		time.Sleep(time.Second)
		steady, before := c.take(), resident(b)
		for range swaps {
			swap()
		}
		during, after := c.take(), resident(b)
		c.end()
		b.ReportMetric(float64(c.failed.Load()), "failed")
		b.ReportMetric(float64(len(steady)+len(during)), "streams")
		b.ReportMetric(p99(steady), "steady-p99-us")
		b.ReportMetric(p99(during), "swaps-p99-us")
		b.ReportMetric(float64(before)/(1<<20), "rss-before-MiB")
		b.ReportMetric(float64(after)/(1<<20), "rss-after-MiB")
	}
}

// callers are four that open short streams, one after the other.
type callers struct {
	stop   atomic.Bool
	failed atomic.Int64
	wait   sync.WaitGroup
	mu     sync.Mutex
	took   []time.Duration // of streams since the last take
}

func (c *callers) start(b *testing.B, h *Host, body []byte) {
	group := answerEvents()
	for n := range 4 {
		c.wait.Go(func() {
			for !c.stop.Load() {
				began := time.Now()
				tr := h.Translate(SlotChat, fmt.Sprint("account-", n), "", abi.Facts{ID: "x"})
				_, err := tr.Request(body)
				tr.SetFacts(abi.Facts{ID: "x", Model: "core-1.1", Stream: true})
				for i := 0; err == nil && i < len(group); i++ {
					_, err = tr.Events(nil, group[i:i+1])
				}
				tr.Close()
				took := time.Since(began)
				if err != nil {
					c.failed.Add(1)
					b.Error(err)
				}
				c.mu.Lock()
				c.took = append(c.took, took)
				c.mu.Unlock()
				time.Sleep(time.Millisecond) // the callers leave room for the swaps
			}
		})
	}
}

func (c *callers) take() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

func (c *callers) end() {
	c.stop.Store(true)
	c.wait.Wait()
}

// p99 is the 99th percentile in microseconds.
func p99(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)*99/100].Nanoseconds()) / 1e3
}
