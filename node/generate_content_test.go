package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"corenode/node/config"
)

// generated is a response of generateContent, partial or whole.
type generated struct {
	Candidates []struct {
		Content      struct{ Parts []generatedPart }
		FinishReason string
	}
	UsageMetadata struct{ PromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, TotalTokenCount int64 }
	Error         struct {
		Code            int
		Message, Status string
	}
}

type generatedPart struct {
	Text         string
	Thought      bool
	FunctionCall *struct {
		Name string
		Args map[string]any
	}
	ThoughtSignature string
}

// add puts what a partial response says behind what was said before.
func (g *generated) add(t *testing.T, text string) {
	t.Helper()
	var more generated
	if err := json.Unmarshal([]byte(text), &more); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if g.Error = more.Error; g.Error.Code != 0 {
		return
	}
	if g.Candidates == nil {
		g.Candidates = more.Candidates[:1:1]
		g.Candidates[0].Content.Parts = append([]generatedPart(nil), more.Candidates[0].Content.Parts...)
	} else {
		g.Candidates[0].Content.Parts = append(g.Candidates[0].Content.Parts, more.Candidates[0].Content.Parts...)
	}
	g.Candidates[0].FinishReason, g.UsageMetadata = more.Candidates[0].FinishReason, more.UsageMetadata
}

// gather reads an answer in one of its three forms.
func gather(t *testing.T, form, text string) (whole generated) {
	t.Helper()
	switch form {
	case "plain":
		whole.add(t, text)
		return whole
	case "array":
		var elements []json.RawMessage
		if err := json.Unmarshal([]byte(text), &elements); err != nil || len(elements) < 2 {
			t.Fatalf("%v, %d elements: %s", err, len(elements), text)
		}
		for _, e := range elements {
			whole.add(t, string(e))
		}
		return whole
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if data, is := strings.CutPrefix(event, "data: "); is {
			whole.add(t, data)
		}
	}
	return whole
}

// said is the text, and the calls with their arguments.
func (g *generated) said(t *testing.T) (text string, calls []string) {
	t.Helper()
	if len(g.Candidates) != 1 {
		t.Fatalf("no candidate: %+v", g)
	}
	for _, p := range g.Candidates[0].Content.Parts {
		if p.FunctionCall == nil {
			text += p.Text
			continue
		}
		arguments, err := json.Marshal(p.FunctionCall.Args)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, p.FunctionCall.Name+string(arguments))
	}
	return text, calls
}

// askGenerate sends a body, or with none asks for a listing, and gives the headers and the text of the answer.
func askGenerate(t *testing.T, url string, header http.Header, body string) (*http.Response, string) {
	t.Helper()
	method := "GET"
	if body != "" {
		method = "POST"
	}
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	return fetch(t, method, url, body, header)
}

// The same requests as generateContent and as messages.
const (
	helloParts   = `{"contents":[{"role":"user","parts":[{"text":"Say hello."}]}],"generationConfig":{"temperature":0,"maxOutputTokens":200}}`
	helloMessage = `{"model":"core-1.1","temperature":0,"max_tokens":200,"messages":[{"role":"user","content":"Say hello."}]}`

	weatherParts = `{"contents":[{"parts":[{"text":"What is the weather in Paris?"}]}],"generationConfig":{"temperature":0,"maxOutputTokens":200},
		"tools":[{"functionDeclarations":[{"name":"get_weather","description":"Get the current weather of a city.",
		"parameters":{"type":"OBJECT","properties":{"city":{"type":"STRING"}},"required":["city"]}}]}]}`
	weatherMessage = `{"model":"core-1.1","temperature":0,"max_tokens":200,"messages":[{"role":"user","content":"What is the weather in Paris?"}],
		"tools":[{"name":"get_weather","description":"Get the current weather of a city.",
		"input_schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}}]}`
)

// messageAnswer is what an answer of messages says.
type messageAnswer struct {
	Content []struct {
		Type, Text, Name string
		Input            json.RawMessage
	}
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Read   int64 `json:"cache_read_input_tokens"`
		Output int64 `json:"output_tokens"`
	}
}

