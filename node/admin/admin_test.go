package admin

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/node/store"
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

func (n *fakeNode) Drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drained = true
}

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

// serve mounts an API the way the server does: bearer token, then Handle.
func serve(t *testing.T, api *API, dir string) {
	t.Helper()
	var token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		status, contentType, answer := api.Handle(r.Method, r.URL.Path, []byte(r.URL.RawQuery), body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		w.Write(answer)
	}))
	t.Cleanup(server.Close)
	fresh, withdraw, err := Announce(dir, strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	token = fresh
	t.Cleanup(withdraw)
}

// bothWays runs a test over a client in this process and over HTTP.
func bothWays(t *testing.T, test func(t *testing.T, c *Client, node *fakeNode, s *store.Store)) {
	for _, way := range []string{"local", "http"} {
		t.Run(way, func(t *testing.T) {
			dir, node := t.TempDir(), &fakeNode{}
			s, err := store.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			api := New(s, node, nil)
			c := Local(api)
			if way == "http" {
				serve(t, api, dir)
				if c, err = Dial(dir); err != nil {
					t.Fatal(err)
				}
			}
			test(t, c, node, s)
		})
	}
}

func TestLifeOfAnAccount(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "alice", Balance: Amount{USD: "12.5"}, Concurrency: 2, TokensPerMinute: 100, Models: []string{"core-1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(made.Key, "sk-") || made.BalanceNanoUSD != 12_500_000_000 || made.BalanceUSD != "12.50" || made.HeldUSD != "0.00" {
			t.Errorf("made %+v", made)
		}
		_, keys, err := s.AccountKeys(made.ID)
		if err != nil || len(keys) != 1 || keys[0].ID != made.KeyID || keys[0].Hash != sha256.Sum256([]byte(made.Key)) {
			t.Errorf("keys %+v, %v", keys, err)
		}
		entry := account.Entry{Kind: account.Hold, AccountID: made.ID, RequestID: "r", Held: 5e8, Time: time.Now()}
		if err := s.Append([]account.Entry{entry}); err != nil {
			t.Fatal(err)
		}
		shown, err := c.Account("alice")
		if err != nil || shown.HeldNanoUSD != 500_000_000 || shown.HeldUSD != "0.50" || shown.ID != made.ID {
			t.Errorf("shown %+v, %v", shown, err)
		}
		byID, err := c.Account(made.ID)
		if err != nil || !reflect.DeepEqual(byID, shown) {
			t.Errorf("by id %+v, %v", byID, err)
		}
		node.takeChanged()
		name, yes, none := "bob", true, []string{}
		changed, err := c.ChangeAccount("alice", AccountChange{Name: &name, Disabled: &yes, Models: &none})
		if err != nil || changed.Name != "bob" || !changed.Disabled || len(changed.Models) != 0 || changed.Concurrency != 2 ||
			changed.BalanceNanoUSD != 12_500_000_000 || changed.HeldNanoUSD != 500_000_000 {
			t.Errorf("changed %+v, %v", changed, err)
		}
		if told := node.takeChanged(); !slices.Equal(told, []string{made.ID}) {
			t.Errorf("the node was told of %v", told)
		}
		all, err := c.Accounts()
		if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], changed) {
			t.Errorf("list %+v, %v", all, err)
		}
	})
}

func TestTopUps(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
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
		rows, err := c.Ledger("a", time.Now().Add(-time.Hour), 0)
		if err != nil || len(rows) != 2 || rows[0].AmountNanoUSD != 7 || rows[0].Note != "n" || rows[0].Usage != nil {
			t.Fatalf("rows %+v, %v", rows, err)
		}
		if rest, err := c.Ledger("a", time.Time{}, rows[0].ID); err != nil || len(rest) != 1 || rest[0].AmountNanoUSD != -9 {
			t.Errorf("second page %+v, %v", rest, err)
		}
		if none, err := c.Ledger("a", time.Now().Add(time.Hour), 0); err != nil || len(none) != 0 {
			t.Errorf("rows of the future %+v, %v", none, err)
		}
	})
}

func TestKeysOfAnAccount(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "a", Unlimited: true})
		if err != nil {
			t.Fatal(err)
		}
		expires := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
		second, err := c.CreateKey("a", NewKey{Expires: expires})
		if err != nil || !second.Expires.Equal(expires) || !strings.HasPrefix(second.Key, second.Hint) {
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
			if k.Key != "" {
				t.Errorf("the list shows the secret of %s", k.ID)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
		before, err := c.Status()
		if err != nil || before.Draining {
			t.Errorf("%+v, %v", before, err)
		}
		if _, err := c.Drain(); err != nil || !node.Draining() {
			t.Errorf("drain: %v", err)
		}
		if after, err := c.Status(); err != nil || !after.Draining {
			t.Errorf("%+v, %v", after, err)
		}
	})
}

