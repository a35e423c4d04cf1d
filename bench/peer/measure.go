package peer

import (
	"cmp"
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

// run owns all that a run has started, until its end.
type run struct {
	o   Options
	dir string // temporary, removed at the end
	say func(format string, args ...any)
	// fileBytes is the size of the model's file.
	fileBytes int64
	setting   Setting
	node      string // its version
	versions  [len(peers)]string
	// size turns tokens into words: asked once, so that all sides get the same prompts.
	size workload.Calibration
}

// Run measures. It says what it does to say. Whatever it started is gone when it returns.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (report Report, err error) {
	if err := o.List().Validate(); err != nil {
		return Report{}, err
	}
	rounds, err := readRounds(o.RoundsFile)
	if err != nil {
		return Report{}, err
	}
	if o.Rounds == 0 && len(rounds) == 0 {
		return Report{}, fmt.Errorf("--rounds is 0, and --rounds-file %q has no round: nothing can be in the table", o.RoundsFile)
	}
	dir, err := os.MkdirTemp("", "corebench-")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{o: o, dir: dir, say: say}
	all := rounds
	if o.Rounds > 0 {
		if err := r.prepare(ctx); err != nil {
			return Report{}, err
		}
		all = append(slices.Clone(rounds), r.empty())
	}
	if err := mixed(all); err != nil {
		return Report{}, err
	}
	begun, longest := time.Now(), time.Duration(0)
	for i := range o.Rounds {
		if time.Since(begun)+longest > o.Limit {
			say("no time for another round")
			break
		}
		roundBegun := time.Now()
		round, err := r.round(ctx, i, rounds)
		if ctx.Err() != nil && len(rounds) > 0 {
			say("interrupted: only complete rounds count")
			break
		}
		if err != nil {
			return Report{}, err
		}
		if err := addRound(o.RoundsFile, round); err != nil {
			return Report{}, err
		}
		rounds, longest = append(rounds, round), max(longest, time.Since(roundBegun))
	}
	return reportOf(rounds), nil
}

// prepare finds out what does not change during a run.
func (r *run) prepare(ctx context.Context) error {
	weights, err := engine.ReadWeights(r.o.Model)
	if err != nil {
		return err
	}
	info, err := os.Stat(r.o.Model)
	if err != nil {
		return err
	}
	r.fileBytes = info.Size()
	r.setting = Setting{filepath.Base(r.o.Model), weights.Type, cmp.Or(r.o.Level, native), r.o.Threads}
	if r.node, err = nodeVersion(ctx, r.o.Node); err != nil {
		return err
	}
	for i, path := range r.o.Paths {
		if path != "" {
			if r.versions[i], err = r.version(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty is a round of which only its machine, its setting and its sides are known: the node, then peers.
func (r *run) empty() Round {
	round := Round{Schema: RoundSchema, Began: time.Now(), Host: proc.ReadHost(r.dir), Setting: r.setting,
		Sides: []Side{{Name: nodeName, Version: r.node}}}
	for i, path := range r.o.Paths {
		if path != "" {
			round.Sides = append(round.Sides, Side{Name: peers[i].name, Version: r.versions[i], Flags: r.o.Flags[i]})
		}
	}
	return round
}

// backwards says whether the next round of a setting goes from the last side to the first: every other one does, also
// where a run is cut into several.
func backwards(before []Round, of Setting) bool {
	odd := false
	for i := range before {
		odd = odd != (before[i].Setting == of)
	}
	return odd
}

// round visits all sides. Seeds follow the number of rounds before, those that the file had already among them.
func (r *run) round(ctx context.Context, number int, before []Round) (Round, error) {
	round, seed := r.empty(), len(before)
	if backwards(before, r.setting) {
		slices.Reverse(round.Sides)
	}
	for i := range round.Sides {
		side, start := &round.Sides[i], r.startNode
		if p := slices.IndexFunc(peers[:], func(p peer) bool { return p.name == side.Name }); p >= 0 {
			start = func(ctx context.Context) (target, error) { return r.startPeer(ctx, p) }
		}
		begun := time.Now()
		var err error
		if side.Scenarios, err = r.visit(ctx, start, seed); err != nil {
			return Round{}, fmt.Errorf("%s: %w", side.Name, err)
		}
		r.say("round %d of %d, %s %s: %s took %.0f s", number+1, r.o.Rounds, r.setting.Model, r.setting.Level, side.Name,
			time.Since(begun).Seconds())
	}
	return round, nil
}

// visit starts one side, asks it everything, and stops it.
func (r *run) visit(ctx context.Context, start func(context.Context) (target, error), seed int) (got map[string]outcome, err error) {
	t, err := start(ctx)
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
	if _, err := r.drive(ctx, o, warmUp, seedOf(seed, len(scenarios))); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	got = map[string]outcome{}
	for i, one := range r.o.asked() {
		out, err := r.ask(ctx, t, o, one, seedOf(seed, i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", one.name, err), t.child.Alive())
		}
		got[one.name] = out
	}
	return got, nil
}

// seedOf makes prompts that are in nobody's cache: they differ between the
// scenarios and rounds of a run, and are the same on all sides.
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
	out.Values = valuesOf(s, records)
	rss := after.Of[t.child].RSS
	out.Values[resident] = float64(rss) / mib
	if t.node != nil {
		cache, err := t.node.Metric(ctx, "corenode_cache_bytes")
		if err != nil {
			return out, err
		}
		out.Values[beyond] = (float64(rss-r.fileBytes) - cache) / mib
	}
	if !s.busy { // there, what others take is the point
		out.Foreign = after.Foreign(before)
	}
	out.Failed = failedOf(s, records)
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
