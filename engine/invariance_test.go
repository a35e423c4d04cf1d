package engine

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine/sample"
)

// plainTemplate frames nothing: no turns, so no places for snapshots, and a
// prompt is computed in one piece whatever the page size.
const plainTemplate = `{% for m in messages %}{{ m.content }}{% endfor %}`

// nearly is how far logits may be apart where chunks are cut at other places;
// greedy choices with a larger margin are the same.
const nearly = 1e-3

// invariantModels have every kind of layer and of matrix; "" is that of options.
var invariantModels = []string{"", "tiny-qwen35-f16", "tiny-qwen3-f16", "tiny-llama-f16", "tiny-qwen3-q4_0", "tiny-qwen3-q4_k_m", predictive[1]}

// setup is one way to serve a model; its zero value is the plain one.
type setup struct {
	model, template string
	threads         int
	pageTokens      int
	pages           int // 0 = plenty
	pageBytes       int64
	sequences       int
	stepTokens      int
	chunk           int
	draft           bool // and always as much as possible
}

const outputTokens = 40

func (c setup) options() Options {
	o := options(CPU)
	if kind, name, ok := strings.Cut(c.model, "/"); ok {
		o.Data = predicting(kind, name)
	} else if c.model != "" {
		o.Data, o.Path = nil, filepath.Join("model", "testdata", "parity", c.model+".gguf")
	}
	or := func(x, otherwise int) int {
		if x == 0 {
			return otherwise
		}
		return x
	}
	o.Info.ContextLength = 2048
	o.Threads = or(c.threads, 1)
	o.Cache.PageTokens = or(c.pageTokens, 16)
	o.Batch.SequencesMax = or(c.sequences, 16)
	o.Batch.StepTokensMax = or(c.stepTokens, 2048)
	o.Batch.ChunkTokens = or(c.chunk, 1024)
	o.Draft = c.draft
	if c.template != "" {
		o.Template = c.template
	}
	return o
}

// stage is a stepper under watch.
type stage struct {
	testing.TB
	e  *Engine
	s  *Stepper
	sh *shadow
}

func newStage(t testing.TB, c setup) *stage {
	t.Helper()
	o := c.options()
	if c.pages > 0 {
		o.Cache.Bytes = int64(c.pages) * c.pageBytes
		o.Info.ContextLength = c.pages * o.Cache.PageTokens
	}
	e, s := open2(t, o)
	s.sched.AssumeSteps(func(int) float64 { return 1 }) // rows cost nothing: every draft pays
	return &stage{t, e, s, watch(t, e, s)}
}

// subject is a request whose logits are compared.
type subject struct {
	words       int
	temperature float64
}

// subjects have prompts of less than a chunk, a few and many, greedy and sampled.
var subjects = []subject{{4, 0}, {4, 1.5}, {30, 1.5}, {80, 0}}

