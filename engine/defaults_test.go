package engine

import (
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/sample"
)

// folderSaying is a folder with a generation_config.json.
func folderSaying(t *testing.T, says string) *modelfile.File {
	t.Helper()
	dir := t.TempDir()
	config := `{"model_type":"qwen3","num_hidden_layers":1,"max_position_embeddings":8,"hidden_size":2,"num_attention_heads":1,"vocab_size":1}`
	if err := gguftest.WriteFolder(dir, map[string]string{"config.json": config, "generation_config.json": says}, nil, 1); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestDefaultsOfAFile: the operator's word counts more than the file's, and that more than the
// card's; an answer without thinking has what a card says for it.
func TestDefaultsOfAFile(t *testing.T) {
	card := sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
	straight := sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1}
	one := func(string, bool) sample.Params { return card }
	two := func(_ string, thinking bool) sample.Params {
		if thinking {
			return card
		}
		return straight
	}
	const all = `{"do_sample":true,"temperature":1,"top_p":0.5,"top_k":64,"min_p":0.1,"repetition_penalty":1.1,"eos_token_id":[1]}`
	own := sample.Params{Temperature: 1, TopP: 0.5, TopK: 64, MinP: 0.1, RepetitionPenalty: 1.1}
	for name, c := range map[string]struct {
		says       string
		defaults   func(string, bool) sample.Params
		thinking   bool
		configured func(*sample.Params)
		want       sample.Params
	}{
		"nothing":              {`{"eos_token_id":1}`, one, true, nil, card},
		"the file":             {all, one, false, nil, own},
		"the file, thinking":   {all, two, true, nil, own},
		"the card, straight":   {all, two, false, nil, straight},
		"a part of it, no top": {`{"temperature":0,"top_k":-1,"top_p":null}`, one, true, nil, sample.Params{TopP: 0.95, RepetitionPenalty: 1}},
		"the operator": {all, one, true, func(p *sample.Params) { p.TopK = 3 },
			sample.Params{Temperature: 1, TopP: 0.5, TopK: 3, MinP: 0.1, RepetitionPenalty: 1.1}},
	} {
		got, err := configuredDefaults(t, c.says, c.defaults, c.configured)
		p := got.straight
		if c.thinking {
			p = got.thinking
		}
		if err != nil || p != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, p, err, c.want)
		}
	}
	if _, err := configuredDefaults(t, `{"top_p":2}`, one, nil); err == nil || !strings.Contains(err.Error(), "top_p is 2") {
		t.Errorf("with a top_p of 2: %v", err)
	}
}

// configuredDefaults are those of a file that says something.
func configuredDefaults(t *testing.T, says string, card func(string, bool) sample.Params, change func(*sample.Params)) (defaults, error) {
	t.Helper()
	var e Engine
	var err error
	if e.ownDefaults, err = (Options{Defaults: card}).defaults(folderSaying(t, says)); err != nil {
		t.Fatal(err)
	}
	if err := e.Configure(change); err != nil {
		return defaults{}, err
	}
	return *e.defaults.Load(), nil
}

// TestConfigureBeginsFromTheFile: a change replaces the one before; one that is refused changes nothing.
func TestConfigureBeginsFromTheFile(t *testing.T) {
	own := sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
	e := &Engine{ownDefaults: defaults{own, own}}
	for _, change := range []func(*sample.Params){func(p *sample.Params) { p.TopK = 3 }, func(p *sample.Params) { p.MinP = 0.5 }, nil} {
		if err := e.Configure(change); err != nil {
			t.Fatal(err)
		}
		want := own
		if change != nil {
			change(&want)
		}
		if got := *e.defaults.Load(); got != (defaults{want, want}) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if err := e.Configure(func(p *sample.Params) { p.TopP = 2 }); err == nil || *e.defaults.Load() != (defaults{own, own}) {
		t.Errorf("a top_p of 2: %v, %+v", err, *e.defaults.Load())
	}
}
