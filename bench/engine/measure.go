package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"corenode/bench/drive"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/report"
	"corenode/bench/stats"
	"corenode/bench/workload"
	"corenode/engine/kernel/cpu"
)

// run owns all that a run has started, until close.
type run struct {
	o       Options
	dir     string // temporary, removed by close
	say     func(format string, args ...any)
	node    *proc.Node    // nil while none runs
	streams drive.Options // of a stream, whatever the part
}

// Run measures. It says what it does to say. Whatever it started is gone when
// it returns, also after an error and when ctx ends.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (r Report, err error) {
	if err := o.List().Validate(); err != nil {
		return Report{}, err
	}
	weights, err := ReadWeights(o.Model)
	if err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "corebench-")
	if err != nil {
		return Report{}, err
	}
	m := &run{o: o, dir: dir, say: say}
	defer func() { err = errors.Join(err, m.stop(), os.RemoveAll(m.dir)) }()
	host := proc.ReadHost(dir)
	cold, warm, err := m.starts(ctx)
	if err != nil {
		return Report{}, err
	}
	rounds, err := m.rounds(ctx)
	if err != nil {
		return Report{}, errors.Join(err, m.node.Alive())
	}
	r = Summarize(weights, cold, warm, rounds, o)
	r.Host = host
	return r, nil
}

func (m *run) stop() error {
	if m.node == nil {
		return nil
	}
	node := m.node
	m.node = nil
	return node.Stop()
}

// starts starts the node twice; the second one stays.
func (m *run) starts(ctx context.Context) (cold, warm Start, err error) {
	m.say("starting the node, cold: it packs the weights")
	if cold, err = m.start(ctx); err != nil {
		return cold, warm, err
	}
	if err := m.stop(); err != nil {
		return cold, warm, err
	}
	m.say("ready after %.2f s; starting it again, with packed weights", cold.Ready)
	if warm, err = m.start(ctx); err != nil {
		return cold, warm, err
	}
	m.say("ready after %.2f s", warm.Ready)
	return cold, warm, nil
}

func (m *run) start(ctx context.Context) (s Start, err error) {
	path, err := filepath.Abs(m.o.Model)
	if err != nil {
		return s, err
	}
	before, err := proc.ReadClocks()
	if err != nil {
		return s, err
	}
	spec := proc.Spec{Name: "node", Path: m.o.Node, Dir: m.dir, Timeout: m.o.StartTimeout}
	if m.node, err = proc.StartNode(ctx, spec, proc.CPUConfig(workload.Model, path, m.o.Threads)); err != nil {
		return s, err
	}
	after, err := proc.ReadClocks(m.node.Child)
	if err != nil {
		return s, err
	}
	s = Start{Ready: m.node.Ready.Seconds(), Foreign: after.Foreign(before), RSS: after.Of[m.node.Child].RSS}
	return s, m.node.AwaitModules(ctx)
}

// options prepares what all streams have in common. Each prompt begins with words
// of its own, so that it is in no cache, and ends with what makes an answer long.
func (m *run) options(url, key string) (err error) {
	m.streams, err = drive.Streams(url, key, protocol.Template{Protocol: protocol.Messages,
		Extra: []byte(`{"thinking":{"type":"disabled"}}`)})
	m.streams.Shape.Task = ": tell a long story about it. The river runs past an old mill where people once brought grain" +
		" and waited for news from the town."
	m.streams.Shape.Input = workload.Fixed(ownWords)
	return err
}

const (
	ownWords   = 4  // of a prompt, that no other has
	taskTokens = 40 // of a prompt with its task, about
)

// rounds warms up and then measures, round by round.
func (m *run) rounds(ctx context.Context) (all []Round, err error) {
	m.say("warming up")
	if err := m.options(m.node.URL, m.node.Key); err != nil {
		return nil, err
	}
	if m.streams.Shape.Size, err = drive.Calibrate(ctx, m.streams); err != nil {
		return nil, err
	}
	m.streams.Shape.Input = workload.Fixed(int(m.streams.Shape.Size.Overhead) + ownWords)
	if _, err := m.ask(ctx, m.streams, m.o.StreamTokens); err != nil {
		return nil, err
	}
	for i := range m.o.Rounds {
		begun := time.Now()
		r, err := m.round(ctx, i)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		m.say("round %d of %d: %.1f s, %.1f tokens/s, memory %.1f GB/s; used by others during the three parts: %.1f, %.1f, %.1f %%",
			i+1, m.o.Rounds, time.Since(begun).Seconds(), r.TokensPerS, r.MemoryGBs,
			100*r.Foreign[partDecode], 100*r.Foreign[partBatch], 100*r.Foreign[partTurns])
	}
	return all, nil
}

