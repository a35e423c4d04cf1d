package extensions

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"corenode/extensions/capture"
	"corenode/wasm/abi"
)

// TestCaptureOfCharges: what is kept is of the account that was named, and gives the
// dollars, tokens and ticks of an old and a new module.
func TestCaptureOfCharges(t *testing.T) {
	h, l := openTest(t, Options{})
	charge := func(tokens int64) abi.Charge {
		return abi.Charge{Total: abi.Nano(tokens), Lines: []abi.Line{line(tokens, 1, abi.Nano(tokens))}}
	}
	activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge(5)))
	ask := func(account string) {
		t.Helper()
		in := ratingInput
		in.Account = account
		q, err := h.Quote("req_"+account, in)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		if _, err := q.Charge(ratingUsage, nil); err != nil {
			t.Fatal(err)
		}
	}
	ask("before")
	if _, err := h.Captured(SlotBilling); !errors.Is(err, ErrNoCapture) {
		t.Errorf("without a capture: %v", err)
	}
	if _, err := h.Capture(SlotBilling, "mine", time.Minute); err != nil {
		t.Fatal(err)
	}
	ask("mine")
	ask("others")
	ask("mine")
	if got := l.String(); !strings.Contains(got, "what requests ask is kept") || !strings.Contains(got, "account=mine") {
		t.Errorf("the log has no line of it:\n%s", got)
	}
	digest := mustLoad(t, h, billingGuest(t, "2", abi.Quote{Upper: 9}, charge(4)))
	for _, older := range []string{"", "test@1"} {
		r, err := h.CompareCaptured(t.Context(), older, digest, nil)
		if err != nil || r.Old != "test@1" || r.New != "test@2" || r.Requests != 2 || r.Differ != 2 || r.Left != 0 || r.Failed != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if r.Charges != 2 || r.OldNanoUSD != 10 || r.NewNanoUSD != 8 || r.OldTokens != 10 || r.NewTokens != 8 {
			t.Errorf("%+v", r)
		}
		if len(r.Operations) != 2 || r.Operations[0].Op != "quote" || r.Operations[0].Differ != 0 || r.Operations[1].Differ != 2 {
			t.Errorf("%+v", r.Operations)
		}
		if d := r.First[0]; d.Account != "mine" || d.Request != "req_mine" || d.Text != `charge.total was "5", is "4"` {
			t.Errorf("%+v", d)
		}
	}
	for what, err := range map[string]error{
		"a module that is not there": second(h.CompareCaptured(t.Context(), "", "nobody@1", nil)),
		"two slots":                  second(h.CompareCaptured(t.Context(), "builtin:chat", digest, nil)),
		"no time":                    second(h.Capture(SlotBilling, "", 0)),
		"too much time":              second(h.Capture(SlotBilling, "", 2*time.Hour)),
		"no slot":                    second(h.Capture("nothing", "", time.Minute)),
	} {
		if err == nil {
			t.Errorf("%s went well", what)
		}
	}
	if err := h.EndCapture(SlotBilling); err != nil {
		t.Fatal(err)
	}
	ask("mine")
	if _, err := h.CompareCaptured(t.Context(), "", digest, nil); !errors.Is(err, ErrNoCapture) {
		t.Errorf("after its end: %v", err)
	}
}

// TestCompareTellsBuildsApart: two builds of one version, as an author has them who edits one, have their digests beside it.
func TestCompareTellsBuildsApart(t *testing.T) {
	h, _ := openTest(t, Options{})
	older := activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, abi.Charge{})).Digest
	if _, err := h.Capture(SlotBilling, "mine", time.Minute); err != nil {
		t.Fatal(err)
	}
	newer := mustLoad(t, h, billingGuest(t, "1", abi.Quote{Upper: 8}, abi.Charge{}))
	r, err := h.CompareCaptured(t.Context(), older, newer, nil)
	if err != nil || r.Old != "test@1 "+Abbreviate(older) || r.New != "test@1 "+Abbreviate(newer) {
		t.Errorf("%q and %q, %v", r.Old, r.New, err)
	}
}

