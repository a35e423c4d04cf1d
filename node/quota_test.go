package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/node/admin"
)

// TestQuota: an admission policy's counters are reserved with its verdict. Requests at once
// never get more than the limit, each account has its own, what was not used and what a refund
// gives goes back, and a kill forgets nothing.
func TestQuota(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a node twice: left out of -short")
	}
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "nonstreaming_timeout: 20s")
	c.start()
	const requests = 5
	info, err := c.admin.LoadModule(admin.NewModule{Wasm: example(t, "admission-quota-c"), Config: []byte(`{"requests": 5, "tokens": 100000}`)})
	if err == nil {
		info, err = c.admin.ActivateModule(info.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, key := c.account(admin.NewAccount{Name: "quota", Unlimited: true})
	_, other := c.account(admin.NewAccount{Name: "other", Unlimited: true})
	ask := func(key, body string) (int, string, string) { return wholeChat(t, c.base, key, body) }
	const hello = `{"model":"core-1.1-mini","max_completion_tokens":3,"messages":[{"role":"user","content":"hi"}]}`
	if status, text, _ := ask(key, strings.Replace(hello, "3", "-3", 1)); status != http.StatusBadRequest {
		t.Fatalf("%d %s", status, text)
	}
	if status, text, _ := ask(key, strings.Replace(hello, "3,", "200000,", 1)); status == http.StatusOK {
		t.Fatalf("more tokens than the month has: %d %s", status, text)
	}
	first := atOnce(t, requests, func() (int, string, string) { return ask(key, hello) })
	if status, text, _ := ask(other, hello); status != http.StatusOK {
		t.Errorf("another account: %d %s", status, text)
	}
	b := newBooks()
	spent := int64(0)
	for _, e := range b.read(t, c.admin) {
		if e.AccountID == id && e.Usage != nil {
			spent += e.Usage.InputUncached + e.Usage.CacheRead + e.Usage.CacheWrite + e.Usage.Output
		}
	}
	if n, tokens, held := usedOfQuota(t, c.admin, id); n != requests || tokens != spent || spent == 0 || held != 0 {
		t.Errorf("%d requests and %d tokens are used, %d held; the rows have %d tokens", n, tokens, held, spent)
	}
	c.kill()
	c.start()
	ready(t, c, info.Digest)
	if status, text, _ := ask(key, hello); status != http.StatusTooManyRequests {
		t.Errorf("after a kill: %d %s", status, text)
	}
	if _, err := c.admin.Refund(first, "a ticket"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, text, _ := ask(key, hello); status != want {
			t.Errorf("request %d after a refund: %d %s", i, status, text)
		}
	}
	b.read(t, c.admin)
	b.closed(t, c.admin)
}

// atOnce asks four times as often as the quota grants, and gives one request that was granted.
func atOnce(t *testing.T, requests int64, ask func() (status int, text, id string)) (first string) {
	t.Helper()
	var granted, refused atomic.Int64
	var running sync.WaitGroup
	var one atomic.Pointer[string]
	for range 4 * requests {
		running.Go(func() {
			switch status, text, id := ask(); {
			case status == http.StatusOK:
				granted.Add(1)
				one.Store(&id)
			case status == http.StatusTooManyRequests && strings.Contains(text, "used its quota") && strings.Contains(text, "(requests of 20"):
				refused.Add(1)
			default:
				t.Errorf("%d %s", status, text)
			}
		})
	}
	running.Wait()
	if granted.Load() != requests || refused.Load() != 3*requests {
		t.Fatalf("%d were granted, %d refused", granted.Load(), refused.Load())
	}
	return *one.Load()
}

// usedOfQuota is what the node shows of an account's counters.
func usedOfQuota(t *testing.T, c *admin.Client, account string) (requests, tokens, held int64) {
	t.Helper()
	shown, err := c.Account(account)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range shown.Counters {
		held += u.Held
		switch u.Name {
		case "admission/quota-c/requests":
			requests += u.Used
		case "admission/quota-c/tokens":
			tokens += u.Used
		}
	}
	return requests, tokens, held
}
