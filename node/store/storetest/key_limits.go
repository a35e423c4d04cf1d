package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// keyLimitsAreKept: limits are those of the last change, also after a restart and in the index
// that authenticates; what cannot be a limit is refused.
func keyLimitsAreKept(t *testing.T, fresh maker) {
	home := fresh(t)
	s := home.Open(t)
	a := MustCreate(t, s, "a", 0)
	first := account.KeyLimits{Models: []string{"m", "n"}, TokensPerMinute: 100, Budget: 5e9}
	key, _, err := s.CreateKey(a.ID, first, time.Time{})
	if err != nil || !reflect.DeepEqual(key.KeyLimits, first) {
		t.Fatal(key, err)
	}
	second := account.KeyLimits{TokensPerMinute: 7}
	to := func(limits account.KeyLimits) func(*account.KeyLimits) {
		return func(l *account.KeyLimits) { *l = limits }
	}
	if changed, err := s.UpdateKey(key.ID, to(second)); err != nil || !reflect.DeepEqual(changed.KeyLimits, second) {
		t.Fatal(changed, err)
	}
	if _, err := s.UpdateKey(key.ID, to(first)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []account.KeyLimits{{Models: []string{""}}, {TokensPerMinute: -1}, {Budget: -1}, {Budget: rules.AmountMax + 1}} {
		if _, _, err := s.CreateKey(a.ID, bad, time.Time{}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a key with %+v: %v", bad, err)
		}
		if _, err := s.UpdateKey(key.ID, to(bad)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a change to %+v: %v", bad, err)
		}
	}
	if _, err := s.UpdateKey("key_no", to(second)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a change of no key: %v", err)
	}
	s.Close()
	s = home.Open(t)
	found, err := s.Key(key.ID)
	if err != nil || !reflect.DeepEqual(found.KeyLimits, first) {
		t.Errorf("after a restart %+v, %v", found, err)
	}
	if _, keys, err := scanned(s); err != nil || len(keys) != 1 || !reflect.DeepEqual(keys[0].KeyLimits, first) {
		t.Errorf("scanned %+v, %v", keys, err)
	}
	if _, err := s.Key("key_no"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no key: %v", err)
	}
}

// keysAreChargedByTheMonth: what counts against a budget is what the rows of the month
// charged the key, less what they gave back. A batch that is written again counts once.
func keysAreChargedByTheMonth(t *testing.T, fresh maker) {
	s, a := emptyStore(t, fresh)
	var ids []string
	for _, budget := range []int64{1e9, 1e9, 0} {
		k, _, err := s.CreateKey(a.ID, account.KeyLimits{Budget: abi.Nano(budget)}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	edge := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	row := func(key, request string, at time.Time) account.Entry {
		e := Charged(a.ID, request, false)
		e.KeyID, e.Time, e.Amount = key, at, -100
		return e
	}
	rows := []account.Entry{row(ids[0], "before", edge.Add(-1)), row(ids[0], "first", edge), row(ids[0], "last", edge.AddDate(0,
		1, 0).Add(-1)),
		row(ids[0], "after", edge.AddDate(0, 1, 0)), row(ids[2], "free", edge)}
	back := RefundOf(a.ID, "first")
	back.Time = edge.Add(time.Hour)
	for range 2 {
		if err := s.Append(append(rows[:len(rows):len(rows)], back)); err != nil {
			t.Fatal(err)
		}
	}
	use := func(charged ...int64) (all []account.KeyUse) {
		for i, id := range ids[:2] {
			all = append(all, account.KeyUse{KeyID: id, Budget: 1e9, Charged: abi.Nano(charged[i])})
		}
		if ids[1] < ids[0] {
			all[0], all[1] = all[1], all[0]
		}
		return all
	}
	for at, want := range map[time.Time][]account.KeyUse{
		edge.AddDate(0, -1, 0): use(100, 0), edge: use(100, 0), edge.AddDate(0, 1, 0): use(100, 0), edge.AddDate(0, 2, 0): use(0, 0)} {
		if got, err := s.KeysCharged(a.ID, at.In(time.FixedZone("west", -8*3600)).Add(time.Hour)); err != nil ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("in the month of %v: %+v, %v; want %+v", at, got, err, want)
		}
	}
	if got, err := s.KeysCharged(MustCreate(t, s, "b", 0).ID, edge); err != nil || len(got) != 0 {
		t.Errorf("without keys: %v, %v", got, err)
	}
}
