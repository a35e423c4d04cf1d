package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"corenode/bench/page"
	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/fused"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/cuda/libcuda"
	"corenode/engine/model"
	"corenode/engine/modelfile"
)

// pageTokens is the size of a page of the cache, as the engine has it.
const pageTokens = 64

// Steps for nothing before those that count, and prompts that are read.
const (
	warmSteps = 2
	prompts   = 3
	copies    = 10
	multiples = 5
)

type run struct {
	o       Options
	say     func(format string, args ...any)
	begun   time.Time
	dir     string
	path    string // of the model file
	device  *traced
	backend *backend
	file    *modelfile.File
	model   *model.Model
	report  Report
	random  *rand.Rand

	cache kernel.Cache // of a cell
	pages int          // of a sequence

	stateBytes int64 // of a sequence
}

// Run measures.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (Report, error) {
	return runOn(ctx, o, say, func() (cuda.Driver, error) {
		if o.Interpret {
			return interp.Open(interp.Config{Seed: 1, Workers: 2, Memory: interpretedMemory}), nil
		}
		return libcuda.Open("", 0)
	})
}

// runOn measures on the device that open opens.
func runOn(ctx context.Context, o Options, say func(format string, args ...any), open func() (cuda.Driver, error)) (_ Report, err error) {
	if err := o.List().Validate(); err != nil {
		return Report{}, err
	}
	m := &run{o: o, say: say, begun: time.Now(), random: rand.New(rand.NewPCG(1, 1))}
	if m.dir, err = os.MkdirTemp("", "corebench-"); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	m.report = Report{Schema: Schema, Host: proc.ReadHost(m.dir), Options: o, Started: m.begun.UTC().Format(time.RFC3339),
		Gates: report.Gates{}}
	if err := m.open(open); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	cells, err := o.cells()
	if err != nil {
		return Report{}, err
	}
	if err := m.cells(ctx, cells); err != nil {
		return Report{}, err
	}
	if o.Tune != "" {
		if err := m.tune(ctx); err != nil {
			return Report{}, errors.Join(err, m.save())
		}
	}
	if o.Node != "" {
		if err := m.nodes(ctx); err != nil {
			return Report{}, err
		}
	}
	return m.report, nil
}

// cells measures them one after the other.
func (m *run) cells(ctx context.Context, cells []cell) error {
	for _, c := range cells {
		if err := ctx.Err(); err != nil {
			return err
		}
		one, err := m.cell(c)
		if err != nil { // the device is not what it was: nothing is measured on it any more
			err = fmt.Errorf("%s: %w", c.name(), err)
			one.skip("failed: %v", err)
			m.add(one)
			return errors.Join(err, m.save())
		}
		m.add(one)
		if err := m.save(); err != nil {
			return err
		}
	}
	return nil
}

// save writes what there is so far.
func (m *run) save() (err error) {
	if m.o.Each != "" {
		err = report.WriteJSON(m.o.Each, m.report)
	}
	if m.o.Page == "" || err != nil {
		return err
	}
	file, err := os.Create(m.o.Page)
	if err != nil {
		return err
	}
	return errors.Join(page.Tables(file, "Steps on "+m.report.Device, m.report.lead(), m.report.Tables()), file.Close())
}

// add takes a cell into the report.
func (m *run) add(c Cell) {
	m.report.Cells = append(m.report.Cells, c)
	m.report.judge()
	if c.Skipped != "" {
		m.say("%s: %s", c.Name, c.Skipped)
		return
	}
	m.say("%s: %s ms, %s of the floor, %s after the start", c.Name, report.Number(c.Milliseconds.Median), report.Number(c.Share),
		time.Since(m.begun).Round(time.Second))
}

// reserve is the part of the device's memory that no cache gets.
const reserve = 16

// interpretedMemory is what an interpreted device has.
const interpretedMemory = 64 << 20

