package engine

import (
	"errors"
	"fmt"
	"slices"

	"corenode/engine/grammar"
	"corenode/engine/messages"
)

// constrain compiles what the request asks of the answer's form: calls, JSON, or with
// tools that may be called either of them. Of a free answer with tools it is every call that
// the model makes. The grammar is nil where nothing is held.
func (e *Engine) constrain(account string, q *messages.Request, at start) (*grammar.Grammar, Trigger, error) {
	f := grammar.Form{
		Thinking: at.thinking, ThinkClose: e.format.tags.Close, SingleCall: q.SingleCall(), Marked: e.format.marker >= 0,
		JSONCalls: e.format.calls == callsJSON, KeyCalls: e.format.calls == callsKeys, Capital: e.format.capital,
		Delimiters: e.format.delimiters,
	}
	forced := q.ForcesCall()
	var places []int
	f.Calls, places = callable(q)
	if q.Format != nil && !forced {
		f.Text = q.Format.Schema
		if f.Text == nil {
			f.Text = grammar.Object
		}
		if at.thinksFirst {
			f.ThinkOpen = e.format.tags.Open
		}
	}
	f.Free = !forced && f.Text == nil
	trigger := Trigger{Token: e.format.marker}
	switch {
	case f.Text == nil && len(f.Calls) == 0, f.Free && !f.Marked && at.begun: // its block has started
		return nil, Trigger{}, nil
	case f.Free && f.Marked:
		trigger.At = AtToken
	case f.Free:
		trigger.At = AtBlock
	}
	g, err := e.compile(account, q, f, places)
	if err != nil {
		return nil, trigger, err
	}
	e.vocabulary() // here, where nobody waits but this request
	return g, trigger, nil
}

// constrain begins to follow the answer through its grammar, when its first token is wanted: a matcher takes memory for each
// state, and time, which a request that waits or is refused does without.
func (r *run) constrain(e *Engine) {
	q := r.job.Request
	if q.Grammar != nil {
		r.matcher = q.Grammar.NewMatcher(e.vocabulary())
		r.trigger()
	}
	if q.Channels != nil {
		r.restrain()
	}
}

// callable are the tools that the answer may call, and where each stands in the body.
func callable(q *messages.Request) (tools []grammar.Tool, at []int) {
	for _, t := range q.Tools {
		if q.ToolChoice.Mode != "none" && (q.ToolChoice.Mode != "tool" || t.Name == q.ToolChoice.Name) {
			tools, at = append(tools, grammar.Tool{Name: t.Name, Schema: t.Schema}), append(at, t.At)
		}
	}
	return tools, at
}

// compile is the grammar of a form of the request, whose tools stand at those places in the body.
func (e *Engine) compile(account string, q *messages.Request, f grammar.Form, at []int) (*grammar.Grammar, error) {
	g, err := e.grammars.compile(account, f)
	if wrong, ok := errors.AsType[*grammar.Error](err); ok {
		param := "tools"
		switch {
		case wrong.Tool >= 0:
			param = fmt.Sprintf("tools.%d.input_schema", at[wrong.Tool])
		case f.Text != nil && q.Format.At != "":
			param = q.Format.At
		}
		return nil, invalidf(param, "%v", wrong)
	}
	return g, err
}

// hidden are the tokens that an answer cannot have: the one that begins a call, where
// there are tools and none may be called, and the one that opens thinking, which the prompt does.
func (e *Engine) hidden(q *messages.Request) (ids []int32) {
	if e.format.marker >= 0 && len(q.Tools) > 0 && q.ToolChoice.Mode == "none" {
		ids = append(ids, e.format.marker)
	}
	if e.format.thinkOpen >= 0 && !q.Raw {
		ids = append(ids, e.format.thinkOpen)
	}
	slices.Sort(ids)
	return ids
}

// vocabulary is the tokenizer's, as a grammar walks it: made when it is first needed,
// since it takes some fifty bytes for every token.
func (e *Engine) vocabulary() *grammar.Vocabulary {
	e.vocabularyOnce.Do(func() {
		e.walkable = grammar.NewVocabulary(e.tokenizer.Size(), e.writtenText, e.tokenizer.Stops(), e.format.marker)
	})
	return e.walkable
}
