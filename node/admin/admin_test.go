package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/operators"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// fakeNode records what it is told.
type fakeNode struct {
	mu      sync.Mutex
	changed []string // Guarded by mu.
	drained bool     // Guarded by mu.
}

func (n *fakeNode) Changed(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = append(n.changed, id)
}

func (n *fakeNode) KeyChanged(id, _ string) { n.Changed(id) }

func (n *fakeNode) Drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drained = true
}

func (n *fakeNode) CountTokens(native []byte) (int, bool) { return len(native), true }

func (n *fakeNode) Draining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drained
}

// takeChanged returns what was told since the last call.
func (n *fakeNode) takeChanged() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.changed
	n.changed = nil
	return told
}

// serve mounts an API the way the server does: bearer token, then Handle with
// the path as it was sent.
func serve(t *testing.T, api *API, dir string) {
	t.Helper()
	token := operators.NewToken()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		path, query, _ := strings.Cut(r.RequestURI, "?")
		status, contentType, answer := api.Handle(r.Context(), r.Method, path, []byte(query), body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		w.Write(answer)
	}))
	t.Cleanup(server.Close)
	withdraw, err := Announce(dir, strings.TrimPrefix(server.URL, "http://"), token, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(withdraw)
}

// statement is the whole statement of an account.
func statement(c *Client, name string, query url.Values) (all []Entry, err error) {
	query.Set("account", name)
	return all, c.Statement(query, func(page []Entry) error {
		all = append(all, page...)
		return nil
	})
}

func allAccounts(c *Client) (all []Account, err error) {
	return all, c.AccountPages(func(page []Account) error {
		all = append(all, page...)
		return nil
	})
}

func drain(c *Client) (s Status, err error) {
	return s, c.roundTrip("POST", Root+"/drain", nil, nil, &s)
}

// bothWays runs a test over a client in this process and over HTTP.
func bothWays(t *testing.T, test func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store)) {
	for _, way := range []string{"local", "http"} {
		t.Run(way, func(t *testing.T) {
			dir, node := t.TempDir(), &fakeNode{}
			s, err := sqlite.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			api := New(s, node, nil, nil, nil)
			c := Local(api)
			if way == "http" {
				serve(t, api, dir)
				if c, err = Dial(dir); err != nil {
					t.Fatal(err)
				}
			}
			test(t, checked(t, c), node, s)
		})
	}
}

func TestTopUps(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		node.takeChanged()
		nano := abi.Nano(7)
		for range 2 {
			after, err := c.TopUp("a", TopUp{Amount: Amount{NanoUSD: &nano}, Note: "n", IdempotencyKey: "k"})
			if err != nil || after.BalanceNanoUSD != 7 {
				t.Fatalf("%+v, %v", after, err)
			}
		}
		after, err := c.TopUp(made.ID, TopUp{Amount: Amount{USD: "-0.000000009"}})
		if err != nil || after.BalanceNanoUSD != -2 || after.BalanceUSD != "-0.000000002" {
			t.Errorf("correction: %+v, %v", after, err)
		}
		if told := node.takeChanged(); len(told) != 3 {
			t.Errorf("the node was told of %v", told)
		}
		rows, err := statement(c, "a", url.Values{"since": {time.Now().Add(-time.Hour).Format(time.RFC3339Nano)}})
		if err != nil || len(rows) != 2 || rows[0].AmountNanoUSD != 7 || rows[0].Note != "n" || rows[0].Usage != nil {
			t.Fatalf("rows %+v, %v", rows, err)
		}
		behind := url.Values{"after": {strconv.FormatInt(rows[0].ID, 10)}}
		if rest, err := statement(c, "a", behind); err != nil || len(rest) != 1 || rest[0].AmountNanoUSD != -9 {
			t.Errorf("second page %+v, %v", rest, err)
		}
		if later, err := statement(c, "a", url.Values{"since": {rows[1].Time.Add(1).Format(time.RFC3339Nano)}}); err != nil || len(later) != 0 {
			t.Errorf("rows since a nanosecond after the last: %+v, %v", later, err)
		}
		if none, err := statement(c, "a", url.Values{"since": {time.Now().Add(time.Hour).Format(time.RFC3339Nano)}}); err != nil || len(none) != 0 {
			t.Errorf("rows of the future %+v, %v", none, err)
		}
	})
}

