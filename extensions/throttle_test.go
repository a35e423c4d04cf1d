package extensions

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// TestAdmit: calls are admitted in order, as long as their patience
// reaches, and those that would wait longer are told at once.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []uint64
		th := newThrottle(newCPUQuota(0.5, 2), func(n uint64) { said = append(said, n) }) // one processor
		const call, patience = 40 * time.Millisecond, quotaWaitMax
		th.settle(0, th.quota.burst+10*time.Millisecond) // 10 ms of debt
		began := time.Now()
		for n, want := range []time.Duration{10, 50, 90} {
			advance, _, ok := th.admit(call, patience)
			if at := time.Since(began).Round(time.Millisecond); !ok || advance != call || at != want*time.Millisecond {
				t.Errorf("call %d: advance %v, admitted after %v, %v", n, advance, at, ok)
			}
		}
		for range 3 {
			before := time.Now()
			if _, _, ok := th.admit(call, 30*time.Millisecond); ok || time.Since(before) > 0 {
				t.Errorf("a call that was not admitted went on: %v, after %v", ok, time.Since(before))
			}
		}
		for range 3 { // they took half of their advance
			th.settle(call, call/2)
		}
		if _, waited, ok := th.admit(0, patience); !ok || waited > 0 {
			t.Errorf("after the calls: waited %v, %v", waited, ok)
		}
		if th.declined.Load() != 3 || th.waits.Load() != 3 || len(said) != 1 || said[0] != 1 {
			t.Errorf("declined %d, waits %d, said %v", th.declined.Load(), th.waits.Load(), said)
		}
		th.settle(0, time.Hour)
		time.Sleep(overEvery)
		before := time.Now()
		if _, _, ok := th.admit(call, patience); ok || len(said) != 2 || said[1] != 3 {
			t.Errorf("later: %v, said %v", ok, said)
		}
		th.delay(call)
		if waited := time.Since(before); waited != guest.WaitMax {
			t.Errorf("a call that must be made waited %v", waited)
		}
	})
}

// TestAdmitAtOnce: the advance bounds the calls that run at once.
func TestAdmitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(newCPUQuota(0.5, 2), func(uint64) {})
		var wait sync.WaitGroup
		var mu sync.Mutex
		running, most, ok := 0, 0, 0
		for range 32 {
			wait.Go(func() {
				const call = 600 * time.Millisecond // more than a full share
				advance, _, admitted := th.admit(call, quotaWaitMax)
				if !admitted {
					return
				}
				mu.Lock()
				ok++
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(call)
				mu.Lock()
				running--
				mu.Unlock()
				th.settle(advance, call)
			})
		}
		wait.Wait()
		if most != 1 || ok != 1 {
			t.Errorf("%d calls were admitted, %d at once", ok, most)
		}
	})
}

// slowRounds take some milliseconds.
const slowRounds = 2_000_000

// tiny is a share that the first slow call uses up for minutes.
const tiny = 1e-6

// slowGuest is a module of a slot whose every call is slow and says "slow".
func slowGuest(t testing.TB, s Slot, answers map[abi.Op][]byte) []byte {
	g := newGuest(s, "slow")
	g.rounds, g.answers = slowRounds, answers
	g.manifest.Ticks = guest.Ticks{Call: 10 * slowRounds}
	return g.bytes(t)
}

func useOf(h *Host, s Slot) SlotUse { return h.Uses()[s.index()] }

