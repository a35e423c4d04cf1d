package completions_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"corenode/engine/messages"
	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
	"corenode/wasm/completions"
	"corenode/wasm/sdk"
)

// FuzzRequest gives bodies that nobody wrote: no panic, errors of the client's
// kind only, and what is accepted is a raw text for the engine, which is the prompt.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","prompt":["\ud83d\ude00 <|im_end|>"],"stop":"a","echo":true}`,
		`{"model":"m","prompt":"x","prompt":"y","max_tokens":1e2,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","prompt":"x","stop":["a","b"],"seed":-1.0,"logit_bias":{},"n":1,"best_of":1,"suffix":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		out, err := completions.New().Request(abi.RequestInput{Body: body, Route: &abi.Route{}})
		if vectortest.Refused(t, before, body, out, err) {
			return
		}
		q, refused := messages.ParseTranslated(out.Body)
		if refused != nil {
			e := abi.AsError(refused)
			text := completions.New().Error(nil, abi.ErrorInput{Kept: out.Kept, Kind: e.Kind, Detail: e.Detail, Param: e.Param, Msg: e.Msg})
			if !json.Valid(text) || e.Kind != abi.InvalidRequest {
				t.Fatalf("%q became %q: %v, %s", body, out.Body, refused, text)
			}
			return
		}
		if !q.Raw || q.MaxTokens < 1 || messages.Texts(q.Messages[0].Blocks) == "" {
			t.Fatalf("%q became %q", body, out.Body)
		}
	})
}

// FuzzInput gives the module any bytes as the input of every op. What the short
// way for events accepts, the general way answers with the same bytes.
func FuzzInput(f *testing.F) {
	general := sdk.RouterHandler(completions.New())
	facts := abi.Facts{ID: "id", Created: 5, Model: `m"☃`, Stream: true}
	var state []byte
	for _, text := range []string{"a", "b"} {
		in := abi.EventsInput{Facts: facts, State: state}
		if state == nil {
			in.Kept, in.Events = []byte("\x01Once"), abi.AppendFrame(nil, &abi.Event{Kind: abi.EventStart})
		}
		in.Events = abi.AppendFrame(in.Events, &abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: text})
		for cut := in.Append(nil); len(cut) > 0; cut = cut[:len(cut)-1] {
			f.Add(uint32(abi.OpEvents), cut)
		}
		_, state = completions.New().Events(nil, nil, in)
		in.Kept = []byte("\x01")
		f.Add(uint32(abi.OpEvents), in.Append(nil))
	}
	f.Add(uint32(abi.OpError), abi.ErrorInput{Kept: []byte{0}, Param: "messages.0.content", Msg: "m"}.Append(nil))
	f.Add(uint32(abi.OpRequest), abi.RequestInput{Body: []byte(`{"model":"m","prompt":"x"}`)}.Append(nil))
	f.Fuzz(func(t *testing.T, op uint32, in []byte) {
		vectortest.SameOutput(t, handler, general, abi.Op(op), in, "\n\n")
	})
}
