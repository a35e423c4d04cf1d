package extensions

import (
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// TestAttackKinds runs policies and modules with routes that misbehave in every call, while
// another slot has traffic. Each operation has its own effect, and no other: a rewriting, a
// decision and all that a module with routes does are refused as Overloaded, a filtering ends the
// answer and shows nothing, a quote and a charge are the native tariff's, provisionally.
func TestAttackKinds(t *testing.T) {
	kinds := map[Slot]struct {
		make func(g *handmade)
		call func(t *testing.T, h *Host)
	}{
		SlotRewrite: {nil, func(t *testing.T, h *Host) {
			out, err := h.Rewrite("r", abi.RewriteInput{Account: "a", Body: []byte(`{"of":"a"}`)})
			if abi.KindOf(err) != abi.Overloaded || out != nil {
				t.Errorf("rewrite: %q, %v", out, err)
			}
		}},
		SlotFilter: {nil, filterFails},
		SlotAdmission: {func(g *handmade) { g.manifest.Counters = []guest.Counter{{Name: "n", Period: "day"}} }, func(t *testing.T, h *Host) {
			if d, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); abi.KindOf(err) != abi.Overloaded || d.Needs != nil {
				t.Errorf("decide: %+v, %v", d, err)
			}
		}},
		SlotBilling: {func(g *handmade) { g.manifest.Counters = []guest.Counter{{Name: "n", Period: "day"}} }, billsNatively},
		"one":       {nil, routedFails},
	}
	for slot, kind := range kinds {
		for _, c := range misbehaviors() {
			t.Run(string(slot)+"/"+c.name, func(t *testing.T) {
				h, l := openTest(t, Options{})
				activate(t, h, goodResponses(t))
				stop := traffic(t, h)
				g := newGuest(slot, "bad")
				if slot == "one" {
					g = routedGuest("one", "bad", "/a")
					clear(g.answers)
				}
				g.manifest.ABI = guest.ABI11
				if kind.make != nil {
					kind.make(g)
				}
				c.shape(g)
				activate(t, h, g.bytes(t))
				kind.call(t, h)
				caused := strings.Contains(l.String(), "cause="+c.cause)
				if strings.HasPrefix(c.name, "bombs/") { // the smaller budgets of policies end before the memory does
					caused = caused || strings.Contains(l.String(), "cause=ticks")
				}
				if n := stop(); n == 0 || !caused {
					t.Errorf("the bystander made %d requests; want cause %s; log:\n%s", n, c.cause, l)
				}
			})
		}
	}
}

func filterFails(t *testing.T, h *Host) {
	f, err := h.Filter("a", "r")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if out, err := f.Text(abi.Facts{}, abi.BlockText, "text", false); abi.KindOf(err) != abi.Internal || out != "" {
		t.Errorf("filter: %q, %v", out, err)
	}
}

func billsNatively(t *testing.T, h *Host) {
	q, err := h.Quote("r", ratingInput)
	if err != nil || !q.Provisional() || q.Bounds().Takes != nil || q.Bounds().Upper == 0 {
		t.Fatalf("quote: %+v, %v", q, err)
	}
	defer q.Close()
	if c, err := q.Charge(ratingUsage, nil); err != nil || !c.Provisional || c.Amount == 0 {
		t.Errorf("charge: %+v, %v", c, err)
	}
	held := []abi.Counter{{Name: "test/n", Period: "2026-01-01", Limit: 9, Amount: 9}}
	in := abi.ChargeInput{Prices: q.in.Prices, Usage: ratingUsage, Model: ratingInput.Model, Account: "a"}
	if c, err := h.Rate("r", in, held); err != nil || !c.Provisional || len(c.Counters) != 1 || c.Counters[0] != held[0] {
		t.Errorf("with counters, all of which it takes until it is rated again: %+v, %v", c, err)
	}
}

func routedFails(t *testing.T, h *Host) {
	for _, stream := range []bool{false, true} {
		tr := h.Translate("one", "a", "", abi.Facts{ID: "x"})
		tr.SetRoute(&tr.generation.manifest, &abi.Route{})
		_, request := tr.Request([]byte("{}"))
		_, models := tr.Models(nil, []abi.Model{{ID: "m"}}, nil)
		_, count := tr.Count(nil, 7)
		tr.SetFacts(abi.Facts{ID: "x", Stream: stream})
		start := []abi.Event{{Kind: abi.EventStart}}
		events, eventsErr := tr.Events([]byte("before"), start)
		whole, response := tr.Response([]byte("before"), start)
		for op, err := range map[string]error{"request": request, "models": models, "count": count, "events": eventsErr, "response": response} {
			if abi.KindOf(err) != abi.Overloaded {
				t.Errorf("%s: %v", op, err)
			}
		}
		if string(events) != "before" || string(whole) != "before" {
			t.Errorf("it wrote %q and %q", events, whole)
		}
		if out := tr.Error([]byte("before"), &abi.Error{Kind: abi.Internal}, 500); string(out) != "before" {
			t.Errorf("error: %q", out)
		}
		tr.Close()
	}
	if routeAt(h, "/a/list") == "" {
		t.Error("its paths are gone")
	}
}
