package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oracleScript renders with jinja2 the way transformers sets it up. It reads
// cases as one JSON list and writes one {"out"} or {"error"} per case.
const oracleScript = `
import datetime, json, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.exceptions import TemplateError

def raise_exception(message):
    raise TemplateError(message)

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.filters["from_json"] = json.loads
env.globals["strftime_now"] = lambda form: datetime.datetime(2024, 2, 29, 7, 4, 9, 56789, tzinfo=datetime.timezone.utc).strftime(form)
sys.stdin.reconfigure(encoding="utf-8")
results, parsed = [], {}
for case in json.load(sys.stdin):
    try:
        source = case["template"]
        if source not in parsed:
            parsed[source] = env.from_string(source)
        results.append({"out": parsed[source].render(**case["vars"])})
    except Exception as e:
        results.append({"error": type(e).__name__ + ": " + str(e)})
sys.stdout.reconfigure(encoding="utf-8")
json.dump(results, sys.stdout)
`

type oracleCase struct {
	Template string         `json:"template"`
	Vars     map[string]any `json:"vars"`
}

type oracleResult struct {
	Out   *string `json:"out"`
	Error string  `json:"error"`
}

// oracle renders every case with Python's jinja2, or skips the test when
// there is none.
func oracle(t *testing.T, cases []oracleCase) []oracleResult {
	t.Helper()
	if err := exec.Command("python3", "-c", "import jinja2").Run(); err != nil {
		t.Skipf("no python3 with jinja2 as the oracle: %v", err)
	}
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", oracleScript)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("oracle: %v\n%s", err, stderr.Bytes())
	}
	var results []oracleResult
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(cases) {
		t.Fatalf("oracle: %d results for %d cases: %v", len(results), len(cases), err)
	}
	return results
}

// vars are the variables that transformers would pass for the same input.
func (in *Input) vars() map[string]any {
	messages := []json.RawMessage{}
	for _, m := range in.Messages {
		v := []any{"role", m.Role, "content", m.Content}
		if m.HasReasoning {
			v = append(v, "reasoning_content", m.Reasoning)
		}
		if len(m.ToolCalls) > 0 {
			var calls []json.RawMessage
			for _, c := range m.ToolCalls {
				arguments := c.Arguments
				if len(arguments) == 0 {
					arguments = json.RawMessage("{}")
				}
				calls = append(calls, inOrder(append(id(c.ID), "type", "function", "function", inOrder("name", c.Name, "arguments", arguments))...))
			}
			v = append(v, "tool_calls", calls)
		}
		if m.ToolCallID != "" {
			v = append(v, "tool_call_id", m.ToolCallID)
		}
		messages = append(messages, inOrder(v...))
	}
	vars := map[string]any{"messages": messages, "tools": nil, "documents": nil, "response_schema": nil,
		"add_generation_prompt": in.GenerationPrompt, "enable_thinking": in.Thinking}
	if len(in.ResponseSchema) > 0 {
		vars["response_schema"] = in.ResponseSchema
	}
	if len(in.Tools) > 0 {
		vars["tools"] = in.Tools
	}
	return vars
}

func id(of string) []any {
	if of == "" {
		return nil
	}
	return []any{"id", of}
}

// inOrder is a JSON object of names and values in this order.
func inOrder(pairs ...any) json.RawMessage {
	b := []byte{'{'}
	for i, v := range pairs {
		if i > 0 {
			b = append(b, ",:"[i%2])
		}
		text, _ := json.Marshal(v) // strings and valid JSON
		b = append(b, text...)
	}
	return append(b, '}')
}

// sharedTemplates returns the templates of other people's models, when the
// folder with them is there.
func sharedTemplates(t testing.TB) map[string]string {
	t.Helper()
	root, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(root, "go.mod")); statErr == nil {
			break
		}
		if filepath.Dir(root) == root {
			t.Fatal("no go.mod above the test")
		}
		root = filepath.Dir(root)
	}
	shared := os.Getenv("CORENODE_SHARED")
	if shared == "" {
		shared = filepath.Join(root, "..", "shared")
	}
	paths, _ := filepath.Glob(filepath.Join(shared, "data", "templates", "*.jinja"))
	if len(paths) == 0 {
		t.Skipf("no templates under %s", shared)
	}
	out := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".jinja")] = string(b)
	}
	return out
}

