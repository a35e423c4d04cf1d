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
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"corenode/actors/account"
	"corenode/node/operators"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Root is the path under which all verbs live. /openapi.json, beside it, describes them.
const Root = "/admin/v1"

// BodyBytesMax bounds what one call may send: a module in base64.
const BodyBytesMax = 12 << 20

// Store is what the API needs of the store.
type Store interface {
	CreateAccount(a account.Account, initial abi.Nano) (account.Account, error)
	Holders(after string, limit int) ([]store.Holder, error)
	Account(idOrName string) (account.Account, error)
	UpdateAccount(id string, edit func(*account.Account)) (account.Account, error)
	TopUp(accountID string, amount abi.Nano, note, idempotencyKey string) (abi.Nano, error)
	Balance(accountID string) (balance, held abi.Nano, err error)
	Counters(accountID string) ([]account.CounterUse, error)
	Entries(q store.Query) ([]account.Entry, error)
	Entry(id int64) (account.Entry, error)
	Statement(q store.StatementQuery) (page []account.Entry, next int64, err error)
	Usage(q store.UsageQuery) ([]store.UsageSum, error)
	Request(id string) ([]account.Entry, error)
	CreateKey(accountID string, limits account.KeyLimits, expires time.Time) (account.Key, string, error)
	UpdateKey(id string, edit func(*account.KeyLimits)) (account.Key, error)
	Key(id string) (account.Key, error)
	KeysCharged(accountID string, at time.Time) ([]account.KeyUse, error)
	Keys(accountID string) ([]account.Key, error)
	RevokeKey(id string) (account.Key, error)
	Settlement(ref string) (account.Entry, error)
	Provisional(after int64) ([]account.Entry, error)
	Adjust(account.Entry) (done bool, err error)
	Refund(settlement account.Entry, note string) (e account.Entry, done bool, err error)
	VerifyWithin(ctx context.Context) (store.Verification, error)
	Backup(path string) (missing []string, err error)
	Audit(store.AuditRow) error
	Audited(operator string, before int64, limit int) ([]store.AuditRow, error)
}

// Node is what the API tells the running node.
type Node interface {
	// Changed says that an account, its keys or its money are not what they
	// were. It returns when requests that start now see the change.
	Changed(accountID string)
	// KeyChanged is Changed where only that key is not what it was.
	KeyChanged(accountID, keyID string)
	// Drain begins the shutdown and returns at once.
	Drain()
	// Draining says whether a shutdown has begun.
	Draining() bool
	// CountTokens counts the tokens of a body in the messages protocol, where this node
	// can itself; not ok elsewhere, and for a body that is refused.
	CountTokens(native []byte) (tokens int, ok bool)
}

// API answers the calls. It is safe for concurrent use.
type API struct {
	store   Store
	node    Node
	modules Modules // nil without a running node
	live    Live    // the same
	cluster Cluster // nil of a node that shares its store with no other
	// upstreams are the models that servers elsewhere answer, by id.
	upstreams map[string]Upstream
	log       *slog.Logger
	// proving is held by the proof of the ledger that runs, copying by the backup.
	proving, copying sync.Mutex
	// document gives what describes the routes, which lead here and so cannot name it themselves.
	document func() json.RawMessage
}

// New makes the API of a node. modules may be nil: then their verbs are refused.
// upstreams are the models that servers elsewhere answer; nil is none. log gets a
// line of each call that is no GET; nil discards.
func New(store Store, node Node, modules Modules, upstreams map[string]Upstream, log *slog.Logger) *API {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &API{store: store, node: node, modules: modules, upstreams: upstreams, log: log, document: openAPI}
}

// Handle answers one authenticated request. path is as it was sent, escapes and
// all. ctx says who calls, and ends when the caller leaves, which what takes long looks at.
func (a *API) Handle(ctx context.Context, method, path string, query, body []byte) (status int, contentType string, answer []byte) {
	status, value := a.dispatch(ctx, method, path, query, body)
	answer, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("admin: encode %T: %v", value, err))
	}
	return status, "application/json", append(answer, '\n')
}

