package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// customerOf makes an account in a running node and returns a key of it.
func customerOf(t *testing.T, n *node, a account.Account, balance abi.Nano) (id, key string) {
	t.Helper()
	made, err := n.store.CreateAccount(a, balance)
	if err != nil {
		t.Fatal(err)
	}
	_, key, err = n.store.CreateKey(made.ID, account.KeyLimits{}, made.Created.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	n.Changed(made.ID)
	return made.ID, key
}

// stepTime is how long a step of models takes whose answers take their time and no processor's.
const stepTime = 4 * time.Millisecond

// slowConfig makes a node serve a model whose answers go on until max_tokens,
// and one that answers at once.
func slowConfig(t *testing.T) func(*config.Config) {
	path := endlessModel(t) // for its tokenizer and template
	return func(cfg *config.Config) {
		cfg.Modules.CacheDir = moduleCache
		slow, fast := cfg.Models[slowModel], cfg.Models[fastModel]
		slow.Engine, slow.StepTime, slow.Path, slow.ContextLength = config.EngineInstant, stepTime, path, 262144
		fast.Engine = config.EngineInstant
		slow.KV.MemoryBytes, slow.KV.StateMemoryBytes = config.PageBytesMin, 64<<20
		slow.Batch.GapMax, slow.Batch.GapStretchMax = time.Hour, 0 // all run at once, however slow the machine
		cfg.Models[slowModel], cfg.Models[fastModel] = slow, fast
	}
}

// rush sends one request so many times at once and returns the receipts. Those
// that are let in stay in until every call is either in or refused.
func rush(t *testing.T, base string, e errand, calls int) (receipts []receipt) {
	t.Helper()
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	var mu sync.Mutex
	var all sync.WaitGroup
	decided, release := 0, make(chan struct{})
	open := sync.OnceFunc(func() { close(release) })
	decide := func() {
		mu.Lock()
		defer mu.Unlock()
		decided++
	}
	defer all.Wait() // also when waitFor gives up
	defer open()
	for range calls {
		all.Go(func() {
			in := false
			r := e.run(t, h, base, moments{began: func() {
				in = true
				decide()
				<-release
			}})
			mu.Lock()
			receipts = append(receipts, r)
			mu.Unlock()
			if !in {
				decide()
			}
		})
	}
	waitFor(t, "all decisions", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return decided == calls
	})
	open()
	all.Wait()
	return receipts
}

// byStatus counts.
func byStatus(receipts []receipt) map[int]int {
	counts := map[int]int{}
	for _, r := range receipts {
		counts[r.status]++
	}
	return counts
}

// longErrand is a stream that ends when its client has read one delta and leaves.
func longErrand(key, path string) errand {
	return errand{key: key, path: path, model: slowModel, stream: true, prompt: "a long story", maxTokens: 30_000, leaveAt: 2}
}

// concurrencyIsExact: of 20 calls at once an account with a limit of 2
// gets exactly 2, on every protocol, and again when those streams were aborted.
func concurrencyIsExact(t *testing.T, g gateway) {
	n, base := g.n, g.base
	_, key := customerOf(t, n, account.Account{Name: "two-at-once", Unlimited: true, Concurrency: 2}, 0)
	for _, path := range paths {
		receipts := rush(t, base, longErrand(key, path), 20)
		if got := byStatus(receipts); got[http.StatusOK] != 2 || got[http.StatusTooManyRequests] != 18 {
			t.Errorf("%s: %v, want 2 times 200 and 18 times 429", path, got)
		}
		for _, r := range receipts {
			if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "1" {
				t.Errorf("%s: 429 with Retry-After %q", path, r.header.Get("Retry-After"))
			}
		}
		waitFor(t, "both places", func() bool { return n.tree.Inspect().Requests == 0 })
	}
}

// balanceIsExact: three upper bounds and not quite one minimum admit exactly
// three of 20 calls at once; the price of both is worked out here.
func balanceIsExact(t *testing.T, g gateway) {
	n, base := g.n, g.base
	e := longErrand("", "/v1/messages")
	input := askCount(t, base, g.rich, object{"model": e.model, "messages": []any{object{"role": "user", "content": e.prompt}}})
	upper := priceOf(e.model, int64(input), 0, int64(e.maxTokens)).Int64()
	minimum := priceOf(e.model, int64(input), 0, 1).Int64()
	for _, c := range []struct {
		balance  int64
		admitted int
	}{{3*upper + minimum - 1, 3}, {3*upper + minimum, 4}, {minimum - 1, 0}, {minimum, 1}} {
		id, key := customerOf(t, n, account.Account{Name: fmt.Sprint("has-", c.balance)}, abi.Nano(c.balance))
		e.key = key
		receipts := rush(t, base, e, 20)
		if got := byStatus(receipts); got[http.StatusOK] != c.admitted || got[http.StatusPaymentRequired] != 20-c.admitted {
			t.Errorf("balance %d: %v, want %d times 200 and else 402", c.balance, got, c.admitted)
		}
		for _, r := range receipts {
			if r.status == http.StatusPaymentRequired && (!strings.Contains(r.failure, "billing_error") || r.header.Get("X-Should-Retry") != "false") {
				t.Errorf("402 with %s", r.failure)
			}
		}
		waitFor(t, "the end of all", func() bool { return n.tree.Inspect().Requests == 0 })
		spent := func(balance abi.Nano) int64 { return c.balance - int64(balance) }
		if balance, held, err := n.store.Balance(id); err != nil || held != 0 || spent(balance) < 0 ||
			spent(balance) > upper*int64(c.admitted) {
			t.Errorf("afterwards %d with %d held, %v", balance, held, err)
		}
	}
}
