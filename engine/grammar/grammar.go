// Package grammar constrains decoding: it says at every step which tokens keep
// an answer within a form, a JSON text of a schema or calls of tools.
//
// Compile turns a form into a Grammar: states over bytes, with rules that call
// each other, so that values may nest (a pushdown automaton). A Matcher follows
// one answer through it. It keeps the set of all configurations, a state and the
// stack of where to go on, that the bytes so far can have led to, and remembers
// where each byte leads from a set: a deterministic automaton that is built as
// far as it is used. Which tokens of the vocabulary are allowed is found by
// walking their bytes, in an order in which neighbors share beginnings.
//
// Where the model would end its answer and it is not complete, Matcher.End closes what is
// open and leaves out what may be left out. Choices know which of their ways lead there.
//
// A form's text is always one that the schema accepts, but for keywords that
// are reported as ignored. Not every text that a schema accepts is of its form:
// objects have their members in the order of the schema.
package grammar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"corenode/engine/output"
)

// statesMax bounds the states of a grammar, and with them the memory and time
// that a schema costs; of many tools there may be four times as many.
const statesMax = 50_000

// spentMax bounds the steps in which the parts of schemas are put together.
const spentMax = 1_000_000

// stepWork is how much work on the text of a listed value is a step: so many bytes of it are
// read, or instructions of a pattern's program are followed.
const stepWork = 64

// Form is what an answer has to be: its calls, its text, or either when both are
// asked for. Of a free answer only the calls have a form.
type Form struct {
	// Thinking says that the output starts inside thinking, which is free up to ThinkClose; "" is </think>.
	Thinking   bool
	ThinkClose string
	// ThinkOpen lets the output begin with thinking all the same, by this tag. "" does not, nor does Thinking.
	ThinkOpen string
	// Calls are the tools of which at least one is called. None: no call is made.
	Calls []Tool
	// Free lets the answer be any text, with as many of the calls as the model makes: the
	// grammar is of one call, and holds from where it begins until it is complete.
	Free bool
	// Marked says that the vocabulary has a token for <tool_call>: that token begins a call,
	// and nothing else does. Without it a call is begun by the text of the marker, which in a
	// free answer means where it is the first of a block.
	Marked bool
	// SingleCall allows no second call.
	SingleCall bool
	// JSONCalls writes calls as {"name": ..., "arguments": {...}}. Without it they
	// are written as <function=name> with a <parameter=name> for each argument.
	JSONCalls bool
	// KeyCalls writes them as the name, and an <arg_key> with an <arg_value> for each argument.
	KeyCalls bool
	// Capital lets arguments of those two forms be True, False and None too, where they are true, false and null.
	Capital bool
	// Delimiters are of calls that have delimiters of their own; Open of it is the marker then.
	Delimiters *output.Delimiters
	// Apart says that a call is a message of its own, the arguments of one tool and nothing else.
	// What such a message is held to is the grammar's Arguments, whether the form is Free or not.
	Apart bool
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

// Error is the message, with the place in the schema.
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
	first   int32   // the rule that an answer is of
	ignored []string
	waits   bool // it holds nothing until it is triggered
}

// Arguments is the grammar of the arguments of tool i, of a form whose calls are Apart. It is
// made of the states that all the tools share.
func (g *Grammar) Arguments(i int) *Grammar {
	one := *g
	one.first, one.waits = int32(1+i), false
	return &one
}

// Ignored are the keywords of the schemas that the grammar does not enforce, each once and in order.
func (g *Grammar) Ignored() []string { return g.ignored }

// Size is how much of memory the grammar takes: about so many times a hundred bytes.
func (g *Grammar) Size() int { return len(g.states) }

const (
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
	betweenMax = 2 // line breaks between thinking and answer, and between calls
)

