package extensions

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

func mustLoad(t testing.TB, h *Host, wasm []byte) string {
	t.Helper()
	i, err := h.Load(t.Context(), wasm, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i.Digest
}

func stateOf(t testing.TB, h *Host, digest string) string {
	t.Helper()
	i, err := h.info(digest)
	if err != nil {
		t.Fatal(err)
	}
	return i.State
}

// TestCanary: an account is served by the canary always or never, about the
// share asked for is, and a larger share only adds accounts.
func TestCanary(t *testing.T) {
	h, _ := openTest(t, Options{})
	digest := mustLoad(t, h, chatGuest(t, "new"))
	const accounts = 2000
	served := map[string]bool{}
	for _, percent := range []int{1, 10, 50, 100} {
		if i, err := h.Canary(digest, percent); err != nil || i.State != StateCanary || i.Percent != percent || !i.Serving {
			t.Fatalf("%+v, %v", i, err)
		}
		n := 0
		for a := range accounts {
			account := fmt.Sprintf("account-%d", a)
			got := request(t, h, account) == `{"by":"new"}`
			if again := request(t, h, account) == `{"by":"new"}`; again != got {
				t.Fatalf("account %s changed sides", account)
			}
			if served[account] && !got {
				t.Errorf("account %s left the canary when it grew to %d %%", account, percent)
			}
			served[account] = got
			if got {
				n++
			}
		}
		if share := 100 * float64(n) / accounts; share < float64(percent)*0.6-0.5 || share > float64(percent)*1.4+0.5 {
			t.Errorf("a canary of %d %% serves %.1f %%", percent, share)
		}
	}
	if i, err := h.Rollback(SlotChat); err != nil || i.State != StateBuiltin || stateOf(t, h, digest) != StateLoaded {
		t.Errorf("ending the canary: %+v, %v", i, err)
	}
}

// chatSlot gives a check of which chat module serves, and which states modules have.
func chatSlot(t *testing.T, h *Host, modules ...string) func(by string, states ...string) {
	return func(by string, states ...string) {
		t.Helper()
		if got := request(t, h, "a"); got != `{"by":"`+by+`"}` {
			t.Errorf("%s serves, want %s", got, by)
		}
		for i, want := range states {
			if got := stateOf(t, h, modules[i]); got != want {
				t.Errorf("module %d is %s, want %s", i+1, got, want)
			}
		}
	}
}

// TestVerbs walks one slot through its states.
func TestVerbs(t *testing.T) {
	h, _ := openTest(t, Options{})
	one, two, three := mustLoad(t, h, chatGuest(t, "1")), mustLoad(t, h, chatGuest(t, "2")), mustLoad(t, h, chatGuest(t, "3"))
	check := chatSlot(t, h, one, two, three)
	must := func(_ Info, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("native", StateLoaded, StateLoaded, StateLoaded)
	must(h.Activate("test@1"))
	check("1", StateActive, StateLoaded, StateLoaded)
	must(h.Activate(two[len(digestPrefix):][:8]))
	check("2", StatePrevious, StateActive, StateLoaded)
	must(h.Activate(two)) // again: nothing changes
	check("2", StatePrevious, StateActive, StateLoaded)
	must(h.Rollback(SlotChat))
	check("1", StateActive, StateLoaded, StateLoaded)
	must(h.Rollback(SlotChat))
	check("native", StateLoaded, StateLoaded, StateLoaded)
	if _, err := h.Rollback(SlotChat); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("rollback from the builtin: %v", err)
	}
	must(h.Activate(one))
	must(h.Activate(two))
	must(h.Canary(three, 100))
	check("3", StatePrevious, StateActive, StateCanary)
	must(h.Activate(three))
	check("3", StateStored, StatePrevious, StateActive)
	for ref, want := range map[string]error{three: ErrInUse, "builtin:chat": ErrShipped, "nothing": ErrUnknownModule,
		three[:9]: ErrUnknownModule} {
		if err := h.Remove(ref); !errors.Is(err, want) {
			t.Errorf("Remove(%q) = %v, want %v", ref, err, want)
		}
	}
	if err := h.Remove(two); err != nil {
		t.Fatal(err)
	}
	must(h.Rollback(SlotChat))
	check("native")
	must(h.Activate("builtin:chat"))
	if _, err := h.Activate(two); !errors.Is(err, ErrUnknownModule) {
		t.Errorf("a removed module: %v", err)
	}
	must(h.Activate(one)) // from where it is kept
	check("1", StateActive)
	if again := mustLoad(t, h, chatGuest(t, "1")); again != one {
		t.Errorf("loading it again gave %s", again)
	}
	check("1", StateActive)
	if _, err := h.Rollback("other"); !errors.Is(err, ErrSlot) {
		t.Error(err)
	}
}

func TestAmbiguous(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotResponses, "1")
	g.answers = chatAnswers("x")
	mustLoad(t, h, chatGuest(t, "1"))
	mustLoad(t, h, g.bytes(t))
	if _, err := h.Activate("test@1"); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
}

