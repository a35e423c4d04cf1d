package route

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fail reports n failed requests and says whether the last ejected the replica.
func fail(s *Set, id string, n int, now time.Time) (ejected bool) {
	for range n {
		ejected = s.Failed(id, "reset", now)
	}
	return ejected
}

// probe reports the probes of a replica, + passed and - failed, and what changed.
func probe(s *Set, id, probes string, now time.Time) string {
	changed := ""
	for _, p := range probes {
		c := "."
		if s.Probed(id, p == '+', "no answer", now) {
			c = "!"
		}
		changed += c
	}
	return changed
}

// TestProbed: three failures in a row take a replica out, two passes bring it back.
func TestProbed(t *testing.T) {
	for _, c := range []struct{ probes, changed string }{
		{"---", "..!"}, {"--+--+", "......"}, {"-----", "..!.."}, {"---++", "..!.!"}, {"---+-++", "..!...!"}, {"+++---+---++", ".....!.....!"},
	} {
		if got := probe(setOf(2), "a", c.probes, base); got != c.changed {
			t.Errorf("%s: %s, want %s", c.probes, got, c.changed)
		}
	}
	s := setOf(2)
	probe(s, "a", "---++", base)
	if s.get("a").upSince != base || s.Probed("x", true, "", base) {
		t.Error("a replica that comes back does not start slowly, or one that is not there changed")
	}
}

// TestEjected: five failed requests in a row eject a replica; a success between them counts anew.
func TestEjected(t *testing.T) {
	s := setOf(2)
	if fail(s, "a", 4, base) || fail(s, "x", 9, base) {
		t.Error("ejected too early")
	}
	s.Succeeded("a")
	if fail(s, "a", 4, base) || !fail(s, "a", 1, base) {
		t.Error("not ejected by the fifth in a row")
	}
	state := s.States(base)[0]
	if state.Up || state.EjectedFor < ejectFirst || state.EjectedFor > ejectFirst*5/4 || state.Reason != "reset" {
		t.Errorf("%+v", state)
	}
	back := base.Add(state.EjectedFor)
	if !s.get("a").health.up(back) || s.get("a").load(back) < 10 {
		t.Error("it does not come back, or not slowly")
	}
}

// TestNeverAll: neither probes nor failures take out more than half, or the last one.
func TestNeverAll(t *testing.T) {
	for n, want := range []int{0, 0, 1, 1, 2, 2, 3} {
		s := setOf(n)
		for range 3 {
			for i := range n {
				if i%2 == 0 {
					fail(s, name(i), 6, base)
				} else {
					probe(s, name(i), "----", base)
				}
			}
		}
		out := 0
		for _, state := range s.States(base) {
			if !state.Up {
				out++
			} else if !state.Failing {
				t.Errorf("of %d %s is kept, and nothing says that it fails", n, state.ID)
			}
		}
		if out != want {
			t.Errorf("%d of %d are out, want %d", out, n, want)
		}
		for i := range n {
			s.Succeeded(name(i))
			probe(s, name(i), "+", base)
		}
		for _, state := range s.States(base) {
			if state.Failing && state.Up {
				t.Errorf("%s has answered and is said to fail", state.ID)
			}
		}
	}
}

// TestEjectionGrows with each ejection, to its maximum, and is short again after a success.
func TestEjectionGrows(t *testing.T) {
	s, now := setOf(2), base
	for i := 1; i <= 40; i++ {
		if !fail(s, "a", 5, now) {
			t.Fatalf("ejection %d did not come", i)
		}
		least := min(ejectMax, time.Duration(i)*ejectFirst)
		d := s.States(now)[0].EjectedFor
		if d < least || d > min(ejectMax, least*5/4) {
			t.Errorf("ejection %d is for %v", i, d)
		}
		now = now.Add(d)
	}
	s.Succeeded("a")
	if fail(s, "a", 5, now); s.States(now)[0].EjectedFor > ejectFirst*5/4 {
		t.Errorf("after a success for %v", s.States(now)[0].EjectedFor)
	}
}

