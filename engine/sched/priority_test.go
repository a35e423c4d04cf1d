package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// addAt is add with a priority.
func (b *bench) addAt(account string, priority int8, prompt, most int) *Sequence {
	b.t.Helper()
	q := b.seq(account, prompt, most)
	q.Priority = priority
	if _, err := b.s.Add(q, b.now); err != nil {
		b.t.Fatal(err)
	}
	return q
}

func oneSlot(c *Config) { c.SequencesMax = 1 }

// starts runs until all have started and returns their numbers of arrival in that order.
func (b *bench) starts(all []*Sequence) (arrivals []uint64) {
	b.t.Helper()
	b.until(100*len(all), func() bool { return !slices.ContainsFunc(all, func(q *Sequence) bool { return q.Started.IsZero() }) })
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y *Sequence) int { return x.Started.Compare(y.Started) })
	for _, q := range all {
		arrivals = append(arrivals, q.order)
	}
	return arrivals
}

// TestPriorityGoesFirst: by priority, then between accounts, then by arrival,
// whatever was running and whoever came first.
func TestPriorityGoesFirst(t *testing.T) {
	b := newBench(t, 400, 0, oneSlot)
	running := b.addAt("a", -5, 20, 10)
	b.until(5, started(running))
	var all []*Sequence
	for _, x := range []struct {
		account  string
		priority int8
	}{{"a", -3}, {"a", 0}, {"a", 0}, {"b", 0}, {"a", 5}, {"b", 5}, {"a", 5}, {"c", 127}, {"c", -128}} {
		all = append(all, b.addAt(x.account, x.priority, 20, 2))
	}
	arrival := func(i int) uint64 { return all[i].order }
	// Within a priority b goes before a, which was served more.
	want := []uint64{arrival(7), arrival(5), arrival(4), arrival(6), arrival(3), arrival(1), arrival(2), arrival(0), arrival(8)}
	if got := b.starts(all); !slices.Equal(got, want) {
		t.Errorf("started in the order %v, want %v", got, want)
	}
	if len(running.Tokens) != running.Prompt+running.Max || all[7].Started.Sub(running.Started) < 8*stepTime {
		t.Error("what was running was preempted for a higher priority")
	}
}

// TestCountersDoNotFall: an account that comes new has the most service with which one began before, also where one with less
// began later for its priority.
func TestCountersDoNotFall(t *testing.T) {
	b := newBench(t, 400, 0, oneSlot)
	b.addAt("a", 1, 1000, 1)
	b.step()
	last := b.addAt("b", 0, 20, 1)
	b.addAt("a", 1, 20, 1)
	b.until(20, ended(last))
	if n := b.add("new", 20, 1).account.counter; n != 1000 {
		t.Errorf("it begins with a service of %d, want the 1000 of the first prompt", n)
	}
}

// TestPriorityDoesNotStarve: a stream of higher priority keeps a lower one
// waiting for as long as the levels between them are worth, and no longer.
func TestPriorityDoesNotStarve(t *testing.T) {
	for _, c := range []struct{ low, high int8 }{{0, 1}, {-1, 1}, {0, 10}, {-128, 127}} {
		b := newBench(t, 400, 0, func(c *Config) { c.SequencesMax = 2; c.PriorityWait = 40 * time.Millisecond })
		flood := func() {
			for b.s.Stats().Waiting < 5 {
				b.addAt(fmt.Sprint("flood", b.ids%3), c.high, 20, 2)
			}
		}
		flood()
		b.step()
		flood()
		levels := time.Duration(int(c.high)-int(c.low)) * b.s.config.PriorityWait
		for round := range 2 { // the second one waits as long again
			q := b.addAt("low", c.low, 20, 2)
			for q.Started.IsZero() {
				if waited := b.now.Sub(q.Arrived); waited > levels+10*stepTime {
					t.Fatalf("%+v, round %d: waits for %v already, the levels are worth %v", c, round, waited, levels)
				}
				flood()
				b.step()
			}
			if waited := q.Started.Sub(q.Arrived); waited < levels-10*stepTime {
				t.Errorf("%+v, round %d: waited %v only, the levels are worth %v", c, round, waited, levels)
			}
			b.until(100, ended(q))
		}
	}
}

