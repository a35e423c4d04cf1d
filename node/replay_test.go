package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// TestReplay brings several batches of a journal to the store. Of the batch with
// a row of nobody, and beside one that is damaged, all others are charged, and the journal is empty after it.
// Rows of a batch share pages of the write-ahead log.
func TestReplay(t *testing.T) {
	dir, logged := t.TempDir(), &bytes.Buffer{}
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spill, err := store.OpenSpill(dir, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { spill.Close() }()
	a, err := s.CreateAccount(account.Account{Name: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	const rows, nobodys, damaged = 3*replayBatch + 7, replayBatch + 9, 2 * replayBatch
	entries := make([]account.Entry, rows)
	for i := range entries {
		entries[i] = account.Entry{Kind: account.Settlement, AccountID: a.ID, RequestID: fmt.Sprintf("r%d", i), KeyID: "key_1", Model: "m",
			Time: time.Unix(1700000000, 0).UTC(), Amount: -3, Reason: account.Finished, ModuleDigest: "builtin:tariff@1"}
	}
	entries[nobodys].AccountID = "acct_nobody"
	if err := spill.Append(entries); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(dir, store.SpillName)
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte(`"`+entries[damaged].RequestID+`"`))+1] = 'R'
	spill.Close()
	if err := os.WriteFile(journal, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if spill, err = store.OpenSpill(dir, 4<<20); err != nil {
		t.Fatal(err)
	}
	wal := filepath.Join(dir, sqlite.DatabaseName+"-wal")
	before := size(t, wal)
	n := &node{store: s, spill: spill, log: slog.New(slog.NewTextHandler(logged, nil))}
	if err := n.replaySpilled(); err != nil {
		t.Fatal(err)
	}
	if balance, _, err := s.Balance(a.ID); err != nil || balance != abi.Nano(-3*(rows-2)) {
		t.Errorf("balance %d, %v; want %d", balance, err, -3*(rows-2))
	}
	if got := strings.Count(logged.String(), "a spilled row is not valid"); got != 1 || !strings.Contains(logged.String(), entries[nobodys].RequestID) {
		t.Errorf("%d rows were said to be not valid, want one of %s:\n%s", got, entries[nobodys].RequestID, logged)
	}
	if got := strings.Count(logged.String(), "the spill journal is damaged"); got != 1 || !strings.Contains(logged.String(), "R"+entries[damaged].RequestID[1:]) {
		t.Errorf("%d times damage was said, want that of %s:\n%s", got, entries[damaged].RequestID, logged)
	}
	if left := spill.Rows(); left != 0 {
		t.Errorf("%d rows are left", left)
	}
	// One batch went row by row, some 24 kB each; the others share their pages.
	if grown := size(t, wal) - before; grown > rows*24<<10/2 {
		t.Errorf("the write-ahead log grew by %d bytes for %d rows", grown, rows)
	}
}

// size is a file's, 0 for none.
func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
