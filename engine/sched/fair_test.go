package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestFloodDoesNotDelayOthers: one account has 1000 requests waiting and all
// slots; the first request of another starts within FairWait and some steps,
// with long and short generations, and with a pool full of the flood's pages.
func TestFloodDoesNotDelayOthers(t *testing.T) {
	for _, tc := range []struct{ pages, prompt, most int }{{2000, 30, 5}, {2000, 30, 3000}, {2000, 3000, 50}, {100, 200, 190}} {
		b := newBench(t, tc.pages, 0, nil)
		for range 1000 {
			b.add("flood", tc.prompt, tc.most)
		}
		for range 100 {
			b.step()
		}
		q := b.add("other", 300, 5)
		got := b.until(100, started(q))
		if limit := int(50*time.Millisecond/stepTime) + 12; got > limit {
			t.Errorf("%+v: first token after %d steps, want at most %d", tc, got, limit)
		}
		if q.Started.Sub(q.Arrived) > 50*time.Millisecond+stepTime {
			t.Errorf("%+v: started after %v", tc, q.Started.Sub(q.Arrived))
		}
		b.until(50, ended(q))
	}
}

// TestHeldPagesDoNotDelayOthers: where one account has all slots, and its next requests
// hold what they hit, most pages, another account still has its place after FairWait.
func TestHeldPagesDoNotDelayOthers(t *testing.T) {
	for _, states := range []int{0, 8} {
		b := newBench(t, 20, states, func(c *Config) { c.SequencesMax = 2 })
		first := b.seq("flood", 240, 1)
		first.SnapshotAt = []int{224}
		again := &Sequence{Namespace: "flood", Account: "flood", Tokens: slices.Clone(first.Tokens), Max: 1}
		if _, err := b.s.Add(first, b.now); err != nil {
			t.Fatal(err)
		}
		b.until(50, ended(first))
		long, latest := b.add("flood", 5, 40), b.add("flood", 5, 40)
		b.until(50, started(latest))
		if cached, err := b.s.Add(again, b.now); err != nil || cached != 224 {
			t.Fatalf("states %d: %d tokens are cached, %v: the test sees nothing", states, cached, err)
		}
		q := b.add("other", 160, 1)
		b.until(100, started(q))
		if waited := q.Started.Sub(q.Arrived); waited > 50*time.Millisecond+stepTime {
			t.Errorf("states %d: started after %v", states, waited)
		}
		for _, q := range []*Sequence{long, latest, again} {
			b.until(200, ended(q))
		}
	}
}

// cached leaves the pages of a prompt that ends with token 1 in the pool, and returns it.
func (b *bench) cached(account string, tokens int) []int32 {
	b.t.Helper()
	q := b.add(account, tokens, 1)
	b.until(50, ended(q))
	return slices.Clone(q.Tokens[:q.Prompt])
}

// again adds a sequence that begins with tokens that may be cached.
func (b *bench) again(account string, priority int8, begin []int32, tokens, most int) *Sequence {
	b.t.Helper()
	q := b.seq(account, tokens, most)
	q.Priority = priority
	copy(q.Tokens, begin)
	if _, err := b.s.Add(q, b.now); err != nil {
		b.t.Fatal(err)
	}
	return q
}

// TestHitsAreKeptForWhoCannotStart: a sequence that does not fit, whatever others
// that wait give up, takes nothing from them.
func TestHitsAreKeptForWhoCannotStart(t *testing.T) {
	b := newBench(t, 20, 0, nil)
	long, short := b.cached("long", 161), b.cached("short", 49)
	b.add("runs", 80, 16)
	b.until(5, func() bool { return b.s.Stats().Running == 1 })
	b.again("short", 0, short, 60, 1)
	b.again("long", 1, long, 231, 1) // 10 pages of 15 are cached; 3 at most come from the other
	b.step()
	if st := b.s.Stats(); st.HitsDropped != 0 || st.Waiting != 2 {
		t.Errorf("%d hits were given up, %d wait, want 0 and 2", st.HitsDropped, st.Waiting)
	}
}

// TestSharedPagesFreeNothing: sequences that share their pages with one that goes
// on are not preempted for an account that would not fit without them either.
func TestSharedPagesFreeNothing(t *testing.T) {
	b := newBench(t, 64, 0, func(c *Config) { c.SequencesMax = 8 })
	begin := b.cached("flood", 321)
	var all []*Sequence
	for range 3 {
		all = append(all, b.again("flood", 0, begin[:320], 340, 100))
	}
	all = append(all, b.add("large", 400, 80))
	for _, q := range all {
		b.until(50, started(q))
	}
	q := b.add("other", 400, 1) // 26 pages; at most 3 are private to each of those that could go
	for range 20 {
		b.step()
	}
	if st := b.s.Stats(); st.PreemptedFair != 0 || st.Running != 4 {
		t.Errorf("%d preempted, %d running, want 0 and 4", st.PreemptedFair, st.Running)
	}
	b.until(400, ended(q))
}

