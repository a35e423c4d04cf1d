package admin

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// spend writes what three requests of an account leave, and returns its id.
func spend(t *testing.T, c *Client, s *sqlite.Store) string {
	t.Helper()
	made, err := c.CreateAccount(NewAccount{Name: "alice", Balance: Amount{USD: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	settled := func(request, model string, day int, input []byte) account.Entry {
		return account.Entry{Kind: account.Settlement, AccountID: made.ID, RequestID: request, KeyID: "key_1", Model: model,
			Time: time.Date(2026, 1, day, 12, 0, 0, 0, time.UTC), Amount: -30,
			Usage: abi.Usage{InputUncached: 20, CacheRead: 5, Output: 10, Reasoning: 4},
			Tier:  1, Reason: account.Finished, ModuleDigest: "sha256:aa", ChargeInput: input}
	}
	in := abi.ChargeInput{Usage: abi.Usage{Output: 10}, Model: "m", Account: made.ID}
	rows := []account.Entry{
		{Kind: account.Hold, AccountID: made.ID, RequestID: "req_1", Model: "m", Time: time.Date(2026, 1, 3, 11, 0, 0, 0, time.UTC), Held: 99},
		settled("req_1", "m", 3, in.Append(nil)), settled("req_2", "m", 4, nil), settled("req_3", "other/model", 4, nil),
		{Kind: account.Hold, AccountID: made.ID, RequestID: "req_4", Model: "m", Time: time.Now(), Held: 7},
	}
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Refund("req_3", "ticket 1"); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

func TestStatementVerb(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		id := spend(t, c, s)
		requests := func(query url.Values) string {
			t.Helper()
			var names []string
			if err := c.Statement(query, func(page []Entry) error {
				for _, e := range page {
					names = append(names, e.RequestID)
				}
				return nil
			}); err != nil {
				t.Fatal(query, err)
			}
			return strings.Join(names, " ")
		}
		for want, query := range map[string]url.Values{
			"req_1 req_2 req_3":  {"account": {"alice"}, "kind": {"settlement"}, "limit": {"1"}},
			"req_3 req_2 req_1":  {"account": {id}, "kind": {"settlement"}, "newest": {"true"}, "limit": {"2"}},
			"req_3 req_3":        {"model": {"other/model"}},
			"req_2 req_3":        {"since": {"2026-01-04T00:00:00Z"}, "until": {"2026-01-05T00:00:00Z"}},
			"req_1 req_2 req_3 ": {"key": {""}, "account": {"alice"}, "until": {time.Now().Add(-time.Hour).Format(time.RFC3339)}},
		} {
			if got := requests(query); got != strings.TrimSpace(want) {
				t.Errorf("%v gave %q, want %q", query, got, want)
			}
		}
		for _, query := range []url.Values{{"request": {"req_1"}}, {"kind": {"hold"}}, {"until": {"noon"}}, {"after": {"x"}}, {"after": {"4000"}},
			{"newest": {"maybe"}}, {"limit": {"0"}}, {"account": {"nobody"}}} {
			err := c.Statement(query, func([]Entry) error { return nil })
			if err == nil || asError(err).Kind == KindInternal {
				t.Errorf("%v: %v", query, err)
			}
		}
	})
}

func TestUsageVerb(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		spend(t, c, s)
		sums, err := c.Usage("alice", url.Values{"by": {"day,model"}, "until": {"2026-01-04T00:00:00Z"}, "limit": {"1"}})
		if err != nil || len(sums) != 3 || sums[2].Day != "2026-01-04" || sums[2].Model != "other/model" || sums[2].Requests != 1 ||
			sums[2].ChargedNanoUSD != 30 || sums[2].Usage != (Usage{20, 5, 0, 10, 4}) {
			t.Errorf("by day and model: %+v, %v", sums, err)
		}
		all, err := c.Usage("alice", url.Values{})
		if err != nil || len(all) != 1 || all[0].Requests != 3 || all[0].ChargedNanoUSD != 60 || all[0].Day != "" || all[0].ChargedUSD != "0.00000006" {
			t.Errorf("all: %+v, %v", all, err)
		}
		var page UsagePage
		if err := c.roundTrip("GET", accountPath("alice", "/usage"), url.Values{"limit": {"1"}}, nil, &page); err != nil ||
			len(page.Data) != 1 || page.Next != "" {
			t.Errorf("the one sum of all: %+v, %v; nothing is behind it", page, err)
		}
		for _, query := range []url.Values{{"by": {"week"}}, {"after": {"x"}}, {"after": {"1/2/3"}}, {"since": {"x"}}, {"group": {"day"}}} {
			if _, err := c.Usage("alice", query); err == nil || asError(err).Kind != KindInvalid {
				t.Errorf("%v: %v", query, err)
			}
		}
	})
}

func TestExplainCharge(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := checked(t, Local(New(s, &fakeNode{}, &fakeModules{price: 3}, nil, nil)))
	spend(t, c, s)
	e, err := c.Explain("req_1")
	if err != nil || e.Account != "alice" || e.Open || e.ChargedNanoUSD != 30 || len(e.Rows) != 2 || e.Rows[0].Entry.HeldNanoUSD != 99 {
		t.Fatalf("%+v, %v", e, err)
	}
	var sum abi.Nano
	for _, l := range e.Rows[1].Lines {
		sum += l.AmountNanoUSD
	}
	if sum != 30 {
		t.Errorf("the lines add up to %d: %+v", sum, e.Rows[1])
	}
	if e, err := c.Explain("req_2"); err != nil || e.Rows[0].Unexplained == "" {
		t.Errorf("without an input: %+v, %v", e, err)
	}
	if e, err := c.Explain("req_3"); err != nil || e.ChargedNanoUSD != 0 || len(e.Rows) != 2 || !e.Rows[1].Entry.Refund {
		t.Errorf("refunded: %+v, %v", e, err)
	}
	if e, err := c.Explain("req_4"); err != nil || !e.Open || len(e.Rows) != 1 {
		t.Errorf("open: %+v, %v", e, err)
	}
	if e, err := c.Inputs("req_1"); err != nil || len(e.Rows) != 2 || len(e.Rows[1].Entry.ChargeInput) == 0 || e.Rows[1].Lines != nil {
		t.Errorf("its input: %+v, %v", e, err)
	}
	some := url.Values{"inputs": {"some"}}
	if err := c.roundTrip("GET", Root+"/charges/req_1", some, nil, &e); err == nil || asError(err).Kind != KindInvalid {
		t.Errorf("inputs that are neither true nor false: %v", err)
	}
	if _, err := c.Explain("req_5"); err == nil || asError(err).Kind != KindNotFound {
		t.Errorf("unknown: %v", err)
	}
	if alone, err := Local(New(s, &fakeNode{}, nil, nil, nil)).Explain("req_1"); err != nil || alone.Rows[1].Unexplained == "" {
		t.Errorf("without a node: %+v, %v", alone, err)
	}
}
