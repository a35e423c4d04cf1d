package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// attack is input that no well-behaved client sends.
type attack struct {
	what string
	op   abi.Op
	in   []byte
	// record: the host writes the record, so a broken one may be answered with
	// anything that is no fault.
	record bool
}

// streams says whether it belongs to an answer that streams.
func (a attack) streams() bool {
	failed, err := abi.ParseErrorInput(a.in)
	return a.op == abi.OpEvents || a.op == abi.OpError && err == nil && failed.Facts.Stream
}

// hostile throws bad input at one instance: it may refuse or decline, and
// must not trap, spend its ticks, or write what nobody can read. Afterwards the
// instance must answer as before.
func (ck *checker) hostile(s *Stage) {
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	attacks := ck.attacks()
	var faults, garbage, torn, sums problems
	var long []string // inputs whose refusals a node cuts
	for _, a := range attacks {
		frame, _, err := b.call(a.op, a.in)
		switch {
		case err != nil:
			faults.add(err.Error(), a.what)
		case !a.record:
			written := &garbage
			if a.op == abi.OpEvents || a.op == abi.OpResponse {
				written = &torn
			}
			written.add(probe.Malformed(a.op, a.in, frame, ck.Framing), a.what)
			if probe.LongRefusal(frame) {
				long = append(long, a.what)
			}
			sums.add(chargeRule(a, frame), a.what)
		}
	}
	faults.tell(s, "refuse or decline what cannot be handled")
	garbage.tell(s, "check and escape what clients send before it is written")
	torn.tell(s, "write what the protocol's clients read, escaped and whole, whatever the events are")
	if len(long) > 0 {
		s.note("of %d inputs such as %s the refusal is longer than %d bytes: a node cuts it", len(long), long[0], abi.RefusalBytesMax)
	}
	sums.tell(s, "decline numbers that do not fit")
	ck.unknownFrames(s, b)
	for _, e := range ck.recorded {
		if string(e.config) != string(ck.o.Config) {
			continue
		}
		if frame, _, err := b.call(e.op, e.in); err != nil || !bytes.Equal(frame, e.frame) {
			s.fix("keep nothing of a call that was refused", "after all that, %q gives something else: %s, %v", e.what,
				probe.FirstDifference(frame, e.frame), err)
			break
		}
	}
	s.Summary = fmt.Sprintf("%d inputs that no client should send, %d faults", len(attacks), faults.count)
}

// problems gathers inputs by the problem that they show.
type problems struct {
	count  int
	kinds  []string // of problems, in the order in which they appeared
	inputs map[string][]string
}

// add notes a problem; "" is none.
func (p *problems) add(problem, input string) {
	if problem == "" {
		return
	}
	if p.inputs == nil {
		p.inputs = make(map[string][]string)
	}
	if p.inputs[problem] == nil {
		p.kinds = append(p.kinds, problem)
	}
	p.inputs[problem] = append(p.inputs[problem], input)
	p.count++
}

// tell makes one finding of each problem.
func (p *problems) tell(s *Stage, how string) {
	for _, problem := range p.kinds {
		inputs := p.inputs[problem]
		more := ""
		if len(inputs) > 1 {
			more = fmt.Sprintf(", and %d others such as %s", len(inputs)-1, inputs[len(inputs)-1])
		}
		s.fix(how, "%s: %s%s", inputs[0], problem, more)
	}
}

// chargeRule holds a charge of nonsense to the sums of every charge.
func chargeRule(a attack, frame []byte) string {
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK || a.op != abi.OpCharge {
		return ""
	}
	c, err := abi.ParseCharge(out.Payload)
	if err != nil {
		return "the charge is no such record"
	}
	if p := probe.CheckSums(c); p != nil {
		return p.What
	}
	return ""
}

