package server

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"corenode/wasm/abi"
)

// route is one endpoint. Its name is what logs and metrics show: paths are
// chosen by clients and never leave the request.
type route uint8

const (
	routeUnknown route = iota
	routeUnreadable
	routeMessages
	routeCount
	routeChat
	routeResponses
	routeResponsesCount
	routeModels
	routeModel
	routeHealth
	routeReady
	routeLoad
	routeModule // the path of a module
	routeEnd
)

// endpoint is what is fixed of a route.
type endpoint struct {
	name     string
	path     string // empty: not one path
	family   family
	protocol string // what it speaks, of those that generate
	posts    bool   // it takes a request body
}

var endpoints = [routeEnd]endpoint{
	routeUnknown:        {name: "unknown"},
	routeUnreadable:     {name: "unreadable"},
	routeMessages:       {"messages", "/v1/messages", familyMessages, "messages", true},
	routeCount:          {"count_tokens", "/v1/messages/count_tokens", familyMessages, "", true},
	routeChat:           {"chat_completions", "/v1/chat/completions", familyChat, "chat", true},
	routeResponses:      {"responses", "/v1/responses", familyChat, "responses", true},
	routeResponsesCount: {"responses_input_tokens", "/v1/responses/input_tokens", familyChat, "responses", true},
	routeModels:         {"models", "/v1/models", familyModels, "", false},
	routeModel:          {"model", "", familyModels, "", false},
	routeHealth:         {"healthz", "/healthz", familyMessages, "", false},
	routeReady:          {"readyz", "/readyz", familyMessages, "", false},
	routeModule:         {name: "module", family: familyModels},
	routeLoad:           {"metrics", "/metrics", familyMessages, "", false},
}

// routesByPath finds the endpoints that have one path. /health is where load
// tools look before they begin.
var routesByPath = func() map[string]route {
	paths := map[string]route{"/health": routeReady}
	for r, e := range endpoints {
		if e.path != "" {
			paths[e.path] = route(r)
		}
	}
	return paths
}()

func (r route) String() string { return endpoints[r].name }

// hasTranslator says whether the endpoint speaks a protocol that a translator
// knows and this package does not.
func (r route) hasTranslator() bool { return r == routeModule || endpoints[r].family == familyChat }

// statusOf is the status of an error on the endpoint.
func (r route) statusOf(k abi.Kind) int { return endpoints[r].family.statusOf(k) }

// resource is what the path of a request stands for.
type resource struct {
	route  route
	family family
	module *Routed // of routeModule
}

// readsBody says whether the resource takes a request body.
func (r *resource) readsBody() bool {
	if r.module != nil {
		return r.module.posts()
	}
	return endpoints[r.route].posts
}

// allow is the value of the Allow header.
func (r *resource) allow() string {
	if r.module != nil && len(r.module.Manifest.Methods(r.module.Index)) > 1 {
		return "GET, HEAD, POST, OPTIONS"
	}
	if r.readsBody() {
		return "POST, OPTIONS"
	}
	return "GET, HEAD, OPTIONS"
}

// allows says whether a method reaches the resource itself.
func (r *resource) allows(method []byte) bool {
	if r.readsBody() {
		return string(method) == fasthttp.MethodPost
	}
	return string(method) == fasthttp.MethodGet || string(method) == fasthttp.MethodHead
}

// name is what logs and metrics show: of a module's route its protocol and what it is,
// which are the manifest's words.
func (r *resource) name() string {
	if r.module != nil {
		return r.module.Protocol + "_" + r.module.route().Op
	}
	return r.route.String()
}

// statusOf is the status of an error on the resource.
func (r *resource) statusOf(k abi.Kind) int {
	if r.module != nil {
		if status := r.module.Manifest.StatusOf(k); status != 0 {
			return status
		}
	}
	return r.family.statusOf(k)
}

// protocol is what a resource that generates speaks.
func (r *resource) protocol() string {
	if r.module != nil {
		return r.module.Protocol
	}
	return endpoints[r.route].protocol
}

const modelPrefix = "/v1/models/"

// routeOf finds the endpoint of a request target. Paths are compared as sent:
// nothing is unescaped or cleaned, so one resource has one name.
func routeOf(target []byte) (route, family) {
	path := pathOf(target)
	if r, ok := routesByPath[string(path)]; ok {
		return r, endpoints[r].family
	}
	if rest, ok := bytes.CutPrefix(path, []byte(modelPrefix)); ok && len(rest) > 0 {
		return routeModel, familyModels
	}
	return routeUnknown, familyOf(path)
}

// resourceOf finds what a request's target stands for: an endpoint, less those that need
// what this server lacks, a translator or the leave to show its load; or else the path
// of a module, which may have a route for each method.
func (s *Server) resourceOf(h *fasthttp.RequestHeader) resource {
	target := h.RequestURI()
	r, f := routeOf(target)
	if r.hasTranslator() && s.deps.Translators == nil || r == routeLoad && s.deps.Load == nil {
		return resource{route: routeUnknown, family: f}
	}
	if r == routeUnknown && s.deps.Translators != nil {
		if m, ok := s.deps.Translators.Route(pathOf(target)); ok {
			m.Index = m.Manifest.For(m.Index, string(h.Method()))
			return resource{routeModule, endpoints[routeModule].family, &m}
		}
	}
	return resource{route: r, family: f}
}