// TestStreamKeepsItsGeneration swaps twice while a stream runs.
func TestStreamKeepsItsGeneration(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, chatGuest(t, "1"))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	g := tr.generation
	for _, version := range []string{"2", "3", "4"} {
		activate(t, h, chatGuest(t, version))
		if out, err := tr.Events(nil, answerEvents()[:1]); err != nil || string(out) != "data: 1\n\n" {
			t.Errorf("after the swap to %s: %s, %v", version, out, err)
		}
	}
	if !g.retired.Load() || g.pool.Use().Instances != 1 {
		t.Errorf("retired %v, %+v", g.retired.Load(), g.pool.Use())
	}
	tr.Close()
	if u := g.pool.Use(); u.Instances != 0 {
		t.Errorf("the old generation is not closed: %+v", u)
	}
}

// TestBreaker: too many faults bring the previous generation back, with the
// reason; another activation is another chance.
func TestBreaker(t *testing.T) {
	h, l := openTest(t, Options{})
	activate(t, h, chatGuest(t, "good"))
	g := newGuest(SlotChat, "bad")
	g.call = wasmtest.Asm().Op(wasmtest.Unreachable)
	bad := activate(t, h, g.bytes(t))
	for range breakerFaults {
		if got := request(t, h, "a"); got != `{"by":"native"}` {
			t.Errorf("during the faults: %s", got)
		}
	}
	eventually(func() bool { return stateOf(t, h, bad.Digest) == StateFailed })
	if got := request(t, h, "a"); got != `{"by":"good"}` {
		t.Errorf("after the breaker: %s", got)
	}
	info, err := h.info(bad.Digest)
	if err != nil || !strings.Contains(info.Error, "5 faults in") || !strings.Contains(info.Error, "unreachable") ||
		!strings.Contains(l.String(), "module taken out of service") {
		t.Errorf("%+v, %v", info, err)
	}
	if i, err := h.Activate(bad.Digest); err != nil || i.State != StateActive || i.Error != "" {
		t.Errorf("another chance: %+v, %v", i, err)
	}
}

// TestFaultsByBody: huge bodies that use up ticks or memory hurt their own
// requests only; all other faults say that the module is bad.
func TestFaultsByBody(t *testing.T) {
	h, _ := openTest(t, Options{})
	digest := activate(t, h, chatGuest(t, "good")).Digest
	good := h.slot(SlotChat).now.Load().active
	for range 2 * breakerFaults {
		h.failed(good, abi.OpRequest, caller{account: "a"}, &guest.Fault{Cause: guest.CauseTicks, Input: 2 << 20})
		h.failed(good, abi.OpRequest, caller{account: "a"}, &guest.Fault{Cause: guest.CauseMemory, Input: 2 << 20})
	}
	h.background.Wait() // of a demotion
	if got := stateOf(t, h, digest); got != StateActive {
		t.Errorf("after huge bodies the module is %s", got)
	}
	for _, f := range []guest.Fault{{Cause: guest.CauseTicks, Input: 1 << 20}, {Cause: guest.CauseTrap, Input: 2 << 20},
		{Cause: guest.CauseProtocol, Input: 2 << 20}} {
		if f.ByBody() {
			t.Errorf("%v on %d bytes is taken for the body's fault", f.Cause, f.Input)
		}
	}
}

