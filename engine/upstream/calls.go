package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/output"
	"corenode/wasm/abi"
)

// callChecker checks the calls of one answer against the schemas of its request's tools. A
// schema is compiled when its tool is first called. Owned by the request's relay.
type callChecker struct {
	tools   map[string]*toolSchema
	outline outline // of the schemas that are compiled
	left    int     // steps that the checks may take yet
}

type toolSchema struct {
	at      int // its place among the tools of the body: the log names no tool
	raw     json.RawMessage
	looked  bool
	misfits *jsonschema.Schema // of what does not fit; nil for a schema that cannot be compiled: it checks nothing
}

// newCallChecker is nil for a request without tools that may be called.
func newCallChecker(q *messages.Request) *callChecker {
	if len(q.Tools) == 0 || q.ToolChoice.Mode == "none" {
		return nil
	}
	c := &callChecker{tools: map[string]*toolSchema{}, left: effortMax,
		outline: outline{names: map[string]bool{}, patterns: map[string]int{}}}
	for _, t := range q.Tools {
		c.tools[t.Name] = &toolSchema{at: t.At, raw: t.Schema}
	}
	return c
}

// trusting looks at no schema from here on. It is for calls of another node: its grammar holds them to their schemas as this
// node's does, and ignores the same keywords.
func (c *callChecker) trusting() *callChecker {
	if c != nil {
		for _, t := range c.tools {
			t.looked = true
		}
	}
	return c
}

// check returns what a call is given, as every protocol takes it back with the next turn; "" if that is no JSON object, which
// no answer can have. err says what is wrong with the call, in words for the log; nil if nothing is, or if it would take too
// much to see.
func (c *callChecker) check(name, input string) (text string, err error) {
	t, called := c.tool(name), "what is no tool of the request"
	if t != nil {
		called = fmt.Sprintf("tools.%d", t.at)
	}
	text, ok := output.Normal([]byte(input))
	switch {
	case !ok:
		return "", fmt.Errorf("the arguments of a call of %s are no JSON", called)
	case text[0] != '{':
		return "", fmt.Errorf("the arguments of a call of %s are no object", called)
	case c == nil:
		return text, errors.New("a call, and the request has no tools")
	case t == nil:
		return text, errors.New("a call of what is no tool of the request")
	}
	if !t.looked {
		t.looked, t.misfits = true, c.compile(t.raw)
	}
	if t.misfits == nil || messages.Values([]byte(text)) > 2*valuesMax { // it counts each twice at most
		return text, nil
	}
	value, _ := jsonschema.UnmarshalJSON(strings.NewReader(text)) // it is valid
	if c.bounded(t.misfits, value) && t.misfits.Validate(value) == nil {
		return text, fmt.Errorf("the arguments of a call of %s do not fit its schema", called)
	}
	return text, nil
}

// tool is nil for what is no tool of the request.
func (c *callChecker) tool(name string) *toolSchema {
	if c == nil {
		return nil
	}
	return c.tools[name]
}

// bounded says whether a value can be held to a schema with the steps that are left, and takes them.
func (c *callChecker) bounded(s *jsonschema.Schema, value any) bool {
	e := effort{outline: &c.outline, left: c.left, looked: map[look]looks{}}
	v, ok := e.sized(value)
	if !ok {
		return false
	}
	l, ok := e.at(s, v, 0)
	c.left = max(0, c.left-l.steps) // counting takes about as much, also where it gives up
	return ok
}

// noLoader refuses references to other documents: a schema must not make the node read a
// file or ask a server.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// compile makes a schema of all that does not fit one; nil where it cannot, or it would take too much. Turned around the
// validator ends at the first thing that does not fit, and keeps no list of them.
func (c *callChecker) compile(raw json.RawMessage) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil || !c.outline.takes(doc) {
		return nil
	}
	const schema, misfits = "tool:///schema", "tool:///misfits" // not alone: what is no URL stands in the folder that the node runs in
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	turned := map[string]any{"not": map[string]any{"$ref": schema}}
	if compiler.AddResource(schema, doc) != nil || compiler.AddResource(misfits, turned) != nil {
		return nil
	}
	compiled, err := compiler.Compile(misfits)
	if err != nil {
		return nil
	}
	return compiled
}

// errInvalidCall is what a client sees of a call that does not hold.
func errInvalidCall(cause error) *abi.Error {
	return &abi.Error{Kind: abi.Internal, Op: "upstream.check", Err: fmt.Errorf("%w: %w", engine.ErrElsewhere, cause),
		Msg: "the model made a call that is not valid; try again"}
}
