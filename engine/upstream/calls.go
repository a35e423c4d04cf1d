package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// callChecker checks the calls of one answer against the schemas of its request's tools. A
// schema is compiled when its tool is first called.
type callChecker struct {
	tools map[string]*toolSchema
}

type toolSchema struct {
	raw      json.RawMessage
	once     sync.Once
	compiled *jsonschema.Schema // nil for a schema that cannot be compiled: it checks nothing
}

// newCallChecker is nil for a request without tools that may be called.
func newCallChecker(q *messages.Request) *callChecker {
	if len(q.Tools) == 0 || q.ToolChoice.Mode == "none" {
		return nil
	}
	c := &callChecker{tools: map[string]*toolSchema{}}
	for _, t := range q.Tools {
		c.tools[t.Name] = &toolSchema{raw: t.Schema}
	}
	return c
}

// check says what is wrong with a call; nil if nothing is.
func (c *callChecker) check(name, input string) error {
	if c == nil {
		return fmt.Errorf("a call of %q, and the request has no tools", name)
	}
	t := c.tools[name]
	if t == nil {
		return fmt.Errorf("a call of %q, which is no tool of the request", name)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(input)))
	if err != nil {
		return fmt.Errorf("the arguments of %q are no JSON", name)
	}
	if _, object := value.(map[string]any); !object {
		return fmt.Errorf("the arguments of %q are no object", name)
	}
	t.once.Do(t.compile)
	if t.compiled == nil {
		return nil
	}
	if err := t.compiled.Validate(value); err != nil {
		return fmt.Errorf("the arguments of %q do not fit its schema", name)
	}
	return nil
}

// noLoader refuses references to other documents: a schema must not make the node read a
// file or ask a server.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

func (t *toolSchema) compile() {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(t.raw))
	if err != nil {
		return
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if c.AddResource("tool.json", doc) != nil {
		return
	}
	if s, err := c.Compile("tool.json"); err == nil {
		t.compiled = s
	}
}

// errInvalidCall is what a client sees of a call that does not hold.
func errInvalidCall(cause error) *abi.Error {
	return &abi.Error{Kind: abi.Internal, Op: "upstream.check", Err: cause,
		Msg: "the model made a call that is not valid; try again"}
}
