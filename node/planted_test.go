package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/engine"
	"corenode/engine/kernel"
	"corenode/engine/tokenizer"
	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/why"
)

// neighbor is a machine whose processors nobody uses but this process and, while it is busy,
// somebody who takes all that there is.
type neighbor struct {
	processors int
	mu         sync.Mutex // guards since and took
	since      time.Time  // zero: it is at rest
	took       time.Duration
}

func (b *neighbor) set(busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.took += b.used(); busy {
		b.since = time.Now()
	} else {
		b.since = time.Time{}
	}
}

// used is what it took since it is busy. mu is held.
func (b *neighbor) used() time.Duration {
	if b.since.IsZero() {
		return 0
	}
	return time.Since(b.since) * time.Duration(b.processors)
}

// Open makes the one file that samples read, as the kernel would write it now.
func (b *neighbor) Open(name string) (fs.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ticks := (processTime() + b.took + b.used()) / (10 * time.Millisecond)
	return fstest.MapFS{"proc/stat": {Data: fmt.Appendf(nil, "cpu  %d 0 0 0 0 0 0 0 0 0\n", ticks)}}.Open(name)
}

// disk makes rows durable in a store, but while it is stalled.
type disk struct {
	ledger.Store
	mu      sync.Mutex    // guards stalled
	stalled chan struct{} // closed when the stall ends; nil without one
	waiting atomic.Int64  // commits that the stall holds
}

// stall lets no commit end until the call of what it returns.
func (d *disk) stall() (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stalled := make(chan struct{})
	d.stalled = stalled
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stalled = nil
		close(stalled)
	})
}

func (d *disk) Append(rows []account.Entry) error {
	d.mu.Lock()
	stalled := d.stalled
	d.mu.Unlock()
	if stalled != nil {
		d.waiting.Add(1)
		<-stalled
		d.waiting.Add(-1)
	}
	return d.Store.Append(rows)
}

// steady is a model that says one token for ever, at the pace of its steps. Those that compute
// a part of a prompt take longer.
type steady struct{ token int32 }

// The pace of steady.
const steadyStep, steadyPrompt = 2 * time.Millisecond, 30 * time.Millisecond

func (m steady) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, _ []int32, logits [][]float32) error {
	pace := steadyStep
	if slices.ContainsFunc(step.Spans, func(s kernel.Span) bool { return s.Len >= 64 }) {
		pace = steadyPrompt
	}
	time.Sleep(pace)
	say(m.token, logits)
	return nil
}

func (steady) Close() {}

// say makes a token the only one that can be drawn.
func say(token int32, logits [][]float32) {
	for _, row := range logits {
		clear(row)
		row[token] = 1000
	}
}

// planted is a node in which causes of slowness can be planted, and who answers for them.
type planted struct {
	*testing.T
	n        *node
	base     string
	operator *admin.Client
	id, key  string // of the account
	neighbor *neighbor
	disk     *disk
}

