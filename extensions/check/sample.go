package check

import (
	"bytes"
	"fmt"
	"strings"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// sample is one usual call.
type sample struct {
	name string
	op   abi.Op
	in   []byte
	// bench: module bench measures this one.
	bench bool
	// mistake: it is to be refused.
	mistake bool
	// events is how many stream events the call carries, else 0.
	events int
}

// Facts of the usual calls.
var (
	asked     = abi.Facts{ID: "0a1b2c3d4e5f60718293", Created: 1_700_000_000}
	answering = abi.Facts{ID: asked.ID, Created: asked.Created, Model: "core-1.1"}
	streaming = abi.Facts{ID: asked.ID, Created: asked.Created, Model: "core-1.1", Stream: true}
)

// samplesFor makes the usual calls of a module. call asks the module for what
// is passed on: kept bytes and the state of a stream.
func samplesFor(kind, protocol string, history bool, call vector.Call) []sample {
	switch kind {
	case "billing":
		return billingSamples()
	case "admission":
		return admissionSamples()
	}
	return translatorSamples(protocol, history, call)
}

func billingSamples() []sample {
	prices := abi.Prices{Input: 240, Cached: 24, Output: 2400}
	q := abi.QuoteInput{Prices: prices, Input: 12_345, OutputMax: 4096, At: asked.Created, Model: "core-1.1", Account: "acct_0123456789abcdef"}
	c := abi.ChargeInput{
		Prices: prices, Usage: abi.Usage{InputUncached: 2345, CacheRead: 10_000, Output: 789, Reasoning: 123},
		At: asked.Created, Model: q.Model, Account: q.Account,
	}
	long := c
	long.Usage.CacheRead = 240_000
	return []sample{
		{name: "quote", op: abi.OpQuote, in: q.Append(nil), bench: true},
		{name: "charge", op: abi.OpCharge, in: c.Append(nil), bench: true},
		{name: "charge of a long context", op: abi.OpCharge, in: long.Append(nil)},
	}
}

func admissionSamples() []sample {
	in := abi.AdmissionInput{
		At: asked.Created, PromptTokens: 1200, OutputMax: 4096, Stream: true,
		Account: "acct_0123456789abcdef", Key: "key_0123456789abcdef0123", Model: "core-1.1", Protocol: "chat",
		Counters: abi.Counters{
			AccountRequests: 3, AccountRequestsMax: 8, TokensRemaining: 90_000, TokensPerMinute: 100_000,
			Available: 12_000_000_000, NodeRequests: 17, NodeRequestsMax: 64,
		},
	}
	busy := in
	busy.Counters.NodeRequests, busy.Counters.AccountRequests, busy.Counters.TokensRemaining = 64, 8, -500
	return []sample{
		{name: "decide", op: abi.OpDecide, in: in.Append(nil), bench: true},
		{name: "decide when all is full", op: abi.OpDecide, in: busy.Append(nil)},
	}
}

func translatorSamples(protocol string, history bool, call vector.Call) []sample {
	kept := keptOf(call, body(protocol, 1<<10))
	answer := conversation(24)
	all := []sample{
		{name: "request of 1 KB", op: abi.OpRequest, in: request(body(protocol, 1<<10)), bench: true},
		{name: "request of 10 KB", op: abi.OpRequest, in: request(body(protocol, 10<<10))},
		{name: "request of 100 KB", op: abi.OpRequest, in: request(body(protocol, 100<<10)), bench: true},
		{name: "request of 1 MB", op: abi.OpRequest, in: request(body(protocol, 1<<20))},
		{name: "request with a mistake", op: abi.OpRequest, in: request([]byte(`{"model":"core-1.1","stream":7}`)), mistake: true},
		{name: "answer", op: abi.OpResponse, in: abi.ResponseInput{Facts: answering, Kept: kept, Events: whole(answer)}.Append(nil), bench: true},
		{name: "answer of 100 KB", op: abi.OpResponse, in: abi.ResponseInput{Facts: answering, Kept: kept, Events: whole(conversation(20_000))}.Append(nil)},
		{name: "error", op: abi.OpError, in: abi.ErrorInput{Facts: answering, Status: 429, Kind: abi.RateLimited, Msg: "too many requests at once"}.Append(nil), bench: true},
	}
	for _, group := range []int{1, 8, 32} {
		in, n := deltaGroup(call, kept, answer, group, history)
		if in != nil {
			all = append(all, sample{name: fmt.Sprintf("group of %d text events", n), op: abi.OpEvents, in: in, bench: true, events: n})
		}
	}
	stream := abi.EventsInput{Facts: streaming, Kept: kept, Events: frames(answer)}
	if history {
		stream.History = whole(answer)
	}
	return append(all, sample{name: "a whole stream in one group", op: abi.OpEvents, in: stream.Append(nil), events: len(answer)})
}

func request(body []byte) []byte { return abi.RequestInput{Facts: asked, Body: body}.Append(nil) }

// body is a request of the protocol with about n bytes.
func body(protocol string, n int) []byte {
	const turn = `The quick brown fox said \"hello\", then jumped over the lazy dog.\nIt rained: 3.5 mm, caf\u00e9 closed. `
	var b bytes.Buffer
	list := "messages"
	if protocol == "responses" {
		list = "input"
	}
	fmt.Fprintf(&b, `{"model":"core-1.1","temperature":0.7,"top_p":0.95,"stream":true,%q:[`, list)
	for i := 0; b.Len() < n-200 || i == 0; i++ {
		role, comma := "user", ","
		if i%2 == 1 {
			role = "assistant"
		}
		if i == 0 {
			comma = ""
		}
		fmt.Fprintf(&b, `%s{"role":%q,"content":"%s"}`, comma, role, strings.Repeat(turn, min(8, 1+max(0, n-b.Len()-400)/len(turn))))
	}
	b.WriteString(`,{"role":"user","content":"And now?"}]}`)
	return b.Bytes()
}

// conversation is an answer with thinking, a text of about n words and a tool call.
func conversation(words int) []abi.Event {
	used := abi.Usage{InputUncached: 900, CacheRead: 300, Output: int64(words) + 60, Reasoning: 20}
	all := []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 900, CacheRead: 300}}}
	block := func(start abi.Event, texts ...string) {
		start.Kind = abi.EventBlockStart
		all = append(all, start)
		for _, text := range texts {
			all = append(all, abi.Event{Kind: abi.EventDelta, Block: start.Block, Index: start.Index, Text: text})
		}
		all = append(all, abi.Event{Kind: abi.EventBlockStop, Block: start.Block, Index: start.Index})
	}
	block(abi.Event{Block: abi.BlockThinking}, "Let me", " see:\n", "\"what\"?")
	text := make([]string, words)
	for i := range text {
		text[i] = [...]string{" word", " caf\u00e9", " \"x\"", "\n"}[i%4]
	}
	block(abi.Event{Block: abi.BlockText, Index: 1}, text...)
	block(abi.Event{Block: abi.BlockToolUse, Index: 2, ID: "toolu_01A", Name: "get_weather"}, `{"city":`, ` "Oslo"`, `}`)
	return append(all, abi.Event{Kind: abi.EventEnd, Stop: abi.StopToolUse, Usage: used})
}

