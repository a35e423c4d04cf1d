// Package vector is the golden vectors of modules: calls written so that a
// person reads and writes them, and what a module must answer. A module
// carries its vectors in the custom section "corenode.vectors", the node runs
// them before it lets a version serve, and authors run them offline.
//
// A vector file, and the section, is a JSON array of vectors. Unknown keys are
// errors. All of:
//
//	name     unique among a module's vectors
//	note     why it is there; optional
//	op       request, stream, response, error, models, count, quote, charge, decide, rewrite or filter
//	config   the module's configuration, a JSON object; default {}
//	want     what must come back; without it the vector does not pass, and an
//	         update writes it
//
// and by op:
//
//	request  body (content), facts
//	stream   events, facts, and the request: either request (content, which is
//	         translated first, and what was kept of it is used) or kept (content)
//	response events, facts, request or kept
//	error    error {status, kind, reason, prompt, value, bound, param, msg}, facts,
//	         request or kept; events are what was streamed before it failed, with
//	         facts {"stream": true}
//	models   route, models [{id, name, created, context, output}], body (of a POST), facts
//	count    tokens, facts, request or kept
//	quote    quote {prices, input, output_max, at, model, account}
//	charge   charge {prices, usage, at, model, account, held}
//	decide   admission {at, prompt_tokens, output_max, stream, account, key, model,
//	         protocol, counters {account_requests, account_requests_max, tokens_remaining,
//	         tokens_per_minute, available, unlimited, node_requests, node_requests_max, and of
//	         ABI 1.1 model_queued, model_queued_max, model_wait_ms, model_pages_used, model_pages}}
//	rewrite  rewrite {body (content), counting, at, account, key, protocol}
//	filter   filter {block ("text" or "thinking"), text}, facts
//
// To a module with routes each request came by one: route {index, params, query,
// headers}, the last three as objects in the order in which a node gives them: params as in the
// path, query and headers as in the manifest. A name that was given more than once has an array
// of its values.
//
// want is one of
//
//	{"body": content}               request (with "kept": content if that matters), response, error, models, count
//	{"stream": [line, ...]}         stream, and error with facts {"stream": true}
//	{"refusal": {"param", "msg"}}   request, models, rewrite; without msg any message will do, and
//	                                without "kind" (invalid_request, of models also model_not_found) any kind
//	{"quote": {"upper", "minimum"}} with counters also "covered_upper", "covered_minimum" and "takes": [{"limit", "max"}]
//	{"charge": {"total", "tier", "lines": [{"unit", "tokens", "price", "amount"}]}} with counters also "taken": [...]
//	{"decision": {"verdict", "priority", "kind", "retry_after_ms", "msg", "takes": [{"limit", "max"}]}}
//	{"body": content}               rewrite; "" is the body as it was
//	{"text": "..."}                 filter: all that is shown of the block
//	{"decline": true}               any op
//
// Content is bytes: a JSON object or array stands for its compact form, keys
// and numbers as written; a string stands for its text, so that a body which is
// no JSON can be written; a string that begins with "base64:" for the bytes it
// encodes. Each line of a stream ends with a newline, so that the empty line
// after an event is an empty string; a string instead of the array is exact
// bytes. Bodies and streams are compared byte for byte.
//
// Defaults: facts {"id": "vector", "created": 1700000000, "model": "core-1.1"}
// ("" and no stream for request), prices {"input": 240, "cached": 24, "output":
// 2400}, at 1700000000, model "core-1.1", account "account", protocol "chat",
// of rewrite "messages". Everything else is zero.
//
// Events come in a short form, whose blocks are numbered in order,
//
//	{"start": usage}                       may be left out of usage: what is zero
//	{"thinking": "..."}                    a whole block of one delta;
//	{"text": ["Hel", "lo"]}                an array is one delta each
//	{"tool": {"id", "name"}, "input": [..]}
//	{"text": "Hel", "open": true}          a block that does not stop
//	{"elapsed": {"total", "prompt", "generation"}}   before an end, to modules with routes
//	{"end": {"stop": "end_turn", "stop_sequence": "", "usage": usage}}
//
// with usage {input_uncached, cache_read, cache_write, output, reasoning}, and
// in an exact form that allows any order:
//
//	{"kind": "block_start", "block": "tool_use", "index": 0, "id": "..", "name": ".."}
//	{"kind": "delta", "block": "text", "index": 0, "text": ".."}
//	{"kind": "block_stop", "block": "text", "index": 0}
//
// A stream is run once with all events in one group, once with every event
// alone and once for every cut into two groups; each must give the same bytes. So is the
// text of a filter: whole, character by character, and cut in two at every character, each once with
// the end of the block by itself and once with its last piece.
package vector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"corenode/wasm/abi"
)

// VectorsMax bounds the vectors of one module, EventsMax the events of one vector.
const (
	VectorsMax = 4096
	EventsMax  = 1024
)

// Vector is one golden vector, ready to run. Parse makes it.
type Vector struct {
	Name string
	Op   string

	spec   spec
	stream []abi.Event // what spec.Events stand for
	raw    []byte      // as it was written, for Format
}

// spec is a vector as it is written. The package comment describes it.
type spec struct {
	Name      string          `json:"name"`
	Note      string          `json:"note"`
	Op        string          `json:"op"`
	Config    json.RawMessage `json:"config"`
	Facts     facts           `json:"facts"`
	Route     *route          `json:"route"`
	Body      *content        `json:"body"`
	Request   *content        `json:"request"`
	Kept      *content        `json:"kept"`
	Events    []event         `json:"events"`
	Error     *failure        `json:"error"`
	Models    []listed        `json:"models"`
	Tokens    *int64          `json:"tokens"`
	Quote     *quote          `json:"quote"`
	Charge    *charge         `json:"charge"`
	Admission *admission      `json:"admission"`
	Rewrite   *rewrite        `json:"rewrite"`
	Filter    *filter         `json:"filter"`
	Want      *want           `json:"want"`
}