// familyOf decides the error format of a path that no endpoint has, by its first segment but for slashes and
// /v1, of which a wrong base URL makes too many or too few: whose clients ask for it.
func familyOf(path []byte) family {
	for segment := range bytes.SplitSeq(path, []byte{'/'}) {
		switch string(segment) {
		case "", "v1":
		case "chat", "responses", "completions", "embeddings", "conversations", "assistants", "threads", "batches",
			"vector_stores", "moderations", "images", "audio", "videos", "realtime", "fine_tuning", "uploads", "containers":
			return familyChat
		case "models", "files", "skills": // of either
			return familyModels
		default:
			return familyMessages
		}
	}
	return familyMessages
}

const (
	keepsNoConversations = ": this service keeps no conversations; send the whole one with each request"
	keepsNoFiles         = ": this service keeps no files"
	hasNoBatches         = ": this service has no batches; send each request by itself"
	isForText            = ": this service is for text alone"
)

// ofModules has paths that modules bring which ship and are not enabled.
var ofModules = [...]struct{ path, module string }{
	{"/v1/completions", "completions"}, {"/api", "ollama"}, {"/v1beta", "generate-content"}, {"/generate-content", "generate-content"},
}

// elsewhere has paths, behind any number of /v1, that clients ask for and no endpoint has, there or below, with what to do instead.
var elsewhere = [...]struct{ path, instead string }{
	{"/responses/compact", ": send its input to /v1/responses, with a compaction_trigger as the last item"},
	{"/responses", ": this service keeps no responses"},
	{"/embeddings", ": this service makes no embeddings"},
	{"/conversations", keepsNoConversations}, {"/assistants", keepsNoConversations}, {"/threads", keepsNoConversations},
	{"/files", keepsNoFiles}, {"/vector_stores", keepsNoFiles}, {"/skills", ": this service keeps no skills"},
	{"/batches", hasNoBatches}, {"/messages/batches", hasNoBatches},
	{"/images", isForText}, {"/audio", isForText}, {"/videos", isForText},
	{"/moderations", ": this service judges no texts"},
}

// misplaced says of a path that no endpoint has what is wrong with the client's base URL, if that is it, or else what to do instead.
func misplaced(path []byte) string {
	known := func(prefix string, rest []byte) bool {
		r, _ := routeOf(append([]byte(prefix), rest...))
		return r != routeUnknown
	}
	if tidy := bytes.TrimSuffix(bytes.ReplaceAll(path, []byte("//"), []byte("/")), []byte("/")); len(tidy) < len(path) {
		if known("", tidy) {
			return ": it has a slash too many; a base URL ends without one"
		}
		return misplaced(tidy)
	}
	bare := path // of any number of /v1
	for bytes.HasPrefix(bare, []byte("/v1/")) {
		bare = bare[len("/v1"):]
	}
	if len(path)-len(bare) > len("/v1") && known("/v1", bare) {
		return ": it has /v1 twice; this client's base URL is without it"
	}
	if known("/v1", path) {
		return ": it lacks /v1; this client's base URL ends in it"
	}
	for endpoint := range routesByPath { // whose path is a base URL; at most one has a known rest
		if rest, ok := bytes.CutPrefix(path, []byte(endpoint)); ok && known("", rest) {
			return ": this client's base URL is without " + endpoint
		} else if ok && known("/v1", rest) {
			return ": this client's base URL is without " + strings.TrimPrefix(endpoint, "/v1")
		}
	}
	below := func(path []byte, of string) bool {
		rest, ok := bytes.CutPrefix(path, []byte(of))
		return ok && (len(rest) == 0 || rest[0] == '/')
	}
	for _, e := range ofModules {
		if below(path, e.path) {
			return ": the module " + e.module + " brings it, where an operator enables that"
		}
	}
	for _, e := range elsewhere {
		if below(bare, e.path) {
			return e.instead
		}
	}
	return ""
}

// pathOf cuts the query, and scheme and host of an absolute target.
func pathOf(target []byte) []byte {
	for _, scheme := range [...]string{"http://", "https://"} {
		if rest, ok := bytes.CutPrefix(target, []byte(scheme)); ok {
			slash := bytes.IndexByte(rest, '/')
			if slash < 0 {
				return nil
			}
			target = rest[slash:]
			break
		}
	}
	path, _, _ := bytes.Cut(target, []byte{'?'})
	return path
}

// modelID is the id in /v1/models/{id}; ids may hold slashes, plain or escaped.
func modelID(target []byte) string {
	id := string(pathOf(target)[len(modelPrefix):])
	if plain, err := url.PathUnescape(id); err == nil {
		return plain
	}
	return id
}
