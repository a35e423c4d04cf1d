package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// Moment is the time of the rows that this package makes.
var Moment = time.Unix(1700000000, 123456789).UTC()

// Hold is a hold of a request.
func Hold(a, request string, held abi.Nano) account.Entry {
	return account.Entry{Kind: account.Hold, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m", Time: Moment, Held: held}
}

// Settlement charges -amount for a request, provisionally.
func Settlement(a, request string, amount abi.Nano) account.Entry {
	return account.Entry{
		Kind: account.Settlement, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m", Time: Moment,
		Amount: amount, Usage: abi.Usage{InputUncached: 10, CacheRead: 5, Output: 7, Reasoning: 3}, Tier: 1,
		Reason: account.Finished, ModuleDigest: "builtin:tariff@1", InputHash: "00ff", Provisional: true,
	}
}

// Checkpoint is one of a request.
func Checkpoint(a, request string, output int64) account.Entry {
	return account.Entry{Kind: account.Checkpoint, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m",
		Time: Moment, Usage: abi.Usage{InputUncached: 10, Output: output}}
}

// MustAppend appends entries, and returns them with their ids.
func MustAppend(t testing.TB, s store.Store, entries ...account.Entry) []account.Entry {
	t.Helper()
	if err := s.Append(entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

func everyColumnComesBack(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0).ID
	want := MustAppend(t, s, Hold(a, "r1", 50), Checkpoint(a, "r1", 2), Settlement(a, "r1", -30))
	adjust := Settlement(a, "r1", 5)
	adjust.Kind, adjust.Settles, adjust.Note, adjust.Provisional = account.Adjustment, want[2].ID, "re-rated", false
	want = append(want, MustAppend(t, s, adjust)...)
	got, err := s.Entries(store.Query{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("entries\n%+v\n%v, want\n%+v", got, err, want)
	}
	for _, e := range want {
		if one, err := s.Entry(e.ID); err != nil || !reflect.DeepEqual(one, e) {
			t.Errorf("row %d\n%+v\n%v, want\n%+v", e.ID, one, err, e)
		}
	}
	for _, id := range []int64{-1, 0, want[len(want)-1].ID + 1000} {
		if one, err := s.Entry(id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("row %d, which is not there: %+v, %v", id, one, err)
		}
	}
	got, _, err = s.Statement(store.StatementQuery{AccountID: a}) // the statement: what moves money
	if err != nil || !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("statement\n%+v\n%v, want\n%+v", got, err, want[2:])
	}
	WantBalance(t, s, a, -25, 0)
}

func appendAgainChangesNothing(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 100).ID
	first := MustAppend(t, s, Hold(a, "r1", 50), Hold(a, "r2", 20), Settlement(a, "r1", -30))
	WantBalance(t, s, a, 70, 20)
	again := MustAppend(t, s, Hold(a, "r1", 50), Hold(a, "r2", 20), Settlement(a, "r1", -30))
	WantBalance(t, s, a, 70, 20)
	for i := range first {
		if first[i].ID == 0 || first[i].ID != again[i].ID {
			t.Errorf("entry %d: id %d, again %d", i, first[i].ID, again[i].ID)
		}
	}
	MustAppend(t, s, Settlement(a, "r1", -99), Checkpoint(a, "r1", 9)) // late and different: the first stands
	MustAppend(t, s, Settlement(a, "never held", -1))
	MustAppend(t, s, Hold(a, "never held", 40)) // late: what is settled reserves nothing
	WantBalance(t, s, a, 69, 20)
	alone := Settlement(a, "r3", -9)
	alone.NeverHeld = true
	MustAppend(t, s, alone)
	MustAppend(t, s, alone, Hold(a, "r3", 5))
	WantBalance(t, s, a, 60, 20)
}

func ledgerRefuses(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 100).ID, MustCreate(t, s, "b", 0).ID
	settled := MustAppend(t, s, Settlement(a, "done", -1))[0]
	with := func(e account.Entry, change func(*account.Entry)) account.Entry {
		change(&e)
		return e
	}
	MustAppend(t, s, Hold(b, "another's", 7))
	cases := []struct {
		name  string
		entry account.Entry
		want  error
	}{
		{"settlement of another's hold", Settlement(a, "another's", -1), store.ErrInvalid},
		{"of one in the batch", Settlement(b, "good", -1), store.ErrInvalid},
		{"credit", Settlement(a, "r", 1), store.ErrInvalid},
		{"negative hold", Hold(a, "r", -1), store.ErrInvalid},
		{"hold that moves money", with(Hold(a, "r", 1), func(e *account.Entry) { e.Amount = -1 }), store.ErrInvalid},
		{"negative usage", Checkpoint(a, "r", -1), store.ErrInvalid},
		{"more reasoning than output", with(Settlement(a, "r", 0), func(e *account.Entry) { e.Usage.Reasoning = 8 }), store.ErrInvalid},
		{"no request", Hold(a, "", 1), store.ErrInvalid},
		{"unknown kind", with(Hold(a, "r", 1), func(e *account.Entry) { e.Kind = "gift" }), store.ErrInvalid},
		{"unknown reason", with(Settlement(a, "r", -1), func(e *account.Entry) { e.Reason = "bored" }), store.ErrInvalid},
		{"unknown account", Hold("acct_no", "r", 1), store.ErrNotFound},
		{"adjustment of nothing", with(Settlement(a, "r", 1), func(e *account.Entry) { e.Kind = account.Adjustment }), store.ErrNotFound},
		{"adjustment of another's", with(Settlement(b, "r", 1), func(e *account.Entry) {
			e.Kind, e.Settles = account.Adjustment, settled.ID
		}), store.ErrNotFound},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := s.Append([]account.Entry{Hold(a, "good", 10), c.entry})
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			WantBalance(t, s, a, 99, 0) // nothing of the batch stays
			WantBalance(t, s, b, 0, 7)
		})
	}
	MustAppend(t, s, Settlement(b, "another's", -1))
	WantBalance(t, s, b, -1, 0)
}

