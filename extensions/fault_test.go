package extensions

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// TestFaultNamesTheRequest: the line of a fault has the id of the request that it
// hurt, whichever operation failed, beside a shadow's too.
func TestFaultNamesTheRequest(t *testing.T) {
	traps := func(s Slot) []byte {
		g := newGuest(s, "bad")
		g.call = wasmtest.Asm().Op(wasmtest.Unreachable)
		return g.bytes(t)
	}
	calls := map[Slot]func(h *Host, id string){
		SlotChat: func(h *Host, id string) {
			tr := h.Translate(SlotChat, "a", id, abi.Facts{})
			defer tr.Close()
			_, _ = tr.Request([]byte("{}"))
		},
		SlotBilling:   func(h *Host, id string) { _, _ = h.Quote(id, ratingInput) },
		SlotAdmission: func(h *Host, id string) { _, _ = h.Decide(id, abi.AdmissionInput{Account: "a"}) },
	}
	for s, call := range calls {
		h, l := openTest(t, Options{})
		activate(t, h, traps(s))
		call(h, "req_"+string(s))
		if !strings.Contains(l.String(), "op=") || !strings.Contains(l.String(), fmt.Sprintf("id=req_%s account=a cause=trap", s)) {
			t.Errorf("slot %s:\n%s", s, l)
		}
	}

	h, l := openTest(t, Options{})
	g := newGuest(SlotBilling, "late") // it quotes, and fails when it is to charge
	g.answers[abi.OpQuote] = abi.Quote{Upper: 9}.Append(nil)
	activate(t, h, g.bytes(t))
	q, err := h.Quote("req_charged", ratingInput)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	_, _ = q.Charge(ratingUsage, nil)
	if !strings.Contains(l.String(), "op=charge id=req_charged") {
		t.Errorf("a charge:\n%s", l)
	}

	h, l = openTest(t, Options{})
	activate(t, h, chatGuest(t, "1"))
	if _, err := h.Shadow(mustLoad(t, h, traps(SlotChat)), 100); err != nil {
		t.Fatal(err)
	}
	calls[SlotChat](h, "req_beside")
	eventually(func() bool { return strings.Contains(l.String(), "id=req_beside") })
	if !strings.Contains(l.String(), "id=req_beside account=a cause=trap") {
		t.Errorf("a shadow:\n%s", l)
	}
}

// TestFaultsOutliveTheirModule: who looks why a module was taken out of service finds its calls and faults by cause.
func TestFaultsOutliveTheirModule(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotChat, "bad")
	g.call = wasmtest.Asm().Op(wasmtest.Unreachable)
	digest := activate(t, h, g.bytes(t)).Digest
	failed := func() Info {
		i, err := h.Module(digest)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	for range 100 {
		tr := h.Translate(SlotChat, "a", "req_1", abi.Facts{})
		_, _ = tr.Request([]byte("{}"))
		tr.Close()
	}
	eventually(func() bool { return failed().State == StateFailed && !failed().Serving })
	if i := failed(); i.State != StateFailed || i.Calls == 0 || i.Requests == 0 || i.Faults["trap"] == 0 || i.Instances != 0 {
		t.Errorf("%+v", i)
	}
}

// TestCountsDoNotGoBack: a module that is being taken out of service counts on while the database is asked.
func TestCountsDoNotGoBack(t *testing.T) {
	r := &row{}
	var asked, answer chan bool
	h, _ := openTest(t, Options{Dir: t.TempDir(), Keep: func(before int64, text []byte) (int64, error) {
		if asked != nil {
			asked <- true
			<-answer
		}
		return r.keep(before, text)
	}})
	digest := activate(t, h, chatGuest(t, "1")).Digest
	g := h.modules[digest].generation
	g.tally.declined.Add(10)
	asked, answer = make(chan bool), make(chan bool)
	done := make(chan bool)
	go func() { h.demote(g, "it faults"); close(done) }()
	<-asked
	g.tally.declined.Add(5)
	answer <- true
	<-done
	if i, _ := h.Module(digest); i.State != StateFailed || i.Declined != 15 {
		t.Errorf("%s, declined %d", i.State, i.Declined)
	}
}

// TestCountsAreOfTheLastGeneration: those of a failure are forgotten when the module is in memory again, and a key that is
// withdrawn keeps what was counted until then.
func TestCountsAreOfTheLastGeneration(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	other, _, _ := ed25519.GenerateKey(nil)
	for drops, want := range map[bool]uint64{false: 100, true: 0} {
		h, _ := openTest(t, Options{Dir: t.TempDir(), TrustedKeys: []ed25519.PublicKey{public}})
		load := func(version string) string {
			w := chatGuest(t, version)
			i, err := h.Load(t.Context(), w, Sign(private, w), nil)
			if err == nil {
				_, err = h.Activate(i.Digest)
			}
			if err != nil {
				t.Fatal(err)
			}
			return i.Digest
		}
		one := load("1")
		h.modules[one].generation.tally.declined.Add(7)
		h.demote(h.modules[one].generation, "it faults")
		if _, err := h.Activate(one); err != nil {
			t.Fatal(err)
		}
		h.modules[one].generation.tally.declined.Add(100)
		if drops {
			load("2")
			load("3") // the first is not in memory any more
		}
		h.Trust([]ed25519.PublicKey{other}, nil)
		_, _ = h.Activate(one) // fails
		if i, _ := h.Module(one); i.State != StateFailed || i.Declined != want {
			t.Errorf("dropped %t: %s, declined %d, want %d", drops, i.State, i.Declined, want)
		}
	}
}
