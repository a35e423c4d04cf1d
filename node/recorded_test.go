package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"corenode/engine"
	"corenode/engine/modeltest"
	"corenode/engine/tokenizer"
	"corenode/node/config"
)

// answersVariable in the environment makes the test program a node whose models
// play the answers in the file that it names. Its configuration is the default's
// and that of the environment. bench/clients points other people's programs at it
// that need a better model than the embedded one.
const answersVariable = "CORENODE_TEST_ANSWERS"

// clientAnswers are what those programs ask for.
const clientAnswers = "../bench/clients/answers.json"

// serveRecorded serves until a signal and returns the status to end with.
func serveRecorded(file string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "corenode with recorded answers:", err)
		return 1
	}
	cfg, _, err := config.Load(config.Sources{Environment: os.Environ()})
	if err != nil {
		return fail(err)
	}
	script, err := readAnswers(file)
	if err != nil {
		return fail(err)
	}
	log, _, err := newLogger(cfg, os.Stderr)
	if err != nil {
		return fail(err)
	}
	instantModels(cfg)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	n, err := openWith(cfg, log, nil, standIns{adjust: playing(script, log)})
	if err != nil {
		return fail(err)
	}
	n.begin()
	n.greet(os.Stdout)
	select {
	case <-signals:
	case err = <-n.failed:
	}
	if stopped := n.stop(); stopped != nil || err != nil {
		return fail(fmt.Errorf("%v, %v", err, stopped))
	}
	return 0
}

func readAnswers(file string) (modeltest.Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return modeltest.ReadScript(text)
}

// playing makes models play a script.
func playing(script modeltest.Script, log *slog.Logger) func(*engine.Options) {
	return func(o *engine.Options) {
		o.Model = func(t *tokenizer.Tokenizer) engine.Forwarder {
			return modeltest.New(t, o.Cache.PageTokens, script, log)
		}
	}
}

// TestClientAnswers: what other people's programs ask for comes out of a whole node over
// each protocol: two calls beside each other, what their results lead to, and JSON.
func TestClientAnswers(t *testing.T) {
	base, key, log := startRecorded(t)
	parameters := object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []string{"city"}}
	const question, extract = "How is the weather in Paris and in Rome?", "Anna Berg is 34."
	const paris, rome, warmer = `{\"city\":\"Paris\"}`, `{\"city\":\"Rome\"}`, "Rome is warmer: 25 degrees against 21 in Paris."
	person := json.RawMessage(`{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"},
		"hobbies": {"type": "array", "items": {"type": "string"}}, "kind": {"enum": ["customer", "guest"]}}}`) // keys in the order of the answer
	user := func(text any) object { return object{"role": "user", "content": text} }
	for _, c := range []struct {
		path string
		body object
		want []string
	}{
		{"/v1/chat/completions", object{"messages": []object{user(question)}, "tools": []object{{"type": "function",
			"function": object{"name": "get_weather", "parameters": parameters}}}}, []string{paris, rome, `"finish_reason":"tool_calls"`, "Two cities, two calls."}},
		{"/v1/messages", object{"max_tokens": 500, "messages": []object{user(question), {"role": "assistant", "content": []object{
			{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": object{"city": "Paris"}},
			{"type": "tool_use", "id": "toolu_2", "name": "get_weather", "input": object{"city": "Rome"}}}},
			user([]object{{"type": "tool_result", "tool_use_id": "toolu_1", "content": "21 degrees"}, {"type": "tool_result", "tool_use_id": "toolu_2", "content": "25 degrees"}})},
			"tools": []object{{"name": "get_weather", "input_schema": parameters}}}, []string{warmer, `"end_turn"`}},
		{"/v1/responses", object{"input": extract, "text": object{"format": object{"type": "json_schema", "name": "p", "schema": person}}},
			[]string{`{\"name\":\"Anna Berg\",\"age\":34,\"city\":\"Oslo\"`, `"status":"completed"`}},
	} {
		c.body["model"] = "core-1.1"
		answer := string(postJSON(t, base, key, c.path, c.body))
		for _, want := range c.want {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: no %s in %s", c.path, want, answer)
			}
		}
	}
	calls := string(postJSON(t, base, key, "/v1/messages", object{"model": "core-1.1", "max_tokens": 500, "stream": true,
		"messages": []object{user(question)}, "tools": []object{{"name": "get_weather", "input_schema": parameters}}}))
	var blocks blockOrder
	for line := range strings.SplitSeq(calls, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			blocks.see(t, []byte(data))
		}
	}
	if blocks.begun != 3 || !strings.Contains(calls, `"stop_reason":"tool_use"`) {
		t.Errorf("streamed, what is thought and two calls are %d blocks: %s", blocks.begun, calls)
	}
	t.Run("stop sequences", func(t *testing.T) { stopSequences(t, base, key) })
	if got, err := os.ReadFile(log); err != nil || len(got) > 0 {
		t.Errorf("log %s, %v", got, err)
	}
}

// stopSequences: the text that a client stops at ends the answer before it, and messages name it. What is
// billed ends with the token that completed it: with one less the answer is cut.
func stopSequences(t *testing.T, base, key string) {
	const question, want = "Say hello.", "Hello! How " // of "Hello! How can I help you?"
	stops := []string{"END", "can"}
	m, p := client(base, key), ask(100, question)
	p.StopSequences = stops
	whole, err := m.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var streamed anthropic.Message
	stream := m.Messages.NewStreaming(t.Context(), p)
	for stream.Next() {
		if err := streamed.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	tokens := whole.Usage.OutputTokens
	p.MaxTokens = tokens
	exact, err := m.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range []*anthropic.Message{whole, &streamed, exact} {
		if text := got.Content[len(got.Content)-1].Text; text != want || got.StopReason != "stop_sequence" || got.StopSequence != "can" ||
			got.Usage.OutputTokens != tokens {
			t.Errorf("way %d: %s", i, got.RawJSON())
		}
	}
	p.MaxTokens = tokens - 1
	if cut, err := m.Messages.New(t.Context(), p); err != nil || cut.StopReason != "max_tokens" || cut.Usage.OutputTokens != tokens-1 {
		t.Errorf("with %d tokens: %+v, %v", p.MaxTokens, cut, err)
	}
	c, q := openAI(base, key), chat(100, question)
	for _, stop := range []openai.ChatCompletionNewParamsStopUnion{{OfString: openai.String("can")}, {OfStringArray: stops}} {
		q.Stop = stop
		got, err := c.Chat.Completions.New(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if a := got.Choices[0]; a.Message.Content != want || a.FinishReason != "stop" || got.Usage.CompletionTokens != tokens {
			t.Errorf("chat: %s, want %d tokens", got.RawJSON(), tokens)
		}
	}
}

// startRecorded runs a node whose models play the clients' answers. log is a file with what it found wrong.
func startRecorded(t *testing.T) (base, key, log string) {
	t.Helper()
	script, err := readAnswers(clientAnswers)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir, cfg.Log.Level = "127.0.0.1:0", t.TempDir(), moduleCache, "error"
	instantModels(cfg)
	log = filepath.Join(cfg.DataDir, "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	logger, _, err := newLogger(cfg, file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := openWith(cfg, logger, nil, standIns{adjust: playing(script, logger), slow: storeWait})
	if err != nil {
		t.Fatal(err)
	}
	n.begin()
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	secret, err := os.ReadFile(n.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + n.public.Addr().String(), strings.TrimSpace(string(secret)), log
}