// TestSlowTranslatorDeclines: over the share of its slot a translator's requests
// go to the native build, soon and without a fault.
func TestSlowTranslatorDeclines(t *testing.T) {
	h, l := openTest(t, Options{CPUShare: tiny})
	info := activate(t, h, slowGuest(t, SlotChat, chatAnswers("slow")))
	for n := range 20 {
		want := `{"by":"native"}`
		if n == 0 {
			want = `{"by":"slow"}`
		}
		if got := request(t, h, fmt.Sprint(n)); got != want {
			t.Fatalf("request %d is answered %s, want %s", n, got, want)
		}
	}
	u := useOf(h, SlotChat)
	if u.Declined != 19 || u.CPU <= 0 || u.Waits != 0 || u.Limit <= 0 {
		t.Errorf("%+v", u)
	}
	if info, _ = h.info(info.Digest); info.State != StateActive || info.Faults != nil || info.Requests != 1 || info.Calls != 1 ||
		info.Fallbacks != 19 || info.CPU <= 0 || info.Ticks < slowRounds {
		t.Errorf("%+v", info)
	}
	if n := strings.Count(l.String(), "a slot is over its share of the processors"); n != 1 {
		t.Errorf("%d lines\n%s", n, l)
	}
	if other := useOf(h, SlotResponses); other.Declined != 0 || other.CPU != 0 {
		t.Errorf("another slot: %+v", other)
	}
}

// spend uses up the share of a slot.
func spend(h *Host, s Slot) { h.slot(s).throttle.settle(0, time.Hour) }

// TestShippedHoldsNothing: many slow calls at once of a module that ships are no
// reason to decline one while its slot is below its share.
func TestShippedHoldsNothing(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := slowFromTheStart(t, h)
	g.shipped = true
	if mean := g.pool.Mean(abi.OpDecide); mean < advanceMin {
		t.Fatalf("a call takes %v", mean)
	}
	for n := range 64 {
		if advance, waited, ok := g.admit(abi.OpDecide, quotaWaitMax); !ok || advance+waited > 0 {
			t.Fatalf("call %d: advance %v, waited %v, %v", n, advance, waited, ok)
		}
	}
	spend(h, SlotAdmission)
	if _, _, ok := g.admit(abi.OpDecide, quotaWaitMax); ok {
		t.Error("over the share it goes on")
	}
}

// TestStreamOverItsShare: the native build takes a stream over of which nothing
// has left; a shipped module's at any time; another one goes on, spaced.
func TestStreamOverItsShare(t *testing.T) {
	foreign := slowGuest(t, SlotChat, chatAnswers("slow"))
	quiet := chatAnswers("slow")
	quiet[abi.OpEvents] = abi.Written{State: []byte("state")}.Append(nil)
	for _, c := range []struct {
		name   string
		wasm   []byte
		spent  int // groups before the share is used up
		out    string
		native int // groups that the native build was given
	}{
		{"foreign, nothing written", slowGuest(t, SlotChat, quiet), 2, "||", 2},
		{"foreign, before the first group", foreign, 0, "|||", 3},
		{"foreign, begun", foreign, 2, "data: slow\n\ndata: slow\n\ndata: slow\n\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{}
			h, _ := openWith(t, Options{AllowUnsigned: true}, []shippedModule{{slot: SlotChat, name: "chat",
				native: r.handle, nativeAs: "builtin:chat"}})
			activate(t, h, c.wasm)
			tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
			defer tr.Close()
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			var out []byte
			var err error
			all := answerEvents()
			for n, group := range [][]abi.Event{all[:3], all[3:8], all[8:]} {
				if n == c.spent {
					spend(h, SlotChat)
				}
				if out, err = tr.Events(out, group); err != nil {
					t.Fatal(err)
				}
			}
			if string(out) != c.out || len(r.events) != c.native {
				t.Fatalf("wrote %q, the native build got %d groups; want %q, %d", out, len(r.events), c.out, c.native)
			}
			if c.spent == 2 && c.native > 0 && !bytes.Equal(r.events[0].Events, merged(8)) {
				t.Errorf("it got\n%q, want\n%q", r.events[0].Events, merged(8))
			}
			if use := useOf(h, SlotChat); c.native == 0 && use.Waited < guest.WaitMax {
				t.Errorf("the stream that went on waited %v", use.Waited)
			}
		})
	}
}

