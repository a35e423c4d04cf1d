package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
	"corenode/node/store"
)

// TestNodeTellsOfItself: a node says with what configuration it runs and why, shows its log with
// the lines of its start and those that come, and says how far its drain is until it has ended and left its folder.
func TestNodeTellsOfItself(t *testing.T) {
	if testing.Short() {
		t.Skip("a node in a process of its own; takes 3 s")
	}
	c := newChild(t, t.TempDir(), "keepalive: 7s, drain_timeout: 2s")
	c.start()
	all, err := c.admin.Settings()
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string]admin.Setting{}
	for _, s := range all {
		byKey[s.Key] = s
	}
	if s := byKey["limits.keepalive"]; s.Value != "7s" || s.Default != "10s" || s.Source != c.config || s.Line == 0 || !s.Changed {
		t.Errorf("%+v", s)
	}
	if s := byKey["limits.body_timeout"]; s.Source != "default" || s.Changed {
		t.Errorf("%+v", s)
	}
	page, err := c.admin.Logs(url.Values{"kind": {"model loaded"}})
	if err != nil || len(page.Data) != 2 || !strings.Contains(page.Data[0].Text, slowModel) || page.Next < page.Data[1].Number {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := c.admin.Logs(url.Values{"level": {"loud"}}); err == nil {
		t.Error("a level that there is not")
	}
	if s, err := c.admin.DrainState(); err != nil || s.Draining || s.LeftMS != 0 || s.TimeoutMS != 2*time.Second.Milliseconds() {
		t.Errorf("before a drain %+v, %v", s, err)
	}
	follow(t, c)
	_, key := c.account(admin.NewAccount{Name: "alice", Balance: admin.Amount{USD: "1"}})
	deltas, ended := listen(t, c.base, errand{key: key, path: "/v1/messages", model: slowModel, stream: true, prompt: "x", maxTokens: 200_000})
	waitFor(t, "a stream that outlives the drain", func() bool { return deltas.Load() > 0 })
	var said strings.Builder
	if err := typedTo(t.Context(), &said, "drain", "--wait", "--data-dir", c.data); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(said.String(), "The node drains: 1 requests ") || !strings.HasSuffix(said.String(), "\nThe node has ended.\n") {
		t.Errorf("drain --wait said %q", said.String())
	}
	if lock, err := store.LockFolder(c.data); err != nil {
		t.Errorf("after it the folder is not free: %v", err)
	} else if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if err := typedTo(t.Context(), io.Discard, "drain", "--wait", "--data-dir", c.data); err == nil {
		t.Error("a node that has ended drains")
	}
	waitFor(t, "the end of the stream", ended.Load)
}

// follow reads the log as a command does until it has a line of what is done meanwhile, and interrupts it.
func follow(t *testing.T, c *childNode) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	reads, writes := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		writes.CloseWithError(typedTo(ctx, writes, "logs", "--follow", "--kind", "admin", "--json", "--data-dir", c.data))
	})
	name, found := "", false
	lines := bufio.NewScanner(reads)
	for range 2 { // the first may come with what was there when it began, the second follows
		made, err := c.admin.CreateAccount(admin.NewAccount{Name: fmt.Sprint("followed-", len(name))})
		if err != nil {
			t.Fatal(err)
		}
		name = made.ID
		for found = false; !found && lines.Scan(); {
			found = strings.Contains(lines.Text(), name)
		}
	}
	interrupt()
	reads.Close()
	ended.Wait()
	if !found {
		t.Errorf("the line of %s does not come; %v", name, lines.Err())
	}
}

// typedTo runs a command line until it ends or ctx does.
func typedTo(ctx context.Context, out io.Writer, line ...string) error {
	root := cli.Root("test", nil)
	root.SetOut(out)
	root.SetErr(io.Discard)
	root.SetArgs(line)
	return root.ExecuteContext(ctx)
}

// TestANodeWithoutAFreeConnectionIsAlive: who opens all connections that clients may have does not get the node killed by what
// asks whether it is alive.
func TestANodeWithoutAFreeConnectionIsAlive(t *testing.T) {
	n, base, _ := startNode(t, func(cfg *config.Config) {
		instantModels(cfg)
		cfg.Limits.ConnectionsMax = 1
	})
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	answer, err := h.Get(base + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(answer.Body) // after which the connection is idle, and open
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if typedTo(t.Context(), io.Discard, "health", "--data-dir", n.cfg.DataDir) == nil {
		t.Fatal("it takes a second connection: the test sees nothing")
	}
	if err := typedTo(t.Context(), io.Discard, "health", "--live", "--data-dir", n.cfg.DataDir); err != nil {
		t.Error(err)
	}
}
