package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"corenode/engine/kernel"
	"corenode/engine/sample"
	"corenode/wasm/abi"
)

// restless is a model that now and then is sure of a token: one that begins a call, or one that
// ends the answer.
type restless struct {
	Forwarder
	marker, stop int32
}

func (f restless) Forward(step *kernel.Step, tokens []int32, c kernel.Cache, rows []int32, logits [][]float32) error {
	if err := f.Forwarder.Forward(step, tokens, c, rows, logits); err != nil {
		return err
	}
	for i, row := range rows {
		switch h := mix(uint64(tokens[row]), uint64(position(step, int(row)))) % 40; {
		case tokens[row] == f.marker && h%2 == 0: // the two that cannot come here
			logits[i][f.stop] += 1000
		case tokens[row] == f.marker:
			logits[i][f.marker] += 1000
		case h < 3 && f.marker >= 0:
			logits[i][f.marker] += 1000
		case h == 3:
			logits[i][f.stop] += 1000
		}
	}
	return nil
}

// position is where a row of a step is in its sequence.
func position(step *kernel.Step, row int) int {
	for _, sp := range step.Spans {
		if row < sp.Row+sp.Len {
			return sp.Pos + row - sp.Row
		}
	}
	return -1
}

// variety are requests of all kinds for a model.
func variety(t testing.TB, e *Engine) (all []*Request) {
	t.Helper()
	const plain = `"messages":[{"role":"user","content":"Say something."}]`
	for i, more := range []string{
		``, orderTools, orderTools + `,"tool_choice":{"type":"any"}`, `"min_tokens":20,"stop_sequences":["e"]`, orderTools + `,"min_tokens":30`,
		`"output_config":{"format":{"type":"json_schema","schema":` + order + `}}`, `"stop_sequences":["ou"]`, `"ignore_eos":true`,
		orderTools + `,"ignore_eos":true`, orderTools + `,"tool_choice":{"type":"none"}`, orderTools + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`,
	} {
		for k := range 2 {
			body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"seed":%d,%s`, 30+20*k+i, 7*i+k, plain)
			if k == 0 {
				body += `,"thinking":{"type":"disabled"}`
			}
			if more != "" {
				body += "," + more
			}
			r := ask(t, e, body+"}")
			r.Sampling = samplers[(2*i+k)%len(samplers)]
			r.Sampling.Seed = uint64(11*i + k)
			r.Distinct = sample.Distinct(r.Prompt)
			if i%2 == 0 {
				r.Thinking = ThinkingBound{Max: 3 + i, End: e.tokenizer.EncodePrompt(nil, "\n</think>")}
			}
			all = append(all, r)
		}
	}
	return all
}

// spoken is an answer in a form that can be compared. The ids of its calls are by chance.
func spoken(a *answer, r *run) string {
	for i := range a.events {
		a.events[i].ID = ""
	}
	return fmt.Sprint(r.seq.Tokens[r.seq.Prompt:], r.sampled[len(r.sampled)-1], a.events, a.result.Usage, a.result.Stop, a.result.Err)
}

// shuffled asks all requests in an order, and between steps, that a seed says.
func shuffled(t testing.TB, s *Stepper, all []*Request, seed uint64) []string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	answers, runs := make([]*answer, len(all)), make([]*run, len(all))
	for n, at := range rng.Perm(len(all)) {
		_, answers[at] = submit(t, s, fmt.Sprint("account", seed, at), all[at])
		runs[at] = s.order[len(s.order)-1]
		for range rng.IntN(1 + n) {
			s.Step(time.Now())
		}
	}
	runAll(t, s)
	out := make([]string, len(all))
	for i, a := range answers {
		if a.finished != 1 {
			t.Fatalf("answer %d finished %d times", i, a.finished)
		}
		checkStream(t, a.events)
		out[i] = spoken(a, runs[i])
	}
	return out
}

// inPairs asks requests two by two.
func inPairs(t testing.TB, s *Stepper, all []*Request) (out []string) {
	for i := 0; i < len(all); i += 2 {
		out = append(out, shuffled(t, s, all[i:i+2], uint64(1000+i))...)
	}
	return out
}

// unrest makes an engine and a stepper with a restless model.
func unrest(t testing.TB, o Options) (*Engine, *Stepper) {
	e, s := open2(t, o)
	model := e.forwarder
	t.Cleanup(func() { e.forwarder = model }) // it is closed with the engine
	e.forwarder = restless{model, e.format.marker, e.tokenizer.Stops()[0]}
	return e, s
}

