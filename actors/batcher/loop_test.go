package batcher

import (
	"reflect"
	"testing"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// asked is a ticket that somebody waits for.
type asked struct {
	nobody
	job engine.Job
}

func (a *asked) Job() *engine.Job { return &a.job }
func (a *asked) Gone() bool       { return false }

// failingStepper panics in its first step. By then a server elsewhere has answered its first job.
type failingStepper struct{ jobs []*engine.Job }

func (s *failingStepper) Submit(j *engine.Job, _ time.Time, taken func(*abi.Error)) {
	s.jobs = append(s.jobs, j)
	taken(nil)
}
func (*failingStepper) Step(time.Time) bool             { panic("device lost") }
func (*failingStepper) NextDeadline() (time.Time, bool) { return time.Time{}, false }
func (*failingStepper) Release(engine.Handle)           {}
func (*failingStepper) Abort(*abi.Error)                {}
func (*failingStepper) Close()                          { panic("again") }

func (s *failingStepper) Fail(*abi.Error) {
	s.jobs[0].Finished(engine.Result{Usage: abi.Usage{Output: 2}})
	panic("again")
}

// TestFailureBesideAnAnswer: of a loop that panics a job that is answered ends as it did, and any other with the failure, once each.
func TestFailureBesideAnAnswer(t *testing.T) {
	u := NewUnit(Config{New: func(func()) (Stepper, error) { return &failingStepper{}, nil }, InboxMax: 2})
	var ends [2][]engine.Result
	for i := range ends {
		a := &asked{}
		a.job.Output = engine.NewWholeOutput()
		a.job.Finished = func(r engine.Result) { ends[i] = append(ends[i], r) }
		u.inbox.put(control{ticket: a})
	}
	l := &loop{unit: u, live: map[*engine.Job]Ticket{}}
	if reason := l.run(); reason == "" {
		t.Error("it did not fail")
	}
	if done, failed := ends[0], ends[1]; len(done) != 1 || done[0].Err != nil || done[0].Usage.Output != 2 ||
		len(failed) != 1 || failed[0].Err == nil || u.live.Load() != 0 {
		t.Errorf("the jobs ended with %+v and %+v; %d live", done, failed, u.live.Load())
	}
}

// endedStepper panics in its first step, behind the last event of its jobs: of the first an answer's end, of the second an error.
type endedStepper struct{ failingStepper }

func (s *endedStepper) Step(now time.Time) bool {
	s.jobs[0].Output.Push(abi.Event{Kind: abi.EventEnd, Stop: abi.StopMaxTokens, Usage: abi.Usage{Output: 2}})
	s.jobs[1].Output.Push(abi.Event{Kind: abi.EventError, Err: errSlow})
	return s.failingStepper.Step(now)
}
func (*endedStepper) Fail(*abi.Error) {}

var errSlow = &abi.Error{Kind: abi.Canceled, Msg: "the client did not read its answer"}

// TestFailureBehindTheLastEvent: a job whose last event its stepper has pushed ends as that says, and nothing follows it.
func TestFailureBehindTheLastEvent(t *testing.T) {
	u := NewUnit(Config{New: func(func()) (Stepper, error) { return &endedStepper{}, nil }, InboxMax: 3})
	var jobs [3]asked
	var ends [3][]engine.Result
	for i := range jobs {
		jobs[i].job.Output = engine.NewOutput(8)
		jobs[i].job.Finished = func(r engine.Result) { ends[i] = append(ends[i], r) }
		u.inbox.put(control{ticket: &jobs[i]})
	}
	l := &loop{unit: u, live: map[*engine.Job]Ticket{}}
	if reason := l.run(); reason == "" {
		t.Error("it did not fail")
	}
	want := [3]engine.Result{{Usage: abi.Usage{Output: 2}, Stop: abi.StopMaxTokens}, {Err: errSlow}, {Err: errCrashed()}}
	for i := range jobs {
		events := jobs[i].job.Output.Drain(nil)
		if !reflect.DeepEqual(ends[i], want[i:i+1]) || len(events) != 1 || (events[0].Kind == abi.EventEnd) != (want[i].Err == nil) {
			t.Errorf("job %d ended with %+v, want %+v; its events are %+v", i, ends[i], want[i], events)
		}
	}
}

// brokenStepper panics with the first job that it is given.
type brokenStepper struct {
	failingStepper
	closes *int
}

func (brokenStepper) Submit(*engine.Job, time.Time, func(*abi.Error)) { panic("no memory") }
func (s brokenStepper) Close()                                        { *s.closes++ }

// TestFailureBeforeTheJobs: of a loop that panics with a job in hand that one is refused, and so are those that came with it. Its
// stepper is closed, once.
func TestFailureBeforeTheJobs(t *testing.T) {
	closes := 0
	u := NewUnit(Config{New: func(func()) (Stepper, error) { return &brokenStepper{closes: &closes}, nil }, InboxMax: 3})
	var jobs [3]asked
	for i := range jobs {
		jobs[i].job.Output = engine.NewWholeOutput()
		jobs[i].job.Finished = func(engine.Result) { t.Errorf("job %d ended", i) }
		u.inbox.put(control{ticket: &jobs[i]})
	}
	l := &loop{unit: u, live: map[*engine.Job]Ticket{}}
	if reason := l.run(); reason == "" {
		t.Error("it did not fail")
	}
	for i := range jobs {
		if jobs[i].refused == nil {
			t.Errorf("job %d has no answer", i)
		}
	}
	if closes != 1 || u.live.Load() != 0 {
		t.Errorf("closed %d times, %d live", closes, u.live.Load())
	}
}

// TestUnitThatIsGivenUp: who waits for the next loop is told that there is none.
func TestUnitThatIsGivenUp(t *testing.T) {
	u := NewUnit(Config{InboxMax: 2})
	var jobs [2]asked
	lost := 0
	for i := range jobs {
		u.inbox.put(control{ticket: &jobs[i]})
		u.inbox.put(control{visit: &Visit{Lost: func() { lost++ }}})
	}
	why := errDown("core")
	u.close(why)
	if jobs[0].refused != why || jobs[1].refused != why || lost != 2 {
		t.Errorf("refused with %v and %v, %d visits lost", jobs[0].refused, jobs[1].refused, lost)
	}
}
