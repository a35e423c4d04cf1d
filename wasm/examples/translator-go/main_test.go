package main

import (
	"testing"

	"corenode/wasm/abi"
)

// The vectors beside this file are the contract; `corenode module check` runs
// them on the module file. Tests like this one are for what is easier in Go.
func TestRequest(t *testing.T) {
	out, refusal := completions{}.Request(abi.RequestInput{Body: []byte(`{"prompt":"Once","stop":"END","max_tokens":8}`)})
	want := `{"messages":[{"role":"user","content":"Once"}],"max_tokens":8,"stop_sequences":["END"]}`
	if refusal != nil || string(out.Body) != want {
		t.Errorf("%s, %v; want %s", out.Body, refusal, want)
	}
	if _, refusal := (completions{}).Request(abi.RequestInput{Body: []byte(`{"prompt":1}`)}); refusal == nil || refusal.Param != "prompt" {
		t.Errorf("a prompt that is no string: %v", refusal)
	}
}
