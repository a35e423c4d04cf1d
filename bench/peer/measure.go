package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	o   Options
	dir string // temporary, removed by close
	say func(format string, args ...any)
	// fileBytes is the size of the model's file.
	fileBytes int64
	// size turns tokens into words: asked once, so that both sides get the same prompts.
	size workload.Calibration
}

// Run measures. It says what it does to say. Whatever it started is gone when it returns.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (report Report, err error) {
	if err := o.List().Validate(); err != nil {
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
	r := &run{o: o, dir: dir, say: say, fileBytes: file.Size()}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	asked := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return len(o.Only) > 0 && !slices.Contains(o.Only, s.name)
	})
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
	report = Report{Schema: Schema, Host: proc.ReadHost(dir), Options: o, Model: filepath.Base(o.Model),
		Type: weights.Type, Weights: weights}
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
	o, err := drive.Streams(t.url, t.key, template)
	if err != nil {
		return nil, err
	}
	if r.size.PerWord == 0 {
		if r.size, err = drive.Calibrate(ctx, o); err != nil {
			return nil, err
		}
	}
	o.Shape.Size = r.size
	warmUp := scenario{clients: 1, requests: 1, input: 64, output: 8, turns: 1}
	if _, err := r.drive(ctx, o, warmUp, seedOf(number, len(asked))); err != nil {
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

// template has thinking off where a server knows the switch, and no answer
// ends early where it can be told so.
var template = protocol.Template{Protocol: protocol.Chat,
	Extra: []byte(`{"ignore_eos":true,"chat_template_kwargs":{"enable_thinking":false}}`)}

// ask runs one scenario and watches what others do meanwhile.
func (r *run) ask(ctx context.Context, t target, o drive.Options, s scenario, seed uint64) (out outcome, err error) {
	if s.busy {
		stop, busyErr := r.startBusy(ctx)
		if busyErr != nil {
			return out, busyErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	before, err := proc.ReadClocks(t.child)
	if err != nil {
		return out, err
	}
	records, err := r.drive(ctx, o, s, seed)
	if err != nil {
		return out, err
	}
	after, err := proc.ReadClocks(t.child)
	if err != nil {
		return out, err
	}
	out.values = valuesOf(s, records)
	rss := after.Of[t.child].RSS
	out.values[resident] = float64(rss) / mib
	if t.node != nil {
		cache, err := t.node.Metric(ctx, "corenode_cache_bytes")
		if err != nil {
			return out, err
		}
		out.values[beyond] = (float64(rss-r.fileBytes) - cache) / mib
	}
	if !s.busy { // there, what others take is the point
		out.foreign = after.Foreign(before)
	}
	out.failed = failedOf(s, records)
	return out, nil
}

// drive sends a scenario's requests and returns their records.
func (r *run) drive(ctx context.Context, o drive.Options, s scenario, seed uint64) ([]stats.Record, error) {
	o.Clients, o.Count = s.clients, s.requests*s.turns
	o.Shape.Seed, o.Shape.Turns, o.Shape.PrefixTokens = seed, s.turns, s.system
	o.Shape.Input, o.Shape.Output = workload.Fixed(s.input), workload.Fixed(s.output)
	_, records, err := drive.Collect(ctx, o, false)
	return records, err
}