// TestLongAnswerStaysWithItsModule: an answer of which more is held back than is kept cannot be taken over, then or later:
// the native build would write a part of it.
func TestLongAnswerStaysWithItsModule(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotChat, "quiet")
	g.answers = chatAnswers("quiet")
	g.answers[abi.OpEvents] = abi.Written{State: []byte("state")}.Append(nil)
	activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	group := answerEvents()[:3]
	group[2].Text = strings.Repeat("x", 10_000)
	for sent := 0; sent < 3*replayBytesMax; sent += 10_000 {
		if before, behind := sent < replayBytesMax, sent > replayBytesMax+10_000; before != tr.replayable() && before != behind {
			t.Fatalf("behind %d bytes it can be taken over: %v", sent, !before)
		}
		if _, err := tr.Events(nil, group); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShippedStreamOverItsShare goes on in the native build, with the same state.
func TestShippedStreamOverItsShare(t *testing.T) {
	r := &recorder{}
	wasm := chatGuest(t, "wasm")
	h, l := openWith(t, Options{}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle, nativeAs: "builtin:chat",
		digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}})
	tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	defer tr.Close()
	if body, err := tr.Request([]byte("{}")); err != nil || string(body) != `{"by":"wasm"}` {
		t.Fatalf("%s, %v\n%s", body, err, l)
	}
	out, err := tr.Events(nil, answerEvents()[:1])
	spend(h, SlotChat)
	if err == nil {
		out, err = tr.Events(out, answerEvents()[1:2])
	}
	if err != nil || string(out) != "data: wasm\n\n|" || len(r.events) != 1 || string(r.events[0].State) != "state" {
		t.Errorf("wrote %q, %v; the native build got %+v", out, err, r.events)
	}
}

// TestAnswersOverTheShare: a body and an error come from the native build.
func TestAnswersOverTheShare(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, slowGuest(t, SlotChat, chatAnswers("slow")))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	spend(h, SlotChat)
	if out := tr.Error(nil, &abi.Error{}, 500); string(out) != `{"error":"native"}` {
		t.Errorf("the error is %s", out)
	}
	if out, err := tr.Response(nil, answerEvents()); err != nil || string(out) != `{"response":"native"}` {
		t.Errorf("the answer is %s, %v", out, err)
	}
}

// TestForeignDialectOverItsShare: a body that the native build does not
// understand is refused as what it is, a node that is busy.
func TestForeignDialectOverItsShare(t *testing.T) {
	r := &recorder{answer: func(abi.Op) []byte {
		return statusFrame(abi.StatusError, abi.InvalidRequest, abi.Refusal{Param: "prompt", Msg: "unknown"}.Append(nil))
	}}
	h, _ := openWith(t, Options{AllowUnsigned: true}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle,
		nativeAs: "builtin:chat"}})
	activate(t, h, slowGuest(t, SlotChat, chatAnswers("slow")))
	spend(h, SlotChat)
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	_, err := tr.Request([]byte(`{"prompt":"x"}`))
	if e := abi.AsError(err); err == nil || e.Kind != abi.Overloaded || e.RetryAfter == 0 {
		t.Errorf("%v", err)
	}
}

// TestPatienceIsOfTheRequest: the calls of one request wait for 100 ms together.
func TestPatienceIsOfTheRequest(t *testing.T) {
	h, _ := openTest(t, Options{})
	th := h.slot(SlotChat).throttle
	activate(t, h, slowGuest(t, SlotChat, chatAnswers("slow")))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	for n, want := range []bool{true, false} {
		th.level.Store(-int64(float64(60*time.Millisecond) * th.quota.rate))
		th.filled = time.Now().Add(time.Hour) // nothing is gained, however long this goroutine stands still
		if _, ok := tr.admit(abi.OpRequest); ok != want {
			t.Errorf("call %d was admitted: %v, with %v of patience left", n, ok, tr.patience)
		}
	}
	if tr.patience > quotaWaitMax/2 || tr.patience < 0 {
		t.Errorf("%v of patience are left", tr.patience)
	}
}

