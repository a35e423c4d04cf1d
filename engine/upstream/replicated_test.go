package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// ownEngine answers every job at once.
type ownEngine struct{ jobs atomic.Int64 }

func (o *ownEngine) Submit(j *engine.Job, _ time.Time, taken func(*abi.Error)) {
	o.jobs.Add(1)
	j.Output.Push(abi.Event{Kind: abi.EventStart})
	j.Finished(engine.Result{})
	taken(nil)
}
func (*ownEngine) Step(time.Time) bool             { return false }
func (*ownEngine) NextDeadline() (time.Time, bool) { return time.Time{}, false }
func (*ownEngine) Release(engine.Handle)           {}
func (*ownEngine) Abort(*abi.Error)                {}
func (*ownEngine) Close()                          {}

// TestReplicatedModel: a job goes to the own engine or to another node, by its conversation; what that
// one does not answer the own engine does, once, as long as nothing was shown.
func TestReplicatedModel(t *testing.T) {
	faults := []fake.Fault{"", fake.DieBeforeHeaders, fake.DieAfterHeaders, fake.Full503, fake.Broken500, fake.Refuse400, fake.Refuse401}
	for _, fault := range faults {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", fault, stream), func(t *testing.T) { trySharing(t, fault, stream) })
		}
	}
}

func trySharing(t *testing.T, fault fake.Fault, stream bool) {
	node := start(t, wire.Corenode, func(int, []byte) fake.Script { return fake.Script{Text: []string{"from ", "afar"}, Fault: fault} })
	m := replicated(t)
	m.Follow([]string{node.URL})
	waitFor(t, "the other node", m.othersReady)
	own, l := &ownEngine{}, newLoop(t, m)
	s := m.NewReplicatedStepper(func() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}, own)
	l.stepper = s.Stepper
	const jobs = 40 // of 12 all go to the other node with one port in a thousand
	far := 0
	for i := range jobs {
		body := fmt.Sprintf(`{"model":"far","max_tokens":5,"stream":%v,"messages":[{"role":"user","content":"conversation %d"}]}`, stream, i)
		if got := runOne(t, l, s, fmt.Sprint("session ", i), body); got.refused != nil || got.result.Err != nil {
			t.Errorf("%+v", got)
		} else if got.result.Source.Replica != "" {
			far++
		}
	}
	mine, asked := int(own.jobs.Load()), len(node.Seen())
	if mine+far != jobs || mine == 0 || asked == 0 || (far == 0) != (fault != "") {
		t.Errorf("%d jobs by the own engine, %d by the other node, which was asked %d times", mine, far, asked)
	}
	if n := int(m.Counts().Attempts.Load()); fault == "" && n != far || n > asked {
		t.Errorf("%d attempts, and the other node was asked %d times, for %d jobs that it answered", n, asked, far)
	}
	for _, r := range m.Replicas() {
		if r.InFlight != 0 {
			t.Errorf("requests are counted that have ended: %+v", r)
		}
	}
}

// fullEngine takes no job.
type fullEngine struct{ ownEngine }

func (*fullEngine) Submit(_ *engine.Job, _ time.Time, taken func(*abi.Error)) {
	taken(&abi.Error{Kind: abi.Overloaded, Msg: "full"})
}

// TestTakenBackIsTold: what another node was asked and did not answer stands in the result of the own engine, with the time
// for which the job waited for it, and in its refusal.
func TestTakenBackIsTold(t *testing.T) {
	const body = `{"model":"far","max_tokens":5,"stream":%v,"messages":[{"role":"user","content":"conversation %d"}]}`
	for _, c := range []struct {
		stream bool
		own    Engine
		fault  fake.Fault
	}{
		{false, &ownEngine{}, fake.DieAfterHeaders},
		{true, &ownEngine{}, fake.DieAfterHeaders},
		{true, &fullEngine{}, fake.DieAfterHeaders}, // behind a promise
		{true, &fullEngine{}, fake.DieBeforeHeaders},
	} {
		const waited = 20 * time.Millisecond
		node := start(t, wire.Corenode, func(int, []byte) fake.Script {
			time.Sleep(waited)
			return fake.Script{Fault: c.fault}
		})
		m := replicated(t)
		m.Follow([]string{node.URL})
		waitFor(t, "the other node", m.othersReady)
		l := newLoop(t, m)
		s := m.NewReplicatedStepper(l.stepper.wake, c.own)
		l.stepper, l.trace = s.Stepper, engine.Trace{ID: [16]byte{1}, Record: true}
		for i := 0; len(node.Seen()) == 0; i++ { // until one is for the other node
			got := runOne(t, l, s, fmt.Sprint("session ", i), fmt.Sprintf(body, c.stream, i))
			if len(node.Seen()) == 0 {
				continue
			}
			all := attemptsOf(&got)
			if len(all) != 1 || all[0].Replica != node.URL || all[0].Failure == "" || got.refused == nil && got.result.Queue < waited {
				t.Errorf("%+v: attempts %+v, in the queue for %v", c, all, got.result.Queue)
			}
		}
	}
}

