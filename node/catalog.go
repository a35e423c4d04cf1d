package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"corenode/engine"
	"corenode/engine/embedded"
	"corenode/engine/kernel"
	"corenode/engine/messages"
	"corenode/engine/sample"
	"corenode/engine/template"
	"corenode/engine/upstream"
	"corenode/node/config"
	"corenode/node/server"
)

// cardSampling is what the card of a family's models says for what neither the request
// nor the config does; of families that think, by whether they do.
func cardSampling(architecture string, thinking bool) sample.Params {
	switch {
	case architecture == "gemma3":
		return sample.Params{Temperature: 1, TopP: 0.95, TopK: 64, RepetitionPenalty: 1}
	case architecture == "glm4moe":
		return sample.Params{Temperature: 1, TopP: 0.95, TopK: 40, RepetitionPenalty: 1}
	case architecture == "llama":
		return sample.Params{Temperature: 0.6, TopP: 0.9, RepetitionPenalty: 1}
	case architecture == "qwen2":
		return sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1.05}
	case strings.HasPrefix(architecture, "qwen35") && thinking:
		return sample.Params{Temperature: 1, TopP: 0.95, TopK: 20, PresencePenalty: 1.5, RepetitionPenalty: 1}
	case strings.HasPrefix(architecture, "qwen35"):
		return sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, PresencePenalty: 1.5, RepetitionPenalty: 1}
	case thinking: // Qwen3
		return sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
	default:
		return sample.Params{Temperature: 0.7, TopP: 0.8, TopK: 20, RepetitionPenalty: 1}
	}
}

// embeddedSampling is for the models in the binary. They are small and learned
// one answer to a question, so what is less likely is mostly wrong; and what
// they are asked to do is mostly to repeat words, which a penalty forbids.
func embeddedSampling(string, bool) sample.Params {
	return sample.Params{Temperature: 0.3, TopP: 0.95, TopK: 20, RepetitionPenalty: 1}
}

// catalog holds the models by id: engines of the node's own, and those that servers
// elsewhere answer.
type catalog struct {
	engines    map[string]*engine.Engine
	upstreams  map[string]*upstream.Model
	replicated map[string]*upstream.Model // of engines that other nodes have too: how they are reached
	infos      []engine.Info              // sorted by id
}

// Model finds what is behind an id. One without a tag is that of the tag latest, as Ollama has it, where there is no other.
func (c *catalog) Model(id string) (server.Model, bool) {
	if m, ok := c.exactly(id); ok {
		return m, true
	}
	return c.exactly(id + ":latest")
}

func (c *catalog) exactly(id string) (server.Model, bool) {
	if m, ok := c.upstreams[id]; ok {
		return m, true
	}
	e, ok := c.engines[id]
	if remote := c.replicated[id]; ok && remote != nil {
		return replicatedModel{e, remote}, true
	}
	return e, ok
}

// remote are the models with servers elsewhere: those that only they answer, and those that
// this node and others answer.
func (c *catalog) remote() map[string]*upstream.Model {
	all := maps.Clone(c.upstreams)
	maps.Copy(all, c.replicated)
	return all
}

// ids are those of the models, sorted.
func (c *catalog) ids() (ids []string) {
	for _, info := range c.infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// Models lists what is served.
func (c *catalog) Models() []engine.Info { return c.infos }

func (c *catalog) close() {
	for _, e := range c.engines {
		e.Close()
	}
	for _, m := range c.remote() {
		m.Close()
	}
}

// replicatedModel is a model whose requests this node's own engine answers, or another node's.
type replicatedModel struct {
	*engine.Engine
	remote *upstream.Model
}

// Own implements server.Replicated.
func (m replicatedModel) Own() server.Model { return m.Engine }

// Prepare implements server.Model: by the own engine, and so that another node can take it.
func (m replicatedModel) Prepare(account string, q *messages.Request) (*engine.Request, error) {
	r, err := m.Engine.Prepare(account, q)
	if err == nil {
		r.Remote = m.remote.Carry(account, q, r)
	}
	return r, err
}

// openModels loads every configured model, one after the other: loading is
// bound by memory, not by processors. What the weights of all leave of a GPU is divided then. adjust, nil outside
// of tests, has the last word on the options of each engine. What servers elsewhere are told of accounts is made with secret.
func openModels(
	cfg *config.Config, secret []byte, observer engine.Observer, log *slog.Logger, adjust func(*engine.Options),
) (*catalog, error) {
	c := &catalog{engines: map[string]*engine.Engine{}, upstreams: map[string]*upstream.Model{},
		replicated: map[string]*upstream.Model{}}
	var own []*engine.Engine
	var says []func()
	ids := slices.Sorted(maps.Keys(cfg.Models))
	for _, id := range ids {
		if cfg.Models[id].Engine == config.EngineUpstream {
			m, err := openUpstream(cfg, id, secret, log)
			if err != nil {
				c.close()
				return nil, err
			}
			c.upstreams[id] = m
			continue
		}
		e, say, err := loadModel(cfg, id, observer, log, adjust)
		if err != nil {
			c.close()
			return nil, err
		}
		c.engines[id], own = e, append(own, e)
		if cfg.Models[id].Engine == config.EngineCUDA { // whose context the others on the GPU may yet shorten
			says = append(says, say)
		} else {
			say()
		}
	}
	if err := engine.Divide(own...); err != nil {
		c.close()
		return nil, err
	}
	for _, say := range says {
		say()
	}
	for _, id := range ids {
		m, _ := c.Model(id)
		c.infos = append(c.infos, m.Info())
	}
	return c, nil
}

// loadModel loads one model; say tells the log of it once it has its memory.
func loadModel(cfg *config.Config, id string, observer engine.Observer, log *slog.Logger,
	adjust func(*engine.Options)) (e *engine.Engine, say func(), err error) {
	started := time.Now()
	o, err := engineOptions(cfg, id, observer)
	if err != nil {
		return nil, nil, err
	}
	if adjust != nil {
		adjust(&o)
	}
	if e, err = engine.Load(o); err != nil {
		return nil, nil, err
	}
	took := time.Since(started).Milliseconds()
	return e, func() {
		length := e.Info().ContextLength
		log.Info("model loaded", "model", id, "engine", e.Describe(), "context_length", length, "ms", took)
		if err := e.PackError(); err != nil {
			log.Warn("the repacked weights are not kept; the next start packs again", "model", id, "error", err.Error())
		}
		if cfg.Models[id].ContextLength == 0 && o.Path != "" && length < e.FileContext() {
			log.Warn("the context window is cut to what the kv memory holds; raise kv.memory_bytes for more",
				"model", id, "context_length", length, "file", e.FileContext())
		}
	}, nil
}

// packDir is where the repacked weights of models are kept.
func packDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "packed") }

