package postgres

import (
	"errors"
	"maps"
	"testing"

	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// TestCopiedFolderIsNoticed: a node that may still run is not taken over from another folder;
// from its own it is, and then the process before is told. One that was silent for long is.
func TestCopiedFolderIsNoticed(t *testing.T) {
	url := postgrestest.URL(t)
	first, second := dial(t, url, "node_a"), dial(t, url, "node_a")
	if err := first.Register("here", "v1"); err != nil {
		t.Fatal(err)
	}
	if err := second.Register("a copy", "v1"); !errors.Is(err, ErrNodeTaken) {
		t.Errorf("from a copy: %v", err)
	}
	if err := first.Renew(t.Context()); err != nil {
		t.Errorf("it was not taken over: %v", err)
	}
	if err := second.Register("here", "v2"); err != nil {
		t.Errorf("a restart: %v", err)
	}
	if err := first.Renew(t.Context()); !errors.Is(err, ErrNodeTaken) {
		t.Errorf("the process before: %v", err)
	}
	if err := second.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Exec(`UPDATE nodes SET renewed = now() - interval '16 seconds'`); err != nil {
		t.Fatal(err)
	}
	if err := first.Register("moved to another machine", "v1"); err != nil {
		t.Errorf("after a long silence: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Register("moved again", "v1"); err != nil {
		t.Errorf("after a clean stop: %v", err)
	}
	other := dial(t, url, "node_b")
	if err := other.Register("here", "v1"); err != nil {
		t.Errorf("another node: %v", err)
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