func frames(events []abi.Event) (out abi.Frames) {
	for i := range events {
		out = abi.AppendFrame(out, &events[i])
	}
	return out
}

// whole is an answer's frames with one delta a block.
func whole(events []abi.Event) (out abi.Frames) {
	for i := 0; i < len(events); i++ {
		e := events[i]
		if e.Kind == abi.EventDelta {
			text := []byte(e.Text)
			for ; i+1 < len(events) && events[i+1].Kind == abi.EventDelta && events[i+1].Index == e.Index; i++ {
				text = append(text, events[i+1].Text...)
			}
			e.Text = string(text)
		}
		out = abi.AppendFrame(out, &e)
	}
	return out
}

// keptOf is what the module keeps of a request; nil when it does not take it.
func keptOf(call vector.Call, body []byte) []byte {
	frame, err := call(abi.OpRequest, request(body))
	if err != nil {
		return nil
	}
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK {
		return nil
	}
	t, err := abi.ParseTranslated(out.Payload)
	if err != nil {
		return nil
	}
	return bytes.Clone(t.Kept)
}

// deltaGroup is the call with n text deltas in the middle of an answer, and n
// as far as the answer has them.
func deltaGroup(call vector.Call, kept []byte, answer []abi.Event, n int, history bool) ([]byte, int) {
	begin := 0
	for begin < len(answer) && (answer[begin].Kind != abi.EventDelta || answer[begin].Block != abi.BlockText) {
		begin++
	}
	opening := abi.EventsInput{Facts: streaming, Kept: kept, Events: frames(answer[:begin])}
	if history {
		opening.History = whole(answer[:begin])
	}
	frame, err := call(abi.OpEvents, opening.Append(nil))
	if err != nil {
		return nil, 0
	}
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK {
		return nil, 0
	}
	w, err := abi.ParseWritten(out.Payload)
	if err != nil {
		return nil, 0
	}
	group := make([]abi.Event, n)
	for i := range group {
		group[i] = answer[begin+i%8]
	}
	return abi.EventsInput{Facts: streaming, State: bytes.Clone(w.State), Events: frames(group)}.Append(nil), n
}
