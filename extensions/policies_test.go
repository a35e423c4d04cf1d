package extensions

import (
	"context"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// policyGuest is a policy at a place that answers always the same.
func policyGuest(t testing.TB, kind Slot, name string, place int, shape func(g *handmade)) []byte {
	t.Helper()
	g := newGuest(kind, "1")
	g.manifest.Name, g.manifest.ABI, g.manifest.Place = name, guest.ABI11, place
	shape(g)
	return g.bytes(t)
}

// gives makes a guest answer an operation with a payload.
func gives(op abi.Op, payload string) func(*handmade) {
	return func(g *handmade) { g.answers[op] = []byte(payload) }
}

func decides(d abi.Decision) func(*handmade) {
	return func(g *handmade) { g.answers[abi.OpDecide] = d.Append(nil) }
}

func shows(state, text string) func(*handmade) {
	return func(g *handmade) {
		g.answers[abi.OpFilter] = abi.Filtered{State: []byte(state), Text: []byte(text)}.Append(nil)
	}
}

// TestChains: the policies of a kind are asked by place, whatever the order in which they
// came; a module takes the place of the one at its own place; a rollback empties it; and all of it
// is the same after a restart.
func TestChains(t *testing.T) {
	dir := t.TempDir()
	h, _ := openTest(t, Options{Dir: dir})
	in := abi.AdmissionInput{Account: "a"}
	deny := func(msg string) abi.Decision {
		return abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: msg}
	}
	says := func(want string) {
		t.Helper()
		d, err := h.Decide("r", in)
		got := d.Msg
		if d.Verdict == abi.Queue {
			got = strings.Repeat("q", int(d.Priority))
		}
		if err != nil || got != want {
			t.Errorf("%+v, %v; want %q", d, err, want)
		}
	}
	activate(t, h, policyGuest(t, SlotAdmission, "three", 3, decides(deny("third"))))
	says("third")
	activate(t, h, policyGuest(t, SlotAdmission, "two", 2, decides(abi.Decision{Verdict: abi.Queue, Priority: 2})))
	says("third")
	activate(t, h, policyGuest(t, SlotAdmission, "one", 0, decides(abi.Decision{Verdict: abi.Queue, Priority: 1})))
	says("third")
	replaced := activate(t, h, policyGuest(t, SlotAdmission, "another", 3, decides(abi.Decision{})))
	says("qq") // the last that queues
	if replaced.Slot != "admission.3" {
		t.Errorf("it is in slot %s", replaced.Slot)
	}
	activate(t, h, policyGuest(t, SlotAdmission, "first", 1, decides(deny("first"))))
	says("first")
	if _, err := h.Rollback(SlotAdmission); err != nil {
		t.Fatal(err)
	}
	says("qq")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, _ = openTest(t, Options{Dir: dir})
	if !h.Deciding() {
		t.Error("nobody decides before the modules are back")
	}
	<-h.Ready()
	says("qq")
	for range 2 { // to the one before, and to none
		if _, err := h.Rollback("admission.3"); err != nil {
			t.Fatal(err)
		}
	}
	says("qq")
	if _, err := h.Rollback("admission.4"); err == nil {
		t.Error("a place that nobody had was rolled back")
	}
}

// TestChainsMember: a member that fails has its effect whatever the others say: admission and
// rewriting refuse, filtering ends the answer. The breaker is the member's own.
func TestChainsMember(t *testing.T) {
	h, _ := openTest(t, Options{})
	trap := func(g *handmade) { g.call = trap() }
	activate(t, h, policyGuest(t, SlotAdmission, "good", 1, decides(abi.Decision{})))
	activate(t, h, policyGuest(t, SlotAdmission, "bad", 2, trap))
	activate(t, h, policyGuest(t, SlotRewrite, "good", 1, gives(abi.OpRewrite, `{"by":"good"}`)))
	activate(t, h, policyGuest(t, SlotRewrite, "bad", 2, trap))
	activate(t, h, policyGuest(t, SlotFilter, "good", 1, shows("", "good")))
	activate(t, h, policyGuest(t, SlotFilter, "bad", 2, trap))
	if _, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); abi.KindOf(err) != abi.Overloaded {
		t.Errorf("admission: %v", err)
	}
	if out, err := h.Rewrite("r", abi.RewriteInput{Account: "a", Body: []byte("{}")}); abi.KindOf(err) != abi.Overloaded || out != nil {
		t.Errorf("rewrite: %s, %v", out, err)
	}
	f, err := h.Filter("a", "r")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if out, err := f.Text(abi.Facts{}, abi.BlockText, "text", false); abi.KindOf(err) != abi.Internal || out != "" {
		t.Errorf("filter: %q, %v", out, err)
	}
	for _, slot := range []Slot{SlotAdmission, SlotRewrite, SlotFilter} {
		if n := h.slot(slot).now.Load().active.tally.faults[guest.CauseTrap].Load(); n != 0 {
			t.Errorf("the good member of %s has %d faults", slot, n)
		}
		if n := h.slot(slot + ".2").now.Load().active.tally.faults[guest.CauseTrap].Load(); n != 1 {
			t.Errorf("the bad member of %s has %d faults", slot, n)
		}
	}
}

