package engine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/messages"
	"corenode/engine/sample"
	"corenode/engine/template"
	"corenode/wasm/abi"
)

// noise is a hybrid mixture of experts with random weights: its text has no end
// and every byte of it is likely, so little stays untried.
var noise = sync.OnceValue(func() []byte {
	data, err := os.ReadFile("model/testdata/parity/tiny-qwen35moe-f16.gguf")
	if err != nil {
		panic(err)
	}
	return data
})

// options of a small engine on a model whose text is noise.
func options(kind Kind) Options {
	return Options{
		Info: Info{ID: "m", ContextLength: 32768}, Kind: kind, Data: noise(), Template: template.Builtin,
		Defaults: func(string, bool) sample.Params { return sample.Params{Temperature: 1, TopP: 0.95, TopK: 20} },
		Cache:    CacheOptions{PageTokens: 16, Bytes: 64 << 20, StateBytes: 64 << 20, PinBytesMax: 8 << 20},
		Batch: BatchOptions{StepTokensMax: 512, SequencesMax: 8, ChunkTokens: 128, QueueMax: 32,
			QueueTimeout: time.Minute, PauseAfter: 30 * time.Second, CancelAfter: 5 * time.Minute},
	}
}

// Open loads a model that has its device to itself.
func Open(o Options) (*Engine, error) {
	e, err := Load(o)
	if err != nil {
		return nil, err
	}
	if err := Divide(e); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func open2(t testing.TB, o Options) (*Engine, *Stepper) {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.NewStepper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); e.Close() })
	return e, s
}

