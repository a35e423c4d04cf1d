package ollama_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"corenode/engine/messages"
	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
	"corenode/wasm/ollama"
	"corenode/wasm/sdk"
)

// FuzzRequest gives bodies that nobody wrote: no panic, errors of the client's
// kind only, and what is accepted is a native body, whose errors name a field.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"format":"json"}`,
		`{"model":"m:latest","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"\ud83d\ude00"}]}`,
		`{"model":"m","prompt":"x","system":"y","options":{"stop":["a"],"num_predict":5,"seed":-1,"repeat_last_n":0},"think":"low","stream":false}`,
		`{"messages":[{"content":"x","role":"system","thinking":"t"}],"model":"m","messages":[]}`,
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, route uint8) {
		before := bytes.Clone(body)
		out, err := ollama.New().Request(abi.RequestInput{Body: body, Route: &abi.Route{Index: int(route % 2)}})
		if vectortest.Refused(t, before, body, out, err) {
			return
		}
		q, refused := messages.ParseTranslated(out.Body)
		if refused == nil {
			if q.Model == "" || len(q.Messages) == 0 {
				t.Fatalf("%q became %q", body, out.Body)
			}
			return
		}
		e := abi.AsError(refused)
		text := ollama.New().Error(nil, abi.ErrorInput{Kept: out.Kept, Kind: e.Kind, Detail: e.Detail, Param: e.Param, Msg: e.Msg})
		if !json.Valid(text) || e.Kind != abi.InvalidRequest {
			t.Fatalf("%q became %q: %v, %s", body, out.Body, refused, text)
		}
	})
}

var facts = abi.Facts{ID: "id", Created: 5, Model: `m"☃`, Stream: true}

// FuzzInput gives the module any bytes as the input of every op. What the short
// way for events accepts, the general way answers with the same bytes.
func FuzzInput(f *testing.F) {
	general := sdk.RouterHandler(ollama.New())
	var state []byte
	for _, group := range [][]abi.Event{{{Kind: abi.EventStart}, {Kind: abi.EventDelta, Block: abi.BlockText, Text: "a"}},
		{{Kind: abi.EventDelta, Block: abi.BlockText, Text: "b"}, {Kind: abi.EventDelta, Block: abi.BlockText, Text: "c"}}} {
		in := abi.EventsInput{Facts: facts, State: state, Events: framesOf(group)}
		f.Add(uint32(abi.OpEvents), in.Append(nil))
		_, state = ollama.New().Events(nil, nil, in)
	}
	f.Add(uint32(abi.OpResponse), abi.ResponseInput{Facts: facts, Events: framesOf(randomAnswer(rand.New(rand.NewPCG(1, 2))))}.Append(nil))
	f.Add(uint32(abi.OpError), abi.ErrorInput{Kept: []byte{0}, Param: "messages.0.content.1.input.a", Msg: "m"}.Append(nil))
	f.Add(uint32(abi.OpModels), abi.ModelsInput{Route: abi.Route{Index: 4}, Models: []abi.Model{{ID: "m"}}, Body: []byte(`{"model":"m"}`)}.Append(nil))
	f.Add(uint32(abi.OpRequest), abi.RequestInput{Body: []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)}.Append(nil))
	f.Fuzz(func(t *testing.T, op uint32, in []byte) {
		vectortest.SameOutput(t, handler, general, abi.Op(op), in, "}\n")
	})
}
