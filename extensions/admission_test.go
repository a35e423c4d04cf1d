package extensions

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

func admissionGuest(t *testing.T, d abi.Decision) []byte {
	g := newGuest(SlotAdmission, "1")
	g.answers[abi.OpDecide] = d.Append(nil)
	return g.bytes(t)
}

func TestDecide(t *testing.T) {
	cases := []struct{ said, want abi.Decision }{
		{abi.Decision{}, abi.Decision{}},
		{abi.Decision{Verdict: abi.Allow, Priority: 3, Msg: "x"}, abi.Decision{}},
		{abi.Decision{Verdict: abi.Queue, Priority: -3, Kind: abi.Overloaded}, abi.Decision{Verdict: abi.Queue, Priority: -3}},
		{abi.Decision{Verdict: abi.Deny, Kind: abi.Overloaded, RetryAfterMS: 5, Msg: "later\r\n"},
			abi.Decision{Verdict: abi.Deny, Kind: abi.Overloaded, RetryAfterMS: 5, Msg: "later "}},
		{abi.Decision{Verdict: abi.Deny, Kind: abi.Internal, RetryAfterMS: 1 << 31},
			abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, RetryAfterMS: 86_400_000,
				Msg: "the request was refused by the admission policy"}},
	}
	for _, c := range cases {
		h, _ := openTest(t, Options{})
		if d, err := h.Decide("", abi.AdmissionInput{}); err != nil || d.Verdict != abi.Allow || h.Deciding() {
			t.Errorf("without a policy: %+v, %v", d, err)
		}
		activate(t, h, admissionGuest(t, c.said))
		d, err := h.Decide("", abi.AdmissionInput{Account: "a"})
		if err != nil || !reflect.DeepEqual(d.Decision, c.want) || d.Needs != nil || !h.Deciding() {
			t.Errorf("%+v became %+v, %v; want %+v", c.said, d, err, c.want)
		}
		if _, err := h.Rollback(SlotAdmission); err != nil || h.Deciding() {
			t.Errorf("rollback to no policy: %v, deciding %v", err, h.Deciding())
		}
		if _, err := h.Rollback(SlotAdmission); !errors.Is(err, ErrNoPrevious) {
			t.Errorf("%v", err)
		}
	}
}

// TestPolicyFails: a policy that fails refuses, or admits if the operator
// wants that, and its breaker never opens the door by itself.
func TestPolicyFails(t *testing.T) {
	for _, open := range []bool{false, true} {
		h, _ := openTest(t, Options{AdmissionFailOpen: open})
		info := activate(t, h, newGuest(SlotAdmission, "1").bytes(t)) // no output: a fault
		for range 3 * breakerFaults {
			_, err := h.Decide("", abi.AdmissionInput{Account: "a"})
			var e *abi.Error
			if open && err != nil || !open && (!errors.As(err, &e) || e.Kind != abi.Overloaded || e.RetryAfter != time.Second) {
				t.Fatalf("open %v: %v", open, err)
			}
		}
		eventually(func() bool { info, _ = h.info(info.Digest); return info.Error != "" })
		if h.Deciding() == open {
			t.Errorf("open %v: deciding %v, %+v", open, h.Deciding(), info)
		}
	}
}

// TestAdmissionCanaryComesLast: where a canary is the only policy, its accounts
// are refused while it is missing, and others are not.
func TestAdmissionCanaryComesLast(t *testing.T) {
	for _, open := range []bool{false, true} {
		o := Options{Dir: t.TempDir(), AdmissionFailOpen: open}
		h, _ := openTest(t, o)
		digest := mustLoad(t, h, admissionGuest(t, abi.Decision{}))
		if _, err := h.Canary(digest, 50); err != nil {
			t.Fatal(err)
		}
		_ = h.Close()
		flip(t, h.folder.path(digest, extWasm), 30)
		h, _ = openTest(t, o)
		if h.Deciding() == open {
			t.Errorf("fail open %v: deciding %v", open, h.Deciding())
		}
		for _, account := range []string{"a", "b", "c", "d", "e", "f"} {
			_, err := h.Decide("", abi.AdmissionInput{Account: account})
			if refused := err != nil; refused != (!open && inShare(account, 50)) {
				t.Errorf("fail open %v, account %s: %v", open, account, err)
			}
		}
	}
}

// TestRecordsOfItsVersion: a module is given the records of the version that its
// manifest says, by requests, at load and as a shadow of another one's.
func TestRecordsOfItsVersion(t *testing.T) {
	module := func(version, wants string) []byte {
		g := newGuest(SlotAdmission, version)
		g.manifest.ABI = version
		g.call = wasmtest.Asm().I32(guestInput+7).Mem(wasmtest.I32Load8U, 0).I32(int32(wants[0])).Op(wasmtest.I32Eq).If(wasmtest.Void).
			I64(g.place(okFrame(abi.Decision{}.Append(nil)))).Op(wasmtest.Return).End().Op(wasmtest.Unreachable) // "decide/1" or "decide/2"
		return g.bytes(t)
	}
	in := abi.AdmissionInput{Account: "a", Counters: abi.Counters{ModelQueued: 3}}
	h, l := openTest(t, Options{})
	h.untried = false
	for _, pair := range [][2]string{{"1.0", "1"}, {"1.1", "2"}} {
		digest := mustLoad(t, h, module(pair[0], pair[1]))
		if _, err := h.Activate(digest); err != nil {
			t.Fatal(err)
		}
		other := mustLoad(t, h, module(map[string]string{"1.0": "1.1", "1.1": "1.0"}[pair[0]], map[string]string{"1": "2",
			"2": "1"}[pair[1]]))
		if _, err := h.Shadow(other, 100); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Decide("", in); err != nil {
			t.Errorf("%s: %v\n%s", pair[0], err, l)
		}
		h.slot(SlotAdmission).now.Load().shadow.stop() // it has done all that it was asked
		if i, err := h.info(other); err != nil || i.ShadowRuns != 1 || i.ShadowMismatches != 0 || len(i.Faults) > 0 {
			t.Errorf("beside %s: %+v, %v", pair[0], i, err)
		}
	}
	if _, err := h.Load(t.Context(), module("1.2", "2"), nil, nil); err == nil || !strings.Contains(err.Error(),
		"this node speaks 1.0 and 1.1") {
		t.Errorf("a version to come: %v", err)
	}
}

