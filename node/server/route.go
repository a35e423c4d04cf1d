package server

import (
	"bytes"
	"net/url"

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
	routeModels
	routeModel
	routeHealth
	routeReady
	routeEnd
)

var routeNames = [routeEnd]string{
	"unknown", "unreadable", "messages", "count_tokens", "chat_completions", "responses",
	"models", "model", "healthz", "readyz",
}

// protocols names what the endpoints that generate speak.
var protocols = [routeEnd]string{routeMessages: "messages", routeChat: "chat", routeResponses: "responses"}

func (r route) String() string { return routeNames[r] }

// readsBody says whether the endpoint takes a request body.
func (r route) readsBody() bool {
	return r == routeMessages || r == routeCount || r.translated()
}

// translated says whether the endpoint speaks a protocol that a translator
// knows and this package does not.
func (r route) translated() bool { return r == routeChat || r == routeResponses }

// statusOf is the status of an error on the endpoint.
func (r route) statusOf(k abi.Kind) int {
	if r.translated() {
		return familyChat.statusOf(k)
	}
	return familyMessages.statusOf(k)
}

// allow is the value of the Allow header.
func (r route) allow() string {
	if r.readsBody() {
		return "POST, OPTIONS"
	}
	return "GET, HEAD, OPTIONS"
}

// allows says whether a method reaches the endpoint itself.
func (r route) allows(method []byte) bool {
	if r.readsBody() {
		return string(method) == fasthttp.MethodPost
	}
	return string(method) == fasthttp.MethodGet || string(method) == fasthttp.MethodHead
}

const modelPrefix = "/v1/models/"

// routeOf finds the endpoint of a request target. Paths are compared as sent:
// nothing is unescaped or cleaned, so one resource has one name.
func routeOf(target []byte) (route, family) {
	path := pathOf(target)
	switch string(path) {
	case "/v1/messages":
		return routeMessages, familyMessages
	case "/v1/messages/count_tokens":
		return routeCount, familyMessages
	case "/v1/chat/completions":
		return routeChat, familyChat
	case "/v1/responses":
		return routeResponses, familyChat
	case "/v1/models":
		return routeModels, familyModels
	case "/healthz":
		return routeHealth, familyMessages
	case "/readyz", "/health": // the second is where load tools look before they begin
		return routeReady, familyMessages
	}
	if rest, ok := bytes.CutPrefix(path, []byte(modelPrefix)); ok {
		if len(rest) == 0 {
			return routeUnknown, familyModels
		}
		return routeModel, familyModels
	}
	return routeUnknown, familyOf(path)
}

// routeOf is routeOf less the endpoints that need a translator where there is none.
func (s *Server) routeOf(target []byte) (route, family) {
	r, f := routeOf(target)
	if r.translated() && s.deps.Translators == nil {
		return routeUnknown, f
	}
	return r, f
}

// familyOf decides the error format of a path that no endpoint has.
func familyOf(path []byte) family {
	for _, prefix := range [...]string{"/v1/chat", "/v1/responses", "/v1/completions"} {
		if rest, ok := bytes.CutPrefix(path, []byte(prefix)); ok && (len(rest) == 0 || rest[0] == '/') {
			return familyChat
		}
	}
	return familyMessages
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
