package admin

import (
	"context"
	"net/url"
	"reflect"
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

// about is the account that a call was about, the key that it made or revoked, by their
// ids, and the module, by its digest; empty when there is none, or none was found.
type about struct{ account, key, module string }

// route is one verb. Its path has at most one segment in braces. text is what it does, in one
// sentence, and behind that what else a caller has to know.
type route struct {
	method, path string
	status       int
	handler
	text string
}

// handler is what answers a verb, with the types of the body that it takes, nil without one, and
// of the answer that it gives.
type handler struct {
	takes, gives reflect.Type
	do           func(*API, call) (any, error)
}

// routes is every verb. The document is written from it: what it says of a verb is said here.
var routes = []route{
	{"GET", Root + "/status", 200, withoutBody((*API).status), "What the node is doing"},
	{"POST", Root + "/drain", 200, withoutBody((*API).drain), "Refuse new work, finish what runs"},
	{"GET", Root + "/drain", 200, withLive(withoutBody(showDrain)), "How far a drain is"},
	{"GET", Root + "/config", 200, withLive(withoutBody(listSettings)),
		"The configuration that is in force, and where each value came from"},
	{"GET", Root + "/logs", 200, withLive(withoutBody(listLogs)),
		"The latest lines of the log, the oldest first. The node keeps 512 KiB of them in memory."},
	{"GET", Root + "/accounts", 200, withoutBody((*API).listAccounts),
		"List accounts by name. With a limit, a page: ask again with after set to the last name until a page is empty. Without one, " +
			"all accounts."},
	{"POST", Root + "/accounts", 201, withBody((*API).createAccount), "Make an account and its first key"},
	{"GET", Root + "/accounts/{account}", 200, withoutBody((*API).showAccount), "Show an account"},
	{"PATCH", Root + "/accounts/{account}", 200, withBody((*API).changeAccount),
		"Change what is given of an account. Takes effect on requests that start after the answer."},
	{"POST", Root + "/accounts/{account}/topups", 200, withBody((*API).topUp),
		"Add money. A negative amount is a correction. Repeated with the same idempotency_key, account and amount it is done once; " +
			"with others it is a conflict."},
	{"GET", Root + "/accounts/{account}/ledger", 200, withoutBody((*API).statement), "A page of the account's statement, by time"},
	{"GET", Root + "/accounts/{account}/usage", 200, withoutBody((*API).usage),
		"What the account used and was charged, as sums. The node keeps the sums as it writes the rows."},
	{"GET", Root + "/accounts/{account}/keys", 200, withoutBody((*API).listKeys), "List the account's keys"},
	{"POST", Root + "/accounts/{account}/keys", 201, withBody((*API).createKey), "Make a key"},
	{"GET", Root + "/keys/{key}", 200, withoutBody((*API).showKey), "Show a key, its limits and what of its budget is spent this month"},
	{"PATCH", Root + "/keys/{key}", 200, withBody((*API).changeKey), "Change limits of a key, for requests that start then"},
	{"POST", Root + "/keys/{key}/revoke", 200, withoutBody((*API).revokeKey), "End a key now; what runs is finished and billed"},
	{"GET", Root + "/ledger", 200, withoutBody((*API).ledger),
		"A page of all rows of all accounts. Holds and checkpoints are among them. Ask again with after set to the last id until the " +
			"page is empty."},
	{"GET", Root + "/statement", 200, withoutBody((*API).statement),
		"A page of what moved money, of one account or of all, by time. Holds and checkpoints move none and are not among the rows. " +
			"Ask again with after set to next until there is none."},
	{"POST", verifyPath, 200, withoutBody((*API).verify),
		"Prove the ledger. Reads one consistent state beside the running node, until the caller leaves. One call does at a time: " +
			"others are a conflict."},
	{"GET", Root + "/requests", 200, withLive(withoutBody(listRequests)),
		"The requests of this moment, the oldest first. A node has at most 4096 at once."},
	{"GET", Root + "/requests/past", 200, withLive(withoutBody(listPast)),
		"A page of the requests that ended, newest first. The node keeps the last 8,192 of them in memory, without their bodies."},
	{"POST", Root + "/requests/{request}/cancel", 200, withLive(withoutBody(cancelRequest)),
		"End a request. Its client gets an error. A stream whose content has begun to leave pays as cancelled, any other request is " +
			"free."},
	{"GET", Root + "/why", 200, withLive(withoutBody(explainSlow)), "What the node is slow for now"},
	{"GET", Root + "/cache", 200, withLive(withoutBody(lookAtCaches)),
		"What lies in the prefix caches. The prefixes of most worth, and what accounts have; never any text."},
	{"GET", Root + "/cache/why", 200, withLive(withoutBody(whyUnshared)), "Why two requests did not share what was cached"},
	{"GET", Root + "/upstreams", 200, withLive(withoutBody((*API).listUpstreams)),
		"The models that servers elsewhere answer, with their replicas"},
	{"POST", Root + "/upstreams/{model}/add", 200, withLive(addReplica), "Take a replica in, until the node restarts"},
	{"POST", Root + "/upstreams/{model}/drain", 200, withLive(drainReplica), "Keep new requests from a replica"},
	{"POST", Root + "/upstreams/{model}/undrain", 200, withLive(undrainReplica), "Let requests come to a replica again"},
	{"POST", Root + "/upstreams/{model}/remove", 200, withLive(removeReplica), "Forget a replica, until the node restarts"},
	{"GET", Root + "/cluster/nodes", 200, withoutBody(listNodes),
		"A page of the nodes that share the database, by id. A node that keeps its rows in its own data folder shows none."},
	{"POST", Root + "/cluster/nodes/{node}/drain", 200, withoutBody(drainNode),
		"Tell a node to refuse new work and finish what runs. It learns of it with its next renewal, within a second or so."},
	{"GET", Root + "/cluster/grants", 200, withoutBody(listGrants),
		"A page of what nodes may give of accounts without asking, by account and node"},
	{"GET", Root + "/audit", 200, withoutBody((*API).listAudit),
		"A page of who changed what, newest first. Calls that changed something, or tried to."},
	{"POST", Root + "/reload", 200, withLive(withoutBody(reload)),
		"Read the configuration again. What can change in a running node is in force when it answers. A configuration with mistakes " +
			"changes nothing."},
	{"GET", Root + "/prices", 200, withLive(withoutBody(listPrices)),
		"What the models of this node cost. Where nodes share a database, the listed prices are the same on all of them."},
	{"POST", Root + "/prices/apply", 200, withLive(withoutBody(applyPrices)),
		"List the prices of this node's configuration on all nodes of its database. Requests that were quoted before are charged what " +
			"they were quoted."},
	{"POST", backupPath, 201, withBody((*API).backup), "Copy the database to a file"},
	{"GET", Root + "/modules", 200, withModules(withoutBody(listModules)), "The loaded modules, by slot"},
	{"POST", Root + "/modules", 201, withModules(withBody(loadModule)),
		"Check and compile a module. It serves nothing until it is activated, or made a canary or a shadow."},
	{"GET", Root + "/modules/{module}", 200, withModules(withoutBody(showModule)), "Show one module"},
	{"POST", Root + "/modules/{module}/activate", 200, withModules(withoutBody(activateModule)), "Let a module serve its slot"},
	{"POST", Root + "/modules/{module}/enable", 200, withModules(withoutBody(enableModule)),
		"Let a module of the program serve that is off by default"},
	{"POST", Root + "/modules/{module}/disable", 200, withModules(withoutBody(disableModule)),
		"End what enable began: its paths are unknown again"},
	{"POST", Root + "/modules/{module}/canary", 200, withModules(withBody(canaryModule)),
		"Let a module serve a percentage of the accounts"},
	{"POST", Root + "/modules/{module}/shadow", 200, withModules(withBody(shadowModule)), "Run a module beside the active one and compare"},
	{"GET", Root + "/modules/{module}/shadow", 200, withModules(withoutBody(showShadow)),
		"What the comparison of a shadow came to. Since it was made a shadow, while it is in memory. Numbers and structure, no texts. " +
			"409 for a module that was none."},
	{"POST", Root + "/modules/{module}/compare", 200, withModules(withBody(compareModule)),
		"Run what was kept of a slot's calls on a module and on an older one. Both are in memory. Each request runs behind those of " +
			"clients, on instances of its account's own, for at most 20 s."},
	{"DELETE", Root + "/modules/{module}", 200, withModules(withoutBody(removeModule)), "Forget a module that serves nothing"},
	{"POST", Root + "/slots/{slot}/rollback", 200, withModules(withoutBody(rollbackSlot)),
		"Let the module that served a slot before serve it again"},
	{"GET", Root + "/charges/{charge}", 200, withoutBody(explainCharge),
		"What a request cost, and why. All rows of the request; of each charge the lines that its module makes of the recorded input, " +
			"run again, or with inputs=true that input."},
	{"GET", Root + "/slots/{slot}/capture", 200, withModules(withoutBody(showCapture)),
		"What is kept of a slot's calls. 404 when nothing is."},
	{"POST", Root + "/slots/{slot}/capture", 200, withModules(withBody(beginCapture)),
		"Keep what a slot's requests ask, in memory, for a while. In place of what was kept before. At most 8 MiB and 1000 requests; " +
			"forgotten an hour after its time, at a restart, or when it is deleted. It is on no disk, in no backup, log or trace; the " +
			"log says that it was begun."},
	{"DELETE", Root + "/slots/{slot}/capture", 200, withModules(withoutBody(endCapture)), "Forget what was kept"},
	{"POST", Root + "/charges/{charge}/refund", 200, withBody((*API).refund),
		"Take back all that a request was charged. The refund is a row of its own; asking again changes nothing and gives that row."},
	{"POST", Root + "/charges/{charge}/replay", 200, withModules(withoutBody(replayCharge)),
		"Compute a charge again with the module and the input it had: of a request its last rating, by a row's id that one"},
	{"POST", reratePath, 200, withModules(withoutBody(rerate)),
		"Rate provisional charges again. Each gets one adjustment row, by the module that is active now. It ends when its caller " +
			"leaves: what was rated stays, and the next call goes on."},
	{"GET", "/openapi.json", 200, withoutBody((*API).describe), "This document"},
}

// withoutBody makes a verb of a function that takes no body.
func withoutBody[Answer any](do func(*API, call) (Answer, error)) handler {
	return handler{nil, reflect.TypeFor[Answer](), func(a *API, c call) (any, error) { return do(a, c) }}
}

// withBody makes a verb of a function that takes the body, decoded.
func withBody[Body, Answer any](do func(*API, call, Body) (Answer, error)) handler {
	return handler{reflect.TypeFor[Body](), reflect.TypeFor[Answer](), func(a *API, c call) (any, error) {
		var asked Body
		if err := decode(c.body, &asked); err != nil {
			return nil, err
		}
		return do(a, c, asked)
	}}
}

// match finds the verb, and the segment in its braces as it was sent.
func match(method, path string) (found route, segment string, err error) {
	known := false
	for _, r := range routes {
		segment, ok := matchPath(r.path, path)
		if ok && r.method == method {
			return r, segment, nil
		}
		known = known || ok
	}
	if known {
		return route{}, "", &Error{Kind: KindMethod, Message: method + " is not a verb of " + path}
	}
	return route{}, "", &Error{Kind: KindNotFound, Message: unknownPath + path + "; see /openapi.json"}
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
