package main

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"corenode/engine/trail"
	"corenode/node/admin"
)

// TestCachesAreShown: what an account's prompts left is listed with its hits, and two requests
// are compared to the token, without a word of their text.
func TestCachesAreShown(t *testing.T) {
	if testing.Short() {
		t.Skip("models that compute; takes 2 s, and 20 under the race detector")
	}
	n, base, _ := startNode(t, nil)
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := operator.CreateAccount(admin.NewAccount{Name: "alice", Balance: admin.Amount{USD: "5"}})
	if err != nil {
		t.Fatal(err)
	}
	say := func(key, text string) string {
		status, answer, id := wholeChat(t, base, key, `{"model":"core-1.1-mini","max_tokens":2,"messages":[{"role":"user","content":"`+text+`"}]}`)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		return id
	}
	long := strings.Repeat("elephants march ", 30)
	first := say(made.Key, long)
	second := say(made.Key, long)
	third := say(made.Key, long+"and then they rest")
	theirs := say(otherKey(t, n), long)

	look, err := operator.Cache(url.Values{"account": {"alice"}, "model": {"core-1.1-mini"}})
	if err != nil || len(look.Models) != 1 || len(look.Models[0].Accounts) != 1 {
		t.Fatalf("%+v, %v", look, err)
	}
	best := look.Models[0].Prefixes[0]
	if best.AccountID != made.ID || best.Hits < 1 || best.Saved != best.Hits*int64(best.Tokens) || best.LastUse.IsZero() {
		t.Errorf("%+v", best)
	}
	if all, err := operator.Cache(nil); err != nil || len(all.Models) != 2 || len(all.Models[1].Accounts) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, c := range []struct {
		a, b  string
		limit trail.Limit
		part  bool
	}{{first, second, trail.LimitSnapshot, false}, {third, first, trail.LimitNone, true}, {first, theirs, trail.LimitAccount, false}} {
		u, err := operator.WhyUnshared(c.a, c.b)
		if err != nil || u.Limit != string(c.limit) || u.Part != c.part || u.Equal < 50 || u.Earlier.ID != first {
			t.Errorf("%+v, %v", u, err)
		}
		if strings.Contains(u.Sentence, "elephant") {
			t.Error(u.Sentence)
		}
	}
	for _, bad := range []func() error{
		func() error { _, err := operator.WhyUnshared(first, "req_nobody"); return err },
		func() error { _, err := operator.Cache(url.Values{"model": {"nobody"}}); return err },
	} {
		if e, ok := errors.AsType[*admin.Error](bad()); !ok || e.Kind != admin.KindNotFound {
			t.Errorf("want not found, got %v", e)
		}
	}
}
