package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"corenode/engine/grammar/grammartest"
)

// wire is one of the three protocols, as far as tools and JSON go.
type wire struct {
	name, path string
	// body is a request's: the question and the tools, or the schema of the answer; "" for none.
	body func(question, tools, schema string) string
	// tool is one tool.
	tool func(t wishTool, schema string, strict bool) string
	// read is what came: the text, the calls, tokens of the prompt, and whether the model ended the answer.
	read func(m map[string]any) wireAnswer
}

type wireAnswer struct {
	text   string
	calls  [][2]string // name and arguments
	prompt float64     // tokens
	ended  bool
}

// at is a value in JSON, by names of members and indexes; nil where there is none.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func list(v any) []any { l, _ := v.([]any); return l }

func str(v any) string { s, _ := v.(string); return s }

func num(v any) float64 { n, _ := v.(float64); return n }

// more is a member of a body, if there is a value.
func more(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(`,%q:%s`, name, value)
}

func wrapped(format, schema string) string {
	if schema == "" {
		return ""
	}
	return fmt.Sprintf(format, schema)
}

var wires = []wire{
	{"messages", "/v1/messages",
		func(question, tools, schema string) string {
			return fmt.Sprintf(`{"model":"core-1.1-mini","max_tokens":400,"temperature":0,"messages":[{"role":"user","content":%q}]%s%s}`, question,
				more("tools", tools), more("output_config", wrapped(`{"format":{"type":"json_schema","schema":%s}}`, schema)))
		},
		func(t wishTool, schema string, strict bool) string {
			return fmt.Sprintf(`{"name":%q,"description":%q,"input_schema":%s,"strict":%t}`, t.name, t.description, schema, strict)
		},
		func(m map[string]any) (a wireAnswer) {
			for _, b := range list(m["content"]) {
				if at(b, "type") == "tool_use" {
					arguments, _ := json.Marshal(at(b, "input"))
					a.calls = append(a.calls, [2]string{str(at(b, "name")), string(arguments)})
				}
				a.text += str(at(b, "text"))
			}
			a.prompt = num(at(m, "usage", "input_tokens")) + num(at(m, "usage", "cache_read_input_tokens"))
			a.ended = m["stop_reason"] == "end_turn"
			return a
		}},
	{"chat", "/v1/chat/completions",
		func(question, tools, schema string) string {
			return fmt.Sprintf(`{"model":"core-1.1-mini","max_completion_tokens":400,"temperature":0,"messages":[{"role":"user","content":%q}]%s%s}`, question,
				more("tools", tools), more("response_format", wrapped(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":%s}}`, schema)))
		},
		func(t wishTool, schema string, strict bool) string {
			return fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":%s,"strict":%t}}`, t.name, t.description, schema, strict)
		},
		func(m map[string]any) (a wireAnswer) {
			for _, c := range list(at(m, "choices", 0, "message", "tool_calls")) {
				a.calls = append(a.calls, [2]string{str(at(c, "function", "name")), str(at(c, "function", "arguments"))})
			}
			a.text, a.prompt = str(at(m, "choices", 0, "message", "content")), num(at(m, "usage", "prompt_tokens"))
			a.ended = at(m, "choices", 0, "finish_reason") == "stop"
			return a
		}},
	{"responses", "/v1/responses",
		func(question, tools, schema string) string {
			return fmt.Sprintf(`{"model":"core-1.1-mini","max_output_tokens":400,"temperature":0,"input":%q%s%s}`, question,
				more("tools", tools), more("text", wrapped(`{"format":{"type":"json_schema","name":"answer","strict":true,"schema":%s}}`, schema)))
		},
		func(t wishTool, schema string, strict bool) string {
			return fmt.Sprintf(`{"type":"function","name":%q,"description":%q,"parameters":%s,"strict":%t}`, t.name, t.description, schema, strict)
		},
		func(m map[string]any) (a wireAnswer) {
			for _, item := range list(m["output"]) {
				switch at(item, "type") {
				case "function_call":
					a.calls = append(a.calls, [2]string{str(at(item, "name")), str(at(item, "arguments"))})
				case "message":
					a.text += str(at(item, "content", 0, "text"))
				}
			}
			a.prompt, a.ended = num(at(m, "usage", "input_tokens")), m["status"] == "completed"
			return a
		}},
}

// answerTo sends a body and reads the JSON of its answer.
func answerTo(t *testing.T, url, key, body string) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	var m map[string]any
	if answer.StatusCode != http.StatusOK || err != nil || json.Unmarshal(raw, &m) != nil {
		t.Errorf("%s: %d %.300s (err %v) for %.300s", url, answer.StatusCode, raw, err, body)
	}
	return m
}

// wishTool is a tool, and wishes that it fulfills.
type wishTool struct {
	name, description, properties, required string
	wishes                                  []string
}

var wishTools = []wishTool{
	{"get_weather", "Get the current weather of a city.", `"city":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}`, `"city","unit"`,
		[]string{"What is the weather in %s?", "How warm is it in %s now?", "Tell me the weather of %s.", "Is it raining in %s?"}},
	{"book_table", "Book a table in a restaurant of a city.", `"city":{"type":"string"},"guests":{"type":"integer","minimum":1,"maximum":12},"wishes":{"type":"array","items":{"type":"string"},"maxItems":3}`, `"city","guests","wishes"`,
		[]string{"Book a table for 4 in %s.", "Please book a table for two people in %s.", "I need a table in %s for 6."}},
	{"find_hotel", "Find a hotel in a city.", `"city":{"type":"string","minLength":2},"price":{"type":["number","null"]},"near":{"type":"object","properties":{"station":{"type":"boolean"},"street":{"type":"string"}},"required":["station","street"],"additionalProperties":false}`, `"city","price","near"`,
		[]string{"Find a hotel in %s.", "I want a hotel in %s near the station.", "Look for a hotel in %s under 90 dollars."}},
	{"send_message", "Send a message to a person.", `"to":{"type":"string"},"text":{"type":"string"},"urgent":{"type":"boolean"}`, `"to","text","urgent"`,
		[]string{"Send a message to Anna that I am in %s.", "Write to Paul: see you in %s.", "Tell Maria that the train to %s is late."}},
}

var wishCities = []string{"Paris", "Rome", "Berlin", "Oslo", "Madrid", "Boston", "Tokyo", "Vienna"}

// parameters is the tool's schema. With all, every member is required and there is no other, as strict modes want it.
func (t wishTool) parameters(all, annotated bool) string {
	required, others := strings.Split(t.required, ",")[0], ""
	if all {
		required, others = t.required, `,"additionalProperties":false`
	}
	if annotated {
		others += `,"$schema":"http://json-schema.org/draft-07/schema#"`
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]%s}`, t.properties, required, others)
}

// TestToolPromptsOverEveryProtocol has the embedded model call tools as it likes: strict or not, with the
// annotation that generators of schemas write or without. Every call is valid.
func TestToolPromptsOverEveryProtocol(t *testing.T) {
	_, base, key := startNode(t, nil)
	prompts, workers := 144, 4
	if testing.Short() {
		prompts = 48
	}
	valid := map[string]func(string) error{}
	for _, tool := range wishTools {
		for i := range 4 {
			schema := tool.parameters(i&1 > 0, i&2 > 0)
			valid[tool.name+schema] = grammartest.Validator(t, schema)
		}
	}
	var called, wrong, asked int
	var mu sync.Mutex // over the counts
	var group sync.WaitGroup
	work := make(chan int)
	for range workers {
		group.Go(func() {
			for i := range work {
				w, strict, annotated := wires[i%3], i/3&1 > 0, i/6&1 > 0
				wanted := wishTools[i%len(wishTools)]
				wish := fmt.Sprintf(wanted.wishes[i/len(wishTools)%len(wanted.wishes)], wishCities[i/3%len(wishCities)])
				var tools []string
				schemas := map[string]string{}
				for n := range 1 + i%3 {
					tool := wishTools[(i+n)%len(wishTools)]
					schemas[tool.name] = tool.parameters(strict, annotated)
					tools = append(tools, w.tool(tool, schemas[tool.name], strict))
				}
				got := w.read(answerTo(t, base+w.path, key, w.body(wish, "["+strings.Join(tools, ",")+"]", "")))
				mu.Lock()
				asked++
				for _, call := range got.calls {
					called++
					if check := valid[call[0]+schemas[call[0]]]; check == nil {
						wrong++
						t.Errorf("%s, %q: called %q", w.name, wish, call[0])
					} else if err := check(call[1]); err != nil {
						wrong++
						t.Errorf("%s, %q: %s(%s): %v", w.name, wish, call[0], call[1], err)
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range prompts {
		work <- i
	}
	close(work)
	group.Wait()
	t.Logf("%d prompts, %d calls, %d of them invalid", asked, called, wrong)
	if called*2 < asked {
		t.Errorf("%d prompts, %d calls: too few to say anything", asked, called)
	}
}

// TestSchemaIsTheSameTokens: an answer's schema is shown to the model by the same tokens over every
// protocol, and count_tokens counts them.
func TestSchemaIsTheSameTokens(t *testing.T) {
	_, base, key := startNode(t, nil)
	const question = "Anna is 34 years old and lives in Rome."
	const schema = `{"type":"object","properties":{"name":{"type":"string","description":"full name"},"age":{"type":"integer"},"city":{"type":"string"}},"required":["name","age","city"],"additionalProperties":false}`
	count := func(schema string) float64 {
		body := strings.Replace(wires[0].body(question, "", schema), `"max_tokens":400,"temperature":0,`, "", 1)
		return num(answerTo(t, base+"/v1/messages/count_tokens", key, body)["input_tokens"])
	}
	with, without := count(schema), count("")
	if with < without+30 {
		t.Errorf("a prompt counts %v tokens with the schema, %v without", with, without)
	}
	first := ""
	for _, w := range wires {
		got := w.read(answerTo(t, base+w.path, key, w.body(question, "", schema)))
		if got.prompt != with {
			t.Errorf("%s: the prompt has %v tokens, count_tokens says %v", w.name, got.prompt, with)
		}
		if err := grammartest.Validator(t, schema)(got.text); err != nil || !got.ended {
			t.Errorf("%s: %q, ended %v: %v", w.name, got.text, got.ended, err)
		}
		if first == "" {
			first = got.text
		}
		if got.text != first {
			t.Errorf("%s answers %q, the first protocol %q", w.name, got.text, first)
		}
		if bare := w.read(answerTo(t, base+w.path, key, w.body(question, "", ""))); bare.prompt != without {
			t.Errorf("%s: without a schema the prompt has %v tokens, count_tokens says %v", w.name, bare.prompt, without)
		}
	}
}
