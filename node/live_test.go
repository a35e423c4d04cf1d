package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"corenode/actors/account"
	"corenode/actors/tree"
	"corenode/node/admin"
)

// typed runs a command line beside a node.
func typed(t *testing.T, n *node, line ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := typedTo(t.Context(), &out, append(line, "--data-dir", n.cfg.DataDir)...)
	return out.String(), err
}

// TestPhases: the phases that can be asked for are those that a request can be in.
func TestPhases(t *testing.T) {
	if want := []string{tree.PhaseAdmission, tree.PhaseQueue, tree.PhasePrefill, tree.PhaseDecode, tree.PhaseHold, tree.PhasePaused,
		tree.PhaseSettlement, tree.PhaseShort}; !slices.Equal(admin.LivePhases, want) {
		t.Errorf("%v, want %v", admin.LivePhases, want)
	}
	n, _, _ := startNode(t, nil)
	if _, err := typed(t, n, "requests", "list", "--phase", "lunch"); err == nil || !strings.Contains(err.Error(), "want one of admission, ") {
		t.Errorf("a phase that there is not: %v", err)
	}
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
		return err == nil && len(all.Data) == 2 && deltas.Load() > 0
	})
	page, err := c.Requests(url.Values{"account": {id}})
	all := page.Data
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
	newest := pastRequests(t, c, url.Values{}, 2)
	if page, err := typed(t, n, "requests", "list", "--past", "--limit", "1"); err != nil || !strings.Contains(page, newest[0].ID) ||
		!strings.HasSuffix(page, fmt.Sprintf("There may be more: --before %d\n", newest[0].Number)) {
		t.Errorf("a page of past ones: %s, %v", page, err)
	}
	if page, err := typed(t, n, "requests", "list", "--past", "--before", fmt.Sprint(newest[0].Number)); err != nil ||
		strings.Contains(page, newest[0].ID) || !strings.Contains(page, newest[1].ID) {
		t.Errorf("the page behind: %s, %v", page, err)
	}
	if err := c.CancelRequest(all[0].ID); err == nil {
		t.Error("a request that has ended was cancelled")
	}
}
