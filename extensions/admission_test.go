package extensions

import (
	"errors"
	"strings"
	"testing"
	"time"

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
		if d, err := h.Decide("", abi.AdmissionInput{}); err != nil || d != (abi.Decision{}) || h.Deciding() {
			t.Errorf("without a policy: %+v, %v", d, err)
		}
		activate(t, h, admissionGuest(t, c.said))
		if d, err := h.Decide("", abi.AdmissionInput{Account: "a"}); err != nil || d != c.want || !h.Deciding() {
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
		eventually(func() bool { i, _ := h.info(other); return i.ShadowRuns == 1 })
		if i, err := h.info(other); err != nil || i.ShadowMismatches != 0 || len(i.Faults) > 0 {
			t.Errorf("beside %s: %+v, %v", pair[0], i, err)
		}
	}
	if _, err := h.Load(t.Context(), module("1.2", "2"), nil, nil); err == nil || !strings.Contains(err.Error(),
		"this node speaks 1.0 and 1.1") {
		t.Errorf("a version to come: %v", err)
	}
}
