package postgres

import (
	"fmt"
	"testing"

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
