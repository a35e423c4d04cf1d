package probe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Call is one usual call of a module.
type Call struct {
	Name string
	Op   abi.Op
	In   []byte
	// Bench: module bench measures this one.
	Bench bool
	// First: a node makes this one, one of each operation, before the module may serve.
	First bool
	// Mistake: it is to be refused.
	Mistake bool
	// Alone: nobody else can answer it, so it must not be declined.
	Alone bool
	// Events is how many stream events the call carries, else 0.
	Events int
}

// Facts of the usual calls: when nothing is known of the request yet, of a whole answer, of a stream.
var (
	Asked     = abi.Facts{ID: "0a1b2c3d4e5f60718293", Created: 1_700_000_000}
	Answering = abi.Facts{ID: Asked.ID, Created: Asked.Created, Model: "core-1.1"}
	Streaming = abi.Facts{ID: Asked.ID, Created: Asked.Created, Model: "core-1.1", Stream: true}
)

// Calls makes the usual calls of a module. call asks the module for what
// is passed on: kept bytes and the state of a stream.
func Calls(m Module, call vector.Call) []Call {
	switch m.Kind {
	case "billing":
		return billing(m.Counters)
	case "admission":
		return admission()
	case "rewrite":
		return rewrite()
	case "filter":
		return filter()
	}
	return append(translator(m, call), routes(m)...)
}

func billing(counters int) []Call {
	prices := abi.Prices{Input: 240, Cached: 24, Output: 2400}
	q := abi.QuoteInput{Prices: prices, Input: 12_345, OutputMax: 4096, At: Asked.Created, Model: "core-1.1",
		Account: "acct_0123456789abcdef"}
	c := abi.ChargeInput{
		Prices: prices, Usage: abi.Usage{InputUncached: 2345, CacheRead: 10_000, Output: 789, Reasoning: 123},
		At: Asked.Created, Model: q.Model, Account: q.Account,
	}
	for i := range counters {
		c.Held = append(c.Held, int64(1000*(1+i))) // a part of what it may ask for
	}
	long := c
	long.Usage.CacheRead = 240_000
	return []Call{
		{Name: "quote", Op: abi.OpQuote, In: q.Append(nil), Bench: true, First: true},
		{Name: "charge", Op: abi.OpCharge, In: c.Append(nil), Bench: true, First: true},
		{Name: "charge of a long context", Op: abi.OpCharge, In: long.Append(nil)},
	}
}

func admission() []Call {
	in := abi.AdmissionInput{
		At: Asked.Created, PromptTokens: 1200, OutputMax: 4096, Stream: true,
		Account: "acct_0123456789abcdef", Key: "key_0123456789abcdef0123", Model: "core-1.1", Protocol: "chat",
		Counters: abi.Counters{
			AccountRequests: 3, AccountRequestsMax: 8, TokensRemaining: 90_000, TokensPerMinute: 100_000,
			Available: 12_000_000_000, NodeRequests: 17, NodeRequestsMax: 64,
			ModelQueued: 3, ModelQueuedMax: 1024, ModelWaitMS: 250, ModelPagesUsed: 700, ModelPages: 4096,
		},
	}
	busy := in
	busy.Counters.NodeRequests, busy.Counters.AccountRequests, busy.Counters.TokensRemaining = 64, 8, -500
	busy.Counters.ModelQueued, busy.Counters.ModelWaitMS, busy.Counters.ModelPagesUsed = 1024, 60_000, 4096
	return []Call{
		{Name: "decide", Op: abi.OpDecide, In: in.Append(nil), Bench: true, First: true},
		{Name: "decide when all is full", Op: abi.OpDecide, In: busy.Append(nil)},
	}
}

func rewrite() []Call {
	call := func(name string, n int) Call {
		in := abi.RewriteInput{At: Asked.Created, Account: "acct_0123456789abcdef", Key: "key_0123456789abcdef0123", Protocol: "messages",
			Body: Body("messages", n)}
		return Call{Name: name, Op: abi.OpRewrite, In: in.Append(nil), Bench: n < 1<<20, First: n == 1<<10}
	}
	return []Call{call("body of 1 KB", 1<<10), call("body of 100 KB", 100<<10), call("body of 1 MB", 1<<20)}
}