// TestSlowBillingIsProvisional: billing waits for nothing; the tariff charges.
func TestSlowBillingIsProvisional(t *testing.T) {
	h, _ := openTest(t, Options{CPUShare: tiny})
	charge := abi.Charge{Total: 900, Tier: 1, Lines: []abi.Line{line(1, 900, 900)}}
	activate(t, h, slowGuest(t, SlotBilling, map[abi.Op][]byte{
		abi.OpQuote: abi.Quote{Upper: 1000, Minimum: 10}.Append(nil), abi.OpCharge: charge.Append(nil)}))
	first, err := h.Quote("", ratingInput)
	if err != nil || first.Bounds().Upper != 1000 || first.Provisional() {
		t.Fatalf("%+v, %v", first, err)
	}
	defer first.Close()
	if c, err := first.Charge(ratingUsage, nil); err != nil || !c.Provisional || c.Amount != nativeAmount ||
		c.ModuleDigest != builtin.TariffDigest {
		t.Errorf("the charge is %+v, %v", c, err)
	}
	second, err := h.Quote("", ratingInput)
	if err != nil || !second.Provisional() || second.Module() != builtin.TariffDigest {
		t.Fatalf("%+v, %v", second, err)
	}
	defer second.Close()
	if u := useOf(h, SlotBilling); u.Declined != 2 || u.Waits != 0 {
		t.Errorf("%+v", u)
	}
	h.slot(SlotBilling).throttle.level.Store(-1000) // for which this share needs half a second
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Provisional || c.Amount != 900 {
		t.Errorf("rated again %+v, %v", c, err)
	}
}

// TestSlowPolicyDeclines: requests go on to the account's own limits.
func TestSlowPolicyDeclines(t *testing.T) {
	h, _ := openTest(t, Options{CPUShare: tiny})
	deny := abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "no"}
	activate(t, h, slowGuest(t, SlotAdmission, map[abi.Op][]byte{abi.OpDecide: deny.Append(nil)}))
	for n, want := range []abi.Verdict{abi.Deny, abi.Allow, abi.Allow} {
		if d, err := h.Decide("", abi.AdmissionInput{Account: "a"}); err != nil || d.Verdict != want {
			t.Errorf("decision %d is %+v, %v", n, d, err)
		}
	}
	if u := useOf(h, SlotAdmission); u.Declined != 2 {
		t.Errorf("%+v", u)
	}
}

// slowFromTheStart serves with a policy whose calls were seen to be slow when it was tried.
func slowFromTheStart(t *testing.T, h *Host) *generation {
	h.untried = false
	slow := newGuest(SlotAdmission, "slow")
	slow.rounds = 95_000_000 // above 20 ms on every machine of these years
	slow.answers = map[abi.Op][]byte{abi.OpDecide: abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: "no"}.Append(nil)}
	slow.manifest.Ticks = guest.Ticks{Call: 100_000_000}
	activate(t, h, slow.bytes(t))
	return h.slot(SlotAdmission).now.Load().active
}

// TestSlowFromTheStart: what calls take is known from those that were tried before
// the module serves, so that its first calls are not all made at once.
func TestSlowFromTheStart(t *testing.T) {
	h, _ := openTest(t, Options{CPUShare: tiny})
	g := slowFromTheStart(t, h)
	advance, _, ok := g.admit(abi.OpDecide, 0)
	if _, _, second := g.admit(abi.OpDecide, 0); !ok || advance < advanceMin || second {
		t.Errorf("the first call %v pays %v, the second %v", ok, advance, second)
	}
}

// TestShadowGivesWay: a shadow takes nothing of a share that requests have used up.
func TestShadowGivesWay(t *testing.T) {
	h, _ := openTest(t, Options{CPUShare: tiny})
	digest := mustLoad(t, h, slowGuest(t, SlotChat, chatAnswers("native")))
	if _, err := h.Shadow(digest, 100); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		request(t, h, "a")
	}
	h.slot(SlotChat).now.Load().shadow.stop() // it has done all that it was asked
	if i, _ := h.info(digest); i.ShadowRuns != 1 || i.ShadowMismatches != 0 {
		t.Errorf("%+v", i)
	}
	if r, err := h.ShadowReport(digest); err != nil || r.Dropped != 9 {
		t.Errorf("the report has %d calls that were not repeated, %v", r.Dropped, err)
	}
}