// TestDeviceAnswersAsTheHost: whatever is asked, and whenever a device computes what it was given,
// its answers are those of the host to the last token, event and bill.
func TestDeviceAnswersAsTheHost(t *testing.T) {
	for name, data := range vocabularies() {
		if testing.Short() && name == "no token" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			o := setup{}.options()
			o.Data, o.Info.ContextLength, o.Batch.SequencesMax = data, 1024, 8
			e, s := unrest(t, o)
			all := variety(t, e)
			want := shuffled(t, s, all, 1)
			for seed := range uint64(3) {
				if testing.Short() && seed < 2 {
					continue
				}
				o.Draft = seed == 2
				e, s := unrest(t, o)
				d := onDevice(t, e, s, seed)
				if o.Draft {
					s.sched.AssumeSteps(func(int) float64 { return 1 })
				}
				all := variety(t, e)
				for i, got := range append(shuffled(t, s, all, seed), inPairs(t, s, all)...) {
					if want := want[i%len(all)]; got != want {
						t.Errorf("seed %d, answer %d:\n%.2000s\nwant\n%.2000s", seed, i, got, want)
					}
				}
				t.Logf("%d steps, %d following; %d rows, %d drawn by the host, %d held, %d behind a trigger, %d closed, %d of drafts",
					d.launches, d.followed, d.rows, d.hosted, d.held, d.triggered, d.closed, d.drafted)
				tokens := e.format.marker >= 0 // else what begins a call is the host's to see, and so are most drafts
				if d.followed == 0 || d.held == 0 || d.closed == 0 || (d.triggered > 0) != tokens ||
					d.drafted > 0 && !o.Draft || d.drafted == 0 && o.Draft && tokens {
					t.Error("not all that a device does was tested")
				}
			}
		})
	}
}

// TestLeastTokensOnADevice: a model that would end at once ends right behind the least tokens asked for.
func TestLeastTokensOnADevice(t *testing.T) {
	for least := 1; least < 5; least++ {
		e, s := open2(t, options(Instant))
		e.forwarder = likes{Forwarder: e.forwarder, first: s.stops[0], then: 7}
		d := newDevice(t, e.forwarder, e.vocab, 0)
		s.program, s.device = d, true
		r := ask(t, e, `{"model":"m","max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"x"}]}`)
		r.MinTokens = least
		_, a := submit(t, s, "a", r)
		runAll(t, s)
		if got := a.result.Usage.Output; got != int64(least)+1 || d.followed == 0 {
			t.Errorf("%d tokens of at least %d, and the end; %d steps follow", got, least, d.followed)
		}
	}
}

// programmed is a model with a program. Its first device fails at the third step.
type programmed struct {
	Forwarder
	t       testing.TB
	devices []*device
}

type failing struct {
	*device
	steps int
}

var errDevice = errors.New("an illegal access")

func (p *programmed) Program() (kernel.Program, error) {
	d := newDevice(p.t, p.Forwarder, 512, 0)
	if p.devices = append(p.devices, d); len(p.devices) == 1 {
		return &failing{device: d}, nil
	}
	return d, nil
}

func (f *failing) Collect(out *kernel.Output) error {
	if f.steps++; f.steps == 3 {
		return errDevice
	}
	return f.device.Collect(out)
}

// TestDeviceFails: a step that fails is a panic that says why, also with a step behind it on its
// way, and the program of the next step loop is a new one.
func TestDeviceFails(t *testing.T) {
	e, err := Open(options(Instant))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	first := ask(t, e, body)
	model := &programmed{Forwarder: likes{Forwarder: e.forwarder, first: 7, then: 8}, t: t}
	e.forwarder = model
	for n := range 2 {
		s, err := e.NewStepper()
		if err != nil {
			t.Fatal(err)
		}
		_, a := submit(t, s, "a", first)
		var failed any
		func() {
			defer func() { failed = recover() }()
			runAll(t, s)
		}()
		s.Close()
		if err, _ := failed.(error); errors.Is(err, errDevice) != (n == 0) || (a.finished == 1) != (n == 1) {
			t.Errorf("step loop %d: %v, the job finished %d times", n, failed, a.finished)
		}
		if len(model.devices) != n+1 || model.devices[n].followed == 0 {
			t.Errorf("%d devices after %d step loops, %d steps follow", len(model.devices), n+1, model.devices[n].followed)
		}
	}
}

// gated is a stepper whose device computes a step for each value of the gate.
func gated(t *testing.T) (*Engine, *Stepper, *device) {
	o := setup{model: "tiny-qwen3-f16"}.options()
	e, s := open2(t, o)
	d := onDevice(t, e, s, 0)
	d.gate = make(chan struct{}, 100)
	return e, s, d
}

// step fails a test whose step waits for what does not come.
func (d *device) step(s *Stepper) {
	d.Helper()
	done := make(chan bool)
	go func() { done <- s.Step(time.Now()) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		d.Fatal("a step waits for one behind it")
	}
}

