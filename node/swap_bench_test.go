package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/extensions/meter"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/builtin"
)

// BenchmarkSwapsBesideStreams swaps the module of the chat slot back to back,
// each a version of its own and with an empty compile cache, beside the streams of 4 clients
// of a model that computes on all processors, and of 32 of one that answers at
// once and that think for 50 ms between two. It reports the gaps between two events
// that clients see, and whole streams, without and during the swaps, and how long a
// swap takes. The node compiles by itself or has another process do it.
func BenchmarkSwapsBesideStreams(b *testing.B) {
	for _, by := range []struct {
		name    string
		compile func(b *testing.B) []string
	}{{"itself", func(*testing.B) []string { return nil }}, {"process", compileInChild}} {
		for _, engine := range []string{"computed", config.EngineInstant} {
			for _, module := range []string{"c", "go"} {
				b.Run(by.name+"/"+engine+"/"+module, func(b *testing.B) {
					benchSwaps(b, engine, module, by.compile(b))
				})
			}
		}
	}
}

// BenchmarkColdStart is how long after the start of a node, on a machine at rest,
// its shipped modules serve, when nothing was compiled before.
func BenchmarkColdStart(b *testing.B) {
	for _, by := range []struct {
		name    string
		compile func(b *testing.B) []string
	}{{"itself", func(*testing.B) []string { return nil }}, {"process", compileInChild}} {
		b.Run(by.name, func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				n := swapNode(b, config.EngineInstant, by.compile(b))
				<-n.modules.Ready()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(time.Since(began).Seconds(), "ready-s")
			}
		})
	}
}

// compileInChild lets this test program be the process that compiles.
func compileInChild(b *testing.B) []string {
	b.Setenv(childVariable, "1")
	return compileModules()
}

