package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"corenode/actors/ledger"
	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/trail"
	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/console"
	"corenode/node/operators"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/node/trace"
)

// node is everything that runs.
type node struct {
	cfg         *config.Config
	log         *slog.Logger
	store       store.Store
	spill       *store.Spill
	modules     *extensions.Host
	catalog     *catalog
	kept        *kept
	trails      *trail.Log
	looks       looks
	examination examination
	logs        *logRing // nil in tests that start no process, as reloads
	tree        *tree.Tree
	server      *server.Server
	console     *console.Console
	tracer      *trace.Tracer // nil without traces
	keys        *server.Keyring
	keyFile     string
	token       string        // of its admin listener. Owned by the reloader, once the node is open
	secret      []byte        // of the store
	settled     chan struct{} // closed when what was there before the start is settled
	// certificates of the two listeners; nil is plain.
	certificates struct{ public, admin *server.Certificate }

	provisional atomic.Uint64 // charges of processes that are gone which are to be rated again

	database *database // where the rows of store are, when that is elsewhere; else nil
	commons  *commons  // what is the same on all nodes of that database; else nil

	public, admin net.Listener
	closers       []func() // what close does, in reverse

	drainOnce  sync.Once
	drainUntil atomic.Pointer[time.Time] // nil before leave and stop
	drainAsked chan struct{}
	stopped    chan struct{} // closed by stop
	failed     chan error    // what ends the node; has room for every sender
	serving    sync.WaitGroup
	reloads    *reloader // nil in tests that start no process

	compile []string // the command that compiles modules; nil: the node itself
	standIns
}

// standIns are what tests put in the place of what a node has of its machine. All are
// nil outside of tests.
type standIns struct {
	adjust func(*engine.Options)           // has the last word on the options of each model
	rows   func(ledger.Store) ledger.Store // is where the ledger makes its rows durable
	pause  func()                          // is called before each word with a database elsewhere about this node
	lease  time.Duration                   // is how long this node counts as live there without a word
	clock  time.Duration                   // is how far the clock is off that rows and modules are told
	slow   time.Duration                   // is how long the store may take for rows before they go to the spill journal
	system fs.FS                           // is the root of the system's files, as samples read them; nil is the machine's own
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
// closes what it had opened when something fails.
func open(cfg *config.Config, log *slog.Logger, compile []string) (*node, error) {
	return openWith(cfg, log, compile, standIns{})
}

// openWith is open with something in the place of parts of the machine, for tests.
func openWith(cfg *config.Config, log *slog.Logger, compile []string, with standIns) (*node, error) {
	if with.system == nil {
		with.system = os.DirFS("/")
	}
	n := &node{cfg: cfg, drainAsked: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan error, 4),
		settled: make(chan struct{}), log: log, compile: compile, standIns: with, trails: trail.NewLog(trailBytes)}
	if err := n.open(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// begin serves.
func (n *node) begin() {
	n.serving.Go(func() { n.keys.Run(n.stopped) })
	n.serving.Go(n.giveBackMemory)
	n.serving.Go(n.followCertificates)
	n.serving.Go(func() { n.console.Run(n.stopped) })
	if n.database != nil {
		n.database.Serve()
		n.serving.Go(n.sweep)
	}
	n.serving.Go(func() { n.fail(n.server.Serve(n.public)) })
	n.serving.Go(n.serveNodes)
	n.serving.Go(func() { n.fail(n.server.ServeAdmin(n.admin)) })
}

func (n *node) fail(err error) {
	if err != nil {
		n.failed <- err
	}
}

// bind listens at the address that a key of the configuration has. An IPv4 address is that alone:
// of 0.0.0.0 Go's "tcp" would make every IPv6 address of the machine, too.
func bind(key, address string) (net.Listener, error) {
	network := "tcp"
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().Is4() {
		network = "tcp4"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, bindError(key, err)
	}
	return l, nil
}

// bindError says what to do about an address that cannot be had.
func bindError(key string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: end what listens there, or set %s to another address", err, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: set %s to an address of this machine, or to 0.0.0.0", err, key)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: set %s to a port of 1024 or above, or give the process CAP_NET_BIND_SERVICE", err, key)
	}
	return fmt.Errorf("%s: %w", key, err)
}

