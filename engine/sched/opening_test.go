package sched

import (
	"slices"
	"testing"
	"time"

	"corenode/engine/cost"
	"corenode/engine/cost/costtest"
)

// watch records of every stream the steps in which it started and first decoded, and checks
// each step by them: a step in which something decodes may be longer than the gap only for
// prompts that started before every stream had begun to decode, and not for long.
type watch struct {
	*computer
	started, decoded map[*Sequence]int
	decodedAt        map[*Sequence]time.Time
	long             int // steps that were longer than the gap
}

func newWatch(t *testing.T, m *costtest.Machine) *watch {
	c := newComputer(t, m, func(c *Config) { c.GapStretchMax = 0 })
	c.warm()
	return &watch{c, map[*Sequence]int{}, map[*Sequence]int{}, map[*Sequence]time.Time{}, 0}
}

func (w *watch) step() bool {
	w.t.Helper()
	context := 0
	begun := w.now
	if !w.computer.step() {
		return false
	}
	for _, q := range w.s.running {
		if w.started[q] == 0 {
			w.started[q] = w.steps
		}
	}
	for _, it := range w.items {
		context = max(context, it.Start+it.Len)
		if !it.Prompt() && w.decoded[it.Seq] == 0 {
			w.decoded[it.Seq], w.decodedAt[it.Seq] = w.steps, begun
		}
	}
	if w.lastTook <= w.gapBound(context) {
		return true
	}
	w.long++
	for _, stream := range w.items {
		if stream.Prompt() {
			continue
		}
		for _, it := range w.items {
			if it.Prompt() && w.started[it.Seq] > w.decoded[stream.Seq] {
				w.t.Fatalf("%s: a gap of %v for a prompt that came after the stream began", w.m.Name, w.lastTook)
			}
		}
		if age := begun.Sub(w.decodedAt[stream.Seq]); age > openingGaps*w.s.config.GapMax {
			w.t.Fatalf("%s: a gap of %v, %v after the stream began", w.m.Name, w.lastTook, age)
		}
		if w.lastTook > soloGaps*w.s.config.GapMax*11/10 {
			w.t.Fatalf("%s: a gap of %v", w.m.Name, w.lastTook)
		}
	}
	return true
}

// TestPromptsThatComeTogether: of eight prompts at once the last has its token when all have
// been computed one after the other, as if no stream waited for its next one meanwhile. After
// that all gaps are kept.
func TestPromptsThatComeTogether(t *testing.T) {
	for _, m := range costtest.Machines(11) {
		w := newWatch(t, m)
		var want time.Duration
		for i := range 8 {
			w.must("a", 251, 64)
			want += m.Quiet(cost.Load{}.With(255, 1, 1).Times(i).With(0, 251, 1))
		}
		for len(w.firsts) < 8 {
			w.step()
		}
		if last := slices.Max(w.firsts); last > want*23/20 {
			t.Errorf("%s: the last first token after %v, %v one after the other", m.Name, last, want)
		}
		for w.long = 0; w.step(); {
			if w.long > 0 {
				t.Fatalf("%s: a gap of %v when all prompts were computed", m.Name, w.lastTook)
			}
		}
	}
}

// TestBurstIntoStreams: prompts that come while streams run keep their gaps, however many.
func TestBurstIntoStreams(t *testing.T) {
	for _, m := range costtest.Machines(12) {
		w := newWatch(t, m)
		for range 3 {
			w.must("a", 200, 400)
		}
		for len(w.firsts) < 3 || w.decoded[w.items[0].Seq] == 0 {
			w.step()
		}
		for w.long = 0; w.ended == 0; w.step() {
			for w.s.waiting == 0 && len(w.s.running) < 11 {
				w.must("b", 100+w.r.IntN(300), 20)
			}
		}
		if w.long > 0 {
			t.Errorf("%s: %d gaps were too long", m.Name, w.long)
		}
	}
}

// TestLongPromptBesideStream: a prompt of many steps that came with a short one does not hold
// up its stream. Two of them do, but only for a while, which watch knows.
func TestLongPromptBesideStream(t *testing.T) {
	m := costtest.Machines(13)[1]
	for long := 1; long <= 2; long++ {
		w := newWatch(t, m)
		w.must("a", 100, 200)
		for range long {
			w.must("b", 3_000, 10)
		}
		for w.long = 0; w.ended == 0; {
			w.step()
			if len(w.gaps) == 0 {
				w.long = 0 // no stream yet
			}
		}
		if long == 1 && w.long > 0 || long == 2 && w.long == 0 {
			t.Errorf("%d gaps were too long beside %d long prompts", w.long, long)
		}
	}
}

// TestPoissonArrivals: whenever prompts come, only those that came with all streams go before
// gaps. Few gaps are longer than promised, and prompts are not slower for it than in line.
func TestPoissonArrivals(t *testing.T) {
	for _, m := range costtest.Machines(14) {
		for _, load := range []float64{0.3, 0.6, 0.9} {
			if testing.Short() && (load < 0.9 || m.Name != "fast") {
				continue // each takes seconds under the race detector
			}
			w := newWatch(t, m)
			each := m.Quiet(cost.Load{}.With(0, 300, 1)) + 40*m.Quiet(cost.Load{}.With(320, 1, 1).Times(4))/4
			for next := w.now; w.ended < 400; {
				for !next.After(w.now) {
					w.must("a", 50+w.r.IntN(500), 1+w.r.IntN(80))
					next = next.Add(time.Duration(w.r.ExpFloat64() * float64(each) / load))
				}
				if !w.step() {
					w.now = next
				}
			}
			late := 0
			for _, g := range w.gaps {
				if g > w.gapBound(630) {
					late++
				}
			}
			t.Logf("%-8s load %.1f: first tokens p50 %v p99 %v, %d of %d gaps too long", m.Name, load, quantile(w.firsts, 0.5),
				quantile(w.firsts, 0.99), late, len(w.gaps))
			if late > len(w.gaps)/50 {
				t.Errorf("%s, load %v: %d of %d gaps were longer than promised", m.Name, load, late, len(w.gaps))
			}
		}
	}
}