// round measures the parts one after another and watches what others do meanwhile.
func (m *run) round(ctx context.Context, i int) (r Round, err error) {
	do := [parts]func(context.Context, int, *Round) error{partDecode: m.decode, partBatch: m.batch, partTurns: m.turns}
	for p, part := range do {
		before, err := proc.ReadClocks(m.node.Child)
		if err != nil {
			return r, err
		}
		if err := part(ctx, i, &r); err != nil {
			return r, err
		}
		after, err := proc.ReadClocks(m.node.Child)
		if err != nil {
			return r, err
		}
		r.Foreign[p] = max(r.Foreign[p], after.Foreign(before)) // decode has looked closer
	}
	return r, nil
}

// decode is one stream between two readings of the memory. Nothing is asked of
// the node during those.
func (m *run) decode(ctx context.Context, i int, r *Round) error {
	o := m.streams
	o.Shape.Seed = seedOf(i, partDecode)
	var records []stats.Record
	memory := func() error {
		gbs, err := cpu.ReadBandwidth(m.o.Threads, m.o.Memory)
		r.MemoryGBs += gbs / 2
		return err
	}
	stream := func() (err error) { records, err = m.ask(ctx, o, m.o.Tokens); return err }
	var err error
	if r.Foreign[partDecode], err = proc.Between(memory, stream, m.node.Child); err != nil {
		return err
	}
	if err := enough(records, m.o.Tokens, "tokens"); err != nil {
		return err
	}
	a := records[0]
	r.TokensPerS = float64(a.OutputTokens-1) / (a.End - a.First).Seconds()
	return nil
}

// seedOf makes prompts that differ between the parts and rounds of a run.
func seedOf(round, part int) uint64 { return uint64(round)<<16 + uint64(part) + 1 }

// enough says that answers came near to the tokens that were asked for: of a
// shorter one most of the time is its prompt's.
func enough(records []stats.Record, tokens int, flag string) error {
	for _, a := range records {
		if a.OutputTokens < tokens/2 {
			return fmt.Errorf("the model ended its answer after %d of %d tokens: too few to measure, try a smaller --%s",
				a.OutputTokens, tokens, flag)
		}
	}
	return nil
}

// batch runs the same number of streams in both ways, each with a prompt that
// is in no cache. Every other round begins with the other way.
func (m *run) batch(ctx context.Context, i int, r *Round) (err error) {
	inSequence := func() { r.Sequence, err = m.perToken(ctx, i, 1) }
	atOnce := func() { r.Concurrent, err = m.perToken(ctx, i, m.o.Streams) }
	first, second := inSequence, atOnce
	if i%2 == 1 {
		first, second = atOnce, inSequence
	}
	if first(); err != nil {
		return err
	}
	second()
	return err
}

// perToken returns wall seconds per token of output of all streams together, so many at once.
func (m *run) perToken(ctx context.Context, round, atOnce int) (float64, error) {
	o := m.streams
	o.Clients, o.Count, o.Shape.Seed = atOnce, m.o.Streams, seedOf(round, parts+atOnce)
	records, err := m.ask(ctx, o, m.o.StreamTokens)
	if err != nil {
		return 0, err
	}
	begun, ended, tokens := records[0].Intended, time.Duration(0), 0
	for _, a := range records {
		begun, ended, tokens = min(begun, a.Intended), max(ended, a.End), tokens+a.OutputTokens
	}
	return report.Ratio((ended - begun).Seconds(), float64(tokens)), enough(records, m.o.StreamTokens, "stream-tokens")
}

// turns asks twice in one conversation, whose system prompt makes it long.
func (m *run) turns(ctx context.Context, i int, r *Round) error {
	o := m.streams
	o.Count, o.Shape.Turns, o.Shape.Seed = 2, 2, seedOf(i, partTurns)
	o.Shape.PrefixTokens = m.o.Conversation - taskTokens
	records, err := m.ask(ctx, o, m.o.StreamTokens)
	if err != nil {
		return err
	}
	one, two := records[0], records[1]
	if one.CachedTokens != 0 {
		return fmt.Errorf("turn 1 took %d tokens from the cache, want 0", one.CachedTokens)
	}
	r.Turn1, r.Turn2 = (one.First - one.Intended).Seconds(), (two.First - two.Intended).Seconds()
	r.Input, r.Cached = two.InputTokens-two.CachedTokens, two.CachedTokens
	return nil
}

// ask sends streams that all must succeed and have output.
func (m *run) ask(ctx context.Context, o drive.Options, tokens int) ([]stats.Record, error) {
	o.Shape.Output = workload.Fixed(tokens)
	_, records, err := drive.Collect(ctx, o, true)
	for _, a := range records {
		if err == nil && a.First < 0 {
			err = errors.New("a stream has no output")
		}
	}
	return records, err
}