// Compile makes the grammar of a form. Errors are *Error.
func Compile(f Form) (*Grammar, error) {
	b := &builder{}
	for _, loose := range []bool{false, true} {
		most := statesMax * max(1, min(4, len(f.Calls)))
		b = &builder{rules: map[string]int32{}, keyed: f.KeyCalls, capital: f.Capital, onward: roleRepeats, most: most, loose: loose}
		b.rule("", func() expr { return b.form(f) })
		b.finish()
		if !b.large || !f.Free { // who asks for a form is told that it cannot be held
			break
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	slices.Sort(b.ignored)
	return &Grammar{states: b.states, entries: b.entries, ignored: b.ignored, waits: f.Free}, nil
}

// form is the first rule: thinking, then the text or the calls. The rule of a free answer
// is what follows its trigger, the marker's token or a block's start.
func (b *builder) form(f Form) expr {
	if f.Apart {
		return b.apart(f)
	}
	between, opening, thinkClose := repeat(lit("\n"), 0, betweenMax), callOpen, cmp.Or(f.ThinkClose, "</think>")
	if f.Delimiters != nil {
		opening = f.Delimiters.Open
	}
	one := seq(mark(f.Marked, opening), b.body(f))
	if f.Free && f.Marked {
		return seq(b.body(f), released())
	}
	if f.Free {
		return seq(star(oneOf(bytesOf(blanks))), alt(seq(one, released()), other(opening)))
	}
	var answers, calls []expr
	if f.Text != nil {
		c := b.compiler(f.Text, -1)
		answers = append(answers, c.needs(c.value(c.root)))
	}
	if len(f.Calls) > 0 {
		all := one
		if !f.SingleCall && (f.Delimiters == nil || f.Delimiters.Close == "" && !f.Delimiters.List) {
			all = seq(one, star(seq(between, one)))
		}
		calls = append(calls, b.rule("calls", func() expr { return all }))
	}
	answers = append(answers, calls...)
	answer := alt(answers...)
	thinks := func(answer expr) expr {
		if !f.Marked {
			return seq(thought(until(thinkClose, opening)), between, answer)
		}
		first := seq(thought(until(thinkClose)), between, answer)
		if len(calls) == 0 {
			return first
		}
		return alt(first, seq(without(thinkClose), thoughtEnd, calls[0])) // the token ends thinking too
	}
	switch {
	case f.Thinking:
		return thinks(answer)
	case f.ThinkOpen != "":
		return func(b *builder, next int32) int32 {
			at := answer(b, next)
			same := func(*builder, int32) int32 { return at } // with a thought or without one
			return b.fork(seq(lit(f.ThinkOpen), thinks(same))(b, next), at)
		}
	}
	return answer
}

// mark is what begins a call.
func mark(marked bool, opening string) expr {
	if !marked {
		return lit(opening)
	}
	return func(b *builder, next int32) int32 { return b.add(state{kind: kindMarker, next: next}) }
}

// body is a call behind its marker, of any of the tools.
func (b *builder) body(f Form) expr {
	return b.rule("call", func() expr {
		if f.Delimiters != nil {
			return b.delimited(f)
		}
		var each []expr
		for i, t := range f.Calls {
			each = append(each, b.call(i, t, f.JSONCalls))
		}
		return seq(alt(each...), lit("\n"+callClose))
	})
}

// blanks are what a block does not begin with.
const blanks = " \t\r\n"

var anyByte = span(0, 255)

// released is what a free answer goes on with: anything, and nothing is held any more.
func released() expr {
	return func(b *builder, next int32) int32 {
		at := b.add(state{released: true})
		if b.err == nil {
			more := b.add(state{kind: kindBytes, set: anyByte, next: at})
			b.states[at].split = []int32{more, next}
		}
		return at
	}
}

// other is a block that begins neither with word nor with a blank, or ends before it could.
func other(word string) expr {
	return func(b *builder, next int32) int32 {
		free := released()(b, next)
		var at int32
		for i := len(word) - 1; i >= 0; i-- {
			except := anyByte.without(word[i : i+1])
			if i == 0 {
				except = except.without(blanks)
			}
			split := []int32{b.add(state{kind: kindBytes, set: except, next: free}), next}
			if i < len(word)-1 {
				split = append(split, b.add(state{kind: kindBytes, set: span(word[i], word[i]), next: at}))
			}
			at = b.add(state{split: split})
		}
		if b.err == nil {
			b.states[at].plain = plainText
		}
		return at
	}
}

// call is what stands between the tags of one call.
func (b *builder) call(at int, t Tool, asJSON bool) expr {
	c := b.compiler(t.Schema, at)
	c.expected = expected(t.Schema)
	arguments := append(slices.Clone(c.root), anyObject)
	if options := c.options(arguments); len(options) == 1 && !asJSON && c.taggable(options[0]) {
		c.noAngle = true // no tag can be in a value
		if c.keyed {
			return seq(lit(t.Name), c.needs(c.parameters(options[0])))
		}
		return seq(lit("\n<function="+t.Name+">\n"), c.needs(c.parameters(options[0])), lit("</function>"))
	}
	return seq(lit("\n"+`{"name": `+quote(t.Name)+`, "arguments": `), c.needs(c.value(arguments)), lit("}"))
}
