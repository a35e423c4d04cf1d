package overhead

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"corenode/bench/floor"
)

// TestMain lets the test program be each of the processes that a run starts:
// the floor's two servers and a node that is only the mock behind the node's
// command line.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "__mock":
		err = serveAs("listening on %s\n", floor.Mock)
	case "__passthrough":
		err = serveAs("listening on %s\n", func(ln net.Listener) error { return floor.PassThrough(ln, os.Args[3]) })
	case "serve":
		data := os.Args[slices.Index(os.Args, "--data-dir")+1]
		if os.Getenv("FAKE_NODE_FAILS") != "" {
			err = errors.New("this node does not start")
			break
		}
		if err = errors.Join(os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "default.key"), []byte("sk-1\n"), 0o600)); err == nil {
			err = serveAs("ready\n\n  base URL   http://%s\n", floor.Mock)
		}
	case "account":
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveAs(greeting string, serve func(net.Listener) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf(greeting, ln.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { ln.Close() })
	return serve(ln)
}

func small(t *testing.T) Options {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	o := Defaults()
	o.Node, o.Clients, o.Rounds, o.Profile = self, 2, 2, 0
	o.Duration, o.Warmup = 20*time.Millisecond, 10*time.Millisecond
	o.ShortTokens, o.LongTokens = 2, 20
	return o
}

func TestRunMeasuresEveryCellAndLeavesNothing(t *testing.T) {
	o := small(t)
	var said int
	r, err := Run(t.Context(), o, func(string, ...any) { said++ })
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err) // no /proc
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(cells) || r.Rounds.Run != 2 || said < 3 || r.Host.Processors < 1 {
		t.Errorf("%d rows, %d rounds, said %d times", len(r.Rows), r.Rounds.Run, said)
	}
	for _, row := range r.Rows {
		if row.RepliesMeasured < 2 || row.P99.Median <= 0 || row.RSS < 1<<20 {
			t.Errorf("%s, %s: %+v", row.Target, row.Work, row)
		}
	}
	if short, long := r.row(Node, Short), r.row(Node, Long); short.EventsPerReply != 2+5 || long.EventsPerReply != 20+5 {
		t.Errorf("streams of %v and %v events", short.EventsPerReply, long.EventsPerReply)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// A warm-up of 0 is none: a load of no length has no end and is refused.
func TestRunWithoutWarmUp(t *testing.T) {
	o := small(t)
	o.Warmup, o.Rounds = 0, 1
	r, err := Run(t.Context(), o, func(format string, _ ...any) {
		if strings.Contains(format, "warming") {
			t.Error("it says that it warms up")
		}
	})
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err) // no /proc
	}
	if err != nil || len(r.Rows) != len(cells) || r.Rounds.Run != 1 {
		t.Errorf("%d rows, %d rounds, error %v", len(r.Rows), r.Rounds.Run, err)
	}
}

// tracked keeps the connections that it accepts.
type tracked struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *tracked) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *tracked) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.Close()
	}
}

// TestCellsOutliveIdleConnections has the server close, between two cells, all
// connections that there are, as one does with those that were idle meanwhile.
func TestCellsOutliveIdleConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &tracked{Listener: ln}
	defer l.Close()
	go floor.Mock(l)
	m := &run{o: small(t), servers: map[string]*server{Node: {url: "http://" + ln.Addr().String(), key: "k"}}}
	for _, work := range []string{Plain, Single, Plain, Single} {
		if _, _, err := m.load(t.Context(), cell{Node, work}, m.o.Warmup); err != nil {
			t.Errorf("%s: %v", work, err)
		}
		l.closeAll()
	}
}

func TestRunThatFailsLeavesNothing(t *testing.T) {
	o := small(t)
	t.Setenv("FAKE_NODE_FAILS", "1")
	if _, err := Run(t.Context(), o, func(string, ...any) {}); err == nil {
		t.Fatal("a run without a node succeeded")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	o := small(t)
	o.Duration = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	_, err := Run(ctx, o, func(string, ...any) {
		if said++; said == 2 { // warming up: all servers run
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	})
	if err == nil {
		t.Error("a canceled run succeeded")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}
