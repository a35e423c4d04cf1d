package gpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"corenode/bench/drive"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/report"
	"corenode/bench/stats"
	"corenode/bench/workload"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

// streamSampling is how streams draw: of random weights that gives any token, and so any experts.
var streamSampling = kernel.Sampling{Temperature: 1, TopP: 1, RepetitionPenalty: 1}

// asked is what every stream of the node asks for; it draws as those of the bare loop do.
var asked = protocol.Template{Protocol: protocol.Messages, Temperature: float64(streamSampling.Temperature),
	Extra: []byte(`{"thinking":{"type":"disabled"}}`)}

// contextCounted is room for the prompts of words whose tokens the node is asked to count.
const contextCounted = 4096

// nodeConfig is the configuration of the node: nothing is charged, and all streams run at once, whatever a step takes.
func (o *Options) nodeConfig(path string) []byte {
	most := o.streamsMax()
	return fmt.Appendf(nil, `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
models:
  %s:
    engine: cuda
    path: %q
    context_length: %d
    prices: {input: "0", cached_input: "0", output: "0"}
    sampling: {temperature: 1, top_p: 1, top_k: 0, min_p: 0, presence_penalty: 0}
    kv: {page_tokens: %d}
    batch: {step_tokens_max: %d, sequences_max: %d, gap_max: 10s, gap_stretch_max: 0}
    speculation: "off"
`, workload.Model, path, contextCounted+2*(o.StreamPrompt+o.StreamTokens), pageTokens, max(2048, most+64), most)
}

// streamsMax is the largest number of streams at once.
func (o *Options) streamsMax() (most int) {
	for _, n := range o.streams() {
		most = max(most, n)
	}
	return most
}

// streams are the numbers of streams to measure.
func (o *Options) streams() (all []int) {
	for _, text := range orElse(o.Streams, nil, streamsDefault) {
		n, _ := strconv.Atoi(text) // checked
		all = append(all, n)
	}
	return all
}

// nodes measures the bare loop and then, when the device is free again, the node, both with the weights of the file.
func (m *run) nodes(ctx context.Context) error {
	for _, n := range m.o.streams() {
		s := Served{Streams: n, Prompt: m.o.StreamPrompt, Tokens: m.o.StreamTokens}
		if err := m.bare(&s); err != nil {
			return errors.Join(fmt.Errorf("bare loop of %d: %w", n, err), m.save())
		}
		m.report.Served = append(m.report.Served, s)
		m.say("bare loop of %d: %s tokens/s %s, %s after the start", n, report.Number(s.Bare), s.Skipped, m.passed())
	}
	if err := m.save(); err != nil {
		return err
	}
	m.model.Close() // and with it the backend and the device
	m.model = nil
	runtime.GC()
	begun := time.Now()
	node, err := proc.StartNode(ctx, proc.Spec{Name: "node", Path: m.o.Node, Dir: m.dir, Timeout: m.o.Limit}, m.o.nodeConfig(m.path))
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	defer func() { _ = node.Stop() }() // what it says of its end is no measurement
	m.report.NodeLoadS = time.Since(begun).Seconds()
	if err := node.AwaitModules(ctx); err != nil {
		return err
	}
	m.say("the node is ready after %s s, %s after the start", report.Number(m.report.NodeLoadS), m.passed())
	for i := range m.report.Served {
		s := &m.report.Served[i]
		if err := m.serve(ctx, node, s); err != nil {
			s.Skipped = "failed: " + err.Error()
			return errors.Join(err, m.save(), node.Alive())
		}
		m.report.judge()
		m.say("%d streams: %s tokens/s, %s of the bare loop %s, %s after the start", s.Streams, report.Number(s.TokensPerS),
			report.Number(s.Share), s.Skipped, m.passed())
		if err := m.save(); err != nil {
			return err
		}
	}
	return nil
}

// passed is the time since the start.
func (m *run) passed() time.Duration { return time.Since(m.begun).Round(time.Second) }

// bare measures steps of as many sequences, at the context that streams have in the middle, launched as the engine
// does: one behind the other, whose tokens nobody waits for.
func (m *run) bare(s *Served) error {
	seconds, why, err := m.loop(cell{batch: s.Streams, context: s.Prompt + s.Tokens/2})
	s.Bare, s.Skipped = report.Ratio(float64(s.Streams*m.o.Steps), seconds), why
	return err
}

// loop is how long the steps of a cell take; why says why they were not taken.
func (m *run) loop(c cell) (seconds float64, why string, err error) {
	defer cuda.Catch(&err)
	runtime.GC()
	closeCache, why, err := m.takeCache(c, c.context+warmSteps+m.o.Steps+2)
	if err != nil || why != "" {
		return 0, why, err
	}
	defer closeCache()
	p, err := m.model.Program()
	if err != nil {
		return 0, "", err
	}
	defer p.Close()
	var begun time.Time
	out := kernel.Output{Tokens: make([]int32, c.batch), Free: make([]int32, c.batch)}
	steps := warmSteps + m.o.Steps
	for i := range steps + 1 {
		if i < steps {
			if err := p.Launch(m.following(c, i)); err != nil {
				return 0, "", err
			}
		}
		if i == 0 {
			continue
		}
		if err := p.Collect(&out); err != nil {
			return 0, "", err
		}
		if i == warmSteps {
			begun = time.Now()
		}
	}
	return time.Since(begun).Seconds(), "", nil
}

// following is the i-th of steps that follow each other: all but the first have the tokens that the one before drew.
func (m *run) following(c cell, i int) *kernel.Input {
	in := m.step(c.batch, 1, c.context+i, false)
	for row := range c.batch {
		if i > 0 {
			in.Tokens[row] = kernel.Sampled(row)
		}
		sampling := streamSampling
		sampling.Seed = uint64(row)
		in.Rows = append(in.Rows, kernel.Row{Row: int32(row), Trigger: -1, Draw: uint64(c.context + i), Sampling: sampling})
	}
	return in
}

// taskWords end a prompt; nothing depends on them.
const taskWords = "."

// serve puts one load on the node and completes what is said of it.
func (m *run) serve(ctx context.Context, node *proc.Node, s *Served) error {
	if s.Skipped != "" {
		return nil
	}
	if time.Since(m.begun) > m.o.Limit {
		s.Skipped = "not run: no time was left"
		return nil
	}
	o, err := drive.Streams(node.URL, node.Key, asked)
	if err != nil {
		return err
	}
	o.Shape.Task, o.Shape.Seed = taskWords, uint64(s.Streams)
	if o.Shape.Size, err = drive.Calibrate(ctx, o); err != nil {
		return err
	}
	o.Shape.Input, o.Shape.Output = workload.Fixed(s.Prompt), workload.Fixed(s.Tokens)
	o.Clients, o.Count = s.Streams, s.Streams
	var mu sync.Mutex // guards answers and failed: Ended is called from several goroutines
	var answers []answer
	var failed error
	first := []float64{}
	_, err = drive.Run(ctx, o, drive.Watch{Ended: func(r *stats.Record) {
		mu.Lock()
		defer mu.Unlock()
		if r.Kind != "" || r.First < 0 {
			failed = errors.Join(failed, fmt.Errorf("a stream failed: %s %s", r.Kind, r.Detail))
			return
		}
		answers = append(answers, answerOf(r.First, r.Gaps, r.OutputTokens))
		first = append(first, 1e3*(r.First-r.Intended).Seconds())
	}})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	s.answered(answers, first)
	return nil
}
