// Package soak runs a node for hours under mixed traffic and says whether it stays as it is.
//
// A run starts one node with a small model and sends it requests over three protocols, of which
// three in ten are left by their clients, while modules are switched on and off, the configuration is read again and
// the clients' key is replaced.
// Now and then the traffic pauses: connections are closed, garbage is collected, and what the node still has is
// a sample. In the end the ledger is verified and the node's log looked through for errors. What decides is in judge.go
// and knows no processes.
package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"corenode/bench/option"
	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/workload"
)

// Options say what a run does.
type Options struct {
	Node     string        `json:"-"`
	Duration time.Duration `json:"duration_ns"`
	Traffic  time.Duration `json:"traffic_ns"`
	Clients  int           `json:"clients"`
	Samples  int           `json:"samples"`
}

// Defaults are the options of a run of an hour.
func Defaults() *Options {
	o := new(Options)
	o.List().Reset()
	return o
}

// List describes the options.
func (o *Options) List() option.List {
	return option.List{
		option.Text(&o.Node, "node", "bin/corenode", "a path", "the corenode program"),
		option.Duration(&o.Duration, "duration", time.Hour, 20*time.Second, 7*24*time.Hour, "how long the node is used"),
		option.Duration(&o.Traffic, "traffic", 0, 0, 7*24*time.Hour,
			"of how long the traffic is: above the duration, most requests go to a model that computes nothing"),
		option.Int(&o.Clients, "clients", 4, 1, 256, "clients that send requests at once"),
		option.Int(&o.Samples, "samples", 40, 10, 1000, "how often the traffic pauses and the node is looked at"),
	}
}

// pace is how many times denser than usual a run's traffic is, at least 1.
func (o *Options) pace() float64 { return max(1, float64(o.Traffic)/float64(o.Duration)) }

// actionEvery is how far apart an operator's actions are: sixty in an hour of traffic, at least sixty in a run.
func (o *Options) actionEvery() time.Duration {
	return min(o.Duration/60, time.Duration(float64(time.Minute)/o.pace()))
}

// warmShare is the part of a run in which caches, rings and pools fill up.
const warmShare = 5

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.soak/1"

// Report is what came out, as it is written to a file.
type Report struct {
	Schema   string    `json:"schema"`
	Host     proc.Host `json:"host"`
	Options  Options   `json:"options"`
	Samples  []Sample  `json:"samples"`
	Trends   []Trend   `json:"trends"`
	Counts   Counts    `json:"requests"`
	Halfway  int64     `json:"whole_halfway"` // Whole of the first sample of the second half
	Swaps    int       `json:"module_swaps"`
	Reloads  int       `json:"reloads"`
	Keys     int       `json:"key_changes"`
	Verified string    `json:"ledger"` // what verify said
	Sound    bool      `json:"ledger_sound"`
	Errors   int       `json:"errors"`           // that the node logged
	Logged   []string  `json:"logged,omitempty"` // the first of them
}

// Met says whether nothing was missed.
func (r Report) Met() bool { return len(r.missed()) == 0 }

// refusedMax is the share of a second half's requests that may be refused: a moment of overload. The usual clients are fewer
// than a node refuses by its limits, and one that refuses all between two of the usual samples, for a fifth of that time, is above it.
const refusedMax = 0.01

// spanMin is how many requests have to end between two samples for that to be more than chance when none is answered: three
// in ten are left.
const spanMin = 10

// middle is the first sample of the second half; a zero one if there is none.
func (r Report) middle() (s Sample) {
	if i := slices.IndexFunc(r.Samples, func(s Sample) bool { return s.At >= r.Options.Duration/2 }); i >= 0 {
		s = r.Samples[i]
	}
	return s
}

// silent says whether requests ended between two samples and none was answered.
func (r Report) silent() bool {
	for i := 1; i < len(r.Samples); i++ {
		a, b := r.Samples[i-1], r.Samples[i]
		if b.Requests-a.Requests >= spanMin && b.Whole == a.Whole {
			return true
		}
	}
	return false
}