// failingEngine has a device that fails in the first step, once ready has returned.
type failingEngine struct {
	ownEngine
	ready func()
}

func (e *failingEngine) Step(time.Time) bool {
	e.ready()
	panic("device lost")
}

// TestFailureBesideAnAnswer: what another node has answered is kept, although the own engine fails before the step loop looks; what
// it has not, or gave back, ends with the failure.
func TestFailureBesideAnAnswer(t *testing.T) {
	failure := &abi.Error{Kind: abi.Internal, Msg: "device lost"}
	for _, c := range []struct {
		fault    fake.Fault
		finished bool // the relay, when the engine fails
		want     *abi.Error
	}{{"", true, nil}, {fake.DieAfterHeaders, true, failure}, {"", false, failure}} {
		gate := make(chan struct{})
		node := start(t, wire.Corenode, func(int, []byte) fake.Script {
			<-gate
			return fake.Script{Text: []string{"from ", "afar"}, Fault: c.fault}
		})
		m := replicated(t)
		m.Follow([]string{node.URL})
		waitFor(t, "the other node", m.othersReady)
		own := &failingEngine{}
		s := m.NewReplicatedStepper(func() {}, own)
		own.ready = func() {
			if c.finished {
				close(gate)
				waitFor(t, "its report", func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return len(s.reports) > 0
				})
			}
		}
		var ends []engine.Result
		afar(t, s).Finished = func(r engine.Result) { ends = append(ends, r) }
		mine := own.jobs.Load()
		func() {
			defer func() { _ = recover() }()
			s.Step(time.Now())
		}()
		s.Fail(failure)
		if len(ends) != 1 || ends[0].Err != c.want || (ends[0].Usage.Output > 0) != (c.want == nil) || own.jobs.Load() != mine {
			t.Errorf("%+v: it ended with %+v; the engine that failed got %d jobs", c, ends, own.jobs.Load()-mine)
		}
		if !c.finished {
			close(gate)
		}
	}
}

// lostEngine panics with a job once it is lost.
type lostEngine struct {
	ownEngine
	lost bool
}

func (e *lostEngine) Submit(j *engine.Job, now time.Time, taken func(*abi.Error)) {
	if e.lost {
		panic("device lost")
	}
	e.ownEngine.Submit(j, now, taken)
}

// TestFailureBeforeAnAnswer: what another node has answered is kept, although the step loop fails over a job in front of it.
func TestFailureBeforeAnAnswer(t *testing.T) {
	node := start(t, wire.Corenode, func(n int, _ []byte) fake.Script {
		return fake.Script{Text: []string{"from ", "afar"}, Fault: []fake.Fault{fake.DieAfterHeaders, ""}[n]}
	})
	m := replicated(t)
	m.Follow([]string{node.URL})
	waitFor(t, "the other node", m.othersReady)
	own := &lostEngine{}
	s := m.NewReplicatedStepper(func() {}, own)
	var ends []engine.Result
	for n := range 2 {
		j := afar(t, s)
		if n == 1 {
			j.Finished = func(r engine.Result) { ends = append(ends, r) }
		}
		waitFor(t, "its report", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.reports) > n
		})
	}
	own.lost = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the step loop has not failed: that tests nothing")
			}
		}()
		s.Step(time.Now())
	}()
	s.Fail(&abi.Error{Kind: abi.Internal, Msg: "device lost"})
	if len(ends) != 1 || ends[0].Err != nil || ends[0].Usage.Output == 0 {
		t.Errorf("it ended with %+v", ends)
	}
}

