package extensions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/compare"
	"corenode/wasm/abi"
)

// TestShadowReport: the shadow of a billing change says what it would have come
// to, while it runs and after, and begins anew with a new shadow.
func TestShadowReport(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}))
	digest := mustLoad(t, h, billingGuest(t, "2", abi.Quote{Upper: 9}, abi.Charge{Total: 4, Lines: []abi.Line{line(1, 4, 4)}}))
	if _, err := h.ShadowReport(digest); !errors.Is(err, ErrNoShadow) {
		t.Errorf("of a module that repeats nothing: %v", err)
	}
	if _, err := h.ShadowReport("nobody@1"); !errors.Is(err, ErrUnknownModule) {
		t.Errorf("of no module: %v", err)
	}
	if _, err := h.Shadow(digest, 100); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		q, err := h.Quote("", ratingInput)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Charge(ratingUsage, nil); err != nil {
			t.Fatal(err)
		}
		q.Close()
	}
	for _, percent := range []int{100, 0} {
		if percent == 0 {
			if _, err := h.Shadow(digest, 0); err != nil {
				t.Fatal(err)
			}
		}
		eventually(func() bool {
			r, err := h.ShadowReport(digest)
			return err != nil || r.Charges != nil && r.Charges.Calls == 3
		})
		r, err := h.ShadowReport(digest)
		if err != nil || r.Module != "test@2" || r.Digest != digest || r.Percent != percent || len(r.Beside) != 1 ||
			r.Beside[0] != "test@1" {
			t.Fatalf("%+v, %v", r, err)
		}
		if c := r.Charges; c == nil || c.OldNanoUSD != 15 || c.NewNanoUSD != 12 || c.Less != 3 || len(c.Accounts) != 1 ||
			c.Accounts[0].Account != ratingInput.Account {
			t.Errorf("%+v", r.Charges)
		}
		if len(r.Operations) != 2 || r.Operations[0].Op != "quote" || r.Operations[0].Differ != 0 ||
			r.Operations[1].Differ != 3 || len(r.First) != 3 {
			t.Errorf("%+v, %d first calls", r.Operations, len(r.First))
		}
	}
	if _, err := h.Shadow(digest, 50); err != nil {
		t.Fatal(err)
	}
	if r, err := h.ShadowReport(digest); err != nil || len(r.Operations) != 0 || r.Charges != nil || r.First == nil {
		t.Errorf("a new shadow: %+v, %v", r, err)
	}
}

// TestShadowSamplesRequests: a share of the requests is repeated, each with all its calls.
func TestShadowSamplesRequests(t *testing.T) {
	h, _ := openTest(t, Options{})
	charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
	activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge))
	digest := mustLoad(t, h, billingGuest(t, "2", abi.Quote{Upper: 9}, charge))
	const percent, requests = 50, 20
	if _, err := h.Shadow(digest, percent); err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for n := range requests {
		id := fmt.Sprintf("req_%d", n)
		q, err := h.Quote(id, ratingInput)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Charge(ratingUsage, nil); err != nil {
			t.Fatal(err)
		}
		q.Close()
		if inShare(id, percent) {
			want++
		}
	}
	if _, err := h.Shadow(digest, 0); err != nil { // which makes the calls that wait
		t.Fatal(err)
	}
	h.background.Wait()
	i, err := h.info(digest)
	if got := i.ShadowRuns + i.ShadowDropped; err != nil || want == 0 || want == requests || got != 2*want {
		t.Errorf("%d calls were repeated, want %d: %v", got, 2*want, err)
	}
	r, err := h.ShadowReport(digest)
	if err != nil || slices.ContainsFunc(r.Operations, func(o compare.Operation) bool { return o.Calls > want }) {
		t.Errorf("%+v, %v; want at most %d of each operation", r.Operations, err, want)
	}
}