// TestChainsMissing: where a policy that an operator chose is not in memory, nothing passes:
// of admission unless the options say so, of the other kinds ever. The log learns which slot it is.
func TestChainsMissing(t *testing.T) {
	dir := t.TempDir()
	h, _ := openTest(t, Options{Dir: dir})
	for kind, shape := range map[Slot]func(*handmade){SlotAdmission: decides(abi.Decision{}), SlotRewrite: gives(abi.OpRewrite, ""),
		SlotFilter: shows("", "x")} {
		activate(t, h, policyGuest(t, kind, "two", 2, shape))
	}
	if closed := h.Closed(); closed != nil {
		t.Errorf("closed by %s", closed)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, _ = openTest(t, Options{Dir: dir, Denied: nil, AdmissionFailOpen: true})
	<-h.Ready()
	for _, slot := range []Slot{"admission.2", "rewrite.2", "filter.2"} {
		h.slot(slot).now.Store(&assignment{missing: true})
	}
	if closed := h.Closed(); !slices.Equal(closed, []Slot{"rewrite.2", "filter.2"}) {
		t.Errorf("closed by %s", closed)
	}
	if !h.Rewriting() || !h.Filtering() {
		t.Error("a policy is missing, and the node is open")
	}
	if _, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); err != nil {
		t.Errorf("admission, which may fail open: %v", err)
	}
	says := func(err error, slot string) bool {
		return abi.KindOf(err) == abi.Overloaded && strings.Contains(err.Error(), "slot "+slot)
	}
	if _, err := h.Rewrite("r", abi.RewriteInput{Account: "a", Body: []byte("{}")}); !says(err, "rewrite.2") {
		t.Errorf("rewrite: %v", err)
	}
	if f, err := h.Filter("a", "r"); !says(err, "filter.2") || f != nil {
		t.Errorf("filter: %v", err)
	}
	h.options.AdmissionFailOpen = false
	if _, err := h.Decide("r", abi.AdmissionInput{Account: "a"}); !says(err, "admission.2") {
		t.Errorf("admission: %v", err)
	}
}

