package main

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/config"
)

// enabled starts a node in which a module of the program serves that is off by default.
func enabled(t *testing.T, name string) (n *node, base, key string, operator *admin.Client) {
	t.Helper()
	n, base, key, operator = startWithModules(t, instantModels)
	if _, err := operator.EnableModule(name); err != nil {
		t.Fatal(err)
	}
	return n, base, key, operator
}

// sameAsMessages checks what a request of a module used and cost against the
// same request over messages.
func sameAsMessages(t *testing.T, n *node, base, key, id, native string) {
	t.Helper()
	e := settled(t, n, id)
	r, text := postTo(t, base, "/v1/messages", key, native)
	if r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	same := settled(t, n, r.Header.Get("X-Llm-Request-Id"))
	if e.Usage.Input() != same.Usage.Input() || e.Usage.Output != same.Usage.Output || e.Usage.Output == 0 || -e.Amount != listed(n, e) ||
		-same.Amount != listed(n, same) || e.Amount == 0 || e.Provisional || e.Model != same.Model {
		t.Errorf("charged %+v, over messages %+v", e, same)
	}
}

// TestOllama: a chat and a generate, streamed and whole, give the answer of messages at its price;
// lists, errors and what is off are as clients of that API expect.
func TestOllama(t *testing.T) {
	n, base, key, operator := enabled(t, "ollama")
	const native = `{"model":"core-1.1","max_tokens":8,"temperature":0,"messages":[{"role":"user","content":"Say hello."}]}`
	const options = `"options":{"num_predict":8,"temperature":0}`
	type line struct {
		Message            struct{ Content, Thinking string }
		Response, Thinking string
		Done               bool
		Reason             string `json:"done_reason"`
		Prompt             int64  `json:"prompt_eval_count"`
		Output             int64  `json:"eval_count"`
		Total              int64  `json:"total_duration"`
	}
	var texts []string
	for path, body := range map[string]string{
		"/api/chat":     `{"model":"core-1.1:latest","messages":[{"role":"user","content":"Say hello."}],` + options,
		"/api/generate": `{"model":"core-1.1","prompt":"Say hello.",` + options,
	} {
		for end, contentType := range map[string]string{`}`: "application/x-ndjson", `,"stream":false}`: "application/json"} {
			r, text := postTo(t, base, path, key, body+end)
			if r.StatusCode != 200 || r.Header.Get("Content-Type") != contentType {
				t.Fatalf("%s: %d %q %s", path, r.StatusCode, r.Header.Get("Content-Type"), text)
			}
			var last line
			said := ""
			for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
				last = line{}
				if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
					t.Fatalf("%q: %v", lines.Text(), err)
				}
				said += last.Message.Thinking + last.Message.Content + last.Thinking + last.Response
			}
			id := r.Header.Get("X-Llm-Request-Id")
			e := settled(t, n, id)
			if !last.Done || last.Reason != "length" || last.Prompt != e.Usage.Input() || last.Output != e.Usage.Output || last.Total <= 0 {
				t.Errorf("%s ends with %+v, charged %+v", path, last, e)
			}
			texts = append(texts, said)
			sameAsMessages(t, n, base, key, id, native)
		}
	}
	for _, text := range texts {
		if text != texts[0] || text == "" {
			t.Errorf("the answers are %q", texts)
		}
	}
	checkOllamaPaths(t, base, key)
	if _, err := operator.DisableModule("ollama"); err != nil {
		t.Fatal(err)
	}
	if r, text := diaryCall(t, "GET", base+"/api/tags", "Authorization", "Bearer "+key); r.StatusCode != 404 {
		t.Errorf("disabled: %d %s", r.StatusCode, text)
	}
}

