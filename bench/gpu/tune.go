package gpu

import (
	"context"
	"fmt"
	"time"

	"corenode/bench/report"
	"corenode/engine/kernel/cuda/tune"
)

// way is one value of a table of launch shapes.
type way struct {
	value  string
	shapes tune.Shapes
}

// knobs are what is tried one after the other, each with the best of those before. The first way of each is the table's own.
var knobs = []struct {
	what  string
	cells []cell // whose times count, each as much
	ways  func(s tune.Shapes) []way
}{
	{"attention_blocks", []cell{{batch: 1, context: 32 << 10}, {batch: 1, context: 4 << 10}, {batch: 16, context: 4 << 10}},
		func(s tune.Shapes) (all []way) {
			for _, n := range append([]int{s.AttentionBlocks}, 132, 264, 528, 1056) {
				with := s
				with.AttentionBlocks = n
				all = append(all, way{value: fmt.Sprint(n), shapes: with})
			}
			return all
		}},
	{"rows_at_once", []cell{{batch: 4, context: 4 << 10}, {batch: 16, context: 4 << 10}, {batch: 64, context: 4 << 10}},
		func(s tune.Shapes) (all []way) {
			for _, rows := range append([][]int{s.RowsAtOnce}, []int{1, 4, 8}, []int{1, 4}, []int{1, 8}, []int{1}) {
				with := s
				with.RowsAtOnce = rows
				all = append(all, way{value: fmt.Sprint(rows), shapes: with})
			}
			return all
		}},
	{"group_blocks", []cell{{prompt: true, batch: 1, context: 2 << 10}},
		func(s tune.Shapes) (all []way) {
			for _, n := range append([]int{s.GroupBlocks}, 66, 114, 132, 264) {
				with := s
				with.GroupBlocks = n
				all = append(all, way{value: fmt.Sprint(n), shapes: with})
			}
			return all
		}},
}

// worth is how much of the best time so far a way may take to be better: less is noise.
const worth = 0.99

// tinyContext is what cells have where the interpreter rehearses.
const tinyContext = 5

// tune tries the ways to launch kernels and writes the best ones. What it has found when the time is up counts.
func (m *run) tune(ctx context.Context) error {
	best := m.backend.Shapes()
	best.Device = m.report.Device
	for _, k := range knobs {
		cells := k.cells
		if m.o.Interpret {
			cells = []cell{{prompt: k.cells[0].prompt, batch: min(2, k.cells[0].batch), context: tinyContext}}
		}
		first, least := len(m.report.Tuned), 0
		for i, w := range distinct(k.ways(best)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			one := Tuned{What: k.what, Value: w.value}
			if err := m.try(w, cells, &one); err != nil {
				return fmt.Errorf("%s %s: %w", k.what, w.value, err)
			}
			m.report.Tuned = append(m.report.Tuned, one)
			all := m.report.Tuned[first:]
			all[i].relate(all[0])
			if one = all[i]; one.Skipped == "" && (i == 0 || one.Ratio < worth*all[least].Ratio) {
				least, best = i, w.shapes
			}
			m.say("%s %s: %s of the first way %s, %s after the start", k.what, w.value, report.Number(one.Ratio), one.Skipped, m.passed())
		}
		m.report.Tuned[first+least].Best = m.report.Tuned[first+least].Skipped == ""
		if err := m.save(); err != nil {
			return err
		}
		if err := report.WriteJSON(m.o.Tune, best); err != nil {
			return err
		}
	}
	m.backend.Reshape(best)
	return nil
}

// distinct leaves out ways that were there before.
func distinct(ways []way) (all []way) {
	seen := map[string]bool{}
	for _, w := range ways {
		if !seen[w.value] {
			all, seen[w.value] = append(all, w), true
		}
	}
	return all
}

// relate compares a way with the first one.
func (t *Tuned) relate(first Tuned) {
	if t.Skipped != "" || len(first.Milliseconds) != len(t.Milliseconds) {
		return
	}
	for i, ms := range t.Milliseconds {
		t.Ratio += report.Ratio(ms, first.Milliseconds[i]) / float64(len(t.Milliseconds))
	}
}

// try times cells with one way.
func (m *run) try(w way, cells []cell, t *Tuned) error {
	m.backend.Reshape(w.shapes)
	for _, c := range cells {
		if time.Since(m.begun) > m.o.Limit {
			t.Skipped = "not run: no time was left"
			return nil
		}
		ms, why, err := m.timeOf(c)
		if err != nil || why != "" {
			t.Skipped = why
			return err
		}
		t.Milliseconds = append(t.Milliseconds, ms)
	}
	return nil
}

// timeOf is a step of a cell that decodes, or a prompt, in milliseconds.
func (m *run) timeOf(c cell) (ms float64, why string, err error) {
	if !c.prompt {
		seconds, why, err := m.loop(c)
		return 1e3 * seconds / float64(m.o.Steps), why, err
	}
	kernels := m.o.Kernels
	m.o.Kernels = false
	out, err := m.cell(c)
	m.o.Kernels = kernels
	return out.Milliseconds.Median, out.Skipped, err
}
