package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// at is a node's presence with a data folder.
func at(home string) store.Presence {
	return store.Presence{Home: home, Version: "v1", State: store.NodeUp, Models: []string{"m"}}
}

// renew renews without counting anybody out.
func renew(t *testing.T, s *Store) error {
	t.Helper()
	_, err := s.Renew(t.Context(), at("here"), false)
	return err
}

// silence makes a node one that was not heard for a time.
func silence(t *testing.T, s *Store, node, interval string) {
	t.Helper()
	if err := s.Exec(`UPDATE nodes SET renewed = now() - interval '` + interval + `' WHERE id = '` + node + `'`); err != nil {
		t.Fatal(err)
	}
}

// joined is a node that has registered.
func joined(t *testing.T, url, node string) *Store {
	t.Helper()
	s := dial(t, url, node)
	if err := s.Register(t.Context(), at(node)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCopiedFolderIsNoticed: a node that may still run is not taken over from another folder;
// from its own it is, and then the process before is told. One that was silent for long is.
func TestCopiedFolderIsNoticed(t *testing.T) {
	url := postgrestest.URL(t)
	first, second := dial(t, url, "node_a"), dial(t, url, "node_a")
	if err := first.Register(t.Context(), at("here")); err != nil {
		t.Fatal(err)
	}
	if err := second.Register(t.Context(), at("a copy")); !errors.Is(err, store.ErrNodeTaken) {
		t.Errorf("from a copy: %v", err)
	}
	if err := renew(t, first); err != nil {
		t.Errorf("it was not taken over: %v", err)
	}
	if err := second.Register(t.Context(), at("here")); err != nil {
		t.Errorf("a restart: %v", err)
	}
	if err := renew(t, first); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the process before: %v", err)
	}
	if err := renew(t, second); err != nil {
		t.Error(err)
	}
	silence(t, first, "node_a", "16 seconds")
	if err := first.Register(t.Context(), at("moved to another machine")); err != nil {
		t.Errorf("after a long silence: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Register(t.Context(), at("moved again")); err != nil {
		t.Errorf("after a clean stop: %v", err)
	}
	joined(t, url, "node_b")
}

// TestSilentNodeIsCountedOut: who did not renew for the lease loses its fence to a node that may
// count it out, and to no other; it comes back with a higher one.
func TestSilentNodeIsCountedOut(t *testing.T) {
	url := postgrestest.URL(t)
	a, b := joined(t, url, "node_a"), joined(t, url, "node_b")
	silence(t, a, "node_a", "11 seconds")
	told, err := b.Renew(t.Context(), at("node_b"), false)
	if err != nil || len(told.Live) != 1 || told.Live[0].ID != "node_b" || len(told.Lost) != 0 {
		t.Fatalf("%+v, %v", told, err)
	}
	if err := renew(t, a); err != nil {
		t.Errorf("nobody counted it out: %v", err)
	}
	silence(t, a, "node_a", "11 seconds")
	if told, err = b.Renew(t.Context(), at("node_b"), true); err != nil || !slices.Equal(told.Lost, []string{"node_a"}) {
		t.Fatalf("%+v, %v", told, err)
	}
	if err := renew(t, a); !errors.Is(err, store.ErrFenced) {
		t.Errorf("with an old fence: %v", err)
	}
	page, err := b.Nodes("", 10)
	if err != nil || len(page) != 2 || page[0].State != store.NodeFenced || page[0].Live || page[0].Fence != 2 || !page[1].Live {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = b.Nodes("", 1); err != nil || len(page) != 1 || page[0].ID != "node_a" {
		t.Errorf("a page of one: %+v, %v", page, err)
	}
	if page, err = b.Nodes("node_a", 1); err != nil || len(page) != 1 || page[0].ID != "node_b" {
		t.Errorf("the second page: %+v, %v", page, err)
	}
	if err := a.Register(t.Context(), at("node_a")); err != nil {
		t.Fatal(err)
	}
	told, err = a.Renew(t.Context(), at("node_a"), true)
	if err != nil || len(told.Live) != 2 || told.Live[0].Fence != 3 || told.Live[0].State != store.NodeUp {
		t.Errorf("back: %+v, %v", told, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if page, err = b.Nodes("", 10); err != nil || page[0].State != store.NodeGone || page[0].Live || page[0].Silent >= 0 {
		t.Errorf("after a stop: %+v, %v", page[0], err)
	}
}

// TestDrainIsToldWithTheRenewal: a live node hears of it and one that is gone cannot be asked. A node that
// comes back after a silence still knows; a restarted one is another.
func TestDrainIsToldWithTheRenewal(t *testing.T) {
	url := postgrestest.URL(t)
	a, b := joined(t, url, "node_a"), joined(t, url, "node_b")
	wantDrain := func(want bool) {
		t.Helper()
		if told, err := a.Renew(t.Context(), at("node_a"), false); err != nil || told.Drain != want {
			t.Errorf("%+v, %v", told, err)
		}
	}
	wantDrain(false)
	if err := b.AskDrain("node_a"); err != nil {
		t.Fatal(err)
	}
	wantDrain(true)
	if err := a.Register(t.Context(), at("node_a")); err != nil {
		t.Fatal(err)
	}
	wantDrain(true)
	a = joined(t, url, "node_a")
	wantDrain(false)
	silence(t, a, "node_a", "11 seconds")
	for _, id := range []string{"node_a", "node_c"} {
		if err := b.AskDrain(id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestNodesOutForLongAreForgotten: those that were counted out or stopped a week ago, once nothing of theirs is open. Should
// one come back, its fence is higher than it was.
func TestNodesOutForLongAreForgotten(t *testing.T) {
	url := postgrestest.URL(t)
	lives := joined(t, url, "lives")
	out, holds := joined(t, url, "out"), joined(t, url, "holds")
	joined(t, url, "lately")
	joined(t, url, "stopped")
	a := storetest.MustCreate(t, lives, "a", 100).ID
	storetest.MustAppend(t, holds, storetest.Hold(a, "r", 5))
	if err := out.Report(store.NodeReport{Rollout: 3}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE nodes SET state = 'fenced', fence = fence + 6, fenced = now() - interval '8 days' WHERE id <> 'lives'`,
		`UPDATE nodes SET state = 'gone' WHERE id = 'stopped'`,
		`UPDATE nodes SET fenced = now() - interval '6 days' WHERE id = 'lately'`,
	} {
		if err := lives.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, want ...string) {
		t.Helper()
		if _, err := lives.Sweep(); err != nil {
			t.Fatal(err)
		}
		page, err := lives.Nodes("", 10)
		var ids []string
		for _, n := range page {
			ids = append(ids, n.ID)
		}
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s there are %v, %v; want %v", when, ids, err, want)
		}
	}
	want("at first", "holds", "lately", "lives")
	if n, err := postgrestest.Number(t.Context(), url, `SELECT count(*) FROM node_reports`); n != 0 || err != nil {
		t.Errorf("%d reports are left, %v", n, err)
	}
	storetest.MustAppend(t, lives, storetest.Settlement(a, "r", -5))
	want("before it looks again", "holds", "lately", "lives")
	long := time.Now().Add(-forgetEvery)
	lives.forgot.Store(&long)
	want("when nothing is open", "lately", "lives")
	before := out.fence.Load()
	if err := renew(t, out); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a forgotten one renews: %v", err)
	}
	if err := out.Register(t.Context(), at("out")); err != nil || out.fence.Load() <= before {
		t.Errorf("its fence was %d and is %d, %v", before, out.fence.Load(), err)
	}
	if v, err := lives.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestPricesAreEachNodes: what a crash of one node left open is charged at its prices, whatever
// another one that started since lists.
func TestPricesAreEachNodes(t *testing.T) {
	url := postgrestest.URL(t)
	crashed, other := dial(t, url, "node_a"), dial(t, url, "node_b")
	old := map[string]abi.Prices{"m": {Input: 1}}
	if err := errors.Join(crashed.KeepPrices(old), other.KeepPrices(map[string]abi.Prices{"m": {Input: 2}})); err != nil {
		t.Fatal(err)
	}
	if kept, err := dial(t, url, "node_a").KeptPrices(); err != nil || !maps.Equal(kept, old) {
		t.Errorf("kept are %v, %v, want %v", kept, err, old)
	}
}

// TestReplicasThatMayLoseCommitsAreCounted: a replica streams from the server, and no commit waits for it.
func TestReplicasThatMayLoseCommitsAreCounted(t *testing.T) {
	url := postgrestest.URL(t)
	s := dial(t, url, "node_a")
	if n, err := s.LosingReplicas(t.Context()); err != nil || n != 0 {
		t.Fatalf("a server alone has %d, %v", n, err)
	}
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	delete(c.RuntimeParams, "search_path")
	c.RuntimeParams["replication"] = "true"
	replica, err := pgconn.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close(context.Background())
	said, err := replica.Exec(t.Context(), `IDENTIFY_SYSTEM`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	replica.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + string(said[0].Rows[0][2])})
	if err := replica.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		n, err := s.LosingReplicas(t.Context())
		if n == 1 && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a replica streams: %d, %v", n, err)
		}
	}
}
