package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/bench/fake"
	"corenode/bench/proc"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// cachedOf asks for an answer and returns how many tokens of its prompt were cached.
func cachedOf(t *testing.T, base, key, model, prompt string) int {
	t.Helper()
	var answer struct {
		Usage struct {
			Cached int `json:"cache_read_input_tokens"`
		}
	}
	body := object{"model": model, "max_tokens": 4, "messages": []object{{"role": "user", "content": prompt}}}
	if err := json.Unmarshal(postJSON(t, base, key, "/v1/messages", body), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Usage.Cached
}

// TestUpstreamIsolation: of every flavor, an account never finds what another one left in a
// server's cache. Where servers cannot keep accounts apart, a second one is refused, and with
// shared_cache no cached tokens are shown.
func TestUpstreamIsolation(t *testing.T) {
	answer := func(int, []byte) fake.Script { return fake.Script{Text: []string{"yes"}} }
	flavors := []flavor.Flavor{flavor.VLLM, flavor.SGLang, flavor.Corenode, flavor.LlamaServer, flavor.Messages}
	n, base, first := startNode(t, func(cfg *config.Config) {
		prices := cfg.Models[fastModel]
		for _, f := range flavors {
			cfg.Models["far-"+string(f)] = prices
			withFake(cfg, "far-"+string(f), f, fake.New(t, f, answer))
		}
		ownModels(cfg)
		alone := prices
		cfg.Models["alone"] = alone
		withFake(cfg, "alone", flavor.Messages, fake.New(t, flavor.Messages, answer))
		alone = cfg.Models["alone"]
		alone.Upstream.SharedCache = false
		cfg.Models["alone"] = alone
	})
	awaitReplicas(t, n)
	_, second := customerOf(t, n, account.Account{Name: "second", Unlimited: true}, 0)
	prompt := strings.Repeat("a prompt that is worth to be remembered ", 20)
	for _, f := range flavors {
		model := "far-" + string(f)
		fresh, again := cachedOf(t, base, first, model, prompt), cachedOf(t, base, first, model, prompt)
		if fresh != 0 || (again > 0) != f.Isolates() {
			t.Errorf("%s: %d cached at first, then %d", f, fresh, again)
		}
		if other := cachedOf(t, base, second, model, prompt); other != 0 {
			t.Errorf("%s: another account finds %d cached tokens", f, other)
		}
	}
	cachedOf(t, base, first, "alone", prompt)
	r := errand{key: second, path: "/v1/messages", model: "alone", prompt: prompt, maxTokens: 4}.run(t, http.DefaultClient, base, moments{})
	if r.status != http.StatusServiceUnavailable {
		t.Errorf("a second account at a cache that cannot be shared: %+v", r)
	}
}

// ownModels makes the two models of the node's own answer at once.
func ownModels(cfg *config.Config) {
	for _, id := range []string{slowModel, fastModel} {
		m := cfg.Models[id]
		m.Engine = config.EngineInstant
		cfg.Models[id] = m
	}
}

// TestPeerComputesOnly: a node that computes for another one keeps the other's accounts apart
// in its cache, applies no limit of the account that the key belongs to, and bills nothing.
func TestPeerComputesOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	id, secret := peerKey(t, dir, account.Account{Name: "nodes", Concurrency: 1, TokensPerMinute: 1}) // and no money
	back, backBase, _ := startNode(t, func(cfg *config.Config) { cfg.DataDir, cfg.Server.PeerKeys = dir, []string{id} })
	front, base, first := startNode(t, withUpstream(t, secret, backBase))
	awaitReplicas(t, front)
	_, second := customerOf(t, front, account.Account{Name: "second", Unlimited: true}, 0)
	prompt := strings.Repeat("a prompt that is worth to be remembered ", 20)
	fresh, again := cachedOf(t, base, first, fastModel, prompt), cachedOf(t, base, first, fastModel, prompt)
	if other := cachedOf(t, base, second, fastModel, prompt); fresh != 0 || again == 0 || other != 0 {
		t.Errorf("cached %d at first, %d again, %d for another account", fresh, again, other)
	}
	e := errand{key: first, path: "/v1/messages", model: fastModel, stream: true, prompt: prompt, maxTokens: 20}
	if receipts := rush(t, base, e, 4); len(receipts) != 4 {
		t.Errorf("%d receipts", len(receipts))
	} else {
		for _, r := range receipts {
			if r.status != http.StatusOK || !r.told {
				t.Errorf("beyond the limits of the peer's account: %+v", r)
			}
		}
	}
	gateway{n: back}.idle(t)
	rows, err := back.store.Entries(store.Query{})
	if err != nil || len(rows) != 0 {
		t.Errorf("%d rows at the peer, %v", len(rows), err)
	}
	if refused := (errand{key: secret, path: "/v1/messages", model: fastModel, prompt: prompt, maxTokens: 4}).run(t, http.DefaultClient, backBase,
		moments{}); refused.status == http.StatusOK {
		t.Error("without a partition the key is an account's, which has no money")
	}
	checkNothingLeft(t, back)
	checkNothingLeft(t, front)
}

// peerKey makes a data folder with an account and a key of it.
func peerKey(t *testing.T, dir string, a account.Account) (id, secret string) {
	t.Helper()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	made, err := s.CreateAccount(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, secret, err := s.CreateKey(made.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return k.ID, secret
}

// freeAddress is an address of the loopback where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestNodesThatNameEachOther forward a request once: the second one refuses it.
func TestNodesThatNameEachOther(t *testing.T) {
	dirs := [2]string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	var ids, secrets, addresses, bases [2]string
	for i, dir := range dirs {
		ids[i], secrets[i] = peerKey(t, dir, account.Account{Name: "nodes", Unlimited: true})
		addresses[i] = freeAddress(t)
	}
	tokenizer := endlessModel(t) // so that neither asks the other to count
	var nodes [2]*node
	for i := range dirs {
		nodes[i], bases[i], _ = startNode(t, func(cfg *config.Config) {
			cfg.Listen, cfg.DataDir, cfg.Server.PeerKeys = addresses[i], dirs[i], []string{ids[i]}
			withUpstream(t, secrets[1-i], "http://"+addresses[1-i])(cfg)
			for id, m := range cfg.Models {
				m.Upstream.Tokenizer = tokenizer
				cfg.Models[id] = m
			}
		})
	}
	for i, n := range nodes {
		awaitReplicas(t, n)
		_, key := customerOf(t, n, account.Account{Name: "customer", Unlimited: true}, 0)
		for _, stream := range []bool{false, true} {
			e := errand{key: key, path: "/v1/messages", model: fastModel, stream: stream, prompt: "x", maxTokens: 4}
			r := e.run(t, http.DefaultClient, bases[i], moments{})
			if r.told || r.status != http.StatusServiceUnavailable && !strings.Contains(r.failure, "overloaded") {
				t.Errorf("node %d: %+v", i, r)
			}
		}
		attempts := n.catalog.upstreams[fastModel].Counts().Attempts.Load()
		if attempts != 2 {
			t.Errorf("node %d: %d attempts of 2 requests", i, attempts)
		}
		checkNothingLeft(t, n)
	}
}