// TestCaptureKeepsCountersByName: each build is asked with what the request held of its own counters.
func TestCaptureKeepsCountersByName(t *testing.T) {
	h, _ := openTest(t, Options{})
	charge := abi.Charge{Total: 400, Tier: 1, Lines: []abi.Line{line(1, 400, 400)}, Taken: tookTokens}
	activate(t, h, countingGuest(t, "1", countingQuote, charge))
	if _, err := h.Capture(SlotBilling, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	q, err := h.Quote("r", ratingInput)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Charge(ratingUsage, held(q, 50, 1)); err != nil {
		t.Fatal(err)
	}
	q.Close()
	var got [2][]int64
	side := func(n int, ref string) capture.Side {
		b := bench{of: h.modules[ref].generation}
		s := b.side()
		s.Call = func(_ string, op abi.Op, in []byte) ([]byte, int64, error) {
			if op == abi.OpCharge {
				asked, err := abi.ParseChargeInput(in)
				got[n] = asked.Held
				return nil, 0, err
			}
			return b.call("a", op, in)
		}
		return s
	}
	same := mustLoad(t, h, countingGuest(t, "2", countingQuote, charge))
	other := mustLoad(t, h, countingOf(t, "other", "1", countingQuote, charge))
	c := capture.NewCompare(side(0, same), side(1, other), nil)
	for _, r := range h.slot(SlotBilling).captured.Load().Requests() {
		c.Add(r)
	}
	if !slices.Equal(got[0], []int64{50, 1}) || !slices.Equal(got[1], []int64{0, 0}) {
		t.Errorf("a build of that name holds %d, another module %d", got[0], got[1])
	}
}

func second[T any](_ T, err error) error { return err }

// TestCaptureRunsAsTheHostDid: what is run again of a stream is, byte for byte, what the
// host asked of the module when the request was there.
func TestCaptureRunsAsTheHostDid(t *testing.T) {
	for _, history := range []bool{false, true} {
		live := &recorder{}
		h := openNative(t, history, live)
		if _, err := h.Capture(SlotChat, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, cut := range [][]int{{11}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 4, 4}} {
			tr := h.Translate(SlotChat, "mine", fmt.Sprint("req_", cut), abi.Facts{ID: "a", Created: 7})
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			tr.SetFacts(abi.Facts{ID: "a", Created: 7, Model: "core-1.1", Stream: true})
			events := answerEvents()
			for _, n := range cut {
				if _, err := tr.Events(nil, events[:n]); err != nil {
					t.Fatal(err)
				}
				events = events[n:]
			}
			tr.Error(nil, &abi.Error{Kind: abi.Overloaded, Msg: "busy"}, 503)
			tr.SetFacts(abi.Facts{ID: "b", Model: "core-1.1"})
			if _, err := tr.Response(nil, answerEvents()); err != nil {
				t.Fatal(err)
			}
			tr.Close()
		}
		again := &recorder{}
		side := capture.Side{History: history, Call: func(_ string, op abi.Op, in []byte) ([]byte, int64, error) {
			return again.handle(op, in, nil), 0, nil
		}}
		silent := capture.Side{Call: func(string, abi.Op, []byte) ([]byte, int64, error) { return nil, 0, errors.New("trap") }}
		c := capture.NewCompare(side, silent, nil)
		for _, r := range h.slot(SlotChat).captured.Load().Requests() {
			c.Add(r)
		}
		if r := c.Report(0); r.Requests != 3 || r.Failed != 3 || r.Differ != 3 {
			t.Errorf("history %v: %+v", history, r)
		}
		if len(live.events) != 15 || len(live.responses) != 3 || len(live.errors) != 3 || !sameEvents(live.events, again.events) ||
			!reflect.DeepEqual(live.responses, again.responses) || !reflect.DeepEqual(live.errors, again.errors) {
			t.Errorf("history %v: asked\n%+v\n%+v\nthen\n%+v\n%+v", history, live.events, live.errors, again.events, again.errors)
		}
	}
}

// sameEvents compares inputs as bytes: an empty part may be nil.
func sameEvents(a, b []abi.EventsInput) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if string(a[i].Append(nil)) != string(b[i].Append(nil)) {
			return false
		}
	}
	return true
}

