package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/messages"
	"corenode/engine/sample"
	"corenode/wasm/abi"
)

// scripted is a model that would end its answer at once, and else says its script
// over and over again.
type scripted struct {
	Forwarder
	prompt int
	stop   int32
	script []int32
}

func (f scripted) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, logitRows []int32, logits [][]float32) error {
	sp := step.Spans[0] // tests run one sequence
	for i, row := range logitRows {
		clear(logits[i])
		logits[i][f.script[(sp.Pos+int(row)-sp.Row+1-f.prompt)%len(f.script)]] = 100
		logits[i][f.stop] = 1000
	}
	return nil
}

// say runs a body on a model that would end at once, and else says script.
func say(t *testing.T, script, body string) *answer {
	e, s := open2(t, options(CPU))
	r := ask(t, e, body)
	e.forwarder = scripted{e.forwarder, len(r.Prompt), s.stops[0], e.tokenizer.EncodePrompt(nil, script)}
	_, a := submit(t, s, "acct", r)
	runAll(t, s)
	checkStream(t, a.events)
	return a
}

// TestAnswersAsLongAsAskedFor: min_tokens and ignore_eos keep an answer from ending, a
// stop sequence too as long as tokens are missing, and a call or JSON that is complete
// ends it all the same.
func TestAnswersAsLongAsAskedFor(t *testing.T) {
	const (
		plain = `{"model":"m","max_tokens":300,"temperature":0,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"x"}]`
		tools = `,"tools":[{"name":"ship","input_schema":{"type":"object","properties":{}}}]`
		call  = "<tool_call>\n<function=ship>\n</function>\n</tool_call> and more"
		json  = `,"response_format":{"type":"json_schema","json_schema":{"schema":{"const":5}}}`
	)
	for _, c := range []struct {
		name, script, more string
		tokens             int64 // 0: any number below 300
		stop               abi.StopReason
	}{
		{"neither", "abc ", ``, 1, abi.StopEndTurn},
		{"min_tokens", "abc ", `,"min_tokens":7`, 8, abi.StopEndTurn},
		{"all of them", "abc ", `,"min_tokens":300`, 300, abi.StopMaxTokens},
		{"no end", "abc ", `,"ignore_eos":true`, 300, abi.StopMaxTokens},
		{"an end", "abc ", `,"ignore_eos":false,"min_tokens":0`, 1, abi.StopEndTurn},
		{"a stop sequence", "c", `,"ignore_eos":true,"stop_sequences":["cc"]`, 2, abi.StopStopSequence},
		{"a stop sequence too early", "c", `,"min_tokens":9,"stop_sequences":["cc"]`, 10, abi.StopEndTurn},
		{"a stop sequence after that", "c", `,"ignore_eos":true,"min_tokens":9,"stop_sequences":["cc"]`, 10, abi.StopStopSequence},
		{"a call", call, `,"ignore_eos":true` + tools, 0, abi.StopToolUse},
		{"a call before min_tokens", call, `,"min_tokens":200` + tools, 0, abi.StopToolUse},
		{"JSON", "5", `,"ignore_eos":true` + json, 0, abi.StopEndTurn},
		{"JSON before min_tokens", "5", `,"min_tokens":200` + json, 0, abi.StopEndTurn},
		{"a forced call", call, `,"ignore_eos":true,"tool_choice":{"type":"tool","name":"ship"}` + tools, 0, abi.StopToolUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := say(t, c.script, plain+c.more+`}`).result
			if r.Stop != c.stop || c.tokens > 0 && r.Usage.Output != c.tokens || c.tokens == 0 && r.Usage.Output >= 150 {
				t.Errorf("stopped for %v after %d tokens, want %v after %d", r.Stop, r.Usage.Output, c.stop, c.tokens)
			}
		})
	}
}

// TestMinTokensHasToFit: an answer cannot be longer than it may be.
func TestMinTokensHasToFit(t *testing.T) {
	e, _ := open2(t, options(Instant))
	q, err := messages.Parse([]byte(`{"model":"m","max_tokens":10,"min_tokens":11,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Prepare("acct", q)
	if wrong, ok := errors.AsType[*abi.Error](err); !ok || wrong.Kind != abi.InvalidRequest || wrong.Param != "min_tokens" {
		t.Errorf("error %v, want one of min_tokens", err)
	}
}

// TestRepetitionPenaltyKnowsThePrompt: a token of the prompt is penalized from the
// first draw on, and without such a penalty nobody looks for them.
func TestRepetitionPenaltyKnowsThePrompt(t *testing.T) {
	e, s := open2(t, options(CPU))
	const plain = `{"model":"m","max_tokens":1,"temperature":0,"messages":[{"role":"user","content":"x"}]`
	r := ask(t, e, plain+`,"repetition_penalty":30}`)
	if want := sample.Distinct(r.Prompt); !slices.Equal(r.Distinct, want) || len(want) == 0 {
		t.Errorf("the distinct tokens are %v, want %v", r.Distinct, want)
	}
	if other := ask(t, e, plain+`,"repetition_penalty":1}`); other.Distinct != nil {
		t.Errorf("without a penalty there are distinct tokens: %v", other.Distinct)
	}
	for _, c := range []struct {
		r    *Request
		want int32
	}{{ask(t, e, plain+`}`), r.Prompt[0]}, {r, 7}} {
		if slices.Contains(c.r.Prompt, 7) {
			t.Fatal("the prompt has the other token")
		}
		e.forwarder = likes{Forwarder: e.forwarder, first: r.Prompt[0], then: 7}
		j := &Job{ID: "r", Account: "a", Request: c.r, Output: NewOutput(8), Finished: func(Result) {}}
		if err := s.submit(j, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := s.order[len(s.order)-1]
		runAll(t, s)
		if len(got.sampled) != 1 || got.sampled[0] != c.want {
			t.Errorf("drew %v, want %d", got.sampled, c.want)
		}
	}
}

// likes is a model that would say one token, and if not that another.
type likes struct {
	Forwarder
	first, then int32
}

func (f likes) Forward(_ *kernel.Step, _ []int32, _ kernel.Cache, _ []int32, logits [][]float32) error {
	for _, row := range logits {
		clear(row)
		row[f.first], row[f.then] = 10, 9
	}
	return nil
}