// TestNobodyYieldsInVain: an account that is entitled to a place, and that only the steps' time keeps from one, takes no hit
// and no slot where nobody runs two, or where it would not fit beside the first sequence of each account.
func TestNobodyYieldsInVain(t *testing.T) {
	for _, c := range []struct{ second, prompt int }{{0, 430}, {200, 600}} {
		b := newBench(t, 160, 0, func(c *Config) { c.GapMax = time.Nanosecond }) // one stream is all that steps have time for
		begin := b.cached("waits", 161)
		b.until(9, started(b.add("stream", 5, 1000)))
		b.add("reads", 2000, 1)
		if c.second > 0 {
			b.add("stream", c.second, 1)
		}
		b.step()
		b.add("entitled", c.prompt, 2)
		b.again("waits", 0, begin, 161, 1)
		for range 10 {
			b.step()
		}
		if st := b.s.Stats(); st.HitsDropped != 0 || st.PreemptedFair != 0 || st.Waiting != 2 || b.s.hits.len != 1 {
			t.Errorf("%+v: %+v", c, st)
		}
	}
}

// TestNextEntitled: while readers are behind and nothing runs, the moment is named at
// which an account gets a place of theirs: after FairWait when it was served least,
// after ten times that when others that have places were served no more.
func TestNextEntitled(t *testing.T) {
	for _, tc := range []struct {
		rest int
		wait time.Duration
	}{{0, 50 * time.Millisecond}, {1, 500 * time.Millisecond}} {
		b := newBench(t, 100, 0, func(c *Config) { c.SequencesMax = 2 })
		all := []*Sequence{b.add("flood", 5, 40), b.add("flood", 5, 40)}
		b.until(50, started(all[1]))
		for _, q := range all {
			q.Stalled = true
		}
		for range tc.rest {
			all = append(all, b.add("flood", 5, 1))
		}
		b.step()
		if at, ok := b.s.NextEntitled(); ok {
			t.Errorf("%+v: the account with all places is entitled to one at %v", tc, at)
		}
		q := b.add("other", 5, 1)
		b.step()
		at, ok := b.s.NextEntitled()
		if want := q.Arrived.Add(tc.wait); !ok || !at.Equal(want) {
			t.Fatalf("%+v: entitled at %v, %v, want %v", tc, at, ok, want)
		}
		for b.now.Before(at.Add(-stepTime)) {
			b.step()
		}
		if b.s.Plan(at.Add(-time.Nanosecond)); !q.Started.IsZero() {
			t.Errorf("%+v: started before it was entitled", tc)
		}
		b.now = at.Add(-stepTime)
		if b.step(); !q.Started.Equal(at) {
			t.Errorf("%+v: started at %v, want %v", tc, q.Started, at)
		}
		for _, q := range all {
			q.Stalled = false
		}
		for _, q := range append(all, q) {
			b.until(200, ended(q))
		}
	}
}

// TestTimeIsTakenLater: with a slot and pages to be had, an account that only the steps' time keeps out has a place after
// ten times FairWait, or once a sequence of the others ends, if that is sooner.
func TestTimeIsTakenLater(t *testing.T) {
	for name, ends := range map[string]bool{"all go on": false, "one ends": true} {
		b := newBench(t, 4000, 0, func(c *Config) { c.GapMax = time.Nanosecond }) // one stream is all that steps have time for
		decodes := 1000
		if ends {
			decodes = 15
		}
		stream, prompt := b.add("flood", 5, decodes), b.add("flood", 20_000, 1)
		b.until(10, func() bool { return !prompt.Started.IsZero() })
		q := b.add("other", 5, 2)
		b.until(100, func() bool { return !q.Started.IsZero() })
		waited, preempted := q.Started.Sub(q.Arrived), b.s.Stats().PreemptedFair
		fair := b.s.config.FairWait
		if ends && (waited <= fair || waited >= starvedAfter*fair || preempted != 0 || !ended(stream)()) {
			t.Errorf("%s: waited %v, %d preempted", name, waited, preempted)
		}
		if !ends && (waited != starvedAfter*fair || preempted != 1) {
			t.Errorf("%s: waited %v, %d preempted, want %v and one", name, waited, preempted, starvedAfter*fair)
		}
	}
}

// TestServiceIsEqual: two accounts that always want more get the same service,
// whatever their requests look like.
func TestServiceIsEqual(t *testing.T) {
	b := newBench(t, 4000, 0, nil)
	for range 300 {
		b.add("large", 900, 20)
		b.add("small", 60, 20)
		b.add("small", 60, 20)
		b.add("small", 60, 20)
	}
	served := map[string]int{}
	for range 1500 {
		for _, it := range b.step() {
			served[it.Seq.Account] += int(service(it.Len))
		}
	}
	if d := served["large"] - served["small"]; d > 6000 || d < -6000 || served["small"] < 20_000 {
		t.Errorf("served %v", served)
	}
}

