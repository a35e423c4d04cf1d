package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

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
	{"GET", Root + "/drain", 200, withLive(showDrain)},
	{"GET", Root + "/config", 200, withLive(listSettings)},
	{"GET", Root + "/logs", 200, withLive(listLogs)},
	{"GET", Root + "/accounts", 200, (*API).listAccounts},
	{"POST", Root + "/accounts", 201, withBody((*API).createAccount)},
	{"GET", Root + "/accounts/{account}", 200, (*API).showAccount},
	{"PATCH", Root + "/accounts/{account}", 200, withBody((*API).changeAccount)},
	{"POST", Root + "/accounts/{account}/topups", 200, withBody((*API).topUp)},
	{"GET", Root + "/accounts/{account}/ledger", 200, (*API).statement},
	{"GET", Root + "/accounts/{account}/usage", 200, (*API).usage},
	{"GET", Root + "/accounts/{account}/keys", 200, (*API).listKeys},
	{"POST", Root + "/accounts/{account}/keys", 201, withBody((*API).createKey)},
	{"GET", Root + "/keys/{key}", 200, (*API).showKey},
	{"PATCH", Root + "/keys/{key}", 200, withBody((*API).changeKey)},
	{"POST", Root + "/keys/{key}/revoke", 200, (*API).revokeKey},
	{"GET", Root + "/ledger", 200, (*API).ledger},
	{"GET", Root + "/statement", 200, (*API).statement},
	{"POST", Root + "/ledger/verify", 200, (*API).verify},
	{"GET", Root + "/requests", 200, withLive(listRequests)},
	{"GET", Root + "/requests/past", 200, withLive(listPast)},
	{"POST", Root + "/requests/{request}/cancel", 200, withLive(cancelRequest)},
	{"GET", Root + "/why", 200, withLive(explainSlow)},
	{"GET", Root + "/cache", 200, withLive(lookAtCaches)},
	{"GET", Root + "/cache/why", 200, withLive(whyUnshared)},
	{"GET", Root + "/upstreams", 200, withLive((*API).listUpstreams)},
	{"POST", Root + "/upstreams/{model}/add", 200, withLive(addReplica)},
	{"POST", Root + "/upstreams/{model}/drain", 200, withLive(drainReplica)},
	{"POST", Root + "/upstreams/{model}/undrain", 200, withLive(undrainReplica)},
	{"POST", Root + "/upstreams/{model}/remove", 200, withLive(removeReplica)},
	{"GET", Root + "/cluster/nodes", 200, listNodes},
	{"POST", Root + "/cluster/nodes/{node}/drain", 200, drainNode},
	{"GET", Root + "/cluster/grants", 200, listGrants},
	{"GET", Root + "/audit", 200, (*API).listAudit},
	{"POST", Root + "/reload", 200, withLive(reload)},
	{"GET", Root + "/prices", 200, withLive(listPrices)},
	{"POST", Root + "/prices/apply", 200, withLive(applyPrices)},
	{"POST", Root + "/backup", 201, withBody((*API).backup)},
	{"GET", Root + "/modules", 200, withModules(listModules)},
	{"POST", Root + "/modules", 201, withModules(withBody(loadModule))},
	{"GET", Root + "/modules/{module}", 200, withModules(showModule)},
	{"POST", Root + "/modules/{module}/activate", 200, withModules(activateModule)},
	{"POST", Root + "/modules/{module}/enable", 200, withModules(enableModule)},
	{"POST", Root + "/modules/{module}/disable", 200, withModules(disableModule)},
	{"POST", Root + "/modules/{module}/canary", 200, withModules(withBody(canaryModule))},
	{"POST", Root + "/modules/{module}/shadow", 200, withModules(withBody(shadowModule))},
	{"GET", Root + "/modules/{module}/shadow", 200, withModules(showShadow)},
	{"POST", Root + "/modules/{module}/compare", 200, withModules(withBody(compareModule))},
	{"DELETE", Root + "/modules/{module}", 200, withModules(removeModule)},
	{"POST", Root + "/slots/{slot}/rollback", 200, withModules(rollbackSlot)},
	{"GET", Root + "/charges/{charge}", 200, explainCharge},
	{"GET", Root + "/slots/{slot}/capture", 200, withModules(showCapture)},
	{"POST", Root + "/slots/{slot}/capture", 200, withModules(withBody(beginCapture))},
	{"DELETE", Root + "/slots/{slot}/capture", 200, withModules(endCapture)},
	{"POST", Root + "/charges/{charge}/refund", 200, withBody((*API).refund)},
	{"POST", Root + "/charges/{charge}/replay", 200, withModules(replayCharge)},
	{"POST", Root + "/rerate", 200, withModules(rerate)},
	{"GET", "/openapi.json", 200, func(*API, call) (any, error) { return json.RawMessage(openAPI), nil }},
}

// withBody makes a verb of a function that takes the body, decoded.
func withBody[T any](do func(*API, call, T) (any, error)) func(*API, call) (any, error) {
	return func(a *API, c call) (any, error) {
		var asked T
		if err := decode(c.body, &asked); err != nil {
			return nil, err
		}
		return do(a, c, asked)
	}
}

// parameters are the query parameters of the verbs that have some.
var parameters = map[string][]string{
	Root + "/accounts":                  {"after", "limit"},
	Root + "/accounts/{account}/ledger": {"after", "inputs", "key", "kind", "limit", "model", "newest", "since", "until"},
	Root + "/accounts/{account}/usage":  {"after", "by", "limit", "since", "until"},
	Root + "/requests":                  {"account", "model", "phase"},
	Root + "/requests/past":             {"account", "before", "id", "limit", "model"},
	Root + "/audit":                     {"before", "limit", "operator"},
	Root + "/cluster/nodes":             {"after", "limit"},
	Root + "/cluster/grants":            {"account", "after", "limit", "node"},
	Root + "/why":                       {"seconds"},
	Root + "/cache":                     {"account", "limit", "model"},
	Root + "/logs":                      {"account", "after", "kind", "level", "limit"},
	Root + "/cache/why":                 {"first", "second"},
	Root + "/statement":                 {"account", "after", "inputs", "key", "kind", "limit", "model", "newest", "since", "until"},
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