// engineOptions turns one model's configuration into what the engine wants.
func engineOptions(cfg *config.Config, id string, observer engine.Observer) (engine.Options, error) {
	m := cfg.Models[id]
	kvType, err := kernel.ParseKVType(m.KV.DType)
	if err != nil {
		return engine.Options{}, fmt.Errorf("model %s: %w", id, err)
	}
	states, err := kernel.ParseStateType(m.KV.StateDType)
	if err != nil {
		return engine.Options{}, fmt.Errorf("model %s: %w", id, err)
	}
	o := engine.Options{
		Info: engine.Info{ID: id, DisplayName: cmp.Or(m.DisplayName, id), ContextLength: m.ContextLength,
			OutputMax: m.OutputMax, Created: time.Now().Unix()},
		Kind: engine.Kind(m.Engine), Path: m.Path, Defaults: cardSampling, Configured: configured(m.Sampling),
		Cache: engine.CacheOptions{
			PageTokens: m.KV.PageTokens, KV: kvType, States: states,
			Bytes: int64(m.KV.MemoryBytes), StateBytes: int64(m.KV.StateMemoryBytes), HostBytes: int64(m.KV.HostStateMemoryBytes),
			PinBytesMax: int64(cfg.Limits.PinnedBytesPerAccount),
		},
		Batch: engine.BatchOptions{
			StepTokensMax: m.Batch.StepTokensMax, SequencesMax: m.Batch.SequencesMax, ChunkTokens: m.Batch.ChunkTokens,
			GapMax: m.Batch.GapMax, GapStretchMax: m.Batch.GapStretchMax,
			QueueMax: cfg.Limits.QueueRequestsMax, QueueTokensMax: cfg.Limits.QueueTokensMax,
			QueueTimeout: cfg.Limits.QueueTimeout,
			PauseAfter:   cfg.Limits.SlowReaderPause, CancelAfter: cfg.Limits.SlowReaderCancel,
		},
		ThinkingMax: m.ThinkingMax,
		Draft:       m.Speculation == config.SpeculationAuto, StepTime: m.StepTime,
		Threads: m.Threads, PackDir: packDir(cfg), Observer: observer,
	}
	if o.Kind != engine.CUDA { // which asks its device
		o.Cache.Bytes, o.Cache.StateBytes = m.KV.Pages(physicalMemory()), m.KV.States(physicalMemory())
	}
	if m.Path == "" {
		if o.Data = embedded.Model(id); o.Data == nil {
			return o, fmt.Errorf("model %s: no file is embedded for this id; set models.%s.path", id, id)
		}
		o.Template, o.Defaults = template.Builtin, embeddedSampling
		o.ContextLength, o.ThinkingMax = cmp.Or(o.ContextLength, embedded.ContextLength), cmp.Or(o.ThinkingMax, embedded.ThinkingMax)
	} else if info, err := os.Stat(m.Path); err == nil {
		o.Created = info.ModTime().Unix()
	}
	if m.Template != "" {
		text, err := os.ReadFile(m.Template)
		if err != nil {
			return o, fmt.Errorf("model %s: read chat template: %w", id, err)
		}
		o.Template = string(text)
	}
	o.TemplateSchema = m.TemplateSchema || m.Path == "" && m.Template == "" // our own template has a place for it
	if o.TemplateDate, err = templateDate(m); err != nil {
		return o, fmt.Errorf("model %s: %w", id, err)
	}
	return o, nil
}

// templateDate is the day that a chat template is told; zero is that of each request.
func templateDate(m config.Model) (time.Time, error) {
	if m.TemplateDate == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, m.TemplateDate) // the configuration was checked
}

// configured changes a model's defaults as the config says.
func configured(s config.Sampling) func(*sample.Params) {
	set := func(to *float32, from *float64) {
		if from != nil {
			*to = float32(*from)
		}
	}
	return func(p *sample.Params) {
		set(&p.Temperature, s.Temperature)
		set(&p.TopP, s.TopP)
		set(&p.MinP, s.MinP)
		set(&p.PresencePenalty, s.PresencePenalty)
		if s.TopK != nil {
			p.TopK = *s.TopK
		}
	}
}