// missed says what is not as it must be: something grows or went wrong, or something that is to be seen was not done.
func (r Report) missed() (all []string) {
	middle := r.middle()
	refused, requests := r.Counts.Refused-middle.Refused, r.Counts.requests()-middle.Requests
	for _, one := range []struct {
		missed bool
		what   string
	}{
		{len(r.Trends) == 0 || slices.ContainsFunc(r.Trends, func(t Trend) bool { return !t.Flat }), "not all is flat"},
		{!r.Sound, "the ledger is not sound"},
		{r.Errors > 0, "the node logged errors"},
		{len(r.Counts.Wrong) > 0, "requests went wrong"},
		{r.Counts.Whole <= middle.Whole, "no answer in the second half"},
		{float64(refused) > refusedMax*float64(requests),
			fmt.Sprintf("%d of %d requests of the second half were refused", refused, requests)},
		{r.silent(), "no answer between two samples"},
		{r.Counts.Aborted == 0, "no answer was left by its client"},
		{r.Swaps == 0 || r.Reloads == 0 || r.Keys == 0, "an operator's action was never done"},
	} {
		if one.missed {
			all = append(all, one.what)
		}
	}
	return all
}

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%v of %d clients at %.3g times the usual pace: %d answers, %d left by their clients, %d refused; "+
		"%d switches of modules, %d reloads, %d new keys\n\n", r.Host, r.Options.Duration, r.Options.Clients, r.Options.pace(),
		r.Counts.Whole, r.Counts.Aborted, r.Counts.Refused, r.Swaps, r.Reloads, r.Keys)
	var rows [][]string
	for _, t := range r.Trends {
		verdict := "flat"
		if !t.Flat {
			verdict = "GROWS"
		}
		rows = append(rows, []string{t.Name, report.Number(t.Median), report.Number(t.Growth), report.Number(t.Halves),
			report.Number(t.Allowed), verdict})
	}
	if err := report.Table(w, []string{"WHAT", "MEDIAN", "GROWTH", "2ND HALF", "ALLOWED", ""}, rows); err != nil {
		return err
	}
	for what, n := range r.Counts.Wrong {
		fmt.Fprintf(w, "%d requests went wrong: %s\n", n, what)
	}
	if r.Errors > 0 {
		fmt.Fprintf(w, "the node logged %d errors, first:\n%s\n", r.Errors, strings.Join(r.Logged, "\n"))
	}
	_, err := fmt.Fprintf(w, "\nledger: %s\n", r.Verified)
	if missed := r.missed(); err == nil && len(missed) > 0 {
		_, err = fmt.Fprintf(w, "MISSED: %s\n", strings.Join(missed, "; "))
	}
	return err
}

// run owns what a run has started, until close.
type run struct {
	o    Options
	dir  string
	node *proc.Node
	say  func(format string, args ...any)

	mu                   sync.Mutex // guards all below
	swaps, reloads, keys int
	keyID                string // of the key that was made last
}

const config = `listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
log: {level: %s}
modules: {cache_dir: %q}
limits: {session_idle: 20s}
models:
  %s:
    context_length: 4096
    kv: {memory_bytes: 64MiB, state_memory_bytes: 32MiB}
  %s: {engine: instant, context_length: 4096}
`

// configFor is the configuration with a level of the log, which reloads change.
func (m *run) configFor(level string) []byte {
	return fmt.Appendf(nil, config, level, filepath.Join(m.dir, "modules"), workload.Model, modelInstant)
}

