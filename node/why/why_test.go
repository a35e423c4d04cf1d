package why

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// calm is a node of two processors that answers four streams, at rest enough: before and after two seconds.
func calm() (before, after Sample) {
	at := time.Unix(1_700_000_000, 0)
	before = Sample{At: at, Processors: 2, Busy: time.Hour, Own: time.Hour / 2, Collector: time.Minute, CollectorOf: time.Hour / 2,
		Models: []Model{{ID: "m", Running: 4, BatchMax: 16, SequencesMax: 32,
			StepTook: 30 * time.Millisecond, StepExpected: 29 * time.Millisecond,
			PrefillTokens: 9000, DecodeTokens: 3000, PagesFree: 500, PagesAll: 1000}},
		Requests: []Request{{ID: "req_1", AccountID: "acct_1", Model: "m", Prompt: 100, Input: 100}},
		Modules:  []Module{{Slot: "billing", Name: "tariff@1", Requests: 100, CPU: time.Second}},
		Slots:    []Slot{{Name: "billing", Limit: 1, CPU: time.Second}},
		Ledger:   Ledger{Commits: 50, Busy: 200 * time.Millisecond}}
	after = before
	after.At = at.Add(2 * time.Second)
	after.Busy += 2 * time.Second
	after.Own += 1900 * time.Millisecond
	after.Collector += 20 * time.Millisecond
	after.CollectorOf += 1900 * time.Millisecond
	after.Models, after.Requests = slices.Clone(before.Models), slices.Clone(before.Requests)
	after.Modules, after.Slots = slices.Clone(before.Modules), slices.Clone(before.Slots)
	after.Models[0].PrefillTokens += 400
	after.Models[0].DecodeTokens += 200
	after.Modules[0].Requests += 40
	after.Modules[0].CPU += 20 * time.Millisecond
	after.Slots[0].CPU += 20 * time.Millisecond
	after.Ledger = Ledger{Commits: 90, Busy: 360 * time.Millisecond}
	return before, after
}

// TestPlantedCauses plants one cause each into a calm node; most of them fill the queue too.
func TestPlantedCauses(t *testing.T) {
	queued := func(s *Sample) { s.Models[0].Waiting, s.Models[0].QueueWait = 7, 3*time.Second }
	for name, c := range map[string]struct {
		plant func(before, after *Sample)
		says  string
	}{
		"neighbor": {func(_, s *Sample) {
			queued(s)
			s.Busy += 1900 * time.Millisecond
			s.Models[0].StepTook = 110 * time.Millisecond
		}, "Other programs use 1.0 of 2 processors, this node 0.9. A step of m took 110ms; 29ms were expected."},
		"stolen": {func(_, s *Sample) { queued(s); s.Stolen += 800 * time.Millisecond }, "takes 20 % of its processor time"},
		"disk": {func(_, s *Sample) { s.Ledger = Ledger{Commits: 90, Under: 1400 * time.Millisecond, Waiting: 12} },
			"has taken 1.4s; 12 rows wait"},
		"disk elsewhere": {func(_, s *Sample) { s.Ledger = Ledger{Commits: 54, Under: time.Second, Elsewhere: true} },
			"The database does not keep up"},
		"place": {func(_, s *Sample) { queued(s); s.Out = true }, "lost its place"},
		"model": {func(_, s *Sample) { s.Down = []string{"m"} }, "down: m. They failed too often"},
		"disk slow": {func(_, s *Sample) { s.Ledger = Ledger{Commits: 54, Busy: 1800 * time.Millisecond, Waiting: 3} },
			"4 commits of the ledger durable in 400ms each"},
		"disk spills": {func(_, s *Sample) {
			s.Collector += 600 * time.Millisecond
			s.Ledger = Ledger{Commits: 115, Busy: 980 * time.Millisecond, Spilled: 1, Waiting: 2}
		}, "1 rows are in the spill journal, and the disk does not have all of them yet; 2 wait."},
		"disk spills elsewhere": {func(_, s *Sample) { s.Ledger = Ledger{Spilled: 1572, Under: time.Second, Elsewhere: true} },
			"1572 rows are in the spill journal, and the database does not have all of them yet; 0 wait."},
		"prompt": {func(_, s *Sample) {
			queued(s)
			s.Requests = append(s.Requests, Request{ID: "req_9", AccountID: "acct_2", Model: "m", Prefill: true, Prompt: 74_000, Cached: 1000, Input: 390})
		}, "long prompt of request req_9 (account acct_2) is computed: 1390 of 74000 tokens so far; 3 sequences of m run beside it, 7 wait"},
		"prompt in one step": {func(b, s *Sample) { // whose tokens count when it ends
			s.Models[0] = b.Models[0]
			s.Models[0].Running, s.Models[0].StepTook = 2, 3*time.Second
			s.Requests = append(s.Requests, Request{ID: "req_9", AccountID: "acct_2", Model: "m", Prefill: true, Prompt: 74_000, Input: 96})
			b.Requests = append(b.Requests, s.Requests[1])
		}, "long prompt of request req_9 (account acct_2) is computed: 96 of 74000 tokens so far; 1 sequences of m run beside it, 0 wait"},
		"module": {func(_, s *Sample) { s.Modules[0].CPU += 4 * time.Second },
			"The module tariff@1 of slot billing takes 100.5ms of processor time for each request."},
		"module share": {func(_, s *Sample) {
			s.Slots[0].CPU += 1900 * time.Millisecond
			s.Slots[0].Declined += 5
		}, "use 96 % of their share of the processors: 0 calls waited, 5 were answered by something else"},
		"collector": {func(_, s *Sample) { s.Collector += 600 * time.Millisecond }, "The collector takes 33 %"},
		"collector seldom": {func(_, s *Sample) { // the first collection for long ends between the samples
			s.Collector += 4 * time.Second
			s.CollectorOf += 10 * time.Second
		}, "The collector takes 34 %"},
		"batch": {func(_, s *Sample) { queued(s); s.Models[0].Running = 16 },
			"m runs 16 sequences of 16 that it would run at once; 32 are configured."},
		"memory": {func(_, s *Sample) { queued(s); s.Models[0].Preempted += 3 }, "pages of 3 sequences away"},
		"queue":  {func(_, s *Sample) { queued(s) }, "7 requests of m wait for their first step, about 3s of work"},
	} {
		before, after := calm()
		c.plant(&before, &after)
		d := Diagnose(before, after)
		if want, _, _ := strings.Cut(name, " "); !d.Slow || d.Causes[0].Name != want || !strings.Contains(d.Sentence, c.says) {
			t.Errorf("%s: %+v, want %q", name, d, c.says)
		}
	}
	if d := Diagnose(calm()); d.Slow || !strings.HasPrefix(d.Sentence, "Nothing") {
		t.Errorf("a calm node: %+v", d)
	}
}

