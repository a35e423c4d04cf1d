package wire

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// chatStream joins chunks to a stream.
func chatStream(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"
}

// piece is a chunk with this inside of its delta, and more behind its choice's delta.
func piece(delta, more string) string {
	return `{"choices":[{"delta":{` + delta + `}` + more + `}]}`
}

const (
	sayHi   = `"content":"hi"`
	stopped = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
)

// callF and useF are a call of f, in either protocol.
var (
	callF = piece(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]`, "")
	useF  = `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{}}}` + "\n\n" + stop(0)
)

// read takes a stream, in pieces, to its events in short and what came of it.
func read(f Flavor, pieces ...string) string {
	r := NewReader(f, []string{"END"}, func() string { return "id" })
	var events []abi.Event
	var err error
	for _, b := range pieces {
		if events, err = r.Feed(events, []byte(b)); err != nil {
			break
		}
	}
	if err == nil {
		events, err = r.End(events)
	}
	return short(events) + outcomeOf(err)
}

func outcomeOf(err error) string {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return fmt.Sprintf(" failure %d %s", failure.Status, failure.Msg)
	case errors.Is(err, ErrBroken):
		return " broken"
	case err != nil:
		return " " + err.Error()
	}
	return ""
}

// short writes text blocks as T[..], thinking as H[..~signature], calls as C:name[..], and
// the end as its reason.
func short(events []abi.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case abi.EventBlockStart:
			b.WriteString(map[abi.BlockKind]string{abi.BlockText: "T[", abi.BlockThinking: "H[", abi.BlockToolUse: "C:" + e.Name + "["}[e.Block])
		case abi.EventDelta:
			b.WriteString(e.Text)
		case abi.EventBlockStop:
			if e.Signature != "" {
				b.WriteString("~" + e.Signature)
			}
			b.WriteString("]")
		case abi.EventEnd:
			fmt.Fprintf(&b, " %s", map[abi.StopReason]string{abi.StopEndTurn: "end", abi.StopMaxTokens: "max",
				abi.StopToolUse: "use", abi.StopStopSequence: "stop " + e.StopSequence}[e.Stop])
		}
	}
	return b.String()
}

// oddStreams are what servers send, or might, beside what their protocol says.
var oddStreams = []struct {
	name   string
	flavor Flavor
	stream string
	want   string
}{
	{"plain", VLLM, chatStream(piece(sayHi, ""), stopped, "[DONE]"), "T[hi] end"},
	{"CRLF", VLLM, strings.ReplaceAll(chatStream(piece(sayHi, ""), stopped, "[DONE]"), "\n", "\r\n"), "T[hi] end"},
	{"comments", VLLM, ": hello\n\n" + strings.ReplaceAll(chatStream(piece(sayHi, ""), stopped, "[DONE]"), "data", ":\nid: 1\ndata"), "T[hi] end"},
	{"no space", VLLM, strings.ReplaceAll(chatStream(piece(sayHi, ""), stopped, "[DONE]"), "data: ", "data:"), "T[hi] end"},
	{"data in two lines", VLLM, strings.ReplaceAll(chatStream(piece(sayHi, ""), stopped, "[DONE]"), `[{`, "[\ndata: {"), "T[hi] end"},
	{"two [DONE]", VLLM, chatStream(piece(sayHi, ""), stopped, "[DONE]", "[DONE]", "more"), "T[hi] end"},
	{"no [DONE]", VLLM, chatStream(piece(sayHi, ""), stopped), "T[hi] end"},
	{"[DONE] without a reason", VLLM, chatStream(piece(sayHi, ""), "[DONE]"), "T[hi broken"},
	{"ends early", VLLM, chatStream(piece(sayHi, "")), "T[hi broken"},
	{"no end of the last frame", VLLM, strings.TrimRight(chatStream(piece(sayHi, ""), stopped), "\n"), "T[hi broken"},
	{"nothing", VLLM, "", " broken"},
	{"no text", VLLM, chatStream(stopped), " end"},
	{"no JSON", VLLM, chatStream(piece(sayHi, ""), `{"choices":[{`), "T[hi broken"},
	{"no object", VLLM, chatStream(`[1]`), " broken"},
	{"thinking", VLLM, chatStream(piece(`"reasoning_content":"a","reasoning":"a"`, ""), piece(sayHi, ""), stopped), "H[a]T[hi] end"},
	{"error object", VLLM, chatStream(piece(sayHi, ""), `{"error":{"message":"full","code":503}}`), "T[hi failure 503 full"},
	{"error code as text", VLLM, chatStream(`{"error":{"message":"m","code":"429","x":[]}}`), " failure 429 m"},
	{"error string", VLLM, chatStream(`{"error":"sorry"}`), " failure 0 sorry"},
	{"error null", VLLM, chatStream(`{"error":null,"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`), "T[hi] end"},
	{"stop_reason text", VLLM, chatStream(piece(sayHi, `,"finish_reason":"stop","stop_reason":"END"`)), "T[hi] stop END"},
	{"stop_reason unknown", VLLM, chatStream(piece(sayHi, `,"finish_reason":"stop","stop_reason":"other"`)), "T[hi] end"},
	{"stop_reason number", VLLM, chatStream(piece(sayHi, `,"finish_reason":"stop","stop_reason":151645`)), "T[hi] end"},
	{"matched_stop", SGLang, chatStream(piece(sayHi, `,"finish_reason":"stop","matched_stop":"END"`)), "T[hi] stop END"},
	{"matched_stop number", SGLang, chatStream(piece(sayHi, `,"matched_stop":2,"finish_reason":"length"`)), "T[hi] max"},
	{"given up", ChatCompletions, chatStream(piece(sayHi, `,"finish_reason":"insufficient_system_resource"`), "[DONE]"), "T[hi broken"},
	{"cut at the window", ChatCompletions, chatStream(piece(sayHi, `,"finish_reason":"model_length"`), "[DONE]"), "T[hi] max"},
	{"unknown reason", ChatCompletions, chatStream(piece(sayHi, `,"finish_reason":"eos"`), "[DONE]"), "T[hi] end"},
	{"cut by a filter", ChatCompletions, chatStream(piece(sayHi, `,"finish_reason":"content_filter"`), "[DONE]"),
		"T[hi failure 400 its content filter cut the answer off"},
	{"cut by a filter within a call", VLLM, chatStream(piece(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]`,
		`,"finish_reason":"content_filter"`)), " failure 400 its content filter cut the answer off"},
	{"cut by a classifier", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("refusal", "null"),
		"T[hi failure 400 its content filter cut the answer off"},
	{"stop_reason behind a call", VLLM, chatStream(callF, piece("", `,"finish_reason":"tool_calls","stop_reason":"END"`)), "C:f[{}] use"},
	{"matched_stop behind a call", SGLang, chatStream(callF, piece("", `,"finish_reason":"stop","matched_stop":"END"`)), "C:f[{}] use"},
	{"stop_sequence behind a call", Messages, messageStart + useF + messageEnd("stop_sequence", `"END"`), "C:f[{}] use"},
	{"end_turn behind a call", Messages, messageStart + useF + messageEnd("end_turn", "null"), "C:f[{}] use"},
	{"cut behind a call", Messages, messageStart + useF + messageEnd("max_tokens", `"END"`), "C:f[{}] max"},
	{"a call that is not there", VLLM, chatStream(piece(sayHi, `,"finish_reason":"tool_calls"`)), "T[hi] end"},
	{"a stop sequence in place of a call", SGLang, chatStream(piece(sayHi, `,"finish_reason":"tool_calls","matched_stop":"END"`)),
		"T[hi] stop END"},
	{"a tool use that is not there", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("tool_use", "null"), "T[hi] end"},
	{"a stop sequence of nobody", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("stop_sequence", `"other"`), "T[hi] end"},
	{"a stop sequence without its text", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("stop_sequence", "null"),
		"T[hi] end"},
	{"call", VLLM, chatStream(piece(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\""}}]`, ""),
		piece(`"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]`, ""), piece("", `,"finish_reason":"tool_calls"`)), `C:f[{"a":1}] use`},
	{"call without index", VLLM, chatStream(piece(`"tool_calls":[{"function":{"name":"f","arguments":"{"}}]`, ""),
		piece(`"tool_calls":[{"function":{"arguments":"}"}}]`, ""), stopped), `C:f[{}] use`},
	{"arguments as object", LlamaServer, chatStream(piece(`"tool_calls":[{"function":{"name":"f","arguments":{"a":[1]}}}]`, ""), stopped),
		`C:f[{"a":[1]}] use`},
	{"call without arguments", VLLM, chatStream(piece(`"tool_calls":[{"function":{"name":"f"}}]`, ""), stopped), `C:f[{}] use`},
	{"call without name", VLLM, chatStream(piece(`"tool_calls":[{"function":{"arguments":"{}"}}]`, ""), stopped), ` broken`},
	{"two calls", VLLM, chatStream(piece(sayHi+`,"tool_calls":[{"index":0,"function":{"name":"f"}},{"index":1,"function":{"name":"g"}}]`, ""),
		stopped), `T[hi]C:f[{}]C:g[{}] use`},
	{"more of a call that was complete", VLLM, chatStream(piece(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]`, ""),
		piece(`"tool_calls":[{"index":1,"function":{"name":"g"}}]`, ""), piece(`"tool_calls":[{"index":0,"function":{"arguments":"}"}}]`, ""),
		stopped), `C:f[{] broken`},
	{"a call is left out", VLLM, chatStream(piece(`"tool_calls":[{"index":3,"function":{"name":"f"}}]`, "")), ` broken`},
	{"stops at the end", Messages, messageStart + block(0, "thinking", "thinking", "a") + block(1, "text", "text", "hi") +
		`data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"x","name":"f","input":{}}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}` + "\n\n" +
		stop(0) + stop(1) + stop(2) + messageEnd("tool_use", "null"), "H[a]T[hi]C:f[{}] use"},
	{"no stops", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("end_turn", "null"), "T[hi] end"},
	{"delta behind its stop", Messages, messageStart + block(0, "text", "text", "hi") + stop(0) +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n", "T[hi] broken"},
	{"delta of an earlier block", Messages, messageStart + block(0, "text", "text", "a") + block(1, "text", "text", "b") +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n", "T[a]T[b broken"},
	{"stop sequence", Messages, messageStart + block(0, "text", "text", "hi") + messageEnd("stop_sequence", `"END"`), "T[hi] stop END"},
	{"type in the event line", Messages, "event: ping\ndata: {}\n\n" + messageStart + "event: message_delta\ndata: " +
		`{"delta":{"stop_reason":"max_tokens"}}` + "\n\nevent: message_stop\ndata: {}\n\n", " max"},
	{"no message_stop", Messages, strings.Split(messageStart+messageEnd("end_turn", "null"), "data: {\"type\":\"message_stop")[0], " end"},
	{"[DONE] behind it", Messages, messageStart + messageEnd("end_turn", "null") + "data: [DONE]\n\n", " end"},
	{"message_stop alone", Messages, messageStart + "data: {\"type\":\"message_stop\"}\n\n", " broken"},
	{"error event", Messages, messageStart + `data: {"type":"error","error":{"type":"overloaded_error","message":"full"}}` + "\n\n", " failure 503 full"},
	{"signature", Corenode, messageStart + block(0, "thinking", "thinking", "a") +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}` + "\n\n" + stop(0) +
		messageEnd("end_turn", "null"), "H[a~s] end"},
	{"text in a block's start", Messages, messageStart +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a"}}` + "\n\n" +
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"h"}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"i"}}` + "\n\n" +
		messageEnd("end_turn", "null"), "H[a]T[hi] end"},
	{"thinking that is hidden", Messages, messageStart + block(0, "thinking", "thinking", "a") + redacted(1) + stop(1) +
		block(2, "text", "text", "hi") + messageEnd("end_turn", "null"), "H[a]T[hi] end"},
	{"nothing but that", Messages, messageStart + redacted(0) + messageEnd("max_tokens", "null"), " max"},
	{"a delta within that", Messages, messageStart + redacted(0) +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n", " broken"},
	{"unknown block", Messages, messageStart + block(0, "image", "text", ""), " broken"},
}

const messageStart = `data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5}}}` + "\n\n"

// block is a block's start with one delta.
func block(index int, kind, member, text string) string {
	return fmt.Sprintf(`data: {"type":"content_block_start","index":%d,"content_block":{"type":%q,%q:""}}`, index, kind, member) + "\n\n" +
		fmt.Sprintf(`data: {"type":"content_block_delta","index":%d,"delta":{"type":"%s_delta",%q:%q}}`, index, kind, member, text) + "\n\n"
}

// redacted is a block of thinking that nobody but its server can read.
func redacted(index int) string {
	return fmt.Sprintf(`data: {"type":"content_block_start","index":%d,"content_block":{"type":"redacted_thinking","data":"EqMD"}}`, index) + "\n\n"
}

func stop(index int) string {
	return fmt.Sprintf(`data: {"type":"content_block_stop","index":%d}`, index) + "\n\n"
}

func messageEnd(reason, sequence string) string {
	return fmt.Sprintf(`data: {"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":%s},"usage":{"output_tokens":3}}`,
		reason, sequence) + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
}

// TestOddStreams: what they say is understood, the same wherever they are cut.
func TestOddStreams(t *testing.T) {
	for _, c := range oddStreams {
		if got := read(c.flavor, c.stream); got != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, c.stream)
			continue
		}
		for i := range len(c.stream) {
			if got := read(c.flavor, c.stream[:i], c.stream[i:]); got != c.want {
				t.Errorf("%s, cut at %d: %q, want %q", c.name, i, got, c.want)
				break
			}
		}
	}
}

// TestRedacted: what nobody can read is counted among what the server sent.
func TestRedacted(t *testing.T) {
	r := NewReader(Messages, nil, nil)
	if _, err := r.Feed(nil, []byte(messageStart+redacted(0)+redacted(1))); err != nil || r.Bytes() != 8 {
		t.Errorf("%d bytes, %v", r.Bytes(), err)
	}
}

// TestOneCall: behind the only call that is wanted none is given. The pieces of others count and stay held, and the answer ends
// for the one that was given.
func TestOneCall(t *testing.T) {
	call := func(i int, arguments string) string {
		return piece(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"name":"f","arguments":%q}}]`, i, arguments), "")
	}
	use := func(i int, arguments string) string {
		return fmt.Sprintf(`data: {"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","name":"f"}}`, i) + "\n\n" +
			fmt.Sprintf(`data: {"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, i,
				arguments) + "\n\n" + stop(i)
	}
	cut, cutBlock := piece("", `,"finish_reason":"length"`), messageEnd("max_tokens", "null")
	for _, c := range []struct {
		name, stream, want string
		flavor             Flavor
		pieces, held       int64
	}{
		{"one", chatStream(call(0, "{}"), cut), "C:f[{}] max", VLLM, 1, 0},
		{"two", chatStream(call(0, "{}"), call(1, "[]"), stopped, "[DONE]"), "C:f[{}] use", VLLM, 2, 1},
		{"one and a part", chatStream(call(0, "{}"), call(1, `{"a`), cut), "C:f[{}] use", VLLM, 2, 1},
		{"one block", messageStart + use(0, "{}") + cutBlock, "C:f[{}] max", Messages, 1, 0},
		{"three blocks", messageStart + use(0, "{}") + use(1, `{"a`) + use(2, "[]") + cutBlock, "C:f[{}] use", Messages, 3, 2},
		{"a stop sequence within", messageStart + use(0, "{}") + use(1, `{"a`) + messageEnd("stop_sequence", `"END"`), "C:f[{}] use",
			Messages, 2, 1},
		{"a text behind", messageStart + use(0, "{}") + use(1, "{}") + block(2, "text", "text", "hi") + stop(2) +
			messageEnd("end_turn", "null"), "C:f[{}]T[hi] use", Messages, 3, 1},
	} {
		r := NewReader(c.flavor, []string{"END"}, func() string { return "id" })
		r.OneCall()
		events, err := r.Feed(nil, []byte(c.stream))
		if err == nil {
			events, err = r.End(events)
		}
		checkForm(t, events, err == nil)
		if got := short(events) + outcomeOf(err); got != c.want || r.Delivered() != c.pieces || r.Held() != c.held {
			t.Errorf("%s: %q of %d pieces, %d held; want %q of %d, %d held", c.name, got, r.Delivered(), r.Held(), c.want, c.pieces, c.held)
		}
	}
}

// reasoned is an answer whose report has 9 tokens of the prompt, 3 of reasoning, and more; reasoning what comes of it.
func reasoned(more string) string {
	return chatStream(piece(sayHi, ""), stopped,
		`{"choices":[],"usage":{"prompt_tokens":9,`+more+`,"completion_tokens_details":{"reasoning_tokens":3}}}`, "[DONE]")
}

func reasoning(output int64) Usage {
	return Usage{Input: 9, Output: output, Reasoning: 3, Known: true, ReasoningKnown: true}
}

func besides(output int64) Usage {
	u := reasoning(output)
	u.Beside = 3
	return u
}

// thoughtEnd is messageEnd with more in its usage.
func thoughtEnd(more string) string {
	return strings.Replace(messageEnd("end_turn", "null"), `"output_tokens":3`, `"output_tokens":3,`+more, 1)
}

// TestUsageReports: at the end alone, on each chunk, or with parts left out. Reasoning is part of the output, also
// where the server reports it beside: then how much of it that is stays known.
func TestUsageReports(t *testing.T) {
	behind := `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`
	for _, c := range []struct {
		name, stream string
		flavor       Flavor
		want         Usage
	}{
		{"at the end", chatStream(piece(sayHi, ""), stopped, behind, "[DONE]"), VLLM, Usage{Input: 9, Output: 3, Cached: 4, Known: true, CachedKnown: true}},
		{"none", chatStream(piece(sayHi, ""), stopped, "[DONE]"), VLLM, Usage{}},
		{"null", chatStream(`{"usage":null,"choices":[]}`, stopped), VLLM, Usage{}},
		{"behind [DONE]", chatStream(stopped, "[DONE]", behind), VLLM, Usage{}},
		{"on each chunk", chatStream(`{"usage":{"prompt_tokens":9,"completion_tokens":1},"choices":[{"delta":{"content":"a"}}]}`,
			`{"usage":{"prompt_tokens":9,"completion_tokens":2},"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`, "[DONE]"),
			VLLM, Usage{Input: 9, Output: 2, Known: true}},
		{"reasoning among the completion", reasoned(`"completion_tokens":5,"total_tokens":14`), VLLM, reasoning(5)},
		{"beside it", reasoned(`"completion_tokens":5,"total_tokens":17`), VLLM, besides(8)},
		{"beside it, less text", reasoned(`"completion_tokens":2,"total_tokens":14`), VLLM, besides(5)},
		{"more than it, no total", reasoned(`"completion_tokens":2`), VLLM, besides(5)},
		{"more than it, another total", reasoned(`"completion_tokens":2,"total_tokens":99`), VLLM, besides(5)},
		{"more than it, a total of the two", reasoned(`"completion_tokens":2,"total_tokens":11`), VLLM, reasoning(2)},
		{"less than it, no total", reasoned(`"completion_tokens":5`), VLLM, reasoning(5)},
		{"negative", chatStream(`{"usage":{"prompt_tokens":-9,"completion_tokens":-1},"choices":[]}`, stopped), VLLM, Usage{}},
		{"beyond all bounds", chatStream(piece(`"reasoning":"a"`, ""), piece(sayHi, ""),
			`{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807},"choices":[]}`), VLLM, Usage{}},
		{"in two events", messageStart + block(0, "text", "text", "hi") + messageEnd("end_turn", "null"), Messages,
			Usage{Input: 5, Output: 3, Known: true}},
		{"thinking among the output", messageStart + thoughtEnd(`"output_tokens_details":{"x":[],"thinking_tokens":2}`), Messages,
			Usage{Input: 5, Output: 3, Reasoning: 2, Known: true, ReasoningKnown: true}},
		{"no details of the output", messageStart + thoughtEnd(`"output_tokens_details":null`), Messages, Usage{Input: 5, Output: 3, Known: true}},
		{"another node's", messageStart + thoughtEnd(`"reasoning_tokens":2`), Corenode,
			Usage{Input: 5, Output: 3, Reasoning: 2, Known: true, ReasoningKnown: true}},
	} {
		r := NewReader(c.flavor, nil, nil)
		if _, err := r.Feed(nil, []byte(c.stream)); err != nil {
			t.Fatal(err)
		}
		if got := r.Usage(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// checkForm: the start comes first, blocks come one after the other, nothing is behind the
// end; a stream that is complete has one, with no block left open.
func checkForm(t *testing.T, events []abi.Event, complete bool) {
	t.Helper()
	var kind abi.BlockKind
	open, index, ended := false, int32(0), false
	for i, e := range events {
		ok := !ended && (e.Kind == abi.EventStart) == (i == 0)
		switch e.Kind {
		case abi.EventBlockStart:
			ok = ok && !open && e.Index == index
			open, kind = true, e.Block
		case abi.EventDelta:
			ok = ok && open && e.Index == index && e.Block == kind && e.Text != ""
		case abi.EventBlockStop:
			ok = ok && open && e.Index == index && e.Block == kind
			open = false
			index++
		case abi.EventEnd:
			ok = ok && !open
			ended = true
		}
		if !ok {
			t.Fatalf("event %d of %s is out of form: %+v", i, short(events), e)
		}
	}
	if complete != ended {
		t.Fatalf("complete %v, ended %v", complete, ended)
	}
}

// TestManyPieces: a server that sends a name, a signature or a line in very many pieces makes a node do as much as their bytes
// are, and no piece is put behind all those before it anew.
func TestManyPieces(t *testing.T) {
	const pieces = 20_000
	long := strings.Repeat("n", 1<<20)
	named := func(name string) string { return `{"function":{"name":"` + name + `"}}` }
	signed := `data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"`
	for name, c := range map[string]struct {
		flavor Flavor
		stream string
		want   string
	}{
		"a name": {VLLM, chatStream(piece(`"tool_calls":[`+named(long)+`]`, ""),
			piece(`"tool_calls":[`+named("n")+strings.Repeat(","+named("n"), pieces)+`]`, "")), " broken"},
		"a name in one frame": {VLLM, chatStream(piece(`"tool_calls":[`+named(long)+strings.Repeat(","+named("n"), pieces)+`]`, "")), " broken"},
		"a long name": {Messages, `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"` + long + `"}}` + "\n\n" +
			stop(0) + messageEnd("tool_use", "null"), " broken"},
		"a signature": {Messages, messageStart + block(0, "thinking", "thinking", "a") + signed + long + "\"}}\n\n" +
			strings.Repeat(signed+"s\"}}\n\n", pieces) + stop(0) + messageEnd("end_turn", "null"),
			"H[a~" + long + strings.Repeat("s", pieces) + "] end"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := read(c.flavor, c.stream)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
			t.Errorf("%s: %d bytes", name, took)
		}
		if got != c.want {
			t.Errorf("%s: %.100q, want %.100q", name, got, c.want)
		}
	}
}

// TestLineInPieces: what has come of a line is not looked through again. Here it has what would end it.
func TestLineInPieces(t *testing.T) {
	f := frames{rest: []byte("data: a\n\n")}
	none := func(event, data []byte) error { t.Errorf("a frame: %q", data); return nil }
	if err := f.feed([]byte("b"), none); err != nil || string(f.rest) != "data: a\n\nb" {
		t.Errorf("%q, %v", f.rest, err)
	}
	f.rest = append(f.rest[:0], make([]byte, frameBytesMax)...)
	if err := f.feed([]byte("b"), none); err != errFrameSize {
		t.Errorf("a line that is too long: %v", err)
	}
}