// TestShadowFaultsByBody: nor do they take a module out of the shadow.
func TestShadowFaultsByBody(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotChat, "1")
	g.start = wasmtest.Asm().I32(2*guest.BodyBytesFair/pageBytes).Imm(0x40, 0).Op(wasmtest.Drop) // memory.grow: room for the body
	g.call = wasmtest.Asm().Loop(wasmtest.Void).Br(0).End().I64(0)                               // until its ticks end
	g.manifest.Ticks = guest.Ticks{Call: 1000, PerKB: 1}
	digest := mustLoad(t, h, g.bytes(t))
	if _, err := h.Shadow(digest, 100); err != nil {
		t.Fatal(err)
	}
	s := h.slot(SlotChat).now.Load().shadow
	for range breakerFaults {
		s.offer(&generation{}, abi.OpError, caller{account: "a"}, &scratch{in: make([]byte, guest.BodyBytesFair+1)})
	}
	s.stop()
	h.background.Wait() // of a demotion
	if i, err := h.info(digest); err != nil || i.State != StateShadow || i.Faults["ticks"] != breakerFaults {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestBreakerRate: which fault trips it, of those that come fast and of those that are rare but too many.
func TestBreakerRate(t *testing.T) {
	now := time.Unix(0, 0)
	cases := []struct {
		name   string
		before uint64 // calls without a fault
		every  uint64 // calls per fault
		gap    time.Duration
		trips  int // the fault, 0 for none
	}{
		{"a burst", 0, 1000, time.Second, 5},
		{"five in ten seconds", 0, 1000, breakerSpan / 4, 5},
		{"five in a little more", 0, 1000, breakerSpan/4 + 1, 0},
		{"one in 50", 0, 50, time.Minute, 10}, // of fewer calls than 500 nothing is known
		{"one in 99", 0, 99, time.Minute, 6},
		{"one in 100", 0, 100, time.Minute, 0},
		{"one in 50, behind a million good calls", 1_000_000, 50, time.Minute, 11},
	}
	for _, c := range cases {
		var b breaker
		for round := range 2 { // reset makes it as new
			var tripped []int
			for n := range 1000 {
				if b.fault(now.Add(time.Duration(n)*c.gap), c.before+uint64(n+1)*c.every) != "" {
					tripped = append(tripped, n+1)
				}
			}
			if len(tripped) > 1 || c.trips > 0 != (len(tripped) > 0) || len(tripped) > 0 && tripped[0] != c.trips {
				t.Errorf("%s, round %d: tripped at %v, want %d", c.name, round, tripped, c.trips)
			}
			b.reset()
		}
	}
}

// TestShadow counts runs and differences and never shows in an answer. It goes on when another module
// becomes active, until it is ended.
func TestShadow(t *testing.T) {
	h, _ := openTest(t, Options{})
	between := mustLoad(t, h, chatGuest(t, "between"))
	same := newGuest(SlotChat, "same")
	same.answers = chatAnswers("native")
	runs := func(digest string) (runs, mismatches uint64) {
		i, _ := h.info(digest)
		return i.ShadowRuns + i.ShadowDropped, i.ShadowMismatches
	}
	for _, c := range []struct {
		wasm   []byte
		differ bool
	}{{same.bytes(t), false}, {chatGuest(t, "other"), true}} {
		digest := mustLoad(t, h, c.wasm)
		if i, err := h.Shadow(digest, 100); err != nil || i.State != StateShadow || i.Serving {
			t.Fatalf("%+v, %v", i, err)
		}
		s := h.slot(SlotChat).now.Load().shadow
		if _, err := h.Activate(between); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Rollback(SlotChat); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got := request(t, h, "a"); got != `{"by":"native"}` {
				t.Fatalf("the shadow answers: %s", got)
			}
		}
		eventually(func() bool { n, _ := runs(digest); return n == 20 })
		if _, n := runs(digest); (n > 0) != c.differ {
			t.Errorf("%d mismatches, want some: %v", n, c.differ)
		}
		if i, err := h.Shadow(digest, 0); err != nil || i.State != StateLoaded {
			t.Errorf("%+v, %v", i, err)
		}
		if h.background.Wait(); !s.stopped {
			t.Error("it is ended, and its worker is not")
		}
	}
}

// TestShadowDrops: a queue that is full loses the job, not the request.
func TestShadowDrops(t *testing.T) {
	g := &generation{native: func(_ abi.Op, _, dst []byte) []byte { return append(dst, okFrame(nil)...) }}
	s := startShadow(g, 100, time.Now(), nil)
	big := make([]byte, shadowBytesMax+1)
	s.offer(&generation{}, abi.OpError, caller{account: "a"}, &scratch{in: big})
	s.stop()
	s.offer(&generation{}, abi.OpError, caller{account: "a"}, &scratch{})
	s.stop()
	if n := g.tally.shadowDropped.Load(); n != 1 || g.tally.shadowRuns.Load() != 0 || s.queued.Load() != 0 {
		t.Errorf("dropped %d, queued %d", n, s.queued.Load())
	}
}

// TestGuestLog: what a guest says is cut, cleaned and limited; its counters count.
func TestGuestLog(t *testing.T) {
	i32, i64 := wasmtest.I32, wasmtest.I64
	h, l := openTest(t, Options{})
	g := newGuest(SlotChat, "1")
	log := g.module.Import("corenode", "log", []byte{i32, i32, i32}, nil)
	metric := g.module.Import("corenode", "metric", []byte{i32, i64}, nil)
	g.module.Data(guestPages*pageBytes-16, []byte("hello\x1b[2J\nworld."))
	c := wasmtest.Asm().I32(9).I32(guestPages*pageBytes - 16).I32(16).Call(log)
	c.I32(3).I32(-5).I32(1 << 30).Call(log) // outside the memory
	c.I32(2).I64(7).Call(metric).I32(99).I64(7).Call(metric)
	g.call = c.I64(g.place(okFrame([]byte(`{}`))))
	info := activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	for range 3 * 50 {
		tr.Error(nil, &abi.Error{}, 500)
	}
	if info, _ = h.info(info.Digest); info.Metrics[2] != 3*7*50 || len(info.Metrics) != 1 {
		t.Errorf("%+v", info.Metrics)
	}
	lines := strings.Count(l.String(), `text="hello[2J world."`)
	if lines < 50 || lines > 2*50 || bytes.Contains([]byte(l.String()), []byte{0x1b}) {
		t.Errorf("%d lines:\n%.2000s", lines, l)
	}
}