func TestKeysOfAnAccount(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "a", Unlimited: true})
		if err != nil {
			t.Fatal(err)
		}
		expires := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
		second, err := c.CreateKey("a", NewKey{Expires: expires})
		if err != nil || !second.Expires.Equal(expires) || !strings.HasPrefix(second.Secret, second.Hint) {
			t.Fatalf("%+v, %v", second, err)
		}
		node.takeChanged()
		revoked, err := c.RevokeKey(made.KeyID)
		if err != nil || revoked.Revoked.IsZero() {
			t.Errorf("%+v, %v", revoked, err)
		}
		if told := node.takeChanged(); !slices.Equal(told, []string{made.ID}) {
			t.Errorf("the node was told of %v", told)
		}
		keys, err := c.Keys(made.ID)
		if err != nil || len(keys) != 2 || keys[0].Revoked.IsZero() || !keys[1].Revoked.IsZero() || keys[1].ID != second.ID {
			t.Errorf("keys %+v, %v", keys, err)
		}
		for _, k := range keys {
			if k.Secret != "" {
				t.Errorf("the list shows the secret of %s", k.ID)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		before, err := c.Status()
		if err != nil || before.Draining {
			t.Errorf("%+v, %v", before, err)
		}
		if _, err := drain(c); err != nil || !node.Draining() {
			t.Errorf("drain: %v", err)
		}
		if after, err := c.Status(); err != nil || !after.Draining {
			t.Errorf("%+v, %v", after, err)
		}
	})
}

func TestFailuresReachTheClient(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		if _, err := c.CreateAccount(NewAccount{Name: "taken"}); err != nil {
			t.Fatal(err)
		}
		node.takeChanged()
		nano := abi.Nano(1)
		cases := []struct {
			name, kind string
			call       func() error
		}{
			{"no such account", KindNotFound, func() error { _, err := c.Account("nobody"); return err }},
			{"a slash finds no verb", KindNotFound, func() error { _, err := c.Account("taken/keys"); return err }},
			{"no such key", KindNotFound, func() error { _, err := c.RevokeKey("key_no"); return err }},
			{"name taken", KindConflict, func() error { _, err := c.CreateAccount(NewAccount{Name: "taken"}); return err }},
			{"bad name", KindInvalid, func() error { _, err := c.CreateAccount(NewAccount{Name: "a b"}); return err }},
			{"inexact money", KindInvalid, func() error {
				_, err := c.TopUp("taken", TopUp{Amount: Amount{USD: "0.0000000001"}})
				return err
			}},
			{"money twice", KindInvalid, func() error {
				_, err := c.TopUp("taken", TopUp{Amount: Amount{USD: "1", NanoUSD: &nano}})
				return err
			}},
			{"no money", KindInvalid, func() error { _, err := c.TopUp("taken", TopUp{}); return err }},
		}
		_, err := c.TopUp("taken", TopUp{Amount: Amount{USD: "99999999999999"}})
		if err == nil || !strings.Contains(err.Error(), "too large: want at most 9223372036.854775807 dollars") {
			t.Errorf("too much money: %v", err)
		}
		for _, test := range cases {
			var e *Error
			if err := test.call(); !errors.As(err, &e) || e.Kind != test.kind || e.Message == "" {
				t.Errorf("%s: %v, want kind %s", test.name, err, test.kind)
			}
		}
		if told := node.takeChanged(); len(told) > 0 {
			t.Errorf("failures told the node of %v", told)
		}
	})
}

// TestNamesInPaths: an account is found by a name that URLs escape, however much
// of it the caller did escape.
func TestNamesInPaths(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		if _, err := c.CreateAccount(NewAccount{Name: "bob@x"}); err != nil {
			t.Fatal(err)
		}
		if shown, err := c.Account("bob@x"); err != nil || shown.Name != "bob@x" {
			t.Errorf("%+v, %v", shown, err)
		}
		if _, err := c.Account("bob%40x"); err == nil || !strings.Contains(err.Error(), `"bob%40x"`) {
			t.Errorf("a name that looks escaped: %v", err)
		}
		api := New(s, node, nil, nil, nil)
		for _, path := range []string{"bob@x", "bob%40x", "%62ob%40%78"} {
			if status, _, answer := api.Handle(t.Context(), "GET", Root+"/accounts/"+path, nil, nil); status != 200 {
				t.Errorf("%s: %d %s", path, status, answer)
			}
		}
	})
}