const long = `{"model":"m","max_tokens":40,"temperature":1,"ignore_eos":true,"messages":[{"role":"user","content":"Say something."}]}`

// TestEventsLeaveBeforeTheNextStep: the step behind is launched before a step is collected, and
// what that gave is with its reader before anyone waits for the one behind.
func TestEventsLeaveBeforeTheNextStep(t *testing.T) {
	e, s, d := gated(t)
	j, a := submit(t, s, "a", ask(t, e, long))
	d.gate <- struct{}{}
	d.step(s) // the prompt
	for n := 2; n < 40; n++ {
		d.gate <- struct{}{}
		if d.step(s); len(s.open) != 1 || d.launches != n+1 {
			t.Fatalf("%d steps are on their way after %d, %d were launched", len(s.open), n, d.launches)
		}
		if got := j.Observed().Output; got != int64(n) {
			t.Fatalf("%d tokens after %d steps", got, n)
		}
		if n%3 == 0 {
			a.events = j.Output.Drain(a.events)
		}
	}
	d.gate <- struct{}{}
	if d.step(s); len(s.open) != 0 || a.finished != 1 || a.result.Usage.Output != 40 {
		t.Errorf("%d steps are on their way behind the last: %+v", len(s.open), a.result)
	}
	checkStream(t, a.events)
	if text(a.events) == "" {
		t.Error("no text came")
	}
}

