package main

import (
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// shortLease is the lease of nodes in tests.
const shortLease = 3 * time.Second

// startAmong starts a node whose rows are in the database of a URL, which others share.
func startAmong(t *testing.T, url string, pause func(), changes ...func(*config.Config)) (n *node, base string) {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Modules.CacheDir = "127.0.0.1:0", moduleCache
	cfg.Admin.Listen = "127.0.0.1:0"
	onPostgres(url, filepath.Join(t.TempDir(), "data"))(cfg)
	for _, change := range changes {
		change(cfg)
	}
	n, err := openWith(cfg, slog.New(slog.DiscardHandler), nil, standIns{lease: shortLease, pause: pause, slow: storeWait})
	if err != nil {
		t.Fatal(err)
	}
	n.begin()
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return n, "http://" + n.public.Addr().String()
}

// smallStatus is what a small request with a key gets.
func smallStatus(t *testing.T, base, key string) int {
	t.Helper()
	e := errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	return e.run(t, http.DefaultClient, base, moments{}).status
}

func waitForStatus(t *testing.T, base, key string, want int) {
	t.Helper()
	waitFor(t, http.StatusText(want), func() bool { return smallStatus(t, base, key) == want })
}

// TestNodesShareAccountsAndKeys: what one node is told of accounts and keys holds on the other when
// the command returns; a node that is cut off from the database stops admitting, is counted out,
// and comes back without a restart, with what was changed meanwhile.
func TestNodesShareAccountsAndKeys(t *testing.T) {
	url := postgrestest.URL(t)
	proxy, through := postgrestest.NewProxy(t, url)
	var still sync.RWMutex // held while the second node stands still
	a, _ := startAmong(t, url, nil)
	b, baseB := startAmong(t, through, func() { still.RLock(); defer still.RUnlock() })
	atA := operator(t, a)
	made, err := atA.CreateAccount(admin.NewAccount{Name: "alice", Balance: admin.Amount{USD: "5"}})
	if err != nil {
		t.Fatal(err)
	}
	waitForStatus(t, baseB, made.Key, http.StatusOK)
	second, err := atA.CreateKey("alice", admin.NewKey{})
	if err != nil {
		t.Fatal(err)
	}
	waitForStatus(t, baseB, second.Secret, http.StatusOK)
	revoke := func(when string, k admin.Key) {
		t.Helper()
		waitFor(t, "nobody to be unaware", func() bool { // a slow machine may need more than a lease
			done, err := atA.RevokeKey(k.ID)
			return err == nil && len(done.UnawareNodes) == 0
		})
		if got := smallStatus(t, baseB, k.Secret); got != http.StatusUnauthorized && got != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d at the other node", when, got)
		}
	}
	revoke("all live", second)

	third, err := atA.CreateKey("alice", admin.NewKey{})
	if err != nil {
		t.Fatal(err)
	}
	waitForStatus(t, baseB, third.Secret, http.StatusOK)
	outs := func() uint64 { _, c := b.database.State(); return c.Fenced }
	for _, fault := range []struct {
		name        string
		begin, over func()
	}{
		{"cut off", proxy.Cut, proxy.Heal},
		{"stands still", still.Lock, still.Unlock},
	} {
		before := outs()
		fault.begin()
		waitForStatus(t, baseB, made.Key, http.StatusServiceUnavailable)
		if fault.name == "cut off" {
			revoke(fault.name, third)
			waitFor(t, "the others to count it out", func() bool {
				page, err := atA.ClusterNodes(nil)
				return err == nil && slices.ContainsFunc(page.Data, func(n admin.ClusterNode) bool { return n.State == store.NodeFenced })
			})
			if err := b.ready(); err == nil {
				t.Error("it is ready")
			}
		}
		fault.over()
		waitForStatus(t, baseB, made.Key, http.StatusOK)
		if outs() == before {
			t.Errorf("%s: it never stopped admitting", fault.name)
		}
	}
	for _, k := range []admin.Key{second, third} {
		waitForStatus(t, baseB, k.Secret, http.StatusUnauthorized)
	}
	waitFor(t, "the journal to be replayed", func() bool { return b.spill.Rows() == 0 && b.ready() == nil })
	wantSound(t, a)
}

