package kernels

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"corenode/bench/engine"
	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/sample"
	"corenode/engine/tokenizer"
)

// pageTokens is the size of the run's pages.
const pageTokens = 64

// run owns all that a run has opened, until close.
type run struct {
	o     Options
	parts []part
	file  *modelfile.File
	model *model.Model
	cache kernel.Cache
	text  *tokenizer.Tokenizer // nil when the file has none that is known
	dir   string
	level string // of the kernels, such as cpu/amx
	pages int    // of each sequence

	step   kernel.Step
	tokens []int32
	rows   []int32
	logits [][]float32
}

// Run measures. It says what it does to say.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (r Report, err error) {
	if err := o.List().Validate(); err != nil {
		return Report{}, err
	}
	weights, err := engine.ReadWeights(o.Model)
	if err != nil {
		return Report{}, err
	}
	m := &run{o: o, parts: o.parts()}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(say); err != nil {
		return Report{}, err
	}
	r = Report{Schema: Schema, Host: proc.ReadHost(m.dir), Options: o, Weights: weights, Level: m.level}
	if err := realTime(); err != nil {
		say("not under SCHED_FIFO: %v", err)
	} else {
		r.RealTime = true
		defer normalTime()
	}
	rounds, err := m.rounds(ctx, say)
	if err != nil {
		return Report{}, err
	}
	r.fill(m.parts, rounds, m.bytesPerPosition())
	r.Around, err = m.around()
	return r, err
}

func (m *run) open(say func(format string, args ...any)) (err error) {
	if m.dir, err = os.MkdirTemp("", "corebench-"); err != nil {
		return err
	}
	if m.file, err = modelfile.Open(m.o.Model); err != nil {
		return err
	}
	b, err := cpu.New(cpu.Options{Threads: m.o.Threads})
	if err != nil {
		return err
	}
	m.level = b.Name()
	say("packing the weights")
	if m.model, err = model.Load(m.file, b); err != nil {
		b.Close()
		return err
	}
	if m.text, err = tokenizer.FromFile(m.file); err != nil {
		say("no tokenizer: %v", err)
	}
	batch := 0
	for _, p := range m.parts {
		batch = max(batch, p.batch)
		m.pages = max(m.pages, (p.context+p.rows*p.steps+pageTokens-1)/pageTokens)
	}
	m.cache, err = b.NewCache(m.model.CacheConfig(pageTokens, batch*m.pages, batch, kernel.KVF16))
	if err != nil {
		return err
	}
	for range batch {
		m.logits = append(m.logits, make([]float32, m.model.Config().Vocab))
	}
	return nil
}

func (m *run) close() error {
	var errs []error
	if m.model != nil {
		m.model.Close() // and the backend with the cache
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// bytesPerPosition is what a token in the cache adds to what a step reads.
func (m *run) bytesPerPosition() int64 {
	return m.model.BytesPerPage(pageTokens, kernel.KVF16) / pageTokens
}

// rounds measures every part Rounds times.
func (m *run) rounds(ctx context.Context, say func(format string, args ...any)) ([][]measured, error) {
	all := make([][]measured, len(m.parts))
	for i := range m.o.Rounds {
		begun := time.Now()
		for p := range m.parts {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			one, err := m.measure(m.parts[p])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.parts[p].name, err)
			}
			all[p] = append(all[p], one)
		}
		say("round %d of %d: %.1f s, decode %.1f tokens/s, memory %.1f GB/s", i+1, m.o.Rounds, time.Since(begun).Seconds(),
			report.Ratio(float64(m.parts[0].steps), all[0][i].seconds), all[0][i].memory)
	}
	return all, nil
}

// measure runs one part between two readings of the memory, and watches what others do during all three. Its context
// is computed before, and one step for nothing, which finds what the part needs.
func (m *run) measure(p part) (one measured, err error) {
	if err := m.prepare(p); err != nil {
		return measured{}, err
	}
	memory := func() error {
		gbs, err := cpu.ReadBandwidth(m.o.Threads, m.o.Memory)
		one.memory += gbs / 2
		return err
	}
	one.foreign, err = proc.Between(memory, func() error { return m.steps(p, &one) })
	return one, err
}

