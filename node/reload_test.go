package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/bench/fake"
	"corenode/engine/messages"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// TestReloadInARunningNode: prices, sampling and origins are in force at once, and prices are in the
// store before they quote; what cannot change is named, and a file with mistakes changes nothing.
func TestReloadInARunningNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	write := func(input, topK int, rest string) {
		text := fmt.Sprintf("server: {cors_origins: [https://a.example]}\n%smodels:\n  %s: {engine: instant, sampling: {top_k: %d}, "+
			"prices: {input: %d, cached_input: 1, output: 1}}\n", rest, fastModel, topK, input)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 5, "")
	from := config.Sources{File: file}
	started, origins, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	started.Server.CORSOrigins = nil
	n, base, key := startNode(t, func(cfg *config.Config) {
		started.DataDir, started.Listen, started.Modules.CacheDir = cfg.DataDir, cfg.Listen, cfg.Modules.CacheDir
		*cfg = *started
	})
	var lines bytes.Buffer
	r := newReloader(from, started, new(slog.LevelVar), slog.New(slog.NewJSONHandler(&lines, nil)))
	r.node, r.origins = n, origins
	if got := topKOf(t, n); got != 5 {
		t.Fatalf("top_k is %d", got)
	}
	write(3, 7, "limits: {keepalive: 5s}\n")
	done := r.reload()
	for _, key := range []string{"server.cors_origins", "models." + fastModel + ".sampling.top_k", "models." + fastModel + ".prices.input"} {
		if !slices.Contains(done.Changed, key) {
			t.Errorf("%s is not among what changed: %v", key, done.Changed)
		}
	}
	if !slices.Contains(done.Waiting, "limits.keepalive") || len(done.Problems) > 0 || !bytes.Contains(lines.Bytes(), []byte("limits.keepalive")) {
		t.Errorf("wait for a restart: %v, problems %v, log %s", done.Waiting, done.Problems, &lines)
	}
	kept, err := n.store.KeptPrices()
	if err != nil || kept[fastModel].Input != 3000 {
		t.Errorf("the store keeps %v, %v", kept, err)
	}
	if p, err := n.modules.Prices(fastModel); err != nil || p.Input != 3000 {
		t.Errorf("quotes are made at %v, %v", p, err)
	}
	if got := topKOf(t, n); got != 7 {
		t.Errorf("top_k is %d", got)
	}
	if got := allowedOrigin(t, base, key); got != "https://a.example" {
		t.Errorf("a page of the origin is told %q", got)
	}
	write(9, 9, "no_such_key: 1\n")
	if done := r.reload(); len(done.Problems) != 1 || topKOf(t, n) != 7 {
		t.Errorf("a mistake: %+v, top_k is %d", done, topKOf(t, n))
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if done := r.reload(); len(done.Problems) != 1 || topKOf(t, n) != 7 {
		t.Errorf("a file cut to nothing: %+v, top_k is %d", done, topKOf(t, n))
	}
	pricesNeedTheStore(t, n, r, write)
}

// TestReloadOfWhatServersKnow: a field of sampling that the servers of a model know is told them as soon as it is
// named, and no longer.
func TestReloadOfWhatServersKnow(t *testing.T) {
	s := fake.New(t, flavor.LlamaServer, func(int, []byte) fake.Script { return fake.Script{Text: []string{"yes"}} })
	n, base, key := startNode(t, func(cfg *config.Config) { withFake(cfg, fastModel, flavor.LlamaServer, s) })
	awaitReplicas(t, n)
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	from := config.Sources{File: file}
	read := func(named string) *config.Config {
		text := fmt.Sprintf("models: {%s: {engine: upstream, context_length: 4096, prices: {input: 1, cached_input: 1, output: 1}, "+
			"upstream: {flavour: llama-server, urls: [%q], shared_cache: true, sampling: [%s]}}}\n", fastModel, s.URL, named)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(from)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	r := newReloader(from, read(""), new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	body := `{"model":"` + fastModel + `","max_tokens":4,"min_tokens":2,"messages":[{"role":"user","content":"x"}]}`
	for _, step := range []struct {
		named string
		want  int
	}{{"", http.StatusBadRequest}, {"min_tokens", http.StatusOK}, {"min_p", http.StatusBadRequest}} {
		read(step.named)
		if done := r.reload(); len(done.Problems)+len(done.Waiting) > 0 {
			t.Fatalf("%+v", done)
		}
		resp, _ := fetch(t, "POST", base+"/v1/messages", body, http.Header{"X-Api-Key": {key}})
		if resp.StatusCode != step.want {
			t.Errorf("with %q named: status %d", step.named, resp.StatusCode)
		}
	}
}

// TestReloadOfARefusedFolder: a reload that takes a folder with which the next start will be refused says so.
func TestReloadOfARefusedFolder(t *testing.T) {
	n, _, _ := startNode(t, func(*config.Config) {})
	file := filepath.Join(t.TempDir(), "corenode.yaml")
	from := config.Sources{File: file, Environment: []string{"CORENODE_DATA_DIR_DEFAULT=" + n.cfg.DataDir}}
	r := newReloader(from, n.cfg, new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, c := range []struct {
		text     string
		problems int
	}{{"", 0}, {"data_dir: " + fresh + "\n", 1}} {
		if err := os.WriteFile(file, []byte("log: {level: info}\n"+c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		done := r.reload()
		if len(done.Problems) != c.problems || c.problems > 0 && !strings.Contains(done.Problems[0], fresh) {
			t.Errorf("with %q: %q", c.text, done.Problems)
		}
	}
}

// forgetful is a store that keeps no prices.
type forgetful struct{ store.Store }

func (forgetful) KeepPrices(map[string]abi.Prices) error { return errors.New("disk full") }

// pricesNeedTheStore shows that prices which cannot be kept are not quoted either.
func pricesNeedTheStore(t *testing.T, n *node, r *reloader, write func(input, topK int, rest string)) {
	write(8, 8, "")
	healthy := n.store
	n.store = forgetful{healthy}
	defer func() { n.store = healthy }()
	done := r.reload()
	if p, err := n.modules.Prices(fastModel); err != nil || p.Input != 3000 || len(done.Problems) != 1 || topKOf(t, n) != 7 {
		t.Errorf("without a store: %+v, prices %v, %v", done, p, err)
	}
}

// topKOf is what a request gets that does not say it.
func topKOf(t *testing.T, n *node) int {
	t.Helper()
	m, _ := n.catalog.Model(fastModel)
	q, err := messages.Parse([]byte(shortBody("/v1/messages", fastModel)))
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := server.Model(m).Prepare("acct", q)
	if err != nil {
		t.Fatal(err)
	}
	return prepared.Sampling.TopK
}

// allowedOrigin is what a page of https://a.example is told.
func allowedOrigin(t *testing.T, base, key string) string {
	t.Helper()
	header := bearer(key)
	header.Set("Origin", "https://a.example")
	answer, text := fetch(t, "GET", base+"/v1/models", "", header)
	if !json.Valid([]byte(text)) {
		t.Fatal(text)
	}
	return answer.Header.Get("Access-Control-Allow-Origin")
}
