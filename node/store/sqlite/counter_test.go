package sqlite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"corenode/actors/account"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// TestCountersOfRowsBetweenAreNotRead asks for two rows of which one is the first and one the last, and counts
// what SQLite gives for them: their own counters, and none of the hundred rows between.
func TestCountersOfRowsBetweenAreNotRead(t *testing.T) {
	s := open(t, t.TempDir())
	a := storetest.MustCreate(t, s, "a", 0).ID
	n := []abi.Counter{{Name: "free-tier/tokens", Period: "2026-11", Limit: 1000, Amount: 2}}
	row := func(e account.Entry, provisional bool) account.Entry {
		e.Counters, e.Provisional = n, provisional
		return e
	}
	rows := []account.Entry{row(storetest.Hold(a, "runs first", 1), false), row(storetest.Settlement(a, "first", -1), true)}
	for i := range 100 {
		rows = append(rows, row(storetest.Settlement(a, fmt.Sprint(i), -1), false))
	}
	rows = append(rows, row(storetest.Settlement(a, "last", -1), true), row(storetest.Hold(a, "runs last", 1), false))
	storetest.MustAppend(t, s, rows...)
	given := 0
	for _, c := range []*conn{s.read, s.asked} {
		err := c.db.Trace(sqlite3.TRACE_ROW, func(sqlite3.TraceEvent, any, any) error {
			given++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func() ([]account.Entry, error){
		"provisional": func() ([]account.Entry, error) { return s.Provisional(0) },
		"open holds":  s.OpenHolds,
	} {
		given = 0
		got, err := read()
		if err != nil || len(got) != 2 || !slices.Equal(got[0].Counters, n) || !slices.Equal(got[1].Counters, n) {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		if given != 4 { // two rows, and a counter of each
			t.Errorf("%s: SQLite gave %d rows, want 4", name, given)
		}
	}
}
