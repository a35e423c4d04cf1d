package messages

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"corenode/wasm/abi"
)

// Parse reads a body of POST /v1/messages. Its error is an *abi.Error of kind
// InvalidRequest that names the field and the bound.
func Parse(body []byte) (*Request, error) {
	q, err := parse(body, form{})
	switch {
	case err != nil:
	case q.MaxTokens == 0:
		err = invalid("max_tokens", "field required, a positive integer")
	default:
		err = checkMaxTokens(q)
	}
	return result(q, err)
}

// ParseTranslated reads a body that a translator made of another protocol's:
// as Parse, but max_tokens may be absent, and raw, stream_array and room_tokens are fields.
func ParseTranslated(body []byte) (*Request, error) {
	q, err := parse(body, form{translated: true})
	if err == nil {
		err = checkMaxTokens(q)
	}
	return result(q, err)
}

// ParseTranslatedCount reads a body that a translator made of another protocol's, of which
// only tokens are counted: as ParseTranslated, max_tokens without its bound.
func ParseTranslatedCount(body []byte) (*Request, error) {
	return result(parse(body, form{translated: true, counted: true}))
}

// ParseCount reads a body of POST /v1/messages/count_tokens: the same body,
// max_tokens optional and without its bound. A body that asks for a summary is counted as it is.
func ParseCount(body []byte) (*Request, error) { return result(parse(body, form{counted: true})) }

// ModelOf is the model that a body names, as Parse reads it; "" where it names none. The rest of
// the body may be anything.
func ModelOf(body []byte) string {
	d := openDecoder(body)
	defer d.close(len(body))
	if t, _ := d.ReadToken(); t.Kind() != '{' {
		return ""
	}
	for d.PeekKind() == '"' {
		if name, _ := d.ReadToken(); name.String() == "model" {
			if model, _ := d.ReadToken(); model.Kind() == '"' {
				return model.String()
			}
			return ""
		}
		if d.SkipValue() != nil {
			return ""
		}
	}
	return ""
}

func result(q *Request, err *abi.Error) (*Request, error) {
	if err != nil { // not as it is: a nil *abi.Error is no nil error
		return nil, err
	}
	return q, nil
}

func checkMaxTokens(q *Request) *abi.Error {
	if q.Stream {
		return nil
	}
	e := abi.CheckNonStreaming("max_tokens", int64(q.MaxTokens))
	if e != nil {
		e.Op = "messages.Parse"
	}
	return e
}

// form is what is asked of a body.
type form struct {
	translated bool // a translator wrote it, not a client
	counted    bool // only its tokens count
}

func parse(body []byte, f form) (*Request, *abi.Error) {
	switch values, depth := survey(body); {
	case depth > depthMax:
		return nil, invalid("", "the body nests deeper than %d levels", depthMax)
	case values > ValuesMax:
		return nil, invalid("", "the body has more than %d JSON values", ValuesMax)
	}
	d := openDecoder(body)
	defer d.close(len(body))
	r := &reader{dec: &d.Decoder, form: f}
	q := &Request{Body: body, Translated: f.translated, Thinking: true, ToolChoice: ToolChoice{Mode: "auto"}}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, invalid("", "the body is empty; want a JSON object")
	}
	r.object(func(name string) { r.field(q, name) })
	if _, err := r.dec.ReadToken(); err != io.EOF {
		r.fail(invalid("", "the body has something after its JSON object at byte %d", r.dec.InputOffset()))
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.heard.effort != nil {
		q.Effort = *r.heard.effort
	}
	if err := r.add(q); err != nil {
		return nil, err
	}
	if err := complete(q, r.skipped); err != nil {
		return nil, err
	}
	return q, nil
}

// complete checks what only the whole request can tell. Skipped are the names of its server-side tools.
func complete(q *Request, skipped []string) *abi.Error {
	switch {
	case q.Model == "":
		return invalid("model", "field required, a model id")
	case len(q.Messages) == 0:
		return invalid("messages", "field required, at least one message")
	case q.Raw && !q.rawFits():
		return invalid("raw", "a raw text is one user message of one text block, without system, tools or a format")
	}
	return checkForced(q, skipped)
}

// rawFits says whether the body is no more than a text to go on with.
func (q *Request) rawFits() bool {
	only := &q.Messages[0]
	return len(q.Messages) == 1 && only.Role == "user" && len(only.Blocks) == 1 && only.Blocks[0].Type == Text &&
		q.System == "" && len(q.Tools) == 0 && q.Format == nil
}