// afar submits jobs until one more has gone to the other node, and returns that one.
func afar(t *testing.T, s *ReplicatedStepper) *engine.Job {
	t.Helper()
	before := len(s.live)
	for i := range 100 {
		q, err := messages.Parse(fmt.Appendf(nil, `{"model":"far","max_tokens":5,"messages":[{"role":"user","content":"conversation %d"}]}`, i))
		if err != nil {
			t.Fatal(err)
		}
		r := &engine.Request{Model: "far", Counted: 7, MaxTokens: 5}
		r.Remote = s.model.Carry("acct", q, r)
		j := &engine.Job{ID: "req_1", Account: "acct", Session: fmt.Sprint("session ", i), Request: r, Output: engine.NewWholeOutput()}
		j.Finished = func(engine.Result) {}
		s.Submit(j, time.Now(), func(*abi.Error) {})
		if len(s.live) > before {
			return j
		}
	}
	t.Fatal("no job went to the other node")
	return nil
}

// queueingEngine lets every job wait.
type queueingEngine struct{ ownEngine }

func (q *queueingEngine) Submit(_ *engine.Job, _ time.Time, taken func(*abi.Error)) {
	q.jobs.Add(1)
	taken(nil)
}

// TestTakenBackWaits: a job that another node did not answer is seen to wait for its first step here, and at no server.
func TestTakenBackWaits(t *testing.T) {
	for _, at := range []int{0, 1} { // tokens that the other node has given
		node := start(t, wire.Corenode, func(int, []byte) fake.Script {
			return fake.Script{Text: []string{"a", "b"}, Fault: fake.DieBetweenEvents, At: at}
		})
		m := replicated(t)
		m.Follow([]string{node.URL})
		waitFor(t, "the other node", m.othersReady)
		own := &queueingEngine{}
		s := m.NewReplicatedStepper(func() {}, own)
		j := afar(t, s)
		mine := own.jobs.Load()
		waitFor(t, "the job to come back", func() bool {
			s.Step(time.Now())
			return own.jobs.Load() > mine
		})
		if p := j.Progress(); !p.Started.IsZero() || !p.First.IsZero() || p.Replica != "" {
			t.Errorf("behind %d tokens: %+v", at, p)
		}
	}
}

// TestNextTurnIsOwn: where the own engine took what another node failed to answer, the next turn is
// not sent to that one again.
func TestNextTurnIsOwn(t *testing.T) {
	for _, fault := range []fake.Fault{fake.Broken500, fake.Full503, fake.DieBetweenEvents, fake.Refuse401} {
		node := start(t, wire.Corenode, func(int, []byte) fake.Script { return fake.Script{Text: []string{"a"}, Fault: fault} })
		m := replicated(t)
		m.Follow([]string{node.URL})
		waitFor(t, "the other node", m.othersReady)
		own, l := &ownEngine{}, newLoop(t, m)
		s := m.NewReplicatedStepper(l.stepper.wake, own)
		l.stepper = s.Stepper
		first, turns, i := `{"role":"user","content":"conversation %d"}`, "", 0
		for ; len(node.Seen()) == 0 && i < 100; i++ { // until one is for the other node
			turns = fmt.Sprintf(first, i)
			runOne(t, l, s, fmt.Sprint("session ", i), fmt.Sprintf(`{"model":"far","max_tokens":5,"messages":[%s]}`, turns))
		}
		turns += `,{"role":"assistant","content":"a"},{"role":"user","content":"more"}`
		runOne(t, l, s, fmt.Sprint("session ", i-1), fmt.Sprintf(`{"model":"far","max_tokens":5,"messages":[%s]}`, turns))
		if asked := len(node.Seen()); asked != 1 || int(own.jobs.Load()) != i+1 {
			t.Errorf("%s: the node was asked %d times, the own engine had %d of %d", fault, asked, own.jobs.Load(), i+1)
		}
		if r := replicaOf(m, node.URL); r.Prefixes != 0 {
			t.Errorf("%s: %d prefixes are thought to lie there", fault, r.Prefixes)
		}
	}
}

