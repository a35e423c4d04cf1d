package engine

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile/gguftest"
)

// TestPublishedModelAnswers: a model that others trained reads conversations as they are tokenized
// by its makers' library, and answers greedily what another implementation answers in float32, as
// far as a logit leads by more than 8-bit activations may move it. testdata/gemma3 says how it was
// recorded. It is a model of text: its answers make little sense.
func TestPublishedModelAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("reading 250 MB takes long")
	}
	data, err := gguftest.Published()
	if errors.Is(err, gguftest.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	chat, err := os.ReadFile("testdata/gemma3/chat.jinja")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Cases []struct {
			Messages       []map[string]string
			Prompt, Answer []int32
			Leads          []float64
		}
	}
	answers, err := os.ReadFile("testdata/gemma3/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answers, &recorded); err != nil || len(recorded.Cases) == 0 {
		t.Fatalf("%d conversations: %v", len(recorded.Cases), err)
	}
	o := options(CPU)
	o.Data, o.Template, o.Info.ContextLength = data, string(chat), 2048
	e, s := open2(t, o)
	compared := 0
	for _, c := range recorded.Cases {
		body, err := json.Marshal(map[string]any{"model": "m", "max_tokens": len(c.Answer), "temperature": 0, "messages": c.Messages})
		if err != nil {
			t.Fatal(err)
		}
		r := ask(t, e, string(body))
		if !slices.Equal(r.Prompt, c.Prompt) {
			t.Errorf("%s is %v, want %v", body, r.Prompt, c.Prompt)
		}
		_, a := submit(t, s, "acct", r)
		runAll(t, s)
		checkStream(t, a.events)
		clear := c.Answer
		if at := slices.IndexFunc(c.Leads, func(lead float64) bool { return lead < 0.5 }); at >= 0 {
			clear = clear[:at]
		}
		compared += len(clear)
		d, want := e.tokenizer.NewDecoder(false), ""
		for _, id := range clear {
			want += d.Feed(id)
		}
		if got := text(a.events); !strings.HasPrefix(got, strings.TrimLeft(want, "\n ")) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	if compared < 8 {
		t.Errorf("%d tokens were compared", compared)
	}
}
