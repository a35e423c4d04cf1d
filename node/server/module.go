package server

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Routed is a path that a module answers. See wasm/AUTHORING.md, Routes.
type Routed struct {
	Protocol string          // the slot of the module
	Manifest *guest.Manifest // says all that follows from the path; immutable
	Index    int             // of the route in it
	Params   []abi.Pair      // of the path
}

func (m *Routed) route() *guest.Route { return &m.Manifest.Routes[m.Index] }

// posts says whether the route takes a request body.
func (m *Routed) posts() bool { return m.route().Method == fasthttp.MethodPost }

// credential takes the secret out of the first place that has one.
func (m *Routed) credential(h *fasthttp.RequestHeader) ([]byte, *abi.Error) {
	for i := range m.Manifest.Keys {
		k := &m.Manifest.Keys[i]
		where, values := "the parameter "+k.Query, [][]byte(nil)
		if k.Header != "" {
			where, values = "the header "+k.Header, h.PeekAll(k.Header)
		} else {
			values = parameters(h.RequestURI(), k.Query)
		}
		switch {
		case len(values) > 1:
			return nil, unauthenticated(where + " is given more than once")
		case len(values) == 0 || len(values[0]) == 0:
			continue
		case k.Scheme == "":
			return values[0], nil
		}
		scheme, secret, _ := bytes.Cut(values[0], []byte{' '})
		if secret = bytes.TrimSpace(secret); !strings.EqualFold(string(scheme), k.Scheme) || len(secret) == 0 {
			return nil, unauthenticated(where + " is not " + k.Scheme + " <API_KEY>")
		}
		return secret, nil
	}
	return nil, unauthenticated("no API key")
}

// parameters are the values of a parameter of a target's query, unescaped. What is
// malformed is none.
func parameters(target []byte, name string) (values [][]byte) {
	_, query, _ := bytes.Cut(target, []byte{'?'})
	for part := range bytes.SplitSeq(query, []byte{'&'}) {
		key, value, _ := bytes.Cut(part, []byte{'='})
		if plain, err := url.QueryUnescape(string(key)); err != nil || plain != name {
			continue
		}
		if plain, err := url.QueryUnescape(string(value)); err == nil {
			values = append(values, []byte(plain))
		}
	}
	return values
}

// factMax is the most bytes of a header or a parameter that a module is told.
const factMax = 4 << 10

// facts are what the module is told of how a request came: what its manifest names,
// which is never where a key may be. What is long or no text is left out, and so is
// the request's key, should it stand in another place as well.
func (m *Routed) facts(h *fasthttp.RequestHeader) *abi.Route {
	r := &abi.Route{Index: m.Index, Params: m.Params}
	secret, _ := m.credential(h)
	add := func(to *[]abi.Pair, name string, values [][]byte) {
		for _, v := range values {
			if len(*to) < abi.PairsMax && len(v) <= factMax && utf8.Valid(v) && !bytes.Equal(v, secret) {
				*to = append(*to, abi.Pair{Name: name, Value: string(v)})
			}
		}
	}
	for _, name := range m.Manifest.Query {
		add(&r.Query, name, parameters(h.RequestURI(), name))
	}
	for _, name := range m.Manifest.Headers {
		add(&r.Headers, name, h.PeekAll(name))
	}
	return r
}

// hasKey says whether a header may have the request's key.
func (m *Routed) hasKey(header string) bool {
	return slices.ContainsFunc(m.Manifest.Keys, func(k guest.Key) bool { return strings.EqualFold(k.Header, header) })
}

// unknown answers a path that nobody has, beside those of a module as that has errors.
func (x *exchange) unknown(path []byte) {
	e := &abi.Error{Kind: abi.PathNotFound, Msg: "no such path" + misplaced(path)}
	if x.s.deps.Translators != nil {
		if m, ok := x.s.deps.Translators.Owner(path); ok {
			e.Msg = "no such path: here are " + strings.Join(m.beside(path), ", ")
			x.openTranslation(m.Protocol, "")
		}
	}
	x.fail(e)
}

// beside are the module's paths that have the first segment of a path, each once.
func (m *Routed) beside(path []byte) (all []string) {
	first, _, _ := bytes.Cut(path[1:], []byte{'/'})
	for _, r := range m.Manifest.Routes {
		if segment, _, _ := strings.Cut(r.Path[1:], "/"); segment == string(first) && !slices.Contains(all, r.Path) {
			all = append(all, r.Path)
		}
	}
	return all
}

// errNoModule is a path whose module is not in memory, yet or any more, or is being replaced by a version with other routes.
func errNoModule() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "server.module", RetryAfter: 5 * time.Second,
		Msg: "the module of this path does not serve at the moment"}
}

// routed serves the path of a module.
func (x *exchange) routed() {
	switch x.module.route().Op {
	case guest.RouteGenerate:
		x.generate()
	case guest.RouteCount:
		x.routedCount()
	case guest.RouteModels:
		x.routedModels()
	}
}

// routedCount counts the tokens of a request that the module translates: as
// countTokens, with the module's answer.
func (x *exchange) routedCount() {
	n, ok := x.count()
	if !ok {
		return
	}
	x.translation.SetFacts(x.answerFacts(x.modelName))
	x.give(x.translation.Count(nil, n))
}

// routedModels has the module answer of the models that the key may use.
func (x *exchange) routedModels() {
	defer x.body.release()
	if x.module.posts() {
		b, refusal := x.readBody()
		if refusal == nil {
			refusal = b.takePrepared(b.bytes)
		}
		if refusal != nil {
			x.fail(refusal)
			return
		}
	}
	x.withPermit(func() {
		if refusal := x.s.gate.enter(x.who.Account.ID, x.who.Account.Concurrency); refusal != nil {
			x.fail(refusal)
			return
		}
		defer x.s.gate.leave(x.who.Account.ID, false)
		var models []abi.Model
		for _, i := range x.usable() {
			l := list(i)
			models = append(models, abi.Model{ID: l.ID, Name: l.DisplayName, Created: l.Created,
				Context: int64(l.ContextLength), Output: int64(l.MaxCompletionTokens)})
		}
		x.give(x.translation.Models(nil, models, x.body.bytes))
	})
}

// give answers with a body of the module, or its error.
func (x *exchange) give(body []byte, err error) {
	if err != nil {
		x.fail(abi.AsError(err))
		return
	}
	x.json(body)
}

// elapsed is how long an answer took whose first token came after prompt, 0 without one.
func (x *exchange) elapsed(prompt time.Duration) *abi.Elapsed {
	total := time.Since(x.arrived)
	if prompt == 0 {
		prompt = total
	}
	return &abi.Elapsed{Total: int64(total), Prompt: int64(prompt), Generation: int64(total - prompt)}
}
