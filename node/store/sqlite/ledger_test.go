package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

var moment = time.Unix(1700000000, 123456789).UTC()

func hold(a, request string, held abi.Nano) account.Entry {
	return account.Entry{Kind: account.Hold, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m", Time: moment, Held: held}
}

func settlement(a, request string, amount abi.Nano) account.Entry {
	return account.Entry{
		Kind: account.Settlement, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m", Time: moment,
		Amount: amount, Usage: abi.Usage{InputUncached: 10, CacheRead: 5, Output: 7, Reasoning: 3}, Tier: 1,
		Reason: account.Finished, ModuleDigest: "builtin:tariff@1", InputHash: "00ff", Provisional: true,
	}
}

func checkpoint(a, request string, output int64) account.Entry {
	return account.Entry{Kind: account.Checkpoint, AccountID: a, RequestID: request, KeyID: "key_1", Model: "m",
		Time: moment, Usage: abi.Usage{InputUncached: 10, Output: output}}
}

func mustAppend(t testing.TB, s *Store, entries ...account.Entry) []account.Entry {
	t.Helper()
	if err := s.Append(entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestEveryColumnComesBack(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 0).ID
	want := mustAppend(t, s, hold(a, "r1", 50), checkpoint(a, "r1", 2), settlement(a, "r1", -30))
	adjust := settlement(a, "r1", 5)
	adjust.Kind, adjust.Settles, adjust.Note, adjust.Provisional = account.Adjustment, want[2].ID, "re-rated", false
	want = append(want, mustAppend(t, s, adjust)...)
	got, err := s.Entries(store.Query{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("entries\n%+v\n%v, want\n%+v", got, err, want)
	}
	got, _, err = s.Statement(store.StatementQuery{AccountID: a}) // the statement: what moves money
	if err != nil || !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("statement\n%+v\n%v, want\n%+v", got, err, want[2:])
	}
	wantBalance(t, s, a, -25, 0)
}

func TestAppendAgainChangesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 100).ID
	first := mustAppend(t, s, hold(a, "r1", 50), hold(a, "r2", 20), settlement(a, "r1", -30))
	wantBalance(t, s, a, 70, 20)
	again := mustAppend(t, s, hold(a, "r1", 50), hold(a, "r2", 20), settlement(a, "r1", -30))
	wantBalance(t, s, a, 70, 20)
	for i := range first {
		if first[i].ID == 0 || first[i].ID != again[i].ID {
			t.Errorf("entry %d: id %d, again %d", i, first[i].ID, again[i].ID)
		}
	}
	mustAppend(t, s, settlement(a, "r1", -99), checkpoint(a, "r1", 9)) // late and different: the first stands
	mustAppend(t, s, settlement(a, "never held", -1))
	mustAppend(t, s, hold(a, "never held", 40)) // late: what is settled reserves nothing
	wantBalance(t, s, a, 69, 20)
	alone := settlement(a, "r3", -9)
	alone.NeverHeld = true
	mustAppend(t, s, alone)
	mustAppend(t, s, alone, hold(a, "r3", 5))
	wantBalance(t, s, a, 60, 20)
}

func TestLedgerRefuses(t *testing.T) {
	s := open(t, t.TempDir())
	a, b := mustCreate(t, s, "a", 100).ID, mustCreate(t, s, "b", 0).ID
	settled := mustAppend(t, s, settlement(a, "done", -1))[0]
	with := func(e account.Entry, change func(*account.Entry)) account.Entry {
		change(&e)
		return e
	}
	cases := []struct {
		name  string
		entry account.Entry
		want  error
	}{
		{"credit", settlement(a, "r", 1), store.ErrInvalid},
		{"negative hold", hold(a, "r", -1), store.ErrInvalid},
		{"hold that moves money", with(hold(a, "r", 1), func(e *account.Entry) { e.Amount = -1 }), store.ErrInvalid},
		{"negative usage", checkpoint(a, "r", -1), store.ErrInvalid},
		{"more reasoning than output", with(settlement(a, "r", 0), func(e *account.Entry) { e.Usage.Reasoning = 8 }), store.ErrInvalid},
		{"no request", hold(a, "", 1), store.ErrInvalid},
		{"unknown kind", with(hold(a, "r", 1), func(e *account.Entry) { e.Kind = "gift" }), store.ErrInvalid},
		{"unknown reason", with(settlement(a, "r", -1), func(e *account.Entry) { e.Reason = "bored" }), store.ErrInvalid},
		{"unknown account", hold("acct_no", "r", 1), store.ErrNotFound},
		{"adjustment of nothing", with(settlement(a, "r", 1), func(e *account.Entry) { e.Kind = account.Adjustment }), store.ErrNotFound},
		{"adjustment of another's", with(settlement(b, "r", 1), func(e *account.Entry) {
			e.Kind, e.Settles = account.Adjustment, settled.ID
		}), store.ErrNotFound},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := s.Append([]account.Entry{hold(a, "good", 10), c.entry})
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			wantBalance(t, s, a, 99, 0) // nothing of the batch stays
		})
	}
}

