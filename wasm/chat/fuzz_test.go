package chat_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
)

// FuzzRequest gives bodies that nobody wrote: no panic, errors of the client's
// kind only, and what is accepted is a JSON object that names its model.
func FuzzRequest(f *testing.F) {
	f.Add(conversation(2 << 10))
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stop":["a"],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`,
		`{"model":"m","messages":[{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","content":[]}]}`,
		`{"messages":[{"content":[{"type":"refusal","refusal":"\ud83d\ude00"}],"role":"assistant"}],"model":"m","messages":[]}`,
		`{"model":"m","max_tokens":1e5,"stream":true,"response_format":{"type":"text"},"n":1,"logit_bias":{}}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"json_schema":{"schema": {"a" : 1e999} ,"name":"n","strict":true},"type":"json_schema"}}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":null}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		out, err := chat.New().Request(abi.RequestInput{Body: body})
		if vectortest.Refused(t, before, body, out, err) {
			return
		}
		var native struct {
			Model    string
			Messages []struct{ Role string }
			Format   *nativeFormat `json:"response_format"`
		}
		if err := json.Unmarshal(out.Body, &native); err != nil || native.Model == "" || len(native.Messages) == 0 {
			t.Fatalf("%q became %q: %v", body, out.Body, err)
		}
		for _, m := range native.Messages {
			if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
				t.Fatalf("%q became %q, with a role %q", body, out.Body, m.Role)
			}
		}
		if native.Format != nil && !native.Format.valid() {
			t.Fatalf("%q became %q, with a format %+v", body, out.Body, native.Format)
		}
	})
}

// nativeFormat is a response_format of the native body.
type nativeFormat struct {
	Type       string
	JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
}

func (f *nativeFormat) valid() bool {
	if f.Type == "json_object" {
		return f.JSONSchema.Schema == nil
	}
	return f.Type == "json_schema" && len(f.JSONSchema.Schema) > 0 && f.JSONSchema.Schema[0] == '{'
}

// FuzzInput gives the module any bytes as the input of every op. What the
// short way for events accepts, the general way answers with the same bytes.
func FuzzInput(f *testing.F) {
	for group := deltas(3); len(group) > 0; group = group[:len(group)-1] {
		f.Add(uint32(abi.OpEvents), group)
	}
	f.Add(uint32(abi.OpEvents), []byte{1})
	f.Add(uint32(abi.OpResponse), abi.ResponseInput{Facts: benchFacts,
		Events: abi.AppendFrame(nil, &abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "i"})}.Append(nil))
	f.Add(uint32(abi.OpError), abi.ErrorInput{Kept: []byte{0}, Param: "messages.0.content.1.input.a", Msg: "m"}.Append(nil))
	f.Add(uint32(abi.OpRequest), abi.RequestInput{Body: conversation(700)}.Append(nil))
	f.Fuzz(func(t *testing.T, op uint32, in []byte) {
		vectortest.SameOutput(t, handler, general, abi.Op(op), in, "\n\n")
	})
}
