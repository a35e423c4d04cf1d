package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine/messages"
	"corenode/node/config"
	"corenode/node/store/sqlite"
)

// withUpstream makes every model of a configuration one that the nodes at urls answer.
func withUpstream(t testing.TB, key string, urls ...string) func(*config.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *config.Config) {
		for id, m := range cfg.Models {
			m.Engine, m.ContextLength = config.EngineUpstream, 262144
			m.Upstream.Flavor, m.Upstream.URLs, m.Upstream.KeyFile = "corenode", urls, file
			cfg.Models[id] = m
		}
	}
}

// startPeer runs a node of instant models that computes for other nodes, and returns the key
// with which they ask.
func startPeer(t *testing.T) (n *node, base, key string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.CreateAccount(account.Account{Name: "nodes", Unlimited: true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, key, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n, base, _ = startNode(t, func(cfg *config.Config) {
		instantModels(cfg)
		cfg.DataDir, cfg.Server.PeerKeys = dir, []string{k.ID}
	})
	return n, base, key
}

// TestNodeBehindNode: a node whose models another node computes answers as that one does, over
// every protocol: the same text, usage and charge. The other node bills nothing.
func TestNodeBehindNode(t *testing.T) {
	back, backBase, backKey := startPeer(t)
	front, frontBase, frontKey := startNode(t, withUpstream(t, backKey, backBase))
	waitFor(t, "the upstream to be ready", func() bool { return front.catalog.upstreams["core-1.1"].Replicas()[0].Ready })
	for _, c := range []struct {
		path string
		body object
	}{
		{"/v1/messages", object{"model": "core-1.1", "max_tokens": 20, "messages": []object{{"role": "user", "content": "Say hello."}}}},
		{"/v1/chat/completions", object{"model": "core-1.1", "max_tokens": 20, "messages": []object{{"role": "user", "content": "Say hello."}}}},
		{"/v1/responses", object{"model": "core-1.1", "max_output_tokens": 20, "input": "Say hello."}},
	} {
		var got [2]string
		for i, at := range []struct{ base, key string }{{backBase, backKey}, {frontBase, frontKey}} {
			var answer struct{ Usage map[string]any }
			if err := json.Unmarshal(postJSON(t, at.base, at.key, c.path, c.body), &answer); err != nil {
				t.Fatal(err)
			}
			usage, _ := json.Marshal(answer.Usage)
			got[i] = string(usage)
		}
		if got[0] != got[1] {
			t.Errorf("%s: usage %s, and behind the other node %s", c.path, got[0], got[1])
		}
	}
	rows := gateway{n: front}.settlements(t)
	if len(rows) != 3 {
		t.Errorf("%d settlements in front", len(rows))
	}
	for _, r := range rows {
		if e := r[0]; e.Source.Replica != backBase || e.Source.Usage != "reported" || e.Source.RequestID == "" || e.Reason != account.Finished {
			t.Errorf("row %+v", e)
		}
	}
	if rows := (gateway{n: back}).settlements(t); len(rows) != 3 {
		t.Errorf("%d settlements behind, want those of its own 3 requests", len(rows))
	}
}

// TestTemplateDateOfATokenizer: what is counted for servers elsewhere has the day that the configuration
// says, not that of the request.
func TestTemplateDateOfATokenizer(t *testing.T) {
	template := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(template, []byte("{{ 'a b c d e f ' if strftime_now('%Y') == '1999' }}{% for m in messages %}{{ m.content }}{% endfor %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	q, err := messages.Parse([]byte(`{"model":"far","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	count := func(day string) int {
		cfg := config.Default()
		cfg.Models["far"] = config.Model{Engine: config.EngineUpstream, ContextLength: 1000, Template: template, TemplateDate: day,
			Upstream: config.Upstream{Flavor: "chat", Tokenizer: filepath.Join("..", "engine", "embedded", "core-1.1-mini.gguf")}}
		o, err := upstreamOptions(cfg, "far")
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := o.Counter.Count(q)
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	if then, now := count("1999-12-31"), count(""); then <= now {
		t.Errorf("%d tokens with template_date, %d without", then, now)
	}
}

// TestNoUpstreamWithoutConfig: a node without an upstream model has nothing of it running.
func TestNoUpstreamWithoutConfig(t *testing.T) {
	running := func() int {
		stacks := make([]byte, 16<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "\ncorenode/engine/upstream.")
	}
	before := running() // what tests before this one have left
	n, base, key := startNode(t, instantModels)
	postJSON(t, base, key, "/v1/messages", object{"model": "core-1.1", "max_tokens": 20, "messages": []object{{"role": "user", "content": "Say hello."}}})
	if now := running(); now > before || len(n.catalog.upstreams) > 0 {
		t.Errorf("%d upstream models, %d frames of their code, %d before", len(n.catalog.upstreams), now, before)
	}
}
