package overhead

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"corenode/bench/load"
	"corenode/bench/proc"
	"corenode/bench/workload"
)

// server is one process under measurement.
type server struct {
	child *proc.Child
	dir   string // a node's data, empty for others
	key   string
	addr  string
}

// run owns all that a run has started, until close.
type run struct {
	o       Options
	dir     string // temporary, removed by close
	say     func(format string, args ...any)
	mock    *proc.Child
	servers map[string]*server
}

// Run measures. It says what it does to say. Whatever it started is gone when
// it returns, also after an error and when ctx ends.
func Run(ctx context.Context, o Options, say func(format string, args ...any)) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "corebench-")
	if err != nil {
		return Report{}, err
	}
	m := &run{o: o, dir: dir, say: say, servers: map[string]*server{}}
	defer func() { err = errors.Join(err, m.close()) }()
	host := proc.ReadHost(dir)
	if err := m.start(ctx); err != nil {
		return Report{}, err
	}
	samples, err := m.rounds(ctx)
	if err != nil {
		return Report{}, errors.Join(err, m.alive())
	}
	r = Summarize(samples, o)
	r.Host = host
	if o.Profile > 0 {
		if r.Breakdown, err = m.breakdown(ctx, r); err != nil {
			return Report{}, errors.Join(err, m.alive())
		}
		r.Ledger = ledgerOf(r.Breakdown[0], r.row(Node, Plain))
	}
	return r, nil
}

func (m *run) close() error {
	var errs []error
	for _, s := range m.servers {
		errs = append(errs, s.child.Stop())
	}
	if m.mock != nil {
		errs = append(errs, m.mock.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(m.dir))...)
}

// alive says which server has ended, if one has: then its log is the reason.
func (m *run) alive() error {
	errs := []error{m.mock.Alive()}
	for _, s := range m.servers {
		errs = append(errs, s.child.Alive())
	}
	return errors.Join(errs...)
}

func (m *run) start(ctx context.Context) (err error) {
	m.say("starting the mock, the pass-through and two nodes")
	listening := func(line string) (string, bool) { return strings.CutPrefix(line, "listening on ") }
	var upstream string
	m.mock, upstream, err = proc.Start(ctx, proc.Spec{Name: "mock", Path: m.o.Self, Args: []string{"__mock"}, Dir: m.dir, Ready: listening})
	if err != nil {
		return err
	}
	through, addr, err := proc.Start(ctx, proc.Spec{Name: "pass-through", Path: m.o.Self,
		Args: []string{"__passthrough", "--upstream", upstream}, Dir: m.dir, Ready: listening})
	if err != nil {
		return err
	}
	m.servers[PassThrough] = &server{child: through, addr: addr, key: "none"}
	if err := m.startNode(ctx, Node, "node", "info"); err != nil {
		return err
	}
	return m.startNode(ctx, NodeQuiet, "node-no-log", "warn")
}

// nodeConfig serves the one model by an engine that computes nothing and always
// picks the likeliest token. Nothing else differs from the defaults but the log
// and that the nodes share what they compile of their modules.
const nodeConfig = `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
log:
  level: %s
modules:
  cache_dir: %q
models:
  %s:
    engine: instant
    sampling:
      temperature: 0
      presence_penalty: 0
`

func (m *run) startNode(ctx context.Context, target, name, logLevel string) error {
	data, config := filepath.Join(m.dir, name), filepath.Join(m.dir, name+".yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, nodeConfig, logLevel, filepath.Join(m.dir, "modules"), workload.Model), 0o600); err != nil {
		return err
	}
	child, base, err := proc.Start(ctx, proc.Spec{Name: name, Path: m.o.Node, Dir: m.dir,
		Args: []string{"serve", "--config", config, "--data-dir", data}, Ready: proc.BaseURL})
	if err != nil {
		return err
	}
	s := &server{child: child, dir: data, addr: strings.TrimPrefix(base, "http://")}
	m.servers[target] = s // from here on close stops it
	if err := proc.AwaitModules(ctx, data); err != nil {
		return err
	}
	s.key, err = m.account(ctx, data)
	return err
}

