package upstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
	"corenode/wasm/responses"
)

// wordCounter counts the words of a conversation, as the fakes do.
type wordCounter struct{}

func (wordCounter) Count(q *messages.Request) (n int, err error) {
	for _, m := range q.Messages {
		n += len(strings.Fields(messages.Texts(m.Blocks)))
	}
	return n, nil
}

// logged makes a model's log one that can be read.
func logged(o *Options) *bytes.Buffer {
	var log bytes.Buffer
	o.Log, o.ProbeEvery = slog.New(slog.NewTextHandler(&log, nil)), time.Hour
	return &log
}

// TestLostFields: sampling that servers cannot be told is refused by its name, unless it asks for
// nothing; all others are told it.
func TestLostFields(t *testing.T) {
	fields := []struct{ name, asks, neutral, sent string }{
		{"top_k", `5`, `0`, `"top_k":5`},
		{"min_p", `0.5`, `0`, `"min_p":0.5`},
		{"repetition_penalty", `1.5`, `1`, `_penalty":1.5`}, // which llama-server has by another name
		{"min_tokens", `3`, `0`, `"min_tokens":3`},
		{"ignore_eos", `true`, `false`, `"ignore_eos":true`},
	}
	lost := map[wire.Flavor][]string{
		wire.LlamaServer:     {"min_tokens"},
		wire.ChatCompletions: {"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"},
	}
	for _, f := range slices.Concat(flavors, []wire.Flavor{wire.ChatCompletions}) {
		m := open(t, f, func(o *Options) { o.Counter, o.ProbeEvery = wordCounter{}, time.Hour }, start(t, f, plainAnswer))
		prepare := func(name, value string) (*engine.Request, error) {
			q, err := messages.Parse(fmt.Appendf(nil, helloBody, `,"`+name+`":`+value))
			if err != nil {
				t.Fatal(err)
			}
			return m.Prepare("a", q)
		}
		for _, c := range fields {
			if _, err := prepare(c.name, c.neutral); err != nil {
				t.Errorf("%s, %s %s: %v", f, c.name, c.neutral, err)
			}
			r, err := prepare(c.name, c.asks)
			switch {
			case slices.Contains(lost[f], c.name):
				if abi.KindOf(err) != abi.InvalidRequest || abi.AsError(err).Param != c.name {
					t.Errorf("%s, %s %s: %v", f, c.name, c.asks, err)
				}
			case err != nil || !bytes.Contains(r.Remote.(*sent).body, []byte(c.sent)):
				t.Errorf("%s, %s %s: %+v, %v", f, c.name, c.asks, r, err)
			}
		}
	}
}