// TestGenerateContent: the module is off, then enabled; what it answers, streaming and
// not, is what messages answers, for the same tokens and the same price.
func TestGenerateContent(t *testing.T) {
	n, base, key, operator := startWithModules(t, nil)
	header, url := http.Header{"X-Goog-Api-Key": {key}}, base+"/v1beta/models/core-1.1"
	if r, _ := askGenerate(t, url+":generateContent", header, helloParts); r.StatusCode != 404 {
		t.Errorf("before it is enabled: %d", r.StatusCode)
	}
	if _, err := operator.EnableModule("generate-content"); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][2]string{"text": {helloParts, helloMessage}, "a call": {weatherParts, weatherMessage}} {
		r, text := askGenerate(t, base+"/v1/messages", http.Header{"X-Api-Key": {key}}, body[1])
		var message messageAnswer
		if err := json.Unmarshal([]byte(text), &message); err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", name, r.StatusCode, text)
		}
		wantText, wantCalls := "", ""
		for _, b := range message.Content {
			wantText += b.Text
			if b.Type == "tool_use" {
				wantCalls += b.Name + string(b.Input)
			}
		}
		if wantText == "" && wantCalls == "" {
			t.Fatalf("%s: messages says nothing: %s", name, text)
		}
		for form, path := range map[string]string{"plain": url + ":generateContent", "stream": url + ":streamGenerateContent?alt=sse",
			"array": base + "/generate-content/v1/models/core-1.1:streamGenerateContent"} {
			r, text := askGenerate(t, path, header, body[0])
			if r.StatusCode != 200 {
				t.Fatalf("%s, %s: %d %s", name, form, r.StatusCode, text)
			}
			if got := r.Header.Get("Content-Type"); form == "stream" && got != "text/event-stream" {
				t.Errorf("content type %q", got)
			}
			whole := gather(t, form, text)
			gotText, gotCalls := whole.said(t)
			u, e := whole.UsageMetadata, settled(t, n, r.Header.Get("X-Llm-Request-Id"))
			if gotText != wantText || strings.Join(gotCalls, "") != wantCalls || whole.Candidates[0].FinishReason != "STOP" {
				t.Errorf("%s, %s: %q %q, messages says %q %q", name, form, gotText, gotCalls, wantText, wantCalls)
			}
			in, out := message.Usage.Input+message.Usage.Read, u.CandidatesTokenCount+u.ThoughtsTokenCount
			told := [3]int64{u.PromptTokenCount, u.TotalTokenCount, out}
			if told != [3]int64{in, in + out, message.Usage.Output} || in != e.Usage.Input() {
				t.Errorf("%s, %s: usage %+v, settled %+v, messages %+v", name, form, u, e.Usage, message.Usage)
			}
			if -e.Amount != listed(n, e) || e.Amount == 0 || e.Provisional {
				t.Errorf("%s, %s: charged %+v", name, form, e)
			}
		}
	}
}

