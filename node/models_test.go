package main

import (
	"testing"

	"corenode/engine"
	"corenode/engine/sample"
	"corenode/node/config"
)

// A request that says nothing about sampling gets what suits the model: the
// family's card for a file, less chance for the small models in the binary. The
// config has the last word, value by value.
func TestSamplingDefaults(t *testing.T) {
	embedded := sample.Params{Temperature: 0.3, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
	family := sample.Params{Temperature: 1, TopP: 0.95, TopK: 20, PresencePenalty: 1.5, RepetitionPenalty: 1}
	warm, k := 0.7, 5
	for _, c := range []struct {
		name string
		path string
		says config.Sampling
		want sample.Params
	}{
		{"embedded", "", config.Sampling{}, embedded},
		{"file", "model.gguf", config.Sampling{}, family},
		{"embedded, configured", "", config.Sampling{Temperature: &warm}, sample.Params{Temperature: 0.7, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}},
		{"file, configured", "model.gguf", config.Sampling{TopK: &k}, sample.Params{Temperature: 1, TopP: 0.95, TopK: 5, PresencePenalty: 1.5, RepetitionPenalty: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Default()
			m := cfg.Models["core-1.1"]
			m.Path, m.Sampling = c.path, c.says
			cfg.Models["core-1.1"] = m
			o, err := engineOptions(cfg, "core-1.1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if o.Defaults != c.want {
				t.Errorf("got %+v, want %+v", o.Defaults, c.want)
			}
		})
	}
}

// On a small machine the embedded models still accept all of their context.
func TestTheEmbeddedContextFitsAnywhere(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	o, err := engineOptions(cfg, "core-1.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Cache.Bytes, o.Cache.StateBytes = pagesLeast, statesLeast
	e, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := e.Info().ContextLength; got != embeddedContext {
		t.Errorf("context of %d tokens, want %d", got, embeddedContext)
	}
}