// TestCollectorAtRest: of a node that does hardly anything but collect, as seldom as the runtime wants it, the collector takes no more
// than all, and that is no cause.
func TestCollectorAtRest(t *testing.T) {
	before, after := calm()
	after.Own = before.Own + 48*time.Millisecond
	after.Collector, after.CollectorOf = before.Collector+50*time.Millisecond, before.CollectorOf+50*time.Millisecond
	if c := collector(before, after); c.Weight != 0 || c.Sentence != "The collector takes 100 % of the node's processor time." {
		t.Errorf("%+v", c)
	}
}

// TestPlace: only a node with a database has a place to lose.
func TestPlace(t *testing.T) {
	for elsewhere, says := range map[bool]string{false: "shares its rows with no other", true: "has its place"} {
		if got := place(Sample{Ledger: Ledger{Elsewhere: elsewhere}}); got.Weight != 0 || !strings.Contains(got.Sentence, says) {
			t.Errorf("rows in a database: %v: %+v", elsewhere, got)
		}
	}
}

// TestNoCauses: what looks like one and is none.
func TestNoCauses(t *testing.T) {
	for name, plant := range map[string]func(before, after *Sample){
		"others use what is idle anyway": func(b, s *Sample) { b.Processors, s.Processors, s.Busy = 16, 16, s.Busy+8*time.Second },
		"others, and nothing to do": func(_, s *Sample) {
			s.Busy += 1900 * time.Millisecond
			s.Models[0].Running, s.Requests = 0, nil
		},
		"a long prompt that nobody waits for": func(_, s *Sample) {
			s.Models[0].Running = 1
			s.Requests = []Request{{ID: "req_9", Model: "m", Prefill: true, Prompt: 74_000, Input: 390}}
		},
		"a long prompt of which most was found": func(_, s *Sample) {
			s.Requests = append(s.Requests, Request{ID: "req_9", Model: "m", Prefill: true, Prompt: 74_000, Cached: 73_000, Input: 390})
		},
		"a long prompt while none is computed": func(b, s *Sample) {
			s.Models[0].PrefillTokens = b.Models[0].PrefillTokens
			s.Requests = append(s.Requests, Request{ID: "req_9", Model: "m", Prefill: true, Prompt: 74_000})
		},
		"a long prompt while no step runs": func(b, s *Sample) {
			s.Models[0] = b.Models[0]
			s.Models[0].Running, s.Models[0].Waiting = 0, 2
			s.Requests = append(s.Requests, Request{ID: "req_9", Model: "m", Prefill: true, Prompt: 74_000})
		},
		"a module that was loaded anew": func(_, s *Sample) { s.Modules[0].Requests, s.Modules[0].CPU = 3, 10*time.Second },
		"a machine that is not known":   func(b, s *Sample) { b.Busy, s.Busy = 0, 0 },
	} {
		before, after := calm()
		plant(&before, &after)
		if d := Diagnose(before, after); d.Slow {
			t.Errorf("%s: %+v", name, d.Causes[0])
		}
	}
}

// TestPromptOfNoEngine: a prompt of a model that has no step loop here is not told of.
func TestPromptOfNoEngine(t *testing.T) {
	before, after := calm()
	after.Requests = append(after.Requests, Request{ID: "req_9", Model: "elsewhere", Prefill: true, Prompt: 74_000})
	if got := prompt(before, after); got.Weight != 0 || strings.Contains(got.Sentence, "req_9") {
		t.Errorf("%+v", got)
	}
}
