package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"corenode/engine"
	"corenode/engine/embedded"
	"corenode/engine/sample"
	"corenode/node/cli"
	"corenode/node/config"
)

// A request that says nothing about sampling gets what suits the model: the
// card of its family for a file, less chance for the small models in the binary. The
// config has the last word, value by value.
func TestSamplingDefaults(t *testing.T) {
	embedded := sample.Params{Temperature: 0.3, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
	family := sample.Params{Temperature: 1, TopP: 0.95, TopK: 20, PresencePenalty: 1.5, RepetitionPenalty: 1}
	warm, k := 0.7, 5
	straight := sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1}
	for _, c := range []struct {
		name         string
		path         string
		architecture string
		thinking     bool
		says         config.Sampling
		want         sample.Params
	}{
		{"embedded", "", "qwen35moe", true, config.Sampling{}, embedded},
		{"embedded, straight", "", "qwen35moe", false, config.Sampling{}, embedded},
		{"hosted", "model.gguf", "qwen35moe", true, config.Sampling{}, family},
		{"hosted, straight", "model.gguf", "qwen35", false, config.Sampling{}, sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, PresencePenalty: 1.5, RepetitionPenalty: 1}},
		{"Qwen3", "model.gguf", "qwen3", true, config.Sampling{}, sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}},
		{"Qwen3, straight", "model.gguf", "qwen3moe", false, config.Sampling{}, straight},
		{"Qwen2.5", "model.gguf", "qwen2", true, config.Sampling{}, sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1.05}},
		{"Llama 3", "model.gguf", "llama", true, config.Sampling{}, sample.Params{Temperature: 0.6, TopP: 0.9, RepetitionPenalty: 1}},
		{"Gemma 3", "model.gguf", "gemma3", true, config.Sampling{}, sample.Params{Temperature: 1, TopP: 0.95, TopK: 64, RepetitionPenalty: 1}},
		{"GLM 4.6", "model.gguf", "glm4moe", true, config.Sampling{}, sample.Params{Temperature: 1, TopP: 0.95, TopK: 40, RepetitionPenalty: 1}},
		{"embedded, configured", "", "qwen35moe", true, config.Sampling{Temperature: &warm}, sample.Params{Temperature: 0.7, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}},
		{"hosted, configured", "model.gguf", "qwen35moe", true, config.Sampling{TopK: &k},
			sample.Params{Temperature: 1, TopP: 0.95, TopK: 5, PresencePenalty: 1.5, RepetitionPenalty: 1}},
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
			got := o.Defaults(c.architecture, c.thinking)
			if o.Configured(&got); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
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
	o.Cache.Bytes, o.Cache.StateBytes = config.PageBytesMin, config.StateBytesMin
	e, err := engine.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := e.Info().ContextLength; got != embedded.ContextLength {
		t.Errorf("context of %d tokens, want %d", got, embedded.ContextLength)
	}
}

// TestContextThatThePagesDoNotHold: the start and the doctor say the same of it, which key and how much would do. What each
// names does.
func TestContextThatThePagesDoNotHold(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	load := func(change func(*config.Model)) (problems []string, err error) {
		t.Helper()
		m := cfg.Models["core-1.1"]
		change(&m)
		changed := *cfg
		changed.Models = map[string]config.Model{"core-1.1": m}
		o, err := engineOptions(&changed, "core-1.1", nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Load(o)
		if err == nil {
			e.Close()
		}
		return cli.Measure(&changed, 1<<30).Contexts, err
	}
	changed := *cfg
	m := changed.Models["core-1.1"]
	m.ContextLength = 1 << 20
	changed.Models = map[string]config.Model{"core-1.1": m}
	if f := cli.Measure(&changed, 1<<30); len(f.Contexts) != 1 || !f.ContextsElsewhere {
		t.Errorf("by the memory of a command that is none of the node's: %q, %v", f.Contexts, f.ContextsElsewhere)
	}
	said := func(bytes config.Size) error {
		t.Helper()
		problems, err := load(func(m *config.Model) { m.KV.MemoryBytes = bytes })
		if err == nil || len(problems) != 1 || problems[0] != err.Error() {
			t.Fatalf("of %d bytes the doctor says %q, the start: %v", bytes, problems, err)
		}
		return err
	}
	if err := said(20000); !strings.Contains(err.Error(), "holds no page") {
		t.Error(err)
	}
	err := said(256 << 20)
	for _, key := range []string{"models.core-1.1.kv.memory_bytes", "models.core-1.1.context_length"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	_, advice, _ := strings.Cut(err.Error(), "set models.")
	numbers := regexp.MustCompile(` to (\d+)`).FindAllStringSubmatch(advice, -1)
	if len(numbers) != 2 {
		t.Fatalf("%v names %q, want bytes and tokens", err, numbers)
	}
	bytes, _ := strconv.ParseInt(numbers[0][1], 10, 64)
	tokens, _ := strconv.Atoi(numbers[1][1])
	for less, fails := range map[int64]bool{0: false, 1: true} {
		for what, change := range map[string]func(*config.Model){
			"the bytes":  func(m *config.Model) { m.KV.MemoryBytes = config.Size(bytes - less) },
			"the tokens": func(m *config.Model) { m.KV.MemoryBytes, m.ContextLength = 256<<20, tokens+int(less) },
		} {
			if problems, err := load(change); (err != nil) != fails || (len(problems) > 0) != fails {
				t.Errorf("%s, %d off: %v, and the doctor says %q", what, less, err, problems)
			}
		}
	}
}

// TestTemplateSchema: our own template is told the schema of an answer, another one where the
// config says so.
func TestTemplateSchema(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.jinja")
	if err := os.WriteFile(other, []byte("{{ messages[0].content }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, template string
		says, want     bool
	}{{"", "", false, true}, {"", other, false, false}, {"", other, true, true}, {"model.gguf", "", false, false}, {"model.gguf", "", true, true}} {
		cfg := config.Default()
		m := cfg.Models["core-1.1"]
		m.Path, m.Template, m.TemplateSchema = c.path, c.template, c.says
		cfg.Models["core-1.1"] = m
		o, err := engineOptions(cfg, "core-1.1", nil)
		if err != nil || o.TemplateSchema != c.want {
			t.Errorf("%+v: told %v (err %v)", c, o.TemplateSchema, err)
		}
	}
}

// TestThinkingMax: the embedded models do not think for ever, others only where the config says so.
func TestThinkingMax(t *testing.T) {
	for _, c := range []struct {
		path       string
		says, want int
	}{{"", 0, embedded.ThinkingMax}, {"", 80, 80}, {"model.gguf", 0, 0}, {"model.gguf", 80, 80}} {
		cfg := config.Default()
		m := cfg.Models["core-1.1"]
		m.Path, m.ThinkingMax = c.path, c.says
		cfg.Models["core-1.1"] = m
		o, err := engineOptions(cfg, "core-1.1", nil)
		if err != nil || o.ThinkingMax != c.want {
			t.Errorf("%+v: %d tokens (err %v)", c, o.ThinkingMax, err)
		}
	}
}