func TestHandleRefuses(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api := New(s, &fakeNode{}, nil, nil, nil)
	cases := []struct {
		method, path, query, body string
		status                    int
		says                      string
	}{
		{"GET", "/", "", "", 404, "unknown path"},
		{"GET", Root + "/accounts/", "", "", 404, "unknown path"},
		{"GET", Root + "/accounts/%zz", "", "", 400, "escape"},
		{"GET", Root + "/accounts/a%2Fkeys", "", "", 404, `a/keys`},
		{"DELETE", Root + "/accounts", "", "", 405, "not a verb"},
		{"POST", Root + "/accounts", "", ``, 400, "name"},
		{"POST", Root + "/accounts", "", strings.Repeat(" ", BodyBytesMax+1), 400, "want at most"},
		{"GET", Root + "/accounts", "limit=0", "", 400, `limit is \"0\", want 1 to 1000`},
		{"GET", Root + "/accounts", "limit=1001", "", 400, "want 1 to 1000"},
		{"GET", Root + "/accounts", "limit=many", "", 400, "want 1 to 1000"},
		{"GET", Root + "/accounts/a/ledger", "since=yesterday", "", 400, "since"},
		{"GET", Root + "/accounts/a/ledger", "after=x", "", 400, "after"},
		{"GET", Root + "/accounts/a/ledger", "limit=0", "", 400, "limit"},
		{"GET", Root + "/accounts/a/ledger", "%zz", "", 400, "escape"},
		{"GET", Root + "/accounts", "limits=5", "", 400, `unknown query parameter \"limits\": want after, limit`},
		{"GET", Root + "/accounts", "limit=5&limit=6", "", 400, "query parameter limit is there twice"},
		{"GET", Root + "/accounts", "since=2026-01-31T00:00:00Z", "", 400, "unknown query parameter"},
		{"GET", Root + "/status", "x=1", "", 400, "this verb has none"},
		{"POST", Root + "/accounts", "name=a", `{"name":"a"}`, 400, "this verb has none"},
		{"POST", Root + "/accounts", "", `{"name":"a","name":"b"}`, 400, "name is there twice"},
		{"POST", Root + "/accounts", "", `{"name":"a","n\u0061me":"b"}`, 400, "name is there twice"},
		{"POST", Root + "/accounts", "", `{"name":"a","limits":[{"x":{"y":1,"y":2}}]}`, 400, "limits.x.y is there twice"},
	}
	for _, c := range cases {
		status, contentType, body := api.Handle(t.Context(), c.method, c.path, []byte(c.query), []byte(c.body))
		var answer struct{ Error *Error }
		if err := json.Unmarshal(body, &answer); err != nil || answer.Error == nil || contentType != "application/json" {
			t.Errorf("%s %s: %s is no error envelope", c.method, c.path, body)
		}
		if status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s %q: %d %s, want %d that says %q", c.method, c.path, c.body, status, body, c.status, c.says)
		}
	}
}

