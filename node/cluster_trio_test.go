package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
	"corenode/node/store/postgres"
	"corenode/node/store/postgrestest"
)

// leaseVariable in the environment makes the test program a node among others, whose lease is so long,
// and clockVariable has its clock off by a duration.
const leaseVariable, clockVariable = "CORENODE_TEST_LEASE", "CORENODE_TEST_CLOCK_OFF"

func init() {
	text := os.Getenv(leaseVariable)
	if text == "" {
		return
	}
	lease, err := time.ParseDuration(text)
	clock, wrong := time.ParseDuration(os.Getenv(clockVariable))
	if err = errors.Join(err, wrong); err == nil {
		with := standIns{lease: lease, clock: clock}
		cmd := cli.Root(version, func(from config.Sources, out, logTo io.Writer) error { return serveAmong(from, out, logTo, with) })
		err = cmd.Execute()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "corenode:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveAmong is serve with a lease and a clock of the test's.
func serveAmong(from config.Sources, out, logTo io.Writer, with standIns) error {
	signals := watchSignals()
	defer signals.close()
	cfg, _, err := config.Load(from)
	if err != nil {
		return err
	}
	lines, level, err := newLogger(cfg, logTo)
	if err != nil {
		return err
	}
	n, err := openWith(cfg, lines, nil, with)
	if err != nil {
		return err
	}
	n.begin()
	n.greet(out)
	err = n.waitForDrain(signals, newReloader(from, cfg, level, lines))
	return errors.Join(err, n.stop())
}

// trioNode is one of three nodes in processes of their own.
type trioNode struct {
	number int
	name   string
	dir    string
	data   string
	link   *postgrestest.Proxy // to the database
	// through is the link's address, as the node sees it.
	through string
	proc    *proc.Child
	starts  int
	clock   time.Duration // how far its clock is off
	kills   atomic.Int64
	base    atomic.Pointer[url.URL] // nil while it is down
	admin   *admin.Client
}

// trio is three nodes on one database behind a balancer that takes them in turn.
type trio struct {
	t     *testing.T
	url   string // of the database
	lease time.Duration
	nodes [3]*trioNode
	front string // the balancer's address
	h     *http.Client
	store *postgres.Store // an observer's
	// apart are the nodes' networks; nil where they have that of this process, because of alone.
	apart *networks
	alone error
	turns atomic.Int64
	// starting are the nodes that start in the background.
	starting sync.WaitGroup
}

// newTrio starts three nodes at once, one whose clock is right, one an hour ahead and one an hour behind. models is YAML, their models.
func newTrio(t *testing.T, lease time.Duration, models string) *trio {
	t.Helper()
	c := &trio{t: t, url: postgrestest.URL(t), lease: lease}
	if c.apart, c.alone = newNetworks(t); c.alone != nil {
		c.apart = nil
	}
	dir := t.TempDir()
	for i := range c.nodes {
		m := &trioNode{number: i, name: fmt.Sprintf("node-%d", i), dir: dir, data: filepath.Join(dir, fmt.Sprintf("data-%d", i)),
			clock: []time.Duration{0, time.Hour, -time.Hour}[i]}
		c.nodes[i] = m
		through, listen, operators := c.connect(m)
		text := fmt.Sprintf(`
listen: %s
admin: {listen: %s}
data_dir: %q
store: {url: %q}
modules: {cache_dir: %q, allow_unsigned: true}
ledger: {spill_bytes: 4MiB}
limits: {prepare_concurrency: 256, drain_timeout: 30s}
models:%s`, listen, operators, m.data, through, moduleCache, models)
		if err := os.WriteFile(filepath.Join(dir, m.name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		c.starting.Wait()
		for _, m := range c.nodes {
			c.kill(m)
		}
	})
	c.start(c.nodes[0]) // it makes the schema; two that make it wait for each other all the same
	var starting sync.WaitGroup
	for _, m := range c.nodes[1:] {
		starting.Go(func() { c.start(m) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	var err error
	if c.store, err = postgres.Open(postgres.Config{URL: c.url, Node: "observer"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.store.Close() })
	c.h = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	t.Cleanup(c.h.CloseIdleConnections)
	c.balance()
	return c
}

// connect gives a node its way to the database, and the addresses where it listens.
func (c *trio) connect(m *trioNode) (database, listen, operators string) {
	if c.apart == nil {
		m.link, database = postgrestest.NewProxy(c.t, c.url)
		return database, "127.0.0.1:0", "127.0.0.1:0"
	}
	m.link, database = c.apart.database(c.t, c.url)
	at, err := url.Parse(database)
	if err != nil {
		c.t.Fatal(err)
	}
	m.through = at.Host
	return database, c.apart.loopback(c.t, m.number), c.apart.loopback(c.t, m.number)
}

// slowYAML is models of a trio: one whose answers take their time, and one that answers at once.
func slowYAML(t *testing.T) string {
	return fmt.Sprintf(`
  core-1.1: {%s, context_length: 16384, kv: {memory_bytes: 128MiB, state_memory_bytes: 64MiB}, batch: {gap_max: 1h, gap_stretch_max: 0}}
  core-1.1-mini: {engine: instant, kv: {memory_bytes: 64MiB, state_memory_bytes: 64MiB}}
`, slowOfChild(t, roundsVariable))
}

// start starts a node and waits until it serves. It may be called by several goroutines for several nodes.
func (c *trio) start(m *trioNode) {
	program, err := os.Executable()
	if err != nil {
		c.t.Error(err)
		return
	}
	m.starts++
	const greeting = "base URL"
	var child *proc.Child
	var base string
	start := func() (err error) {
		child, base, err = proc.Start(c.t.Context(), proc.Spec{
			Name: fmt.Sprintf("%s-%d", m.name, m.starts), Path: program, Args: []string{"serve", "--config", filepath.Join(m.dir, m.name+".yaml")},
			Env: []string{leaseVariable + "=" + c.lease.String(), clockVariable + "=" + m.clock.String()}, Dir: m.dir,
			Timeout: 5 * time.Minute, // under the race detector on a busy machine
			Ready: func(line string) (string, bool) {
				_, address, found := strings.Cut(line, greeting)
				return strings.TrimSpace(address), found
			}})
		return err
	}
	if c.apart == nil {
		err = start()
	} else {
		err = c.apart.in(m.number, start)
	}
	if err != nil {
		c.t.Errorf("start %s: %v", m.name, err)
		return
	}
	m.proc = child
	if m.admin, err = admin.Dial(m.data); err != nil {
		c.t.Error(err)
		return
	}
	at, err := url.Parse(base)
	if err != nil {
		c.t.Error(err)
		return
	}
	m.base.Store(at)
}

// kill ends a node like a power cut.
func (c *trio) kill(m *trioNode) {
	m.base.Store(nil)
	if m.proc == nil {
		return
	}
	m.kills.Add(1)
	if err := syscall.Kill(m.proc.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.t.Errorf("kill: %v", err)
	}
	_ = m.proc.Stop() // it is gone; this waits for that
	m.proc = nil
}

// log is the end of what a node wrote in all its lives, without requests.
func (c *trio) log(m *trioNode) string {
	var all strings.Builder
	for i := range m.starts {
		fmt.Fprintf(&all, "start %d:\n", i+1)
		text, err := os.ReadFile(filepath.Join(m.dir, fmt.Sprintf("%s-%d.log", m.name, i+1)))
		if err != nil {
			c.t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"msg":"request"`) {
				all.WriteString(line)
			}
		}
	}
	return tailOf(all.String())
}

// logged is what nodes wrote of a request.
func (c *trio) logged(id string) (lines []string) {
	if id == "" {
		return nil
	}
	for _, m := range c.nodes {
		for i := range m.starts {
			text, err := os.ReadFile(filepath.Join(m.dir, fmt.Sprintf("%s-%d.log", m.name, i+1)))
			if err != nil {
				c.t.Error(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, id) {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

// signal sends one to a node.
func (c *trio) signal(m *trioNode, s syscall.Signal) {
	if err := syscall.Kill(m.proc.PID(), s); err != nil {
		c.t.Errorf("signal %v: %v", s, err)
	}
}

// servedBy is the header in which the balancer says whose answer it is.
const servedBy = "X-Served-By"

// balance starts the balancer: each request goes to the next node, wherever its account was before.
func (c *trio) balance() {
	p := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Transport: &http.Transport{MaxIdleConnsPerHost: 128},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { panic(err) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set(servedBy, r.Request.URL.Host)
			return nil
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			for range c.nodes {
				if to := c.nodes[int(c.turns.Add(1))%len(c.nodes)].base.Load(); to != nil {
					r.SetURL(to)
					return
				}
			}
		}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // an answer that begins before the body has ended would break the connection
		if err != nil {
			return
		}
		for range 4 * len(c.nodes) { // one that does not answer at all has the next one tried
			r.Body = io.NopCloser(bytes.NewReader(body))
			if c.forward(p, w, r) {
				return
			}
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	c.t.Cleanup(s.Close)
	c.front = s.URL
}

// forward says whether a node answered.
func (c *trio) forward(p *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		if reason := recover(); reason == http.ErrAbortHandler {
			panic(reason)
		}
	}()
	p.ServeHTTP(w, r)
	return true
}

// account makes an account at the first node, and waits until all know it.
func (c *trio) account(in admin.NewAccount) (id, key string) {
	c.t.Helper()
	made, err := c.nodes[0].admin.CreateAccount(in)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.nodes {
		waitFor(c.t, m.name+" to know the account", func() bool {
			r, err := http.NewRequest("GET", m.base.Load().String()+"/v1/models", nil)
			if err != nil {
				return false
			}
			r.Header.Set("x-api-key", made.Key)
			answer, err := c.h.Do(r)
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
	return made.ID, made.Key
}

// number asks the database.
func (c *trio) number(query string) int64 {
	n, err := postgrestest.Number(c.t.Context(), c.url, query)
	if err != nil {
		c.t.Error(err)
	}
	return n
}

// rest waits until nothing is left of requests and grants, and holds the ledger to its rules and to what
// clients were told.
func (c *trio) rest(receipts []receipt) {
	c.t.Helper()
	waitFor(c.t, "no hold, no permit, no grant and no row in a journal", func() bool {
		for _, m := range c.nodes { // what an outage left there is told, and may not be in the database yet
			page, err := m.admin.Metrics()
			if err != nil || !strings.Contains(page, "\ncorenode_ledger_spilled_rows 0\n") {
				return false
			}
		}
		return c.number(`SELECT (SELECT count(*) FROM open_holds) + (SELECT count(*) FROM open_permits) + (SELECT count(*) FROM grants)
			+ (SELECT coalesce(sum(permits), 0) FROM balances)`) == 0
	})
	v, err := c.store.Verify()
	if err != nil || len(v.Findings) > 0 || v.OpenHolds != 0 {
		c.t.Errorf("verify: %+v, %v", v, err)
	}
	for _, r := range receipts {
		if !r.told {
			continue
		}
		want := priceOf(r.model, int64(r.usage.input-r.usage.cached), int64(r.usage.cached), int64(r.usage.output)).Int64()
		rows, err := c.store.Request(r.id)
		if err != nil {
			c.t.Error(err)
			continue
		}
		var sum int64
		for _, e := range rows {
			sum += int64(e.Amount)
		}
		if sum != -want {
			c.t.Errorf("request %s was told %+v, which costs %d; its rows say %d: %+v", r.id, r.usage, want, -sum, rows)
		}
	}
}