// open finds the ceilings and loads the model.
func (m *run) open(open func() (cuda.Driver, error)) (err error) {
	defer cuda.Catch(&err)
	d, err := open()
	if err != nil {
		return err
	}
	if m.device, err = trace(d); err != nil {
		return errors.Join(err, d.Close())
	}
	m.report.Device = d.Name()
	if _, m.report.Memory, err = d.Memory(); err != nil {
		return errors.Join(err, d.Close())
	}
	if m.report.CopyGBs, err = m.copying(); err != nil {
		return errors.Join(err, d.Close())
	}
	b, err := fused.New(m.device, eager.Options{})
	if err != nil {
		return err // and the device is closed
	}
	m.backend = &backend{Backend: b, patterns: map[kernel.Type][]byte{}, top: m.o.ExpertsUsed}
	if err := m.load(); err != nil {
		b.Close()
		return err
	}
	if m.report.Own, err = m.multiply(); err != nil {
		return err
	}
	m.report.TFLOPS = max(m.report.Own, m.o.TFLOPS)
	m.say("%s: copy %s GB/s, product %s TFLOP/s; weights of %s GB loaded in %s s", m.report.Device, report.Number(m.report.CopyGBs),
		report.Number(m.report.Own), report.Number(float64(m.report.Weights.Total)/1e9), report.Number(m.report.LoadS))
	return nil
}

// load makes the model.
func (m *run) load() error {
	m.path = filepath.Join(m.dir, "holes.gguf")
	tensors, err := m.o.writeHoles(m.path, types[m.o.Type], m.o.Node != "")
	if err != nil {
		return err
	}
	m.report.Weights = weightsOf(m.o.Shape, tensors)
	if m.file, err = modelfile.Open(m.path); err != nil {
		return err
	}
	begun := time.Now()
	m.backend.stored = m.o.Node != "" // the weights are the file's, which the node reads, too
	defer func() { m.backend.stored = false }()
	if m.model, err = model.Load(m.file, m.backend); err != nil {
		return errors.Join(err, m.file.Close())
	}
	m.report.LoadS = time.Since(begun).Seconds()
	return nil
}

func (m *run) close() error {
	if m.model != nil {
		m.model.Close() // and with it the backend and the device
	}
	if m.file != nil {
		return m.file.Close()
	}
	return nil
}

// copying is how fast the device copies within its memory, in 1e9 bytes read and written a second.
func (m *run) copying() (float64, error) {
	bytes := int64(m.o.Copy) << 20
	s, err := m.device.NewStream()
	if err != nil {
		return 0, err
	}
	from, err1 := m.device.Alloc(bytes)
	to, err2 := m.device.Alloc(bytes)
	begin, err3 := m.device.NewEvent()
	done, err4 := m.device.NewEvent()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return 0, err
	}
	errs := []error{s.Copy(to, from, bytes), s.Synchronize(), s.Record(begin)}
	begun := time.Now()
	for range copies {
		errs = append(errs, s.Copy(to, from, bytes))
	}
	errs = append(errs, s.Record(done), s.Synchronize())
	took := 1e3 * time.Since(begun).Seconds()
	ms, err := done.Since(begin)
	if m.o.Interpret { // its time is instructions, and a copy has none
		ms = took
	}
	errs = append(errs, err, m.device.Free(from), m.device.Free(to), s.Close())
	return report.Ratio(2*copies*float64(bytes), 1e6*ms), errors.Join(errs...)
}

