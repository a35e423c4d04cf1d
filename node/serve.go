package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// serve runs a node until a signal ends it.
func serve(from config.Sources, out, logTo io.Writer) error {
	signals := watchSignals() // before the configuration is read: a hangup then is a reload already
	defer signals.close()
	cfg, err := config.Load(from)
	if err != nil {
		return err
	}
	lines := newLogWriter(&utf8Writer{to: logTo})
	defer lines.Close()
	log, level, err := newLogger(cfg, lines)
	if err != nil {
		return err
	}
	again := newReloader(from, cfg, level, log)
	n, err := openUnless(signals, again, cfg, log)
	if n == nil {
		return err
	}
	again.modules = n.modules
	n.serving.Go(func() { again.run(n.stopped) })
	n.begin()
	n.greet(out)
	err = n.untilAsked(signals, again)
	go signals.endDrain(log, again.ask, lines)
	return errors.Join(err, n.stop())
}

// untilAsked waits until a signal or an operator asks the node to drain, or it cannot go on.
func (n *node) untilAsked(signals *signals, again *reloader) error {
	asked := func(how, what string) error {
		n.log.Info("draining", how, what, "timeout", n.cfg.Limits.DrainTimeout.String())
		return nil
	}
	for {
		select {
		case got := <-signals.stop:
			return asked("signal", got.String())
		case got := <-signals.hangup:
			if signals.hangupEnds {
				return asked("signal", got.String())
			}
			again.ask()
		case <-n.drainAsked:
			return asked("asked", "admin API")
		case err := <-n.failed:
			n.log.Error("the node cannot go on", "error", err.Error())
			return err
		}
	}
}

// openUnless opens a node; a signal gives it up, without an error. What is half
// done then is left as by a kill, which every step of a start survives: to wait
// for its end might take minutes, of packing weights or of replaying rows. A
// reload that is asked for meanwhile is for the node that serves.
func openUnless(signals *signals, again *reloader, cfg *config.Config, log *slog.Logger) (*node, error) {
	type opened struct {
		node *node
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		n, err := open(cfg, log, compileModules())
		done <- opened{n, err}
	}()
	for {
		var stopped os.Signal
		select {
		case o := <-done:
			return o.node, o.err
		case stopped = <-signals.stop:
		case stopped = <-signals.hangup:
			if !signals.hangupEnds {
				log.Info("the configuration will be read again when the node serves")
				again.ask()
				continue
			}
		}
		log.Info("stopped while starting", "signal", stopped.String())
		return nil, nil
	}
}

// node is everything that runs.
type node struct {
	cfg     *config.Config
	log     *slog.Logger
	store   *store.Store
	spill   *store.Spill
	modules *extensions.Host
	catalog *catalog
	tree    *tree.Tree
	server  *server.Server
	keys    *keyring
	keyFile string

	public, admin net.Listener
	withdraw      func() // takes the admin address out of the data folder

	drainOnce  sync.Once
	drainAsked chan struct{}
	stopped    chan struct{} // closed by stop
	failed     chan error    // what ends the node; has room for every sender
	serving    sync.WaitGroup

	compile []string              // the command that compiles modules; nil: the node itself
	adjust  func(*engine.Options) // of each model; nil outside of tests
}

// newLogger makes the node's log; level is what a reload sets.
func newLogger(cfg *config.Config, to io.Writer) (log *slog.Logger, level *slog.LevelVar, err error) {
	level = new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return nil, nil, err
	}
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})), level, nil
}

// open opens everything in the order in which it depends on each other, and
// closes what it had opened when something fails. compile is as in node.
func open(cfg *config.Config, log *slog.Logger, compile []string) (*node, error) {
	return openAdjusted(cfg, log, compile, nil)
}

