package ollama_test

import (
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/ollama"
)

// of translates a body that has some fields beside those that it must have, of the route of an index.
func of(route int, fields string) (abi.Translated, *abi.Error) {
	body := `{"model":"m","messages":[{"role":"user","content":"x"}],"prompt":"x",` + fields + `}`
	return ollama.New().Request(abi.RequestInput{Body: []byte(body), Route: &abi.Route{Index: route}})
}

// The routes by their places in the manifest.
const chat, generate = 0, 1

// TestFields: what fields become, and that of two of a name the last one counts.
func TestFields(t *testing.T) {
	const begin = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	for fields, want := range map[string]string{
		`"think":true`:                         begin + `,"thinking":{"type":"enabled"},"stream":true}`,
		`"think":"medium"`:                     begin + `,"thinking":{"type":"enabled"},"output_config":{"effort":"medium"},"stream":true}`,
		`"think":"high"`:                       begin + `,"thinking":{"type":"enabled"},"output_config":{"effort":"high"},"stream":true}`,
		`"think":"max"`:                        begin + `,"thinking":{"type":"enabled"},"output_config":{"effort":"max"},"stream":true}`,
		`"options":{"num_predict":0}`:          begin + `,"stream":true}`,
		`"options":{"num_predict":40000}`:      begin + `,"max_tokens":40000,"stream":true}`,
		`"options":{"repeat_last_n":64}`:       begin + `,"stream":true}`,
		`"options":{"min_p":0.5},"options":{}`: begin + `,"stream":true}`,
		`"options":{"tfs_z":1,"penalize_newline":true,"embedding_only":false,"vocab_only":false,"logits_all":false}`: begin + `,"stream":true}`,
		`"format":"json","format":""`:                begin + `,"stream":true}`,
		`"logprobs":false,"top_logprobs":0`:          begin + `,"stream":true}`,
		`"messages":[{"role":"user","content":"y"}]`: `{"model":"m","messages":[{"role":"user","content":"y"}],"stream":true}`,
		`"messages":[{"role":"assistant","content":"a"},{"role":"assistant","thinking":"t"},{"role":"assistant","thinking":"u","content":"c",` +
			`"tool_calls":[{"function":{"name":"h"}}],"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}},{"function":{"name":"g"}}]},` +
			`{"role":"tool","tool_call_id":"b","content":"B"},{"role":"tool","name":"g","content":"C"},{"role":"tool","content":"A"}]`: `{"model":"m","messages":[` +
			`{"role":"assistant","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]},` +
			`{"role":"assistant","content":[{"type":"thinking","thinking":"u"},{"type":"text","text":"c"},{"type":"tool_use","id":"a","name":"f","input":{}},` +
			`{"type":"tool_use","id":"b","name":"g","input":{}},{"type":"tool_use","id":"call_2_2","name":"g","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"B"}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_2_2","content":"C"}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"A"}]}],"stream":true}`,
	} {
		out, err := of(chat, fields)
		if err != nil || string(out.Body) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", fields, err, out.Body, want)
		}
	}
}