func balanceDoesNotOverflow(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0).ID
	for range 9 {
		if _, err := s.TopUp(a, rules.AmountMax, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.TopUp(a, rules.AmountMax, "", ""); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a balance above an int64: %v", err)
	}
	WantBalance(t, s, a, 9*rules.AmountMax, 0)
	if err := s.Append([]account.Entry{Settlement(a, "r", -9e18), Settlement(a, "r2", -9e18)}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("overflow in a batch: %v", err)
	}
	poor := MustCreate(t, s, "poor", -rules.AmountMax).ID
	MustAppend(t, s, Settlement(poor, "r3", -8e18))
	if err := s.Append([]account.Entry{Settlement(poor, "r4", -rules.AmountMax)}); !store.Rejects(err) {
		t.Errorf("a charge below an int64: %v", err)
	}
	MustAppend(t, s, Settlement(poor, "r4", -5))
	WantBalance(t, s, poor, -9e18-5, 0)
}

func rowsCannotBeChanged(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	MustCreate(t, s, "a", 100)
	for _, sql := range []string{`UPDATE ledger SET amount = 1000`, `DELETE FROM ledger`} {
		if err := s.Exec(sql); err == nil {
			t.Errorf("%s succeeded", sql)
		}
	}
}

// randomHistory compares the kept sums with a model in plain Go, and with
// a sum over the rows, after random batches that repeat and interleave.
func randomHistory(t *testing.T, fresh maker) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := fresh(t).Open(t)
	type request struct {
		account          string
		held, used       abi.Nano
		heldNow, settled bool
	}
	var accounts []string
	balance := map[string]abi.Nano{}
	for i := range 4 {
		accounts = append(accounts, MustCreate(t, s, fmt.Sprintf("a%d", i), 1000).ID)
		balance[accounts[i]] = 1000
	}
	requests := make([]request, 60)
	for i := range requests {
		requests[i] = request{account: accounts[random.IntN(4)], held: abi.Nano(random.IntN(100)), used: abi.Nano(random.IntN(100))}
	}
	for range 40 {
		var batch []account.Entry
		for range random.IntN(20) {
			i := random.IntN(len(requests))
			r, id := &requests[i], fmt.Sprintf("r%d", i)
			switch step := random.IntN(3); {
			case step == 0 || !r.heldNow && !r.settled:
				batch = append(batch, Hold(r.account, id, r.held))
				r.heldNow = !r.settled
			case step == 1:
				batch = append(batch, Checkpoint(r.account, id, 1))
			default:
				batch = append(batch, Settlement(r.account, id, -r.used))
				if !r.settled {
					balance[r.account] -= r.used
				}
				r.heldNow, r.settled = false, true
			}
		}
		MustAppend(t, s, batch...)
	}
	for _, id := range accounts {
		var held abi.Nano
		for _, r := range requests {
			if r.account == id && r.heldNow {
				held += r.held
			}
		}
		WantBalance(t, s, id, balance[id], held)
	}
}

