// Package template renders a model's own chat template: the Jinja text that
// comes with the model turns messages and tools into the prompt. The result
// is byte-exact with what Python's transformers library gives for the same
// template (jinja2 with trimmed blocks and json.dumps as tojson).
//
// A template is read once, in New: the lexer cuts it into tokens (lexer.go), the
// parser makes statements of them and a tree of expressions (parser.go,
// statements.go), which Render evaluates (expression.go). Where chat templates
// notice, values behave as in Python: they keep key order, tell None from
// undefined, and print as repr and json.dumps print them (values.go, tojson.go).
//
// A template is a program from a model file, so it is not trusted: it cannot
// reach files or other templates, and its steps, its output and the strings
// it builds are bounded.
package template

import (
	_ "embed" // the built-in template is a file
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Builtin is the chat template of the embedded models.
//
//go:embed corenode.jinja
var Builtin string

const (
	// sourceMax is the largest template accepted, in bytes.
	sourceMax = 256 << 10
	// stepsMax bounds the statements, loop rounds and calls of one rendering.
	stepsMax = 3_000_000
	// membersPerStep is how many members of an object or elements of a list may be looked
	// at for a key in the time of a step: of a schema with thousands, each is asked for.
	membersPerStep = 64
	// bytesPerStep is how much text may be read or made in the time of a step. So all strings
	// of a rendering together take at most stepsMax times as much memory.
	bytesPerStep = 256
	// wordsPerStep is how much source a statement may have for a step.
	wordsPerStep = 16
	// outputMax bounds the prompt and every string that a template builds, in bytes.
	outputMax = 64 << 20
	// callDepthMax bounds macros that call each other.
	callDepthMax = 200
	// nestingMax bounds the nesting of blocks and brackets in the source.
	nestingMax = 200
)

// ErrLimit is the cause of a rendering that went over a bound of this package.
var ErrLimit = errors.New("chat template is over its limits")

var errLongString = fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)

// Raised is what a template says with raise_exception: the conversation does
// not fit the model's format. Message is the template's own and fit for clients.
type Raised struct{ Message string }

// Error returns the template's message.
func (r *Raised) Error() string { return "chat template: " + r.Message }

// ToolCall is one call that an assistant message made.
type ToolCall struct {
	Name string
	// Arguments is a JSON object; its key order is kept. Empty means {}.
	Arguments json.RawMessage
	// Text gives the template the arguments as the text of that object.
	Text bool
	// ID is undefined for the template when empty.
	ID string
}

// Message is one message of the conversation.
type Message struct {
	Role    string // system, user, assistant or tool
	Content string
	// NoContent gives the template None in place of Content.
	NoContent bool
	// Reasoning is the thinking of an assistant message. It is defined for the
	// template only if HasReasoning.
	Reasoning    string
	HasReasoning bool
	// ReasoningName is what the template calls it; reasoning_content when empty.
	ReasoningName string
	// ReasoningBlock gives the template the reasoning as a block of type thinking in front of one of the
	// content, which is a list of them then.
	ReasoningBlock bool
	ToolCalls      []ToolCall
	// ToolCallID is the call whose result a tool's message is. Undefined when empty.
	ToolCallID string
}

// Input is what one rendering sees.
type Input struct {
	Messages []Message
	// Tools are OpenAI tool objects, {"type":"function","function":{...}}; key order is kept.
	Tools []json.RawMessage
	// ResponseSchema is the JSON schema of the answer, an object as response_schema; None when empty.
	ResponseSchema json.RawMessage
	// GenerationPrompt ends the prompt with the header of the assistant's turn.
	GenerationPrompt bool
	// Thinking is enable_thinking, always defined for the template.
	Thinking bool
	// Effort is reasoning_effort. Undefined for the template when empty.
	Effort string
	// BOS and EOS are the texts of bos_token and eos_token, which some templates
	// print. Undefined for the template when empty.
	BOS, EOS string
	// Now is the time that strftime_now tells.
	Now time.Time
}