// TestCaptureEnds: it takes nothing after its time, and is forgotten later, by the host's
// end at the latest.
func TestCaptureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openNative(t, false, &recorder{})
		ask := func() {
			tr := h.Translate(SlotChat, "mine", "req", abi.Facts{})
			_, _ = tr.Request([]byte("{}"))
			tr.Close()
		}
		if _, err := h.Capture(SlotChat, "", time.Minute); err != nil {
			t.Fatal(err)
		}
		ask()
		time.Sleep(2 * time.Minute)
		ask()
		if s, err := h.Captured(SlotChat); err != nil || s.Requests != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		kept := h.slot(SlotChat).captured.Load()
		time.Sleep(capture.KeptFor)
		synctest.Wait()
		if _, err := h.Captured(SlotChat); !errors.Is(err, ErrNoCapture) || len(kept.Requests()) != 0 {
			t.Errorf("it is still there: %v", err)
		}
		for range 3 { // each ends the one before, and what waits for its end
			if _, err := h.Capture(SlotChat, "", time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		kept = h.slot(SlotChat).captured.Load()
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if len(kept.Requests()) != 0 || kept.Begin("a", "r", time.Now()) == nil {
			t.Error("the end of the host did not forget it")
		}
	})
}

// TestCaptureOfSlots: a slot whose calls are never kept is refused, in words that say which are.
func TestCaptureOfSlots(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, policyGuest(t, SlotFilter, "two", 2, shows("", "x")))
	activate(t, h, policyGuest(t, SlotAdmission, "two", 2, decides(abi.Decision{})))
	for s, kept := range map[Slot]bool{SlotChat: true, SlotBilling: true, SlotAdmission: true, "admission.2": true,
		SlotRewrite: false, SlotFilter: false, "filter.2": false} {
		_, err := h.Capture(s, "", time.Minute)
		if kept && err != nil || !kept && (!errors.Is(err, ErrCapture) || !strings.Contains(err.Error(), "admission")) {
			t.Errorf("slot %s: %v", s, err)
		}
	}
}

// TestNobodyFillsACapture: who comes without a key is answered by the module of its path, and neither takes the room of
// what is kept there nor is repeated by a shadow.
func TestNobodyFillsACapture(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	shadow := mustLoad(t, h, routedGuest("one", "2", "/a").bytes(t))
	if _, err := h.Shadow(shadow, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Capture("one", "", time.Minute); err != nil {
		t.Fatal(err)
	}
	ask := func(account string) {
		tr := h.Translate("one", account, "req", abi.Facts{})
		defer tr.Close()
		tr.SetRoute(&tr.generation.manifest, &abi.Route{Index: 1})
		tr.Error(nil, &abi.Error{Kind: abi.Unauthenticated, Msg: "no key"}, 401)
	}
	for range 3 {
		ask("")
	}
	ask("mine") // behind them in the shadow's queue
	eventually(func() bool {
		r, err := h.ShadowReport(shadow)
		return err != nil || len(r.Operations) > 0
	})
	r, err := h.ShadowReport(shadow)
	if err != nil || len(r.Operations) != 1 || r.Operations[0].Calls != 1 {
		t.Errorf("the shadow repeated %+v, %v", r.Operations, err)
	}
	if status, err := h.Captured("one"); err != nil || status.Requests != 1 {
		t.Errorf("%+v, %v", status, err)
	}
}
