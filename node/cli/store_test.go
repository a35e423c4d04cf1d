package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
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

func TestStoreMigrateOfTheNodesFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	t.Setenv("CORENODE_DATA_DIR", dir)
	cmd := Root("test", nil)
	cmd.SetArgs([]string{"store", "migrate", "--to", "postgres://localhost/x"})
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("without --from: %v", err)
	}
}

// TestStoreMigrateTakesNoPasswordInTheURL: as in store.url, others could read it, and it is not repeated.
func TestStoreMigrateTakesNoPasswordInTheURL(t *testing.T) {
	for _, url := range []string{"postgres://u:hidden@localhost/x", "postgres://u@localhost/x?password=hidden", "host=localhost password=hidden"} {
		_, err := typed("store", "migrate", "--from", t.TempDir(), "--to", url)
		if err == nil || !strings.Contains(err.Error(), "--to ") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", url, err)
		}
	}
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
	if store.InCluster(dir) || !hasDatabase(dir) {
		t.Error("a move that failed changed the folder")
	}
	if s, err = sqlite.Open(dir); err != nil {
		t.Fatal(err)
	}
	storetest.MustAppend(t, s, storetest.Settlement(a, "open", -2))
	s.Close()
	wasm := []byte("a module")
	hex := fmt.Sprintf("%x", sha256.Sum256(wasm))
	state := []byte(`{"slots":{"billing":{"active":"sha256:` + hex + `"}}}`)
	modules := filepath.Join(dir, sqlite.ModulesDir)
	err = errors.Join(os.MkdirAll(modules, 0o700), os.WriteFile(filepath.Join(modules, "state.json"), state, 0o600),
		os.WriteFile(filepath.Join(modules, hex+".wasm"), wasm, 0o600), os.WriteFile(filepath.Join(modules, hex+".sig"), []byte{7}, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	v, err := moveFolder(dir, url, "", &told)
	if err != nil || v.Rows != 3 || !strings.Contains(told.String(), "ledger: 3 rows\n") {
		t.Fatalf("%+v, %v, %q", v, err, told.String())
	}
	if _, err := os.Stat(filepath.Join(dir, sqlite.DatabaseName+movedSuffix)); err != nil || hasDatabase(dir) || !store.InCluster(dir) {
		t.Errorf("after the move: %v", err)
	}
	if _, _, err := connect(dir, opening{create: true}, io.Discard); err == nil || !strings.Contains(err.Error(), "in PostgreSQL") {
		t.Errorf("a command without the node: %v", err)
	}
	to, err := postgres.Open(postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	storetest.WantBalance(t, to, a, 5, 0)
	if got, number, err := to.Common(store.CommonRollout); err != nil || number != 1 || string(got) != string(state) {
		t.Errorf("what serves: %s, %d, %v", got, number, err)
	}
	var files []store.ModuleFile
	_, err = to.ModuleFiles(0, func(m store.ModuleFile) error {
		files = append(files, m)
		return nil
	})
	if err != nil || len(files) != 1 || files[0].Digest != "sha256:"+hex || string(files[0].Wasm) != string(wasm) || files[0].Signature[0] != 7 {
		t.Errorf("module files: %+v, %v", files, err)
	}
}

// TestStoreMigrateOfRunningNode: it leaves the node's journal alone, into which rows may go
// at any time.
func TestStoreMigrateOfRunningNode(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	journal, err := store.OpenSpill(dir, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := moveFolder(dir, "postgres://127.0.0.1:1/none", "", io.Discard); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("moved with %v", err)
	}
	if err := journal.Append([]account.Entry{storetest.Settlement("a", "r", -1)}); err != nil {
		t.Fatal(err)
	}
	journal.Close()
	if journal, err = store.OpenSpill(dir, 1<<16); err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if journal.Rows() != 1 {
		t.Errorf("the journal has %d rows, want the one that was durable", journal.Rows())
	}
}

// TestStoreMigrateAgain: a move that went through and ended before the folder's database was
// renamed is no reason for a second one that fails to make the folder's rows the truth again.
func TestStoreMigrateAgain(t *testing.T) {
	url, dir := postgrestest.URL(t), t.TempDir()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	storetest.MustCreate(t, s, "a", 7)
	s.Close()
	if _, err := moveFolder(dir, url, "", io.Discard); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, sqlite.DatabaseName)
	if err := os.Rename(path+movedSuffix, path); err != nil {
		t.Fatal(err)
	}
	if _, err := moveFolder(dir, url, "", io.Discard); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("moved again with %v", err)
	}
	if !store.InCluster(dir) {
		t.Error("a start without store.url takes the folder's rows for the truth")
	}
}
