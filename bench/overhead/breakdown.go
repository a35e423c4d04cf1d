package overhead

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"corenode/bench/proc"
	"corenode/bench/profile"
)

const (
	commandTimeout = 30 * time.Second
	topFunctions   = 15
)

// Breakdown says where the CPU time of one kind of work went, by a profile that
// is taken after the rounds: measuring while profiling would change the numbers.
type Breakdown struct {
	Work  string `json:"work"`
	Parts []Part `json:"parts"` // disjoint; together the whole
	Top   []Part `json:"top"`   // functions with the most time of their own
}

// Part is one share of a work's CPU time.
type Part struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	// CPU is the share of the measured CPU time per reply.
	CPU float64 `json:"cpu_us_per_reply"`
}

// parts are what a breakdown tells apart. The first rule that matches any
// function of a stack takes it, so what is deep in a stack comes first.
var parts = []profile.Rule{
	{Group: "garbage collector", Prefixes: []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc",
		"runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.(*gcWork)"}},
	{Group: partLedger, Prefixes: []string{"corenode/node/store", "corenode/actors/ledger.", "github.com/ncruces/go-sqlite3"}},
	{Group: "WebAssembly code of modules", Prefixes: []string{"runtime._ExternalCode"}}, // its stacks are not seen
	{Group: "module host", Prefixes: []string{"corenode/extensions"}},
	{Group: "request log", Prefixes: []string{"log/slog."}},
	{Group: "prepare: parse, template, tokenize", Prefixes: []string{"corenode/engine.(*Engine).Prepare",
		"corenode/engine.(*Engine).Count",
		"corenode/engine/upstream.(*Model).Prepare", "corenode/engine/messages.Parse", "corenode/engine/template."}},
	{Group: "upstream", Prefixes: []string{"corenode/engine/upstream."}},
	{Group: "engine step", Prefixes: []string{"corenode/engine.(*Stepper)", "corenode/actors/batcher."}},
	{Group: "actors", Prefixes: []string{"corenode/actors/", "github.com/asynkron/protoactor-go"}},
	{Group: "writing replies", Prefixes: []string{"corenode/node/server.(*answer)", "corenode/engine/messages.",
		"github.com/valyala/fasthttp.(*Response)"}},
	{Group: "reading requests", Prefixes: []string{"github.com/valyala/fasthttp.(*Request)"}},
	{Group: "front end, rest", Prefixes: []string{"corenode/node/", "github.com/valyala/fasthttp."}},
}

const (
	partScheduler = "Go scheduler and the rest"
	partLedger    = "ledger and store"
)

// ledgerOf is the ledger's part of a breakdown.
func ledgerOf(b Breakdown, plain Row) *Ledger {
	l := &Ledger{}
	for _, p := range b.Parts {
		if p.Name == partLedger {
			l.Share, l.CPU = p.Share, p.CPU
		}
	}
	l.RatioWithout = plain.Ratio.Median * (1 - l.Share)
	return l
}

// breakdown profiles the node under plain requests and under long streams.
func (m *run) breakdown(ctx context.Context, r Report) ([]Breakdown, error) {
	var all []Breakdown
	for _, c := range []cell{{Node, Plain}, {Node, Long}, {Upstream, Plain}} {
		work := c.work
		if c.target != Node {
			work = c.target + " " + c.work
		}
		m.say("profiling: %s", work)
		b, err := m.profile(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("profile the node under %s: %w", work, err)
		}
		if err := m.keepProfile(work, b); err != nil {
			return nil, err
		}
		samples, err := profile.Parse(b)
		if err != nil {
			return nil, err
		}
		all = append(all, breakdownOf(samples, work, r.row(c.target, c.work).CPU.Median))
	}
	return all, nil
}

func breakdownOf(samples []profile.Sample, work string, cpu float64) Breakdown {
	b := Breakdown{Work: work}
	for _, s := range profile.Divide(samples, parts, partScheduler) {
		b.Parts = append(b.Parts, Part{s.Group, s.Part, s.Part * cpu})
	}
	for _, s := range profile.Top(samples, topFunctions) {
		b.Top = append(b.Top, Part{s.Group, s.Part, s.Part * cpu})
	}
	return b
}

func (m *run) keepProfile(work string, b []byte) error {
	if m.o.ProfileDir == "" {
		return nil
	}
	if err := os.MkdirAll(m.o.ProfileDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.o.ProfileDir, strings.NewReplacer(" ", "-", ",", "").Replace(work)+".pprof"), b, 0o644)
}

// profile takes a profile while the load runs a little longer on both ends.
func (m *run) profile(ctx context.Context, c cell) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	go func() {
		_, _, err := m.load(ctx, c, m.o.Profile+time.Second)
		if err != nil {
			cancel()
		}
		loaded <- err
	}()
	fetching, stop := context.WithTimeout(ctx, m.o.Profile+commandTimeout)
	defer stop()
	b, err := m.servers[c.target].node.Admin(fetching, fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(m.o.Profile.Seconds())))
	if err != nil {
		cancel()
	}
	if loadErr := <-loaded; loadErr != nil && err == nil {
		return nil, loadErr
	}
	return b, err
}

// command runs the node's program for one of its short commands.
func (m *run) command(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if out, err := proc.Command(ctx, m.o.Node, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, out)
	}
	return nil
}
