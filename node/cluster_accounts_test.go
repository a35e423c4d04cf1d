package main

import (
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// clusterNodes starts nodes before one database.
func clusterNodes(t *testing.T, count int) (all []*node, bases []string) {
	url := postgrestest.URL(t)
	for range count {
		cfg := config.Default()
		cfg.Listen, cfg.Modules.CacheDir = "127.0.0.1:0", moduleCache
		onPostgres(url, filepath.Join(t.TempDir(), "data"))(cfg)
		n, err := start(cfg, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		all, bases = append(all, n), append(bases, "http://"+n.public.Addr().String())
	}
	return all, bases
}

// knows says whether a node knows a key.
func knows(t *testing.T, base, key string) bool {
	response, _ := fetch(t, "GET", base+"/v1/models", "", bearer(key))
	return response.StatusCode == http.StatusOK
}

// priceTold is what a client was told that its request cost.
func priceTold(r receipt) abi.Nano {
	u := r.usage
	return abi.Nano(priceOf(r.model, int64(u.input-u.cached), int64(u.cached), int64(u.output)).Int64())
}

// TestTwoNodesShareAnAccount: clients of two nodes spend one balance at once. Each is served or told
// why not, and what they were told adds up to what is gone, to the nano-dollar. A busy account is
// admitted by a grant, and nothing of it is left when its clients are gone.
func TestTwoNodesShareAnAccount(t *testing.T) {
	if testing.Short() {
		t.Skip("two nodes before a database: not in short runs")
	}
	nodes, bases := clusterNodes(t, 2)
	const clients, each = 6, 6
	few := errand{path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	spent := abi.Nano(0)
	for _, c := range []struct {
		account account.Account
		balance abi.Nano
		refused int // the only status beside success
	}{
		{account.Account{Name: "rich"}, 1e9, http.StatusOK},
		{account.Account{Name: "narrow", Concurrency: 3}, 1e9, http.StatusTooManyRequests},
		{account.Account{Name: "poor"}, 0, http.StatusPaymentRequired}, // its balance is that of some requests of the first
	} {
		if c.balance == 0 {
			c.balance = spent / (clients * each) * 10
		}
		id, key := customerOf(t, nodes[0], c.account, c.balance)
		few.key = key
		waitFor(t, "the other node to know the key", func() bool { return knows(t, bases[1], key) })
		var mu sync.Mutex
		charged, ends := abi.Nano(0), map[int]int{}
		var running, most int
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for range each {
					e := few
					e.stream = i%2 == 0
					began := false
					r := e.run(t, http.DefaultClient, bases[i%2], moments{began: func() {
						mu.Lock()
						began, running = true, running+1
						most = max(most, running)
						mu.Unlock()
					}})
					mu.Lock()
					if began {
						running--
					}
					ends[r.status]++
					if r.told {
						charged += priceTold(r)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		t.Logf("%s: %v, at most %d streams at once", c.account.Name, ends, most)
		if limit := c.account.Concurrency; ends[http.StatusOK] == 0 || ends[http.StatusOK]+ends[c.refused] < clients*each ||
			limit > 0 && most > limit {
			t.Errorf("%s: ends %v, %d streams at once", c.account.Name, ends, most)
		}
		wantSound(t, nodes[0])
		balance, held, err := nodes[1].store.Balance(id)
		if err != nil || balance != c.balance-charged || balance < 0 || held != 0 {
			t.Errorf("%s has %d and holds %d, %v; want %d less %d", c.account.Name, balance, held, err, c.balance, charged)
		}
		spent = max(spent, charged)
	}
	covered := uint64(0)
	for _, n := range nodes {
		covered += n.tree.Counters().Limits.Covered.Load()
	}
	if covered == 0 {
		t.Error("no request was covered by a grant")
	}
}
