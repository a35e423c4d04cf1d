package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine/embedded"
	"corenode/engine/kernel"
	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// script is a forward pass that writes an answer word for word: the token
// after position prompt+i-1 is answer[i].
type script struct {
	prompt int
	answer []int32
}

func (f *script) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, rows []int32, logits [][]float32) error {
	for i, row := range rows {
		clear(logits[i])
		for _, sp := range step.Spans {
			if at := int(row) - sp.Row; at >= 0 && at < sp.Len {
				logits[i][f.answer[sp.Pos+at+1-f.prompt]] = 1000
			}
		}
	}
	return nil
}

func (*script) Close() {}

// piece is a part of a scripted answer.
type piece struct {
	text    string
	thought bool
}

var scripts = map[string][]piece{
	"thinking and text":    {{"Let me see, perhaps é or 汉字 it is.\n</think>", true}, {"\n\nThe answer is 42.", false}},
	"nothing but thinking": {{"I go on and on and on about it", true}},
	"a call": {{"The user wants weather.\n</think>", true},
		{"\n\nLooking.\n\n<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>", false}},
	"a call out of thinking": {{"I need weather.\n<tool_call>", true}, {"\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>", false}},
	"a mention of a call":    {{"To call I write ‹tool_call> like that, and now I am done.</think>", true}, {"Done.", false}},
}

// TestReasoningIsCountedExactly plays scripted answers, each cut at every
// length, streamed and whole: output and reasoning are the tokens written,
// reasoning those of the thinking part.
func TestReasoningIsCountedExactly(t *testing.T) {
	o := options(Instant)
	o.Info.ContextLength, o.Data = 2048, embedded.Model("core-1.1-mini")
	e, s := open2(t, o)
	play := &script{}
	e.forwarder = play
	cases := 0
	for name, pieces := range scripts {
		var answer []int32
		var thoughts []bool
		for _, p := range pieces {
			before, mention, _ := strings.Cut(p.text, "‹")
			ids := e.tokenizer.EncodePrompt(nil, before)
			if mention != "" { // spelled out
				ids = e.tokenizer.EncodePrompt(e.tokenizer.Encode(ids, "<tool_call>"), strings.TrimPrefix(mention, "tool_call>"))
			}
			answer = append(answer, ids...)
			thoughts = append(thoughts, slices.Repeat([]bool{p.thought}, len(ids))...)
		}
		stop := e.tokenizer.Stops()[0]
		answer, thoughts = append(answer, stop), append(thoughts, pieces[len(pieces)-1].thought)
		for most := 1; most <= len(answer); most++ {
			r := ask(t, e, fmt.Sprintf(`{"model":"m","max_tokens":%d,"temperature":0,"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}],"messages":[{"role":"user","content":"x"}]}`, most))
			play.prompt, play.answer = len(r.Prompt), answer
			want := 0
			for _, thought := range thoughts[:most] {
				if thought {
					want++
				}
			}
			for _, whole := range []bool{false, true} {
				u, stopped := played(t, s, r, whole)
				if u.Output != int64(most) || int(u.Reasoning) != want {
					t.Fatalf("%s, cut after %d of %d, whole %v: %+v, want %d thinking", name, most, len(answer), whole, u, want)
				}
				if most < len(answer)/2 && stopped != abi.StopMaxTokens || most == len(answer) && stopped == abi.StopMaxTokens {
					t.Fatalf("%s, cut after %d of %d: stop %v", name, most, len(answer), stopped)
				}
				cases++
			}
		}
	}
	if cases < 100 {
		t.Fatalf("%d cases", cases)
	}
}

// played runs one request and returns what both its result and its last event say.
func played(t *testing.T, s *Stepper, r *Request, whole bool) (abi.Usage, abi.StopReason) {
	t.Helper()
	out := NewOutput(1 << 20)
	if whole {
		out = NewWholeOutput()
	}
	var result Result
	j := &Job{ID: "r", Account: "a", Request: r, Output: out, Finished: func(got Result) { result = got }}
	if err := s.submit(j, time.Now()); err != nil {
		t.Fatal(err)
	}
	runAll(t, s)
	events := out.Drain(nil)
	checkStream(t, events)
	if end := events[len(events)-1]; end.Kind != abi.EventEnd || end.Usage != result.Usage || end.Stop != result.Stop {
		t.Fatalf("the result says %+v, the stream %+v", result, end)
	}
	if seen := j.Observed().Output; seen != result.Usage.Output {
		t.Fatalf("%d tokens observed, %d billed", seen, result.Usage.Output)
	}
	return result.Usage, result.Stop
}