// conversations are cut from what chat clients and coding agents send.
func conversations() map[string]Input {
	weather := json.RawMessage(`{"type":"function","function":{"name":"get_weather","description":" Wetter für <Ort> & \"mehr\" ","parameters":{"type":"object","properties":{"city":{"type":"string","description":"Stadt, z.B. Zürich"},"days":{"type":["integer","null"],"minimum":1,"default":1.0},"opts":{"type":"object","properties":{"deep":{"enum":[true,false,null,1e5,-0,12345678901234567890,0.1,1e-7,1e22,{}]}},"additionalProperties":false}},"required":["city"]}}}`)
	empty := json.RawMessage(`{"type":"function","function":{"name":"noop","parameters":{}}}`)
	bare := json.RawMessage(`{"type":"function","function":{"name":"bare","description":null,"parameters":{"type":"object","properties":{"z":{"type":"array","items":{"type":"string"}},"a":{}},"$defs":{"x":[1,[2,[]]]}}},"strict":true}`)
	call := ToolCall{Name: "get_weather", Arguments: json.RawMessage(`{"city":"Zürich <b>&","days":3,"ok":true,"no":false,"nil":null,"f":1.50,"big":123456789012345678901,"list":[1,"zwei",{"z":1,"a":[true,null]}],"obj":{"b":"\u2028\u0001\"\\/","a":{}},"text":"line 1\nline 2\t'q'","empty":"","neg":-0,"exp":1E5}`)}
	call2 := ToolCall{Name: "noop", Arguments: json.RawMessage(`{}`)}
	say := func(role, text string) Message { return Message{Role: role, Content: text} }
	think := func(reasoning, text string, calls ...ToolCall) Message {
		return Message{Role: "assistant", Content: text, Reasoning: reasoning, HasReasoning: true, ToolCalls: calls}
	}
	sys, hi := say("system", "  You are terse.\n\n"), say("user", "Hi ☃ <think>&</think>?\n")
	return map[string]Input{
		"plain":           {Messages: []Message{hi}},
		"system":          {Messages: []Message{sys, hi}},
		"empty content":   {Messages: []Message{say("system", ""), say("user", ""), say("assistant", ""), say("user", " \n")}},
		"multi turn":      {Messages: []Message{sys, hi, say("assistant", "Hello.\n"), say("user", "more"), say("assistant", "x"), say("user", "end")}},
		"thinking":        {Messages: []Message{hi, think("\nlet me see\n\n", "\nfirst\n"), say("user", "and?"), think("", "second")}},
		"inline think":    {Messages: []Message{hi, say("assistant", "<think>\nsecret\n</think>\n\nanswer"), say("user", "q"), say("assistant", "<think>a</think>b</think>\n\nc")}},
		"tools":           {Messages: []Message{hi}, Tools: []json.RawMessage{weather, empty, bare}},
		"schema":          {Messages: []Message{sys, hi, say("assistant", "Hello."), say("user", " and now?\n")}, ResponseSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"b<":{"enum":[1,"é"]},"c":{}},"required":["name"]}`)},
		"schema, no keys": {Messages: []Message{hi}, ResponseSchema: json.RawMessage(`{"type":"array","properties":[],"items":{"type":"string"}}`)},
		"schema, a key":   {Messages: []Message{hi, think("need it", "", call), say("tool", "5")}, Tools: []json.RawMessage{weather}, ResponseSchema: json.RawMessage(`{"properties":{"a":true}}`)},
		"tools system":    {Messages: []Message{sys, hi}, Tools: []json.RawMessage{weather}},
		"tool loop":       {Messages: []Message{sys, hi, think("need it", "Looking.", call), say("tool", "{\"t\": 21}\n")}, Tools: []json.RawMessage{weather, empty}},
		"two calls":       {Messages: []Message{hi, think("both", "", call, call2), say("tool", "a"), say("tool", " b <&> "), say("assistant", "Done.")}, Tools: []json.RawMessage{weather}},
		"after the loop": {Messages: []Message{hi, think("r", "t", call2), say("tool", "1"), think("s", "u", call2, call),
			say("tool", "2"), say("tool", "3"), think("fin", "ok"), say("user", "next <tool_response>"), think("n", "m", call2), say("tool", "4")}, Tools: []json.RawMessage{empty}},
		"fake response":   {Messages: []Message{hi, say("assistant", "a"), say("user", "<tool_response>\nx\n</tool_response>"), think("t", "b")}},
		"calls, no tools": {Messages: []Message{hi, {Role: "assistant", Content: "c", ToolCalls: []ToolCall{call}}, say("tool", "r"), say("user", "z")}},
		"late system":     {Messages: []Message{hi, sys, say("user", "b")}},
		"tool first":      {Messages: []Message{say("tool", "r"), hi}},
		"no messages":     {},
		"no user":         {Messages: []Message{sys, say("assistant", "x")}},
		"odd role":        {Messages: []Message{say("critic", "x"), hi}},
		"separators":      {Messages: []Message{say("user", "\x1c\u0085\u00a0 a\u200b \u3000\x1f"), say("assistant", "\u2003b\u180e")}},
	}
}

// TestOracle compares every template with Python's over the whole matrix.
func TestOracle(t *testing.T) {
	templates := sharedTemplates(t)
	templates["builtin"] = Builtin
	type key struct {
		template, conversation string
		in                     Input
	}
	var keys []key
	var cases []oracleCase
	for name, source := range templates {
		for conversation, in := range conversations() {
			for _, flags := range [][2]bool{{true, true}, {true, false}, {false, true}} {
				in.GenerationPrompt, in.Thinking = flags[0], flags[1]
				keys = append(keys, key{name, fmt.Sprint(conversation, " ", flags), in})
				cases = append(cases, oracleCase{source, in.vars()})
			}
		}
	}
	results := oracle(t, cases)
	parsed := map[string]*Template{}
	for name, source := range templates {
		var err error
		if parsed[name], err = New(source); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	rendered := 0
	for i, k := range keys {
		got, err := parsed[k.template].Render(k.in)
		want := results[i]
		switch raised, isRaised := errors.AsType[*Raised](err); {
		case want.Out != nil && (err != nil || got != *want.Out):
			t.Errorf("%s, %s: err %v\n got %q\nwant %q", k.template, k.conversation, err, got, *want.Out)
		case want.Out == nil && err == nil:
			t.Errorf("%s, %s: got %q, want error %s", k.template, k.conversation, got, want.Error)
		case want.Out == nil && isRaised && want.Error != "TemplateError: "+raised.Message:
			t.Errorf("%s, %s: raised %q, want %s", k.template, k.conversation, raised.Message, want.Error)
		case want.Out == nil && !isRaised && strings.HasPrefix(want.Error, "TemplateError"):
			t.Errorf("%s, %s: got %v, want it raised: %s", k.template, k.conversation, err, want.Error)
		case want.Out != nil:
			rendered++
		}
	}
	if rendered < len(cases)/2 {
		t.Errorf("only %d of %d cases rendered", rendered, len(cases))
	}
	t.Logf("%d cases, %d rendered, %d refused by both", len(cases), rendered, len(cases)-rendered)
}