func TestBalanceDoesNotOverflow(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 0).ID
	for range 9 {
		if _, err := s.TopUp(a, rules.AmountMax, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.TopUp(a, rules.AmountMax, "", ""); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a balance above an int64: %v", err)
	}
	wantBalance(t, s, a, 9*rules.AmountMax, 0)
	if err := s.Append([]account.Entry{settlement(a, "r", -9e18), settlement(a, "r2", -9e18)}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("overflow in a batch: %v", err)
	}
	poor := mustCreate(t, s, "poor", -rules.AmountMax).ID
	mustAppend(t, s, settlement(poor, "r3", -8e18))
	if err := s.Append([]account.Entry{settlement(poor, "r4", -rules.AmountMax)}); !store.Rejects(err) {
		t.Errorf("a charge below an int64: %v", err)
	}
	mustAppend(t, s, settlement(poor, "r4", -5))
	wantBalance(t, s, poor, -9e18-5, 0)
}

func TestRowsCannotBeChanged(t *testing.T) {
	s := open(t, t.TempDir())
	mustCreate(t, s, "a", 100)
	for _, sql := range []string{`UPDATE ledger SET amount = 1000`, `DELETE FROM ledger`} {
		if err := s.write.db.Exec(sql); err == nil {
			t.Errorf("%s succeeded", sql)
		}
	}
}

// TestRandomHistory compares the kept sums with a model in plain Go, and with
// a sum over the rows, after random batches that repeat and interleave.
func TestRandomHistory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := open(t, t.TempDir())
	type request struct {
		account          string
		held, used       abi.Nano
		heldNow, settled bool
	}
	var accounts []string
	balance := map[string]abi.Nano{}
	for i := range 4 {
		accounts = append(accounts, mustCreate(t, s, fmt.Sprintf("a%d", i), 1000).ID)
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
				batch = append(batch, hold(r.account, id, r.held))
				r.heldNow = !r.settled
			case step == 1:
				batch = append(batch, checkpoint(r.account, id, 1))
			default:
				batch = append(batch, settlement(r.account, id, -r.used))
				if !r.settled {
					balance[r.account] -= r.used
				}
				r.heldNow, r.settled = false, true
			}
		}
		mustAppend(t, s, batch...)
	}
	for _, id := range accounts {
		var held abi.Nano
		for _, r := range requests {
			if r.account == id && r.heldNow {
				held += r.held
			}
		}
		wantBalance(t, s, id, balance[id], held)
		if sum, _ := s.write.number(`SELECT sum(amount) FROM ledger WHERE account_id = ?`, id); abi.Nano(sum) != balance[id] {
			t.Errorf("rows of %s add up to %d, want %d", id, sum, balance[id])
		}
	}
}