// Template is a parsed chat template. It is immutable and safe for concurrent use.
type Template struct{ body []statement }

// New parses a template. An error says what the template uses that this
// package does not offer: includes, imports and inheritance among them.
func New(source string) (t *Template, err error) {
	if len(source) > sourceMax {
		return nil, fmt.Errorf("chat template has %d bytes, at most %d are read", len(source), sourceMax)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	defer catch(&err)
	p := &parser{tokens: tokens}
	body, _ := p.block()
	return &Template{body: body}, nil
}

// Render writes the prompt. A *Raised error is the template's own refusal of
// the conversation; everything else is a template that does not work here.
func (t *Template) Render(in Input) (prompt string, err error) {
	r := newRun()
	defer r.release()
	return t.render(r, in)
}

// Check is an error for a template that renders in, with a message of the user in the place of its own, without that message:
// files that have the name of a template in its place are known.
func (t *Template) Check(in Input) error {
	const word = "harbor_tide"
	in.Messages = []Message{{Role: "user", Content: word}}
	if prompt, err := t.Render(in); err != nil || strings.Contains(prompt, word) {
		return nil // what it refuses it may take otherwise
	}
	return errors.New("it shows nothing of a conversation")
}

func (t *Template) render(r *run, in Input) (prompt string, err error) {
	defer catch(&err)
	r.now = in.Now
	if err := in.variables(&r.outer); err != nil {
		return "", err
	}
	f := &frame{run: r, scope: &r.outer, out: &r.out}
	f.executeAll(t.body)
	return string(r.out), nil
}

// catch makes an error of a panic. As in Go's text/template, a panic is how the parser
// and the evaluation, which are recursive, end over what they cannot read or do.
func catch(err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("chat template: %w", errorOf(p))
	if raised, ok := errors.AsType[*Raised](*err); ok {
		*err = raised
	}
}

func errorOf(p any) error {
	if err, ok := p.(error); ok {
		return err
	}
	return fmt.Errorf("%v", p)
}

// within adds to the error of a panic that passes where it happened. Callers defer it.
func within(what, name string) {
	if p := recover(); p != nil {
		panic(fmt.Errorf("%s %s: %w", what, name, errorOf(p)))
	}
}

// run is what the frames of one rendering share.
type run struct {
	out   []byte
	outer scope // of the template
	steps int
	depth int // of macro calls
	now   time.Time
}

// runs recycles output buffers, so that a prompt is copied out of its buffer
// once, and the space of the outermost variables.
var runs = sync.Pool{New: func() any {
	return &run{out: make([]byte, 0, 4096), outer: scope{vars: make([]variable, 0, scopeSearchMax)}}
}}

// keepMax and varsKeepMax are the largest of those that are kept for the next
// rendering, in bytes and in variables.
const (
	keepMax     = 1 << 20
	varsKeepMax = 64
)

func newRun() *run { return runs.Get().(*run) }

func (r *run) release() {
	if cap(r.out) > keepMax || cap(r.outer.vars) > varsKeepMax {
		return
	}
	clear(r.outer.vars)
	*r = run{out: r.out[:0], outer: scope{vars: r.outer.vars[:0]}}
	runs.Put(r)
}

// step counts one unit of work.
func (r *run) step() { r.work(1) }

func (r *run) work(steps int) {
	if r.steps += steps; r.steps > stepsMax {
		panic(fmt.Errorf("%w: more than %d steps", ErrLimit, stepsMax))
	}
}

// weigh counts a value that is read or made, by its size, and returns it.
func (r *run) weigh(v value) value {
	switch x := v.(type) {
	case string:
		r.work(len(x) / bytesPerStep)
	case list:
		r.work(len(x) / membersPerStep)
	case object:
		r.work(len(x) / membersPerStep)
	}
	return v
}

// EndsWith reports whether a prompt ends with tag, behind the last turn header, where only the template writes:
// the tag that opens thinking, so that what the model writes first is thinking, or the one that closes it.
func EndsWith(prompt, tag string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, " \t\r\n"), tag)
}
