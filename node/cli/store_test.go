package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/store"
	"corenode/node/store/postgres"
	"corenode/node/store/postgrestest"
	"corenode/node/store/sqlite"
	"corenode/node/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Stop()
	os.Exit(code)
}

// TestStoreMigrate: the rows of a folder are in the database then, and nothing takes the
// folder's own for the truth any more. What fails leaves the folder as it was.
func TestStoreMigrate(t *testing.T) {
	url, dir := postgrestest.URL(t), t.TempDir()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := storetest.MustCreate(t, s, "a", 7).ID
	storetest.MustAppend(t, s, storetest.Hold(a, "open", 1))
	if _, err := moveFolder(dir, url, "", io.Discard); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("of a running node: %v", err)
	}
	s.Close()
	if _, err := moveFolder(dir, url, "", io.Discard); err == nil || !strings.Contains(err.Error(), "start the node and stop it first") {
		t.Errorf("with an open request: %v", err)
	}
	if store.Shares(dir) || !hasDatabase(dir) {
		t.Error("a move that failed changed the folder")
	}
	if s, err = sqlite.Open(dir); err != nil {
		t.Fatal(err)
	}
	storetest.MustAppend(t, s, storetest.Settlement(a, "open", -2))
	s.Close()
	var told strings.Builder
	v, err := moveFolder(dir, url, "", &told)
	if err != nil || v.Rows != 3 || !strings.Contains(told.String(), "ledger: 3 rows\n") {
		t.Fatalf("%+v, %v, %q", v, err, told.String())
	}
	if _, err := os.Stat(filepath.Join(dir, sqlite.DatabaseName+movedSuffix)); err != nil || hasDatabase(dir) || !store.Shares(dir) {
		t.Errorf("after the move: %v", err)
	}
	if _, _, err := connect(dir, true); err == nil || !strings.Contains(err.Error(), "in PostgreSQL") {
		t.Errorf("a command without the node: %v", err)
	}
	to, err := postgres.Open(postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	storetest.WantBalance(t, to, a, 5, 0)
}