func TestSettleOpenHolds(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 1000).ID
	running, queued := hold(a, "running", 20), hold(a, "queued", 30)
	running.Provisional, queued.Provisional = true, true
	mustAppend(t, s, hold(a, "done", 10), running, queued, settlement(a, "done", -5),
		checkpoint(a, "running", 3), checkpoint(a, "running", 6))
	rated := 0
	rate := func(e *account.Entry) error {
		if rated++; !e.Provisional {
			t.Error("rated without what its hold says of its quote")
		}
		e.Amount, e.Tier, e.ModuleDigest = -abi.Nano(e.Usage.Output), 2, "d"
		return nil
	}
	none := func(e account.Entry, err error) { t.Errorf("left out %+v: %v", e, err) }
	settled, err := store.SettleOpenHolds(s, account.Crashed, rate, none)
	if err != nil || len(settled) != 2 || rated != 1 {
		t.Fatalf("settled %+v, rated %d, err %v", settled, rated, err)
	}
	if e := settled[0]; e.RequestID != "running" || e.Amount != -6 || e.Usage.Output != 6 || e.Reason != account.Crashed || e.Tier != 2 {
		t.Errorf("running: %+v", e)
	}
	if e := settled[1]; e.RequestID != "queued" || e.Amount != 0 || e.Usage != (abi.Usage{}) || e.Reason != account.Crashed || e.Provisional {
		t.Errorf("queued: %+v", e)
	}
	wantBalance(t, s, a, 1000-5-6, 0)
	if again, err := store.SettleOpenHolds(s, account.Crashed, rate, none); err != nil || len(again) != 0 {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

// TestSettleOpenHoldsLeavesOut: a request that cannot be charged, or whose
// settlement the database rejects, stays open, is told, and does not keep the
// others, or the start, from going on.
func TestSettleOpenHoldsLeavesOut(t *testing.T) {
	s := open(t, t.TempDir())
	a, b := mustCreate(t, s, "a", 0).ID, mustCreate(t, s, "b", 0).ID
	mustAppend(t, s, settlement(a, "dear", -9e18), hold(b, "first", 10), hold(a, "too dear", 20), hold(a, "no charge", 7), hold(b, "last", 30),
		checkpoint(b, "first", 1), checkpoint(a, "too dear", 2), checkpoint(a, "no charge", 2), checkpoint(b, "last", 3))
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
	settled, err := store.SettleOpenHolds(s, account.Crashed, rate, func(e account.Entry, err error) {
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
	wantBalance(t, s, a, -9e18, 27)
	wantBalance(t, s, b, -10, 0)
}

// TestCrashImage copies the files of a running store, as a power cut would
// leave them, and opens the copy: what Append returned for is there.
func TestCrashImage(t *testing.T) {
	dir, image := t.TempDir(), t.TempDir()
	s := open(t, dir)
	a := mustCreate(t, s, "a", 1000).ID
	mustAppend(t, s, hold(a, "r1", 10), checkpoint(a, "r1", 4), hold(a, "r2", 10), settlement(a, "r2", -7))
	for _, name := range []string{DatabaseName, DatabaseName + "-wal"} { // -shm is rebuilt
		copyFile(t, filepath.Join(dir, name), filepath.Join(image, name))
	}
	after := open(t, image)
	wantBalance(t, after, a, 993, 10)
	holds, err := after.OpenHolds()
	if err != nil || len(holds) != 1 || holds[0].RequestID != "r1" || holds[0].Usage.Output != 4 || holds[0].Held != 10 {
		t.Errorf("open holds %+v, %v", holds, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk lets SQLite refuse new pages, as a full disk would. What was
// durable stays, and the store works again when there is room.
func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 1_000_000).ID
	pages, err := s.write.number(`PRAGMA page_count`)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int64) {
		if err := s.write.db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 2)
	settled, full := 0, false
	for i := 0; i < 1000 && !full; i++ {
		id := fmt.Sprintf("r%d", i)
		switch err := s.Append([]account.Entry{hold(a, id, 5), settlement(a, id, -1)}); {
		case err == nil:
			settled++
		case errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrNotFound):
			t.Fatal(err)
		default:
			full = true
		}
	}
	if !full || settled == 0 {
		t.Fatalf("%d requests settled, full: %v", settled, full)
	}
	wantBalance(t, s, a, 1_000_000-abi.Nano(settled), 0)
	limit(1 << 30)
	mustAppend(t, s, hold(a, "after", 5), settlement(a, "after", -1))
	wantBalance(t, s, a, 1_000_000-abi.Nano(settled)-1, 0)
}

func TestPages(t *testing.T) {
	s := open(t, t.TempDir())
	a, b := mustCreate(t, s, "a", 0).ID, mustCreate(t, s, "b", 0).ID
	for i := range 10 {
		e := settlement([]string{a, b}[i%2], fmt.Sprint(i), -1)
		e.Time = moment.Add(time.Duration(i) * time.Second)
		mustAppend(t, s, e)
	}
	var got []string
	for q := (store.Query{Since: moment.Add(3 * time.Second), Limit: 2}); ; {
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

// TestConcurrentUse is for the race detector, and shows that readers and
// writers of many accounts lose nothing.
func TestConcurrentUse(t *testing.T) {
	s := open(t, t.TempDir())
	a := mustCreate(t, s, "a", 0).ID
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 10 {
				id := fmt.Sprintf("%d-%d", worker, i)
				if err := s.Append([]account.Entry{hold(a, id, 1), settlement(a, id, -1)}); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Balance(a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantBalance(t, s, a, -40, 0)
}

// BenchmarkAppend writes batches, half holds and half settlements of 32
// accounts, as a loaded node does. It reports durable rows and CPU. Request
// ids that rise with time keep the index of requests at its right edge.
func BenchmarkAppend(b *testing.B) {
	cases := []struct {
		ids  string
		step uint64
		rows int
	}{{"rising", 1, 2}, {"rising", 1, 64}, {"rising", 1, 512}, {"random", 0x9e3779b97f4a7c15, 64}}
	for _, ids := range cases {
		rows := ids.rows
		b.Run(fmt.Sprintf("ids=%s/rows=%d", ids.ids, rows), func(b *testing.B) {
			s := open(b, b.TempDir())
			var accounts []string
			for i := range 32 {
				accounts = append(accounts, mustCreate(b, s, fmt.Sprintf("a%d", i), 1e15).ID)
			}
			batch := make([]account.Entry, 0, rows)
			n := 0
			start := cpuTime(b)
			for b.Loop() {
				batch = batch[:0]
				for range rows / 2 {
					a, id := accounts[n%32], fmt.Sprintf("req_%016x", uint64(n)*ids.step)
					n++
					batch = append(batch, hold(a, id, 1000), settlement(a, id, -900))
				}
				if err := s.Append(batch); err != nil {
					b.Fatal(err)
				}
			}
			total := float64(b.N) * float64(rows)
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/total, "cpu-us/row")
			b.ReportMetric(total/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
