package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/extensions/compare"
	"corenode/extensions/guest"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// fakeModules notes what it is told and rates at so much per output token.
type fakeModules struct {
	told  []string
	price abi.Nano
	fails bool
}

// discount is the module that it has.
var discount = extensions.Info{Slot: "billing", Name: "discount", Digest: "sha256:d15c", State: extensions.StateLoaded}

func (f *fakeModules) Modules() []extensions.Info {
	return []extensions.Info{discount}
}

func (f *fakeModules) Module(ref string) (extensions.Info, error) { return f.say("show " + ref) }

func (f *fakeModules) Capture(s extensions.Slot, account string, span time.Duration) (capture.Status, error) {
	_, err := f.say(fmt.Sprintf("capture %s of %q for %v", s, account, span))
	return capture.Status{Slot: string(s), Account: account}, err
}

func (f *fakeModules) Captured(s extensions.Slot) (capture.Status, error) {
	return capture.Status{}, fmt.Errorf("%s: %w", s, extensions.ErrNoCapture)
}

func (f *fakeModules) EndCapture(s extensions.Slot) error {
	_, err := f.say("forget " + string(s))
	return err
}

func (f *fakeModules) CompareCaptured(_ context.Context, older, newer string, count capture.Count) (capture.Report, error) {
	tokens, _ := count([]byte("four"))
	_, err := f.say(fmt.Sprintf("compare %s with %q", newer, older))
	return capture.Report{New: newer, NewTokens: int64(tokens), Operations: []capture.Operation{}, First: []capture.Difference{}}, err
}

func (f *fakeModules) Reconfigure(_ context.Context, wasm, signature, config []byte) (extensions.Info, error) {
	f.told = append(f.told, fmt.Sprintf("reconfigure %s %s %s", wasm, signature, config))
	return discount, nil
}

func (f *fakeModules) Load(_ context.Context, wasm, signature, config []byte) (extensions.Info, error) {
	f.told = append(f.told, fmt.Sprintf("load %s %s %s", wasm, signature, config))
	if string(wasm) == "bad" {
		return extensions.Info{}, &guest.LoadError{Stage: "imports", Reason: "no", Fix: "yes"}
	}
	return discount, nil
}

func (f *fakeModules) Activate(ref string) (extensions.Info, error) {
	if ref == "nobody" {
		return extensions.Info{}, extensions.ErrUnknownModule
	}
	return f.say("activate " + ref)
}

func (f *fakeModules) Enable(name string) (extensions.Info, error) {
	if name == "nobody" {
		return extensions.Info{}, extensions.ErrNotOff
	}
	return f.say("enable " + name)
}

func (f *fakeModules) Disable(name string) (extensions.Info, error) {
	if name == "off" {
		return extensions.Info{}, extensions.ErrNotEnabled
	}
	return f.say("disable " + name)
}

func (f *fakeModules) Canary(ref string, percent int) (extensions.Info, error) {
	return f.say(fmt.Sprintf("canary %s %d", ref, percent))
}

func (f *fakeModules) Shadow(ref string, percent int) (extensions.Info, error) {
	return f.say(fmt.Sprintf("shadow %s %d", ref, percent))
}

func (f *fakeModules) ShadowReport(ref string) (compare.Report, error) {
	if ref == "loaded" {
		return compare.Report{}, extensions.ErrNoShadow
	}
	_, err := f.say("report " + ref)
	return compare.Report{Module: ref, Beside: []string{}, Operations: []compare.Operation{{Op: "charge", Calls: 2}},
		First: []compare.Difference{}}, err
}

func (f *fakeModules) Rollback(s extensions.Slot) (extensions.Info, error) {
	switch s {
	case extensions.SlotChat:
		return extensions.Info{}, extensions.ErrNoPrevious
	case "nowhere":
		return extensions.Info{}, extensions.ErrSlot
	}
	return f.say("rollback " + string(s))
}

func (f *fakeModules) Remove(ref string) error {
	switch ref {
	case "active":
		return extensions.ErrInUse
	case "builtin:tariff":
		return extensions.ErrShipped
	}
	_, err := f.say("remove " + ref)
	return err
}

func (f *fakeModules) say(text string) (extensions.Info, error) {
	f.told = append(f.told, text)
	return discount, nil
}

func (f *fakeModules) Prices(string) (abi.Prices, error) { return abi.Prices{}, nil }