// openAdjusted is open with other options of the models than the configuration's, for tests.
func openAdjusted(cfg *config.Config, log *slog.Logger, compile []string, adjust func(*engine.Options)) (*node, error) {
	n := &node{cfg: cfg, drainAsked: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan error, 4), withdraw: func() {},
		log: log, compile: compile, adjust: adjust}
	if err := n.open(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// begin serves.
func (n *node) begin() {
	n.serving.Go(func() { n.keys.run(n.stopped) })
	n.serving.Go(n.giveBackMemory)
	n.serving.Go(func() { n.fail(n.server.Serve(n.public)) })
	n.serving.Go(func() { n.fail(n.server.ServeAdmin(n.admin)) })
}

func (n *node) fail(err error) {
	if err != nil {
		n.failed <- err
	}
}

func (n *node) open() (err error) {
	keepPrivate()
	if err := os.MkdirAll(n.cfg.DataDir, 0o700); err != nil {
		return err
	}
	if n.store, err = store.Open(n.cfg.DataDir); err != nil {
		return err
	}
	if n.public, err = net.Listen("tcp", n.cfg.Listen); err != nil {
		return err
	}
	if n.admin, err = net.Listen("tcp", n.cfg.Admin.Listen); err != nil {
		return err
	}
	if n.keyFile, err = n.store.FirstStart(); err != nil {
		return err
	}
	if n.spill, err = store.OpenSpill(n.cfg.DataDir, int64(n.cfg.Ledger.SpillBytes)); err != nil {
		return err
	}
	if n.modules, err = n.openModules(); err != nil {
		return err
	}
	if err := n.replaySpilled(); err != nil {
		return err
	}
	if err := n.settleCrashed(); err != nil {
		return err
	}
	secret, err := n.store.Secret("node")
	if err != nil {
		return err
	}
	if n.keys, err = openKeyring(n.store, n.log); err != nil {
		return err
	}
	boundHeap()
	if n.catalog, err = openModels(n.cfg, observer{n}, n.log, n.adjust); err != nil {
		return err
	}
	if n.tree, err = n.startTree(secret); err != nil {
		return err
	}
	return n.openServer(secret)
}

// replayBatch is how many rows of the spill journal one transaction takes.
const replayBatch = 256

// damageSaid is how many bytes of damaged rows a log line has.
const damageSaid = 16 << 10

// replaySpilled brings what an outage left in the spill journal to the store. A
// row that it rejects is said and left out: it was never valid. So is one that
// cannot be read, as it stands there, since the journal forgets it.
func (n *node) replaySpilled() error {
	entries, err := n.spill.Entries()
	if err != nil || len(entries) == 0 {
		return err
	}
	for _, d := range n.spill.Damaged() {
		n.log.Error("the spill journal is damaged", "byte", d.At, "length", len(d.Bytes), "rows", fmt.Sprintf("%.*q", damageSaid, d.Bytes))
	}
	err = ledger.Replay(entries, replayBatch, n.store.Append, store.Rejects, func(e account.Entry, err error) {
		n.log.Error("a spilled row is not valid", "kind", e.Kind, "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	})
	if err != nil {
		return fmt.Errorf("replay the spill journal: %w", err)
	}
	n.log.Warn("replayed the spill journal", "rows", len(entries))
	return n.spill.Reset()
}

// settleCrashed closes what a killed process left open: each request pays what
// was delivered at its last checkpoint, at the prices of that process. Those of
// this one are kept when they are no longer needed.
func (n *node) settleCrashed() error {
	before, err := n.store.KeptPrices()
	if err != nil {
		return err
	}
	rate := func(e *account.Entry) error { return n.rateCrashed(e, before) }
	settled, err := n.store.SettleOpenHolds(account.Crashed, rate, func(e account.Entry, err error) {
		n.log.Error("a request that a crash left open cannot be settled", "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	})
	for _, e := range settled {
		n.log.Warn("settled a request that a crash left open", "id", e.RequestID, "account", e.AccountID,
			"model", e.Model, "charge_nano_usd", int64(-e.Amount))
	}
	if now := prices(n.cfg); err == nil && !maps.Equal(before, now) {
		err = n.store.KeepPrices(now)
	}
	return err
}

func (n *node) startTree(secret []byte) (*tree.Tree, error) {
	l := n.cfg.Limits
	return tree.Start(tree.Config{
		Secret: secret, AccountSessionsMax: l.SessionsPerAccount, AccountPinnedBytesMax: int64(l.PinnedBytesPerAccount),
		SessionIdleMax: l.SessionIdle, CountCached: l.CountCachedInput, Ledger: ledger.Config{Spill: n.spill, Rejects: store.Rejects},
	}, tree.Deps{
		Models: treeModels(n.catalog, l.QueueRequestsMax), Store: n.store, Accounts: n.store, Billing: billing{n.modules}, Policy: n.modules, Logger: n.log,
		Fatal: func(actor string, reason any) { n.failed <- fmt.Errorf("actor %s: %v", actor, reason) },
	})
}

func (n *node) openServer(secret []byte) error {
	token, withdraw, err := admin.Announce(n.cfg.DataDir, n.admin.Addr().String())
	if err != nil {
		return err
	}
	n.withdraw = withdraw
	l := n.cfg.Limits
	n.server, err = server.New(server.Config{
		BodyMax: int64(l.BodyBytesMax), BodiesMax: int64(l.BodyBytesTotal), HeaderMax: int(l.HeaderBytesMax),
		ReadTimeout: l.HeaderTimeout, BodyTimeout: l.BodyTimeout, IdleTimeout: l.IdleTimeout,
		StallTimeout: l.SlowReaderCancel, RequestTimeout: l.NonstreamingTimeout, KeepAlive: l.Keepalive,
		PreparesMax: l.PrepareConcurrency, ConnectionsMax: l.ConnectionsMax, CORSOrigins: n.cfg.Server.CORSOrigins, AdminToken: token,
	}, server.Deps{
		Backend: backend{n.tree}, Translators: translators{n.modules}, Catalog: n.catalog, Keys: n.keys.directory, Secret: secret,
		Ready: n.ready, Admin: admin.New(n.store, n, n.modules, n.log), Gauges: n.gauges(), Metrics: n.writeModuleMetrics, DebugState: func() any { return n.tree.Inspect() },
		StartDrain: n.Drain, Log: n.log,
	})
	return err
}

// Changed makes the node see a changed account, its keys and its money.
func (n *node) Changed(accountID string) {
	n.keys.changed(accountID)
	n.tree.AccountChanged(accountID)
}

// Drain begins the shutdown and returns at once.
func (n *node) Drain() { n.drainOnce.Do(func() { close(n.drainAsked) }) }

// Draining says whether the node refuses new work.
func (n *node) Draining() bool { return n.server.Draining() }

// greet prints what a newcomer needs: where, with what, and a line to paste.
func (n *node) greet(out io.Writer) {
	base := "http://" + n.public.Addr().String()
	key, where := "$API_KEY", "the key of an account (corenode key create)"
	if n.keyFile != "" {
		file := n.keyFile
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute // the line may be pasted anywhere
		}
		key, where = "$(cat '"+file+"')", "in "+n.keyFile
	}
	model := n.catalog.infos[len(n.catalog.infos)-1].ID
	fmt.Fprintf(out, `corenode %s is ready

  base URL   %s
  API key    %s
  admin API  http://%s, token in %s

Try it:

  curl -N %s/v1/messages -H "x-api-key: %s" -H "content-type: application/json" -d '{"model":"%s","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"Say hello."}]}'

`, version, base, where, n.admin.Addr(), filepath.Join(n.cfg.DataDir, "admin.token"), base, key, model)
}

// stop drains and closes.
func (n *node) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Limits.DrainTimeout)
	defer cancel()
	var draining sync.WaitGroup
	var treeErr error
	draining.Go(func() { treeErr = n.tree.Drain(ctx) })
	err := n.server.Drain(ctx)
	draining.Wait()
	close(n.stopped)
	err = errors.Join(err, n.keys.flush())
	n.close()
	n.serving.Wait()
	n.log.Info("stopped")
	return errors.Join(err, treeErr)
}

// close closes whatever is open, the outermost first.
func (n *node) close() {
	n.withdraw()
	if n.server != nil {
		if err := n.server.Close(); err != nil {
			n.log.Warn("close the server", "error", err.Error())
		}
	}
	if n.tree != nil {
		n.tree.Stop()
	}
	if n.catalog != nil {
		n.catalog.close()
	}
	for _, ln := range []net.Listener{n.public, n.admin} {
		if ln != nil {
			ln.Close()
		}
	}
	if n.modules != nil {
		if err := n.modules.Close(); err != nil {
			n.log.Warn("close the modules", "error", err.Error())
		}
	}
	if n.spill != nil {
		n.spill.Close() // its rows are synced one by one
	}
	if n.store != nil {
		if err := n.store.Close(); err != nil {
			n.log.Error("close the store", "error", err.Error())
		}
	}
}

// observer brings what a step loop measures to the metrics.
type observer struct{ n *node }

func (o observer) Gap(d time.Duration) { o.n.server.ObserveGap(d) }

func (o observer) Step(prefill, decode int, took time.Duration) {
	o.n.server.ObserveStep(prefill, decode, took)
}

// ready says why the node should get no requests: a model that is down, or an
// admission policy that is not in memory, without which all are refused.
func (n *node) ready() error {
	if n.modules.AdmissionClosed() {
		return errors.New("admission is closed: its policy is not in memory")
	}
	if down := n.tree.Down(); len(down) > 0 {
		return fmt.Errorf("down: %v", down)
	}
	return nil
}

// gauges are read at each scrape; model ids come from the config, never from a client.
func (n *node) gauges() (gauges []server.Gauge) {
	add := func(name string, value func() float64) {
		gauges = append(gauges, server.Gauge{Name: name, Value: value})
	}
	for _, info := range n.catalog.infos {
		e := n.catalog.engines[info.ID]
		for state, read := range gaugesOf(e) {
			add(fmt.Sprintf("corenode_%s{model=%q}", state, info.ID), read)
		}
		for name, of := range drafters {
			drafted, accepted := draftsOf(e, of)
			add(fmt.Sprintf("corenode_drafted_tokens_total{model=%q,drafter=%q}", info.ID, name), drafted)
			add(fmt.Sprintf("corenode_accepted_tokens_total{model=%q,drafter=%q}", info.ID, name), accepted)
		}
	}
	add("corenode_ledger_waiting", func() float64 { return float64(n.tree.Ledger().Waiting) })
	add("corenode_ledger_commits_total", func() float64 { return float64(n.tree.Ledger().Commits) })
	add("corenode_ledger_rows_total", func() float64 { return float64(n.tree.Ledger().Rows) })
	add("corenode_ledger_spilled_rows", func() float64 { return float64(n.tree.Ledger().Spilled) })
	add("corenode_ledger_failures_total", func() float64 { return float64(n.tree.Ledger().Failures) })
	add("corenode_provisional_charges_total", func() float64 { return float64(n.tree.Counters().Provisional.Load()) })
	add("corenode_dead_letters", func() float64 { return float64(n.tree.DeadLetters()) })
	for _, name := range tree.Actors() {
		add(fmt.Sprintf("corenode_actor_failures{actor=%q}", name), func() float64 { return float64(n.tree.Counters().Failures(name)) })
	}
	for _, kind := range abi.Kinds() {
		add(fmt.Sprintf("corenode_admission_refusals{kind=%q}", kind), func() float64 { return float64(n.tree.Counters().Refused(kind)) })
	}
	return gauges
}