// inputs are the fields that each op reads; others are mistakes.
var inputs = map[string][]string{
	"request":  {"facts", "route", "body"},
	"stream":   {"facts", "route", "request", "kept", "events"},
	"response": {"facts", "route", "request", "kept", "events"},
	"error":    {"facts", "route", "request", "kept", "events", "error"},
	"models":   {"facts", "route", "models", "body"},
	"count":    {"facts", "route", "request", "kept", "tokens"},
	"quote":    {"quote"},
	"charge":   {"charge"},
	"decide":   {"admission"},
	"rewrite":  {"rewrite"},
	"filter":   {"filter", "facts"},
}

// needed is the input that an op is nothing without.
var needed = map[string]string{
	"request": "body", "stream": "events", "response": "events", "error": "error", "models": "route", "count": "tokens",
	"quote": "quote", "charge": "charge", "decide": "admission", "rewrite": "rewrite", "filter": "filter",
}

// Parse reads a section or a vector file and checks every vector.
func Parse(section []byte) ([]Vector, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(section, &raw); err != nil {
		return nil, fmt.Errorf("vectors are no JSON array: %w", err)
	}
	if len(raw) > VectorsMax {
		return nil, fmt.Errorf("%d vectors, at most %d", len(raw), VectorsMax)
	}
	all := make([]Vector, len(raw))
	named := make(map[string]bool, len(raw))
	for i := range raw {
		v, err := parseOne(raw[i])
		if err == nil && named[v.Name] {
			err = errors.New("its name is taken by an earlier vector")
		}
		if err != nil {
			return nil, fmt.Errorf("vector %d (%q): %w", i, v.Name, err)
		}
		named[v.Name] = true
		all[i] = v
	}
	return all, nil
}

func parseOne(raw []byte) (Vector, error) {
	var s spec
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&s)
	v := Vector{Name: s.Name, Op: s.Op, spec: s, raw: raw}
	if err != nil {
		var named struct{ Name string }
		_ = json.Unmarshal(raw, &named) // only to say which vector it was
		v.Name = named.Name
		return v, plain(err)
	}
	if err := s.check(); err != nil {
		return v, err
	}
	if s.Want != nil {
		if err := s.Want.check(v.Op, v.facts().Stream); err != nil {
			return v, fmt.Errorf("want: %w", err)
		}
	}
	v.stream, err = expand(s.Events)
	return v, err
}

// plain says where a value of another kind stands, in the words of the vector's author.
func plain(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice, reflect.Array:
		want = "an array"
	case reflect.Float64, reflect.Int, reflect.Int64, reflect.Uint64:
		want = "a number"
	}
	return fmt.Errorf("%s is a JSON %s, want %s", wrong.Field, wrong.Value, want)
}

func (s *spec) check() error {
	allowed, known := inputs[s.Op]
	given := map[string]bool{
		"facts": s.Facts != facts{}, "body": s.Body != nil, "request": s.Request != nil, "kept": s.Kept != nil,
		"route": s.Route != nil, "models": s.Models != nil, "tokens": s.Tokens != nil,
		"events": s.Events != nil, "error": s.Error != nil, "quote": s.Quote != nil, "charge": s.Charge != nil,
		"admission": s.Admission != nil, "rewrite": s.Rewrite != nil, "filter": s.Filter != nil,
	}
	switch name := needed[s.Op]; {
	case s.Name == "":
		return errors.New("it has no name")
	case !known:
		return fmt.Errorf("op %q is none of request, stream, response, error, models, count, quote, charge, decide, rewrite, filter", s.Op)
	case !given[name]:
		return fmt.Errorf("op %s needs %q", s.Op, name)
	case s.Request != nil && s.Kept != nil:
		return errors.New(`"request" and "kept" exclude each other`)
	case len(s.Config) > 0 && s.Config[0] != '{':
		return errors.New(`"config" is no JSON object`)
	}
	for name, is := range given {
		if is && !slices.Contains(allowed, name) {
			return fmt.Errorf("op %s has no use for %q", s.Op, name)
		}
	}
	if s.Route != nil {
		if err := s.Route.check(); err != nil {
			return err
		}
	}
	if s.Error != nil {
		return s.Error.check(s.Facts.Stream != nil && *s.Facts.Stream)
	}
	return nil
}

// CheckRoute says what the vector lacks for a module with so many routes: each of its requests
// comes by one of them. Without routes nothing is lacking.
func (v *Vector) CheckRoute(routes int) error {
	switch r := v.spec.Route; {
	case routes == 0:
	case r == nil && v.Op == "request":
		return errors.New(`op request needs "route", as the module has routes`)
	case r == nil && v.spec.Request != nil:
		return errors.New(`"request" needs "route", as the module has routes`)
	case r != nil && r.Index >= routes:
		return fmt.Errorf("route: its index is %d, and the module has routes 0 to %d", r.Index, routes-1)
	}
	return nil
}

// ConfigBytes is what init takes for this vector, a JSON object.
func (v *Vector) ConfigBytes() []byte {
	if len(v.spec.Config) == 0 {
		return []byte("{}")
	}
	return v.spec.Config
}