// TestCallsLeaveALine: what changes something is told with its verb and what it
// is about, and nothing of what was sent; a path's own words only of what exists.
func TestCallsLeaveALine(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.CreateAccount(account.Account{Name: "alice"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	key, secret, err := s.CreateKey(a.ID, account.KeyLimits{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	api := New(s, &fakeNode{}, &fakeModules{}, nil, log)
	for _, c := range []struct{ verb, body, want string }{
		{"GET /accounts", ``, ``},
		{"GET /accounts/alice/keys", ``, ``},
		{"DELETE /accounts", ``, ``},
		{"POST /nothing", ``, ``},
		{"PATCH /accounts/alice", `{"name":"bob"}`, `method=PATCH path=/admin/v1/accounts/{account} status=200 account=ACCT`},
		{"PATCH /accounts/alice", `{"disabled":true}`, `method=PATCH path=/admin/v1/accounts/{account} status=404`},
		{"POST /accounts/bob/topups", `{"amount":{"usd":"3"},"note":"hush"}`, `method=POST path=/admin/v1/accounts/{account}/topups status=200 account=ACCT`},
		{"POST /accounts/bob/topups", `{"amount":"hush"}`, `method=POST path=/admin/v1/accounts/{account}/topups status=400`},
		{"POST /keys/" + key.ID + "/revoke", ``, `method=POST path=/admin/v1/keys/{key}/revoke status=200 account=ACCT key=` + key.ID},
		{"POST /keys/" + secret + "/revoke", ``, `method=POST path=/admin/v1/keys/{key}/revoke status=404`},
		{"POST /modules", `{"wasm":"aHVzaA=="}`, `method=POST path=/admin/v1/modules status=201 module=sha256:d15c`},
		{"POST /modules/discount@1.2.0/activate", ``, `method=POST path=/admin/v1/modules/{module}/activate status=200 target=discount@1.2.0 module=sha256:d15c`},
		{"POST /modules/nobody/activate", ``, `method=POST path=/admin/v1/modules/{module}/activate status=404`},
		{"POST /backup", `{"path":"hush"}`, `method=POST path=/admin/v1/backup status=400`},
		{"POST /drain", ``, `method=POST path=/admin/v1/drain status=200`},
	} {
		lines.Reset()
		method, path, _ := strings.Cut(c.verb, " ")
		api.Handle(t.Context(), method, Root+path, nil, []byte(c.body))
		want := c.want
		if want != "" {
			want = "level=INFO msg=admin operator=local " + want + "\n"
		}
		if got := strings.ReplaceAll(lines.String(), a.ID, "ACCT"); got != want {
			t.Errorf("%s left %q, want %q", c.verb, got, want)
		}
	}
	lines.Reset()
	_, _, body := api.Handle(t.Context(), "POST", Root+"/accounts", nil, []byte(`{"name":"carol"}`))
	var made CreatedAccount
	if err := json.Unmarshal(body, &made); err != nil {
		t.Fatal(err)
	}
	want := "level=INFO msg=admin operator=local method=POST path=/admin/v1/accounts status=201 account=" + made.ID + " key=" + made.KeyID + "\n"
	if got := lines.String(); got != want {
		t.Errorf("a new account left %q, want %q", got, want)
	}
	lines.Reset()
	func() {
		defer func() { recover() }()
		New(s, nil, nil, nil, log).Handle(t.Context(), "POST", Root+"/drain", nil, nil)
	}()
	if got, want := lines.String(), "level=INFO msg=admin operator=local method=POST path=/admin/v1/drain status=500\n"; got != want {
		t.Errorf("a call that panics left %q, want %q", got, want)
	}
}

// TestBodiesThatAreRefused holds what is said of a body to the words of the
// JSON that was sent: no name of a Go type or field.
func TestBodiesThatAreRefused(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	owner, err := s.CreateAccount(account.Account{Name: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := s.CreateKey(owner.ID, account.KeyLimits{Budget: 5}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	changeKey := "PATCH /keys/" + key.ID
	api := New(s, &fakeNode{}, &fakeModules{}, nil, nil)
	const accounts, change, topUps, keys, modules = "POST /accounts", "PATCH /accounts/a", "POST /accounts/a/topups", "POST /accounts/a/keys", "POST /modules"
	cases := []struct{ verb, body, want string }{
		{accounts, `{"nam":"a"}`, `unknown field "nam": want balance, concurrency, models, name, tokens_per_minute or unlimited`},
		{accounts, `{"Name":"b"}`, `unknown field "Name": want balance, concurrency, models, name, tokens_per_minute or unlimited`},
		{accounts, `{"name":"b","balance":{"eur":1}}`, `unknown field "balance.eur": want balance.nano_usd or balance.usd`},
		{accounts, `{"name":1}`, `name is 1, want a string`},
		{accounts, `{"name":"b","balance":5}`, `balance is 5, want an object`},
		{accounts, `{"name":"b","balance":{"nano_usd":1.5}}`, `balance.nano_usd is 1.5, want an integer of at most 64 bits`},
		{accounts, `{"name":"b","balance":{"nano_usd":"5"}}`, `balance.nano_usd is "5", want an integer of at most 64 bits`},
		{accounts, `{"name":"b","balance":{"usd":5}}`, `balance.usd is 5, want a string`},
		{accounts, `{"name":"b","models":"core"}`, `models is "core", want a list of strings`},
		{accounts, `{"name":"b","models":["core",1]}`, `models is ["core",1], want a list of strings`},
		{accounts, `{"name":"b","unlimited":"yes"}`, `unlimited is "yes", want true or false`},
		{change, `{"concurrency":"4"}`, `concurrency is "4", want an integer of at most 64 bits`},
		{change, `{"concurrency":99999999999999999999}`, `concurrency is 99999999999999999999, want an integer of at most 64 bits`},
		{change, `{"tokens_per_minute":1e3}`, `tokens_per_minute is 1e3, want an integer of at most 64 bits`},
		{change, `{"disabled":0}`, `disabled is 0, want true or false`},
		{topUps, `{"amount":{"usd":"1"},"note":["` + strings.Repeat("x", 100) + `"]}`, `note is ["` + strings.Repeat("x", 58) + `..., want a string`},
		{topUps, `{"amount":null}`, `amount is missing or zero`},
		{topUps, `{"amount":{}}`, `amount is empty, want nano_usd or usd`},
		{accounts, `{"name":"b","balance":{"usd":""}}`, `balance is empty, want nano_usd or usd`},
		{keys, `{"budget":{}}`, `budget is empty, want nano_usd or usd`},
		{keys, `{"budget":{"usd":""}}`, `budget is empty, want nano_usd or usd`},
		{changeKey, `{"budget":{}}`, `budget is empty, want nano_usd or usd`},
		{changeKey, `{"budget":{"usd":""}}`, `budget is empty, want nano_usd or usd`},
		{changeKey, `{"budget":{"nano_usd":null}}`, `budget is empty, want nano_usd or usd`},
		{keys, `{"expires":"tomorrow"}`, `expires is "tomorrow", want a time such as 2026-01-31T00:00:00Z`},
		{modules, `{"wasm":"%"}`, `wasm is "%", want base64`},
		{accounts, `["a"]`, `the body is ["a"], want an object`},
		{accounts, `"a"`, `the body is "a", want an object`},
		{accounts, `{"name":"b"} {}`, `the body has more than one JSON value: something is at byte 12, behind the first one`},
		{accounts, `{"name":"b"}x`, `the body has more than one JSON value: something is at byte 12, behind the first one`},
		{accounts, `{"name":"b"`, `the body is not JSON: it ends too early`},
		{accounts, `{"name":b}`, `the body is not JSON at byte 9: invalid character 'b' looking for beginning of value`},
	}
	for _, c := range cases {
		method, path, _ := strings.Cut(c.verb, " ")
		status, _, body := api.Handle(t.Context(), method, Root+path, nil, []byte(c.body))
		var answer struct{ Error *Error }
		if err := json.Unmarshal(body, &answer); err != nil || answer.Error == nil {
			t.Fatalf("%s is no error envelope", body)
		}
		if status != 400 || answer.Error.Kind != KindInvalid || answer.Error.Message != c.want {
			t.Errorf("%s %s: %d %q, want %q", c.verb, c.body, status, answer.Error.Message, c.want)
		}
	}
	if all, err := s.Holders("", 10); err != nil || len(all) != 1 {
		t.Errorf("a refused body left %+v, %v", all, err)
	}
	if k, err := s.Key(key.ID); err != nil || k.Budget != 5 {
		t.Errorf("a refused body made the budget %d, %v", k.Budget, err)
	}
}

// TestEveryFieldHasWords finds a field that decode could not speak of.
func TestEveryFieldHasWords(t *testing.T) {
	for _, asked := range []any{&NewAccount{}, &AccountChange{}, &TopUp{}, &NewKey{}, &NewModule{}, &Share{}, &Backup{}} {
		typ := reflect.TypeOf(asked).Elem()
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if err := decode([]byte(`{"`+name+`":null}`), asked); name == "" || err != nil {
				t.Errorf("%s of %s: %v", name, typ.Name(), err)
			}
		}
	}
}

// TestTopUpOnce asks for one top-up again: after another start of the store, at
// once from many sides, and with another amount or account under the same key.
func TestTopUpOnce(t *testing.T) {
	dir := t.TempDir()
	asked := TopUp{Amount: Amount{USD: "2.50"}, IdempotencyKey: "invoice-17"}
	for range 2 {
		s, err := sqlite.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := Local(New(s, &fakeNode{}, nil, nil, nil))
		for _, name := range []string{"a", "b"} {
			var e *Error
			if _, err := c.CreateAccount(NewAccount{Name: name}); err != nil && !(errors.As(err, &e) && e.Kind == KindConflict) {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a, err := c.TopUp("a", asked); err != nil || a.BalanceNanoUSD != 2_500_000_000 {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
		wg.Wait()
		for account, usd := range map[string]string{"a": "2.51", "b": "2.50"} {
			var e *Error
			other := TopUp{Amount: Amount{USD: usd}, IdempotencyKey: asked.IdempotencyKey}
			if _, err := c.TopUp(account, other); !errors.As(err, &e) || e.Kind != KindConflict {
				t.Errorf("$%s for %s under the same key: %v, want a conflict", usd, account, err)
			}
		}
		if rows, err := statement(c, "a", url.Values{}); err != nil || len(rows) != 1 {
			t.Errorf("rows %+v, %v", rows, err)
		}
		if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
			t.Errorf("verify: %+v, %v", v, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConcurrentChangesAreNotLost changes different fields at once, by the API of another node too.
func TestConcurrentChangesAreNotLost(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		if _, err := c.CreateAccount(NewAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		concurrency, rate, yes := 5, int64(6), true
		var wg sync.WaitGroup
		for i, change := range []AccountChange{{Concurrency: &concurrency}, {TokensPerMinute: &rate}, {Unlimited: &yes}} {
			by := []*Client{c, Local(New(s, node, nil, nil, nil))}[i%2]
			wg.Go(func() {
				if _, err := by.ChangeAccount("a", change); err != nil {
					t.Error(fmt.Errorf("change %d: %w", i, err))
				}
			})
		}
		wg.Wait()
		if a, err := c.Account("a"); err != nil || a.Concurrency != 5 || a.TokensPerMinute != 6 || !a.Unlimited {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestRefund takes a charge back, once, by the id of its request or of its row.
func TestRefund(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		money := abi.Nano(1000)
		a, err := c.CreateAccount(NewAccount{Name: "alice", Balance: Amount{NanoUSD: &money}})
		if err != nil {
			t.Fatal(err)
		}
		charge := account.Entry{Kind: account.Settlement, AccountID: a.ID, RequestID: "req_1", Model: "m", Time: time.Now(), Amount: -100,
			Usage: abi.Usage{InputUncached: 1}, Reason: account.Finished, ModuleDigest: "sha256:aa"}
		if err := s.Append([]account.Entry{charge}); err != nil {
			t.Fatal(err)
		}
		node.takeChanged()
		first, err := c.Refund("req_1", "ticket 12")
		if err != nil || !first.Done || first.Entry.AmountNanoUSD != 100 || !first.Entry.Refund || first.Entry.Note != "ticket 12" {
			t.Errorf("refunded %+v, %v", first, err)
		}
		if rows, err := c.Audit(url.Values{"limit": {"1"}}); err != nil || rows.Data[0].Target != "req_1" || rows.Data[0].AccountID == "" {
			t.Errorf("of what was refunded the audit has %+v, %v", rows.Data, err)
		}
		second, err := c.Refund(strconv.FormatInt(first.Entry.Settles, 10), "again")
		if err != nil || second.Done || second.Entry.ID != first.Entry.ID {
			t.Errorf("refunded again %+v, %v", second, err)
		}
		if shown, err := c.Account(a.ID); err != nil || shown.BalanceNanoUSD != 1000 {
			t.Errorf("the balance is %d, %v", shown.BalanceNanoUSD, err)
		}
		var refused *Error
		if _, err := c.Refund("req_2", ""); !errors.As(err, &refused) || refused.Kind != KindNotFound {
			t.Errorf("a refund of nothing: %v", err)
		}
		if _, err := c.Refund("req_1", strings.Repeat("x", 1001)); !errors.As(err, &refused) || refused.Kind != KindInvalid {
			t.Errorf("a note of 1001 bytes: %v", err)
		}
	})
}

// TestStoppedCall: who waits for a call that a stop ended is told what ended it.
func TestStoppedCall(t *testing.T) {
	e := asError(fmt.Errorf("load: %w", context.Canceled))
	if e.Kind != KindInternal || !strings.HasPrefix(e.Message, "the node is stopping") {
		t.Errorf("%+v", e)
	}
}