// checkOllamaPaths asks for lists, and for what must be refused.
func checkOllamaPaths(t *testing.T, base, key string) {
	t.Helper()
	for _, c := range []struct {
		path, body, key string
		status          int
		says            string
	}{
		{"/api/tags", "", key, 200, `{"models":[{"name":"core-1.1","model":"core-1.1",`},
		{"/api/ps", "", key, 200, `"context_length":`},
		{"/api/version", "", key, 200, `{"version":"`},
		{"/api/show", `{"model":"core-1.1-mini"}`, key, 200, `"capabilities":["completion","tools","thinking"]`},
		{"/api/show", `{"model":"nobody"}`, key, 404, `{"error":"model \"nobody\" not found"}`},
		{"/api/chat", `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`, key, 404, `{"error":"model`},
		{"/api/chat", `{"model":"core-1.1","messages":[{"role":"user","content":"x"}],"options":{"temperature":-1}}`, key, 400,
			`{"error":"options.temperature: `},
		{"/api/generate", `{"model":"core-1.1","prompt":"x","raw":true}`, key, 400, `{"error":"raw: `},
		{"/api/chat", `{}`, "sk-no", 401, `{"error":"`},
		{"/api/tags", "", "sk-no", 401, `{"error":"`},
		{"/api/embed", `{"model":"core-1.1","input":"x"}`, key, 404, `{"error":"no such path: here are /api/chat, `},
	} {
		r, text := diaryCall(t, "GET", base+c.path, "Authorization", "Bearer "+c.key)
		if c.body != "" {
			r, text = postTo(t, base, c.path, c.key, c.body)
		}
		if r.StatusCode != c.status || !strings.Contains(text, c.says) || !json.Valid([]byte(text)) {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.StatusCode, text)
		}
	}
}

// TestOllamaCalls: a model's calls are objects, and their results find them without ids.
func TestOllamaCalls(t *testing.T) {
	base, key, log := startRecorded(t)
	operator, err := admin.Dial(filepath.Dir(log))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.EnableModule("ollama"); err != nil {
		t.Fatal(err)
	}
	const head, tools = `{"model":"core-1.1","messages":[{"role":"user","content":"How is the weather in Paris and in Rome?"}`,
		`],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	for _, c := range []struct{ body, says string }{
		{head + tools + `,"stream":false}`, `"index":0,"arguments":{"city":"Paris"}}}`},
		{head + tools + `}`, `"index":1,"arguments":{"city":"Rome"}}}]},"done":false}` + "\n"},
		{head + `,{"role":"assistant","tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Paris"}}},
			{"function":{"name":"get_weather","arguments":{"city":"Rome"}}}]},{"role":"tool","tool_name":"get_weather","content":"21 degrees"},
			{"role":"tool","content":"25 degrees"}` + tools + `,"stream":false}`, `"content":"Rome is warmer: `},
	} {
		if r, text := postTo(t, base, "/api/chat", key, c.body); r.StatusCode != 200 || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %s", c.body, r.StatusCode, text, c.says)
		}
	}
}

// TestLatest: a model whose id ends in the tag latest is found with it and without, as what it is.
func TestLatest(t *testing.T) {
	_, backBase, backKey := startPeer(t)
	n, base, _, operator := startWithModules(t, func(cfg *config.Config) {
		withUpstream(t, backKey, backBase)(cfg)
		m := cfg.Models["core-1.1"]
		m.Upstream.Model = "core-1.1"
		cfg.Models["far:latest"] = m
	})
	if _, err := operator.EnableModule("ollama"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the upstream to be ready", func() bool { return n.catalog.upstreams["far:latest"].Replicas()[0].Ready })
	_, key := customerOf(t, n, account.Account{Name: "a", Unlimited: true, Models: []string{"far:latest"}}, 0)
	for model, status := range map[string]int{"far:latest": 200, "far": 200, "core-1.1": 404, "core-1.1:latest": 404, "far:other": 404} {
		if r, text := postTo(t, base, "/api/show", key, `{"model":"`+model+`"}`); r.StatusCode != status {
			t.Errorf("show %s: %d %s", model, r.StatusCode, text)
		}
		r, text := postTo(t, base, "/api/chat", key, `{"model":"`+model+`","messages":[{"role":"user","content":"x"}],"options":{"num_predict":4}}`)
		if r.StatusCode != status {
			t.Errorf("chat with %s: %d %s", model, r.StatusCode, text)
		}
		if status == 200 {
			if e := settled(t, n, r.Header.Get("X-Llm-Request-Id")); e.Model != "far:latest" {
				t.Errorf("%s is charged as %s", model, e.Model)
			}
		}
	}
}
