package engine

import (
	"cmp"
	"errors"
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/kv"
	"corenode/engine/model"
	"corenode/engine/modelfile"
)

// contextsMax bounds the page pool by what the model could ever use: this many
// whole context windows. A small model would otherwise spend its bytes on
// books for pages that nobody fills.
const contextsMax = 4

// snapshotsPerSequence is how many state slots beside the running one each
// slot of the batch gets at most; beyond it memory buys nothing.
const snapshotsPerSequence = 8

// memory is the size of what outlives a step, in pages and slots.
type memory struct {
	pages     int
	pageBytes int64
	states    int
	snapshots int
	host      int   // slots for snapshots in host memory
	state     int64 // bytes of one slot
}

// useful is how many pages and state slots a model with a context window could ever use.
func useful(o Options, context int) (pages, states int64) {
	contexts := contextsMax
	if o.Kind == CUDA { // whose batches are large
		contexts = max(contexts, o.Batch.SequencesMax)
	}
	return int64(contexts * context / o.Cache.PageTokens), int64((1 + snapshotsPerSequence) * o.Batch.SequencesMax)
}

// PageBytesMax is what the pages of a file's model take at most on a CPU, however many bytes they may have: those of
// contextsMax windows of so many tokens, of which 0 is what the file says. A prediction layer counts, there or not.
func PageBytesMax(f *modelfile.File, context int, c CacheOptions) (int64, error) {
	cfg, err := model.ReadConfig(f)
	if err != nil {
		return 0, err
	}
	pages, _ := useful(Options{Cache: c}, cmp.Or(context, cfg.ContextLength))
	return pages * new(cpu.Backend).PageBytes(cfg.Pages(cfg.FullLayers()+1, c.PageTokens, 1, c.KV)), nil
}

// CheckContext is the error of Load on a CPU where the pages do not hold a context of so many tokens of a file's model. drafting is
// Options.Draft. What else is wrong with the file is not said.
func CheckContext(f *modelfile.File, id string, context int, drafting bool, c CacheOptions) error {
	cfg, err := model.ReadConfig(f)
	if err != nil {
		return nil // Load says it
	}
	layers := cfg.FullLayers()
	if drafting && cfg.HasPrediction(f) {
		layers++
	}
	pageBytes := new(cpu.Backend).PageBytes(cfg.Pages(layers, c.PageTokens, 1, c.KV))
	if c.Bytes < pageBytes {
		return fmt.Errorf("model %s: %w", id, noPage(c.Bytes, pageBytes))
	}
	if c.Bytes/pageBytes*int64(c.PageTokens) >= int64(context) {
		return nil
	}
	return fmt.Errorf("model %s: %w", id, noRoomForContext(id, context, c, pageBytes))
}

func noPage(bytes, pageBytes int64) error {
	return fmt.Errorf("kv memory of %d bytes holds no page of %d bytes; "+
		"raise kv.memory_bytes, or lower kv.state_memory_bytes where a GPU is divided", bytes, pageBytes)
}

// noRoomForContext names the keys of which one has to change, and to what.
func noRoomForContext(id string, context int, c CacheOptions, pageBytes int64) error {
	fits := c.Bytes / pageBytes * int64(c.PageTokens)
	need := int64((context+c.PageTokens-1)/c.PageTokens) * pageBytes
	return fmt.Errorf("context_length is %d tokens, kv memory of %d bytes holds %d: set models.%s.kv.memory_bytes to %d or more, "+
		"or models.%[4]s.context_length to %[3]d or less", context, c.Bytes, fits, id, need)
}

// sizeMemory divides the configured bytes into pages and state slots.
func sizeMemory(o Options, m *model.Model, context int) (memory, error) {
	s := memory{pageBytes: m.BytesPerPage(o.Cache.PageTokens, o.Cache.KV)}
	pages, states := useful(o, context)
	s.pages = int(min(o.Cache.Bytes/s.pageBytes, pages))
	if s.pages < 1 {
		return s, noPage(o.Cache.Bytes, s.pageBytes)
	}
	if !m.HasState() {
		return s, nil
	}
	s.state = m.BytesPerState(o.Cache.States)
	s.states = int(min(o.Cache.StateBytes/s.state, states))
	if s.states < 2 {
		return s, fmt.Errorf("state memory of %d bytes holds fewer than two states of %d bytes; "+
			"raise kv.state_memory_bytes, or lower kv.memory_bytes where a GPU is divided", o.Cache.StateBytes, s.state)
	}
	s.snapshots = max(s.states-o.Batch.SequencesMax, s.states/2)
	if o.Kind == CUDA {
		s.host = int(min(o.Cache.HostBytes/s.state, states-int64(s.states)))
	}
	return s, nil
}

func (s memory) poolConfig(o Options, seed uint64) kv.Config {
	return kv.Config{
		Pages: s.pages, PageTokens: o.Cache.PageTokens, PageBytes: s.pageBytes,
		States: s.states, SnapshotsMax: min(s.snapshots, max(0, s.states-1)), HostStates: s.host, StateBytes: s.state, Seed: seed,
	}
}

// newCache takes the books' sizes to the backend.
func (e *Engine) newCache(s memory) (kernel.Cache, error) {
	m, ok := e.forwarder.(*model.Model)
	if !ok {
		return nil, nil // Instant has no memory
	}
	c := m.CacheConfig(e.options.Cache.PageTokens, s.pages, s.states, e.options.Cache.KV)
	c.HostSlots, c.States = s.host, e.options.Cache.States
	cache, err := e.backend.NewCache(c)
	lower := "lower kv.memory_bytes and kv.state_memory_bytes"
	switch {
	case errors.Is(err, cpu.ErrMemory):
		lower = "or " + lower // it has said what limits the host
	case !lacksMemory(err):
		return cache, err
	case s.host > 0:
		lower = "lower kv.memory_bytes, kv.state_memory_bytes and kv.host_state_memory_bytes"
	}
	return nil, fmt.Errorf("kv memory of %d bytes and state memory of %d bytes: %w; %s",
		int64(s.pages)*s.pageBytes, int64(s.states)*s.state, err, lower)
}
