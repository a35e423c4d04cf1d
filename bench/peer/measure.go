package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"corenode/bench/client"
	"corenode/bench/drive"
	"corenode/bench/engine"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

const mib = 1 << 20

// run owns all that a run has started, until close.
type run struct {
	o    Options
	self string // path of this program
	dir  string // temporary, removed by close
	say  func(format string, args ...any)
	// fileBytes is the size of the model's file.
	fileBytes int64
	// size turns tokens into words: asked once, so that both sides get the same prompts.
	size workload.Calibration
}

// Run measures. self is the path of this program, which plays the busy one. It
// says what it does to say. Whatever it started is gone when it returns.
func Run(ctx context.Context, o Options, self string, say func(format string, args ...any)) (report Report, err error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	weights, err := engine.ReadWeights(o.Model)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Stat(o.Model)
	if err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "corebench-")
	if err != nil {
		return Report{}, err
	}
	r := &run{o: o, self: self, dir: dir, say: say, fileBytes: file.Size()}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	asked := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, s.name) })
	got := make([][][sides]outcome, len(asked))
	for i := range o.Rounds {
		round, err := r.round(ctx, i, asked)
		if i > 0 && ctx.Err() != nil {
			say("interrupted: only complete rounds count")
			break
		}
		if err != nil {
			return Report{}, err
		}
		for s := range asked {
			got[s] = append(got[s], round[s])
		}
	}
	report = Report{Schema: Schema, Host: proc.ReadHost(dir), Options: o, Model: filepath.Base(o.Model), Type: weights.Type, Weights: weights}
	for i, s := range asked {
		report.Rows = append(report.Rows, rowsOf(s, got[i], weights.Type)...)
	}
	return report, nil
}

// round visits both sides, every other one backwards.
func (r *run) round(ctx context.Context, number int, asked []scenario) ([][sides]outcome, error) {
	order := []side{node, other}
	if number%2 == 1 {
		order = []side{other, node}
	}
	all := make([][sides]outcome, len(asked))
	for _, s := range order {
		begun := time.Now()
		outcomes, err := r.visit(ctx, s, number, asked)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		for i := range asked {
			all[i][s] = outcomes[i]
		}
		r.say("round %d of %d: %s took %.0f s", number+1, r.o.Rounds, s, time.Since(begun).Seconds())
	}
	return all, nil
}

// visit starts one side, asks it everything, and stops it.
func (r *run) visit(ctx context.Context, s side, number int, asked []scenario) (outcomes []outcome, err error) {
	t, err := r.start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.child.Stop()) }()
	o, err := t.options()
	if err != nil {
		return nil, err
	}
	if r.size.PerWord == 0 {
		if r.size, err = drive.Calibrate(ctx, o); err != nil {
			return nil, err
		}
	}
	o.Shape.Size = r.size
	if _, err := r.drive(ctx, o, scenario{clients: 1, requests: 1, input: 64, output: 8, turns: 1}, seedOf(number, len(asked))); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	for i, one := range asked {
		out, err := r.ask(ctx, t, o, one, seedOf(number, i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", one.name, err), t.child.Alive())
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// seedOf makes prompts that are in nobody's cache: they differ between the
// scenarios and rounds of a run, and are the same on both sides.
func seedOf(round, scenario int) uint64 { return uint64(round)<<16 + uint64(scenario) + 1 }

// options are those of the load generator that no scenario changes. Thinking is
// off where a server knows the switch, and no answer ends early where it can be told so.
func (t target) options() (drive.Options, error) {
	address, err := client.ParseTarget(t.url)
	return drive.Options{
		Target: address, Connection: client.Options{Connect: 10 * time.Second}, Keys: []string{t.key},
		Template: protocol.Template{Protocol: protocol.Chat, Model: workload.Model, Stream: true,
			Extra: []byte(`{"ignore_eos":true,"chat_template_kwargs":{"enable_thinking":false}}`)},
		Clients: 1, Count: 1, InFlightMax: 1, Timeout: 10 * time.Minute, Shape: workload.Shape{Turns: 1},
	}, err
}

// ask runs one scenario and watches what others do meanwhile.
func (r *run) ask(ctx context.Context, t target, o drive.Options, s scenario, seed uint64) (out outcome, err error) {
	if s.busy {
		stop, busyErr := r.startBusy(ctx)
		if busyErr != nil {
			return out, busyErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	before, err := t.clocks()
	if err != nil {
		return out, err
	}
	records, err := r.drive(ctx, o, s, seed)
	if err != nil {
		return out, err
	}
	after, err := t.clocks()
	if err != nil {
		return out, err
	}
	out.values = valuesOf(s, records)
	out.values[resident] = float64(after.rss) / mib
	if t.data != "" {
		cache, err := proc.Metric(ctx, t.data, "corenode_cache_bytes")
		if err != nil {
			return out, err
		}
		out.values[beyond] = (float64(after.rss-r.fileBytes) - cache) / mib
	}
	if !s.busy { // there, what others take is the point
		out.foreign = after.machine.Sub(before.machine).Foreign(after.ours - before.ours)
	}
	out.failed = failedOf(s, records)
	return out, nil
}

// drive sends a scenario's requests and returns their records.
func (r *run) drive(ctx context.Context, o drive.Options, s scenario, seed uint64) (records []stats.Record, err error) {
	o.Clients, o.Count = s.clients, s.requests*s.turns
	o.Shape.Seed, o.Shape.Turns, o.Shape.PrefixTokens = seed, s.turns, s.system
	if o.Shape.Input, err = workload.ParseLengths(strconv.Itoa(s.input)); err != nil {
		return nil, err
	}
	if o.Shape.Output, err = workload.ParseLengths(strconv.Itoa(s.output)); err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards records: Ended is called from several goroutines
	_, err = drive.Run(ctx, o, drive.Watch{Ended: func(rec *stats.Record) {
		mu.Lock()
		defer mu.Unlock()
		one := *rec
		one.Gaps = nil // borrowed
		records = append(records, one)
	}})
	return records, errors.Join(err, ctx.Err())
}

// reading is all clocks at one moment.
type reading struct {
	ours    time.Duration // this process and the server
	machine proc.Machine
	rss     int64 // of the server
}

func (t target) clocks() (r reading, err error) {
	own, err := proc.Read(0)
	if err != nil {
		return r, err
	}
	server, err := proc.Read(t.child.PID())
	if err != nil {
		return r, err
	}
	r.ours, r.rss = own.CPU+server.CPU, server.RSS
	r.machine, err = proc.ReadMachine()
	return r, err
}