// multiply is how fast our own product of large matrices of random values is, in 1e12 operations a second.
func (m *run) multiply() (_ float64, err error) {
	defer cuda.Catch(&err)
	n := m.o.Product
	b := m.backend
	free, _, err := m.device.Memory()
	if need := 10 * int64(n) * int64(n); err != nil || free < 2*need {
		m.say("the ceiling of arithmetic is not measured: %d bytes are free", free)
		return 0, err
	}
	typ := types[m.o.Type]
	if typ != kernel.F16 {
		typ = kernel.BF16
	}
	w, err := b.Load(kernel.Source{Name: "product", Type: typ, Experts: 1, Rows: n, Cols: n})
	if err != nil {
		return 0, err
	}
	x, dst := b.NewBuffer(n*n), b.NewBuffer(n*n)
	row := make([]float32, n)
	for i := range n {
		for j := range row {
			row[j] = m.random.Float32() - 0.5
		}
		b.Upload(x, i*n, row)
	}
	product := func() { b.MatMul([]kernel.Buffer{dst}, x, n, []kernel.Weight{w}) }
	wait := func() { b.Download(row[:1], dst, 0) }
	product()
	wait()
	begun := time.Now()
	for range multiples {
		product()
	}
	wait()
	took := time.Since(begun).Seconds() / multiples
	return report.Ratio(2*float64(n)*float64(n)*float64(n), 1e12*took), nil
}

// cell measures one cell where time and memory suffice.
func (m *run) cell(c cell) (out Cell, err error) {
	out = Cell{Name: c.name(), Prompt: c.prompt, Batch: c.batch, Context: c.context}
	if past := time.Since(m.begun); past > m.o.Limit {
		out.skip("not run: no time was left")
		return out, nil
	}
	defer cuda.Catch(&err)
	runtime.GC() // and with it buffers of the device that nobody uses
	tokens := c.context
	if !c.prompt {
		tokens += warmSteps + m.o.Steps + 2
	}
	closeCache, why, err := m.takeCache(c, tokens)
	if why != "" {
		out.skip("%s", why)
		return out, nil
	}
	if err == nil {
		defer closeCache()
		err = m.inside(c, &out)
	}
	if e, ok := errors.AsType[*cuda.Error](err); ok && e.Code == cuda.OutOfMemory && !e.Sticky && m.backend.Failed() == nil {
		out = Cell{Name: out.Name, Prompt: c.prompt, Batch: c.batch, Context: c.context}
		out.skip("not run: %v", err)
		return out, nil
	}
	return out, err
}

// takeCache takes the memory of a cell's sequences, each with so many tokens; why says why there is none for it.
func (m *run) takeCache(c cell, tokens int) (closeCache func(), why string, err error) {
	m.pages = (tokens + pageTokens - 1) / pageTokens
	cfg := m.model.CacheConfig(pageTokens, c.batch*m.pages, c.batch, kernel.KVF16)
	if cfg.States, err = kernel.ParseStateType(m.o.States); err != nil {
		return nil, "", err
	}
	m.stateBytes = m.model.BytesPerState(cfg.States)
	need := int64(cfg.Pages)*m.model.BytesPerPage(pageTokens, kernel.KVF16) + int64(c.batch)*m.stateBytes
	free, _, err := m.device.Memory()
	if err != nil {
		return nil, "", err
	}
	if free -= m.report.Memory / reserve; need > free { // the rest is for activations
		return nil, fmt.Sprintf("not run: the cache needs %s GB, %s are there for it", report.Number(float64(need)/1e9),
			report.Number(float64(free)/1e9)), nil
	}
	if m.cache, err = m.backend.NewCache(cfg); err != nil {
		return nil, "", err
	}
	for i := range c.batch {
		m.cache.ResetState(int32(i))
	}
	return m.cache.Close, "", nil
}

// inside measures a cell whose cache is there.
func (m *run) inside(c cell, out *Cell) error {
	p, err := m.model.Program()
	if err != nil {
		return err
	}
	defer p.Close()
	if c.prompt {
		return m.prompt(p, c, out)
	}
	return m.decode(p, c, out)
}