// checkForced refuses a forced call that no tool of the request can be. One that only
// skipped tools could be is no longer forced: skipping raises no error.
func checkForced(q *Request, skipped []string) *abi.Error {
	c := &q.ToolChoice
	switch {
	case c.Mode != "any" && c.Mode != "tool":
	case c.Mode == "any" && len(q.Tools) > 0:
	case slices.ContainsFunc(q.Tools, func(t Tool) bool { return t.Name == c.Name }):
	case c.Mode == "any" && len(skipped) > 0, slices.Contains(skipped, c.Name):
		c.Mode, c.Name = "auto", ""
	case c.Mode == "any":
		return refuse(abi.ReasonAnyCall, "tool_choice", "")
	case len(q.Tools) == 0:
		return refuse(abi.ReasonNamedCall, "tool_choice", "")
	default:
		return invalid("tool_choice.name", "%q is not the name of a tool of this request", c.Name)
	}
	return nil
}

// field reads the value of one top-level field. Unknown fields are accepted
// and ignored, known ones that cannot be honored are refused by name.
// It is one dispatch switch: the list of what the protocol knows.
func (r *reader) field(q *Request, name string) {
	if check, ok := refusedField(name); ok && (name != "compaction" || !r.form.counted) {
		if v := r.raw(); !check(string(v)) {
			r.fail(unsupported(name))
		}
		return
	}
	if r.null() {
		return
	}
	switch name {
	case "model":
		q.Model = r.string()
	case "messages":
		r.array(func() { r.turn(q) })
	case "max_tokens":
		q.MaxTokens = r.integer()
		if q.MaxTokens < 1 {
			r.fail(invalid(name, "%d is under 1", q.MaxTokens))
		}
	case "system":
		q.System = r.text()
	case "stream":
		q.Stream = r.bool()
	case "stop_sequences":
		q.StopSequences = r.stops()
	case "tools":
		q.Tools = r.tools()
	case "tool_choice":
		q.ToolChoice = r.toolChoice()
	case "thinking":
		q.Thinking = r.thinking()
	case "response_format":
		r.format(q, "json_schema", r.definition)
	case "output_config":
		r.outputConfig(q)
	case "output_format":
		r.format(q, "schema", r.formatSchema)
	case "raw":
		q.Raw = r.isTranslators() && r.bool()
	case "stream_array":
		q.StreamArray = r.isTranslators() && r.bool()
	case "room_tokens":
		if r.isTranslators() {
			q.RoomTokens = r.integer()
		}
		if q.RoomTokens < 0 {
			r.fail(invalid(name, "%d is under 0", q.RoomTokens))
		}
	default:
		if !r.sampling(&q.Sampling, name) {
			r.skip()
		}
	}
}

// neutral values of fields that change the answer: with one of them the field asks for nothing.
func neutral(values ...string) func(string) bool {
	return func(v string) bool { return v == "null" || slices.Contains(values, v) }
}

// neutralNumber is neutral for a number, however it is written.
func neutralNumber(want int64) func(string) bool {
	return func(v string) bool {
		n, ok := whole(v)
		return v == "null" || ok && n == want
	}
}

// refused are the known fields that would change the answer and cannot be
// honored, each with the test for a value that asks for nothing.
var refused = map[string]func(string) bool{
	"n":                  neutralNumber(1),
	"logprobs":           neutral("false"),
	"top_logprobs":       neutralNumber(0),
	"logit_bias":         neutral("{}"),
	"audio":              neutral(),
	"modalities":         neutral("[]", `["text"]`),
	"prediction":         neutral(),
	"web_search_options": neutral(),
	"mcp_servers":        neutral("[]"),
	"container":          neutral(),
	"thread":             neutral(),
	"compaction":         neutral(),
	"grammar":            asksNothing,
	"regex":              asksNothing,
	"ebnf":               asksNothing,
	"json_schema":        asksNothing,
	"structured_outputs": asksNothing,
	"echo":               asksNothing,
	"best_of":            asksNothing,
	"suffix":             asksNothing,
}

// The fields of this name are many, and all of them are refused.
const guided = "guided_"

// unsupported refuses a field of the table. Official clients send a conversation as a thread of their own
// accord: by the details they know that they have to send the whole of it, without the field.
func unsupported(name string) *abi.Error {
	switch {
	case constrains(name):
		return invalid(name, "this service does not support it; ask for JSON with output_config.format")
	case name != "thread":
		return invalid(name, "this service does not support it")
	}
	e := invalid(name, "this service keeps no conversations; send all messages with each request, and no thread")
	e.Err = Details(`{"error_code":"thread_unsupported_request","unsupported":["thread"]}`)
	return e
}