// TestNobodyStarves: a stream of newcomers, each served less than everyone
// before, never keeps an account with much behind it from its turn: neither
// from a slot, nor, when it has one, from prefill.
func TestNobodyStarves(t *testing.T) {
	b := newBench(t, 4000, 0, nil)
	heavy := b.add("heavy", 20_000, 1)
	b.until(1000, ended(heavy))
	b.add("friend", 10, 1000) // keeps the account's debt meaningful
	next := b.add("heavy", 2000, 3)
	for n := 0; len(next.Tokens) < next.Prompt+next.Max; n++ {
		if n > 1500 {
			t.Fatalf("starved: computed %d of %d, %+v", next.Computed(), len(next.Tokens), b.s.Stats())
		}
		for b.s.Stats().Waiting < 8 {
			b.add(fmt.Sprint("newcomer", b.ids), 200, 3)
		}
		b.step()
	}
	if n := b.s.Stats().Accounts; n > 20+idleAccountsMax {
		t.Errorf("%d accounts are remembered", n)
	}
}

func TestIdleAccountsAreForgotten(t *testing.T) {
	b := newBench(t, 400, 0, nil)
	for range 3 * idleAccountsMax {
		q := b.add(fmt.Sprint("account", b.ids), 20, 1)
		b.until(5, ended(q))
	}
	if n := b.s.Stats().Accounts; n > idleAccountsMax {
		t.Errorf("%d accounts are remembered", n)
	}
}

func TestFirstComeFirstServedWithinAccount(t *testing.T) {
	b := newBench(t, 400, 0, nil)
	var all []*Sequence
	for i := range 30 {
		all = append(all, b.add("a", 20+i*7%50, 4))
	}
	b.until(500, ended(all[29]))
	b.until(50, func() bool { return b.s.Stats().Running == 0 })
	for i := 1; i < len(all); i++ {
		if all[i].Started.Before(all[i-1].Started) {
			t.Errorf("sequence %d started before the one ahead of it", all[i].order)
		}
	}
}

// TestPagesComeFromWhoRunsMost: when pages run out, an account with one
// sequence, though the latest to arrive, does not pay for one with three.
func TestPagesComeFromWhoRunsMost(t *testing.T) {
	b := newBench(t, 40, 0, nil)
	var flood []*Sequence
	for range 3 {
		flood = append(flood, b.add("flood", 100, 300))
	}
	b.step()
	only := b.add("other", 100, 100)
	b.until(5, started(only))
	b.until(400, func() bool {
		if slices.Contains(b.s.plan.Preempted, only) {
			t.Fatal("the only sequence of its account was preempted")
		}
		return ended(only)()
	})
	if b.s.Stats().Preempted == 0 {
		t.Fatal("nothing was preempted: the test shows nothing")
	}
	for _, q := range flood {
		b.until(1000, ended(q))
	}
}

// TestPlannedOnesGiveTheirPages: one that is preempted behind its turn in the same plan gives its pages at once, so
// that nobody else is preempted.
func TestPlannedOnesGiveTheirPages(t *testing.T) {
	b := newBench(t, 8, 0, nil)
	all := []*Sequence{b.add("a", 20, 60), b.add("a", 20, 60), b.add("b", 20, 60)} // with the 33rd token each wants a third page
	b.until(50, func() bool { return b.s.Stats().Preempted > 0 })
	if p := b.s.plan; len(p.Preempted) != 1 || p.Preempted[0] != all[1] || p.Rows != 2 || !all[0].Running() || !all[2].Running() {
		t.Errorf("%d are preempted, %d rows are planned, and %+v", len(p.Preempted), p.Rows, b.s.Stats())
	}
	for _, q := range all {
		b.until(500, ended(q))
	}
}

// TestAbsenceSavesNothingUp: an account that was away while another worked
// alone shares from then on; it does not catch up first.
func TestAbsenceSavesNothingUp(t *testing.T) {
	b := newBench(t, 4000, 0, nil)
	for range 600 {
		b.add("steady", 400, 20)
	}
	for range 1000 {
		b.step()
	}
	for range 300 {
		b.add("returns", 400, 20)
	}
	served := map[string]int{}
	for range 400 {
		for _, it := range b.step() {
			served[it.Seq.Account] += int(service(it.Len))
		}
	}
	if s, r := served["steady"], served["returns"]; s < 7000 || s < r*2/3 || r < s*2/3 {
		t.Errorf("served %v", served)
	}
}