// Run runs a node for o.Duration and judges it. What it started is gone when it returns.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (r Report, err error) {
	if err := o.List().Validate(); err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "corebench-")
	if err != nil {
		return r, err
	}
	m := &run{o: o, dir: dir, say: say}
	defer func() {
		if m.node != nil {
			err = errors.Join(err, m.node.Stop())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	r.Schema, r.Host, r.Options = Schema, proc.ReadHost(dir), o
	m.node, err = proc.StartNode(ctx, proc.Spec{Name: "node", Path: o.Node, Dir: dir}, m.configFor("info"))
	if err != nil {
		return r, err
	}
	if err := m.node.AwaitModules(ctx); err != nil {
		return r, err
	}
	if _, err := m.command(ctx, "account", "topup", "default", "1000000"); err != nil {
		return r, err
	}
	if err := m.soak(ctx, &r); err != nil {
		return r, errors.Join(err, m.node.Alive())
	}
	r.Verified, err = m.command(ctx, "ledger", "verify")
	r.Sound = err == nil
	if err != nil {
		r.Verified = err.Error()
	}
	if r.Logged, r.Errors, err = m.node.Errors(); err != nil {
		return r, err
	}
	r.Trends, err = Judge(r.Samples, o.Duration/warmShare)
	return r, err
}

// soak uses the node and samples it.
func (m *run) soak(ctx context.Context, r *Report) error {
	t, err := newTraffic(m.node.URL, m.node.Key, m.o.pace())
	if err != nil {
		return err
	}
	ending, end := context.WithTimeout(ctx, m.o.Duration)
	defer end()
	var all sync.WaitGroup
	var operating error
	all.Go(func() { t.run(ending, m.o.Clients) })
	all.Go(func() {
		if operating = m.operate(ending, t); operating != nil {
			end() // of hours of it
		}
	})
	began := time.Now()
	tick := time.NewTicker(m.o.Duration / time.Duration(m.o.Samples+1))
	defer tick.Stop()
	for err == nil && ending.Err() == nil {
		select {
		case <-tick.C:
			err = m.still(t, func() error { return m.sample(ctx, t, began, &r.Samples) })
		case <-ending.Done():
		}
	}
	end()
	all.Wait()
	r.Counts, r.Swaps, r.Reloads, r.Keys = t.counts, m.swaps, m.reloads, m.keys
	r.Halfway = r.middle().Whole
	return errors.Join(err, operating, ctx.Err())
}

// still runs do while no command runs and the traffic pauses. Commands come first: one that replaces the key holds
// mu while it waits for the traffic.
func (m *run) still(t *traffic, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.pause(do)
}

// settle is how long a pause lets the node end what was left, and close connections.
const settle = time.Second

// sample looks at the node while it has nothing to do.
func (m *run) sample(ctx context.Context, t *traffic, began time.Time, to *[]Sample) error {
	time.Sleep(settle)
	if _, err := m.node.Admin(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return err
	}
	s := Sample{At: time.Since(began)}
	s.Requests, s.Whole, s.Refused = t.soFar()
	usage, err := proc.Read(m.node.PID())
	s.Resident = float64(usage.RSS)
	if err == nil {
		s.Modules, err = m.node.Metric(ctx, "corenode_module_memory_bytes")
	}
	if err == nil {
		s.Goroutines, err = m.node.Metric(ctx, "go_goroutines")
	}
	if err == nil {
		s.Descriptors, err = m.node.Metric(ctx, "process_open_fds")
	}
	*to = append(*to, s)
	m.say("%8s: %.0f MiB, of which modules %.0f, %.0f goroutines, %.0f descriptors", s.At.Round(time.Second), s.Resident/(1<<20),
		s.Modules/(1<<20), s.Goroutines, s.Descriptors)
	return err
}

// operate switches modules on and off, has the configuration read again and replaces the clients' key, in turn.
func (m *run) operate(ctx context.Context, t *traffic) error {
	tick := time.NewTicker(m.o.actionEvery())
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := m.change(ctx, i, t); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (m *run) change(ctx context.Context, i int, t *traffic) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := []string{"ollama", "completions"}[i/5%2]
	switch i % 5 {
	case 0:
		_, err = m.command(ctx, "module", "enable", name)
		m.swaps++
	case 2:
		_, err = m.command(ctx, "module", "disable", name)
		m.swaps++
	case 4:
		err = m.newKey(ctx, t)
		m.keys++
	default:
		m.reloads++
		level := []string{"info", "warn"}[m.reloads%2]
		if err = os.WriteFile(filepath.Join(m.dir, "node.yaml"), m.configFor(level), 0o600); err == nil {
			_, err = m.command(ctx, "reload")
		}
	}
	return err
}

// newKey makes a key, gives it to the clients and revokes the one before.
func (m *run) newKey(ctx context.Context, t *traffic) error {
	said, err := m.command(ctx, "key", "create", "default", "--json")
	if err != nil {
		return err
	}
	var made struct {
		ID     string
		Secret string `json:"key"`
	}
	if err := json.Unmarshal([]byte(said), &made); err != nil || made.Secret == "" {
		return fmt.Errorf("key create said %.200q, which is no key (%v)", said, err)
	}
	t.setKey(made.Secret)
	before := m.keyID
	m.keyID = made.ID
	if before != "" { // the first start's stays
		_, err = m.command(ctx, "key", "revoke", before)
	}
	return err
}

// command runs one of the node's commands and returns what it prints; what it says beside that is in its error.
func (m *run) command(ctx context.Context, args ...string) (string, error) {
	out, err := proc.Command(ctx, m.o.Node, append(args, "--data-dir", m.node.Data)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("corenode %s: %w: %.500s%.500s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