// TestGenerateContentAsks: keys in header and query, listings, counts, the second turn of
// a call, and failures as the protocol has them.
func TestGenerateContentAsks(t *testing.T) {
	_, base, key, operator := startWithModules(t, nil)
	if _, err := operator.EnableModule("generate-content"); err != nil {
		t.Fatal(err)
	}
	header, models := http.Header{"X-Goog-Api-Key": {key}}, base+"/v1beta/models"
	var listing struct{ Models []struct{ Name string } }
	if r, text := askGenerate(t, models+"?key="+key, http.Header{}, ""); r.StatusCode != 200 || json.Unmarshal([]byte(text), &listing) != nil ||
		len(listing.Models) != 2 || listing.Models[0].Name != "models/core-1.1" {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	if r, text := askGenerate(t, models+"/core-1.1", header, ""); r.StatusCode != 200 || !strings.HasPrefix(text, `{"name":"models/core-1.1"`) {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	_, native := askGenerate(t, base+"/v1/messages/count_tokens", http.Header{"X-Api-Key": {key}}, weatherMessage)
	for _, budget := range []string{":200", ":100000"} { // nothing is generated, so no budget is too large
		_, counted := askGenerate(t, models+"/core-1.1:countTokens", header,
			`{"generateContentRequest":`+strings.Replace(weatherParts, ":200", budget, 1)+`}`)
		if want := strings.Replace(native, "input_tokens", "totalTokens", 1); counted != want || !strings.Contains(want, "totalTokens") {
			t.Errorf("counted %s, messages %s", counted, native)
		}
	}
	var first, second generated
	_, text := askGenerate(t, models+"/core-1.1:generateContent", header, weatherParts)
	first.add(t, text)
	var turn struct {
		Candidates []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal([]byte(text), &turn); err != nil || first.Candidates[0].Content.Parts[0].ThoughtSignature == "" {
		t.Fatalf("no signature: %s, %v", text, err)
	}
	said := string(turn.Candidates[0].Content)
	_, text = askGenerate(t, models+"/core-1.1:generateContent", header, strings.Replace(weatherParts, `]}],"generationConfig"`,
		`]},`+said+`,{"parts":[{"functionResponse":{"name":"get_weather","response":{"temperature":17,"sky":"clear"}}}]}],"generationConfig"`, 1))
	second.add(t, text)
	if said, calls := second.said(t); said == "" || len(calls) > 0 {
		t.Errorf("the second turn: %s", text)
	}
	for name, c := range map[string]struct {
		path, key, body string
		code            int
		status          string
	}{
		"no key":       {"/core-1.1:generateContent", "", helloParts, 401, "UNAUTHENTICATED"},
		"another key":  {"/core-1.1:generateContent", "sk-no", helloParts, 401, "UNAUTHENTICATED"},
		"no model":     {"/nobody:generateContent", key, helloParts, 404, "NOT_FOUND"},
		"no such":      {"/nobody", key, "", 404, "NOT_FOUND"},
		"no JSON":      {"/core-1.1:generateContent", key, "{", 400, "INVALID_ARGUMENT"},
		"the engine's": {"/core-1.1:streamGenerateContent?alt=sse", key, strings.Replace(helloParts, `:0,`, `:-1,`, 1), 400, "INVALID_ARGUMENT"},
		"media":        {"/core-1.1:generateContent", key, `{"contents":[{"parts":[{"inlineData":{}}]}]}`, 400, "INVALID_ARGUMENT"},
	} {
		header := http.Header{}
		if c.key != "" {
			header.Set("x-goog-api-key", c.key)
		}
		r, text := askGenerate(t, models+c.path, header, c.body)
		var g generated
		err := json.Unmarshal([]byte(text), &g)
		if e := g.Error; err != nil || r.StatusCode != c.code || e.Code != c.code || e.Status != c.status || e.Message == "" {
			t.Errorf("%s: %d %s", name, r.StatusCode, text)
		}
	}
}

// TestGenerateContentSlash: SDKs send an id as the listing has it, also one with a slash.
func TestGenerateContentSlash(t *testing.T) {
	_, base, key, operator := startWithModules(t, func(cfg *config.Config) {
		m := cfg.Models["core-1.1-mini"]
		m.Path = "../engine/embedded/core-1.1-mini.gguf"
		cfg.Models["owner/core"] = m
		instantModels(cfg)
	})
	if _, err := operator.EnableModule("generate-content"); err != nil {
		t.Fatal(err)
	}
	header := http.Header{"X-Goog-Api-Key": {key}}
	for _, prefix := range []string{"/v1beta", "/generate-content/v1"} {
		url := base + prefix + "/models"
		if _, text := askGenerate(t, url, header, ""); !strings.Contains(text, `"name":"models/owner/core"`) {
			t.Errorf("listing: %s", text)
		}
		for _, id := range []string{"owner/core", "owner%2Fcore"} {
			for end, body := range map[string]string{"": "", ":generateContent": helloParts, ":streamGenerateContent?alt=sse": helloParts,
				":countTokens": `{"contents":[{"parts":[{"text":"Say hello."}]}]}`} {
				if r, text := askGenerate(t, url+"/"+id+end, header, body); r.StatusCode != 200 || strings.Contains(text, `"error"`) {
					t.Errorf("%s/%s%s: %d %s", prefix, id, end, r.StatusCode, text)
				}
			}
		}
		if r, text := askGenerate(t, url+"/owner/none:generateContent", header, helloParts); r.StatusCode != 404 || !strings.Contains(text, "NOT_FOUND") {
			t.Errorf("a model that is none: %d %s", r.StatusCode, text)
		}
	}
}
