package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// newYear is the last second of a month.
var newYear = time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)

func tokens(n int64) []abi.Counter {
	return []abi.Counter{{Name: "free-tier/tokens", Period: "2026-11", Limit: 1000, Amount: n}}
}

// counted is a store with counters: one request settled, one re-rated, one refunded, one that
// runs, one whose hold never came.
func counted(t *testing.T, fresh maker) (Store, account.Account) {
	s, a := emptyStore(t, fresh)
	s.SetClock(func() time.Time { return newYear })
	hold := func(id string, n int64) account.Entry {
		return account.Entry{Kind: account.Hold, AccountID: a.ID, RequestID: id, Model: "m", Time: time.Now(), Held: 5, Counters: tokens(n)}
	}
	settle := func(id string, provisional bool, n int64) account.Entry {
		e := Charged(a.ID, id, provisional)
		e.Counters = tokens(n)
		return e
	}
	rows := []account.Entry{hold("one", 100), hold("two", 100), hold("three", 100), hold("runs", 40),
		settle("one", false, 60), settle("two", true, 100), settle("three", false, 100), settle("late", false, 7),
		RefundOf(a.ID, "three")}
	for _, again := range [][]account.Entry{rows, rows[:8], rows[8:]} { // a batch that was tried before changes nothing
		if err := s.Append(slices.Clone(again)); err != nil {
			t.Fatal(err)
		}
	}
	two, err := s.Settlement("two")
	if err != nil || !slices.Equal(two.Counters, tokens(100)) {
		t.Fatal(two, err)
	}
	adjusted := account.Entry{AccountID: a.ID, RequestID: "two", Time: time.Now(), Amount: 30, Settles: two.ID,
		ModuleDigest: "sha256:bb", Counters: tokens(-25)}
	for range 2 {
		if _, err := s.Adjust(adjusted); err != nil {
			t.Fatal(err)
		}
	}
	return s, a
}

func wantUse(t *testing.T, s Store, id string, want ...account.CounterUse) {
	t.Helper()
	if got, err := s.Counters(id); err != nil || !slices.Equal(got, want) {
		t.Errorf("counters %+v, %v; want %+v", got, err, want)
	}
}

// counters: what is used of a counter is what settlements took less what came back, what
// is held is of open holds, and all of it is there after a restart.
func counters(t *testing.T, fresh maker) {
	home := fresh(t)
	s, a := counted(t, func(testing.TB) Home { return home })
	use := account.CounterUse{Name: "free-tier/tokens", Period: "2026-11", Used: 60 + 75 + 7, Held: 40, Limit: 1000}
	wantUse(t, s, a.ID, use)
	holds, err := s.OpenHolds()
	if err != nil || len(holds) != 1 || !slices.Equal(holds[0].Counters, tokens(40)) {
		t.Fatal(holds, err)
	}
	two, err := s.Settlement("two")
	if err != nil {
		t.Fatal(err)
	}
	if _, done, err := s.Refund(two, ""); !done || err != nil { // what the re-rating left
		t.Fatal(done, err)
	}
	use.Used -= 75
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := home.Open(t)
	again.SetClock(func() time.Time { return newYear })
	wantUse(t, again, a.ID, use)
	// A crash: what ran takes of the month in which it was admitted.
	rate := func(e *account.Entry) error { e.Counters[0].Amount = 33; return nil }
	checkpoint := account.Entry{Kind: account.Checkpoint, AccountID: a.ID, RequestID: "runs", Time: time.Now(), Usage: abi.Usage{Output: 2}}
	if err := again.Append([]account.Entry{checkpoint}); err != nil {
		t.Fatal(err)
	}
	settled, err := store.SettleOpenHolds(again, rate, func(account.Entry, error) { t.Error("left out") })
	if err != nil || len(settled) != 1 {
		t.Fatal(settled, err)
	}
	use.Used, use.Held = use.Used+33, 0
	wantUse(t, again, a.ID, use)
	if v, err := again.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	again.SetClock(func() time.Time { return time.Date(2027, 2, 2, 0, 0, 0, 0, time.UTC) })
	wantUse(t, again, a.ID) // nothing asks for it any more
}