// TestShadowHasItsOwnCounters: a shadow gets of counters what the request held of those of its
// name, and nothing of another module's, however many that has; also where the tariff charges in
// place of the module whose charge broke a rule: that one is no answer, so the request is compared once.
func TestShadowHasItsOwnCounters(t *testing.T) {
	charge := abi.Charge{Total: 400, Tier: 1, Lines: []abi.Line{line(1, 400, 400)}, Taken: tookTokens}
	noSum, nothing := abi.Charge{Total: 400}, "takes 20 of counter 0, the request holds 0"
	for _, c := range []struct {
		made      abi.Charge
		name, who string
		want      string
	}{{charge, "test", "test@1", ""}, {charge, "other", "test@1", nothing},
		{noSum, "test", "test@1 tariff@", ""}, {noSum, "other", "test@1 tariff@", nothing}} {
		h, _ := openTest(t, Options{})
		activate(t, h, countingGuest(t, "1", countingQuote, c.made))
		digest := mustLoad(t, h, countingOf(t, c.name, "2", countingQuote, charge))
		if _, err := h.Shadow(digest, 100); err != nil {
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
		eventually(func() bool {
			r, err := h.ShadowReport(digest)
			return err != nil || len(r.Operations) == 2 && r.Operations[1].Calls == 1
		})
		r, err := h.ShadowReport(digest)
		if err != nil || r.Charges == nil || !strings.Contains(r.Charges.Rule, c.want) || (r.Charges.Rule == "") != (c.want == "") ||
			r.Operations[1].Calls != 1 || len(r.Beside) != len(strings.Fields(c.who)) ||
			!strings.HasPrefix(strings.Join(r.Beside, " "), c.who) {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
}

// TestShadowBesideCanary: a slot has one or the other, also when what there is
// does not load. A module that is the shadow becomes the canary, and one that an
// earlier version of the program let be beside another stays.
func TestShadowBesideCanary(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	activate(t, h, chatGuest(t, "1"))
	two, three := mustLoad(t, h, chatGuest(t, "2")), mustLoad(t, h, chatGuest(t, "3"))
	refused := func(_ Info, err error) {
		t.Helper()
		if !errors.Is(err, ErrBeside) {
			t.Errorf("got %v", err)
		}
	}
	must := func(_ Info, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(h.Shadow(two, 10))
	refused(h.Canary(three, 10))
	must(h.Shadow(two, 0))
	must(h.Canary(three, 10))
	refused(h.Shadow(two, 10))
	refused(h.Shadow(three, 10))
	must(h.Canary(three, 0))
	must(h.Shadow(three, 10))
	must(h.Canary(three, 10))
	if a := h.slot(SlotChat).now.Load(); a.shadow != nil || a.canary == nil {
		t.Errorf("the shadow that became the canary: %+v", a)
	}
	_ = h.Close()

	path := h.folder.path(three, extWasm)
	flip(t, path, 30)
	h, _ = openTest(t, o)
	refused(h.Shadow(two, 10))
	w := h.state.Slots[SlotChat]
	w.Shadow, w.ShadowPercent = two, 10
	h.state.Slots[SlotChat] = w
	h.folder.saveOrSay(&h.state)
	_ = h.Close()
	flip(t, path, 30)
	h, _ = openTest(t, o)
	if a := h.slot(SlotChat).now.Load(); a.canary == nil || a.shadow == nil {
		t.Errorf("what was there before the restart: %+v", a)
	}
	refused(h.Canary(three, 20))
}

// TestShadowThatDidNotLoad: a shadow that a start did not bring back is none any more once it
// serves, as canary or active, and hinders nobody.
func TestShadowThatDidNotLoad(t *testing.T) {
	for name, serve := range map[string]func(h *Host, two string) (Info, error){
		"canary": func(h *Host, two string) (Info, error) { return h.Canary(two, 10) },
		"active": func(h *Host, two string) (Info, error) { return h.Activate(two) },
	} {
		o := Options{Dir: t.TempDir()}
		h, _ := openTest(t, o)
		activate(t, h, chatGuest(t, "1"))
		two, three := mustLoad(t, h, chatGuest(t, "2")), mustLoad(t, h, chatGuest(t, "3"))
		if _, err := h.Shadow(two, 10); err != nil {
			t.Fatal(err)
		}
		_ = h.Close()
		path := h.folder.path(two, extWasm)
		flip(t, path, 30)
		h, _ = openTest(t, o)
		flip(t, path, 30)
		if _, err := serve(h, two); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := h.Canary(three, 10); err != nil {
			t.Errorf("%s: the slot has no shadow: %v", name, err)
		}
	}
}

// TestTrialOfWhatServesEnds: a module that comes to serve, because the one before it goes, is no
// shadow and no canary any more, and hinders no other.
func TestTrialOfWhatServesEnds(t *testing.T) {
	shadow := func(h *Host, ref string) (Info, error) { return h.Shadow(ref, 10) }
	canary := func(h *Host, ref string) (Info, error) { return h.Canary(ref, 10) }
	rollback := func(h *Host, _ string) { _, _ = h.Rollback(SlotChat) }
	demote := func(h *Host, two string) { h.demote(h.modules[two].generation, "it faults") }
	deny := func(h *Host, two string) { h.Trust(nil, denials(t, two)) }
	for name, c := range map[string]struct {
		try func(*Host, string) (Info, error)
		end func(*Host, string)
	}{
		"a shadow, rolled back": {shadow, rollback}, "a shadow, demoted": {shadow, demote}, "a canary, demoted": {canary, demote},
		"a shadow, denied": {shadow, deny}, "a canary, denied": {canary, deny},
	} {
		o := Options{Dir: t.TempDir()}
		h, _ := openTest(t, o)
		one, two, three := mustLoad(t, h, chatGuest(t, "1")), mustLoad(t, h, chatGuest(t, "2")), mustLoad(t, h, chatGuest(t, "3"))
		for _, digest := range []string{one, two} {
			if _, err := h.Activate(digest); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.try(h, one); err != nil {
			t.Fatal(err)
		}
		c.end(h, two)
		w := h.state.Slots[SlotChat]
		if got := roles(h); got != "1, - 0, -, native" || w.Canary != "" || w.Shadow != "" || w.CanaryPercent+w.ShadowPercent != 0 {
			t.Errorf("%s: %s, and the state says %+v", name, got, w)
		}
		_, asCanary := h.Canary(three, 5)
		_, ended := h.Canary(three, 0)
		_, asShadow := h.Shadow(three, 5)
		if err := errors.Join(asCanary, ended, asShadow); err != nil {
			t.Errorf("%s: another one: %v", name, err)
		}
		if name != "a shadow, denied" {
			continue
		}
		// What an earlier version of the program has left.
		h.state.Slots[SlotChat] = wanted{Active: one, Shadow: one, ShadowPercent: 10, Previous: wantNative}
		h.folder.saveOrSay(&h.state)
		_ = h.Close()
		h, _ = openTest(t, o)
		if got := roles(h); got != "1, - 0, -, native" {
			t.Errorf("after a restart: %s", got)
		}
		if _, err := h.Canary(three, 5); err != nil || h.state.Slots[SlotChat].Shadow != "" {
			t.Errorf("after a restart: %v, the state says %+v", err, h.state.Slots[SlotChat])
		}
	}
}

// TestShadowOfAnswersThatFail: what breaks a rule of the host is no answer, so a shadow is asked only what the module answered
// that took its place: of a stream that is the native build, of a filtering and an error nobody whose calls are repeated.
func TestShadowOfAnswersThatFail(t *testing.T) {
	chat := func(op abi.Op, answer string) []byte {
		g := newGuest(SlotChat, "1")
		g.answers = chatAnswers("1")
		g.answers[op] = []byte(answer)
		return g.bytes(t)
	}
	filter := func(name, held string) []byte { return policyGuest(t, SlotFilter, name, 0, shows(held, "")) }
	for _, c := range []struct {
		slot            Slot
		active, shadows []byte
		ask             func(h *Host)
		want            string
	}{
		{SlotFilter, filter("test", "held"), filter("other", ""), func(h *Host) {
			f, err := h.Filter("a", "r")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Text(abi.Facts{}, abi.BlockText, "text", true); err == nil {
				t.Error("a module keeps text to itself")
			}
		}, ""},
		{SlotChat, chat(abi.OpEvents, string(abi.Written{}.Append(nil))), chatGuest(t, "2"), func(h *Host) {
			tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
			defer tr.Close()
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			if out, err := tr.Events(nil, answerEvents()); err != nil || len(out) == 0 {
				t.Errorf("%q, %v", out, err)
			}
		}, "request 1, events 1"},
		{SlotChat, chat(abi.OpError, "{"), chatGuest(t, "2"), func(h *Host) {
			tr := h.Translate(SlotChat, "a", "", abi.Facts{})
			defer tr.Close()
			if out := string(tr.Error(nil, &abi.Error{Kind: abi.Internal, Msg: "m"}, 500)); out != `{"error":"native"}` {
				t.Errorf("the error is %s", out)
			}
		}, ""},
	} {
		h, _ := openTest(t, Options{})
		activate(t, h, c.active)
		digest := mustLoad(t, h, c.shadows)
		if _, err := h.Shadow(digest, 100); err != nil {
			t.Fatal(err)
		}
		c.ask(h)
		h.slot(c.slot).now.Load().shadow.stop() // it has done all that it was asked
		r, err := h.ShadowReport(digest)
		var got []string
		for _, o := range r.Operations {
			got = append(got, fmt.Sprint(o.Op, " ", o.Calls))
		}
		if err != nil || strings.Join(got, ", ") != c.want {
			t.Errorf("slot %s: the shadow was asked %q, %v; want %q", c.slot, got, err, c.want)
		}
	}
}