// TestFailuresOfOneMoment eject a replica once, on each node for a time of its own.
func TestFailuresOfOneMoment(t *testing.T) {
	var all []time.Duration
	for seed := range uint64(100) {
		s := setOf(4)
		s.random = rand.New(rand.NewPCG(seed, seed))
		fail(s, "a", 12*failuresOut, base)
		if n := s.get("a").health.ejections; n != 1 {
			t.Fatalf("ejected %d times", n)
		}
		all = append(all, s.States(base)[0].EjectedFor)
	}
	if spread := slices.Max(all) - slices.Min(all); spread < ejectFirst/8 {
		t.Errorf("it comes back to all within %v", spread)
	}
}

// TestOutIsNotChosen: a replica that is out is not chosen, however much there is on the other, until it is back.
func TestOutIsNotChosen(t *testing.T) {
	for name, c := range map[string]struct {
		out  func(s *Set)
		back func(s *Set) time.Time
	}{
		"ejected": {func(s *Set) { fail(s, "a", failuresOut, base) }, func(s *Set) time.Time { return s.get("a").health.ejectedTo }},
		"probed": {func(s *Set) { probe(s, "a", "---", base) }, func(s *Set) time.Time {
			probe(s, "a", "++", base)
			return base
		}},
	} {
		s := setOf(2)
		c.out(s)
		for n := range uint64(50) {
			if id := choose(t, s, base, Key{Conversation: n}).ID; id != "b" {
				t.Fatalf("%s: %s is chosen", name, id)
			}
		}
		if _, why := s.Choose(base, Key{}, []string{"b"}); why != NoneUp {
			t.Errorf("%s: to one that has tried the other it says %d", name, why)
		}
		choose(t, s, c.back(s), Key{}, "b")
	}
}

// TestProbesOfEjected: a replica that is ejected and does not answer probes either stays out
// when the ejection ends, and starts slowly whenever it is back.
func TestProbesOfEjected(t *testing.T) {
	s := setOf(2)
	fail(s, "a", 5, base)
	probe(s, "a", "---", base)
	after := base.Add(ejectFirst * 2)
	if s.get("a").health.up(after) {
		t.Error("it is up, though it never answered a probe")
	}
	if probe(s, "a", "++", after); !s.get("a").health.up(after) || s.get("a").upSince != after {
		t.Error("it does not come back")
	}
	s = setOf(2)
	fail(s, "a", 5, base)
	probe(s, "a", "---++", base)
	if r := s.get("a"); r.upSince != r.health.ejectedTo {
		t.Errorf("it starts slowly at %v, ejected to %v", r.upSince, r.health.ejectedTo)
	}
}

// TestBudget: retries are a fifth of the requests of ten seconds, and at least three.
func TestBudget(t *testing.T) {
	for _, c := range []struct{ requests, retries int }{{0, 3}, {10, 3}, {15, 3}, {19, 3}, {20, 4}, {100, 20}} {
		var b Budget
		for range c.requests {
			b.Request(base)
		}
		if n := retries(&b, base.Add(9*time.Second)); n != c.retries {
			t.Errorf("%d requests: %d retries, want %d", c.requests, n, c.retries)
		}
	}
}

// TestBudgetClears: what is ten seconds old does not count; a clock that was set back goes on from there.
func TestBudgetClears(t *testing.T) {
	var b Budget
	for range 50 {
		b.Request(base)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{0, 10}, {9 * time.Second, 0}, {10 * time.Second, 3}, {5 * time.Second, 0}, {14 * time.Second, 0}, {15 * time.Second, 3},
		{time.Hour, 3},
	} {
		if n := retries(&b, base.Add(step.after)); n != step.want {
			t.Errorf("after %v: %d retries, want %d", step.after, n, step.want)
		}
	}
}

// TestBudgetOfAClockThatIsSet: after a clock was set back, what is ten seconds old does not count either.
func TestBudgetOfAClockThatIsSet(t *testing.T) {
	var b Budget
	b.Request(base)
	back := base.Add(-time.Hour)
	for n := range 10_000 { // in 100 seconds
		b.Request(back.Add(time.Duration(n) * 10 * time.Millisecond))
	}
	if n := retries(&b, back.Add(100*time.Second)); n < 180 || n > 200 {
		t.Errorf("%d retries, want a fifth of the 1000 requests of the last ten seconds", n)
	}
}

func retries(b *Budget, now time.Time) (n int) {
	for b.MayRetry(now) {
		b.Retry(now)
		n++
	}
	return n
}
