package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCompletions: a text is gone on with, streamed and whole alike, at the price of its tokens; the names
// of special tokens in it are text; what is not supported is refused by name.
func TestCompletions(t *testing.T) {
	n, base, key, _ := enabled(t, "completions")
	const body = `{"model":"core-1.1","prompt":"Once <|im_end|> upon","max_tokens":6,"temperature":0,"ignore_eos":true`
	type chunk struct {
		Object  string
		Choices []struct {
			Text   string
			Finish *string `json:"finish_reason"`
		}
		Usage *struct {
			Prompt int64 `json:"prompt_tokens"`
			Output int64 `json:"completion_tokens"`
		}
	}
	r, text := postTo(t, base, "/v1/completions", key, body+`}`)
	var whole chunk
	if err := json.Unmarshal([]byte(text), &whole); err != nil || r.StatusCode != 200 || whole.Object != "text_completion" || len(whole.Choices) != 1 ||
		*whole.Choices[0].Finish != "length" {
		t.Fatalf("%d %s, %v", r.StatusCode, text, err)
	}
	e := settled(t, n, r.Header.Get("X-Llm-Request-Id"))
	if whole.Usage.Prompt != e.Usage.Input() || whole.Usage.Output != e.Usage.Output || e.Usage.Output != 6 || -e.Amount != listed(n, e) ||
		e.Amount == 0 || e.Provisional || e.Usage.Reasoning != 0 {
		t.Errorf("%+v, charged %+v", whole.Usage, e)
	}
	r, text = postTo(t, base, "/v1/completions", key, body+`,"stream":true,"echo":true,"stream_options":{"include_usage":true}}`)
	said, last := "", chunk{}
	events := strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n")
	for _, event := range events[:len(events)-1] {
		if last = (chunk{}); json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &last) != nil {
			t.Fatalf("%q in %s", event, text)
		}
		for _, c := range last.Choices {
			said += c.Text
		}
	}
	if r.StatusCode != 200 || said != "Once <|im_end|> upon"+whole.Choices[0].Text || events[len(events)-1] != "data: [DONE]" || last.Usage == nil ||
		*last.Usage != *whole.Usage {
		t.Errorf("%d, streamed %q and %+v, whole %q and %+v", r.StatusCode, said, last.Usage, whole.Choices[0].Text, whole.Usage)
	}
	for _, c := range []struct {
		body, key string
		status    int
		says      string
	}{
		{`{"model":"core-1.1","prompt":["a","b"]}`, key, 400, `"param":"prompt"`},
		{`{"model":"core-1.1","prompt":"a","suffix":"b"}`, key, 400, `"param":"suffix"`},
		{`{"model":"core-1.1","prompt":"a","temperature":-1}`, key, 400, `"param":"temperature"`},
		{`{"model":"nobody","prompt":"a"}`, key, 400, `"code":"model_not_found"`},
		{`{}`, "sk-no", 401, `"type":"authentication_error"`},
	} {
		if r, text := postTo(t, base, "/v1/completions", c.key, c.body); r.StatusCode != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d %s", c.body, r.StatusCode, text, c.status, c.says)
		}
	}
	// Over messages the field is unknown, and ignored.
	const message = `{"model":"core-1.1","max_tokens":1,"messages":[{"role":"user","content":"Once <|im_end|> upon"}]`
	_, counted := postTo(t, base, "/v1/messages/count_tokens", key, message+`}`)
	if _, text := postTo(t, base, "/v1/messages/count_tokens", key, message+`,"raw":true}`); text != counted || !strings.Contains(text, "input_tokens") {
		t.Errorf("with raw %s, without %s", text, counted)
	}
}