// open takes its steps in an order in which a configuration that cannot be served fails before the database is migrated.
func (n *node) open() error {
	keepPrivate()
	if err := os.MkdirAll(n.cfg.DataDir, 0o700); err != nil {
		return err
	}
	for _, step := range []func() error{
		n.openStore, n.listen, n.openCertificates, n.findToken, n.openCatalog, n.openSpill, n.migrate, n.firstStart,
		n.followAccounts, n.openModules, n.settleFormer, n.startTree, n.openServer, n.meetNodes, n.announce,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// listen takes both ports before anything that takes long.
func (n *node) listen() (err error) {
	if n.public, err = bind("listen", n.cfg.Listen); err != nil {
		return err
	}
	n.closers = append(n.closers, func() { n.public.Close() }) // the server has mostly done it
	if n.admin, err = bind("admin.listen", n.cfg.Admin.Listen); err != nil {
		return err
	}
	n.closers = append(n.closers, func() { n.admin.Close() })
	return nil
}

// firstStart makes the first account of a new store, and says what became of the readable key of the one before.
func (n *node) firstStart() (err error) {
	var aside string
	n.keyFile, aside, err = store.FirstStart(n.store, n.cfg.DataDir, rules.FirstAccount(time.Now()))
	if aside != "" {
		n.log.Warn("default.key was there, and the database is new: it may be the key of another one and has a new name", "file", aside)
	}
	return err
}

func (n *node) openSpill() (err error) {
	if n.spill, err = store.OpenSpill(n.cfg.DataDir, int64(n.cfg.Ledger.SpillBytes)); err != nil {
		return err
	}
	n.closers = append(n.closers, func() { n.spill.Close() }) // its rows are synced one by one
	if err := n.spill.Sparse(); err != nil {
		n.log.Warn("the spill journal may lack room on the disk", "error", err.Error())
	}
	return nil
}

// openCatalog opens the models, and lets other nodes in on those that they share.
func (n *node) openCatalog() (err error) {
	if n.secret, err = n.store.Secret("node"); err != nil {
		return err
	}
	boundHeap()
	if n.catalog, err = openModels(n.cfg, n.secret, observer{n}, n.log, n.adjusted); err != nil {
		return err
	}
	n.closers = append(n.closers, n.catalog.close)
	if err := errors.Join(n.openPeers(), n.openReplicated()); err != nil {
		return err
	}
	n.kept = newKept(n.cfg.DataDir, int64(n.cfg.Cache.Keep), n.log)
	n.cleanFormer()
	return nil
}

// cleanFormer removes what models left that this node does not compute any more. All that are configured
// are open: where one is not, the start has failed.
func (n *node) cleanFormer() {
	if err := n.kept.clean(maps.Keys(n.catalog.engines)); err != nil {
		n.log.Warn("what is left of kept prefix caches cannot be removed", "error", err.Error())
	}
	if err := engine.CleanPacks(packDir(n.cfg), maps.Values(n.catalog.engines)); err != nil {
		n.log.Warn("repacked weights of former models cannot be removed", "error", err.Error())
	}
}

// followed reads accounts again that other nodes changed, of all of them for nil.
func (n *node) followed(ids []string) error {
	if ids == nil {
		return n.keys.Reload(n.tree.AccountChanged)
	}
	err := n.keys.Follow(ids)
	n.tree.AccountChanged(ids...)
	return err
}

func (n *node) startTree() (err error) {
	l := n.cfg.Limits
	rows := ledger.Store(n.store)
	if n.rows != nil {
		rows = n.rows(rows)
	}
	cluster, _ := n.store.(store.Cluster)
	n.tree, err = tree.Start(tree.Config{
		Secret: n.secret, Lease: n.lease, ClockOff: n.clock,
		AccountSessionsMax: l.SessionsPerAccount, AccountPinnedBytesMax: int64(l.PinnedBytesPerAccount),
		SessionIdleMax: l.SessionIdle, CountCached: l.CountCachedInput,
		Ledger: ledger.Config{Spill: n.spill, Rejects: store.Rejects, SlowAfter: n.slow},
	}, tree.Deps{
		Models: treeModels(n.catalog, n.kept, l.QueueRequestsMax), Store: rows, Cluster: cluster, Accounts: n.store,
		Billing: billing{n.modules}, Policy: n.modules, Logger: n.log,
		Fatal: func(actor string, reason any) { n.failed <- fmt.Errorf("actor %s: %v", actor, reason) },
	})
	if err == nil {
		n.closers = append(n.closers, n.tree.Stop)
	}
	return err
}

func (n *node) openServer() error {
	named, err := operators.ParseAll(n.cfg.Admin.Operators)
	if err != nil {
		return err
	}
	api := admin.New(n.store, n, n.verbs(), adminUpstreams(n.catalog), n.log)
	api.SetLive(live{n})
	if n.database != nil {
		api.SetCluster(n.database)
	}
	n.openTracer()
	l := n.cfg.Limits
	var load func(io.Writer)
	if n.cfg.Server.InferenceMetrics {
		load = n.writeLoad
	}
	n.console = console.New(console.Deps{
		Client: func(ctx context.Context, o operators.Operator) *admin.Client {
			return admin.LocalFor(ctx, api, o)
		},
		Operator: func(token string) (operators.Operator, bool) { return n.server.Operator(token) },
		Named:    func(name string) operators.Operator { return n.server.OperatorNamed(name) },
		Samples:  func(w io.Writer) { n.server.WriteSamples(w) }, API: n.base(admin.Reachable(n.public.Addr().String())),
		Secure: n.certificates.public.Pinned(), Models: n.catalog.ids, Examine: n.examine, Version: version, Log: n.log,
		Audit: func(who operators.Operator, method, path string, status int) {
			n.server.Audit(who, method, path, status)
		},
	})
	n.server, err = server.New(server.Config{
		BodyMax: int64(l.BodyBytesMax), BodiesMax: int64(l.BodyBytesTotal), HeaderMax: int(l.HeaderBytesMax),
		ReadTimeout: l.HeaderTimeout, BodyTimeout: l.BodyTimeout, IdleTimeout: l.IdleTimeout,
		StallTimeout: l.SlowReaderCancel, RequestTimeout: l.NonstreamingTimeout, KeepAlive: l.Keepalive,
		PreparesMax: l.PrepareConcurrency, ConnectionsMax: l.ConnectionsMax, CORSOrigins: n.cfg.Server.CORSOrigins,
		PeerKeys: n.cfg.Server.PeerKeys, ClusterToken: n.clusterToken(), AdminToken: n.token, Operators: named,
		WatchEvery:      n.catalog.watchEvery(),
		NameServedModel: n.cfg.Modules.NameServedModel, Certificate: n.certificates.public, AdminCertificate: n.certificates.admin,
	}, server.Deps{
		Backend: backend{n.tree, n.database}, Translators: translators{n.modules}, Policies: policies{n.modules}, Catalog: n.catalog,
		Keys: n.keys, Secret: n.secret,
		Ready: n.ready, Notes: n.differences, Admin: api, Console: n.console,
		Metrics: n.writeMetrics, Charted: n.writeCharted, Load: load, DebugState: func() any { return n.tree.Inspect() },
		StartDrain: n.Drain, Tracer: n.tracer, Audit: n.audit, Log: n.log,
	})
	if err == nil {
		n.onClose(slog.LevelWarn, "close the server", n.server.Close)
	}
	return err
}

// findToken makes the token of the admin listener, or reads it from its file.
func (n *node) findToken() (err error) {
	n.token = operators.NewToken()
	if n.cfg.Admin.TokenFile != "" {
		if n.token, err = n.readToken(n.cfg.Admin.TokenFile); err != nil {
			return fmt.Errorf("admin.token_file: %w", err)
		}
	}
	return nil
}

// announce leaves address, token and certificate of the admin listener in the data folder, and where the API is. It is the
// last step of a start: who finds an address is answered there.
func (n *node) announce() error {
	withdraw, err := admin.Announce(n.cfg.DataDir, n.admin.Addr().String(), n.token, n.cfg.Admin.TokenFile)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, withdraw)
	if n.certificates.admin != nil {
		if err := admin.AnnounceCertificates(n.cfg.DataDir, n.certificates.admin.Leaf().Raw); err != nil {
			return err
		}
	}
	if withdraw, err = admin.AnnounceAPI(n.cfg.DataDir, n.base(admin.Reachable(n.public.Addr().String()))); err != nil {
		return err
	}
	n.closers = append(n.closers, withdraw)
	return nil
}

// readToken reads the node's own token from its file.
func (n *node) readToken(file string) (string, error) {
	n.sayOpenToGroup("admin.token_file", file)
	return admin.ReadToken(file)
}

// sayOpenToGroup tells of a secret's file that a volume has opened to its group, before it is read.
func (n *node) sayOpenToGroup(key, file string) {
	if store.IsOpenToGroup(file) {
		n.log.Warn("the file of a secret was open to its group, and becomes private again", "key", key, "file", file)
	}
}

// audit keeps a call of the admin listener's own paths, or a form of the console.
func (n *node) audit(who operators.Operator, method, path string, status int) {
	err := n.store.Audit(store.AuditRow{Operator: who.Name, Method: method, Path: path, Status: int64(status)})
	if err != nil {
		n.log.Error("the audit could not be written", "error", err.Error())
	}
}

// Changed makes the node see a changed account, its keys and its money.
func (n *node) Changed(accountID string) {
	n.keys.Changed(accountID)
	n.tree.AccountChanged(accountID)
}

// KeyChanged is Changed for one key of an account.
func (n *node) KeyChanged(accountID, keyID string) {
	n.keys.KeyChanged(accountID, keyID)
	n.tree.AccountChanged(accountID)
}

// Drain begins the shutdown and returns at once.
func (n *node) Drain() { n.drainOnce.Do(func() { close(n.drainAsked) }) }

// Draining says whether a drain was asked for, or is under way already.
func (n *node) Draining() bool {
	select {
	case <-n.drainAsked:
		return true
	default:
		return n.drainUntil.Load() != nil
	}
}

// drains says that the node drains, and how long that may take.
func (n *node) drains(most time.Duration) {
	until := time.Now().Add(most)
	n.drainUntil.Store(&until)
	if n.database != nil {
		n.database.Draining()
	}
}

// stop drains and closes.
func (n *node) stop() error {
	n.drains(n.cfg.Limits.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Limits.DrainTimeout)
	defer cancel()
	var draining sync.WaitGroup
	var treeErr error
	draining.Go(func() { treeErr = n.tree.Drain(ctx) })
	err := n.server.Drain(ctx)
	draining.Wait()
	n.keepCaches()
	close(n.stopped)
	n.flushKeys()
	n.close()
	n.serving.Wait()
	if rows := n.spill.Rows(); rows > 0 {
		n.log.Warn("the spill journal keeps rows that the database did not take: the next start on this folder brings them there",
			"rows", rows)
	}
	n.log.Info("stopped")
	return errors.Join(err, treeErr)
}

// flushKeys writes down when keys were last used, if the database answers. A drain that lost nothing else is clean
// without it, and is not to be done again by whoever starts what has failed.
func (n *node) flushKeys() {
	var err error
	if n.database != nil {
		err = n.database.Ready() // one that is away is not waited for
	}
	if err == nil {
		err = n.keys.Flush()
	}
	if err != nil {
		n.log.Warn("write the last use of keys; that of the last minute is lost", "error", err.Error())
	}
}

// onClose adds a step to close, before those that were added earlier.
func (n *node) onClose(level slog.Level, what string, step func() error) {
	n.closers = append(n.closers, func() {
		if err := step(); err != nil {
			n.log.Log(context.Background(), level, what, "error", err.Error())
		}
	})
}

// close closes whatever is open, the outermost first.
func (n *node) close() {
	for _, step := range slices.Backward(n.closers) {
		step()
	}
	n.closers = nil
}

// ready says why the node should get no requests: a database that does not answer, a model that is down, or a
// policy that is not in memory, without which all are refused.
func (n *node) ready() error {
	if n.database != nil {
		if err := n.database.Ready(); err != nil {
			return err
		}
	}
	if n.commons != nil {
		if err := n.commons.ready(); err != nil {
			return err
		}
	}
	if closed := n.modules.Closed(); closed != nil {
		return fmt.Errorf("every request is refused: no module is in memory of %v", closed)
	}
	if down := n.tree.Down(); len(down) > 0 {
		return fmt.Errorf("down: %v", down)
	}
	return nil
}

// observer brings what a step loop measures to the metrics.
type observer struct{ n *node }

func (o observer) Gap(d time.Duration) { o.n.server.ObserveGap(d) }

func (o observer) Step(prefill, decode int, took time.Duration) {
	o.n.server.ObserveStep(prefill, decode, took)
}