func (f *fakeModules) Rate(_ string, in abi.ChargeInput, _ []abi.Counter) (extensions.Charge, error) {
	if f.fails {
		return extensions.Charge{}, errors.New("trapped")
	}
	return f.Replay("sha256:new", in.Append(nil))
}

func (f *fakeModules) Replay(digest string, input []byte) (extensions.Charge, error) {
	in, err := abi.ParseChargeInput(input)
	hash := sha256.Sum256(input)
	amount := f.price * abi.Nano(in.Usage.Output)
	return extensions.Charge{Amount: amount, Tier: 1, ModuleDigest: digest, Input: input, InputHash: hex.EncodeToString(hash[:]),
		Lines: []abi.Line{{Unit: "output", Tokens: in.Usage.Output, Price: f.price, Amount: amount}}}, err
}

func newModulesAPI(t *testing.T) (*Client, *fakeModules, *sqlite.Store, account.Account) {
	t.Helper()
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	modules := &fakeModules{price: 7}
	return checked(t, Local(New(s, &fakeNode{}, modules, nil, nil))), modules, s, a
}

func TestModuleVerbs(t *testing.T) {
	c, modules, s, owner := newModulesAPI(t)
	if all, err := c.Modules(); err != nil || len(all) != 1 || all[0].Name != "discount" {
		t.Errorf("modules %+v, %v", all, err)
	}
	calls := []func() error{
		func() error {
			_, err := c.LoadModule(NewModule{Wasm: []byte("w"), Signature: []byte("s"), Config: []byte(`{"a":1}`)})
			return err
		},
		func() error {
			_, err := c.LoadModule(NewModule{Wasm: []byte("w"), Config: []byte(`{"a":2}`), Reconfigure: true})
			return err
		},
		func() error { _, err := c.ActivateModule("sha256:aabbcc"); return err },
		func() error { _, err := c.EnableModule("verses"); return err },
		func() error { _, err := c.DisableModule("verses"); return err },
		func() error { _, err := c.CanaryModule("discount@1.0.0", 10); return err },
		func() error { _, err := c.ShadowModule("discount@1.0.0", 100); return err },
		func() error {
			r, err := c.ShadowReport("discount@1.0.0")
			if len(r.Operations) != 1 || r.Operations[0].Calls != 2 {
				t.Errorf("%+v", r)
			}
			return err
		},
		func() error { _, err := c.Rollback("billing"); return err },
		func() error { _, err := c.Module("discount@1.0.0"); return err },
		func() error {
			begun, err := c.Capture("chat", NewCapture{Seconds: 90, Account: owner.Name})
			if begun.Account != owner.ID {
				t.Errorf("the capture is of %q, want the account's id %q", begun.Account, owner.ID)
			}
			return err
		},
		func() error {
			r, err := c.CompareModule("discount@2.0.0", "discount@1.0.0")
			if r.New != "discount@2.0.0" || r.NewTokens != 4 {
				t.Errorf("%+v", r)
			}
			return err
		},
		func() error { return c.EndCapture("chat") },
		func() error { return c.RemoveModule("aabbcc") },
	}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	want := []string{`load w s {"a":1}`, `reconfigure w  {"a":2}`, "activate sha256:aabbcc", "enable verses", "disable verses",
		"canary discount@1.0.0 10", "shadow discount@1.0.0 100", "report discount@1.0.0",
		"rollback billing", "show discount@1.0.0", fmt.Sprintf("capture chat of %q for 1m30s", owner.ID),
		`compare discount@2.0.0 with "discount@1.0.0"`, "forget chat", "show aabbcc", "remove aabbcc"}
	if fmt.Sprint(modules.told) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", modules.told, want)
	}
	for _, want := range []struct {
		kind string
		call func() error
	}{
		{KindNotFound, func() error { _, err := c.ActivateModule("nobody"); return err }},
		{KindNotFound, func() error { _, err := c.EnableModule("nobody"); return err }},
		{KindNotFound, func() error { _, err := c.Captured("chat"); return err }},
		{KindNotFound, func() error { _, err := c.Capture("chat", NewCapture{Seconds: 1, Account: "nobody"}); return err }},
		{KindConflict, func() error { _, err := c.DisableModule("off"); return err }},
		{KindConflict, func() error { return c.RemoveModule("active") }},
		{KindConflict, func() error { return c.RemoveModule("builtin:tariff") }},
		{KindConflict, func() error { _, err := c.ShadowReport("loaded"); return err }},
		{KindConflict, func() error { _, err := c.Rollback("chat"); return err }},
		{KindInvalid, func() error { _, err := c.LoadModule(NewModule{Wasm: []byte("bad")}); return err }},
	} {
		if e, ok := errors.AsType[*Error](want.call()); !ok || e.Kind != want.kind {
			t.Errorf("want %s, got %v", want.kind, e)
		}
	}
	for _, call := range []func() error{
		func() error { _, err := c.CanaryModule("x", 101); return err },
		func() error { _, err := c.Rollback("nowhere"); return err },
		func() error { _, err := c.LoadModule(NewModule{}); return err },
		func() error { _, err := Local(New(s, &fakeNode{}, nil, nil, nil)).Modules(); return err },
	} {
		if e, ok := errors.AsType[*Error](call()); !ok || e.Kind == KindInternal {
			t.Errorf("want a refusal, got %v", e)
		}
	}
}