// TestCancelWithAStepOnItsWay: the client is told at once, and the pages stay until the step that
// writes to them is done. The others go on.
func TestCancelWithAStepOnItsWay(t *testing.T) {
	e, s, d := gated(t)
	ended := make(chan Result, 1)
	j := &Job{ID: "r", Account: "a", Request: ask(t, e, long), Output: NewOutput(100), Finished: func(r Result) { ended <- r }}
	if err := s.submit(j, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, b := submit(t, s, "b", ask(t, e, long))
	for range 4 {
		d.gate <- struct{}{}
		d.step(s)
	}
	if len(s.open) != 1 {
		t.Fatalf("%d steps are on their way", len(s.open))
	}
	owned := s.pool.Stats().PagesOwned
	j.Cancel()
	done := make(chan struct{})
	go func() { s.Step(time.Now()); close(done) }()
	var result Result
	select {
	case result = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the client is not told")
	}
	d.gate <- struct{}{}
	<-done
	if got := s.pool.Stats().PagesOwned; got >= owned || s.pool.Stats().Tables != 1 {
		t.Errorf("%d pages are owned after the step, %d before, %+v", got, owned, s.pool.Stats())
	}
	close(d.gate)
	runAll(t, s)
	if events := j.Output.Drain(nil); result.Err == nil || len(events) == 0 || events[len(events)-1].Kind != abi.EventError ||
		b.finished != 1 || b.result.Usage.Output != 40 {
		t.Errorf("canceled: %+v, the other: %+v", result, b.result)
	}
}

// deviceStorm throws cancellations, readers that stall, and more than the memory holds at a device.
type deviceStorm struct {
	*device
	s     *Stepper
	rng   *rand.Rand
	now   time.Time
	live  []*stormJob
	runs  map[*Job]*run
	told  map[*Request]string // the answers that the host gives
	ended map[bool]int        // complete or not
}

func newDeviceStorm(t *testing.T, seed uint64) (*deviceStorm, []*Request) {
	o := setup{model: "tiny-qwen3-f16", sequences: 4, stepTokens: 160, chunk: 64}.options()
	o.Info.ContextLength = 400
	host, hosts := open2(t, o)
	st := &deviceStorm{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), runs: map[*Job]*run{}, told: map[*Request]string{},
		ended: map[bool]int{}}
	var all []*Request
	for i := range 6 {
		r := ask(t, host, fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"seed":%d,"stop_sequences":["ee"],"system":"%s","messages":[{"role":"user","content":"%d %s"}]}`,
			20+st.rng.IntN(120), i, words(5+10*(i/2)), i, words(st.rng.IntN(40))))
		submit(t, hosts, fmt.Sprint(i), r)
		run := hosts.order[0]
		runAll(t, hosts)
		all, st.told[r] = append(all, r), fmt.Sprint(run.seq.Tokens, run.sampled)
	}
	o.Cache.Bytes = 26 * host.memory.pageBytes
	o.Batch.PauseAfter, o.Batch.CancelAfter = time.Second, 4*time.Second
	e, s := open2(t, o)
	st.s, st.device = s, onDevice(t, e, s, seed)
	return st, all
}

// act does one random thing.
func (st *deviceStorm) act(all []*Request) {
	switch n := st.rng.IntN(100); {
	case n < 8 && len(st.live) < 10:
		j := &stormJob{idle: st.rng.IntN(8) == 0}
		j.Job = &Job{ID: "r", Account: fmt.Sprint(st.rng.IntN(3)), Request: all[st.rng.IntN(len(all))],
			Output: NewOutput(20 + st.rng.IntN(20))}
		j.Finished = func(r Result) { j.finished, j.result = j.finished+1, r }
		if err := st.s.submit(j.Job, st.now); err == nil {
			st.live, st.runs[j.Job] = append(st.live, j), st.s.order[len(st.s.order)-1]
		}
	case n < 10 && len(st.live) > 0:
		st.live[st.rng.IntN(len(st.live))].Cancel()
	case n < 80:
		st.drain()
	default:
		st.now = st.now.Add(time.Duration(st.rng.IntN(200)) * time.Millisecond)
	}
}

func (st *deviceStorm) drain() {
	for _, j := range st.live {
		if !j.idle {
			j.events = j.Output.Drain(j.events)
		}
	}
}

// step runs the stepper once and checks all books, and the answers that have ended.
func (st *deviceStorm) step() {
	st.s.Step(st.now)
	if err := st.s.sched.Check(); err != nil {
		st.Fatal(err)
	}
	written := map[int32]bool{}
	for _, cells := range st.open {
		for _, at := range cells {
			written[at.page] = true
		}
	}
	if owned := st.s.pool.Stats().PagesOwned; len(written) > owned {
		st.Fatalf("steps on their way write to %d pages, %d are owned", len(written), owned)
	}
	st.live = slices.DeleteFunc(st.live, func(j *stormJob) bool {
		if j.finished == 0 {
			return false
		}
		r := st.runs[j.Job]
		if got := fmt.Sprint(r.seq.Tokens, r.sampled); j.result.Err == nil && got != st.told[j.Request] {
			st.Errorf("an answer is\n%s\nthe host's\n%s", got, st.told[j.Request])
		}
		checkStream(st, j.Output.Drain(j.events))
		st.ended[j.result.Err == nil]++
		return true
	})
}

// TestDeviceStorm: with steps on their way sequences are canceled, preempted and paused, no page is
// given away that a step will write to, and the answers are those of the host.
func TestDeviceStorm(t *testing.T) {
	var preempted, paused int64
	for seed := range uint64(3) {
		if testing.Short() && seed == 1 {
			break
		}
		st, all := newDeviceStorm(t, seed)
		for range 2500 {
			st.act(all)
			st.step()
			paused += int64(st.s.sched.Stats().Paused)
		}
		for i := 0; len(st.live)+len(st.s.open) > 0; i++ {
			for _, j := range st.live {
				j.idle = false
			}
			st.drain()
			st.step()
			if i > 10000 {
				t.Fatalf("%d answers do not end", len(st.live))
			}
		}
		if p := st.s.pool.Stats(); p.PagesOwned != 0 || p.Tables != 0 {
			t.Errorf("after all has ended: %+v", p)
		}
		preempted += st.s.sched.Stats().Preempted
		t.Logf("seed %d: %d steps, %d following, ended %v, %d preemptions", seed, st.launches, st.followed, st.ended, st.s.sched.Stats().Preempted)
		if st.followed < st.launches/30 || st.ended[true] < 10 || st.ended[false] < 5 {
			t.Error("the storm was a calm")
		}
	}
	if preempted == 0 || paused == 0 {
		t.Errorf("%d preemptions, %d steps with a paused sequence", preempted, paused)
	}
}

// TestIdleKeepsNothingOfItsRuns: what ended is in nobody's hands once there is nothing to do, not in what the next steps use again.
func TestIdleKeepsNothingOfItsRuns(t *testing.T) {
	e, s := open2(t, setup{model: "tiny-qwen3-f16"}.options())
	d := onDevice(t, e, s, 0)
	var runs []weak.Pointer[run]
	var prompts []weak.Pointer[int32]
	for _, r := range variety(t, e) {
		submit(t, s, "a", r)
		prompts = append(prompts, weak.Make(&r.Distinct[0]))
	}
	for _, r := range s.order {
		runs = append(runs, weak.Make(r))
	}
	runAll(t, s)
	if d.rows == 0 || d.held == 0 {
		t.Fatalf("%d rows are drawn by the device, %d of them by a grammar: the test sees nothing", d.rows, d.held)
	}
	runtime.GC()
	for i := range runs {
		if runs[i].Value() != nil || prompts[i].Value() != nil {
			t.Errorf("request %d is in memory still: its run %v, its prompt %v", i, runs[i].Value() != nil, prompts[i].Value() != nil)
		}
	}
	runtime.KeepAlive(s)
}
