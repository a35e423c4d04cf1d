package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"corenode/bench/load"
	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/workload"
	"corenode/engine/kernel/cpu"
)

// run owns all that a run has started, until close.
type run struct {
	o     Options
	dir   string // temporary, removed by close
	say   func(format string, args ...any)
	child *proc.Child // nil while no node runs
	addr  string
	key   string
	words int // of a conversation's first turn
}

// Run measures. It says what it does to say. Whatever it started is gone when
// it returns, also after an error and when ctx ends.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (r Report, err error) {
	if err := o.Validate(); err != nil {
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
	defer func() { err = errors.Join(err, m.close()) }()
	host := proc.ReadHost(dir)
	cold, warm, err := m.starts(ctx)
	if err != nil {
		return Report{}, err
	}
	rounds, err := m.rounds(ctx)
	if err != nil {
		return Report{}, errors.Join(err, m.child.Alive())
	}
	r = Summarize(weights, cold, warm, rounds, o)
	r.Host = host
	return r, nil
}

func (m *run) close() error {
	return errors.Join(m.stop(), os.RemoveAll(m.dir))
}

func (m *run) stop() error {
	if m.child == nil {
		return nil
	}
	child := m.child
	m.child = nil
	return child.Stop()
}

// starts starts the node twice; the second one stays.
func (m *run) starts(ctx context.Context) (cold, warm Start, err error) {
	path, err := filepath.Abs(m.o.Model)
	if err != nil {
		return cold, warm, err
	}
	config := filepath.Join(m.dir, "node.yaml")
	if err := os.WriteFile(config, proc.CPUConfig(workload.Model, path, m.o.Threads), 0o600); err != nil {
		return cold, warm, err
	}
	m.say("starting the node, cold: it packs the weights")
	if cold, err = m.start(ctx, config); err != nil {
		return cold, warm, err
	}
	if err := m.stop(); err != nil {
		return cold, warm, err
	}
	m.say("ready after %.2f s; starting it again, with packed weights", cold.Ready)
	if warm, err = m.start(ctx, config); err != nil {
		return cold, warm, err
	}
	m.say("ready after %.2f s", warm.Ready)
	return cold, warm, nil
}

func (m *run) start(ctx context.Context, config string) (s Start, err error) {
	data := filepath.Join(m.dir, "data")
	before, err := m.read()
	if err != nil {
		return s, err
	}
	begun := time.Now()
	child, base, err := proc.Start(ctx, proc.Spec{Name: "node", Path: m.o.Node, Dir: m.dir, Timeout: m.o.StartTimeout,
		Args: []string{"serve", "--config", config, "--data-dir", data}, Ready: proc.BaseURL})
	if err != nil {
		return s, err
	}
	s.Ready = time.Since(begun).Seconds()
	m.child, m.addr = child, strings.TrimPrefix(base, "http://")
	after, err := m.read()
	if err != nil {
		return s, err
	}
	s.Foreign, s.RSS = after.foreign(before), after.rss
	if m.key, err = proc.DefaultKey(data); err != nil {
		return s, err
	}
	return s, proc.AwaitModules(ctx, data)
}

// rounds warms up and then measures, round by round.
func (m *run) rounds(ctx context.Context) ([]Round, error) {
	m.say("warming up")
	if err := m.size(ctx); err != nil {
		return nil, err
	}
	if _, err := m.ask(ctx, m.o.StreamTokens, user(text("warm up", 20))); err != nil {
		return nil, err
	}
	var all []Round
	for i := range m.o.Rounds {
		begun := time.Now()
		r, err := m.round(ctx, i)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		m.say("round %d of %d: %.1f s, %.1f tokens/s, memory %.1f GB/s; used by others during the three parts: %.1f, %.1f, %.1f %%",
			i+1, m.o.Rounds, time.Since(begun).Seconds(), r.TokensPerS, r.MemoryGBs, 100*r.Foreign[partDecode], 100*r.Foreign[partBatch], 100*r.Foreign[partTurns])
	}
	return all, nil
}

// round measures the parts one after another and watches what others do meanwhile.
func (m *run) round(ctx context.Context, i int) (r Round, err error) {
	do := [parts]func(context.Context, int, *Round) error{partDecode: m.decode, partBatch: m.batch, partTurns: m.turns}
	for p, part := range do {
		before, err := m.read()
		if err != nil {
			return r, err
		}
		if err := part(ctx, i, &r); err != nil {
			return r, err
		}
		after, err := m.read()
		if err != nil {
			return r, err
		}
		r.Foreign[p] = after.foreign(before)
	}
	return r, nil
}

// decode is one stream between two readings of the memory. Nothing is asked of
// the node during those.
func (m *run) decode(ctx context.Context, i int, r *Round) error {
	before, err := cpu.ReadBandwidth(m.o.Threads, m.o.Memory)
	if err != nil {
		return err
	}
	a, err := m.ask(ctx, m.o.Tokens, user(text(fmt.Sprint("decode ", i), 20)))
	if err != nil {
		return err
	}
	after, err := cpu.ReadBandwidth(m.o.Threads, m.o.Memory)
	if err != nil {
		return err
	}
	if err := enough(a, m.o.Tokens, "tokens"); err != nil {
		return err
	}
	r.TokensPerS = float64(a.Output-1) / a.Decode().Seconds()
	r.MemoryGBs = (before + after) / 2
	return nil
}