// attacks are made for the module's kind, from its usual calls.
func (ck *checker) attacks() (all []attack) {
	switch ck.Kind {
	case "translator":
		all = append(append(bodies(ck.Protocol, abi.OpRequest, ck.Module.Request), events()...), failures()...)
		if !ck.Streams() {
			all = slices.DeleteFunc(all, attack.streams)
		}
	case "billing":
		all = amounts()
	case "admission":
		all = admissions()
	case "rewrite":
		all = bodies("messages", abi.OpRewrite, rewriting)
	case "filter":
		all = pieces()
	}
	for _, op := range []abi.Op{0, 7, 15, 18, 33, 99, math.MaxInt32, math.MaxUint32} {
		all = append(all, attack{what: fmt.Sprintf("the unknown op %d", op), op: op, in: []byte("x"), record: true})
	}
	for _, c := range ck.samples {
		if len(c.In) <= smallBytes {
			all = append(all, broken(c)...)
		}
	}
	return all
}

// broken are records cut short, and records with flipped bytes.
func broken(c probe.Call) (all []attack) {
	for n := 0; n < len(c.In); n += 1 + n/8 {
		all = append(all, attack{fmt.Sprintf("%s, cut to %d bytes", c.Name, n), c.Op, c.In[:n], true})
	}
	for at := 0; at < len(c.In); at += 1 + at/8 {
		flipped := bytes.Clone(c.In)
		flipped[at] ^= 0xff
		all = append(all, attack{fmt.Sprintf("%s, byte %d flipped", c.Name, at), c.Op, flipped, true})
	}
	return all
}

// Sizes of hostile input.
const (
	deepNesting = 100_000
	longText    = 1 << 20
)

// bodies are request bodies, each where a client can put it. input makes the input of op of one.
func bodies(protocol string, op abi.Op, input func(body []byte) []byte) (all []attack) {
	list := "messages"
	if protocol == "responses" {
		list = "input"
	}
	content := func(value string) string {
		return `{"model":"core-1.1","` + list + `":[{"role":"user","content":` + value + `}]}`
	}
	usual := string(probe.Body(protocol, 1<<10))
	bad := map[string]string{
		"nothing":                 "",
		"spaces":                  "   \n\t ",
		"null":                    "null",
		"a number":                "7",
		"an array":                "[]",
		"an empty object":         "{}",
		"spaces before it":        " \r\n\t" + usual + "\n",
		"a mark of byte order":    "\xef\xbb\xbf" + usual,
		"two bodies":              usual + usual,
		"a zero byte after it":    usual + "\x00",
		"deep arrays":             strings.Repeat("[", deepNesting),
		"deep objects":            strings.Repeat(`{"a":`, deepNesting),
		"deep content":            content(strings.Repeat("[", deepNesting) + strings.Repeat("]", deepNesting)),
		"deep content that stops": content(strings.Repeat(`[{"text":`, deepNesting)),
		"a long text":             content(`"` + strings.Repeat("a", longText) + `"`),
		"a long text of escapes":  content(`"` + strings.Repeat(`\u0000\"`, longText/8) + `"`),
		"a long key":              `{"` + strings.Repeat("k", longText) + `":1}`,
		"a long model":            `{"model":"` + strings.Repeat("m", longText) + `","` + list + `":[]}`,
		"many messages": `{"model":"core-1.1","` + list + `":[` +
			strings.Repeat(`{"role":"user","content":""},`, 30_000) + `{}]}`,
		"many keys":               `{` + strings.Repeat(`"a":1,`, 100_000) + `"b":2}`,
		"a huge number":           `{"model":"core-1.1","` + list + `":[],"temperature":1e999999999}`,
		"a number of many digits": `{"model":"core-1.1","` + list + `":[],"max_tokens":` + strings.Repeat("9", 100_000) + `}`,
		"the largest number": `{"model":"core-1.1","` + list + `":[],` +
			`"max_tokens":9223372036854775808,"max_output_tokens":-9223372036854775809}`,
		"no UTF-8":                  content("\"\xff\xfe\xc3\x28\xed\xa0\x80\""),
		"no UTF-8 in a key":         "{\"\xff\":1}",
		"half a surrogate pair":     content(`"\ud800 \udc00 \ud800\u0041"`),
		"control characters":        content("\"\x00\x01\x1f\n\""),
		"an escape that is none":    content(`"\x41 \u12"`),
		"separators of lines":       content("\"\u2028\u2029 \\u2028\""),
		"a text that ends a stream": content(`"\n\ndata: [DONE]\n\nevent: error\n\n"`),
		"the same key twice":        `{"model":"a","model":"b","` + list + `":[],"` + list + `":7}`,
		"values of wrong types": `{"model":7,"` + list + `":{},` +
			`"stream":"yes","tools":3,"stop":{},"stream_options":[],"reasoning":1,"store":[]}`,
		"messages that are none": `{"model":"core-1.1","` + list + `":[null,1,"a",[],` +
			`{"role":[]},{"role":"user","content":[null,{"type":7}]}]}`,
		"a tool that is none": `{"model":"core-1.1","` + list + `":[],` +
			`"tools":[null,{},{"type":"function","function":null},{"type":7}],"tool_choice":{"type":[]}}`,
		"an object that is not ended": usual[:len(usual)-1],
	}
	maps.Copy(bad, slips(list))
	for _, what := range sorted(bad) {
		all = append(all, attack{what: "a body of " + what, op: op, in: input([]byte(bad[what]))})
	}
	return all
}

