package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// history writes rows of three accounts with times in no order, many of them the same,
// over some days, and returns those that move money, with their ids.
func history(t *testing.T, s Store, random *rand.Rand) (accounts []string, rows []account.Entry) {
	t.Helper()
	for i := range 3 {
		accounts = append(accounts, MustCreate(t, s, fmt.Sprintf("a%d", i), 0).ID)
	}
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, random.IntN(n)) }
	for batch := range 12 {
		var entries []account.Entry
		for i := range 500 {
			e := Settlement(accounts[random.IntN(3)], fmt.Sprintf("r%d-%d", batch, i), -abi.Nano(random.IntN(9)))
			e.Time = Moment.Add(time.Duration(random.IntN(300)) * 20 * time.Minute)
			e.Model, e.KeyID, e.Usage.Output = pick("m", 3), pick("key_", 40), 3+random.Int64N(50)
			switch random.IntN(10) {
			case 0:
				e = Checkpoint(e.AccountID, e.RequestID, 1)
			case 1:
				e = account.Entry{Kind: account.TopUp, AccountID: e.AccountID, Time: e.Time, Amount: 5}
			}
			entries = append(entries, e)
		}
		rows = append(rows, MustAppend(t, s, entries...)...)
	}
	for _, i := range random.Perm(len(rows))[:200] {
		if e := rows[i]; e.Kind == account.Settlement {
			if i%2 == 0 {
				adjusted := e
				adjusted.Kind, adjusted.Settles, adjusted.Amount, adjusted.Provisional = account.Adjustment, e.ID, 2, false
				adjusted.Time = e.Time.Add(24 * time.Hour)
				rows = append(rows, MustAppend(t, s, adjusted)...)
			} else {
				e.Time = e.Time.Add(48 * time.Hour)
				refund := account.Entry{Kind: account.Adjustment, AccountID: e.AccountID, Settles: e.ID, Refund: true, Time: e.Time}
				rows = append(rows, MustAppend(t, s, refund)...)
			}
		}
	}
	return accounts, slices.DeleteFunc(rows, func(e account.Entry) bool { return e.Kind == account.Checkpoint })
}

// statement asks for random pages, and holds them to what a plain filter of all rows gives.
func statement(t *testing.T, fresh maker) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	s := fresh(t).Open(t)
	accounts, rows := history(t, s, random)
	some := func(text string) string { return []string{"", text}[random.IntN(2)] }
	at := func() time.Time {
		within := Moment.Add(time.Duration(random.IntN(330)) * 20 * time.Minute)
		return []time.Time{{}, {}, {}, within, within, within, time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}[random.IntN(7)]
	}
	for range 60 {
		q := store.StatementQuery{AccountID: some(accounts[random.IntN(3)]), Model: some("m1"), KeyID: some("key_7"),
			Since: at(), Until: at(),
			Kind: account.EntryKind(some("settlement")), Newest: random.IntN(2) == 0, Limit: 1 + random.IntN(700)}
		var want, got []int64
		for _, e := range rows {
			if (q.AccountID == "" || e.AccountID == q.AccountID) && (q.Model == "" || e.Model == q.Model) &&
				(q.KeyID == "" || e.KeyID == q.KeyID) && (q.Kind == "" || e.Kind == q.Kind) &&
				!e.Time.Before(q.Since) && (q.Until.IsZero() || e.Time.Before(q.Until)) {
				want = append(want, e.ID)
			}
		}
		times := map[int64]time.Time{}
		for _, e := range rows {
			times[e.ID] = e.Time
		}
		slices.SortFunc(want, func(a, b int64) int { return cmp.Or(times[a].Compare(times[b]), cmp.Compare(a, b)) })
		if q.Newest {
			slices.Reverse(want)
		}
		for {
			page, next, err := s.Statement(q)
			if err != nil || len(page) > q.Limit {
				t.Fatalf("%+v: %d rows, %v", q, len(page), err)
			}
			for _, e := range page {
				got = append(got, e.ID)
			}
			if next == 0 {
				break
			}
			q.After = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %d rows, want %d:\n%v\n%v", q, len(got), len(want), got, want)
		}
	}
	if _, _, err := s.Statement(store.StatementQuery{After: 1 << 40}); err == nil {
		t.Error("a page behind a row that is not there was given")
	}
}