// TestAllTokensKept: that a request keeps all tokens to draw from is told each server in its own way, since one that is
// told nothing has a default, and vLLM and SGLang refuse 0 or did so. A server of which nothing is known is told nothing.
func TestAllTokensKept(t *testing.T) {
	for f, want := range map[wire.Flavor]string{wire.VLLM: `,"top_k":-1,`, wire.SGLang: `,"top_k":-1,`, wire.LlamaServer: `,"top_k":0,`,
		wire.ChatCompletions: ""} {
		m := open(t, f, func(o *Options) {
			o.Counter, o.ProbeEvery = wordCounter{}, time.Hour
			if f == wire.ChatCompletions {
				o.Sampling = []string{"top_k"}
			}
		}, start(t, f, plainAnswer))
		q, err := messages.Parse(fmt.Appendf(nil, helloBody, `,"top_k":0`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Prepare("a", q)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if body := string(r.Remote.(*sent).body); !strings.Contains(body, want) || strings.Contains(body, "top_k") != (want != "") {
			t.Errorf("%s is told %s, want %q in it", f, body, want)
		}
	}
}

// TestSamplingThatServersKnow: fields that an operator says the servers know beside their flavor's are told them,
// once each, until the operator says others; all that are not named are refused as ever.
func TestSamplingThatServersKnow(t *testing.T) {
	for f, named := range map[wire.Flavor][]string{wire.ChatCompletions: {"top_k", "min_p"}, wire.LlamaServer: {"top_k", "min_tokens"}} {
		m := open(t, f, func(o *Options) {
			o.Counter, o.ProbeEvery, o.Sampling = wordCounter{}, time.Hour, named
		}, start(t, f, plainAnswer))
		prepare := func(fields string) (*engine.Request, error) {
			q, err := messages.Parse(fmt.Appendf(nil, helloBody, fields))
			if err != nil {
				t.Fatal(err)
			}
			return m.Prepare("a", q)
		}
		r, err := prepare(`,"top_k":3,"` + named[1] + `":1`)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, field := range []string{`"top_k":3`, `"` + named[1] + `":1`} {
			if body := r.Remote.(*sent).body; bytes.Count(body, []byte(field)) != 1 {
				t.Errorf("%s: %s is not once in %s", f, field, body)
			}
		}
		m.SetSampling([]string{"repetition_penalty"})
		if _, err := prepare(`,"` + named[1] + `":1`); abi.KindOf(err) != abi.InvalidRequest || abi.AsError(err).Param != named[1] {
			t.Errorf("%s, %s that is named no more: %v", f, named[1], err)
		}
		if _, err := prepare(`,"repetition_penalty":1.5`); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// translated is a request as the translator of another protocol makes it of a body.
func translated(t *testing.T, request func(abi.RequestInput) (abi.Translated, *abi.Error), body string) *messages.Request {
	t.Helper()
	out, refused := request(abi.RequestInput{Body: []byte(body)})
	if refused != nil {
		t.Fatalf("%s: %v", body, refused)
	}
	q, err := messages.ParseTranslated(out.Body)
	if err != nil {
		t.Fatalf("%s became %s: %v", body, out.Body, err)
	}
	return q
}

// TestPublicServer: what a client of any protocol says is said to a server of the messages protocol as that has it, so that one
// which knows nothing else counts it and answers. Another node gets what it understands as it is.
func TestPublicServer(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	own, err := messages.Parse([]byte(`{"model":"far","max_tokens":9,"system":"s","response_format":{"type":"json_schema",` +
		`"json_schema":{"schema":` + schema + `}},"messages":[{"role":"system","content":"t"},{"role":"user","content":"x"},` +
		`{"role":"assistant","content":[` +
		`{"type":"server_tool_use","id":"i","name":"web_search","input":{}}]},{"role":"user","content":"y"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]*messages.Request{
		"messages": own,
		"chat": translated(t, chat.Translator{}.Request, `{"model":"far","max_tokens":9,"seed":null,"presence_penalty":0,`+
			`"frequency_penalty":0,"min_p":0,"repetition_penalty":1,"min_tokens":0,"response_format":{"type":"json_schema",`+
			`"json_schema":{"name":"n","schema":`+schema+`}},"messages":[{"role":"system","content":"s"},{"role":"developer","content":"t"},{"role":"user","content":"x"}]}`),
		"responses": translated(t, responses.Translator{}.Request, `{"model":"far","max_output_tokens":9,"instructions":"s",`+
			`"text":{"format":{"type":"json_schema","name":"n","schema":`+schema+`}},`+
			`"input":[{"role":"system","content":"t"},{"role":"user","content":"x"}]}`),
	} {
		s := start(t, wire.Messages, plainAnswer)
		m := open(t, wire.Messages, nil, s)
		r, err := m.Prepare("a", q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body := string(r.Remote.(*sent).body)
		answer, err := http.Post(s.URL+"/v1/messages", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d for %s", name, answer.StatusCode, body)
		}
		for _, want := range []string{`"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}]`,
			`"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`} {
			if !strings.Contains(body, want) || strings.Contains(body, "server_tool_use") {
				t.Errorf("%s is sent as %s, want in it %s", name, body, want)
			}
		}
		node := open(t, wire.Corenode, nil, start(t, wire.Corenode, plainAnswer))
		if r, err := node.Prepare("a", q); err != nil || !strings.Contains(string(r.Remote.(*sent).body), `"response_format":`) {
			t.Errorf("%s, to another node: %+v, %v", name, r, err)
		}
	}
}

// TestLostBeyondMessages: what the messages protocol does not have is refused by its name where a client of another protocol
// asks for it, unless the operator says that the servers know it. A messages client's own body goes out as it came.
func TestLostBeyondMessages(t *testing.T) {
	m := open(t, wire.Messages, func(o *Options) { o.Counter, o.ProbeEvery = wordCounter{}, time.Hour },
		start(t, wire.Messages, plainAnswer))
	asks := map[string]string{"response_format": `{"type":"json_object"}`, "seed": "0", "min_p": "0.5", "presence_penalty": "1",
		"frequency_penalty": "-1", "repetition_penalty": "1.5", "min_tokens": "3", "ignore_eos": "true"}
	for _, name := range wire.MessagesFields {
		field := `"` + name + `":` + asks[name]
		prepare := func(q *messages.Request) string {
			r, err := m.Prepare("a", q)
			if err != nil {
				return abi.AsError(err).Param
			}
			return string(r.Remote.(*sent).body)
		}
		other := translated(t, chat.Translator{}.Request, fmt.Sprintf(helloBody, ","+field))
		own, err := messages.Parse(fmt.Appendf(nil, helloBody, ","+field))
		if err != nil {
			t.Fatal(err)
		}
		if got := prepare(other); got != name {
			t.Errorf("%s: %s", field, got)
		}
		if got := prepare(own); !strings.Contains(got, field) {
			t.Errorf("%s of a messages client: %s", field, got)
		}
		m.SetSampling([]string{name})
		if got := prepare(other); !strings.Contains(got, field) {
			t.Errorf("%s that the servers know: %s", field, got)
		}
		m.SetSampling(nil)
	}
}

// TestLostEffort: that servers cannot be told how much to think changes no request, and is logged once.
func TestLostEffort(t *testing.T) {
	var log *bytes.Buffer
	s := start(t, wire.ChatCompletions, plainAnswer)
	m := open(t, wire.ChatCompletions, func(o *Options) { log, o.Counter = logged(o), wordCounter{} }, s)
	for _, effort := range []string{"low", "high"} {
		q, err := messages.Parse(fmt.Appendf(nil, helloBody, `,"output_config":{"effort":"`+effort+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Prepare("a", q); err != nil {
			t.Fatal(err)
		}
	}
	if said := log.String(); strings.Count(said, "is left out") != 1 || !strings.Contains(said, "field=output_config.effort") {
		t.Errorf("the log says %s", said)
	}
}

// quietBody is a request that switches thinking off.
var quietBody = fmt.Sprintf(helloBody, `,"stream":%t,"thinking":{"type":"disabled"}`)

// TestThinkingSwitchedOff: thinking that servers cannot be told to leave is neither handed on nor billed, whether
// its text comes or not. How much it was is what they report, be it among the completion or beside it, unless that
// cannot be, or our own count. The log says so once.
func TestThinkingSwitchedOff(t *testing.T) {
	thinking, efg := []string{"a b ", "c d "}, []string{"e ", "f ", "g "}
	for _, c := range []struct {
		script fake.Script
		billed int64 // of two tokens for each piece
		loud   int64 // with thinking
	}{
		{fake.Script{Thinking: thinking, Text: efg}, 6, 10},
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 1}, 6, 10}, // for two pieces
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 5}, 5, 10},
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 9}, 3, 10},
		{fake.Script{Thinking: thinking}, 0, 4},
		{fake.Script{Thinking: thinking, Reasoning: 1}, 0, 4},
		{fake.Script{Text: efg, Reasoning: 2}, 4, 6},
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 4, Beside: true}, 6, 10},
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 50, Beside: true}, 6, 56},
		{fake.Script{Thinking: thinking, Text: efg, Reasoning: 500, Beside: true}, 6, 100}, // max_tokens, which the completion fits in
	} {
		c.script.PerDelta = 2
		s := start(t, wire.ChatCompletions, func(int, []byte) fake.Script { return c.script })
		var log *bytes.Buffer
		l := newLoop(t, open(t, wire.ChatCompletions, func(o *Options) { log, o.Counter = logged(o), wordCounter{} }, s))
		for _, stream := range []bool{true, false} {
			got := l.ask("a", fmt.Sprintf(quietBody, stream))
			if got.refused != nil || got.result.Err != nil {
				t.Fatalf("refused %v, ended with %v", got.refused, got.result.Err)
			}
			checkEvents(t, got.events)
			for _, e := range got.events {
				if e.Kind == abi.EventBlockStart && e.Block != abi.BlockText {
					t.Errorf("a block %v is handed on", e.Block)
				}
			}
			want, source := abi.Usage{InputUncached: 4, Output: c.billed}, got.result.Source.Usage
			if end := got.events[len(got.events)-1]; end.Usage != want || got.result.Usage != want || source != engine.UsageReported {
				t.Errorf("%+v: shown %+v, billed %+v, %v", c.script, end.Usage, got.result.Usage, source)
			}
			if tx := text(got.events, abi.BlockText); tx != strings.Join(c.script.Text, "") {
				t.Errorf("text %q", tx)
			}
		}
		loud := l.ask("a", hello(true))
		th, u, source := text(loud.events, abi.BlockThinking), loud.result.Usage, loud.result.Source.Usage
		if th != strings.Join(c.script.Thinking, "") || u.Output != c.loud || source != engine.UsageReported {
			t.Errorf("%+v: with thinking %q, %+v, %v", c.script, th, u, source)
		}
		if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "field=thinking") {
			t.Errorf("the log says %s", said)
		}
	}
}

