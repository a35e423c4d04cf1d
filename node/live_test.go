package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"corenode/actors/account"
	"corenode/node/admin"
)

// typed runs a command line beside a node.
func typed(t *testing.T, n *node, line ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := typedTo(t.Context(), &out, append(line, "--data-dir", n.cfg.DataDir)...)
	return out.String(), err
}

// pastRequests waits for so many requests that ended: a stream is among them only after its client
// has read its last event.
func pastRequests(t *testing.T, c *admin.Client, query url.Values, want int) (past []admin.PastRequest) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests that ended", want), func() bool {
		page, err := c.PastRequests(query)
		if err != nil {
			t.Fatal(err)
		}
		past = page.Data
		return len(past) >= want
	})
	return past
}

// TestRequestsAreSeenAndCancelled: an operator sees a stream and a plain request while they
// run, ends both, and finds them among those that ended. The stream pays what was computed,
// the plain one nothing.
func TestRequestsAreSeenAndCancelled(t *testing.T) {
	n, base, _ := startNode(t, slowConfig(t))
	c := operator(t, n)
	id, key := customerOf(t, n, account.Account{Name: "alice"}, 1e9)
	deltas, ended := listen(t, base, errand{key: key, path: "/v1/messages", model: slowModel, stream: true, prompt: "x", maxTokens: 200_000})
	var plain sync.WaitGroup
	var answer *http.Response
	var text string
	plain.Go(func() {
		answer, text = postTo(t, base, "/v1/chat/completions", key, string(errand{path: "/v1/chat/completions", model: slowModel, prompt: "x",
			maxTokens: 30_000}.body()))
	})
	waitFor(t, "both to decode", func() bool {
		all, err := c.Requests(url.Values{"account": {"alice"}, "phase": {"decode"}})
		return err == nil && len(all) == 2 && deltas.Load() > 0
	})
	all, err := c.Requests(url.Values{"account": {id}})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, r := range all {
		if r.Model != slowModel || !r.Permit || r.Prompt == 0 || r.Output == 0 || r.Billing == "" || (r.Translator == "") != r.Stream {
			t.Errorf("live: %+v", r)
		}
	}
	if screen, err := typed(t, n, "top", "--once"); err != nil || !strings.Contains(screen, all[0].ID) || !strings.HasPrefix(screen, "2 requests: 2 decode") {
		t.Errorf("top: %s, %v", screen, err)
	}
	if said, err := typed(t, n, "why", "--seconds", "1"); err != nil || !strings.Contains(said, slowModel) || !strings.Contains(said, "neighbor") {
		t.Errorf("why: %s, %v", said, err)
	}
	for _, r := range all {
		if _, err := typed(t, n, "requests", "cancel", r.ID); err != nil {
			t.Error(err)
		}
	}
	plain.Wait()
	waitFor(t, "the end of the stream", ended.Load)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "operator") || answer.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("the plain request got %d %v: %s", answer.StatusCode, answer.Header, text)
	}
	for _, r := range all {
		e := settled(t, n, r.ID)
		if r.Stream != (e.Amount < 0) || r.Stream != (e.Reason == account.Canceled) {
			t.Errorf("settled %+v of %+v", e, r)
		}
		if past := pastRequests(t, c, url.Values{"id": {r.ID}}, 1); past[0].ChargeNanoUSD != -e.Amount || past[0].Error != "overloaded" {
			t.Errorf("past: %+v", past)
		}
	}
	if err := c.CancelRequest(all[0].ID); err == nil {
		t.Error("a request that has ended was cancelled")
	}
}