// TestHeavyCanary: a canary whose calls take several times what those of the
// active module do is rolled back with the reason; one that is like it stays.
func TestHeavyCanary(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds int32
		factor float64
		state  string
	}{
		{"like the active one", 20_000, 0, StateCanary},
		{"ten times", 200_000, 0, StateFailed},
		{"ten times, and the factor is 1000", 200_000, 1000, StateCanary},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, l := openTest(t, Options{CanaryFactor: c.factor, CanaryCallsMin: 60, CPUShare: 1})
			version := func(v string, rounds int32) []byte {
				g := newGuest(SlotChat, v)
				g.rounds, g.answers = rounds, chatAnswers(v)
				return g.bytes(t)
			}
			activate(t, h, version("1.0.0", 20_000))
			canary := mustLoad(t, h, version("2.0.0", c.rounds))
			for range 83 { // the last window of several is not full
				request(t, h, "a")
			}
			if _, err := h.Canary(canary, 100); err != nil {
				t.Fatal(err)
			}
			for range 70 {
				request(t, h, "a")
			}
			stateOf(t, h, canary) // behind the host's lock whoever rolls back has been spawned
			h.background.Wait()
			if got := stateOf(t, h, canary); got != c.state {
				t.Errorf("the canary is %s, want %s\n%s", got, c.state, l)
			}
			if c.state != StateFailed {
				return
			}
			if i, _ := h.info(canary); !strings.Contains(i.Error, "as canary its op request takes") ||
				!strings.Contains(i.Error, "times the ticks") ||
				!strings.Contains(i.Error, "test@1.0.0") || !strings.Contains(l.String(), "module taken out of service") {
				t.Errorf("%s\n%s", i.Error, l)
			}
			if got := request(t, h, "a"); got != `{"by":"1.0.0"}` {
				t.Errorf("after the rollback: %s", got)
			}
		})
	}
}

// TestFreshMemoryCountsAsUse: what it takes to make memory fresh for another account is of the slot's
// share and in the module's processor time, whether it is restored or an instance is made anew.
func TestFreshMemoryCountsAsUse(t *testing.T) {
	const at, rounds, calls = 8, 300_000, 8
	restored := newGuest(SlotChat, "restored")
	restored.start = wasmtest.Asm().I32(128).Imm(0x40, 0).Op(wasmtest.Drop) // memory.grow: 8 MiB that each restoring copies
	restored.answers = chatAnswers("restored")
	anew := newGuest(SlotChat, "anew") // it begins slowly, and grows with each call, so that it cannot be restored
	anew.start = wasmtest.Asm().I32(at).I32(rounds).Mem(wasmtest.I32Store, 0).Loop(wasmtest.Void).
		I32(at).I32(at).Mem(wasmtest.I32Load, 0).I32(1).Op(wasmtest.I32Sub).Mem(wasmtest.I32Store, 0).
		I32(at).Mem(wasmtest.I32Load, 0).BrIf(0).End()
	anew.call = wasmtest.Asm().I32(1).Imm(0x40, 0).Op(wasmtest.Drop).I64(anew.place(okFrame(chatAnswers("anew")[abi.OpRequest])))
	for _, g := range []*handmade{restored, anew} {
		h, _ := openTest(t, Options{CPUShare: 1, PoolMax: 1})
		digest := activate(t, h, g.bytes(t)).Digest
		took := func(accounts string) (slot, module time.Duration) {
			info, _ := h.info(digest)
			slot, module = useOf(h, SlotChat).CPU, info.CPU
			for n := range calls {
				request(t, h, accounts[n%len(accounts):][:1])
			}
			info, _ = h.info(digest)
			return useOf(h, SlotChat).CPU - slot, info.CPU - module
		}
		_, _ = took("a") // memory and code are touched for the first time
		slot, module := took("a")
		freshSlot, freshModule := took("ba")
		const least = 200 * time.Microsecond // copying 64 MiB takes more, and so does the loop
		if freshSlot <= 3*slot+least || freshModule <= 3*module+least {
			t.Errorf("%s: of one account %v and %v, of two in turn %v and %v", g.manifest.Version, slot, module, freshSlot, freshModule)
		}
	}
}