// TestFailureInHiddenThinking: nothing of it was shown, so another server answers.
func TestFailureInHiddenThinking(t *testing.T) {
	var asked atomic.Int64 // of both; the first one breaks
	script := func(n int, body []byte) fake.Script {
		s := plainAnswer(n, body)
		if asked.Add(1) == 1 {
			s.Fault, s.At = fake.DieBetweenEvents, 1
		}
		return s
	}
	m := open(t, wire.ChatCompletions, func(o *Options) { o.Counter = wordCounter{} },
		start(t, wire.ChatCompletions, script), start(t, wire.ChatCompletions, script))
	got := newLoop(t, m).ask("a", fmt.Sprintf(quietBody, true))
	if got.result.Err != nil || asked.Load() != 2 || text(got.events, abi.BlockText) != "Hello, wörld!" {
		t.Errorf("asked %d times, %q, ended with %v", asked.Load(), text(got.events, abi.BlockText), got.result.Err)
	}
}

// TestHeldBackBehindAText: pieces of a call that come with a text or behind it are not delivered: an answer that fails there
// pays the text, as its checkpoint says. Who leaves there pays what was computed.
func TestHeldBackBehindAText(t *testing.T) {
	const callOf = `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"name":"%s","arguments":"%s"}}]}}]}` + "\n\n"
	const textOf = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	m := &Model{options: Options{Flavor: wire.ChatCompletions}, set: route.New(route.Config{})}
	j := &engine.Job{Request: &engine.Request{MaxTokens: 100, Stream: true}, Output: engine.NewOutput(99)}
	sent := &sent{counted: 4, exact: true, calls: toolOf(`{}`)}
	r := &relay{model: m, job: j, sent: sent, reader: wire.NewReader(wire.ChatCompletions, nil, func() string { return "id" })}
	for n, c := range []struct {
		data            string
		computed, given int64
	}{
		{textOf + fmt.Sprintf(callOf, 0, "f", ""), 2, 1},
		{fmt.Sprintf(callOf, 0, "", "{") + fmt.Sprintf(callOf, 0, "", "}"), 4, 1},
		{fmt.Sprintf(callOf, 1, "f", "{}"), 5, 4}, // the first call is complete
		{textOf, 6, 5},
	} {
		events, err := r.reader.Feed(nil, []byte(c.data))
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > 0 {
			if o := r.deliver(events); o != nil {
				t.Fatal(o.err)
			}
		}
		failed, left := r.observed(&abi.Error{Kind: abi.Internal}), r.observed(&abi.Error{Kind: abi.Canceled})
		if checkpoint := j.Delivered(); failed.Output != c.given || left.Output != c.computed || checkpoint.Output != c.given {
			t.Errorf("%d: %d for who leaves, %d for what fails, a checkpoint of %d; want %d and %d", n, left.Output, failed.Output,
				checkpoint.Output, c.computed, c.given)
		}
	}
}