func settleOpenHolds(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 1000).ID
	running, queued := Hold(a, "running", 20), Hold(a, "queued", 30)
	running.Provisional, queued.Provisional = true, true
	MustAppend(t, s, Hold(a, "done", 10), running, queued, Settlement(a, "done", -5),
		Checkpoint(a, "running", 3), Checkpoint(a, "running", 6))
	rated := 0
	rate := func(e *account.Entry) error {
		if rated++; !e.Provisional {
			t.Error("rated without what its hold says of its quote")
		}
		e.Amount, e.Tier, e.ModuleDigest = -abi.Nano(e.Usage.Output), 2, "d"
		return nil
	}
	none := func(e account.Entry, err error) { t.Errorf("left out %+v: %v", e, err) }
	settled, err := store.SettleOpenHolds(s, rate, none)
	if err != nil || len(settled) != 2 || rated != 1 {
		t.Fatalf("settled %+v, rated %d, err %v", settled, rated, err)
	}
	if e := settled[0]; e.RequestID != "running" || e.Amount != -6 || e.Usage.Output != 6 || e.Reason != account.Crashed || e.Tier != 2 {
		t.Errorf("running: %+v", e)
	}
	if e := settled[1]; e.RequestID != "queued" || e.Amount != 0 || e.Usage != (abi.Usage{}) || e.Reason != account.Crashed ||
		e.Provisional {
		t.Errorf("queued: %+v", e)
	}
	WantBalance(t, s, a, 1000-5-6, 0)
	if again, err := store.SettleOpenHolds(s, rate, none); err != nil || len(again) != 0 {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

// journalGivenAgain: a process that dies between the last commit of a replay and the journal's next epoch leaves all rows to the
// next one. Its checkpoints are there twice then, which changes no money: the last row is the same.
func journalGivenAgain(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 1000).ID
	journal := []account.Entry{Hold(a, "running", 20), Hold(a, "done", 10), Checkpoint(a, "running", 3), Checkpoint(a, "done", 2),
		Checkpoint(a, "running", 6), Settlement(a, "done", -5)}
	for range 3 {
		MustAppend(t, s, journal...)
		WantBalance(t, s, a, 1000-5, 20)
	}
	none := func(e account.Entry, err error) { t.Errorf("left out %+v: %v", e, err) }
	settled, err := store.SettleOpenHolds(s, func(e *account.Entry) error {
		e.Amount, e.ModuleDigest = -abi.Nano(e.Usage.Output), "d"
		return nil
	}, none)
	if err != nil || len(settled) != 1 || settled[0].RequestID != "running" || settled[0].Amount != -6 {
		t.Errorf("settled %+v, %v", settled, err)
	}
	WantBalance(t, s, a, 1000-5-6, 0)
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.Charges != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

// accountHolds: what an account has open is told apart from what others have, and without what is settled.
func accountHolds(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 100).ID, MustCreate(t, s, "b", 100).ID
	MustAppend(t, s, Hold(a, "a1", 1), Hold(b, "b1", 2), Hold(a, "a2", 3), Hold(a, "settled", 4), Settlement(a, "settled", -4))
	for id, want := range map[string][]string{a: {"a1", "a2"}, b: {"b1"}, "nobody": nil} {
		holds, err := s.AccountHolds(id)
		var got []string
		for _, e := range holds {
			got = append(got, e.RequestID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %v open, %v; want %v", id, got, err, want)
		}
	}
}

// settleOpenHoldsLeavesOut: a request that cannot be charged, or whose
// settlement the database rejects, stays open, is told, and does not keep the
// others, or the start, from going on.
func settleOpenHoldsLeavesOut(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 0).ID, MustCreate(t, s, "b", 0).ID
	MustAppend(t, s, Settlement(a, "dear", -9e18), Hold(b, "first", 10), Hold(a, "too dear", 20), Hold(a, "no charge", 7),
		Hold(b, "last", 30),
		Checkpoint(b, "first", 1), Checkpoint(a, "too dear", 2), Checkpoint(a, "no charge", 2), Checkpoint(b, "last", 3))
	noCharge := errors.New("no charge")
	rate := func(e *account.Entry) error {
		e.Amount = -5
		switch e.RequestID {
		case "too dear":
			e.Amount = -rules.AmountMax
		case "no charge":
			return noCharge
		}
		return nil
	}
	left := map[string]account.Entry{}
	settled, err := store.SettleOpenHolds(s, rate, func(e account.Entry, err error) {
		if left[e.RequestID] = e; !store.Rejects(err) && !errors.Is(err, noCharge) {
			t.Errorf("left out with %v", err)
		}
	})
	if err != nil || len(settled) != 2 || settled[0].RequestID != "first" || settled[1].RequestID != "last" {
		t.Errorf("settled %+v, %v", settled, err)
	}
	if len(left) != 2 || left["too dear"].Amount != -rules.AmountMax || left["no charge"].AccountID != a {
		t.Errorf("left out %+v", left)
	}
	WantBalance(t, s, a, -9e18, 27)
	WantBalance(t, s, b, -10, 0)
}

