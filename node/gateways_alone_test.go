package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// standalone starts a node that the test stops itself.
func standalone(t *testing.T, change func(*config.Config)) (n *node, base, key string) {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "data")
	slowConfig(t)(cfg)
	if change != nil {
		change(cfg)
	}
	n, err := start(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, key = customerOf(t, n, account.Account{Name: "someone", Unlimited: true}, 0)
	return n, "http://" + n.public.Addr().String(), key
}

// TestGateways2_05_ConfigThatCannotBeHonored: such a node does not start.
func TestGateways2_05_ConfigThatCannotBeHonored(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`models: {m: {engine: cuda, prices: {input: "1", cached_input: "1", output: "1"}}}`, "cuda"},
		{`models: {m: {engine: instant}}`, "prices"},
		{`models: {m: {engine: instant, prices: {input: "0.0001", cached_input: "1", output: "1"}}}`, "0.0001"},
		{`limits: {redis: true}`, "redis"},
		{`admin: {listen: "0.0.0.0:0"}`, "allow_remote"},
		{`ledger: {spill_bytes: 1KiB}`, "spill_bytes"},
	} {
		file := filepath.Join(t.TempDir(), "corenode.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := config.Load(config.Sources{File: file}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", data, moduleCache
	m := cfg.Models[fastModel]
	m.Path = filepath.Join(t.TempDir(), "no.gguf")
	cfg.Models[fastModel] = m
	if n, err := start(cfg, io.Discard); err == nil {
		n.stop()
		t.Error("a model whose file is not there starts")
	}
}

// TestGateways2_15_16_Drain: a node that is told to stop refuses new requests
// with 503, lets short streams finish, and ends those that outlast the deadline
// with the error event of their protocol; all of them are settled. Their keep-alives
// come as often as the configuration says, up to the end.
func TestGateways2_15_16_Drain(t *testing.T) {
	n, base, key := standalone(t, func(cfg *config.Config) { cfg.Limits.Keepalive = stepTime / 4 })
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	alone := longErrand(key, paths[0])
	alone.leaveAt, alone.maxTokens = 0, 100
	asked := time.Now()
	alone.run(t, h, base, moments{})
	// Enough for three like it, however slow the machine, and not for the long ones.
	n.cfg.Limits.DrainTimeout = min(max(20*time.Since(asked), 10*time.Second), time.Minute)
	var mu sync.Mutex
	var receipts []receipt
	var streams, begun sync.WaitGroup
	for i := range 6 {
		e := longErrand(key, paths[i%3])
		if e.leaveAt, e.maxTokens = 0, 200_000; i < 3 {
			e.maxTokens = 100
		}
		begun.Add(1)
		streams.Go(func() {
			began := sync.OnceFunc(begun.Done)
			defer began() // one that never begins fails below
			r := e.run(t, h, base, moments{began: began})
			mu.Lock()
			receipts = append(receipts, r)
			mu.Unlock()
		})
	}
	begun.Wait()
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	waitFor(t, "the drain", n.Draining)
	if r := (errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 1}).run(t, h, base,
		moments{}); r.status != 503 || r.header.Get("Retry-After") == "" {
		// Its listener may be closed already: then there is no answer at all.
		if r.status != 0 {
			t.Errorf("in the drain: status %d, %s", r.status, r.failure)
		}
	}
	streams.Wait()
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	s, err := sqlite.Open(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, r := range receipts {
		if short := r.maxTokens == 100; r.told != short || (r.failure != "") == short {
			t.Errorf("%s with max_tokens %d: finished %t, error %s", r.path, r.maxTokens, r.told, r.failure)
		}
		if r.pauses == 0 {
			t.Errorf("%s: %d tokens, %v each, and no keep-alive", r.path, r.deltas, stepTime)
		}
		if e, err := s.Settlement(r.id); err != nil || e.Usage.Output == 0 {
			t.Errorf("settlement of %s: %+v, %v", r.id, e, err)
		}
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds > 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// TestGateways2_17_DatabaseGoneIsNot401: without its database the node still
// knows its keys. Who has been served goes on, everyone else is told to come
// back, and nobody's key is refused.
func TestGateways2_17_DatabaseGoneIsNot401(t *testing.T) {
	n, base, key := standalone(t, nil)
	_, cold := customerOf(t, n, account.Account{Name: "cold", Unlimited: true}, 0)
	e := errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	if r := e.run(t, http.DefaultClient, base, moments{}); !r.told {
		t.Fatalf("before: %+v", r)
	}
	// Who has nothing is forgotten within a second: this stream keeps the account known, as of one who is being served.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	beside, err := post(ctx, base, key, string(longErrand(key, "/v1/messages").body()))
	if err != nil || beside.StatusCode != http.StatusOK {
		t.Fatal(beside, err)
	}
	defer beside.Body.Close()
	if _, err := bufio.NewReader(beside.Body).ReadString('\n'); err != nil { // its hold is durable
		t.Fatal(err)
	}
	if err := n.store.Close(); err != nil {
		t.Fatal(err)
	}
	var told []receipt
	for _, path := range paths {
		e.path = path
		for _, stream := range []bool{false, true} {
			e.key, e.stream = key, stream
			r := e.run(t, http.DefaultClient, base, moments{})
			if !r.told {
				t.Errorf("%s, stream %t: status %d, %s", path, stream, r.status, r.failure)
			}
			told = append(told, r)
			e.key = cold
			refusedFor(t, e.run(t, http.DefaultClient, base, moments{}))
		}
	}
	e.key = "sk-nobody"
	if r := e.run(t, http.DefaultClient, base, moments{}); r.status != http.StatusUnauthorized {
		t.Errorf("an unknown key: status %d", r.status)
	}
	leave()
	if err := n.stop(); err != nil {
		t.Errorf("a drain without the database: %v", err)
	}
	spill, err := store.OpenSpill(n.cfg.DataDir, int64(n.cfg.Ledger.SpillBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer spill.Close()
	kept := map[string]abi.Nano{}
	err = spill.Batches(replayBatch, func(rows []account.Entry) (int, error) {
		for _, row := range rows {
			if row.Kind == account.Settlement {
				kept[row.RequestID] = -row.Amount
			}
		}
		return len(rows), nil
	})
	for _, r := range told {
		if want := priceOf(r.model, int64(r.usage.input-r.usage.cached), int64(r.usage.cached),
			int64(r.usage.output)); int64(kept[r.id]) != want.Int64() {
			t.Errorf("request %s cost %d, the journal has %d (%v)", r.id, want, kept[r.id], err)
		}
	}
}
