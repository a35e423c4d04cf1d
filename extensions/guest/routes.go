package guest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"corenode/wasm/abi"
)

// Routing is what a translator of a protocol of its own says of its paths; empty in others.
type Routing struct {
	Routes  []Route  `json:"routes,omitempty"`
	Keys    []Key    `json:"keys,omitempty"`    // where a request's key may be; the first place that has one counts
	Headers []string `json:"headers,omitempty"` // that the module is told
	Query   []string `json:"query,omitempty"`   // parameters that the module is told
	Framing string   `json:"framing,omitempty"` // of answers that stream: sse, ndjson, or json for none
	// Array: an answer that streams may also be one JSON array, where the request asks for it. The
	// module writes its elements as lines; the brackets and commas are the node's.
	Array bool `json:"array,omitempty"`
	// ContentType is that of answers that stream; empty = the framing's usual one.
	ContentType string `json:"content_type,omitempty"`
	// KeepAlive is what stands between server-sent events while there is nothing to say: events
	// of the protocol that say nothing. Empty = an event without a line.
	KeepAlive string `json:"keepalive,omitempty"`
	// AnyType: a body is read as JSON whatever its Content-Type says, as curl -d sends it.
	AnyType  bool           `json:"any_content_type,omitempty"`
	Statuses map[string]int `json:"statuses,omitempty"` // by kind of error; others are as on messages
}

// Route is one method and path that a module answers.
type Route struct {
	Method string `json:"method"`
	Path   string `json:"path"` // see Pattern
	Op     string `json:"op"`   // what it is
}

// What a route is.
const (
	RouteGenerate = "generate" // a request that is answered by a model
	RouteModels   = "models"   // an answer made of the node's listing
	RouteCount    = "count"    // the tokens of a prompt
)

// Key is one place where a request's key may be: a header, with a scheme or
// without, or a parameter of the query.
type Key struct {
	Header string `json:"header,omitempty"`
	Scheme string `json:"scheme,omitempty"`
	Query  string `json:"query,omitempty"`
}

// How an answer that streams is cut into pieces.
const (
	FramingSSE    = "sse"    // server-sent events
	FramingNDJSON = "ndjson" // a JSON object a line
	FramingJSON   = "json"   // none: every answer is one JSON
)

// framingEither is what a module writes that has server-sent events or elements of an array:
// groups of events, or of lines.
const framingEither = FramingSSE + " or array"

// written is what the groups of an answer that streams look like.
func (m *Routing) written() string {
	if m.Array && m.Framing == FramingSSE {
		return framingEither
	}
	return m.Framing
}

// contentTypes are those of streams, the default of each framing first.
var contentTypes = map[string][]string{
	FramingSSE:    {"text/event-stream; charset=utf-8", "text/event-stream"},
	FramingNDJSON: {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/stream+json", "application/json"},
	FramingJSON:   {"application/json"},
}

// Bounds of what a manifest says of routes.
const (
	routesMax = 32
	keysMax   = 4
	factsMax  = 16 // names of headers, and of parameters of the query

	keepAliveMax = 1024 // bytes
)

// HasRoutes says whether a module answers paths of its own.
func (m *Routing) HasRoutes() bool { return len(m.Routes) > 0 }

// StreamType is the content type of an answer that streams.
func (m *Routing) StreamType() string {
	if m.ContentType != "" {
		return m.ContentType
	}
	return contentTypes[m.Framing][0]
}

// StatusOf is the status of a kind of error, 0 where the manifest leaves it to the node.
func (m *Routing) StatusOf(k abi.Kind) int { return m.Statuses[k.String()] }

// checkRoutes checks what a translator says of routes, all at once.
func (m *Routing) checkRoutes() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("manifest: "+format, args...)) }
	if len(m.Routes) > routesMax {
		wrong("%d routes, at most %d", len(m.Routes), routesMax)
	}
	if len(m.Keys) == 0 || len(m.Keys) > keysMax {
		wrong("keys has %d places where a key may be, want 1 to %d", len(m.Keys), keysMax)
	}
	types, known := contentTypes[m.Framing]
	switch {
	case !known:
		wrong("framing is %q, want sse, ndjson or json", m.Framing)
	case m.Array && m.Framing == FramingJSON:
		wrong("array is for answers that stream, and framing is json")
	case m.ContentType != "" && !slices.Contains(types, m.ContentType):
		wrong("content_type is %q, with framing %s want one of %q", m.ContentType, m.Framing, types)
	}
	if !slices.ContainsFunc(m.Routes, func(r Route) bool { return r.Op == RouteGenerate }) {
		wrong("no route is of op generate")
	}
	errs = append(errs, m.checkKeepAlive())
	errs = append(errs, m.checkPaths()...)
	for _, k := range m.Keys {
		errs = append(errs, k.check())
	}
	errs = append(errs, m.checkNames()...)
	for _, name := range slices.Sorted(maps.Keys(m.Statuses)) {
		errs = append(errs, checkStatus(name, m.Statuses[name]))
	}
	return errors.Join(errs...)
}

// checkKeepAlive checks a keep-alive like what the module writes itself.
func (m *Routing) checkKeepAlive() error {
	switch err := checkFrames([]byte(m.KeepAlive)); {
	case m.KeepAlive == "":
		return nil
	case m.Framing != FramingSSE:
		return fmt.Errorf("manifest: keepalive is for framing sse, and framing is %s", m.Framing)
	case len(m.KeepAlive) > keepAliveMax:
		return fmt.Errorf("manifest: keepalive has %d bytes, at most %d", len(m.KeepAlive), keepAliveMax)
	case err != nil:
		return fmt.Errorf("manifest: keepalive: %w", err)
	}
	return nil
}