// TestCallsOfAnotherNode: a call of another node is not held to its schema again, which has keywords that no grammar enforces.
// What is no object, or of no tool, is not taken from it: the own engine answers.
func TestCallsOfAnotherNode(t *testing.T) {
	const body = `{"model":"far","max_tokens":5,"messages":[{"role":"user","content":"conversation %d"}],` +
		`"tools":[{"name":"f","input_schema":{"properties":{"ids":{"uniqueItems":true}}}}]}`
	for call, passes := range map[fake.Call]bool{
		{Name: "f", Input: `{"ids":[3,3]}`}: true, {Name: "f", Input: `{"ids":[3`}: false, {Name: "f", Input: `[3]`}: false,
		{Name: "g", Input: `{}`}: false,
	} {
		node := start(t, wire.Corenode, func(int, []byte) fake.Script { return fake.Script{Calls: []fake.Call{call}} })
		m := replicated(t)
		m.Follow([]string{node.URL})
		waitFor(t, "the other node", m.othersReady)
		l := newLoop(t, m)
		s := m.NewReplicatedStepper(l.stepper.wake, &ownEngine{})
		l.stepper = s.Stepper
		var got told
		for i := 0; len(node.Seen()) == 0 && i < 100; i++ { // until one is for the other node
			got = runOne(t, l, s, fmt.Sprint("session ", i), fmt.Sprintf(body, i))
		}
		invalid, far := m.Counts().InvalidCalls.Load(), got.result.Source.Replica != ""
		if len(node.Seen()) != 1 || got.result.Err != nil || far != passes || (invalid == 0) != passes {
			t.Errorf("%+v: asked %d times, it answered %v, ended with %v, %d calls are counted", call, len(node.Seen()), far,
				got.result.Err, invalid)
		}
	}
}

// TestOwnEngineStays: the own engine of a replicated model is not removed, and one that was drained is
// so behind a step loop that began anew.
func TestOwnEngineStays(t *testing.T) {
	m := replicated(t)
	if err := m.Drain("http://own", true); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("http://own/"); !errors.Is(err, ErrOwn) {
		t.Errorf("removed with %v", err)
	}
	m.NewReplicatedStepper(func() {}, &ownEngine{})
	if all := m.Replicas(); len(all) != 1 || !all[0].Draining || !all[0].Ready {
		t.Errorf("%+v", all)
	}
	if err := m.Add("http://own"); err != nil || m.Replicas()[0].Draining {
		t.Errorf("%v, %+v", err, m.Replicas())
	}
}

// TestOwnEngineBeginsAnew: what an engine had that is gone is neither counted nor thought to lie in the next one.
func TestOwnEngineBeginsAnew(t *testing.T) {
	m := replicated(t)
	for range 3 {
		m.choose(wish{key: route.Key{Prefixes: []uint64{1, 2}}})
	}
	if own := m.Replicas()[0]; own.InFlight != 3 || own.Prefixes != 2 {
		t.Fatalf("%+v: the test sees nothing", own)
	}
	m.NewReplicatedStepper(func() {}, &ownEngine{})
	if own := m.Replicas()[0]; own.InFlight != 0 || own.Prefixes != 0 {
		t.Errorf("%+v", own)
	}
}

// replicated is a model that an own engine has, too.
func replicated(t *testing.T) *Model {
	t.Helper()
	m, err := Open(Options{Info: engine.Info{ID: "far", ContextLength: 1000, OutputMax: 1000}, Own: "http://own", Counter: counter{},
		Secret: []byte("secret"), ProbeEvery: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// counter counts every prompt alike.
type counter struct{}

func (counter) Count(*messages.Request) (int, error) { return 7, nil }

// runOne takes one job to its end, which must come once.
func runOne(t *testing.T, l *loop, s *ReplicatedStepper, session, body string) told {
	t.Helper()
	q, err := messages.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r := &engine.Request{Model: "far", Stream: q.Stream, Counted: 7, MaxTokens: 5, Trace: l.trace}
	if r.Remote = l.m.Carry("acct", q, r); r.Remote == nil {
		t.Fatal("it cannot go to another node")
	}
	j := &engine.Job{ID: "req_1", Account: "acct", Session: session, Request: r, Output: engine.NewWholeOutput()}
	var got told
	ends, answers := 0, 0
	j.Finished = func(r engine.Result) { got.result, ends = r, ends+1 }
	s.Submit(j, time.Now(), func(err *abi.Error) { got.refused, answers = err, answers+1 })
	l.until(func() bool { return ends > 0 || got.refused != nil })
	s.Step(time.Now())
	if ends+boolInt(got.refused != nil) != 1 || answers != 1 {
		t.Errorf("it ended %d times, and %d times it was said whether it was taken", ends, answers)
	}
	return got
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
