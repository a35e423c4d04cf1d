package modeltest_test

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"corenode/engine"
	"corenode/engine/embedded"
	"corenode/engine/messages"
	"corenode/engine/modeltest"
	"corenode/engine/sample"
	"corenode/engine/template"
	"corenode/engine/tokenizer"
	"corenode/wasm/abi"
)

const script = `[
	{"user": "21 degrees", "text": "Sunny."},
	{"user": "Paris", "offers": "weather", "thinking": "I look.", "text": "One moment.", "calls": [
		{"name": "weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "weather", "arguments": {"city": "Rome é", "days": 3}}]},
	{"user": "Paris", "json": {"city": "Paris", "people": [1, 2]}},
	{"user": "Say", "thinking": "They want it said.", "text": "It is <b>said</b>."}
]`

const tools = `"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city","days"]}}]`

// player is an engine that plays the script.
func player(t *testing.T, log *bytes.Buffer) (*engine.Engine, *engine.Stepper) {
	t.Helper()
	answers, err := modeltest.ReadScript([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	const pageTokens = 16
	e, err := engine.Load(engine.Options{
		Info: engine.Info{ID: "m", ContextLength: 4096}, Kind: engine.Instant, Data: embedded.Model("core-1.1"), Template: template.Builtin,
		Defaults: func(string, bool) sample.Params { return sample.Params{Temperature: 1, TopP: 0.95, TopK: 20} },
		Cache:    engine.CacheOptions{PageTokens: pageTokens, PinBytesMax: 1 << 20},
		Batch:    engine.BatchOptions{StepTokensMax: 128, SequencesMax: 4, QueueMax: 4},
		Model: func(words *tokenizer.Tokenizer) engine.Forwarder {
			return modeltest.New(words, pageTokens, answers, slog.New(slog.NewTextHandler(log, nil)))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewStepper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); e.Close() })
	return e, s
}

// play runs one request and shows its blocks, and how many tokens came from the prefix cache.
func play(t *testing.T, e *engine.Engine, s *engine.Stepper, body string) (shown string, cached int64) {
	t.Helper()
	q, err := messages.Parse([]byte(`{"model":"m","max_tokens":200,` + body + `}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Prepare("acct", q)
	if err != nil {
		t.Fatal(err)
	}
	done := false
	j := &engine.Job{ID: "r", Account: "a", Request: r, Pin: true, Output: engine.NewOutput(1 << 20),
		Finished: func(engine.Result) { done = true }}
	s.Submit(j, time.Now(), func(err *abi.Error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	for s.Step(time.Now()) {
	}
	if !done {
		t.Fatal("the answer does not end")
	}
	var b strings.Builder
	for _, ev := range j.Output.Drain(nil) {
		switch ev.Kind {
		case abi.EventStart:
			cached = ev.Usage.CacheRead
		case abi.EventBlockStart:
			fmt.Fprintf(&b, "[%s]", cmp.Or(ev.Name, map[abi.BlockKind]string{abi.BlockThinking: "thinking", abi.BlockText: "text"}[ev.Block]))
		case abi.EventDelta:
			b.WriteString(ev.Text)
		case abi.EventEnd:
			fmt.Fprintf(&b, " %v", ev.Stop)
		case abi.EventError:
			t.Fatal(ev.Err)
		}
	}
	return b.String(), cached
}

const conversation = `"messages":[{"role":"user","content":"How is Paris, and Rome?"}`

// TestPlayed: a recorded answer comes out through the real template, masks and
// parser, with thinking and without, free and constrained, in one turn and the next.
func TestPlayed(t *testing.T) {
	var log bytes.Buffer
	e, s := player(t, &log)
	const calls = `[weather]{"city":"Paris","days":2}[weather]{"city":"Rome é","days":3} tool_use`
	for _, c := range []struct{ body, want string }{
		{`"messages":[{"role":"user","content":"Say it."}]`, `[thinking]They want it said.[text]It is <b>said</b>. end_turn`},
		{`"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"Say it."}]`, `[text]It is <b>said</b>. end_turn`},
		{tools + `,` + conversation + `]`, `[thinking]I look.[text]One moment.` + calls},
		{tools + `,` + conversation + `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Paris","days":2}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"21 degrees"}]}]`, `[thinking][text]Sunny. end_turn`},
		{`"thinking":{"type":"disabled"},"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"city":{"type":"string"},
			"people":{"type":"array","items":{"type":"integer"}}},"required":["city","people"],"additionalProperties":false}}},` + conversation + `]`,
			`[text]{"city":"Paris","people":[1,2]} end_turn`},
		{`"messages":[{"role":"user","content":"What?"}]`, `[thinking]Hm.[text]Nobody recorded an answer to this. end_turn`},
	} {
		got, _ := play(t, e, s, c.body)
		if got = strings.ReplaceAll(got, "[thinking][text]", "[text]"); got != strings.ReplaceAll(c.want, "[thinking][text]", "[text]") {
			t.Errorf("%s: %s", c.body, got)
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "nobody recorded an answer") {
		t.Errorf("log %s", got)
	}
}

// TestPlayedFromThePrefixCache: what the model knows of a prompt is what lies in its pages.
func TestPlayedFromThePrefixCache(t *testing.T) {
	e, s := player(t, &bytes.Buffer{})
	body := tools + `,` + conversation + `]`
	first, cached := play(t, e, s, body)
	if cached != 0 {
		t.Fatalf("%d tokens cached before the first request", cached)
	}
	if again, cached := play(t, e, s, body); again != first || cached == 0 {
		t.Errorf("%d tokens from the cache: %s", cached, again)
	}
}

// TestMaskedAnswerIsReported: an answer that breaks its grammar does not come out as
// recorded, and the log says where.
func TestMaskedAnswerIsReported(t *testing.T) {
	var log bytes.Buffer
	e, s := player(t, &log)
	got, _ := play(t, e, s, `"thinking":{"type":"disabled"},"temperature":0,"output_config":{"format":{"type":"json_schema","schema":{"type":"object",
		"properties":{"city":{"enum":["Rome"]}},"required":["city"],"additionalProperties":false}}},`+conversation+`]`)
	if !strings.Contains(got, "Rome") || strings.Count(log.String(), "not written as it was recorded") != 1 {
		t.Errorf("%s, log %s", got, log.String())
	}
}

func TestReadScriptRefuses(t *testing.T) {
	for _, text := range []string{`{}`, `[{"usr":"x"}]`, `[] []`, `[{"calls":[{"name":"f","arguments":[1]}]}]`, `[{"calls":[{"name":"f"}]}]`, `[{"text":"a","json":1}]`} {
		if s, err := modeltest.ReadScript([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", text, s)
		}
	}
}