func startPlanted(t *testing.T) *planted {
	p := &planted{T: t, neighbor: &neighbor{processors: runtime.NumCPU()}, disk: &disk{}}
	cfg := config.Default()
	slowConfig(t)(cfg)
	cfg.Listen, cfg.DataDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", filepath.Join(t.TempDir(), "data"), true
	slow := cfg.Models[slowModel]
	slow.Engine, slow.Batch.ChunkTokens = config.EngineInstant, 64
	cfg.Models[slowModel] = slow
	log, _, err := newLogger(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p.n, err = openWith(cfg, log, nil, standIns{system: p.neighbor,
		rows: func(s ledger.Store) ledger.Store { p.disk.Store = s; return p.disk },
		adjust: func(o *engine.Options) {
			if o.ID == slowModel {
				o.Model = func(t *tokenizer.Tokenizer) engine.Forwarder { return steady{t.Encode(nil, "a")[0]} }
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	p.n.begin()
	t.Cleanup(func() {
		if err := p.n.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	<-p.n.modules.Ready()
	p.operator, p.base = operator(t, p.n), "http://"+p.n.public.Addr().String()
	p.id, p.key = customerOf(t, p.n, account.Account{Name: "alice", Unlimited: true}, 0)
	return p
}

// asked is what an operator is told over the API and on the command line, of about the same second.
func (p *planted) asked() (d why.Diagnosis, said string) {
	p.Helper()
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { d, errs[0] = p.operator.Why(1) })
	both.Go(func() { said, errs[1] = typed(p.T, p.n, "why", "--seconds", "1") })
	both.Wait()
	for _, err := range errs {
		if err != nil {
			p.Fatal(err)
		}
	}
	return d, said
}

// says waits until both say a sentence.
func (p *planted) says(sentence string) {
	p.Helper()
	is := regexp.MustCompile("^" + sentence)
	var d why.Diagnosis
	var said string
	for range 8 {
		if d, said = p.asked(); d.Slow && is.MatchString(d.Sentence) && is.MatchString(said) {
			return
		}
	}
	p.Errorf("no %q in %+v, nor in %s", sentence, d, said)
}

// ask sends a short request to the fast model and waits for its end.
func (p *planted) ask() {
	errand{key: p.key, path: "/v1/chat/completions", model: fastModel, prompt: "hello", maxTokens: 4}.
		run(p.T, http.DefaultClient, p.base, moments{})
}

// TestPlantedCauses: a node that answers a stream is not slow. Then a busy neighbor, a long prompt,
// a slow module and a stalled disk are planted, one after the other, and the operator is told of
// each and of nothing else, by the API and by the command line.
func TestPlantedCauses(t *testing.T) {
	if testing.Short() {
		t.Skip("a node is watched five times for a second each; takes 8 s")
	}
	p := startPlanted(t)
	deltas, _ := listen(t, p.base, errand{key: p.key, path: "/v1/messages", model: slowModel, stream: true, prompt: "x", maxTokens: 200_000})
	waitFor(t, "the stream", func() bool { return deltas.Load() > 0 })
	shown := func(c why.Cause) bool {
		return slices.Contains([]string{"neighbor", "prompt", "module"}, c.Name) && c.Weight >= 1 ||
			c.Name == "disk" && strings.Contains(c.Sentence, "keep up")
	}
	d, said := p.asked()
	for again := 0; again < 8 && slices.ContainsFunc(d.Causes, shown); again++ { // the machine may have stood still
		d, said = p.asked()
	}
	if !strings.Contains(said, d.Causes[0].Name) {
		t.Errorf("the two do not look at the same: %+v, %s", d, said)
	}
	for _, c := range d.Causes {
		if shown(c) {
			t.Errorf("before anything is planted: %+v", c)
		}
	}
	for name, plant := range map[string]func(*planted){"neighbor": (*planted).plantNeighbor, "prompt": (*planted).plantPrompt,
		"module": (*planted).plantModule, "disk": (*planted).plantDisk} {
		t.Run(name, func(t *testing.T) {
			of := *p
			of.T = t
			plant(&of)
		})
	}
}

func (p *planted) plantNeighbor() {
	p.neighbor.set(true)
	defer p.neighbor.set(false)
	p.says(`Other programs use \d+\.\d of \d+ processors, this node \d+\.\d\.`)
}

func (p *planted) plantPrompt() {
	_, _ = listen(p.T, p.base, errand{key: p.key, path: "/v1/messages", model: slowModel, stream: true,
		prompt: strings.Repeat("hello you ", 20_000), maxTokens: 1})
	var r admin.Request
	waitFor(p.T, "the prompt's first part", func() bool {
		all, err := p.operator.Requests(url.Values{"phase": {"prefill"}})
		if err != nil || len(all.Data) == 0 {
			return false
		}
		r = all.Data[0]
		return r.Computed > 0
	})
	p.says(fmt.Sprintf(`The long prompt of request %s \(account %s\) is computed: \d+ of %d tokens so far; 1 sequences of %s run beside it, 0 wait\.`,
		r.ID, p.id, r.Prompt, slowModel))
	if err := p.operator.CancelRequest(r.ID); err != nil {
		p.Error(err)
	}
	waitFor(p.T, "its end", func() bool { return p.n.tree.Inspect().Requests == 1 })
}

func (p *planted) plantModule() {
	m, err := p.operator.LoadModule(admin.NewModule{Wasm: slowModule(p.T, extensions.SlotBilling, 40_000_000)})
	if err == nil {
		_, err = p.operator.ActivateModule(m.Digest)
	}
	if err != nil {
		p.Fatal(err)
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	ended := make(chan struct{})
	defer close(ended)
	clients.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				p.ask()
			}
		}
	})
	p.says(`The module slow@1\.0\.0 of slot billing takes [\d.]+m?s of processor time for each request\.`)
	if _, err := p.operator.Rollback(string(extensions.SlotBilling)); err != nil {
		p.Error(err)
	}
}

// plantDisk: after two seconds the rows are in the spill journal, and the node says that.
func (p *planted) plantDisk() {
	end := p.disk.stall()
	var client sync.WaitGroup
	defer func() {
		end()
		client.Wait()
		waitFor(p.T, "the rows of the spill journal", func() bool { return p.n.tree.Ledger().Spilled == 0 })
	}()
	client.Go(func() { p.ask() })
	waitFor(p.T, "a commit that does not end", func() bool { return p.disk.waiting.Load() > 0 })
	p.says(`(The disk does not keep up: the commit of the ledger that runs has taken|\d+ rows are in the spill journal, and the disk does not have)`)
}
