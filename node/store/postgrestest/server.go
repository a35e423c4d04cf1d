// Package postgrestest starts a PostgreSQL server for the tests of a package: once, on a
// temporary folder and a free port of loopback, as a user other than root. It is for tests only.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/bench/proc"
)

// startMax bounds how long making and starting a server may take.
const startMax = 90 * time.Second

// server is the one of this process.
var server struct {
	once    sync.Once
	err     error
	address string // of the loopback
	dir     string
	child   *exec.Cmd
	ended   chan struct{} // closed when it ended
	count   atomic.Int64  // schemas made
}

// errAbsent says that no PostgreSQL is installed.
var errAbsent = errors.New("no PostgreSQL server is installed (Debian: postgresql)")

// URL makes an empty schema, which to a store is a database, and returns its URL. Without a server the test is skipped.
// Call Stop when the tests of the package ended.
func URL(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped in short mode: it starts a PostgreSQL server, which takes some seconds")
	}
	_, measured := t.(*testing.B)
	server.once.Do(func() { server.err = start(measured) })
	if errors.Is(server.err, errAbsent) {
		t.Skip("skipped: " + server.err.Error())
	}
	if server.err != nil {
		t.Fatal(server.err)
	}
	name := fmt.Sprintf("test%d", server.count.Add(1))
	if err := onServer(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return address() + "&search_path=" + name
}

func address() string {
	return fmt.Sprintf("postgres://corenode@%s/postgres?sslmode=disable", server.address)
}

func onServer(ctx context.Context, command string) error { return Exec(ctx, address(), command) }

// Number asks the database of a URL for a number.
func Number(ctx context.Context, url, query string) (n int64, err error) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// Exec has the database of a URL do something.
func Exec(ctx context.Context, url, command string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, command)
	return err
}

// Crash ends the server at once, as a power cut does to its processes, and Recover starts it again on the
// same port: all URLs are good then. For tests that have the server to themselves.
func Crash() {
	server.child.Process.Signal(syscall.SIGQUIT)
	<-server.ended
}

// Recover starts the server after a Crash and waits until it answers.
func Recover(t testing.TB) {
	t.Helper()
	if err := run(false); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server, if there is one, and removes its folder.
func Stop() {
	if server.child != nil {
		Crash() // nobody needs its data
	}
	if server.dir != "" {
		os.RemoveAll(server.dir)
	}
}

// start makes a server and waits until it answers. Only what is measured waits for the disk.
func start(durable bool) error {
	initdb, err := binary("initdb")
	if err != nil {
		return err
	}
	if server.dir, err = os.MkdirTemp("", "corenode-postgres-"); err != nil {
		return err
	}
	attributes, err := newAttributes(server.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(server.dir, "data")
	initial := exec.Command(initdb, "-D", data, "-U", "corenode", "-A", "trust", "-N", "--locale", "C", "-E", "UTF8")
	initial.Dir, initial.SysProcAttr = server.dir, attributes.initial
	if text, err := initial.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, text)
	}
	if server.address, err = proc.FreeAddress(); err != nil { // which stays free while the server is down
		return err
	}
	return run(durable)
}

// run starts the server on the folder that there is.
func run(durable bool) error {
	postgres, err := binary("postgres")
	if err != nil {
		return err
	}
	attributes, err := newAttributes(server.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(server.dir, "data")
	server.ended = make(chan struct{})
	_, port, _ := strings.Cut(server.address, ":")
	child := exec.Command(postgres, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync="+strconv.FormatBool(durable), "-c", "shared_buffers=64MB", "-c",
		"max_connections=60", "-c", "autovacuum="+strconv.FormatBool(durable)) // while its transaction is open, no follower sees newer rows
	log, err := os.Create(filepath.Join(server.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	child.Stdout, child.Stderr, child.Dir = log, log, server.dir
	child.SysProcAttr = attributes.server
	started, ended := make(chan error, 1), server.ended
	go func() { // the signal comes when the thread ends that started the child: this one waits for it
		runtime.LockOSThread()
		err := child.Start()
		started <- err
		if err == nil {
			child.Wait()
			close(ended)
			runtime.UnlockOSThread() // else the thread ends, and with it what it started before this server
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	server.child = child
	return await()
}

// await returns when the server answers.
func await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	for {
		err := onServer(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-server.ended:
		case <-ctx.Done():
		}
		text, _ := os.ReadFile(filepath.Join(server.dir, "log"))
		return fmt.Errorf("the server does not answer: %w\n%s", err, text)
	}
}

// attributes are how initdb and the server are started.
type attributes struct{ initial, server *syscall.SysProcAttr }

// binary finds a program of PostgreSQL where Debian puts it, the newest version first, or in PATH.
func binary(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", errAbsent
}