// TestAttackRewrite: what a rewrite module says is a JSON object of a bounded size, a refusal of
// the client, or a fault that refuses.
func TestAttackRewrite(t *testing.T) {
	cases := []struct {
		name  string
		shape func(g *handmade)
		want  string // the body
		kind  abi.Kind
		cause string
	}{
		{"another body", gives(abi.OpRewrite, `{"model":"x"}`), `{"model":"x"}`, 0, ""},
		{"the same body", gives(abi.OpRewrite, ""), `{"a":1}`, 0, ""},
		{"a decline", func(g *handmade) { g.raw[abi.OpRewrite] = statusFrame(abi.StatusDecline, 0, nil) }, `{"a":1}`, 0, ""},
		{"no JSON", gives(abi.OpRewrite, `{"model":`), "", abi.Overloaded, "protocol"},
		{"no object", gives(abi.OpRewrite, `[1]`), "", abi.Overloaded, "protocol"},
		{"two objects", gives(abi.OpRewrite, `{}{}`), "", abi.Overloaded, "protocol"},
		{"no UTF-8", gives(abi.OpRewrite, "{\"a\":\"\xff\"}"), "", abi.Overloaded, "protocol"},
		{"a loop", func(g *handmade) { g.call = spin().I64(0) }, "", abi.Overloaded, "ticks"},
		{"a prompt of 1 GB", func(g *handmade) { g.call = wasmtest.Asm().I64(8<<32 | 1<<30) }, "", abi.Overloaded, "protocol"},
		{"more than its input allows", func(g *handmade) {
			g.call = wasmtest.Asm().I32(1600).Imm(0x40, 0).Op(wasmtest.Drop).I64(8<<32 | 65<<20)
		}, "", abi.Overloaded, "protocol"},
		{"a refusal", func(g *handmade) {
			g.raw[abi.OpRewrite] = statusFrame(abi.StatusError, abi.InvalidRequest, abi.Refusal{Param: "messages", Msg: "no\x00"}.Append(nil))
		}, "", abi.InvalidRequest, ""},
		{"a refusal of another kind", func(g *handmade) {
			g.raw[abi.OpRewrite] = statusFrame(abi.StatusError, abi.InsufficientBalance, abi.Refusal{Msg: "pay"}.Append(nil))
		}, "", abi.InvalidRequest, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, said := openTest(t, Options{})
			activate(t, h, policyGuest(t, SlotRewrite, "test", 0, c.shape))
			out, err := h.Rewrite("r", abi.RewriteInput{Account: "a", Key: "k", Protocol: "messages", Body: []byte(`{"a":1}`)})
			if string(out) != c.want || abi.KindOf(err) != c.kind && err != nil || (err == nil) != (c.kind == 0) {
				t.Errorf("%s, %v", out, err)
			}
			if c.cause != "" && !strings.Contains(said.String(), "cause="+c.cause) {
				t.Errorf("want cause %s, the log:\n%s", c.cause, said)
			}
			if e := abi.AsError(err); c.kind == abi.InvalidRequest && strings.ContainsRune(e.Msg, 0) {
				t.Errorf("the client is told %q", e.Msg)
			}
		})
	}
}

// TestAttackFilter: what a filter gives is UTF-8, and what it holds back has a bound and an end.
func TestAttackFilter(t *testing.T) {
	cases := []struct {
		name, want, cause string
		shape             func(g *handmade)
		last              bool
	}{
		{"other text", "other", "", shows("", "other"), false},
		{"dropped", "", "", shows("", ""), false},
		{"twice", "texttext", "", shows("", "texttext"), true},
		{"held back", "", "", shows(strings.Repeat("x", abi.FilterStateMax), ""), false},
		{"more held back than there may be", "", "protocol", shows(strings.Repeat("x", abi.FilterStateMax+1), ""), false},
		{"held back for ever", "", "protocol", shows("x", "text"), true},
		{"half a character", "", "protocol", shows("", "\xc3"), false},
		{"the other half", "", "protocol", shows("", "\xa9"), true},
		{"a call", `{"type":"tool_use","name":"rm"}`, "", shows("", `{"type":"tool_use","name":"rm"}`), false}, // it is text
		{"a decline", "text", "", func(g *handmade) { g.raw[abi.OpFilter] = statusFrame(abi.StatusDecline, 0, nil) }, true},
		{"a refusal", "", "protocol", func(g *handmade) {
			g.raw[abi.OpFilter] = statusFrame(abi.StatusError, abi.InvalidRequest, abi.Refusal{Msg: "no"}.Append(nil))
		}, false},
		{"a loop", "", "ticks", func(g *handmade) { g.call = spin().I64(0) }, false},
		{"too much", "", "protocol", func(g *handmade) { g.call = wasmtest.Asm().I64(8<<32 | 1<<30) }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, said := openTest(t, Options{})
			activate(t, h, policyGuest(t, SlotFilter, "test", 0, c.shape))
			f, err := h.Filter("a", "r")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			out, err := f.Text(abi.Facts{}, abi.BlockText, "text", c.last)
			if out != c.want || (err != nil) != (c.cause != "") || err != nil && abi.KindOf(err) != abi.Internal {
				t.Errorf("%q, %v", out, err)
			}
			if c.cause != "" && !strings.Contains(said.String(), "cause="+c.cause) {
				t.Errorf("want cause %s, the log:\n%s", c.cause, said)
			}
		})
	}
}

