// Package admin is the operators' API: accounts, keys, money, modules, drain.
//
// API decides what a request means and is told nothing of connections: the
// server that mounts it checks the bearer token and the Host header, and hands
// over method, path, query and body. Client is the other side, over HTTP to a
// running node or straight into an API on a data folder that no node owns, so
// both ways run the same code.
//
// Money is integers of nano-dollars in every field that ends in _nano_usd; the
// _usd strings beside them are for people.
package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Root is the path under which all verbs live. openapi.json is beside it.
const Root = "/admin/v1"

// BodyBytesMax bounds what one call may send: a module in base64.
const BodyBytesMax = 12 << 20

//go:embed openapi.json
var openAPI []byte

// Store is what the API needs of the store.
type Store interface {
	CreateAccount(a account.Account, initial abi.Nano) (account.Account, error)
	Holders(after string, limit int) ([]store.Holder, error)
	Account(idOrName string) (account.Account, error)
	UpdateAccount(a account.Account) error
	TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (abi.Nano, error)
	Balance(accountID string) (balance, held abi.Nano, err error)
	Entries(q store.Query) ([]account.Entry, error)
	CreateKey(accountID string, expires time.Time) (account.Key, string, error)
	Keys(accountID string) ([]account.Key, error)
	RevokeKey(id string) (account.Key, error)
	Settlement(ref string) (account.Entry, error)
	Provisional(after int64) ([]account.Entry, error)
	Adjust(account.Entry) (done bool, err error)
	Refund(settlement account.Entry, note string) (e account.Entry, done bool, err error)
	Verify() (store.Verification, error)
	Backup(path string) error
}

// Node is what the API tells the running node.
type Node interface {
	// Changed says that an account, its keys or its money are not what they
	// were. It returns when requests that start now see the change.
	Changed(accountID string)
	// Drain begins to refuse new work and returns at once.
	Drain()
	// Draining says whether Drain was called.
	Draining() bool
}

// API answers the calls. It is safe for concurrent use.
type API struct {
	store   Store
	node    Node
	modules Modules // nil without a running node
	log     *slog.Logger
	// changes serializes the verbs that read an account and write it back.
	changes sync.Mutex
}

// New makes the API of a node. modules may be nil: then their verbs are refused.
// log gets a line of each call that is no GET; nil discards.
func New(store Store, node Node, modules Modules, log *slog.Logger) *API {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &API{store: store, node: node, modules: modules, log: log}
}

// call is one request, taken apart.
type call struct {
	ctx    context.Context // ends when the caller leaves
	target string          // the segment in braces of the path, unescaped
	query  url.Values
	body   []byte
	about  *about // what its log line names; verbs fill it in
}

// about is the account that a call was about, and the key that it made or
// revoked, by their ids; empty when there is none, or none was found.
type about struct{ account, key string }

// route is one verb. Its path has at most one segment in braces.
type route struct {
	method, path string
	status       int
	handle       func(*API, call) (any, error)
}

// routes is every verb; a test holds openapi.json to it.
var routes = []route{
	{"GET", Root + "/status", 200, (*API).status},
	{"POST", Root + "/drain", 200, (*API).drain},
	{"GET", Root + "/accounts", 200, (*API).listAccounts},
	{"POST", Root + "/accounts", 201, (*API).createAccount},
	{"GET", Root + "/accounts/{account}", 200, (*API).showAccount},
	{"PATCH", Root + "/accounts/{account}", 200, (*API).changeAccount},
	{"POST", Root + "/accounts/{account}/topups", 200, (*API).topUp},
	{"GET", Root + "/accounts/{account}/ledger", 200, (*API).ledger},
	{"GET", Root + "/accounts/{account}/keys", 200, (*API).listKeys},
	{"POST", Root + "/accounts/{account}/keys", 201, (*API).createKey},
	{"POST", Root + "/keys/{key}/revoke", 200, (*API).revokeKey},
	{"GET", Root + "/ledger", 200, (*API).wholeLedger},
	{"POST", Root + "/ledger/verify", 200, (*API).verify},
	{"POST", Root + "/backup", 201, (*API).backup},
	{"GET", Root + "/modules", 200, withModules(listModules)},
	{"POST", Root + "/modules", 201, withModules(loadModule)},
	{"POST", Root + "/modules/{module}/activate", 200, withModules(activateModule)},
	{"POST", Root + "/modules/{module}/canary", 200, withModules(canaryModule)},
	{"POST", Root + "/modules/{module}/shadow", 200, withModules(shadowModule)},
	{"GET", Root + "/modules/{module}/shadow", 200, withModules(showShadow)},
	{"DELETE", Root + "/modules/{module}", 200, withModules(removeModule)},
	{"POST", Root + "/slots/{slot}/rollback", 200, withModules(rollbackSlot)},
	{"POST", Root + "/charges/{charge}/refund", 200, (*API).refund},
	{"POST", Root + "/charges/{charge}/replay", 200, withModules(replayCharge)},
	{"POST", Root + "/rerate", 200, withModules(rerate)},
	{"GET", "/openapi.json", 200, func(*API, call) (any, error) { return json.RawMessage(openAPI), nil }},
}

// parameters are the query parameters of the verbs that have some.
var parameters = map[string][]string{
	Root + "/accounts":                  {"after", "limit"},
	Root + "/accounts/{account}/ledger": {"after", "limit", "since"},
	Root + "/ledger":                    {"after", "limit", "since"},
}