func TestFailuresReachTheClient(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
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

func TestHandleRefuses(t *testing.T) {
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api := New(s, &fakeNode{}, nil)
	cases := []struct {
		method, path, query, body string
		status                    int
		says                      string
	}{
		{"GET", "/", "", "", 404, "unknown path"},
		{"GET", Root + "/accounts/", "", "", 404, "unknown path"},
		{"DELETE", Root + "/accounts", "", "", 405, "not a verb"},
		{"POST", Root + "/accounts", "", `{"nam":"a"}`, 400, `unknown field \"nam\"`},
		{"POST", Root + "/accounts", "", `{"name":"a"} {}`, 400, "more than one"},
		{"POST", Root + "/accounts", "", `{"name":1}`, 400, "name"},
		{"POST", Root + "/accounts", "", ``, 400, "name"},
		{"POST", Root + "/accounts", "", strings.Repeat(" ", BodyBytesMax+1), 400, "want at most"},
		{"POST", Root + "/accounts", "", `{"name":"x","balance":{"nano_usd":1.5}}`, 400, "nano_usd"},
		{"GET", Root + "/accounts/a/ledger", "since=yesterday", "", 400, "since"},
		{"GET", Root + "/accounts/a/ledger", "after=x", "", 400, "after"},
		{"GET", Root + "/accounts/a/ledger", "limit=0", "", 400, "limit"},
		{"GET", Root + "/accounts/a/ledger", "%zz", "", 400, "escape"},
	}
	for _, c := range cases {
		status, contentType, body := api.Handle(c.method, c.path, []byte(c.query), []byte(c.body))
		var answer struct{ Error *Error }
		if err := json.Unmarshal(body, &answer); err != nil || answer.Error == nil || contentType != "application/json" {
			t.Errorf("%s %s: %s is no error envelope", c.method, c.path, body)
		}
		if status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s %q: %d %s, want %d that says %q", c.method, c.path, c.body, status, body, c.status, c.says)
		}
	}
}

// TestOpenAPIHasEveryVerb holds the document and the routes to each other, and
// the document's schemas to the fields of the Go types.
func TestOpenAPIHasEveryVerb(t *testing.T) {
	status, _, body := New(nil, nil, nil).Handle("GET", "/openapi.json", nil, nil)
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &document); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	var documented, served []string
	for path, verbs := range document.Paths {
		for verb := range verbs {
			if verb != "parameters" {
				documented = append(documented, strings.ToUpper(verb)+" "+path)
			}
		}
	}
	for _, r := range routes {
		served = append(served, r.method+" "+r.path)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %v\nserved %v", documented, served)
	}
	types := []reflect.Type{reflect.TypeFor[Account](), reflect.TypeFor[NewAccount](), reflect.TypeFor[AccountChange](), reflect.TypeFor[TopUp](),
		reflect.TypeFor[NewKey](), reflect.TypeFor[Key](), reflect.TypeFor[Entry](), reflect.TypeFor[Usage](), reflect.TypeFor[Status](),
		reflect.TypeFor[NewModule](), reflect.TypeFor[Share](), reflect.TypeFor[Replayed](), reflect.TypeFor[ChargeLine](), reflect.TypeFor[Rerated](),
		reflect.TypeFor[Backup](), reflect.TypeFor[store.Verification](), reflect.TypeFor[extensions.Info]()}
	for _, typ := range types {
		var fields, properties []string
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			fields = append(fields, name)
		}
		for name := range document.Components.Schemas[typ.Name()].Properties {
			properties = append(properties, name)
		}
		slices.Sort(fields)
		slices.Sort(properties)
		if !slices.Equal(fields, properties) {
			t.Errorf("%s has fields %v, documented %v", typ.Name(), fields, properties)
		}
	}
}

func TestAnnounce(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("empty folder: %v", err)
	}
	token, withdraw, err := Announce(dir, "127.0.0.1:1")
	if err != nil || len(token) != 43 {
		t.Fatal(token, err)
	}
	for _, name := range []string{addressFile, tokenFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := Dial(dir); !errors.Is(err, ErrNoNode) {
		t.Errorf("nobody listens there: %v", err)
	}
	withdraw()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestConcurrentChangesAreNotLost changes different fields at once.
func TestConcurrentChangesAreNotLost(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *store.Store) {
		if _, err := c.CreateAccount(NewAccount{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		concurrency, rate, yes := 5, int64(6), true
		var wg sync.WaitGroup
		for i, change := range []AccountChange{{Concurrency: &concurrency}, {TokensPerMinute: &rate}, {Unlimited: &yes}} {
			wg.Go(func() {
				if _, err := c.ChangeAccount("a", change); err != nil {
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
