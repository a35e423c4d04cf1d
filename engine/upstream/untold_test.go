package upstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// wordCounter counts the words of a conversation, as the fakes do.
type wordCounter struct{}

func (wordCounter) Count(q *messages.Request) (n int, err error) {
	for _, m := range q.Messages {
		n += len(strings.Fields(messages.Texts(m.Blocks)))
	}
	return n, nil
}

// logged makes a model's log one that can be read.
func logged(o *Options) *bytes.Buffer {
	var log bytes.Buffer
	o.Log, o.ProbeEvery = slog.New(slog.NewTextHandler(&log, nil)), time.Hour
	return &log
}

// TestLostFields: sampling that servers cannot be told is refused by its name, unless it asks for
// nothing; all others are told it.
func TestLostFields(t *testing.T) {
	fields := []struct{ name, asks, neutral, sent string }{
		{"top_k", `5`, `0`, `"top_k":5`},
		{"min_p", `0.5`, `0`, `"min_p":0.5`},
		{"repetition_penalty", `1.5`, `1`, `_penalty":1.5`}, // which llama-server has by another name
		{"min_tokens", `3`, `0`, `"min_tokens":3`},
		{"ignore_eos", `true`, `false`, `"ignore_eos":true`},
	}
	lost := map[wire.Flavor][]string{
		wire.LlamaServer:     {"min_tokens"},
		wire.ChatCompletions: {"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"},
	}
	for _, f := range slices.Concat(flavors, []wire.Flavor{wire.ChatCompletions}) {
		m := open(t, f, func(o *Options) { o.Counter, o.ProbeEvery = wordCounter{}, time.Hour }, start(t, f, plainAnswer))
		prepare := func(name, value string) (*engine.Request, error) {
			q, err := messages.Parse(fmt.Appendf(nil, helloBody, `,"`+name+`":`+value))
			if err != nil {
				t.Fatal(err)
			}
			return m.Prepare("a", q)
		}
		for _, c := range fields {
			if _, err := prepare(c.name, c.neutral); err != nil {
				t.Errorf("%s, %s %s: %v", f, c.name, c.neutral, err)
			}
			r, err := prepare(c.name, c.asks)
			switch {
			case slices.Contains(lost[f], c.name):
				if abi.KindOf(err) != abi.InvalidRequest || abi.AsError(err).Param != c.name {
					t.Errorf("%s, %s %s: %v", f, c.name, c.asks, err)
				}
			case err != nil || !bytes.Contains(r.Payload.(*sent).body, []byte(c.sent)):
				t.Errorf("%s, %s %s: %+v, %v", f, c.name, c.asks, r, err)
			}
		}
	}
}

// TestLostEffort: that servers cannot be told how much to think changes no request, and is logged once.
func TestLostEffort(t *testing.T) {
	var log *bytes.Buffer
	m := open(t, wire.ChatCompletions, func(o *Options) { log, o.Counter = logged(o), wordCounter{} }, start(t, wire.ChatCompletions, plainAnswer))
	for _, effort := range []string{"low", "high"} {
		q, err := messages.Parse(fmt.Appendf(nil, helloBody, `,"output_config":{"effort":"`+effort+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Prepare("a", q); err != nil {
			t.Fatal(err)
		}
	}
	if said := log.String(); strings.Count(said, "is left out") != 1 || !strings.Contains(said, "field=output_config.effort") {
		t.Errorf("the log says %s", said)
	}
}