func (q subject) body(more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"temperature":%g,"system":"Answer request %d. %s","messages":[{"role":"user","content":"%s"}%s]}`,
		outputTokens, q.temperature, q.words, words(q.words), words(q.words/2+1), more)
}

// ask prepares the subject; more are further messages.
func (g *stage) ask(q subject, more string) *Request {
	g.Helper()
	r := ask(g, g.e, q.body(more))
	r.Sampling.Seed = 7
	return r
}

// other is a request that keeps the subject company.
func (g *stage) other(i int) *Request {
	g.Helper()
	r := ask(g, g.e, fmt.Sprintf(`{"model":"m","max_tokens":%d,"temperature":1,"messages":[{"role":"user","content":"%d %s"}]}`,
		20+5*i, i, words(3+2*i)))
	r.Sampling.Seed = uint64(100 + i)
	return r
}

// finished is what a request gave and how.
type finished struct {
	*trace
	*answer
	mask   []int32
	hybrid bool
}

// submit starts a request; its result is there when the stepper has come to an end.
func (g *stage) submit(account string, r *Request) func() finished {
	g.Helper()
	j, a := submit(g, g.s, account, r)
	return func() finished {
		g.Helper()
		if a.finished != 1 || a.result.Err != nil {
			g.Fatalf("finished %d times: %+v", a.finished, a.result)
		}
		checkStream(g, a.events)
		return finished{g.sh.traces[j], a, g.s.mask, g.sh.hybrid}
	}
}

// alone runs a request with nothing beside it.
func (g *stage) alone(account string, r *Request) finished {
	g.Helper()
	get := g.submit(account, r)
	runAll(g, g.s)
	return get()
}

// differences are what comparisons of one kind have seen.
type differences struct {
	positions, bitEqual, partings int
	largest                       float64
}

func (y differences) String() string {
	return fmt.Sprintf("%d sampled positions, %d bit-equal, largest difference %.2g, %d answers part at a near tie",
		y.positions, y.bitEqual, y.largest, y.partings)
}

// compare holds the logits and tokens of one request in two settings against
// each other, up to where the tokens part, which they may at a near tie.
func (y *differences) compare(t testing.TB, what string, got, want finished, tolerance float64) {
	t.Helper()
	bits, rows, wanted := true, got.logits(), want.logits()
	for i := range min(len(rows), len(wanted)) {
		d := distance(rows[i], wanted[i])
		if !(d <= tolerance) {
			t.Fatalf("%s: logits of token %d differ by %g, want at most %g", what, i, d, tolerance)
		}
		y.positions++
		y.largest = max(y.largest, d)
		if bits = bits && d == 0; bits {
			y.bitEqual++
		}
		a, knownA := got.token(i)
		b, knownB := want.token(i)
		if a == b && knownA == knownB {
			continue
		}
		greedy := want.run.job.Request.Sampling.Temperature == 0
		if bits || greedy && margin(wanted[i], want.mask) > nearly {
			t.Fatalf("%s: token %d is %d, want %d: logits %g apart, margin %g", what, i, a, b, d, margin(wanted[i], want.mask))
		}
		y.partings++
		return
	}
	if len(rows) != len(wanted) || text(got.events) != text(want.events) {
		t.Fatalf("%s: %d tokens %q, want %d tokens %q", what, len(rows), text(got.events), len(wanted), text(want.events))
	}
}

// token is the i-th of the answer; the last one is not kept anywhere.
func (tr *trace) token(i int) (id int32, known bool) {
	q := &tr.run.seq
	if q.Prompt+i >= len(q.Tokens) {
		return -1, false
	}
	return q.Tokens[q.Prompt+i], true
}

// distance is 0 only for equal bits.
func distance(a, b []float32) (d float64) {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			d = math.Max(max(d, math.SmallestNonzeroFloat64), math.Abs(float64(a[i])-float64(b[i]))) // NaN stays
		}
	}
	return d
}

// margin is what the best token that may be sampled leads by.
func margin(logits []float32, mask []int32) float64 {
	row := append([]float32(nil), logits...)
	best := sample.New(sample.Params{}, mask, nil).Sample(row) // puts the mask into row
	first := row[best]
	row[best] = float32(math.Inf(-1))
	return float64(first) - float64(row[sample.Greedy(row)])
}

// eachModel runs a test on every model, at least once.
func eachModel(t *testing.T, test func(t *testing.T, model string)) {
	if len(invariantModels) < 6 {
		t.Fatalf("%d models", len(invariantModels))
	}
	for i, model := range invariantModels {
		if testing.Short() && i >= 3 {
			break // the first three have every kind of layer
		}
		name := model
		if name == "" {
			name = "noise"
		}
		t.Run(name, func(t *testing.T) { test(t, model) })
	}
}

// atMost is n, or few in a short run: under the race detector everything takes ten times as long.
func atMost(n, few int) int {
	if testing.Short() {
		return few
	}
	return n
}

// baselines are the subjects alone: one thread, small pages, whole prompts, nothing cached.
func baselines(t *testing.T, c setup) []finished {
	g := newStage(t, setup{model: c.model, template: c.template})
	out := make([]finished, len(subjects))
	for i, q := range subjects {
		out[i] = g.alone(fmt.Sprint(i), g.ask(q, ""))
		if out[i].result.Usage.CacheRead != 0 {
			t.Fatal("an account's first request was cached")
		}
	}
	return out
}

// TestLogitsDoNotDependOnCompany: batch, page size and threads change no bit.
// A hybrid model's snapshots are cut at page multiples, so with turns in the
// prompt its page size moves chunks; that is TestLogitsNearlyDoNotDependOnHistory,
// and here such a model is asked without turns too.
func TestLogitsDoNotDependOnCompany(t *testing.T) {
	eachModel(t, func(t *testing.T, model string) {
		want := baselines(t, setup{model: model})
		hybrid := want[0].hybrid
		company(t, setup{model: model, threads: 2}, want)
		if hybrid {
			want = baselines(t, setup{model: model, template: plainTemplate})
			company(t, setup{model: model, threads: 2, template: plainTemplate}, want)
			company(t, setup{model: model, threads: 1, pageTokens: 64, template: plainTemplate}, want)
			company(t, setup{model: model, threads: 2, template: plainTemplate, draft: true}, want)
			return
		}
		company(t, setup{model: model, threads: 1, pageTokens: 64, draft: true}, want)
	})
}

// company compares every subject alone and among eight others with what it
// gave alone, in one thread and pages of 16.
func company(t *testing.T, c setup, want []finished) {
	g, y := newStage(t, c), &differences{}
	for i, q := range subjects {
		y.compare(t, fmt.Sprintf("%+v alone in %+v", q, c), g.alone(fmt.Sprint(i), g.ask(q, "")), want[i], 0)
		for n := range 4 { // some are decoding already
			g.submit(fmt.Sprint("before", i, n), g.other(n))
		}
		for range 3 {
			g.s.Step(time.Now())
		}
		get := g.submit(fmt.Sprint("among", i), g.ask(q, ""))
		g.s.Step(time.Now())
		for n := range 4 { // some come later
			g.submit(fmt.Sprint("after", i, n), g.other(4+n))
		}
		g.s.Step(time.Now())
		if n := g.s.sched.Stats().Running; n != 9 && !c.draft { // some have ended already
			t.Fatalf("%d sequences run together, want the subject and eight others", n)
		}
		runAll(t, g.s)
		y.compare(t, fmt.Sprintf("%+v among others in %+v", q, c), get(), want[i], 0)
	}
	t.Logf("alone and among 8 others, %+v: %v, %d tokens drafted, %d right", c, *y, g.sh.drafted, g.s.sched.Stats().AcceptedTokens)
}

// TestLogitsNearlyDoNotDependOnHistory: a warm cache, cuts of the prompt, a
// preemption and a pause leave the logits within the bound.
func TestLogitsNearlyDoNotDependOnHistory(t *testing.T) {
	eachModel(t, func(t *testing.T, model string) {
		c := setup{model: model}
		want := baselines(t, c)
		modes := []bool{false}
		if slices.Index(invariantModels, model) < 3 || strings.Contains(model, "/") { // every kind of layer
			modes = []bool{true, false}[:atMost(2, 1)]
		}
		for _, scene := range []struct {
			name string
			run  func(*testing.T, setup, []finished, *differences)
		}{
			{"the same request again, from the cache", sceneWarm},
			{"a second turn", sceneSecondTurn},
			{"pages of 64", scenePages},
			{"pieces of 64 tokens", scenePieces},
			{"beside a decode, in pieces of 64", sceneBesideDecode},
			{"preempted in decode", scenePreempted},
			{"paused for a slow reader", scenePaused},
		} {
			for _, c.draft = range modes {
				y := &differences{}
				scene.run(t, c, want, y)
				if y.positions < len(subjects)*2 {
					t.Errorf("%s: only %d positions", scene.name, y.positions)
				}
				t.Logf("%s, drafts %v: %v", scene.name, c.draft, *y)
			}
		}
	})
}

func sceneWarm(t *testing.T, c setup, want []finished, y *differences) {
	g := newStage(t, c)
	for i, q := range subjects {
		g.alone("a", g.ask(q, ""))
		got := g.alone("a", g.ask(q, ""))
		y.compare(t, fmt.Sprintf("warm %+v", q), got, want[i], nearly)
		if n, all := got.result.Usage.CacheRead, int64(len(got.run.job.Request.Prompt)); n == 0 || n >= all {
			t.Errorf("%d of %d tokens came from the cache", n, all)
		}
	}
	if g.sh.hits < len(subjects) {
		t.Errorf("%d sequences began after a cached prefix", g.sh.hits)
	}
}

// sceneSecondTurn compares an account that had the first turn with one that had not.
func sceneSecondTurn(t *testing.T, c setup, _ []finished, y *differences) {
	g := newStage(t, c)
	const more = `,{"role":"assistant","content":"it reads the prefix"},{"role":"user","content":"and then?"}`
	for i, q := range subjects {
		g.alone("warm", g.ask(q, ""))
		warm := g.alone("warm", g.ask(q, more))
		cold := g.alone(fmt.Sprint("cold", i), g.ask(q, more))
		y.compare(t, fmt.Sprintf("second turn of %+v", q), warm, cold, nearly)
		if warm.result.Usage.CacheRead == 0 || cold.result.Usage.CacheRead != 0 {
			t.Errorf("cached tokens: %d of a second turn, %d of a stranger's", warm.result.Usage.CacheRead, cold.result.Usage.CacheRead)
		}
	}
}

func scenePages(t *testing.T, c setup, want []finished, y *differences) {
	c.pageTokens = 64
	g := newStage(t, c)
	for i, q := range subjects {
		y.compare(t, fmt.Sprintf("pages of 64, %+v", q), g.alone(fmt.Sprint(i), g.ask(q, "")), want[i], nearly)
	}
}

func scenePieces(t *testing.T, c setup, want []finished, y *differences) {
	c.sequences, c.stepTokens, c.chunk = 1, 65, 64
	g := newStage(t, c)
	for i, q := range subjects {
		y.compare(t, fmt.Sprintf("steps of 65, %+v", q), g.alone(fmt.Sprint(i), g.ask(q, "")), want[i], nearly)
	}
}

func sceneBesideDecode(t *testing.T, c setup, want []finished, y *differences) {
	c.chunk = 64
	g := newStage(t, c)
	for i, q := range subjects {
		g.submit("b", g.other(i))
		g.s.Step(time.Now())
		get := g.submit(fmt.Sprint(i), g.ask(q, ""))
		runAll(t, g.s)
		y.compare(t, fmt.Sprintf("beside a decode, %+v", q), get(), want[i], nearly)
	}
}

// scenePreempted gives the subject and four that came before it one page each
// to grow by, which is not enough.
func scenePreempted(t *testing.T, c setup, want []finished, y *differences) {
	pages := func(n int) int { return (n + 15) / 16 }
	probe, company := newStage(t, c), 0
	for n := range 4 {
		company += pages(len(probe.other(n+4).Prompt) + 1)
	}
	c.pageBytes = probe.e.memory.pageBytes
	restarts := 0
	for i, q := range subjects {
		prompt := len(want[i].run.job.Request.Prompt)
		c.pages = max(company+pages(prompt+1)+5, pages(prompt+outputTokens))
		g := newStage(t, c)
		for n := range 4 {
			g.submit(fmt.Sprint("before", n), g.other(n+4))
		}
		get := g.submit("last", g.ask(q, ""))
		runAll(t, g.s)
		got := get()
		y.compare(t, fmt.Sprintf("preempted %+v", q), got, want[i], nearly)
		restarts += got.restarts
		if got.result.Usage != want[i].result.Usage && y.partings == 0 {
			t.Errorf("preempted %d times, billed %+v, want %+v", got.restarts, got.result.Usage, want[i].result.Usage)
		}
	}
	if restarts < len(subjects)/2 {
		t.Errorf("only %d preemptions: the pool is too large for this test", restarts)
	}
	t.Logf("%d preemptions", restarts)
}

// scenePaused lets the reader stall until its sequence loses its pages, again and again.
func scenePaused(t *testing.T, c setup, want []finished, y *differences) {
	g := newStage(t, c)
	pauses := 0
	for i, q := range subjects {
		a := &answer{}
		j := &Job{ID: "r", Account: fmt.Sprint(i), Request: g.ask(q, ""), Output: NewOutput(9)}
		j.Finished = func(res Result) { a.result, a.finished = res, a.finished+1; a.events = j.Output.Drain(a.events) }
		now := time.Now()
		if err := g.s.submit(j, now); err != nil {
			t.Fatal(err)
		}
		for rounds := 0; a.finished == 0; rounds++ {
			if rounds > 10*outputTokens {
				t.Fatalf("the answer does not go on after a pause: %+v", g.s.sched.Stats())
			}
			for g.s.Step(now) {
			}
			if a.finished == 0 {
				now = now.Add(g.e.options.Batch.PauseAfter)
				g.s.Step(now)
				pauses += g.s.sched.Stats().Paused
				a.events = j.Output.Drain(a.events)
			}
		}
		checkStream(t, a.events)
		y.compare(t, fmt.Sprintf("paused %+v", q), finished{g.sh.traces[j], a, g.s.mask, g.sh.hybrid}, want[i], nearly)
	}
	if pauses < len(subjects) {
		t.Errorf("%d pauses", pauses)
	}
	t.Logf("%d pauses", pauses)
}