// swapNode is a node whose compile cache is empty.
func swapNode(b *testing.B, engine string, compile []string) *node {
	b.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", b.TempDir(), true
	if engine == config.EngineInstant {
		instantModels(cfg)
	}
	log, _, err := newLogger(cfg, io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	n, err := open(cfg, log, compile)
	if err != nil {
		b.Fatal(err)
	}
	n.begin()
	b.Cleanup(func() { _ = n.stop() })
	return n
}

// swappedModule makes versions of a module for the chat slot: the C example, or
// the one that ships, which is of Go and larger.
func swappedModule(b *testing.B, language string) (versions func(n int) []byte) {
	b.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "wasm", "examples", "translator-c", "module.wasm"))
	for _, m := range builtin.Modules() {
		if m.Name == "chat" && language == "go" {
			wasm, err = m.Wasm()
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	file, err := guest.Read(wasm)
	if err != nil {
		b.Fatal(err)
	}
	manifest := file.Manifest
	manifest.Name = "swapped"
	return func(n int) []byte {
		manifest.Version = fmt.Sprint("1.0.", n)
		text, err := json.Marshal(manifest)
		if err != nil {
			b.Fatal(err)
		}
		m, err := meter.WithCustomSection(wasm, "corenode.manifest", text)
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
}

func benchSwaps(b *testing.B, engine, module string, compile []string) {
	version, bodies := swappedModule(b, module), shortBodies
	if engine == "computed" { // long streams
		for i := range bodies {
			bodies[i] = strings.Replace(bodies[i], `tokens":16,`, `tokens":128,"ignore_eos":true,`, 1)
		}
	}
	if module == "c" { // the old dialect
		bodies[1] = `{"model":"core-1.1-mini","max_tokens":128,"stream":true,"prompt":"hello"}`
	}
	n := swapNode(b, engine, compile)
	<-n.modules.Ready()
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		b.Fatal(err)
	}
	swaps := 0
	swap := func() {
		if err := os.RemoveAll(filepath.Join(n.cfg.DataDir, "modules", "cache")); err != nil {
			b.Fatal(err)
		}
		m, err := operator.LoadModule(admin.NewModule{Wasm: version(swaps)})
		if err == nil {
			_, err = operator.ActivateModule(m.Digest)
		}
		if err != nil {
			b.Fatal(err)
		}
		swaps++
		for _, other := range n.modules.Modules() { // of older ones only the previous is kept
			if !other.Shipped && other.Digest != m.Digest &&
				(other.State == extensions.StateStored || other.State == extensions.StateLoaded) {
				if err := operator.RemoveModule(other.Digest); err != nil {
					b.Error(err)
				}
			}
		}
	}
	swap()
	w := &watchers{}
	w.start(b, n, operator, engine, bodies)
	defer w.end()
	for b.Loop() {
		time.Sleep(2 * time.Second)
		var steady, during watched
		var took time.Duration
		before := swaps
		for range 5 { // in turns, since other programs use the machine too
			w.take()
			time.Sleep(4 * time.Second)
			steady.add(w.take())
			began := time.Now()
			for time.Since(began) < 4*time.Second {
				swap()
			}
			took += time.Since(began)
			during.add(w.take())
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(w.failed), "failed")
		b.ReportMetric(took.Seconds()/float64(swaps-before), "s/swap")
		reportSwaps(b, "gap", steady.gaps, during.gaps)
		reportSwaps(b, "stream", steady.streams, during.streams)
	}
}

// reportSwaps reports percentiles without swaps and during them.
func reportSwaps(b *testing.B, what string, steady, during []time.Duration) {
	slices.Sort(steady)
	slices.Sort(during)
	for _, p := range []int{50, 99} {
		was, is := steady[(len(steady)-1)*p/100], during[(len(during)-1)*p/100]
		name := fmt.Sprintf("%s-p%d", what, p)
		b.ReportMetric(float64(was.Microseconds())/1e3, name+"-steady-ms")
		b.ReportMetric(float64(is.Microseconds())/1e3, name+"-swaps-ms")
		if p == 99 {
			b.ReportMetric(float64(is)/float64(was), name+"-ratio")
		}
	}
}

// watched is what clients saw: the gaps between two events, and how long streams took.
type watched struct{ gaps, streams []time.Duration }

func (w *watched) add(more watched) {
	w.gaps, w.streams = append(w.gaps, more.gaps...), append(w.streams, more.streams...)
}

// watchers are clients that read one stream after the other, over all protocols.
type watchers struct {
	stop chan struct{}
	wait sync.WaitGroup

	mu     sync.Mutex
	seen   watched
	failed int
}

func (w *watchers) start(b *testing.B, n *node, operator *admin.Client, engine string, bodies [3]string) {
	b.Helper()
	clients, think := 4, time.Duration(0)
	if engine == config.EngineInstant {
		clients, think = 32, 50*time.Millisecond
	}
	w.stop = make(chan struct{})
	base := "http://" + n.public.Addr().String()
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	for i := range clients {
		a, err := operator.CreateAccount(admin.NewAccount{Name: fmt.Sprint("account-", i), Balance: admin.Amount{USD: "1000"},
			Concurrency: 8, TokensPerMinute: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		w.wait.Go(func() {
			for n := i; ; n++ {
				select {
				case <-w.stop:
					return
				case <-time.After(think):
				}
				w.watch(h, base+slowPaths[n%3], a.Key, bodies[n%3])
			}
		})
	}
}

// watch reads one stream.
func (w *watchers) watch(h *http.Client, url, key, body string) {
	began := time.Now()
	var gaps []time.Duration
	ok := false
	if request, err := http.NewRequest("POST", url, strings.NewReader(body)); err == nil {
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		if response, err := h.Do(request); err == nil {
			gaps, ok = readGaps(response.Body)
			ok = ok && response.StatusCode == http.StatusOK
			response.Body.Close()
		}
	}
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		w.failed++
		return
	}
	w.seen.gaps = append(w.seen.gaps, gaps...)
	w.seen.streams = append(w.seen.streams, took)
}

// readGaps reads a stream to its end: the time between two events, and whether it
// ended as it should.
func readGaps(body io.Reader) (gaps []time.Duration, whole bool) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	var last time.Time
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
			continue
		}
		now := time.Now()
		if !last.IsZero() {
			gaps = append(gaps, now.Sub(last))
		}
		last = now
		whole = slices.ContainsFunc(endings[:], func(e string) bool { return bytes.Contains(lines.Bytes(), []byte(e)) })
	}
	return gaps, whole && lines.Err() == nil
}

func (w *watchers) take() watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = watched{}
	return seen
}

func (w *watchers) end() {
	close(w.stop)
	w.wait.Wait()
}