// parseQuery reads a verb's query, which has no other parameters than the verb's,
// each at most once: one that is misspelled would otherwise be taken for absent.
func parseQuery(verb route, query []byte) (url.Values, error) {
	parsed, err := url.ParseQuery(string(query))
	if err != nil {
		return nil, invalid(err)
	}
	var known []string
	if verb.method == http.MethodGet {
		known = parameters[verb.path]
	}
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		switch {
		case len(known) == 0:
			return nil, invalid(fmt.Errorf("unknown query parameter %q: this verb has none", clip(name)))
		case !slices.Contains(known, name):
			return nil, invalid(fmt.Errorf("unknown query parameter %q: want %s", clip(name), strings.Join(known, ", ")))
		case len(parsed[name]) > 1:
			return nil, invalid(fmt.Errorf("query parameter %s is there twice", name))
		}
	}
	return parsed, nil
}

// Handle answers one authenticated request. path is as it was sent, escapes and
// all. ctx ends when the caller leaves, which what takes long looks at.
func (a *API) Handle(ctx context.Context, method, path string, query, body []byte) (status int, contentType string, answer []byte) {
	status, value := a.dispatch(ctx, method, path, query, body)
	answer, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("admin: encode %T: %v", value, err))
	}
	return status, "application/json", append(answer, '\n')
}

func (a *API) dispatch(ctx context.Context, method, path string, query, body []byte) (int, any) {
	matched, target, err := match(method, path)
	var parsed url.Values
	if err == nil {
		parsed, err = parseQuery(matched, query)
	}
	if err == nil && len(body) > BodyBytesMax {
		err = &Error{Kind: KindInvalid, Message: fmt.Sprintf("the body has %d bytes, want at most %d", len(body), BodyBytesMax)}
	}
	if err != nil {
		return refused(err)
	}
	return a.run(matched, call{ctx, target, parsed, body, &about{}})
}

// run answers a call of a verb. The line of one that changes something is
// written when it is done, also when it panics.
func (a *API) run(verb route, c call) (status int, value any) {
	status = http.StatusInternalServerError
	if verb.method != http.MethodGet {
		defer func() { a.note(verb, c, status) }()
	}
	value, err := verb.handle(a, c)
	if err != nil {
		return refused(err)
	}
	return verb.status, value
}

// note writes the line of a call: which verb, about what, and how it ended. It
// has nothing of the body, and the segment in braces only when the call found
// something of that name: others may be a secret, pasted where an id belongs.
func (a *API) note(verb route, c call, status int) {
	attrs := []slog.Attr{slog.String("method", verb.method), slog.String("path", verb.path), slog.Int("status", status)}
	if c.about.account != "" {
		attrs = append(attrs, slog.String("account", c.about.account))
	} else if c.target != "" && status < http.StatusBadRequest {
		attrs = append(attrs, slog.String("target", c.target))
	}
	if c.about.key != "" {
		attrs = append(attrs, slog.String("key", c.about.key))
	}
	a.log.LogAttrs(context.Background(), slog.LevelInfo, "admin", attrs...)
}

func refused(err error) (status int, value any) {
	e := asError(err)
	return e.status(), map[string]*Error{"error": e}
}

// match finds the verb, and the segment in its braces.
func match(method, path string) (found route, target string, err error) {
	known := false
	for _, r := range routes {
		segment, ok := matchPath(r.path, path)
		if ok && r.method == method {
			if target, err = url.PathUnescape(segment); err != nil {
				return route{}, "", invalid(fmt.Errorf("the path is not escaped as a URL is: %w", err))
			}
			return r, target, nil
		}
		known = known || ok
	}
	if known {
		return route{}, "", &Error{Kind: KindMethod, Message: method + " is not a verb of " + path}
	}
	return route{}, "", &Error{Kind: KindNotFound, Message: "unknown path " + path + "; see /openapi.json"}
}

func matchPath(pattern, path string) (segment string, ok bool) {
	before, rest, braces := strings.Cut(pattern, "{")
	if !braces {
		return "", pattern == path
	}
	_, after, _ := strings.Cut(rest, "}")
	segment, ok = strings.CutPrefix(path, before)
	if !ok || len(segment) <= len(after) || !strings.HasSuffix(segment, after) {
		return "", false
	}
	segment = strings.TrimSuffix(segment, after)
	return segment, !strings.Contains(segment, "/")
}

// Kinds of error that the API answers with.
const (
	KindInvalid  = "invalid_request"
	KindNotFound = "not_found"
	KindConflict = "conflict"
	KindMethod   = "method_not_allowed"
	KindInternal = "internal"
)

// Error is what a failed call says: {"error":{"kind","message"}}.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Error gives the message; operators see what went wrong inside.
func (e *Error) Error() string { return e.Message }

func (e *Error) status() int {
	switch e.Kind {
	case KindInvalid:
		return http.StatusBadRequest
	case KindNotFound:
		return http.StatusNotFound
	case KindConflict:
		return http.StatusConflict
	case KindMethod:
		return http.StatusMethodNotAllowed
	}
	return http.StatusInternalServerError
}

// asError classifies what the store returns.
func asError(err error) *Error {
	kind := KindInternal
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, store.ErrNotFound):
		kind = KindNotFound
	case errors.Is(err, store.ErrInvalid):
		kind = KindInvalid
	case errors.Is(err, store.ErrNameTaken), errors.Is(err, store.ErrIdempotencyMismatch):
		kind = KindConflict
	}
	return &Error{Kind: kind, Message: err.Error()}
}

// invalid makes an error the caller's fault; nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: KindInvalid, Message: err.Error()}
}