// enough says that an answer came near to the tokens that were asked for: of a
// shorter one most of the time is its prompt's.
func enough(a load.Answer, tokens int, flag string) error {
	if a.Output < tokens/2 {
		return fmt.Errorf("the model ended its answer after %d of %d tokens: too few to measure, try a smaller --%s", a.Output, tokens, flag)
	}
	return nil
}

// batch runs the same number of streams in both ways, each with a prompt that
// is in no cache. Every other round begins with the other way.
func (m *run) batch(ctx context.Context, i int, r *Round) (err error) {
	inSequence := func() { r.Sequence, err = m.streams(ctx, i, false) }
	atOnce := func() { r.Concurrent, err = m.streams(ctx, i, true) }
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

// streams returns wall seconds per token of output of all streams together.
func (m *run) streams(ctx context.Context, round int, atOnce bool) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tokens, errs := make([]int, m.o.Streams), make([]error, m.o.Streams)
	one := func(i int) {
		var a load.Answer
		a, errs[i] = m.ask(ctx, m.o.StreamTokens, user(text(fmt.Sprint("stream ", round, " ", i, " ", atOnce), 20)))
		if errs[i] == nil {
			tokens[i], errs[i] = a.Output, enough(a, m.o.StreamTokens, "stream-tokens")
		}
		if errs[i] != nil {
			cancel()
		}
	}
	begun := time.Now()
	var running sync.WaitGroup
	for i := range m.o.Streams {
		if atOnce {
			running.Go(func() { one(i) })
		} else {
			one(i)
		}
	}
	running.Wait()
	took, total := time.Since(begun), 0
	for _, n := range tokens {
		total += n
	}
	return report.Ratio(took.Seconds(), float64(total)), errors.Join(errs...)
}

// turns asks twice in one conversation.
func (m *run) turns(ctx context.Context, i int, r *Round) error {
	first := user(text(fmt.Sprint("conversation ", i), m.words))
	one, err := m.ask(ctx, m.o.StreamTokens, first)
	if err != nil {
		return err
	}
	if one.Cached != 0 {
		return fmt.Errorf("turn 1 took %d tokens from the cache, want 0", one.Cached)
	}
	reply := one.Text
	if strings.TrimSpace(reply) == "" {
		reply = "I see." // an answer of spaces is no turn
	}
	two, err := m.ask(ctx, m.o.StreamTokens, append(first, turn{"assistant", reply}, turn{"user", "Please say it again in other words."}))
	if err != nil {
		return err
	}
	r.Turn1, r.Turn2 = one.First.Seconds(), two.First.Seconds()
	r.Input, r.Cached = two.Input, two.Cached
	return nil
}

// turn is one message of a conversation.
type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func user(content string) []turn { return []turn{{"user", content}} }

// text is n words after a title that makes it unlike every other from its start.
func text(title string, n int) string {
	words := strings.Fields("the river runs past an old mill where people once brought grain and waited for news from the town")
	var b strings.Builder
	b.WriteString(title + ": tell a long story about it.")
	for i := range n {
		b.WriteString(" " + words[(i*7+i/5)%len(words)])
	}
	return b.String()
}

// size finds how many words make a conversation's first turn.
func (m *run) size(ctx context.Context) error {
	const sample = 500
	body, err := m.body(0, user(text("size", sample)))
	if err != nil {
		return err
	}
	reply, err := load.Post(ctx, m.addr, workload.HTTP(m.addr, workload.PathCount, m.key, body, false))
	if err != nil {
		return err
	}
	var count struct {
		Input int `json:"input_tokens"`
	}
	if err := json.Unmarshal(reply, &count); err != nil {
		return fmt.Errorf("count tokens: %w", err)
	}
	if count.Input < 1 {
		return fmt.Errorf("count tokens: the reply names none: %.300q", reply)
	}
	m.words = max(1, sample*m.o.Conversation/count.Input)
	return nil
}

func (m *run) ask(ctx context.Context, tokens int, turns []turn) (load.Answer, error) {
	body, err := m.body(tokens, turns)
	if err != nil {
		return load.Answer{}, err
	}
	return load.Ask(ctx, m.addr, workload.HTTP(m.addr, workload.PathMessages, m.key, body, true))
}

// body is a messages request without thinking, or, for 0 tokens, one to count.
func (m *run) body(tokens int, turns []turn) ([]byte, error) {
	request := map[string]any{"model": workload.Model, "thinking": map[string]string{"type": "disabled"}, "messages": turns}
	if tokens > 0 {
		request["max_tokens"], request["stream"], request["temperature"] = tokens, true, 0
	}
	return json.Marshal(request)
}

// reading is all clocks at one moment.
type reading struct {
	ours    time.Duration // this process and the node
	machine proc.Machine
	rss     int64 // of the node
}

// foreign is the share of the machine that others used since an earlier reading.
func (r reading) foreign(earlier reading) float64 {
	return r.machine.Sub(earlier.machine).Foreign(r.ours - earlier.ours)
}

// read reads them. A node that does not run has used nothing.
func (m *run) read() (r reading, err error) {
	own, err := proc.Read(0)
	if err != nil {
		return r, err
	}
	r.ours = own.CPU
	if m.child != nil {
		u, err := proc.Read(m.child.PID())
		if err != nil {
			return r, err
		}
		r.ours += u.CPU
		r.rss = u.RSS
	}
	r.machine, err = proc.ReadMachine()
	return r, err
}