// rowsHaveTheirCounters: a row says the same of counters however it is asked for.
func rowsHaveTheirCounters(t *testing.T, fresh maker) {
	s, a := counted(t, fresh)
	all, err := s.Entries(store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64][]abi.Counter{}
	for _, e := range all {
		want[e.ID] = e.Counters
	}
	check := func(how string, n int, rows []account.Entry, err error) {
		t.Helper()
		if err != nil || len(rows) != n {
			t.Fatalf("%s: %d rows, %v; want %d", how, len(rows), err, n)
		}
		for _, e := range rows {
			if (len(e.Counters) == 1) == (e.Kind == account.TopUp) || !slices.Equal(e.Counters, want[e.ID]) {
				t.Errorf("%s: row %d has the counters %+v, the ledger %+v", how, e.ID, e.Counters, want[e.ID])
			}
		}
	}
	check("the ledger", 11, all, nil)
	oldest, _, err := s.Statement(store.StatementQuery{AccountID: a.ID})
	check("the statement", 7, oldest, err) // without the holds
	newest, _, err := s.Statement(store.StatementQuery{Newest: true, Limit: 3})
	check("the newest of the statement", 3, newest, err)
	two, err := s.Request("two")
	check("a request", 3, two, err)
	if !slices.Equal(two[2].Counters, tokens(-25)) {
		t.Errorf("its re-rating has the counters %+v", two[2].Counters)
	}
	three, err := s.Request("three")
	check("a request with its refund", 3, three, err)
	runs, err := s.Request("runs")
	check("a request that runs", 1, runs, err)
}

// badCounters: rows that no kind may have are not valid, and leave nothing behind.
func badCounters(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	for name, e := range map[string]account.Entry{
		"a hold below zero":         {Kind: account.Hold, Counters: tokens(-1)},
		"a settlement below zero":   {Kind: account.Settlement, Counters: tokens(-1)},
		"an adjustment that takes":  {Kind: account.Adjustment, Settles: 1, Counters: tokens(1)},
		"a top-up":                  {Kind: account.TopUp, Counters: tokens(1)},
		"a checkpoint":              {Kind: account.Checkpoint, Counters: tokens(1)},
		"more than there is":        {Kind: account.Hold, Counters: tokens(abi.CounterMax + 1)},
		"the least number there is": {Kind: account.Adjustment, Settles: 1, Counters: tokens(-1 << 63)},
		"no name":                   {Kind: account.Hold, Counters: []abi.Counter{{Period: "2026-11", Amount: 1}}},
		"a counter twice":           {Kind: account.Hold, Counters: append(tokens(1), tokens(1)...)},
		"more back than was taken":  {Kind: account.Adjustment, Settles: 2, Counters: tokens(-1)},
	} {
		e.AccountID, e.RequestID, e.Time = a.ID, "r", time.Now()
		if err := s.Append([]account.Entry{Charged(a.ID, "other", true), e}); !store.Rejects(err) || errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantUse(t, s, a.ID)
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.Charges != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// verifyCounters breaks each rule of counters.
func verifyCounters(t *testing.T, fresh maker) {
	for _, c := range []struct{ harm, says string }{
		{`UPDATE counters SET used = used + 1`, "is the sum of what"},
		{`DELETE FROM counters`, "is the sum of what"},
		{`DELETE FROM ledger_counters WHERE amount = 7`, "is the sum of what"},
		{`UPDATE ledger_counters SET period = '2026-12' WHERE amount = 60`, "is the sum of what"},
		{`UPDATE counters SET most = used - 1`, "more of a counter than its limit"},
		{`UPDATE ledger_counters SET amount = 59 WHERE amount = 100 AND entry_id < 5`, "what its hold has"},
		{`UPDATE ledger_counters SET amount = 25 WHERE amount = -25`, "is of a hold, a settlement or an adjustment"},
		{`UPDATE ledger_counters SET entry_id = 1 WHERE amount = 7`, "is of a hold, a settlement or an adjustment"},
	} {
		home := fresh(t)
		s, _ := counted(t, func(testing.TB) Home { return home })
		err := s.Exec(home.Allow + c.harm)
		if err != nil {
			t.Fatalf("%s: %v", c.harm, err)
		}
		if v, err := s.Verify(); err != nil || !strings.Contains(strings.Join(v.Findings, "\n"), c.says) {
			t.Errorf("%s: found %q, %v; want %q", c.harm, v.Findings, err, c.says)
		}
	}
	s, _ := counted(t, fresh)
	for _, harm := range []string{`UPDATE ledger_counters SET amount = 1`, `DELETE FROM ledger_counters`} {
		err := s.Exec(harm)
		if err == nil {
			t.Errorf("%s: the ledger is append-only", harm)
		}
	}
}