// TestPriorityOrderAgainstScan compares admissions with a scan over everything
// that waits, at random priorities and times.
func TestPriorityOrderAgainstScan(t *testing.T) {
	type waiting struct {
		since time.Time
		ids   []uint64
	}
	for seed := range uint64(5) {
		g := rand.New(rand.NewPCG(seed, 5))
		b := newBench(t, 400, 0, func(c *Config) { c.SequencesMax = 1; c.PriorityWait = 25 * time.Millisecond })
		classes, admitted := map[int8]*waiting{}, 0
		var live []*Sequence
		for range 600 {
			for g.IntN(3) == 0 && len(live) < 40 {
				p := int8(g.IntN(12) - 4)
				q := b.addAt("a", p, 5, 1)
				live = append(live, q)
				if classes[p] == nil || len(classes[p].ids) == 0 {
					classes[p] = &waiting{since: b.now}
				}
				classes[p].ids = append(classes[p].ids, q.order)
			}
			if len(live) == 0 {
				continue
			}
			next, due := int8(0), time.Time{}
			for p := 127; p >= -128; p-- {
				if w := classes[int8(p)]; w != nil && len(w.ids) > 0 {
					if d := w.since.Add(-time.Duration(p) * b.s.config.PriorityWait); due.IsZero() || d.Before(due) {
						next, due = int8(p), d
					}
				}
			}
			items := b.step()
			w := classes[next]
			if len(items) != 1 || items[0].Seq.order != w.ids[0] {
				t.Fatalf("seed %d: %d items, of %d with priority %d; want %d with %d", seed, len(items),
					items[0].Seq.order, items[0].Seq.Priority, w.ids[0], next)
			}
			w.ids, w.since = w.ids[1:], b.now
			live = slices.DeleteFunc(live, func(q *Sequence) bool { return q == items[0].Seq })
			admitted++
		}
		if admitted < 100 {
			t.Fatalf("seed %d: only %d admitted", seed, admitted)
		}
	}
}

// TestOnePriorityIsNone: where all have the same one, whichever it is, every
// step is as without any: fairness between accounts and all else.
func TestOnePriorityIsNone(t *testing.T) {
	steps := func(priority int8) (out []string) {
		g := rand.New(rand.NewPCG(1, 1))
		b := newBench(t, 60, 0, func(c *Config) { c.PriorityWait = 10 * time.Millisecond })
		for range 400 {
			for g.IntN(2) == 0 && b.s.Stats().Waiting < 30 {
				b.addAt(fmt.Sprint("account", g.IntN(1+g.IntN(5))), priority, 1+g.IntN(200), 1+g.IntN(40))
			}
			line := ""
			for _, it := range b.step() {
				line += fmt.Sprintf("%d:%d+%d ", it.Seq.order, it.Start, it.Len)
			}
			out = append(out, line)
		}
		if st := b.s.Stats(); st.Preempted+st.PreemptedFair == 0 {
			t.Fatalf("nothing was preempted: %+v", st)
		}
		return out
	}
	want := steps(0)
	for _, p := range []int8{1, -1, 127, -128} {
		if got := steps(p); !slices.Equal(got, want) {
			t.Errorf("priority %d for all changes the steps", p)
		}
	}
}

// TestAccountsAreEqualWithinAPriority: a priority that one account has more
// requests of than another is shared between them all the same.
func TestAccountsAreEqualWithinAPriority(t *testing.T) {
	b := newBench(t, 4000, 0, nil)
	for range 300 {
		b.addAt("flood", 3, 100, 10)
		b.addAt("flood", 0, 100, 10)
	}
	for range 60 {
		b.step()
	}
	var few []*Sequence
	for range 20 {
		few = append(few, b.addAt("few", 3, 100, 10))
	}
	served := map[string]int{}
	for slices.ContainsFunc(few, func(q *Sequence) bool { return q.Started.IsZero() }) {
		for _, it := range b.step() {
			served[it.Seq.Account] += int(service(it.Len))
		}
		if served["flood"] > 20_000 {
			t.Fatalf("served %v, and some still wait", served)
		}
	}
	if few, flood := served["few"], served["flood"]; flood > few*3/2 {
		t.Errorf("served %v", served)
	}
}

// BenchmarkPriorities is a step with many lines that wait.
func BenchmarkPriorities(b *testing.B) {
	for _, priorities := range []int{1, 4, 256} {
		b.Run(fmt.Sprint(priorities), func(b *testing.B) {
			k := newBench(b, 4000, 0, nil)
			k.unchecked = true
			for n := 0; b.Loop(); n++ {
				for k.s.Stats().Waiting < 1000 {
					k.addAt(fmt.Sprint(k.ids%100), int8(int(k.ids)%priorities-128), 5, 2)
				}
				k.step()
			}
		})
	}
}
