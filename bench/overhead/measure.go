package overhead

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"corenode/bench/drive"
	"corenode/bench/floor"
	"corenode/bench/proc"
	"corenode/bench/protocol"
	"corenode/bench/report"
	"corenode/bench/stats"
	"corenode/bench/workload"
	"corenode/engine/embedded"
)

// server is one process under measurement.
type server struct {
	child *proc.Child
	node  *proc.Node // nil for others
	key   string
	url   string
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
	if err := o.List().Validate(); err != nil {
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
		r.UpstreamLedger = ledgerOf(r.Breakdown[2], r.row(Upstream, Plain))
		r.Gates = append(r.Gates, upstreamGates(r, o)...)
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
	m.say("starting the mock, the pass-through and three nodes")
	self, err := os.Executable() // serves the mock and the pass-through too
	if err != nil {
		return err
	}
	listening := func(line string) (string, bool) { return strings.CutPrefix(line, "listening on ") }
	var upstream string
	m.mock, upstream, err = proc.Start(ctx, proc.Spec{Name: "mock", Path: self, Args: []string{"__mock"}, Dir: m.dir, Ready: listening})
	if err != nil {
		return err
	}
	through, addr, err := proc.Start(ctx, proc.Spec{Name: "pass-through", Path: self,
		Args: []string{"__passthrough", "--upstream", upstream}, Dir: m.dir, Ready: listening})
	if err != nil {
		return err
	}
	m.servers[PassThrough] = &server{child: through, url: "http://" + addr, key: "none"}
	file := filepath.Join(m.dir, "model.gguf")
	if err := os.WriteFile(file, embedded.Model(workload.Model), 0o600); err != nil {
		return err
	}
	instant := map[string]string{workload.Model: "engine: instant",
		workload.ModelPaced: fmt.Sprintf("engine: instant, step_time: %v, path: %q", floor.Pace, file)}
	if err := m.startNode(ctx, Node, "node", "info", instant); err != nil {
		return err
	}
	asks := func(path string) string { // the mock; the prompt's tokens are counted as the others do
		return fmt.Sprintf("engine: upstream, context_length: 262144, upstream: {flavour: corenode, urls: [%q], tokenizer: %q}",
			"http://"+upstream+path, file)
	}
	if err := m.startNode(ctx, Upstream, "node-upstream", "info", map[string]string{workload.Model: asks(""),
		workload.ModelAtOnce: asks(floor.AtOnce), workload.ModelPaced: asks(floor.Paced)}); err != nil {
		return err
	}
	if err := m.startNode(ctx, NodeQuiet, "node-no-log", "warn", map[string]string{workload.Model: "engine: instant"}); err != nil {
		return err
	}
	if m.o.LiteLLM == "" {
		return nil
	}
	return m.startLiteLLM(ctx, "http://"+upstream)
}

// nodeConfig is of a node whose models always say the likeliest token. Nothing else
// differs from the defaults but the log and that the nodes share what they compile
// of their modules.
const nodeConfig = `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
log:
  level: %s
modules:
  cache_dir: %q
models:
`

// nodeModel is a model of that configuration: its id, and what computes it.
const nodeModel = `  %s: {%s, sampling: {temperature: 0, presence_penalty: 0}, prices: {input: "0.1", cached_input: "0.1", output: "0.1"}}
`

func (m *run) startNode(ctx context.Context, target, name, logLevel string, models map[string]string) error {
	config := fmt.Appendf(nil, nodeConfig, logLevel, filepath.Join(m.dir, "modules"))
	for id, engine := range models {
		config = fmt.Appendf(config, nodeModel, id, engine)
	}
	n, err := proc.StartNode(ctx, proc.Spec{Name: name, Path: m.o.Node, Dir: m.dir}, config)
	if err != nil {
		return err
	}
	m.servers[target] = &server{child: n.Child, node: n, url: n.URL, key: n.Key} // from here on close stops it
	if err := n.AwaitModules(ctx); err != nil {
		return err
	}
	// The node's first account becomes an ordinary one, whose money and limits
	// are checked, with more of each than a run can use.
	for _, args := range [][]string{
		{"account", "topup", "default", "1000000"},
		{"account", "set", "default", "--unlimited=false", "--concurrency", "100000", "--tokens-per-minute", "1000000000"},
	} {
		if err := m.command(ctx, append(args, "--data-dir", n.Data)); err != nil {
			return err
		}
	}
	return nil
}

// warmUp loads every cell once, where there is to be a warm-up.
func (m *run) warmUp(ctx context.Context) error {
	if m.o.Warmup == 0 { // a load without a length would not end
		return nil
	}
	m.say("warming up")
	for _, c := range m.o.cells() {
		if _, _, err := m.load(ctx, c, m.o.Warmup); err != nil {
			return fmt.Errorf("%s, %s: %w", c.target, c.work, err)
		}
	}
	return nil
}

// rounds warms every cell up and then measures all of them, round by round.
func (m *run) rounds(ctx context.Context) ([]Sample, error) {
	if err := m.warmUp(ctx); err != nil {
		return nil, err
	}
	var samples []Sample
	for round := range m.o.Rounds {
		begun, worst := time.Now(), 0.0
		for _, c := range order(m.o.cells(), round) {
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

// load puts one cell's load on its server. Its connections are its own: a
// server closes one that sends nothing for some seconds, and other cells may
// take minutes. Each request must find its client's connection open.
func (m *run) load(ctx context.Context, c cell, length time.Duration) (stats.Run, []stats.Record, error) {
	s := m.servers[c.target]
	url := s.url
	if c.target == PassThrough && c.work == Paced {
		url += floor.Paced
	}
	o, err := drive.Streams(url, s.key, protocol.Template{Protocol: protocol.Messages})
	if err != nil {
		return stats.Run{}, nil, err
	}
	o.Clients, o.Count, o.Duration, o.Timeout = m.o.Clients, 0, length, replyTimeout
	switch c.work {
	case Plain:
		o.Body, o.Template.Stream = workload.Messages(m.o.PlainTokens, false), false
		if c.target == Upstream {
			o.Body = bytes.ReplaceAll(o.Body, []byte(workload.Model), []byte(workload.ModelAtOnce))
		}
	case Count:
		o.Body, o.Template.Stream, o.Template.Protocol = workload.Count(), false, protocol.Count
	case Short:
		o.Body = workload.Messages(m.o.ShortTokens, true)
	case Single:
		o.Clients = 1
		fallthrough
	case Long:
		o.Body = workload.Messages(m.o.LongTokens, true)
	case Paced:
		o.Clients = m.o.PacedClients
		o.Body = bytes.ReplaceAll(workload.Messages(m.o.LongTokens, true), []byte(workload.Model), []byte(workload.ModelPaced))
	}
	r, records, err := drive.Collect(ctx, o, true)
	if err == nil && r.Harness.Connections > int64(o.Clients) {
		err = errors.New("the server closes connections: each request is to find one open")
	}
	return r, records, err
}

const replyTimeout = 30 * time.Second

// measure runs one cell between two readings of the clocks.
func (m *run) measure(ctx context.Context, c cell) (Sample, error) {
	before, err := m.read()
	if err != nil {
		return Sample{}, err
	}
	r, records, err := m.load(ctx, c, m.o.Duration)
	if err != nil {
		return Sample{}, err
	}
	after, err := m.read()
	if err != nil {
		return Sample{}, err
	}
	child := m.servers[c.target].child
	s := Sample{Target: c.target, Work: c.work, Replies: int64(len(records)),
		CPU: micros(after.Of[child].CPU - before.Of[child].CPU), RSS: after.Of[child].RSS,
		P50: 1e3 * r.Latency["e2e"].P50, P99: 1e3 * r.Latency["e2e"].P99, Foreign: after.Foreign(before),
		First: report.SpreadBy(records, func(rec stats.Record) float64 { return micros(rec.Answered - rec.Sent) }).Median}
	for _, rec := range records {
		s.Bytes, s.Writes = s.Bytes+int64(rec.Bytes), s.Writes+int64(rec.Chunks)
		s.Events, s.Tokens = s.Events+int64(rec.Events), s.Tokens+int64(rec.OutputTokens)
		s.Seconds = max(s.Seconds, rec.End.Seconds())
	}
	return s, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// read reads the clocks of all processes of the run, this one too.
func (m *run) read() (proc.Clocks, error) {
	children := []*proc.Child{m.mock}
	for _, s := range m.servers {
		children = append(children, s.child)
	}
	return proc.ReadClocks(children...)
}