// reserving is a policy of a name whose decision takes of its counters.
func reserving(t testing.TB, name string, place int, counters []guest.Counter, d abi.Decision) []byte {
	g := newGuest(SlotAdmission, "1")
	g.manifest.Name, g.manifest.Place, g.manifest.ABI, g.manifest.Counters = name, place, guest.ABI11, counters
	g.answers[abi.OpDecide] = d.Append(nil)
	return g.bytes(t)
}

// TestDecideReserves: what the policies of a chain take of their counters is named after them
// and their period, with the refusal of each, which names it where its policy has more; one that denies later takes nothing.
func TestDecideReserves(t *testing.T) {
	h, _ := openTest(t, Options{})
	day, month := []guest.Counter{{Name: "requests", Period: "day"}}, []guest.Counter{{Name: "tokens", Period: "month"}}
	first := abi.Decision{Verdict: abi.Reserve, Priority: 4, Kind: abi.InsufficientBalance, Msg: "no more today\n", RetryAfterMS: 7,
		Takes: []abi.Take{{Limit: 5, Max: 1}}}
	activate(t, h, reserving(t, "daily", 0, day, first))
	activate(t, h, reserving(t, "monthly", 2, month, abi.Decision{Verdict: abi.Reserve, Takes: []abi.Take{{Limit: 100, Max: 30}}}))
	activate(t, h, reserving(t, "both", 3, append(day, month...), abi.Decision{Verdict: abi.Reserve, Msg: "used up",
		Takes: []abi.Take{{Limit: 6, Max: 1}, {Limit: 7, Max: 2}}}))
	d, err := h.Decide("r", abi.AdmissionInput{Account: "a", At: 1_700_000_000})
	want := []Need{
		{abi.Counter{Name: "admission/daily/requests", Period: "2023-11-14", Limit: 5, Amount: 1},
			abi.Decision{Verdict: abi.Deny, Kind: abi.InsufficientBalance, RetryAfterMS: 7, Msg: "no more today "}},
		{abi.Counter{Name: "admission/monthly/tokens", Period: "2023-11", Limit: 100, Amount: 30},
			abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "the request was refused by the admission policy"}},
		{abi.Counter{Name: "admission/both/requests", Period: "2023-11-14", Limit: 6, Amount: 1},
			abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "used up (requests of 2023-11-14)"}},
		{abi.Counter{Name: "admission/both/tokens", Period: "2023-11", Limit: 7, Amount: 2},
			abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "used up (tokens of 2023-11)"}},
	}
	if err != nil || d.Verdict != abi.Queue || d.Priority != 4 || !reflect.DeepEqual(d.Needs, want) {
		t.Errorf("%+v, %v; want %+v", d, err, want)
	}
	activate(t, h, reserving(t, "closed", 3, nil, abi.Decision{Verdict: abi.Deny, Kind: abi.Overloaded, Msg: "no"}))
	if d, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); err != nil || d.Verdict != abi.Deny || d.Needs != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestAttackReserve: a decision that takes what its manifest does not name, or numbers that
// nobody can hold, is a fault and refuses; none of it reaches the counters.
func TestAttackReserve(t *testing.T) {
	one := []guest.Counter{{Name: "n", Period: "day"}}
	for name, c := range map[string]struct {
		counters []guest.Counter
		takes    []abi.Take
	}{
		"without counters": {nil, nil}, "of one that is not there": {nil, []abi.Take{{Limit: 1, Max: 1}}},
		"of too few": {one, nil}, "of too many": {one, []abi.Take{{Limit: 1, Max: 1}, {Limit: 1, Max: 1}}},
		"below zero": {one, []abi.Take{{Limit: 1, Max: -1}}}, "a limit below zero": {one, []abi.Take{{Limit: -1, Max: 0}}},
		"beyond what counts": {one, []abi.Take{{Limit: abi.CounterMax + 1, Max: 1}}},
	} {
		h, _ := openTest(t, Options{})
		activate(t, h, reserving(t, "quota", 0, c.counters, abi.Decision{Verdict: abi.Reserve, Takes: c.takes}))
		if d, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); abi.KindOf(err) != abi.Overloaded || d.Needs != nil {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// TestSettledCounters: a charge settles what its request holds of admission policies' counters
// by its usage, whoever charges, and leaves those of another billing module.
func TestSettledCounters(t *testing.T) {
	h, _ := openTest(t, Options{})
	held := []abi.Counter{{Name: "admission/quota/tokens", Amount: 500}, {Name: "admission/quota/requests", Amount: 1},
		{Name: "free-tier/tokens", Amount: 9}, {Name: "admission/tokens", Amount: 8}}
	used := abi.Usage{InputUncached: 40, CacheRead: 1, Output: 3}
	c, err := h.Rate("r", abi.ChargeInput{Prices: abi.Prices{Input: 1, Output: 1}, Usage: used}, held)
	var got []int64
	for _, n := range c.Counters {
		got = append(got, n.Amount)
	}
	if err != nil || !reflect.DeepEqual(got, []int64{44, 1, 0, 0}) {
		t.Errorf("%v of %+v, %v", got, held, err)
	}
}