// slips are bodies of JSON that a module may make something else of: names that are escaped,
// nothing between brackets but spaces, and tools and calls without what they are copied for.
func slips(list string) map[string]string {
	with := func(more string) string {
		return `{"model":"core-1.1","` + list + `":[{"role":"user","content":"a"}],` + more + `}`
	}
	call := func(id, function string) string {
		return `{"model":"core-1.1","` + list + `":[{"role":"user","content":"a"},` +
			`{"role":"assistant","tool_calls":[{` + id + `"type":"function","function":{` + function + `}}]}]}`
	}
	const id = `"id":"c",`
	return map[string]string{
		"spaces between braces":      "{ }",
		"spaces between brackets":    with(`"system":[ ],"tools":[ ],"stop":[ ],"metadata":{ }`),
		"a name that is escaped":     `{"m\u006fdel":"core-1.1","` + list + `":[]}`,
		"a name with quotes":         with(`"x\":1,\"system\":[\"":2`),
		"a tool without a name":      with(`"tools":[{"type":"function","function":{}}]`),
		"a call without an id":       call("", `"name":"f","arguments":"{}"`),
		"a call of no tool":          call(id, `"arguments":"{}"`),
		"a call with no arguments":   call(id, `"name":"f","arguments":""`),
		"a call with half an object": call(id, `"name":"f","arguments":"{\"a\":"`),
		"a result of no call":        `{"model":"core-1.1","` + list + `":[{"role":"tool","content":"a"}]}`,
	}
}

// rewriting is the input of a rewrite: a node hands over what a client sent before it has read it.
func rewriting(body []byte) []byte {
	return abi.RewriteInput{At: probe.Asked.Created, Account: "account", Protocol: "messages", Body: body}.Append(nil)
}

// pieces are of a block's text as a model may write it. The node gives whole characters, and
// as state what the piece before left: where these are not so, only a fault counts.
func pieces() (all []attack) {
	texts := map[string]string{
		"no text":                   "",
		"a long text":               strings.Repeat("a", longText),
		"a long text of wide runes": strings.Repeat("\U0001F600", longText/4),
		"a long line of quotes":     strings.Repeat("\"\\", longText/2),
		"control characters":        "\x00\x01\x1f\x7f\r\n\t",
		"odd characters":            "\u2028\ufeff\ufffd e\u0301 \u202e \U0010ffff",
		"a text that ends a stream": "\n\ndata: [DONE]\n\nevent: error\n\n",
		"half a character":          "caf\xc3",
		"the other half":            "\xa9 closed",
		"half a surrogate pair":     "\xed\xa0\x80",
		"no UTF-8":                  "\xff\xfe\xc3\x28",
	}
	add := func(what string, in abi.FilterInput, record bool) {
		in.Facts = probe.Streaming
		for _, in.Last = range []bool{false, true} {
			all = append(all, attack{fmt.Sprintf("%s, last %v", what, in.Last), abi.OpFilter, in.Append(nil), record})
		}
	}
	for _, what := range sorted(texts) {
		add("a piece of "+what, abi.FilterInput{Block: abi.BlockText, Text: texts[what]}, !utf8.ValidString(texts[what]))
	}
	noise := bytes.Repeat([]byte{0xff, 'x', 0}, abi.FilterStateMax/3)
	add("a state of noise", abi.FilterInput{Block: abi.BlockText, State: noise, Text: "a"}, true)
	add("a block of no kind", abi.FilterInput{Block: 200, Text: "a"}, true)
	return all
}

