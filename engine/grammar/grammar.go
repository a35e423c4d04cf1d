// Package grammar constrains decoding: it says at every step which tokens keep
// an answer within a form, a JSON text of a schema or calls of tools.
//
// Compile turns a form into a Grammar: states over bytes, with rules that call
// each other, so that values may nest (a pushdown automaton). A Matcher follows
// one answer through it. It keeps the set of all configurations, a state and the
// stack of where to go on, that the bytes so far can have led to, and remembers
// where each byte leads from a set: a deterministic automaton that is built as
// far as it is used. Which tokens of the vocabulary are allowed is found by
// walking their bytes, in an order in which neighbours share beginnings.
//
// A form's text is always one that the schema accepts, but for keywords that
// are reported as ignored. Not every text that a schema accepts is of its form:
// objects have their members in the order of the schema.
package grammar

import (
	"encoding/json"
	"fmt"
	"slices"
)

// statesMax bounds the states of a grammar, and with them the memory and time
// that a schema costs.
const statesMax = 50_000

// spentMax bounds the steps in which the parts of schemas are put together.
const spentMax = 1_000_000

// Form is what an answer has to be: its calls, its text, or either when both are
// asked for.
type Form struct {
	// Thinking says that the output starts inside thinking, which is free.
	Thinking bool
	// Calls are the tools of which at least one is called. None: no call is made.
	Calls []Tool
	// SingleCall allows no second call.
	SingleCall bool
	// JSONCalls writes calls as {"name": ..., "arguments": {...}}. Without it they
	// are written as <function=name> with a <parameter=name> for each argument.
	JSONCalls bool
	// Text is the JSON schema of the answer's text; nil for no text.
	Text json.RawMessage
}

// Tool is a function that may be called, with the JSON schema of its arguments.
type Tool struct {
	Name   string
	Schema json.RawMessage
}

// Object is the schema of any JSON object.
var Object = json.RawMessage(`{"type":"object"}`)

// An Error is a schema that cannot be compiled.
type Error struct {
	Tool    int // index of the tool whose schema it is; -1 for the text's
	Pointer string
	Msg     string
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Msg
	}
	return fmt.Sprintf("at %s: %s", e.Pointer, e.Msg)
}

// Grammar is a compiled form. It does not change and is safe for concurrent use.
type Grammar struct {
	states  []state
	entries []int32 // of the rules
	ignored []string
}

// Ignored are the keywords of the schemas that the grammar does not enforce, each once and in order.
func (g *Grammar) Ignored() []string { return g.ignored }

const (
	thinkClose = "</think>"
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
	valueClose = "</parameter>"
	betweenMax = 2 // line breaks between thinking and answer, and between calls
)

// Compile makes the grammar of a form. Errors are *Error.
func Compile(f Form) (*Grammar, error) {
	b := &builder{rules: map[string]int32{}}
	b.rule("", func() expr { return b.form(f) })
	b.finish()
	if b.err != nil {
		return nil, b.err
	}
	slices.Sort(b.ignored)
	return &Grammar{states: b.states, entries: b.entries, ignored: b.ignored}, nil
}

// form is the first rule: thinking, then the text or the calls.
func (b *builder) form(f Form) expr {
	var answers []expr
	if f.Text != nil {
		c := b.compiler(f.Text, -1)
		c.noAngle = len(f.Calls) > 0 // in a text <tool_call> would begin a call
		answers = append(answers, c.needs(c.value(c.root)))
	}
	if len(f.Calls) > 0 {
		answers = append(answers, b.calls(f))
	}
	if !f.Thinking {
		return alt(answers...)
	}
	return seq(until(thinkClose, callOpen), repeat(lit("\n"), 0, betweenMax), alt(answers...))
}

// calls are one call or several.
func (b *builder) calls(f Form) expr {
	var each []expr
	for i, t := range f.Calls {
		each = append(each, b.call(i, t, f.JSONCalls))
	}
	one := seq(lit(callOpen+"\n"), alt(each...), lit("\n"+callClose))
	if f.SingleCall {
		return one
	}
	return seq(one, star(seq(repeat(lit("\n"), 0, betweenMax), one)))
}

// call is what stands between the tags of one call.
func (b *builder) call(at int, t Tool, asJSON bool) expr {
	c := b.compiler(t.Schema, at)
	c.expected = expected(t.Schema)
	arguments := append(slices.Clone(c.root), anyObject)
	if options := c.options(arguments); len(options) == 1 && !asJSON && c.taggable(options[0]) {
		c.noAngle = true // no tag can be in a value
		return seq(lit("<function="+t.Name+">\n"), c.needs(c.parameters(options[0])), lit("</function>"))
	}
	return seq(lit(`{"name": `+quote(t.Name)+`, "arguments": `), c.needs(c.value(arguments)), lit("}"))
}