// usage holds sums to those of the rows themselves, by every choice of groups, in
// pages, before and after the table is filled from the rows by the migration.
func usage(t *testing.T, fresh maker) {
	random := rand.New(rand.NewPCG(3, 3))
	home := fresh(t)
	s := home.Open(t)
	accounts, rows := history(t, s, random)
	check := func(when string) {
		for choice := range 8 {
			q := store.UsageQuery{AccountID: accounts[choice%3], ByDay: choice&1 != 0, ByModel: choice&2 != 0, ByKey: choice&4 != 0,
				Since: Moment.Add(30 * time.Hour), Until: Moment.Add(72 * time.Hour), Limit: 7}
			if got, want := usagePages(t, s, q), usageOracle(rows, q); len(want) == 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, choice %d: sums\n%+v, want\n%+v", when, choice, got, want)
			}
		}
		if v, err := s.Verify(); err != nil ||
			slices.ContainsFunc(v.Findings, func(f string) bool { return strings.Contains(f, "sums of usage") }) {
			t.Errorf("%s: %v, %v", when, v.Findings, err)
		}
	}
	check("kept")
	if home.FillUsage == nil {
		return
	}
	if err := home.FillUsage(s); err != nil {
		t.Fatal(err)
	}
	check("filled from the rows")
}

// refusedIsNotUsed: a settlement that only closes what a refused request had is none of the requests in the sums of
// usage, and makes no sum of nothing. One without the note is.
func refusedIsNotUsed(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0).ID
	closing := func(request, model, note string) account.Entry {
		return account.Entry{Kind: account.Settlement, AccountID: a, RequestID: request, KeyID: "key_1", Model: model, Time: Moment,
			Reason: account.Failed, Note: note}
	}
	MustAppend(t, s, Hold(a, "refused", 100), closing("refused", "m", account.NeverRan), closing("alone", "other", account.NeverRan),
		Hold(a, "failed", 100), closing("failed", "m", ""), Settlement(a, "served", -3))
	got := usagePages(t, s, store.UsageQuery{AccountID: a, ByModel: true, Limit: 7})
	if len(got) != 1 || got[0].Model != "m" || got[0].Requests != 2 || got[0].Charged != 3 || got[0].Usage.Output != 7 {
		t.Errorf("usage %+v", got)
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 || v.OpenHolds != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

func usagePages(t *testing.T, s Store, q store.UsageQuery) (all []store.UsageSum) {
	t.Helper()
	for {
		page, err := s.Usage(q)
		if err != nil || len(page) > q.Limit {
			t.Fatalf("%+v: %d sums, %v", q, len(page), err)
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all
		}
		last := page[len(page)-1]
		q = behind(q, last)
	}
}

// behind is the query of the page behind a sum.
func behind(q store.UsageQuery, last store.UsageSum) store.UsageQuery {
	q.After, q.AfterDay, q.AfterModel, q.AfterKeyID = true, last.Day, last.Model, last.KeyID
	return q
}

// usageBehindNoName: what used no key is the first of an account's keys, and the next page goes on behind it.
func usageBehindNoName(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	a := MustCreate(t, s, "a", 0).ID
	none, one := Settlement(a, "no key", -2), Settlement(a, "a key", -3)
	none.KeyID = ""
	MustAppend(t, s, none, one)
	q := store.UsageQuery{AccountID: a, ByKey: true, Limit: 1}
	for _, want := range []store.UsageSum{{KeyID: "", Charged: 2}, {KeyID: one.KeyID, Charged: 3}} {
		page, err := s.Usage(q)
		if err != nil || len(page) != 1 || page[0].KeyID != want.KeyID || page[0].Charged != want.Charged {
			t.Fatalf("%+v: %+v, %v; want key %q", q, page, err, want.KeyID)
		}
		q = behind(q, page[0])
	}
	if page, err := s.Usage(q); err != nil || len(page) != 0 {
		t.Errorf("behind the last: %+v, %v", page, err)
	}
}

func usageOracle(rows []account.Entry, q store.UsageQuery) (sums []store.UsageSum) {
	midnight := func(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }
	found := map[string]store.UsageSum{}
	for _, e := range rows {
		date := midnight(e.Time)
		if e.AccountID != q.AccountID || e.Kind == account.TopUp || date.Before(midnight(q.Since)) || date.After(midnight(q.Until)) {
			continue
		}
		var group store.UsageSum
		if q.ByDay {
			group.Day = date
		}
		if q.ByModel {
			group.Model = e.Model
		}
		if q.ByKey {
			group.KeyID = e.KeyID
		}
		name := fmt.Sprint(group)
		if sum, known := found[name]; known {
			group = sum
		}
		group.Charged -= e.Amount
		if e.Kind == account.Settlement {
			group.Requests++
			group.Usage.InputUncached += e.Usage.InputUncached
			group.Usage.CacheRead += e.Usage.CacheRead
			group.Usage.Output += e.Usage.Output
			group.Usage.Reasoning += e.Usage.Reasoning
		}
		found[name] = group
	}
	for _, sum := range found {
		sums = append(sums, sum)
	}
	slices.SortFunc(sums, func(a, b store.UsageSum) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.KeyID, b.KeyID))
	})
	return sums
}