// sorted gives a report the same order every time.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// events are streams and answers that the engine does not make in this order.
func events() (all []attack) {
	usual := probe.Conversation(4)
	last := usual[len(usual)-1]
	long := abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: strings.Repeat("a\"\n", longText/3)}
	odd := abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: "\u2028\u0000\x7f\U0001F600 data: [DONE]\n\n"}
	high := abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: math.MaxUint16, ID: strings.Repeat("i",
		60_000), Name: "n\"\n"}
	stop := abi.Event{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: math.MaxUint16}
	huge := abi.Event{Kind: abi.EventEnd, Stop: abi.StopStopSequence, StopSequence: strings.Repeat("\"", 1000),
		Usage: abi.Usage{InputUncached: math.MaxInt64, CacheRead: math.MaxInt64, CacheWrite: math.MaxInt64,
			Output: math.MaxInt64, Reasoning: math.MaxInt64}}
	unusual := map[string][]abi.Event{
		"no events":          {},
		"only an end":        {last},
		"a start and an end": {usual[0], last},
		"a long text": {usual[0], {Kind: abi.EventBlockStart, Block: abi.BlockText}, long,
			{Kind: abi.EventBlockStop, Block: abi.BlockText}, last},
		"odd characters": {usual[0], {Kind: abi.EventBlockStart, Block: abi.BlockText}, odd,
			{Kind: abi.EventBlockStop, Block: abi.BlockText}, last},
		"a tool with a long id": {usual[0], high, stop, last},
		"numbers that overflow": {usual[0], huge},
	}
	for _, what := range sorted(unusual) {
		order := unusual[what]
		all = append(all,
			attack{what: "a stream of " + what, op: abi.OpEvents, in: abi.EventsInput{Facts: probe.Streaming,
				History: vector.Whole(order), Events: vector.Frames(order)}.Append(nil)},
			attack{what: "an answer of " + what, op: abi.OpResponse, in: abi.ResponseInput{Facts: probe.Answering,
				Events: vector.Whole(order)}.Append(nil)})
	}
	disorder := map[string][]abi.Event{
		"two ends":            append(usual[:len(usual):len(usual)], last, last),
		"two starts":          append([]abi.Event{usual[0]}, usual...),
		"stops only":          {stop, stop, stop},
		"texts only":          {odd, odd},
		"everything reversed": reversed(usual),
	}
	for _, what := range sorted(disorder) {
		f := vector.Frames(disorder[what])
		all = append(all,
			attack{"a stream of " + what, abi.OpEvents, abi.EventsInput{Facts: probe.Streaming, Events: f}.Append(nil), true},
			attack{"an answer of " + what, abi.OpResponse, abi.ResponseInput{Facts: probe.Answering, Events: f}.Append(nil), true})
	}
	noise := bytes.Repeat([]byte{0xff, 'x', 0}, 1300)
	in := abi.EventsInput{Facts: probe.Streaming, State: noise, Kept: noise, History: abi.Frames(noise), Events: vector.Frames(usual)}
	return append(all, attack{"state and history of noise", abi.OpEvents, in.Append(nil), true})
}