// dispatch asks for the role before it reads anything of a call. A refusal of a verb that changes something is noted as
// its answer is. A path or a method that is no verb's is not: what would be noted is what was sent.
func (a *API) dispatch(ctx context.Context, method, path string, query, body []byte) (int, any) {
	verb, segment, err := match(method, path)
	if err != nil {
		return refused(err)
	}
	c := call{ctx: ctx, body: body, about: &about{}}
	if err = verb.permit(operators.From(ctx)); err == nil {
		err = c.read(verb, segment, query)
	}
	if err == nil {
		return a.run(verb, c)
	}
	status, value := refused(err)
	if verb.method != http.MethodGet {
		a.note(verb, c, status)
	}
	return status, value
}

// read fills in what a call says beside its body.
func (c *call) read(verb route, segment string, query []byte) (err error) {
	if c.target, err = url.PathUnescape(segment); err != nil {
		return invalid(fmt.Errorf("the path is not escaped as a URL is: %w", err))
	}
	if c.query, err = parseQuery(verb, query); err != nil {
		return err
	}
	if len(c.body) > BodyBytesMax {
		return &Error{Kind: KindInvalid, Message: fmt.Sprintf("the body has %d bytes, want at most %d", len(c.body), BodyBytesMax)}
	}
	return nil
}

// Refuse notes a call that the listener answers with a status, since it has not read its body. The error is of a caller who
// may not make the call, which comes first.
func (a *API) Refuse(ctx context.Context, method, path string, status int) (forbidden error) {
	verb, _, err := match(method, path)
	if err != nil {
		return nil
	}
	if forbidden = verb.permit(operators.From(ctx)); forbidden != nil {
		status = http.StatusForbidden
	}
	if verb.method != http.MethodGet {
		a.note(verb, call{ctx: ctx, about: &about{}}, status)
	}
	return forbidden
}

// run answers a call of a verb. The line of one that changes something is
// written when it is done, also when it panics.
func (a *API) run(verb route, c call) (status int, value any) {
	status = http.StatusInternalServerError
	if verb.method != http.MethodGet {
		defer func() { a.note(verb, c, status) }()
	}
	value, err := verb.do(a, c)
	if err != nil {
		return refused(err)
	}
	return verb.status, value
}

// note writes the line and the audit row of a call: who, which verb, about what, and how it ended. It
// has nothing of the body, and the segment in braces only when the call found
// something of that name: others may be a secret, pasted where an id belongs.
func (a *API) note(verb route, c call, status int) {
	attrs := []slog.Attr{slog.String("operator", operators.From(c.ctx).Name), slog.String("method", verb.method),
		slog.String("path", verb.path), slog.Int("status", status)}
	target := ""
	if c.about.account != "" {
		attrs = append(attrs, slog.String("account", c.about.account))
	}
	if c.target != "" && status < http.StatusBadRequest && !verb.ofAccountOrKey() {
		target = c.target
		attrs = append(attrs, slog.String("target", target))
	}
	if c.about.key != "" {
		attrs = append(attrs, slog.String("key", c.about.key))
	}
	if c.about.module != "" && c.about.module != target {
		attrs = append(attrs, slog.String("module", c.about.module))
		target = strings.TrimSpace(target + " " + c.about.module)
	}
	a.log.LogAttrs(context.Background(), slog.LevelInfo, "admin", attrs...)
	a.audit(verb, c, target, status)
}

// ofAccountOrKey says whether the segment in braces is an account or a key, whose id a line has anyway.
func (r route) ofAccountOrKey() bool {
	return strings.HasPrefix(r.path, Root+"/accounts/") || strings.HasPrefix(r.path, Root+"/keys/")
}
