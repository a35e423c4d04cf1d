package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"corenode/node/admin"
)

// said is what an answer shows, and the model that it names.
type said struct {
	status                    int
	id, text, thinking, model string
	message, signature        string
}

// policyAsk is one request of a protocol.
func policyAsk(t *testing.T, base, key, path, model, prompt string, stream bool, more string) (s said) {
	t.Helper()
	list := fmt.Sprintf(`"messages":[{"role":"user","content":%q}],"max_tokens":100,"temperature":0`, prompt)
	if path == "/v1/responses" {
		list = fmt.Sprintf(`"input":%q,"max_output_tokens":100,"temperature":0`, prompt)
	}
	body := fmt.Sprintf(`{"model":%q,%s,"stream":%t%s}`, model, list, stream, more)
	request, err := http.NewRequestWithContext(t.Context(), "POST", base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	s.status, s.id = response.StatusCode, response.Header.Get("X-Llm-Request-Id")
	if !stream || s.status != http.StatusOK {
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		s.see(t, answer)
		return s
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			s.see(t, []byte(data))
		}
	}
	return s
}

// see adds what a body or an event says, of whichever protocol.
func (s *said) see(t *testing.T, data []byte) {
	t.Helper()
	var e struct {
		Type, Model string
		Message     json.RawMessage
		Response    struct{ Model string }
		Content     []struct{ Type, Text, Thinking, Signature string }
		Delta       json.RawMessage
		Choices     []struct {
			Message, Delta struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
		}
		Output []struct {
			Type    string
			Content []struct{ Text string }
		}
		Error struct{ Message string }
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	var opened struct{ Model string }
	_ = json.Unmarshal(e.Message, &opened)
	for _, model := range []string{e.Model, e.Response.Model, opened.Model} {
		if model != "" {
			s.model = model
		}
	}
	s.message += e.Error.Message
	for _, b := range e.Content {
		s.text, s.thinking, s.signature = s.text+b.Text, s.thinking+b.Thinking, s.signature+b.Signature
	}
	for _, c := range e.Choices {
		s.text += c.Message.Content + c.Delta.Content
		s.thinking += c.Message.Reasoning + c.Delta.Reasoning
	}
	for _, o := range e.Output {
		for _, c := range o.Content {
			s.text += c.Text
		}
	}
	var text string
	if e.Type == "response.output_text.delta" && json.Unmarshal(e.Delta, &text) == nil {
		s.text += text
	}
	var delta struct{ Type, Text, Thinking, Signature string }
	if e.Type == "content_block_delta" && json.Unmarshal(e.Delta, &delta) == nil {
		s.text, s.thinking, s.signature = s.text+delta.Text, s.thinking+delta.Thinking, s.signature+delta.Signature
	}
}

// TestRedaction: whatever the protocol and however the answer is cut, the word is not in it;
// all else is as it was, and what is billed too. JSON that a schema asks for stays JSON.
func TestRedaction(t *testing.T) {
	n, base, key, operator := startWithModules(t, instantModels)
	const prompt = "say something long"
	const schema = `,"thinking":{"type":"disabled"},"output_config":{"format":{"type":"json_schema","schema":{"type":"object",
		"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}`
	asks := []struct{ path, more string }{
		{"/v1/messages", ""}, // which thinks
		{"/v1/messages", `,"thinking":{"type":"disabled"}`}, {"/v1/chat/completions", `,"reasoning_effort":"none"`},
		{"/v1/responses", `,"reasoning":{"effort":"none"}`},
	}
	var before []said
	var all []string
	for _, ask := range asks {
		plain := policyAsk(t, base, key, ask.path, "core-1.1-mini", prompt, false, ask.more)
		if plain.status != 200 || len(plain.text+plain.thinking) < 20 {
			t.Fatalf("%s: %+v", ask.path, plain)
		}
		before, all = append(before, plain), append(all, plain.text+plain.thinking)
	}
	structured := policyAsk(t, base, key, "/v1/messages", "core-1.1-mini", prompt, false, schema)
	word := common(append(all, structured.text))
	settings, err := json.Marshal(map[string]string{"word": word})
	if err != nil {
		t.Fatal(err)
	}
	activate(t, operator, "filter-c", string(settings))
	for i, ask := range asks {
		want := before[i]
		want.text, want.thinking = strings.ReplaceAll(want.text, word, "[redacted]"), strings.ReplaceAll(want.thinking, word, "[redacted]")
		for _, stream := range []bool{false, true} {
			got := policyAsk(t, base, key, ask.path, "core-1.1-mini", prompt, stream, ask.more)
			if got.status != 200 || got.text != want.text || got.thinking != want.thinking || (got.signature == "") != (want.signature == "") {
				t.Errorf("%+v, stream %t: %+v, want %+v", ask, stream, got, want)
			}
			if got.signature != "" && got.signature == want.signature {
				t.Error("the signature is of the thinking that was not sent")
			}
			was, is := settled(t, n, want.id), settled(t, n, got.id)
			if was.Usage.Output != is.Usage.Output || was.Usage.Input() != is.Usage.Input() {
				t.Errorf("%+v, stream %t: usage %+v, was %+v", ask, stream, is.Usage, was.Usage)
			}
		}
	}
	got := policyAsk(t, base, key, "/v1/messages", "core-1.1-mini", prompt, false, schema)
	if !strings.Contains(got.text, word) || strings.Contains(got.text, "[redacted]") {
		t.Errorf("structured output is %q, was %q", got.text, structured.text)
	}
}

// common is a piece of three letters that all texts have.
func common(all []string) string {
	for i := range len(all[0]) - 3 {
		word := all[0][i : i+3]
		if !strings.Contains(word, " ") && !slices.ContainsFunc(all, func(text string) bool { return !strings.Contains(text, word) }) {
			return word
		}
	}
	return all[0][:3]
}

// TestGuardRail: what a rewrite module makes of a request is what is priced, limited and
// counted; the answer names the model that the client asked for; no module opens a model that
// the account may not use.
func TestGuardRail(t *testing.T) {
	n, base, key, operator := startWithModules(t, instantModels)
	count := func() int {
		t.Helper()
		response, text := fetch(t, "POST", base+"/v1/messages/count_tokens", `{"model":"fast","messages":[{"role":"user","content":"hi"}]}`,
			http.Header{"X-Api-Key": {key}})
		var answer struct {
			InputTokens int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || response.StatusCode != 200 {
			t.Fatal(response.StatusCode, err)
		}
		return answer.InputTokens
	}
	activate(t, operator, "rewrite-c", `{"refuse":"zebulon","alias":"fast","serves":"core-1.1-mini"}`)
	short := count()
	for _, path := range paths {
		for _, stream := range []bool{false, true} {
			got := policyAsk(t, base, key, path, "fast", "hi", stream, "")
			if got.status != 200 || got.model != "fast" {
				t.Errorf("%s, stream %t: %+v", path, stream, got)
			}
			e := settled(t, n, got.id)
			if e.Model != "core-1.1-mini" || e.Usage.Input() == 0 || path == "/v1/messages" && e.Usage.Input() != int64(short) {
				t.Errorf("%s, stream %t: %+v; %d tokens were counted", path, stream, e, short)
			}
			if got = policyAsk(t, base, key, path, "fast", "what of Zebulon?", stream, ""); got.status != 400 ||
				!strings.Contains(got.message, "this topic is not served here") {
				t.Errorf("%s, stream %t: a topic gives %+v", path, stream, got)
			}
		}
	}
	made, err := operator.CreateAccount(admin.NewAccount{Name: "narrow", Unlimited: true, Models: []string{"core-1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := policyAsk(t, base, made.Key, "/v1/messages", "fast", "hi", false, ""); got.status != 404 {
		t.Errorf("a model that the account may not use: %+v", got)
	}
	if got := policyAsk(t, base, made.Key, "/v1/messages", "core-1.1", "hi", false, ""); got.status != 200 || got.model != "core-1.1" {
		t.Errorf("a model that it may use: %+v", got)
	}
}

// TestGuardRailInstructions: instructions that a module puts first are counted, as they are billed.
func TestGuardRailInstructions(t *testing.T) {
	n, base, key, operator := startWithModules(t, instantModels)
	plain := policyAsk(t, base, key, "/v1/messages", "core-1.1-mini", "hi", false, "")
	activate(t, operator, "rewrite-c", `{"system":"Answer in English, always, whatever the question is."}`)
	more := policyAsk(t, base, key, "/v1/messages", "core-1.1-mini", "hi", false, "")
	same := policyAsk(t, base, key, "/v1/messages", "core-1.1-mini", "hi", false, `,"system":"Answer in English, always, whatever the question is."`)
	was, is := settled(t, n, plain.id).Usage.Input(), settled(t, n, more.id).Usage.Input()
	if is <= was {
		t.Errorf("%d tokens of prompt, were %d without instructions", is, was)
	}
	if twice := settled(t, n, same.id).Usage.Input(); twice <= is {
		t.Errorf("instructions before the client's: %d tokens, want more than %d", twice, is)
	}
}