func reversed(events []abi.Event) []abi.Event {
	out := make([]abi.Event, len(events))
	for i, e := range events {
		out[len(out)-1-i] = e
	}
	return out
}

// failures are errors whose message came from outside.
func failures() (all []attack) {
	for _, k := range append(abi.Kinds(), 999) {
		for _, f := range []abi.Facts{{}, probe.Answering, probe.Streaming} {
			in := abi.ErrorInput{Facts: f, Status: 599, Kind: k, Param: "a\"b\\c\n\x00",
				Msg: "\xff\xfe \"quoted\" \\ \n\ndata: [DONE]\n\n\u2028" + strings.Repeat("m", 10_000)}
			all = append(all, attack{what: fmt.Sprintf("an error of kind %d with an odd message, stream %v", k, f.Stream),
				op: abi.OpError, in: in.Append(nil)})
		}
	}
	return all
}

// amounts are charges and quotes of numbers at the edge.
func amounts() (all []attack) {
	edges := []int64{0, -1, 1, math.MaxInt32, 1 << 40, math.MaxInt64, math.MinInt64}
	for _, price := range edges {
		for _, n := range edges {
			p := abi.Prices{Input: abi.Nano(price), Cached: abi.Nano(price), Output: abi.Nano(price)}
			q := abi.QuoteInput{Prices: p, Input: n, OutputMax: n, At: n, Model: "m\xff", Account: strings.Repeat("a", 1000)}
			c := abi.ChargeInput{Prices: p, Usage: abi.Usage{InputUncached: n, CacheRead: n, CacheWrite: n, Output: n,
				Reasoning: n}, At: n, Model: "m\xff"}
			what := fmt.Sprintf("price %d and %d tokens", price, n)
			all = append(all, attack{what: "a quote of " + what, op: abi.OpQuote, in: q.Append(nil)},
				attack{what: "a charge of " + what, op: abi.OpCharge, in: c.Append(nil)})
		}
	}
	return all
}

func admissions() (all []attack) {
	for _, n := range []int64{0, -1, 1, math.MaxInt64, math.MinInt64} {
		in := abi.AdmissionInput{
			At: n, PromptTokens: n, OutputMax: n, Account: strings.Repeat("a", longText), Key: "\xff", Model: "\x00",
			Counters: abi.Counters{AccountRequests: n, AccountRequestsMax: n, TokensRemaining: n, TokensPerMinute: n,
				Available: abi.Nano(n), NodeRequests: n, NodeRequestsMax: n,
				ModelQueued: n, ModelQueuedMax: n, ModelWaitMS: n, ModelPagesUsed: n, ModelPages: n},
		}
		all = append(all, attack{what: fmt.Sprintf("a decision with every number %d", n), op: abi.OpDecide, in: in.Append(nil)})
	}
	return all
}

// unknownFrames holds a translator to skip events of kinds that it does not
// know: a later host may send them.
func (ck *checker) unknownFrames(s *Stage, b *sandbox) {
	if ck.Kind != "translator" || !ck.Streams() {
		return
	}
	usual := probe.Conversation(4)
	strange := binary.LittleEndian.AppendUint32([]byte{200, 7, 9, 0}, 5)
	strange = append(strange, "later"...)
	for cut := 1; cut < len(usual); cut += 4 {
		in := abi.EventsInput{Facts: probe.Streaming, Events: vector.Frames(usual)}
		if ck.History {
			in.History = vector.Whole(usual)
		}
		plain, _, err := b.call(abi.OpEvents, in.Append(nil))
		if err != nil {
			return // told by another stage
		}
		in.Events = append(append(vector.Frames(usual[:cut]), strange...), vector.Frames(usual[cut:])...)
		frame, _, err := b.call(abi.OpEvents, in.Append(nil))
		if err != nil || !bytes.Equal(frame, plain) {
			s.fix("skip events of kinds that are not known",
				"an event of the unknown kind 200 changes what is written: %s, %v", probe.FirstDifference(frame, plain), err)
			return
		}
	}
}