// ask prepares a body; tests name bodies that are valid.
func ask(t testing.TB, e *Engine, body string) *Request {
	t.Helper()
	q, err := messages.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Prepare("acct", q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answer is what one job gave.
type answer struct {
	events   []abi.Event
	result   Result
	finished int
}

// submit hands a job to the stepper and collects what it gives.
func submit(t testing.TB, s *Stepper, account string, r *Request) (*Job, *answer) {
	t.Helper()
	return submitAs(t, s, "r", account, r)
}

func submitAs(t testing.TB, s *Stepper, id, account string, r *Request) (*Job, *answer) {
	t.Helper()
	return submitJob(t, s, &Job{ID: id, Account: account, Request: r, Pin: true})
}

// submitJob gives a job its output and takes its result.
func submitJob(t testing.TB, s *Stepper, j *Job) (*Job, *answer) {
	t.Helper()
	a := &answer{}
	j.Output = NewOutput(1 << 20)
	j.Finished = func(res Result) { a.result, a.finished = res, a.finished+1; a.events = j.Output.Drain(a.events) }
	if err := s.submit(j, time.Now()); err != nil {
		t.Fatal(err)
	}
	return j, a
}

// runAll steps to the end. It checks the pool at every eighth step: of long answers the checks would take longer than the answers.
func runAll(t testing.TB, s *Stepper) {
	t.Helper()
	for steps, more := 0, true; more; steps++ {
		more = s.Step(time.Now())
		if steps%8 == 0 || !more {
			if err := s.pool.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if steps > 100000 {
			t.Fatal("the stepper does not come to an end")
		}
	}
}

// checkStream verifies the order of events: start, blocks one after the other, end.
func checkStream(t testing.TB, events []abi.Event) {
	t.Helper()
	if len(events) < 2 || events[0].Kind != abi.EventStart {
		t.Fatalf("stream starts with %+v", events)
	}
	index, open := int32(0), false
	for i, ev := range events[1:] {
		last := i == len(events)-2
		switch ev.Kind {
		case abi.EventBlockStart:
			if open || ev.Index != index {
				t.Fatalf("block %d starts while open=%v, next index %d", ev.Index, open, index)
			}
			open = true
		case abi.EventDelta:
			if !open || ev.Index != index || ev.Text == "" {
				t.Fatalf("delta %+v while open=%v, index %d", ev, open, index)
			}
		case abi.EventBlockStop:
			if !open || ev.Index != index {
				t.Fatalf("stop %+v while open=%v, index %d", ev, open, index)
			}
			open = false
			index++
		case abi.EventEnd, abi.EventError:
			if !last || ev.Kind == abi.EventEnd && open {
				t.Fatalf("event %d of %d ends the stream, block open=%v", i, len(events), open)
			}
		}
		if last && ev.Kind != abi.EventEnd && ev.Kind != abi.EventError {
			t.Fatalf("stream ends with %+v", ev)
		}
	}
}

const body = `{"model":"m","max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"The quick brown fox jumps over the lazy dog; the dog does not mind."}]}`

func TestAnswer(t *testing.T) {
	for _, kind := range []Kind{CPU, Instant} {
		t.Run(string(kind), func(t *testing.T) {
			e, s := open2(t, options(kind))
			r := ask(t, e, body)
			_, a := submit(t, s, "acct", r)
			runAll(t, s)
			if a.finished != 1 {
				t.Fatalf("Finished called %d times", a.finished)
			}
			checkStream(t, a.events)
			u := a.result.Usage
			if u.InputUncached != int64(len(r.Prompt)) || u.Output != 20 || a.result.Stop != abi.StopMaxTokens {
				t.Errorf("result %+v for a prompt of %d", a.result, len(r.Prompt))
			}
			if a.events[1].Block != abi.BlockThinking {
				t.Errorf("first block is %+v, want thinking", a.events[1])
			}
		})
	}
}

// TestSecondTurnHitsTheCache also checks that no other account does.
func TestSecondTurnHitsTheCache(t *testing.T) {
	e, s := open2(t, options(CPU))
	long := `{"model":"m","max_tokens":4,"temperature":0,"system":"` + words(400) + `","messages":[{"role":"user","content":"hi"}`
	first := ask(t, e, long+`]}`)
	_, a := submit(t, s, "a", first)
	runAll(t, s)
	second := ask(t, e, long+`,{"role":"assistant","content":"hello"},{"role":"user","content":"and?"}]}`)
	_, b := submit(t, s, "a", second)
	_, other := submit(t, s, "b", second)
	runAll(t, s)
	if a.result.Usage.CacheRead != 0 || other.result.Usage.CacheRead != 0 {
		t.Errorf("cached %d at first, %d for another account; want 0", a.result.Usage.CacheRead, other.result.Usage.CacheRead)
	}
	if got, want := b.result.Usage.CacheRead, int64(len(first.Prompt)*9/10); got < want {
		t.Errorf("turn 2 read %d cached tokens of a first prompt of %d", got, len(first.Prompt))
	}
	if got := b.result.Usage.Input(); got != int64(len(second.Prompt)) {
		t.Errorf("usage sums to %d input tokens, the prompt has %d", got, len(second.Prompt))
	}
	if text(b.events) != text(other.events) {
		t.Errorf("with the cache %q, without %q", text(b.events), text(other.events))
	}
}

func words(n int) string {
	w := []string{"request", "reads", "the", "prefix", "and", "server", "tokens", "splits"}
	s := ""
	for i := range n {
		s += w[(i*i+i/7)%len(w)] + " "
	}
	return s
}

func text(events []abi.Event) (s string) {
	for _, e := range events {
		s += e.Text
	}
	return s
}

// TestSameSeedSameTokensInAnyBatch samples at a temperature, alone, in company
// of other requests, and with another seed.
func TestSameSeedSameTokensInAnyBatch(t *testing.T) {
	e, s := open2(t, options(CPU))
	sampled := func(more string) string {
		return `{"model":"m","max_tokens":30,"temperature":1.5,` + more + `"messages":[{"role":"user","content":"In the morning there were nine of them"}]}`
	}
	distinct := map[string]bool{}
	for i, more := range []string{
		`"seed":7,`, `"seed":8,`, `"seed":-7,`, `"seed":9223372036854775807,`, `"seed":7,"min_p":0.2,"top_k":0,"top_p":1,`,
		`"seed":7,"presence_penalty":2,"frequency_penalty":1.5,`, `"seed":7,"frequency_penalty":-2,`, `"seed":7,"repetition_penalty":1.5,`,
	} {
		_, alone := submit(t, s, fmt.Sprint("alone", i), ask(t, e, sampled(more)))
		runAll(t, s)
		for n := range 3 { // some are decoding already
			submit(t, s, fmt.Sprint("before", i, n), ask(t, e, sampled(``)))
		}
		s.Step(time.Now())
		_, again := submit(t, s, fmt.Sprint("again", i), ask(t, e, sampled(more)))
		_, twice := submit(t, s, fmt.Sprint("twice", i), ask(t, e, sampled(more)))
		for n := range 2 {
			submit(t, s, fmt.Sprint("after", i, n), ask(t, e, sampled(`"seed":7,"top_k":3,`)))
		}
		runAll(t, s)
		if text(alone.events) != text(again.events) || text(alone.events) != text(twice.events) {
			t.Errorf("%s alone %q, in a batch %q and %q", more, text(alone.events), text(again.events), text(twice.events))
		}
		distinct[text(alone.events)] = true
	}
	if len(distinct) < 7 { // two sets of parameters may agree by chance
		t.Errorf("8 seeds and parameters gave only %d answers", len(distinct))
	}
	if a, b := ask(t, e, sampled(``)), ask(t, e, sampled(``)); a.Sampling.Seed == b.Sampling.Seed {
		t.Errorf("two requests without seed got the same, %d", a.Sampling.Seed)
	}
}

// TestSamplingParameters: what a request says replaces the model's defaults, one by one.
func TestSamplingParameters(t *testing.T) {
	o := options(Instant)
	thinking := sample.Params{Temperature: 0.7, TopP: 0.9, TopK: 20, MinP: 0.1, PresencePenalty: 1.5, RepetitionPenalty: 1.2}
	straight := sample.Params{Temperature: 0.2, TopP: 1, RepetitionPenalty: 1}
	o.Defaults = func(architecture string, thinks bool) sample.Params {
		if architecture != "qwen35moe" {
			t.Errorf("architecture %q", architecture)
		}
		if thinks {
			return thinking
		}
		return straight
	}
	e, _ := open2(t, o)
	for more, want := range map[string]func(*sample.Params){
		`"seed":1`:                          func(p *sample.Params) {},
		`"seed":1,"temperature":0`:          func(p *sample.Params) { p.Temperature = 0 },
		`"seed":1,"top_p":0.5`:              func(p *sample.Params) { p.TopP = 0.5 },
		`"seed":1,"top_k":0`:                func(p *sample.Params) { p.TopK = 0 },
		`"seed":1,"min_p":0`:                func(p *sample.Params) { p.MinP = 0 },
		`"seed":1,"presence_penalty":-2`:    func(p *sample.Params) { p.PresencePenalty = -2 },
		`"seed":1,"frequency_penalty":0.25`: func(p *sample.Params) { p.FrequencyPenalty = 0.25 },
		`"seed":1,"repetition_penalty":1`:   func(p *sample.Params) { p.RepetitionPenalty = 1 },
		`"seed":-1`:                         func(p *sample.Params) { p.Seed = math.MaxUint64 },
	} {
		for thinks, p := range map[string]sample.Params{"": thinking, `"thinking":{"type":"disabled"},`: straight} {
			p.Seed = 1
			want(&p)
			if got := ask(t, e, `{"model":"m","max_tokens":5,`+thinks+more+`,"messages":[{"role":"user","content":"x"}]}`).Sampling; got != p {
				t.Errorf("%s%s: %+v, want %+v", thinks, more, got, p)
			}
		}
	}
}

// TestStalledReader moves the clock while nobody drains the output.
func TestStalledReader(t *testing.T) {
	e, s := open2(t, options(Instant))
	r := ask(t, e, `{"model":"m","stream":true,"max_tokens":5000,"messages":[{"role":"user","content":"x"}]}`)
	var result *Result
	j := &Job{ID: "r", Account: "a", Request: r, Output: NewOutput(8), Finished: func(res Result) { result = &res }}
	now := time.Now()
	if err := s.submit(j, now); err != nil {
		t.Fatal(err)
	}
	for s.Step(now) {
	}
	if n := j.Observed().Output; n == 0 || n > 20 {
		t.Fatalf("a full queue stopped after %d tokens", n)
	}
	j.Output.Drain(nil)
	before := j.Observed().Output
	for s.Step(now) {
	}
	if j.Observed().Output == before {
		t.Fatal("the stream does not go on after a drain")
	}
	now = now.Add(31 * time.Second)
	s.Step(now)
	if st := s.sched.Stats(); st.Paused != 1 || st.Running != 0 {
		t.Fatalf("after 31 s: %+v", st)
	}
	j.Output.Drain(nil)
	for s.Step(now) {
	}
	if st := s.sched.Stats(); st.Paused != 0 {
		t.Fatalf("after the reader came back: %+v", st)
	}
	if at, ok := s.NextDeadline(); !ok || at.Sub(now) != 30*time.Second {
		t.Errorf("next deadline %v %v", at.Sub(now), ok)
	}
	s.Step(now.Add(6 * time.Minute))
	if result == nil || result.Err.Kind != abi.Canceled {
		t.Errorf("after six minutes: %+v", result)
	}
}

// TestStalledReaderTakesNoSlot: an answer that lost its slot while its reader is behind
// does not wait for another one until it is read.
func TestStalledReaderTakesNoSlot(t *testing.T) {
	o := options(Instant)
	o.Batch.SequencesMax = 2
	e, s := open2(t, o)
	r := ask(t, e, `{"model":"m","stream":true,"max_tokens":3000,"messages":[{"role":"user","content":"x"}]}`)
	now := time.Now()
	add := func(account string, room int) *Job {
		j := &Job{ID: "r", Account: account, Request: r, Output: NewOutput(room), Finished: func(Result) {}}
		if err := s.submit(j, now); err != nil {
			t.Fatal(err)
		}
		return j
	}
	add("a", 100_000)
	stalled := add("a", 8)
	for stalled.Output.Room() {
		s.Step(now)
	}
	s.Step(now)
	b := add("b", 100_000)
	now = now.Add(fairWait)
	for range 2 {
		s.Step(now)
	}
	if st := s.sched.Stats(); st.PreemptedFair != 1 || b.Observed().Output == 0 {
		t.Fatalf("nothing was preempted for b: %+v", st)
	}
	now = now.Add(fairWait)
	for range 2 {
		s.Step(now)
	}
	if st := s.sched.Stats(); st.Paused != 1 || st.Waiting != 0 || st.Running != 2 {
		t.Errorf("with its reader behind: %+v, want 1 paused and 2 running", st)
	}
	b.Cancel()
	before := stalled.Observed().Output
	for stalled.Observed().Output == before {
		stalled.Output.Drain(nil)
		if !s.Step(now) {
			t.Fatalf("it does not go on when it is read: %+v", s.sched.Stats())
		}
	}
}

func TestQueueTimeout(t *testing.T) {
	o := options(Instant)
	o.Batch.SequencesMax = 1
	e, s := open2(t, o)
	r := ask(t, e, `{"model":"m","stream":true,"max_tokens":5000,"messages":[{"role":"user","content":"x"}]}`)
	now := time.Now()
	submit(t, s, "a", r)
	s.Step(now)
	_, late := submit(t, s, "a", r)
	s.Step(now.Add(2 * time.Minute))
	if late.finished != 1 || late.result.Err == nil || late.result.Err.Kind != abi.Overloaded {
		t.Errorf("after its time in the queue: %+v", late.result)
	}
}

// TestPriorityReachesTheQueue: of the jobs that wait for the only slot, the one
// with the highest priority is the next.
func TestPriorityReachesTheQueue(t *testing.T) {
	o := options(Instant)
	o.Batch.SequencesMax = 1
	e, s := open2(t, o)
	r := ask(t, e, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`)
	var order []string
	add := func(id string, priority int8) {
		j := &Job{ID: id, Account: "a", Priority: priority, Request: r, Output: NewOutput(100)}
		j.Finished = func(Result) { order = append(order, j.ID) }
		if err := s.submit(j, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	add("running", -100)
	s.Step(time.Now())
	add("low", -3)
	add("usual", 0)
	add("high", 3)
	add("usual too", 0)
	add("highest", 127)
	runAll(t, s)
	if want := []string{"running", "highest", "high", "usual", "usual too", "low"}; !slices.Equal(order, want) {
		t.Errorf("ended in the order %q, want %q", order, want)
	}
}

// TestStepperGivesItsMemoryBack: a step loop that is rebuilt after a failure
// must not keep the old one's pages.
func TestStepperGivesItsMemoryBack(t *testing.T) {
	e, err := Open(options(CPU))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 3 {
		s, err := e.NewStepper()
		if err != nil {
			t.Fatal(err)
		}
		_, a := submit(t, s, "a", ask(t, e, body))
		runAll(t, s)
		if a.finished != 1 || s.cache.BytesUsed() == 0 {
			t.Fatalf("finished %d times on %d bytes", a.finished, s.cache.BytesUsed())
		}
		s.Close()
		if used := s.cache.BytesUsed(); used != 0 {
			t.Errorf("%d bytes are kept after Close", used)
		}
	}
}

// noRoom is a backend whose system has no memory for a cache.
type noRoom struct{ kernel.Backend }

func (noRoom) NewCache(kernel.CacheConfig) (kernel.Cache, error) {
	return nil, fmt.Errorf("new cache: %w", cpu.ErrMemory)
}

// TestStepperWithoutMemory: the error says how much was refused, and which keys ask for less.
func TestStepperWithoutMemory(t *testing.T) {
	e, err := Open(options(CPU))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.backend = noRoom{e.backend}
	_, err = e.NewStepper()
	pages := fmt.Sprintf("kv memory of %d bytes", int64(e.memory.pages)*e.memory.pageBytes)
	if err == nil || !strings.Contains(err.Error(), pages) || !strings.Contains(err.Error(), "lower kv.memory_bytes") {
		t.Errorf("%v, want %s and the keys", err, pages)
	}
}

// TestOpenWithoutRoomForPackedWeights: a folder that cannot be written costs
// the next start its time, not this one its model.
func TestOpenWithoutRoomForPackedWeights(t *testing.T) {
	o := options(CPU)
	o.PackDir = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(o.PackDir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	e, s := open2(t, o)
	if e.PackError() == nil {
		t.Error("nobody says that nothing is kept")
	}
	_, a := submit(t, s, "a", ask(t, e, body))
	runAll(t, s)
	checkStream(t, a.events)
}

// TestPackedWeightsGoWithTheirEngine: those of a model that something else computes now are of no use.
func TestPackedWeightsGoWithTheirEngine(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []Kind{CPU, Instant} {
		o := options(kind)
		o.PackDir = dir
		e, _ := open2(t, o)
		if err := CleanPacks(dir, slices.Values([]*Engine{e})); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || (len(files) == 1) != (kind == CPU) {
			t.Errorf("%s: %d files (%v)", kind, len(files), err)
		}
	}
}

// TestPackBytes: the disk that is asked for is enough for the file that comes of it, and not much more.
func TestPackBytes(t *testing.T) {
	o := options(CPU)
	o.PackDir = t.TempDir()
	e, _ := open2(t, o)
	files, err := os.ReadDir(o.PackDir)
	if err != nil || len(files) != 1 || e.PackError() != nil {
		t.Fatalf("%v, %v, %v", files, err, e.PackError())
	}
	info, err := files[0].Info()
	if err != nil {
		t.Fatal(err)
	}
	if got := e.cpuOptions(o).CacheBytes; got < info.Size() || got > info.Size()+info.Size()/50 {
		t.Errorf("%d bytes, want a little more than the file's %d", got, info.Size())
	}
}

// TestRowsBehindTheVocabulary: a model may have more rows than its tokenizer has
// tokens; they are never sampled.
func TestRowsBehindTheVocabulary(t *testing.T) {
	e, _ := open2(t, options(Instant))
	size := e.tokenizer.Size()
	before := e.tokenizer.Unreachable()
	e.vocab = size + 2
	if got, want := e.unreachable(), append(before, int32(size), int32(size+1)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