// settle writes a charge that a module made.
func settle(t *testing.T, s *sqlite.Store, a account.Account, request string, amount abi.Nano, provisional bool) {
	t.Helper()
	in := abi.ChargeInput{Usage: abi.Usage{Output: 10}, Model: "m", Account: a.ID}
	record := in.Append(nil)
	hash := sha256.Sum256(record)
	err := s.Append([]account.Entry{{Kind: account.Settlement, AccountID: a.ID, RequestID: request, Model: "m",
		Time: time.Now(), Amount: amount,
		Usage: in.Usage, Tier: 1, Reason: account.Finished, ModuleDigest: "sha256:old",
		ChargeInput: record, InputHash: hex.EncodeToString(hash[:]), Provisional: provisional}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplay(t *testing.T) {
	c, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -70, false)
	if r, err := c.Replay("req_1"); err != nil || !r.Same || r.AmountNanoUSD != -70 || len(r.Lines) != 1 || r.Entry.ModuleDigest != "sha256:old" {
		t.Errorf("replayed %+v, %v", r, err)
	}
	modules.price = 8
	if r, err := c.Replay("req_1"); err != nil || r.Same || r.AmountNanoUSD != -80 {
		t.Errorf("by a module that changed: %+v, %v", r, err)
	}
	if _, err := c.Replay("req_2"); err == nil {
		t.Error("a charge that does not exist was replayed")
	}
}

// TestReplayRerated: of a charge that was rated again the last rating is computed, and its row can be named too; the
// settlement's row is the charge as it was.
func TestReplayRerated(t *testing.T) {
	c, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -100, true)
	if r, err := c.Rerate(); err != nil || r.Rated != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	rows, err := s.Request("req_1")
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	rerating := strconv.FormatInt(rows[1].ID, 10)
	for _, ref := range []string{"req_1", rerating} {
		if r, err := c.Replay(ref); err != nil || !r.Same || r.AmountNanoUSD != -70 || r.LedgerNanoUSD != -70 || r.Entry.ID != rows[1].ID ||
			r.Entry.ModuleDigest != "sha256:new" {
			t.Errorf("%s: %+v, %v", ref, r, err)
		}
	}
	if r, err := c.Replay(strconv.FormatInt(rows[0].ID, 10)); err != nil || r.Same || r.Entry.ID != rows[0].ID {
		t.Errorf("as it was charged: %+v, %v", r, err)
	}
	if _, err := c.Refund("req_1", "a ticket"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Replay("req_1"); err != nil || !r.Same || r.Entry.ID != rows[1].ID {
		t.Errorf("after a refund: %+v, %v", r, err)
	}
	modules.price = 8
	if r, err := c.Replay(rerating); err != nil || r.Same || r.AmountNanoUSD != -80 {
		t.Errorf("by a module that changed: %+v, %v", r, err)
	}
	for _, ref := range []int64{1, rows[1].ID + 1, rows[1].ID + 2} { // a top-up, the refund, nothing
		if r, err := c.Replay(strconv.FormatInt(ref, 10)); err == nil {
			t.Errorf("row %d: %+v", ref, r)
		}
	}
}

// TestReplayOfALateSettlement: where a charge has a late adjustment and a re-rating, what each made of it is the sum of the rows
// up to its own.
func TestReplayOfALateSettlement(t *testing.T) {
	c, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -6, false)
	settled, err := s.Settlement("req_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []abi.Nano{-94, 30} {
		e := settled
		e.Kind, e.Settles, e.Amount, e.Reason = account.Adjustment, settled.ID, more, ""
		if err := s.Append([]account.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Request("req_1")
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	row := func(i int) string { return strconv.FormatInt(rows[i].ID, 10) }
	for _, want := range []struct {
		ref   string
		row   int
		price abi.Nano
		says  abi.Nano
	}{{"req_1", 2, 7, -70}, {row(2), 2, 7, -70}, {row(1), 1, 10, -100}} {
		modules.price = want.price
		r, err := c.Replay(want.ref)
		if err != nil || !r.Same || r.LedgerNanoUSD != want.says || r.AmountNanoUSD != want.says || r.Entry.ID != rows[want.row].ID {
			t.Errorf("%s: %+v, %v", want.ref, r, err)
		}
		e, err := c.Explain("req_1")
		if err != nil {
			t.Fatal(err)
		}
		sum := abi.Nano(0)
		for _, l := range e.Rows[want.row].Lines {
			sum += l.AmountNanoUSD
		}
		if got := e.Rows[want.row]; sum == 0 || sum-got.BeforeNanoUSD != -got.Entry.AmountNanoUSD {
			t.Errorf("row %d of %d is explained by lines of %d and %d before", want.row, got.Entry.AmountNanoUSD, sum, got.BeforeNanoUSD)
		}
		if before := e.Rows[0].BeforeNanoUSD; before != 0 {
			t.Errorf("%d were charged before the settlement", before)
		}
	}
}

// TestRerate: each provisional charge is adjusted once to what the module says;
// one that it cannot rate stays.
func TestRerate(t *testing.T) {
	c, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -100, true)
	settle(t, s, a, "req_2", -50, true)
	settle(t, s, a, "req_3", -70, false)
	modules.fails = true
	if r, err := c.Rerate(); err != nil || r.Rated != 0 || len(r.Failed) != 2 {
		t.Errorf("by a failing module: %+v, %v", r, err)
	}
	modules.fails = false
	for i, want := range []int{2, 0} {
		r, err := c.Rerate()
		if err != nil || r.Rated != want || len(r.Failed) != 0 {
			t.Errorf("time %d: %+v, %v", i, r, err)
		}
	}
	// 70 for each of three requests, whatever was charged before.
	if balance, _, err := s.Balance(a.ID); err != nil || balance != 1000-3*70 {
		t.Errorf("balance %d, %v", balance, err)
	}
	if v, err := s.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("the ledger: %+v, %v", v, err)
	}
}

// racedStore is one in which another call adjusts each charge first.
type racedStore struct{ *sqlite.Store }

func (s racedStore) Adjust(e account.Entry) (done bool, err error) {
	if _, err := s.Store.Adjust(e); err != nil {
		return false, err
	}
	return s.Store.Adjust(e)
}

// TestRerateBesideAnother: a charge that another call rated since this one read it is not provisional, and not this one's.
func TestRerateBesideAnother(t *testing.T) {
	_, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -100, true)
	r, err := Local(New(racedStore{s}, &fakeNode{}, modules, nil, nil)).Rerate()
	if err != nil || r.Rated != 0 || r.AmountNanoUSD != 0 || len(r.Failed) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// leavingModules are those of a call whose caller leaves as soon as it rates something.
type leavingModules struct {
	*fakeModules
	leave func()
}

func (m leavingModules) Rate(request string, in abi.ChargeInput, held []abi.Counter) (extensions.Charge, error) {
	m.leave()
	return m.fakeModules.Rate(request, in, held)
}

// TestRerateEndsWithItsCaller: it may take hours. What was rated stays, and the next call goes on.
func TestRerateEndsWithItsCaller(t *testing.T) {
	c, modules, s, a := newModulesAPI(t)
	settle(t, s, a, "req_1", -100, true)
	settle(t, s, a, "req_2", -100, true)
	caller, leave := context.WithCancel(t.Context())
	api := New(s, &fakeNode{}, leavingModules{modules, leave}, nil, nil)
	if status, _, answer := api.Handle(caller, "POST", reratePath, nil, nil); status != http.StatusInternalServerError {
		t.Errorf("whose caller left: %d %s", status, answer)
	}
	if r, err := c.Rerate(); err != nil || r.Rated != 1 || r.AmountNanoUSD != 30 {
		t.Errorf("the next one: %+v, %v", r, err)
	}
}