// TestNodeThatComesBackFollowsFirst: while a node was counted out, another module came to serve, and another price: it answers no
// request before it has both, however long that takes.
func TestNodeThatComesBackFollowsFirst(t *testing.T) {
	url := postgrestest.URL(t)
	unsigned := func(cfg *config.Config) { cfg.Modules.AllowUnsigned = true }
	var still sync.RWMutex // held while the second node stands still
	a, _ := startAmong(t, url, nil, unsigned)
	b, base := startAmong(t, url, func() { still.RLock(); defer still.RUnlock() }, unsigned)
	_, key := customerOf(t, a, account.Account{Name: "alice", Unlimited: true}, 0)
	waitForStatus(t, base, key, http.StatusOK)

	b.commons.pricing.Lock() // it gets no further than to the prices
	follows := sync.OnceFunc(b.commons.pricing.Unlock)
	defer follows()
	if err := a.commons.changePrices(func(all map[string]abi.Prices) {
		p := all[fastModel]
		p.Output++
		all[fastModel] = p
	}); err != nil {
		t.Fatal(err)
	}
	still.Lock()
	moves := sync.OnceFunc(still.Unlock)
	defer moves()
	waitFor(t, "it to be counted out", func() bool {
		live, err := a.commons.store.Reports()
		_, in := live[b.database.ID()]
		return err == nil && !in
	})
	serves := activate(t, operator(t, a), "billing-c", `{"fee_nano":7}`)
	if strings.Contains(serves.Note, b.database.ID()) {
		t.Errorf("who activates is told of a node that is out: %s", serves.Note)
	}
	renewals := func() uint64 { _, c := b.database.State(); return c.Renewals }
	before := renewals()
	moves()
	const body = `{"model":"` + fastModel + `","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	waitFor(t, "it to have its place again", func() bool {
		status, answer, _ := wholeChat(t, base, key, body)
		if status == http.StatusOK || b.ready() == nil {
			t.Fatalf("it serves before it follows: %d %s", status, answer)
		}
		return renewals() > before+10
	})
	follows()
	var id string
	waitFor(t, "it to serve", func() bool {
		status, _, asked := wholeChat(t, base, key, body)
		id = asked
		return status == http.StatusOK
	})
	if e := settled(t, b, id); e.ModuleDigest != serves.Digest || e.Provisional {
		t.Errorf("charged %+v", e)
	}
}

// TestClusterIsShownAndDrained: either node shows both, says what the other has otherwise, and tells it to drain.
func TestClusterIsShownAndDrained(t *testing.T) {
	url := postgrestest.URL(t)
	a, _ := startAmong(t, url, nil)
	b, _ := startAmong(t, url, nil)
	atA := operator(t, a)
	waitFor(t, "both to be up", func() bool {
		page, err := atA.ClusterNodes(nil)
		up := func(n admin.ClusterNode) bool { return n.State == store.NodeUp && n.Live }
		all := page.Data
		return err == nil && page.Shared && len(all) == 2 && up(all[0]) && up(all[1]) && all[0].Self != all[1].Self
	})
	b.database.say(func(p *store.Presence) { p.ModelsDigest = "other" })
	waitFor(t, "the difference to be seen", func() bool {
		answer, err := http.Get("http://" + a.admin.Addr().String() + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode == http.StatusOK && strings.Contains(string(text), b.database.ID()+" serves other models")
	})
	page, err := atA.ClusterNodes(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range page.Data {
		if differs := len(n.Differs) > 0; differs == n.Self || n.Address == "" || len(n.Models) == 0 {
			t.Errorf("%+v", n)
		}
	}
	var offered strings.Builder
	root := cli.Root(version, nil)
	root.SetOut(&offered)
	root.SetErr(io.Discard)
	root.SetArgs([]string{"__complete", "cluster", "drain", "--data-dir", a.cfg.DataDir, ""})
	if err := root.Execute(); err != nil || !strings.Contains(offered.String(), b.database.ID()+"\tup") {
		t.Errorf("completed are %q, %v", &offered, err)
	}
	if err := atA.DrainNode(b.database.ID()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.drainAsked:
	case <-time.After(30 * time.Second):
		t.Error("it was not told to drain in 30 s")
	}
	select {
	case <-a.drainAsked:
		t.Error("the other one drains")
	default:
	}
}

// TestKeyringReadsAll: accounts and keys are read anew as a whole, with what a node missed.
func TestKeyringReadsAll(t *testing.T) {
	n, _, _ := startNode(t, instantModels)
	made, err := n.store.CreateAccount(account.Account{Name: "later"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := n.store.CreateKey(made.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := n.keys.Lookup([]byte(secret), time.Now()); ok {
		t.Fatal("it is known already")
	}
	if err := n.followed(nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := n.keys.Lookup([]byte(secret), time.Now()); !ok {
		t.Error("it is not known")
	}
}
