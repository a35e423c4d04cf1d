package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/sqlite"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// onPostgres is the configuration of a fast node whose rows are in the database of a URL.
func onPostgres(url, dir string) func(*config.Config) {
	return func(cfg *config.Config) {
		instantModels(cfg)
		cfg.Store.URL, cfg.DataDir = url, dir
	}
}

// wantSound holds the node's ledger to its rules, and waits until no hold is open.
func wantSound(t *testing.T, n *node) {
	t.Helper()
	waitFor(t, "no open hold", func() bool {
		holds, err := n.store.OpenHolds()
		return err == nil && len(holds) == 0
	})
	if v, err := n.store.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// TestNodeOnPostgres: accounts, keys and money of a node whose rows are in a database are as
// in a data folder, through a restart, and what a crash left open pays its last checkpoint.
func TestNodeOnPostgres(t *testing.T) {
	cfg := config.Default()
	cfg.Listen, cfg.Modules.CacheDir = "127.0.0.1:0", moduleCache
	onPostgres(postgrestest.URL(t), filepath.Join(t.TempDir(), "data"))(cfg)
	n, err := start(cfg, testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + n.public.Addr().String()
	a, secret := customerOf(t, n, account.Account{Name: "alice", Concurrency: 2}, 1e9)
	e := errand{key: secret, model: fastModel, prompt: "x", maxTokens: 3}
	left := abi.Nano(1e9)
	for _, e.path = range paths {
		r := e.run(t, http.DefaultClient, base, moments{})
		if !r.told {
			t.Fatalf("%s: %+v", e.path, r)
		}
		left -= abi.Nano(priceOf(r.model, int64(r.usage.input-r.usage.cached), int64(r.usage.cached), int64(r.usage.output)).Int64())
	}
	wantSound(t, n)
	storetest.WantBalance(t, n.store, a, left, 0)
	if rows, err := statement(operator(t, n), "alice"); err != nil || len(rows) != 1+len(paths) {
		t.Errorf("the statement has %d rows, %v", len(rows), err)
	}
	// What a process leaves that is killed.
	storetest.MustAppend(t, n.store, storetest.Hold(a, "killed", 50), storetest.Checkpoint(a, "killed", 2))
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if n, err = start(cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	defer n.stop()
	base = "http://" + n.public.Addr().String()
	if settled, err := n.store.Settlement("killed"); err != nil || settled.Reason != account.Crashed || settled.Usage.Output != 2 {
		t.Errorf("what was open: %+v, %v", settled, err)
	}
	wantSound(t, n)
	if r := e.run(t, http.DefaultClient, base, moments{}); !r.told {
		t.Errorf("with the key of before: %+v", r)
	}
	keys, err := n.store.Keys(a)
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if _, err := operator(t, n).RevokeKey(keys[0].ID); err != nil {
		t.Fatal(err)
	}
	if r := e.run(t, http.DefaultClient, base, moments{}); r.status != http.StatusUnauthorized {
		t.Errorf("with a revoked key: status %d", r.status)
	}
}

// TestFolderWithRowsAndAURL: a folder that has rows of its own is not left behind for a database, and a start that does
// not reach its database leaves nothing that says the rows are there.
func TestFolderWithRowsAndAURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", dir, moduleCache
	instantModels(cfg)
	n, err := start(cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.Store.URL = "postgres://corenode@127.0.0.1:1/none"
	fails := func(says string) {
		t.Helper()
		if n, err := start(cfg, io.Discard); err == nil {
			n.stop()
			t.Fatal("it started")
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if store.InCluster(dir) {
			t.Error("node.id says that the rows are in PostgreSQL")
		}
	}
	fails("rows of its own")
	path := filepath.Join(dir, sqlite.DatabaseName)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	fails("open store")
}

// TestNodeOutlivesItsDatabase cuts the link to the database under a node: who has been served
// goes on, readiness says why, and when the link is back all rows are where they belong.
func TestNodeOutlivesItsDatabase(t *testing.T) {
	proxy, url := postgrestest.NewProxy(t, postgrestest.URL(t))
	n, base, key := startNode(t, onPostgres(url, filepath.Join(t.TempDir(), "data")))
	e := errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	if r := e.run(t, http.DefaultClient, base, moments{}); !r.told {
		t.Fatalf("before: %+v", r)
	}
	_, rare := customerOf(t, n, account.Account{Name: "rare"}, 1e9)
	limits := &n.tree.Counters().Limits
	charges := int64(1)
	waitFor(t, "a grant to cover requests", func() bool {
		if e.run(t, http.DefaultClient, base, moments{}).told {
			charges++
		}
		return limits.Covered.Load() > 2
	})
	proxy.Cut()
	r := e.run(t, http.DefaultClient, base, moments{})
	if !r.told {
		t.Errorf("without the database, with a grant: status %d, %s", r.status, r.failure)
	}
	charges++
	e.key = rare
	if r := e.run(t, http.DefaultClient, base, moments{}); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("without the database and a grant: status %d, %v", r.status, r.header)
	}
	waitFor(t, "readiness to say why", func() bool {
		answer, err := http.Get("http://" + n.admin.Addr().String() + "/readyz")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "the database does not answer")
	})
	if n.spill.Rows() == 0 {
		t.Error("the journal has no rows")
	}
	proxy.Heal()
	waitFor(t, "the journal to be replayed", func() bool { return n.spill.Rows() == 0 && n.ready() == nil })
	wantSound(t, n)
	if v, err := n.store.Verify(); err != nil || v.Charges != charges {
		t.Errorf("%+v, %v, want %d charges", v, err, charges)
	}
}

// TestDrainSaysWhatTheJournalKeeps: a drain during an outage of the database is clean, and its last lines say that the folder has
// rows which the database lacks: who deletes it then deletes charges.
func TestDrainSaysWhatTheJournalKeeps(t *testing.T) {
	proxy, url := postgrestest.NewProxy(t, postgrestest.URL(t))
	cfg := config.Default()
	cfg.Listen, cfg.Modules.CacheDir = "127.0.0.1:0", moduleCache
	onPostgres(url, filepath.Join(t.TempDir(), "data"))(cfg)
	var lines bytes.Buffer // the logger writes one after another, and nothing more after the end
	n, err := start(cfg, &lines)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(n.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	e := errand{key: strings.TrimSpace(string(key)), path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	base, limits := "http://"+n.public.Addr().String(), &n.tree.Counters().Limits
	waitFor(t, "a grant to cover requests", func() bool {
		return e.run(t, http.DefaultClient, base, moments{}).told && limits.Covered.Load() > 2
	})
	proxy.Cut()
	if r := e.run(t, http.DefaultClient, base, moments{}); !r.told {
		t.Errorf("without the database, with a grant: status %d, %s", r.status, r.failure)
	}
	if err := n.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	left, err := store.SpilledRows(cfg.DataDir)
	if err != nil || left == 0 {
		t.Fatalf("%d rows in the journal, %v", left, err)
	}
	if said := fmt.Sprintf(`the next start on this folder brings them there","rows":%d}`, left); !strings.Contains(lines.String(), said) {
		t.Errorf("the log does not say that the journal keeps %d rows:\n%s", left, tailOf(lines.String()))
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Log(string(b)); return len(b), nil }