// TestRefused: fields that would change the answer are refused at their path, also with a value of another kind.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		route         int
		fields, param string
	}{
		{chat, `"think":"much"`, "think"},
		{chat, `"think":1`, "think"},
		{chat, `"format":5`, "format"},
		{chat, `"logprobs":"true"`, "logprobs"},
		{chat, `"top_logprobs":1`, "top_logprobs"},
		{chat, `"top_logprobs":"1"`, "top_logprobs"},
		{generate, `"suffix":5`, "suffix"},
		{generate, `"raw":"true"`, "raw"},
		{generate, `"width":512`, "width"},
		{generate, `"height":"512"`, "height"},
		{generate, `"steps":20`, "steps"},
		{chat, `"options":{"num_predict":1.5}`, "options.num_predict"},
		{chat, `"options":{"typical_p":0.5}`, "options.typical_p"},
		{chat, `"options":{"tfs_z":2}`, "options.tfs_z"},
		{chat, `"options":{"mirostat":"2"}`, "options.mirostat"},
		{chat, `"options":{"penalize_newline":false}`, "options.penalize_newline"},
		{chat, `"options":{"embedding_only":true}`, "options.embedding_only"},
		{chat, `"options":{"vocab_only":true}`, "options.vocab_only"},
		{chat, `"options":{"logits_all":"true"}`, "options.logits_all"},
		{chat, `"options":{"repeat_last_n":64,"presence_penalty":0.5}`, "options.repeat_last_n"},
		{chat, `"options":{"repeat_last_n":64,"presence_penalty":1}`, "options.repeat_last_n"},
		{chat, `"options":{"repeat_last_n":64,"frequency_penalty":0.5}`, "options.repeat_last_n"},
		{chat, `"messages":[{"content":"x"}]`, "messages.0.role"},
		{chat, `"messages":[{"role":"user","tool_calls":[{"function":{"name":"f"}}]}]`, "messages.0.tool_calls"},
		{chat, `"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}]`, "messages.0.tool_calls.0.function.name"},
	} {
		if _, err := of(c.route, c.fields); err == nil || err.Param != c.param {
			t.Errorf("%s: %v, want one of %s", c.fields, err, c.param)
		}
	}
}

// TestErrorPaths: what the engine says of a native body names the field that it was made of, what
// Request says the one that it names.
func TestErrorPaths(t *testing.T) {
	for _, c := range []struct {
		route                  int
		fields, native, client string
	}{
		{chat, `"a":1`, "repetition_penalty", "options.repeat_penalty"},
		{chat, `"a":1`, "top_p", "options.top_p"},
		{chat, `"a":1`, "top_k", "options.top_k"},
		{chat, `"a":1`, "min_p", "options.min_p"},
		{chat, `"a":1`, "seed", "options.seed"},
		{chat, `"a":1`, "presence_penalty", "options.presence_penalty"},
		{chat, `"a":1`, "frequency_penalty", "options.frequency_penalty"},
		{chat, `"a":1`, "stop_sequences", "options.stop"},
		{chat, `"a":1`, "response_format.json_schema.schema", "format"},
		{chat, `"a":1`, "thinking.type", "think"},
		{chat, `"a":1`, "messages.3", "messages.3"},
		{chat, `"a":1`, "messages.3.content.0.tool_use_id", "messages.3.tool_call_id"},
		{chat, `"a":1`, "messages.3.content.0.id", "messages.3.tool_calls"},
		{chat, `"a":1`, "messages.3.content.0.name", "messages.3.tool_calls"},
		{chat, `"a":1`, "messages.3.content.0.input.x", "messages.3.tool_calls"},
		{chat, `"a":1`, "messages.3.content.0.thinking", "messages.3.thinking"},
		{chat, `"a":1`, "messages.3.content.0.text", "messages.3.content"},
		{generate, `"a":1`, "messages", "prompt"},
		{generate, `"a":1`, "messages.0.content", "prompt"},
		{generate, `"system":"s"`, "messages.0.content", "system"},
		{generate, `"system":"s"`, "messages.1.content", "prompt"},
		{generate, `"system":"s"`, "messages", "prompt"},
		{chat, "", "top_p", "top_p"},
	} {
		var out abi.Translated
		if c.fields != "" {
			out, _ = of(c.route, c.fields)
		}
		got := string(ollama.New().Error(nil, abi.ErrorInput{Kept: out.Kept, Kind: abi.InvalidRequest,
			Detail: abi.Detail{Reason: abi.ReasonField}, Param: c.native, Msg: "x"}))
		if want := `{"error":"` + c.client + `: x"}`; got != want {
			t.Errorf("%s with %s: %s, want %s", c.native, c.fields, got, want)
		}
	}
}