// TestLeavingHiddenThinking: who leaves while a server thinks what is not handed on pays the prompt, which
// was computed, and behind it what was handed on. An answer that breaks off there is free.
func TestLeavingHiddenThinking(t *testing.T) {
	m := &Model{options: Options{Flavor: wire.ChatCompletions, Counter: wordCounter{}}, set: route.New(route.Config{})}
	j := &engine.Job{Request: &engine.Request{MaxTokens: 100}, Output: engine.NewOutput(9)}
	r := &relay{model: m, job: j, sent: &sent{counted: 4, exact: true, quiet: true},
		reader: wire.NewReader(wire.ChatCompletions, nil, nil)}
	r.reader.HideThinking()
	left := &abi.Error{Kind: abi.Canceled}
	for _, c := range []struct {
		piece string
		want  abi.Usage
	}{
		{`"role":"assistant"`, abi.Usage{}},
		{`"reasoning_content":"a b c"`, abi.Usage{InputUncached: 4}},
		{`"reasoning_content":"d"`, abi.Usage{InputUncached: 4}},
		{`"content":"e"`, abi.Usage{InputUncached: 4, Output: 1}},
	} {
		events, err := r.reader.Feed(nil, []byte(`data: {"choices":[{"delta":{`+c.piece+"}}]}\n\n"))
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > 0 {
			if o := r.deliver(events); o != nil {
				t.Fatal(o.err)
			}
		}
		if got := r.observed(left); got != c.want {
			t.Errorf("behind %s: %+v, want %+v", c.piece, got, c.want)
		}
		if c.want.Output == 0 {
			if got := r.observed(&abi.Error{Kind: abi.Internal}); got != (abi.Usage{}) {
				t.Errorf("broken behind %s: %+v", c.piece, got)
			}
		}
	}
}

// TestRoomIsAskedOfNoServer: for how much of an answer the window has to have room is decided here.
func TestRoomIsAskedOfNoServer(t *testing.T) {
	for words, fits := range map[int]bool{1: true, 2000: false} {
		q := translated(t, responses.Translator{}.Request, `{"model":"far","input":[{"role":"user","content":"`+strings.Repeat("x ", words)+
			`"},{"type":"compaction_trigger"}]}`)
		r, err := open(t, wire.Messages, nil, start(t, wire.Messages, plainAnswer)).Prepare("a", q)
		switch {
		case q.RoomTokens == 0:
			t.Error("no room is asked for")
		case fits && (err != nil || strings.Contains(string(r.Remote.(*sent).body), "room_tokens")):
			t.Errorf("%+v, %v", r, err)
		case !fits && (err == nil || abi.AsError(err).Reason != abi.ReasonPrompt):
			t.Errorf("%d words: %v", words, err)
		}
	}
}