// constrains says whether a field of the table is how other servers constrain an answer.
func constrains(name string) bool {
	switch name {
	case "grammar", "regex", "ebnf", "json_schema", "structured_outputs":
		return true
	}
	return strings.HasPrefix(name, guided)
}

// asksNothing are the values with which the fields of other servers ask for nothing.
func asksNothing(v string) bool { return neutral("false", `""`)(v) || neutralNumber(1)(v) }

// refusedField is the test for a field's value, if it is one that cannot be honored.
func refusedField(name string) (func(string) bool, bool) {
	if strings.HasPrefix(name, guided) {
		return asksNothing, true
	}
	check, ok := refused[name]
	return check, ok
}

func (r *reader) stops() (stops []string) {
	r.array(func() {
		s := r.string()
		switch {
		case s == "":
			r.fail(invalid(r.path(), "a stop sequence must not be empty"))
		case len(s) > stopBytesMax:
			r.fail(invalid(r.path(), "a stop sequence has at most %d bytes", stopBytesMax))
		case len(stops) == stopsMax:
			r.fail(invalid("stop_sequences", "at most %d stop sequences", stopsMax))
		default:
			stops = append(stops, s)
		}
	})
	return stops
}

// thinking reads whether to think: without a type as a request that does not say. between_tools asks for
// none in front of the answer, and that is where a model of ours thinks.
func (r *reader) thinking() bool {
	kind := "enabled"
	r.object(func(name string) {
		switch {
		case name != "type":
			r.skip() // budget_tokens and display are accepted and ignored
		case !r.null():
			kind = r.string()
		}
	})
	switch kind {
	case "enabled", "adaptive":
		return true
	case "disabled", "between_tools":
	default:
		r.fail(invalid("thinking.type", "%q is not one of enabled, disabled, adaptive, between_tools", kind))
	}
	return false
}

func (r *reader) toolChoice() ToolChoice {
	c := ToolChoice{}
	r.object(func(name string) {
		switch name {
		case "type":
			c.Mode = r.string()
		case "name":
			if !r.null() {
				c.Name = r.string()
			}
		case "disable_parallel_tool_use":
			c.DisableParallel = !r.null() && r.bool()
		default:
			r.skip()
		}
	})
	switch c.Mode {
	case "auto", "none", "any":
	case "tool":
		if c.Name == "" {
			r.fail(invalid("tool_choice.name", "field required"))
		}
	default:
		r.fail(invalid("tool_choice.type", "%q is not one of auto, any, tool, none", c.Mode))
	}
	return c
}

// outputConfig reads output_config, of which format and effort change something here.
func (r *reader) outputConfig(q *Request) {
	r.object(func(name string) {
		if r.null() {
			return
		}
		switch name {
		case "effort":
			q.Effort = r.effort()
		case "format":
			r.format(q, "schema", r.formatSchema)
		default:
			r.skip()
		}
	})
}

// effort reads how much to think. What is not known is the model's own.
func (r *reader) effort() string {
	switch effort := r.string(); effort {
	case "low", "medium", "high":
		return effort
	case "xhigh", "max":
		return "high"
	}
	return ""
}

// format reads what the answer's text must be. With a schema, read reads it from the member in.
func (r *reader) format(q *Request, in string, read func() *Format) {
	kind, f := "", (*Format)(nil)
	r.object(func(name string) {
		switch {
		case name == "type":
			kind = r.string()
		case name != in:
			r.skip()
		case !r.null():
			f = read()
		}
	})
	if kind == "text" {
		return
	}
	at := r.path() // the object is closed: path names it
	switch {
	case kind == "json_object":
		f = &Format{}
	case kind != "json_schema":
		r.fail(invalid(at+".type", "%q is not one of text, json_object, json_schema", kind))
	case f == nil:
		r.fail(invalid(at+"."+in, "field required, an object"))
	}
	if q.Format != nil {
		r.fail(invalid(at, "the format of the answer is there twice; send one of output_config.format, output_format and response_format"))
	}
	q.Format = f
}

// definition reads json_schema of response_format, which may be without a schema.
func (r *reader) definition() *Format {
	f := &Format{}
	r.object(func(name string) {
		switch {
		case name != "schema":
			r.skip()
		case !r.null():
			f = r.formatSchema()
		}
	})
	return f
}

func (r *reader) formatSchema() *Format {
	schema := r.schema()
	return &Format{Schema: schema, At: r.path()}
}

// schema reads a JSON schema, which must be an object within its bound.
func (r *reader) schema() []byte {
	s := r.rawObject()
	if len(s) > schemaBytesMax {
		r.fail(invalid(r.path(), "has %d bytes, at most %d", len(s), schemaBytesMax))
	}
	return s
}
