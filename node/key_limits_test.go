package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"corenode/node/admin"
	"corenode/node/config"
)

// shortBody is a request of one token, in every protocol.
func shortBody(path, model string) string {
	if path == "/v1/responses" {
		return fmt.Sprintf(`{"model":%q,"max_output_tokens":1,"input":"a few words"}`, model)
	}
	return fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"a few words"}]}`, model)
}

// TestKeyLimits: models, tokens per minute and the budget of a key are said in each protocol's words
// and are exact at any concurrency; they survive a restart and do not touch the account's other keys.
func TestKeyLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("two starts of a node; takes 4 s, many times that under the race detector; the limiter's own tests run there")
	}
	dir := filepath.Join(t.TempDir(), "data")
	serve := func(cfg *config.Config) { instantModels(cfg); cfg.DataDir = dir }
	var one admin.Key
	t.Run("limited", func(t *testing.T) {
		n, base, _ := startNode(t, serve)
		one = keysAreLimited(t, n, base)
	})
	t.Run("after a restart", func(t *testing.T) {
		n, base, _ := startNode(t, serve)
		c := operator(t, n)
		wantAnswer(t, base, "/v1/chat/completions", one.Secret, slowModel, 400, "model_not_found")
		keys, err := c.Keys("a")
		if err != nil {
			t.Fatal(err)
		}
		if spent := keys[len(keys)-1]; spent.Budget == 0 || *spent.ChargedNanoUSD != spent.Budget {
			t.Errorf("%+v", spent)
		}
		all := []string{}
		if k, err := c.ChangeKey(one.ID, admin.KeyChange{Models: &all}); err != nil || len(k.Models) != 0 {
			t.Fatal(k, err)
		}
		wantAnswer(t, base, "/v1/chat/completions", one.Secret, slowModel, 200, "")
	})
}

// wantAnswer sends a request of one token, and wants a status and what the answer says.
func wantAnswer(t *testing.T, base, path, key, model string, status int, says string) {
	t.Helper()
	answer, text := postTo(t, base, path, key, shortBody(path, model))
	if answer.StatusCode != status || !strings.Contains(text, says) {
		t.Errorf("%s: %d %s, want %d and %q", path, answer.StatusCode, text, status, says)
	}
	if limit := answer.Header.Get("X-Ratelimit-Limit-Tokens") + answer.Header.Get("Anthropic-Ratelimit-Tokens-Limit"); status == 429 && limit != "20" {
		t.Errorf("%s: 429 with a limit of %q tokens", path, limit)
	}
}

// keysAreLimited makes the account a and keys of it, and returns the one that may use one model.
func keysAreLimited(t *testing.T, n *node, base string) admin.Key {
	c := operator(t, n)
	a, err := c.CreateAccount(admin.NewAccount{Name: "a", Balance: admin.Amount{USD: "100"}})
	if err != nil {
		t.Fatal(err)
	}
	limited := func(with admin.NewKey) admin.Key {
		k, err := c.CreateKey(a.Name, with)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	one := limited(admin.NewKey{Models: []string{fastModel}})
	tight := limited(admin.NewKey{TokensPerMinute: 20})
	long := strings.ReplaceAll(shortBody(paths[0], fastModel), "a few words", strings.Repeat("word ", 2000))
	postTo(t, base, paths[0], tight.Secret, long) // from now on its bucket is short, for over an hour
	for _, path := range paths {
		unknown, spent := 400, "rate_limited"
		if path == "/v1/messages" {
			unknown, spent = 404, "rate_limit_error"
		}
		wantAnswer(t, base, path, one.Secret, slowModel, unknown, "unknown model")
		wantAnswer(t, base, path, one.Secret, fastModel, 200, "")
		wantAnswer(t, base, path, tight.Secret, fastModel, 429, spent)
		wantAnswer(t, base, path, tight.Secret, fastModel, 429, "this key's limit of 20 tokens per minute")
		wantAnswer(t, base, path, a.Key, slowModel, 200, "")
	}
	if got := modelsOf(t, base, one.Secret); len(got) != 1 || got[0] != fastModel {
		t.Errorf("the key may use %v", got)
	}
	budgetIsExact(t, n, base, a)
	return one
}

// budgetIsExact: a budget of five answers gives five of twenty calls at once, and not one more after
// it is spent; one that grows is in effect at once. The budget is of the key that is made last.
func budgetIsExact(t *testing.T, n *node, base string, a admin.CreatedAccount) {
	c := operator(t, n)
	before, err := c.Account(a.Name)
	if err != nil {
		t.Fatal(err)
	}
	postTo(t, base, paths[0], a.Key, shortBody(paths[0], fastModel)) // what is paid for in full is cached from now on
	after, err := c.Account(a.Name)
	if err != nil {
		t.Fatal(err)
	}
	price := before.BalanceNanoUSD - after.BalanceNanoUSD
	budget := 5 * price
	k, err := c.CreateKey(a.Name, admin.NewKey{Budget: admin.Amount{NanoUSD: &budget}})
	if err != nil {
		t.Fatal(err)
	}
	secret := k.Secret
	rush := func() map[int]int {
		var mu sync.Mutex
		var all sync.WaitGroup
		got := map[int]int{}
		for range 20 {
			all.Go(func() {
				answer, text := postTo(t, base, paths[0], secret, shortBody(paths[0], fastModel))
				if answer.StatusCode == http.StatusPaymentRequired && !strings.Contains(text, "this key's budget of $") {
					t.Errorf("402 says %s", text)
				}
				mu.Lock()
				got[answer.StatusCode]++
				mu.Unlock()
			})
		}
		all.Wait()
		return got
	}
	if got := rush(); got[200] != 5 || got[402] != 15 {
		t.Errorf("at once: %v, want 5 times 200 and 15 times 402", got)
	}
	if got := rush(); got[402] != 20 {
		t.Errorf("once it is spent: %v", got)
	}
	if k, err = c.Key(k.ID); err != nil || *k.ChargedNanoUSD != budget {
		t.Fatalf("%+v, %v; want that %d are charged", k, err, budget)
	}
	budget = 7 * price
	more := admin.Amount{NanoUSD: &budget}
	if _, err := c.ChangeKey(k.ID, admin.KeyChange{Budget: &more}); err != nil {
		t.Fatal(err)
	}
	if got := rush(); got[200] != 2 || got[402] != 18 {
		t.Errorf("with two more: %v", got)
	}
}

// modelsOf are the ids that a key is shown.
func modelsOf(t *testing.T, base, key string) (ids []string) {
	t.Helper()
	_, text := fetch(t, "GET", base+"/v1/models", "", bearer(key))
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids
}
