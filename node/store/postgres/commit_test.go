package postgres

import (
	"fmt"
	"testing"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
)

// node opens a store for a node that is registered.
func node(t testing.TB, url, id string) *Store {
	t.Helper()
	s := dial(t, url, id)
	if err := s.Register(t.Context(), store.Presence{Home: "/data/" + id, State: store.NodeUp}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAdmissionIsThatOfOneNode: what many nodes decide by the database is what one limiter decides.
func TestAdmissionIsThatOfOneNode(t *testing.T) {
	url := postgrestest.URL(t)
	var nodes []storetest.Cluster
	for i := range 3 {
		nodes = append(nodes, node(t, url, fmt.Sprint("node", i)))
	}
	storetest.WalkAdmission(t, nodes, 250)
}

// TestWhatMayBeWrittenTwice: a batch whose end is unknown is written again only where all of it is there once then. A top-up
// or an adjustment would count twice.
func TestWhatMayBeWrittenTwice(t *testing.T) {
	kinds := func(kinds ...account.EntryKind) (rows []account.Entry) {
		for _, k := range kinds {
			rows = append(rows, account.Entry{Kind: k})
		}
		return rows
	}
	refund := account.Entry{Kind: account.Adjustment, Refund: true}
	for _, test := range []struct {
		rows []account.Entry
		want repeat
	}{
		{kinds(account.Hold, account.Checkpoint, account.Settlement), again},
		{append(kinds(account.Settlement), refund), again},
		{kinds(account.TopUp), once},
		{kinds(account.Adjustment), once},
		{kinds(account.Settlement, account.TopUp, account.Hold), once},
		{append([]account.Entry{refund}, kinds(account.Settlement, account.Adjustment)...), once},
	} {
		if got := repeatable(test.rows); got != test.want {
			t.Errorf("%+v: repeatable %v, want %v", test.rows, got, test.want)
		}
	}
}