// TestFilterGrowsAnAnswerWithinBounds: what a filter makes of an answer has the same bound
// whether it comes in one piece or in many.
func TestFilterGrowsAnAnswerWithinBounds(t *testing.T) {
	h, said := openTest(t, Options{})
	const piece = 64 << 10
	activate(t, h, policyGuest(t, SlotFilter, "test", 0, shows("", strings.Repeat("x", piece))))
	f, err := h.Filter("a", "r")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gave := 0
	for range 100 {
		text, err := f.Text(abi.Facts{}, abi.BlockText, "text", false)
		if gave += len(text); err != nil {
			break
		}
	}
	if gave != 1<<20 || !strings.Contains(said.String(), "cause=protocol") {
		t.Errorf("of an answer in pieces of 4 bytes it gave %d bytes, want 1 MiB; the log:\n%s", gave, said)
	}
}

// TestFilterKeepsAccountsApart: what a filter holds back of one answer is not in another's, and
// a swap while an answer runs does not change its filter.
func TestFilterKeepsAccountsApart(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, policyGuest(t, SlotFilter, "test", 0, shows("secret of a", "")))
	one, err := h.Filter("a", "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := one.Text(abi.Facts{}, abi.BlockText, "x", false); err != nil {
		t.Fatal(err)
	}
	two, err := h.Filter("b", "r2")
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if len(two.members[0].state) != 0 || string(one.members[0].state) != "secret of a" {
		t.Errorf("%q and %q are held back", one.members[0].state, two.members[0].state)
	}
	activate(t, h, policyGuest(t, SlotFilter, "next", 0, shows("", "next")))
	if one.members[0].generation.manifest.Name != "test" {
		t.Error("the answer has another filter now")
	}
	three, err := h.Filter("a", "r3")
	if err != nil {
		t.Fatal(err)
	}
	defer three.Close()
	if out, err := three.Text(abi.Facts{}, abi.BlockText, "x", true); out != "next" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPolicyManifests: what a manifest of a policy may not say.
func TestPolicyManifests(t *testing.T) {
	h, _ := openTest(t, Options{})
	for name, change := range map[string]func(m *guest.Manifest){
		"a place beyond the last":    func(m *guest.Manifest) { m.Kind, m.Place = guest.KindFilter, guest.PlacesMax+1 },
		"a place below none":         func(m *guest.Manifest) { m.Kind, m.Place = guest.KindFilter, -1 },
		"two billing modules":        func(m *guest.Manifest) { m.Kind, m.Place = guest.KindBilling, 2 },
		"a filter of ABI 1.0":        func(m *guest.Manifest) { m.Kind, m.ABI = guest.KindFilter, guest.ABI10 },
		"a place of ABI 1.0":         func(m *guest.Manifest) { m.ABI, m.Place = guest.ABI10, 2 },
		"a protocol called filter.2": func(m *guest.Manifest) { m.Kind, m.Protocol = guest.KindTranslator, "filter.2" },
		"counters of a filter": func(m *guest.Manifest) {
			m.Kind, m.Counters = guest.KindFilter, []guest.Counter{{Name: "x", Period: "day"}}
		},
		"a counter of a year": func(m *guest.Manifest) {
			m.Kind, m.Counters = guest.KindBilling, []guest.Counter{{Name: "x", Period: "year"}}
		},
		"two counters of one name": func(m *guest.Manifest) {
			m.Kind, m.Counters = guest.KindBilling, []guest.Counter{{Name: "x", Period: "day"}, {Name: "x", Period: "month"}}
		},
		"a counter with another's name": func(m *guest.Manifest) {
			m.Kind, m.Counters = guest.KindBilling, []guest.Counter{{Name: "other/x", Period: "day"}}
		},
		"five counters": func(m *guest.Manifest) {
			m.Kind = guest.KindBilling
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				m.Counters = append(m.Counters, guest.Counter{Name: name, Period: "day"})
			}
		},
	} {
		g := newGuest(SlotAdmission, "1")
		g.manifest.ABI = guest.ABI11
		change(&g.manifest)
		if _, err := h.Load(context.Background(), g.bytes(t), nil, nil); err == nil || !strings.Contains(err.Error(), "manifest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