func filter() []Call {
	call := func(name string, in abi.FilterInput) Call {
		in.Facts = Streaming
		return Call{Name: name, Op: abi.OpFilter, In: in.Append(nil), Bench: true, First: in.Last, Events: 1}
	}
	return []Call{
		call("a piece of text", abi.FilterInput{Block: abi.BlockText, Text: " caf\u00e9 closed."}),
		call("a block of 2 KB", abi.FilterInput{Block: abi.BlockText, Last: true,
			Text: strings.Repeat("The quick brown fox said \"hello\".\n", 60)}),
		call("a block of thinking", abi.FilterInput{Block: abi.BlockThinking, Last: true, Text: "Let me see"}),
	}
}

// routes are the calls that only a module with routes gets.
func routes(m Module) (all []Call) {
	for _, r := range m.Routes {
		if r.Op == "models" {
			in := abi.ModelsInput{Facts: Asked, Route: r.Route, Models: []abi.Model{
				{ID: "core-1.1", Name: "Core", Created: Asked.Created, Context: 262_144, Output: 32_768},
				{ID: "core-1.1-mini", Name: "Core \"mini\"", Created: Asked.Created, Context: 32_768, Output: 4096}}}
			all = append(all, Call{Name: fmt.Sprintf("models by route %d", r.Index), Op: abi.OpModels, In: in.Append(nil),
				Bench: true, First: true})
		}
	}
	if m.route("count") != nil {
		in := abi.CountInput{Facts: Answering, Tokens: 1234}
		all = append(all, Call{Name: "count", Op: abi.OpCount, In: in.Append(nil), Bench: true, First: true})
	}
	return all
}

const mistaken = "request with a mistake"

func translator(m Module, call vector.Call) []Call {
	usual := m.usual
	kept, taken := keptOf(call, usual(1<<10))
	answer := Conversation(24)
	routed := len(m.Routes) > 0 || m.Own != nil // then the bodies are of no protocol that is known here
	if routed {
		answer[len(answer)-1].Elapsed = &abi.Elapsed{Total: 3_000_000, Prompt: 1_000_000, Generation: 2_000_000}
	}
	all := []Call{
		{Name: "request of 1 KB", Op: abi.OpRequest, In: usual(1 << 10), Bench: true, First: true},
		{Name: "request of 10 KB", Op: abi.OpRequest, In: usual(10 << 10)},
		{Name: "request of 100 KB", Op: abi.OpRequest, In: usual(100 << 10), Bench: true},
		{Name: "request of 1 MB", Op: abi.OpRequest, In: usual(1 << 20)},
		{Name: mistaken, Op: abi.OpRequest, In: m.Request([]byte(`{"model":"core-1.1","stream":7}`)), Mistake: !routed},
		{Name: "answer", Op: abi.OpResponse, In: abi.ResponseInput{Facts: Answering, Kept: kept,
			Events: vector.Whole(answer)}.Append(nil), Bench: true, First: true},
		{Name: "answer of 100 KB", Op: abi.OpResponse, In: abi.ResponseInput{Facts: Answering, Kept: kept,
			Events: vector.Whole(Conversation(20_000))}.Append(nil)},
		{Name: "error", Op: abi.OpError, In: abi.ErrorInput{Facts: Answering, Status: 429, Kind: abi.RateLimited,
			Msg: "too many requests at once"}.Append(nil), Bench: true, First: true},
	}
	if m.Streams() {
		all = append(all, streams(call, kept, answer, m.History)...)
	}
	if m.Own != nil { // what is a mistake there is not known
		all = slices.DeleteFunc(all, func(c Call) bool { return c.Name == mistaken })
	}
	for i := range all { // of an answer to a request that it does not take it need not know what to do
		all[i].Alone = all[i].Op == abi.OpError || taken && all[i].Op != abi.OpRequest
	}
	return all
}

// streams are the calls for an answer that streams.
func streams(call vector.Call, kept []byte, answer []abi.Event, history bool) (all []Call) {
	for _, group := range []int{1, 8, 32} {
		in, n := deltaGroup(call, kept, answer, group, history)
		if in != nil {
			all = append(all, Call{Name: fmt.Sprintf("group of %d text events", n), Op: abi.OpEvents, In: in, Bench: true, Events: n})
		}
	}
	stream := abi.EventsInput{Facts: Streaming, Kept: kept, Events: vector.Frames(answer)}
	if history {
		stream.History = vector.Whole(answer)
	}
	return append(all, Call{Name: "a whole stream in one group", Op: abi.OpEvents, In: stream.Append(nil), First: true,
		Events: len(answer)})
}

// usual is a usual request of about n bytes.
func (m *Module) usual(n int) []byte {
	if m.Own == nil {
		return m.Request(Body(m.Protocol, n))
	}
	in := *m.Own
	in.Body = grown(in.Body, n)
	return in.Append(nil)
}