// account makes the node's first account an ordinary one, whose money and
// limits are checked, with more of each than a run can use.
func (m *run) account(ctx context.Context, data string) (key string, err error) {
	if key, err = proc.DefaultKey(data); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"account", "topup", "default", "1000000"},
		{"account", "set", "default", "--unlimited=false", "--concurrency", "100000", "--tokens-per-minute", "1000000000"},
	} {
		if err := m.command(ctx, append(args, "--data-dir", data)); err != nil {
			return "", err
		}
	}
	return key, nil
}

// rounds warms every cell up and then measures all of them, round by round.
func (m *run) rounds(ctx context.Context) ([]Sample, error) {
	m.say("warming up")
	for _, c := range cells {
		if err := m.warm(ctx, c, m.o.Warmup); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.target, c.work, err)
		}
	}
	var samples []Sample
	for round := range m.o.Rounds {
		begun, worst := time.Now(), 0.0
		for _, c := range order(round) {
			s, err := m.measure(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.target, c.work, err)
			}
			s.Round = round
			samples, worst = append(samples, s), max(worst, s.Foreign)
		}
		m.say("round %d of %d: %.1f s, at most %.1f %% of the machine used by others",
			round+1, m.o.Rounds, time.Since(begun).Seconds(), 100*worst)
	}
	return samples, nil
}

// connect opens the clients of one cell, for it alone: a server closes a
// connection that sends nothing for some seconds, and other cells may take minutes.
func (m *run) connect(ctx context.Context, c cell) (*load.Clients, error) {
	n := m.o.Clients
	if c.work == Single {
		n = 1
	}
	return load.Open(ctx, m.servers[c.target].addr, n)
}

func (m *run) load(ctx context.Context, clients *load.Clients, c cell, length time.Duration) (load.Result, error) {
	s := m.servers[c.target]
	path, body, stream := workload.PathMessages, []byte(nil), true
	switch c.work {
	case Plain:
		body, stream = workload.Messages(m.o.PlainTokens, false), false
	case Count:
		path, body, stream = workload.PathCount, workload.Count(), false
	case Short:
		body = workload.Messages(m.o.ShortTokens, true)
	case Long, Single:
		body = workload.Messages(m.o.LongTokens, true)
	}
	return clients.Run(ctx, load.Request{Bytes: workload.HTTP(s.addr, path, s.key, body, stream), Stream: stream}, length)
}

// warm runs one cell and measures nothing.
func (m *run) warm(ctx context.Context, c cell, length time.Duration) error {
	clients, err := m.connect(ctx, c)
	if err != nil {
		return err
	}
	defer clients.Close()
	_, err = m.load(ctx, clients, c, length)
	return err
}

// measure runs one cell between two readings of the clocks.
func (m *run) measure(ctx context.Context, c cell) (Sample, error) {
	clients, err := m.connect(ctx, c)
	if err != nil {
		return Sample{}, err
	}
	defer clients.Close()
	pid := m.servers[c.target].child.PID()
	before, err := m.read(pid)
	if err != nil {
		return Sample{}, err
	}
	r, err := m.load(ctx, clients, c, m.o.Duration)
	if err != nil {
		return Sample{}, err
	}
	after, err := m.read(pid)
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		Target: c.target, Work: c.work, Replies: r.Replies, Bytes: r.Bytes, Writes: r.Chunks,
		Events: r.Events, Tokens: r.Tokens, Seconds: r.Took.Seconds(),
		CPU: micros(after.server.CPU - before.server.CPU), RSS: after.server.RSS,
		P50: float64(r.Latency.ValueAtQuantile(50)), P99: float64(r.Latency.ValueAtQuantile(99)),
		First:   float64(r.First.ValueAtQuantile(50)),
		Foreign: after.machine.Sub(before.machine).Foreign(after.ours - before.ours),
	}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// reading is all clocks at one moment.
type reading struct {
	server  proc.Usage
	ours    time.Duration // all processes of the run, this one too
	machine proc.Machine
}

func (m *run) read(pid int) (r reading, err error) {
	pids := []int{0, m.mock.PID()}
	for _, s := range m.servers {
		pids = append(pids, s.child.PID())
	}
	for _, p := range pids {
		u, err := proc.Read(p)
		if err != nil {
			return reading{}, err
		}
		r.ours += u.CPU
		if p == pid {
			r.server = u
		}
	}
	r.machine, err = proc.ReadMachine()
	return r, err
}