// TestServerToolsCostNothing: a request with tools that would run on a service's side,
// and with what such tools said elsewhere, is the same prompt as without.
func TestServerToolsCostNothing(t *testing.T) {
	e, _ := open2(t, options(Instant))
	prompt := func(tools, said string) []int32 {
		return ask(t, e, `{"model":"m","max_tokens":5,"tools":[`+tools+`{"name":"f","input_schema":{"type":"object"}}],"messages":[
			{"role":"user","content":"hi"},{"role":"assistant","content":[`+said+`{"type":"text","text":"a"}]},{"role":"user","content":"and?"}]}`).Prompt
	}
	for _, kind := range []string{"web_search_20250305", "computer_20250124", "bash_20250124", "text_editor_20250728", "web_fetch_20250910",
		"code_execution_20250825", "memory_20250818", "tool_search_tool_regex_20251119", "tool_search_tool_bm25_20251119",
		"advisor_20260301", "browser_toolset_20260801"} {
		got := prompt(fmt.Sprintf(`{"type":%q,"name":"x"},`, kind),
			`{"type":"server_tool_use","id":"s","name":"x","input":{}},{"type":"web_fetch_tool_result","tool_use_id":"s","content":{}},`)
		if want := prompt("", ""); !slices.Equal(got, want) {
			t.Errorf("%s: a prompt of %d tokens, want the %d without it", kind, len(got), len(want))
		}
	}
}

// TestToolsOfMessages: a tool that a message defines is counted and prompted as one of the request's.
func TestToolsOfMessages(t *testing.T) {
	e, _ := open2(t, options(Instant))
	const f, g = `{"name":"f","input_schema":{"type":"object"}}`, `{"name":"g","description":"G","input_schema":{"type":"object"}}`
	asked := func(tools, said string) (prompt []int32, counted int) {
		body := `{"model":"m","max_tokens":5,"tools":[` + tools + `],"tool_choice":{"type":"tool","name":"g"},"messages":[
			{"role":"user","content":"hi"}` + said + `,{"role":"user","content":"and?"}]}`
		q, err := messages.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if counted, err = e.Count(q); err != nil {
			t.Fatal(err)
		}
		return ask(t, e, body).Prompt, counted
	}
	got, n := asked(f, `,{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":`+g+`}}]}`)
	if want, _ := asked(f+","+g, ""); !slices.Equal(got, want) || n != len(got) {
		t.Errorf("a prompt of %d tokens, %d counted; want the %d of both tools", len(got), n, len(want))
	}
}

// TestDeliveredIsWhatWasGiven: what a job has delivered ends with its last content. While a call is held
// back the client has nothing of it, and a crash may not charge it.
func TestDeliveredIsWhatWasGiven(t *testing.T) {
	for _, before := range []string{"", "I will order it."} {
		e, s := mumbler(t, embedded.Model("core-1.1-mini"))
		j, a := submit(t, s, "acct", mumbled(t, e, constrained(1, orderTools), before+"§", 1))
		var content, held int64
		for s.Step(time.Now()) && a.finished == 0 {
			given := j.Output.Drain(nil)
			if slices.ContainsFunc(given, func(ev abi.Event) bool { return ev.Kind == abi.EventDelta }) {
				content = j.Observed().Output
			}
			u := j.Delivered()
			if u.Output != content || (u.CacheRead > 0) != (content > 0 && j.Observed().CacheRead > 0) {
				t.Fatalf("%q: %+v is delivered, the last content was token %d", before, u, content)
			}
			held = max(held, j.Observed().Output-u.Output)
		}
		if held < 10 || j.Delivered() != j.Observed() {
			t.Errorf("%q: at most %d tokens were held back, at the end %+v is delivered of %+v", before, held, j.Delivered(), j.Observed())
		}
	}
}