// method is the first route of a method and path; -1 for none.
func (m *Routing) method(method, path string) int {
	return slices.IndexFunc(m.Routes, func(r Route) bool { return r.Method == method && r.Path == path })
}

// For is the route of a method on the path of a route, or that route where the path has
// no such method. HEAD is asked of GET.
func (m *Routing) For(index int, method string) int {
	if method == "HEAD" {
		method = "GET"
	}
	if other := m.method(method, m.Routes[index].Path); other >= 0 {
		return other
	}
	return index
}

// Methods are those of the path of a route.
func (m *Routing) Methods(index int) (all []string) {
	for _, method := range []string{"GET", "POST"} {
		if m.method(method, m.Routes[index].Path) >= 0 {
			all = append(all, method)
		}
	}
	return all
}

// checkPaths checks each route and that no two are the same method and path: one that two
// routes match is the more specific one's.
func (m *Routing) checkPaths() (errs []error) {
	seen := map[string]string{}
	for i, r := range m.Routes {
		p, err := ParsePattern(r.Path)
		if err != nil {
			errs = append(errs, fmt.Errorf("manifest: path %q: %w", r.Path, err))
			continue
		}
		other, again := seen[p.shape()]
		switch {
		case again && other != r.Path:
			errs = append(errs, fmt.Errorf("manifest: path %q is that of %q: name its parameters the same", r.Path, other))
		case again && m.method(r.Method, r.Path) != i:
			errs = append(errs, fmt.Errorf("manifest: path %q has two routes of method %s", r.Path, r.Method))
		}
		seen[p.shape()] = r.Path
		if err := r.checkMethod(); err != nil {
			errs = append(errs, fmt.Errorf("manifest: path %q: %w", r.Path, err))
		}
	}
	return errs
}

func (r *Route) checkMethod() error {
	switch r.Op {
	case RouteGenerate, RouteCount:
		if r.Method != "POST" {
			return fmt.Errorf("method is %q, and op %s has a body: want POST", r.Method, r.Op)
		}
	case RouteModels:
		if r.Method != "GET" && r.Method != "POST" {
			return fmt.Errorf("method is %q, want GET or POST", r.Method)
		}
	default:
		return fmt.Errorf("op is %q, want generate, models or count", r.Op)
	}
	return nil
}

func (k *Key) check() error {
	switch {
	case (k.Header == "") == (k.Query == ""):
		return fmt.Errorf("manifest: a key is in a header or in the query, not %+v", *k)
	case k.Query != "" && (k.Scheme != "" || !token(k.Query)):
		return fmt.Errorf("manifest: a key in the query is a plain name without a scheme, not %+v", *k)
	case k.Header != "" && (!token(k.Header) || nodes(k.Header)):
		return fmt.Errorf("manifest: header %q cannot have a key", k.Header)
	case k.Scheme != "" && !token(k.Scheme):
		return fmt.Errorf("manifest: scheme %q is no plain word", k.Scheme)
	}
	return nil
}

// checkNames checks that a module is given no header and no parameter that may
// have a key, its own or another protocol's.
func (m *Routing) checkNames() (errs []error) {
	secret := func(name string) bool {
		for _, k := range m.Keys {
			if strings.EqualFold(name, k.Header) || strings.EqualFold(name, k.Query) {
				return true
			}
		}
		return slices.ContainsFunc(secrets[:], func(s string) bool { return strings.EqualFold(name, s) })
	}
	for what, names := range map[string][]string{"headers": m.Headers, "query": m.Query} {
		if len(names) > factsMax {
			errs = append(errs, fmt.Errorf("manifest: %s has %d names, at most %d", what, len(names), factsMax))
		}
		for i, name := range names {
			switch {
			case !token(name) || what == "headers" && nodes(name):
				errs = append(errs, fmt.Errorf("manifest: %s: %q is no name that a module may ask for", what, name))
			case secret(name):
				errs = append(errs, fmt.Errorf("manifest: %s: %q may have a key, which no module sees", what, name))
			case slices.ContainsFunc(names[:i], func(s string) bool { return strings.EqualFold(s, name) }):
				errs = append(errs, fmt.Errorf("manifest: %s: %q is there twice", what, name))
			}
		}
	}
	return errs
}

// secrets are the names of headers and parameters that have keys in one protocol or another.
var secrets = [...]string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
	"key", "api_key", "apikey", "access_token", "token"}

// nodes says whether a header is the node's or the connection's: no module reads it,
// and no key is in it.
func nodes(header string) bool {
	lower := strings.ToLower(header)
	for _, prefix := range [...]string{"x-corenode-", "content-", "transfer-", "connection", "host", "upgrade", "expect",
		"proxy-", "cookie"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return false
}

// token says whether s is 1 to 64 of the letters, digits and marks - _ . that names
// of headers and of parameters have.
func token(s string) bool {
	return len(s) > 0 && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool { return !inName(c) })
}

func inName(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// checkStatus checks the status of a kind of error: whose fault it is cannot be
// changed, since clients repeat what is a server's.
func checkStatus(name string, status int) error {
	for _, k := range abi.Kinds() {
		if k.String() != name || k == abi.Timeout || k == abi.Canceled {
			continue
		}
		least := 400
		if k == abi.Internal || k == abi.Overloaded {
			least = 500
		}
		if status < least || status > least+99 {
			return fmt.Errorf("manifest: statuses: %s is %d, want %d to %d", name, status, least, least+99)
		}
		return nil
	}
	return fmt.Errorf("manifest: statuses: %q is no kind of error whose status a module chooses", name)
}