func pages(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a, b := MustCreate(t, s, "a", 0).ID, MustCreate(t, s, "b", 0).ID
	for i := range 10 {
		e := Settlement([]string{a, b}[i%2], fmt.Sprint(i), -1)
		e.Time = Moment.Add(time.Duration(i) * time.Second)
		MustAppend(t, s, e)
	}
	var got []string
	for q := (store.Query{Since: Moment.Add(3 * time.Second), Limit: 2}); ; {
		page, err := s.Entries(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.RequestID)
		}
		q.After = page[len(page)-1].ID
	}
	if want := []string{"3", "4", "5", "6", "7", "8", "9"}; !reflect.DeepEqual(got, want) {
		t.Errorf("pages gave %v, want %v", got, want)
	}
	for year, rows := range map[int]int{1000: 10, 9999: 0} { // outside of what a row can hold
		all, err := s.Entries(store.Query{Since: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil || len(all) != rows {
			t.Errorf("since the year %d: %d rows, %v; want %d", year, len(all), err, rows)
		}
	}
	if all, err := s.Entries(store.Query{}); err != nil || len(all) != 10 {
		t.Errorf("all accounts: %d rows, %v", len(all), err)
	}
}

// concurrentUse is for the race detector, and shows that readers and
// writers of many accounts lose nothing.
func concurrentUse(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0).ID
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 10 {
				id := fmt.Sprintf("%d-%d", worker, i)
				if err := s.Append([]account.Entry{Hold(a, id, 1), Settlement(a, id, -1)}); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Balance(a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	WantBalance(t, s, a, -40, 0)
}
