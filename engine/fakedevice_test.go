package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/devicetest"
)

// device is a program as that of an accelerator: a goroutine computes what was launched, late,
// and nothing of it is seen before Collect. It draws by the definition of package sample.
type device struct {
	testing.TB
	model Forwarder
	width int
	work  chan kernel.Input
	done  chan kernel.Output
	gate  chan struct{} // where it is set, a step needs a value of it
	stop  chan struct{}
	ended chan struct{}
	rng   *rand.Rand

	open [][]cell // the positions that steps on their way write to

	launches, followed, rows, hosted, held, triggered, closed, drafted int // counted for tests
}

// deviceCache is a cache whose gauge may be read while a step is computed.
type deviceCache struct{ kernel.Cache }

func (deviceCache) BytesUsed() int64 { return 0 }

// newDevice makes a device for a model. With seed 0 it is never late.
func newDevice(t testing.TB, model Forwarder, width int, seed uint64) *device {
	d := &device{TB: t, model: model, width: width, work: make(chan kernel.Input, 2), done: make(chan kernel.Output, 2),
		stop: make(chan struct{}), ended: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 5))}
	go d.run(seed > 0)
	return d
}

// onDevice gives a stepper that has not begun a device.
func onDevice(t testing.TB, e *Engine, s *Stepper, seed uint64) *device {
	d := newDevice(t, e.forwarder, e.logitsWidth(), seed)
	s.program.Close()
	s.program, s.device = d, true
	if s.cache != nil {
		s.cache = deviceCache{s.cache}
	}
	return d
}

// Launch implements kernel.Program.
func (d *device) Launch(in *kernel.Input) error {
	if len(d.open) == 2 {
		d.Error("a third step is launched")
	}
	d.launches++
	if len(d.open) == 1 {
		d.followed++
	}
	var cells []cell
	own := kernel.Input{Before: slices.Clone(in.Before), Tokens: slices.Clone(in.Tokens), Step: kernel.Step{Rows: in.Step.Rows}}
	if c, ok := in.Cache.(deviceCache); ok {
		own.Cache = c.Cache
	}
	for _, sp := range in.Step.Spans {
		sp.Pages, sp.Saves = slices.Clone(sp.Pages), slices.Clone(sp.Saves)
		own.Step.Spans = append(own.Step.Spans, sp)
		for p := sp.Pos; p < sp.Pos+sp.Len && own.Cache != nil; p++ {
			cells = append(cells, cell{sp.Pages[p/16], p % 16})
		}
	}
	for _, row := range in.Rows {
		row.Hidden, row.Stops, row.Prompt = slices.Clone(row.Hidden), slices.Clone(row.Stops), slices.Clone(row.Prompt)
		row.Seen, row.Allowed, row.Ending = slices.Clone(row.Seen), slices.Clone(row.Allowed), slices.Clone(row.Ending)
		own.Rows = append(own.Rows, row)
	}
	for _, others := range d.open {
		for _, at := range cells {
			if slices.Contains(others, at) {
				d.Errorf("two steps on their way write to %+v", at)
			}
		}
	}
	d.open = append(d.open, cells)
	d.work <- own
	return nil
}

// Collect implements kernel.Program.
func (d *device) Collect(out *kernel.Output) error {
	got := <-d.done
	d.open = d.open[1:]
	copy(out.Tokens, got.Tokens)
	copy(out.Free, got.Free)
	for i, row := range got.Logits {
		copy(out.Logits[i], row)
	}
	if len(out.Tokens) != len(got.Tokens) || len(out.Logits) != len(got.Logits) {
		d.Errorf("%d tokens and %d rows of logits are collected of %d and %d", len(out.Tokens), len(out.Logits), len(got.Tokens), len(got.Logits))
	}
	return nil
}

// Close implements kernel.Program.
func (d *device) Close() {
	close(d.stop)
	<-d.ended
}

// run computes one step after the other.
func (d *device) run(late bool) {
	defer close(d.ended)
	var last []int32
	for {
		var in kernel.Input
		select {
		case in = <-d.work:
		case <-d.stop:
			return
		}
		if d.gate != nil {
			select {
			case <-d.gate:
			case <-d.stop:
				return
			}
		}
		if late && d.rng.IntN(2) == 0 {
			time.Sleep(time.Duration(d.rng.IntN(300)) * time.Microsecond)
		}
		out := d.compute(&in, last)
		last = out.Tokens
		d.done <- out
	}
}

// compute is one step behind another one, which drew last.
func (d *device) compute(in *kernel.Input, last []int32) (out kernel.Output) {
	for _, op := range in.Before {
		op.Do(in.Cache)
	}
	tokens := slices.Clone(in.Tokens)
	for i, id := range tokens {
		if at, sampled := kernel.SampledRow(id); sampled {
			tokens[i] = last[at]
		}
	}
	var rows []int32
	var logits [][]float32
	for _, row := range in.Rows {
		rows, logits = append(rows, row.Row), append(logits, make([]float32, d.width))
	}
	if err := d.model.Forward(&in.Step, tokens, in.Cache, rows, logits); err != nil {
		d.Errorf("a step cannot be computed: %v", err)
	}
	for i := range in.Rows {
		token, free := int32(-1), int32(-1)
		if d.rows++; in.Rows[i].Logits {
			d.hosted++
			out.Logits = append(out.Logits, logits[i])
		} else {
			token, free = d.draw(in, i, tokens, logits[i])
		}
		out.Tokens, out.Free = append(out.Tokens, token), append(out.Free, free)
	}
	return out
}

// draw is the token of row i, and what it would be if nothing held it.
func (d *device) draw(in *kernel.Input, i int, tokens []int32, logits []float32) (token, free int32) {
	token, free = devicetest.Drawn(in, i, tokens, logits)
	row := &in.Rows[i]
	sp := in.Step.Spans[slices.IndexFunc(in.Step.Spans, func(sp kernel.Span) bool { return int(row.Row) < sp.Row+sp.Len })]
	if i > 0 && int(in.Rows[i-1].Row) >= sp.Row {
		d.drafted++
	}
	if row.Held && (row.Trigger < 0 || row.Trigger == tokens[row.Row]) {
		d.held++
		if row.Trigger >= 0 {
			d.triggered++
		}
		if slices.Contains(row.Stops, free) {
			d.closed++
		}
	}
	return token, free
}