// grown is a body with its longest text repeated until it has n bytes. A shorter
// one than it is already it does not become.
func grown(body []byte, n int) []byte {
	begin, end := longestText(body)
	text := body[begin:end]
	if len(text) == 0 || len(body) >= n {
		return body
	}
	out := bytes.Clone(body[:begin])
	for range 2 + (n-len(body))/len(text) {
		out = append(out, text...)
	}
	return append(out, body[end:]...)
}

// longestText is where the longest string of a JSON text lies that is no name of a member,
// without its quotes.
func longestText(body []byte) (begin, end int) {
	for i := 0; i < len(body); i++ {
		if body[i] != '"' {
			continue
		}
		first := i + 1
		for i = first; i < len(body) && body[i] != '"'; i++ {
			if body[i] == '\\' {
				i++
			}
		}
		last := min(i, len(body))
		isName := bytes.HasPrefix(bytes.TrimLeft(body[min(last+1, len(body)):], " \t\r\n"), []byte(":"))
		if !isName && last-first > end-begin {
			begin, end = first, last
		}
	}
	return begin, end
}

// OwnRequest is the Own of a module that refuses the usual request: of the requests that its
// vectors make the longest that it takes, of those that may become longer if there are any. It
// is nil where there is none, or need be none.
func OwnRequest(m Module, vectors []*vector.Vector, call vector.Call) *abi.RequestInput {
	if m.Kind != "translator" || takes(call, m.usual(1<<10)) {
		return nil
	}
	var own *abi.RequestInput
	var ownGrows bool // it is still taken when its longest text is repeated
	keep := func(op abi.Op, in []byte) ([]byte, error) {
		if op != abi.OpRequest {
			return nil, errOnlyRequests
		}
		frame, err := call(op, in)
		frame = bytes.Clone(frame) // the next call may write over it
		if err != nil || !taken(frame) {
			return frame, err
		}
		if asked, err := abi.ParseRequestInput(bytes.Clone(in)); err == nil {
			longer := asked
			longer.Body = grown(asked.Body, 2*len(asked.Body)+10<<10)
			grows := takes(call, longer.Append(nil))
			if own == nil || grows && !ownGrows || grows == ownGrows && len(asked.Body) > len(own.Body) {
				own, ownGrows = &asked, grows
			}
		}
		return frame, nil
	}
	for _, v := range vectors {
		_ = v.Run(keep, m.History) // whether it holds is not asked here
	}
	return own
}

// errOnlyRequests ends a vector when its request has been made.
var errOnlyRequests = errors.New("only requests are made")

// takes says whether a module translates a request.
func takes(call vector.Call, request []byte) bool {
	frame, err := call(abi.OpRequest, request)
	return err == nil && taken(frame)
}

// taken says whether the output of a request is a translated one.
func taken(frame []byte) bool {
	out, err := abi.ParseOutput(frame)
	return err == nil && out.Status == abi.StatusOK
}

// Request is the input of a request with that body.
func (m *Module) Request(body []byte) []byte {
	return abi.RequestInput{Facts: Asked, Route: m.route("generate"), Body: body}.Append(nil)
}

// Body is a request of the protocol with about n bytes.
func Body(protocol string, n int) []byte {
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

// Conversation is an answer with thinking, a text of about n words and a tool call.
func Conversation(words int) []abi.Event {
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

// keptOf is what the module keeps of a request, if it takes it.
func keptOf(call vector.Call, request []byte) (kept []byte, taken bool) {
	frame, err := call(abi.OpRequest, request)
	if err != nil {
		return nil, false
	}
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK {
		return nil, false
	}
	t, err := abi.ParseTranslated(out.Payload)
	if err != nil {
		return nil, false
	}
	return bytes.Clone(t.Kept), true
}

// deltaGroup is the call with n text deltas in the middle of an answer, and n
// as far as the answer has them.
func deltaGroup(call vector.Call, kept []byte, answer []abi.Event, n int, history bool) ([]byte, int) {
	begin := 0
	for begin < len(answer) && (answer[begin].Kind != abi.EventDelta || answer[begin].Block != abi.BlockText) {
		begin++
	}
	opening := abi.EventsInput{Facts: Streaming, Kept: kept, Events: vector.Frames(answer[:begin])}
	if history {
		opening.History = vector.Whole(answer[:begin])
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
	return abi.EventsInput{Facts: Streaming, State: bytes.Clone(w.State), Events: vector.Frames(group)}.Append(nil), n
}
