package completions_test

import (
	"strings"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/completions"
)

// of translates a body that has some fields beside those that it must have.
func of(fields string) (abi.Translated, *abi.Error) {
	return completions.New().Request(abi.RequestInput{Body: []byte(`{"model":"m","prompt":"x",` + fields + `}`), Route: &abi.Route{}})
}

// TestRefused: fields that would change the answer are refused at their path.
func TestRefused(t *testing.T) {
	for fields, param := range map[string]string{
		`"logprobs":true`:              "logprobs",
		`"suffix":5`:                   "suffix",
		`"grammar":"root ::= x"`:       "grammar",
		`"structured_outputs":{"a":1}`: "structured_outputs",
		`"guided_json":{}`:             "guided_json",
		`"echo":true,"prompt":"` + strings.Repeat("x", abi.KeptBytesMax) + `"`: "echo",
	} {
		if _, err := of(fields); err == nil || err.Param != param {
			t.Errorf("%.40s: %v, want one of %s", fields, err, param)
		}
	}
	for _, fields := range []string{
		`"max_tokens":40000,"stream":true`, `"echo":true,"prompt":"` + strings.Repeat("x", abi.KeptBytesMax-1) + `"`, `"guided_json":null,"user":{"a":[]}`,
	} {
		if out, err := of(fields); err != nil || len(out.Kept) > abi.KeptBytesMax {
			t.Errorf("%.40s: %v, kept %d bytes", fields, err, len(out.Kept))
		}
	}
}

// TestErrorPaths: what the engine says of a native body names the field that it was made of, what
// Request says the one that it names.
func TestErrorPaths(t *testing.T) {
	for _, c := range []struct{ fields, native, client string }{
		{`"stop":"a"`, "stop_sequences.0", "stop"},
		{`"stop":["a","b"]`, "stop_sequences.1", "stop.1"},
		{`"stop":["a","b"]`, "stop_sequences", "stop"},
		{`"a":1`, "messages.0.content", "prompt"},
		{`"prompt":["x"]`, "messages.0.content", "prompt.0"},
		{`"prompt":["x"]`, "top_p", "top_p"},
		{`"a":1`, "raw", "prompt"},
		{"", "messages", "messages"},
	} {
		var out abi.Translated
		if c.fields != "" {
			out, _ = of(c.fields)
		}
		got := string(completions.New().Error(nil, abi.ErrorInput{Kept: out.Kept, Kind: abi.InvalidRequest,
			Detail: abi.Detail{Reason: abi.ReasonField}, Param: c.native, Msg: "x"}))
		want := `{"error":{"message":"` + c.client + `: x","type":"invalid_request_error","param":"` + c.client + `","code":"invalid_request"}}`
		if got != want {
			t.Errorf("%s with %s: %s, want %s", c.native, c.fields, got, want)
		}
	}
}