// steps takes the time of a part's steps.
func (m *run) steps(p part, one *measured) error {
	runtime.GC() // the collector has no business in the part
	start := time.Now()
	for s := range p.steps {
		if err := m.forward(p.batch, p.rows, p.position(s), p.rows > 1); err != nil {
			return err
		}
	}
	one.seconds = time.Since(start).Seconds()
	return nil
}

// prepare computes the context of a part's sequences, and its first step once.
func (m *run) prepare(p part) error {
	const piece = 256
	for i := range p.batch {
		if m.model.HasState() {
			m.cache.ResetState(int32(i))
		}
	}
	for at := 0; at < p.context; at += piece {
		if err := m.forward(p.batch, min(piece, p.context-at), at, true); err != nil {
			return err
		}
	}
	return m.forward(p.batch, p.rows, p.context, p.rows > 1)
}

// forward is one step of batch sequences that stand at position pos, rows
// tokens each, read from a prompt or not; the last row of each has logits.
func (m *run) forward(batch, rows, pos int, prompt bool) error {
	m.step = kernel.Step{Rows: batch * rows, Spans: m.step.Spans[:0]}
	m.tokens, m.rows = m.tokens[:0], m.rows[:0]
	random := rand.New(rand.NewPCG(uint64(pos), uint64(rows)))
	for i := range batch {
		m.step.Spans = append(m.step.Spans, kernel.Span{Row: i * rows, Len: rows, Pos: pos, Pages: m.table(i),
			State: int32(i), Prompt: prompt})
		m.rows = append(m.rows, int32((i+1)*rows-1))
	}
	for range m.step.Rows {
		m.tokens = append(m.tokens, random.Int32N(int32(m.model.Config().Vocab)))
	}
	return m.model.Forward(&m.step, m.tokens, m.cache, m.rows, m.logits[:batch])
}

// table is the page table of sequence i.
func (m *run) table(i int) []int32 {
	t := make([]int32, m.pages)
	for p := range t {
		t[p] = int32(i*m.pages + p)
	}
	return t
}

// around measures what stands before and after the forward pass.
func (m *run) around() (a Around, err error) {
	before, err := proc.ReadClocks()
	if err != nil {
		return a, err
	}
	if m.text != nil {
		a.TokenizerMBs = m.tokenizer()
	}
	a.SamplerUS = m.sampler()
	after, err := proc.ReadClocks()
	a.Foreign = after.Foreign(before)
	return a, err
}

// aroundTime is how long each of these is repeated.
const aroundTime = 300 * time.Millisecond

// prose is what the tokenizer is measured on: a handbook with lists, tables, code, numbers and a little of
// other scripts. It is for nothing else and stays as it is, since another text has another speed.
//
//go:embed prose.txt
var prose string

// tokenizer is how fast prose becomes tokens, in MB/s (1e6 bytes) on one thread.
func (m *run) tokenizer() float64 {
	var tokens []int32
	n, start := 0, time.Now()
	for time.Since(start) < aroundTime {
		tokens = m.text.Encode(tokens[:0], prose)
		n += len(prose)
	}
	return float64(n) / 1e6 / time.Since(start).Seconds()
}

// sampler is how long a token takes to be drawn from the last logits with the
// settings that the model family recommends, in microseconds.
func (m *run) sampler() float64 {
	s := sample.New(sample.Params{Temperature: 0.6, TopP: 0.95, TopK: 20, Seed: 1}, nil, nil)
	n, start := 0, time.Now()
	for time.Since(start) < aroundTime {
		s.Accept(s.Sample(m.logits[0]))
		n++
	}
	return 1e6 * time.Since(start).Seconds() / float64(n)
}