// decode measures steps of one token each.
func (m *run) decode(p kernel.Program, c cell, out *Cell) (err error) {
	var times []float64
	pos := c.context
	step := func() (float64, error) {
		in := m.step(c.batch, 1, pos, false)
		for i := range c.batch {
			in.Rows = append(in.Rows, kernel.Row{Row: int32(i), Trigger: -1, Draw: uint64(pos),
				Sampling: kernel.Sampling{Temperature: 0.6, TopP: 0.95, TopK: 20, RepetitionPenalty: 1, Seed: uint64(i)}})
		}
		pos++
		return m.timed(p, in)
	}
	for i := range warmSteps + m.o.Steps {
		ms, err := step()
		if err != nil {
			return err
		}
		if i >= warmSteps {
			times = append(times, ms)
		}
	}
	if out.Kernels, err = m.kernels(func() error { _, err := step(); return err }); err != nil {
		return err
	}
	if out.ExpertsHit, err = m.hits(m.step(c.batch, 1, pos, false)); err != nil {
		return err
	}
	middle := float64(c.context+warmSteps) + float64(m.o.Steps)/2
	out.decoded(times, stepBytes(m.o.Shape, m.report.Weights, c.batch, middle, out.ExpertsHit, m.stateBytes,
		m.model.BytesPerPage(pageTokens, kernel.KVF16)/pageTokens), m.report.CopyGBs)
	return nil
}

// prompt measures the reading of a prompt in steps of at most Rows tokens.
func (m *run) prompt(p kernel.Program, c cell, out *Cell) (err error) {
	read := func() (total float64, err error) {
		for at := 0; at < c.context; at += m.o.Rows {
			n := min(m.o.Rows, c.context-at)
			in := m.step(1, n, at, true)
			if at == 0 {
				in.Before = []kernel.StateOp{{Dst: 0, Src: kernel.NoState}}
			}
			if at+n == c.context {
				in.Rows = []kernel.Row{{Row: int32(n - 1), Trigger: -1}}
			}
			ms, err := m.timed(p, in)
			if err != nil {
				return 0, err
			}
			total += ms
		}
		return total, nil
	}
	if _, err := read(); err != nil { // finds its memory
		return err
	}
	var times []float64
	for range prompts {
		ms, err := read()
		if err != nil {
			return err
		}
		times = append(times, ms)
	}
	out.read(times, promptFLOP(m.o.Shape, m.report.Weights, c.context), m.report.TFLOPS)
	out.Kernels, err = m.kernels(func() error { _, err := read(); return err })
	return err
}

// timed is how long a step takes from its launch until its draws are there, as the engine's step loop waits for it.
func (m *run) timed(p kernel.Program, in *kernel.Input) (float64, error) {
	out := kernel.Output{Tokens: make([]int32, len(in.Rows)), Free: make([]int32, len(in.Rows))}
	begun := time.Now()
	if err := p.Launch(in); err != nil {
		return 0, err
	}
	err := p.Collect(&out)
	return 1e3 * time.Since(begun).Seconds(), err
}

// kernels times what do launches.
func (m *run) kernels(do func() error) ([]Kernel, error) {
	if !m.o.Kernels {
		return nil, nil
	}
	m.device.timing = true
	err := do()
	m.device.timing = false
	list, err2 := m.device.take()
	return list, errors.Join(err, err2)
}

// hits is how many experts of a layer a step needs: it is computed once more, operation by operation.
func (m *run) hits(in *kernel.Input) (float64, error) {
	b := m.backend
	b.counting, b.hits, b.layers = true, 0, 0
	err := m.model.Forward(&in.Step, in.Tokens, m.cache, []int32{0}, [][]float32{make([]float32, m.o.Vocabulary)})
	b.counting = false
	return report.Ratio(float64(b.hits), float64(b.layers)), err
}

// step is a step of so many random tokens of each of batch sequences, that stand at a position.
func (m *run) step(batch, rows, pos int, prompt bool) *kernel.Input {
	in := &kernel.Input{Cache: m.cache, Step: kernel.Step{Rows: batch * rows}}
	for i := range batch {
		table := make([]int32, m.pages)
		for j := range table {
			table[j] = int32(i*m.pages + j)
		}
		in.Step.Spans = append(in.Step.Spans, kernel.Span{Row: i * rows, Len: rows, Pos: pos, Pages: table,
			State: int32(i), Prompt: prompt})
	}
	for range batch * rows {
		in.Tokens = append(in.Tokens, m.random.Int32N(int32(m.o.Vocabulary)))
	}
	return in
}
