package extensions

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// threeOnChat loads three modules: the second is active behind the first, the
// third serves 40 % of the accounts.
func threeOnChat(t *testing.T, h *Host) (one, two, three string) {
	t.Helper()
	one, two, three = mustLoad(t, h, chatGuest(t, "1")), mustLoad(t, h, chatGuest(t, "2")), mustLoad(t, h, chatGuest(t, "3"))
	for _, digest := range []string{one, two} {
		if _, err := h.Activate(digest); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Canary(three, 40); err != nil {
		t.Fatal(err)
	}
	return one, two, three
}

// TestRestart: what served before serves again, and what an operator undid
// stays undone.
func TestRestart(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "modules")}
	h, _ := openTest(t, o)
	one, two, three := threeOnChat(t, h)
	_ = h.Close()
	if got := request(t, h, "a"); got != `{"by":"native"}` {
		t.Errorf("a closed host answers %s", got)
	}

	h, l := openTest(t, o)
	a := h.slot(SlotChat).now.Load()
	if a.active.digest != two || a.canary.digest != three || a.canaryPercent != 40 || a.previous.digest != one || a.shadow != nil {
		t.Fatalf("%+v\n%s", a, l)
	}
	if _, err := h.Rollback(SlotChat); err != nil { // the canary
		t.Fatal(err)
	}
	if _, err := h.Shadow(one, 30); err != nil { // it is the previous one as well
		t.Fatal(err)
	}
	_ = h.Close()

	h, l = openTest(t, o)
	a = h.slot(SlotChat).now.Load()
	if a.active.digest != two || a.canary != nil || a.previous.digest != one ||
		a.shadow == nil || a.shadow.generation.digest != one || a.shadow.percent != 30 {
		t.Fatalf("%+v\n%s", a, l)
	}
	for range 2 { // to one, then to the builtin
		if _, err := h.Rollback(SlotChat); err != nil {
			t.Fatal(err)
		}
	}
	_ = h.Close()
	h, _ = openTest(t, o)
	if got := request(t, h, "a"); got != `{"by":"native"}` {
		t.Errorf("%s serves after a rollback to the builtin", got)
	}
	if got := stateOf(t, h, two); got != StateStored {
		t.Errorf("module 2 is %s", got)
	}
	if i, err := h.Activate("test@2"); err != nil || i.State != StateActive {
		t.Errorf("%+v, %v", i, err)
	}
	if entries, err := filepath.Glob(filepath.Join(o.Dir, ".*")); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	info, err := os.Stat(o.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestAttackDisk: a module that was active is checked again in full; when it
// no longer passes, the builtin serves and the list says why.
func TestAttackDisk(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wasm := chatGuest(t, "1")
	cases := []struct {
		name, stage, says, remedy string
		spoil                     func(t *testing.T, o *Options)
	}{
		{"changed file", "digest", "it was changed", "restore the file from a backup", func(t *testing.T, o *Options) {
			flip(t, filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extWasm), 20)
		}},
		{"cut file", "digest", "it was changed", "restore the file from a backup", func(t *testing.T, o *Options) {
			if err := os.Truncate(filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extWasm), 100); err != nil {
				t.Fatal(err)
			}
		}},
		{"another module under its name", "digest", "it was changed", "restore the file from a backup", func(t *testing.T, o *Options) {
			writeTestFile(t, filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extWasm), chatGuest(t, "other"))
		}},
		{"cut signature", "signature", "the signature is 10 bytes", "corenode module sign", func(t *testing.T, o *Options) {
			writeTestFile(t, filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extSignature), make([]byte, 10))
		}},
		{"changed signature", "signature", "no trusted key", "a key whose public half is in modules.trusted_keys",
			func(t *testing.T, o *Options) {
				flip(t, filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extSignature), 20)
			}},
		{"key no longer trusted", "signature", "no trusted key", "a key whose public half is in modules.trusted_keys",
			func(_ *testing.T, o *Options) { o.TrustedKeys = nil }},
		{"missing file", "", "no such file", "", func(t *testing.T, o *Options) {
			if err := os.Remove(filepath.Join(o.Dir, strings.TrimPrefix(digestOf(wasm), digestPrefix)+extWasm)); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), TrustedKeys: []ed25519.PublicKey{public}}
			h, _ := openWith(t, o, testShipped())
			i, err := h.Load(t.Context(), wasm, Sign(private, wasm), nil)
			if err != nil || !i.Signed || i.SignedBy == "" {
				t.Fatalf("%+v, %v", i, err)
			}
			if _, err = h.Activate(i.Digest); err != nil {
				t.Fatal(err)
			}
			_ = h.Close()
			c.spoil(t, &o)
			h, l := openWith(t, o, testShipped())
			if got := request(t, h, "a"); got != `{"by":"native"}` {
				t.Errorf("%s serves", got)
			}
			if i, err = h.info(i.Digest); !errors.Is(err, ErrUnknownModule) && (i.State != StateFailed ||
				!strings.Contains(i.Error, c.says) || !strings.Contains(i.Error, c.remedy) ||
				c.stage != "" && !strings.HasPrefix(i.Error, "module refused ("+c.stage+"): ")) {
				t.Errorf("%+v, %v", i, err)
			}
			if !strings.Contains(l.String(), "does not load") {
				t.Errorf("the log says nothing:\n%s", l)
			}
		})
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAttackSignatures(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	wasm, other := chatGuest(t, "1"), chatGuest(t, "2")
	text := []byte(base64.StdEncoding.EncodeToString(Sign(private, wasm)) + "\n")
	cases := []struct {
		name         string
		unsigned     bool // allowed
		signature    []byte
		says, remedy string // "" = it is taken
	}{
		{"signed", false, Sign(private, wasm), "", ""},
		{"signed, as text", false, text, "", ""},
		{"unsigned", false, nil, "the module is not signed", "corenode module sign"},
		{"unsigned where that is allowed", true, nil, "", ""},
		{"a stranger's", false, Sign(stranger, wasm), "no trusted key made this signature", "modules.trusted_keys"},
		{"a wrong one where none is needed", true, Sign(stranger, wasm), "no trusted key made this signature", "or remove the .sig"},
		{"another module's", false, Sign(private, other), "no trusted key made this signature", "modules.trusted_keys"},
		{"without the context", false, ed25519.Sign(private, wasm), "no trusted key made this signature", "modules.trusted_keys"},
		{"too short", true, []byte("x"), "the signature is 1 bytes", "corenode module sign"},
	}
	for _, c := range cases {
		h, _ := openWith(t, Options{TrustedKeys: []ed25519.PublicKey{public}, AllowUnsigned: c.unsigned}, testShipped())
		i, err := h.Load(t.Context(), wasm, c.signature, nil)
		var refused *guest.LoadError
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &refused) || refused.Stage != "signature" ||
			!strings.Contains(refused.Reason, c.says) || !strings.Contains(refused.Fix, c.remedy)) {
			t.Errorf("%s: %+v, %v", c.name, i, err)
		}
		_ = h.Close()
	}
}

// TestChargingModuleIsKept: the file of a module that served billing stays for
// replays when it is removed, also across a restart.
func TestChargingModuleIsKept(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
	digest := mustLoad(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge))
	input := abi.ChargeInput{Model: "core", Usage: ratingUsage}.Append(nil)
	check := func() {
		t.Helper()
		if c, err := h.Replay(digest, input); err != nil || c.Amount != 5 || c.ModuleDigest != digest {
			t.Errorf("%+v, %v", c, err)
		}
		for _, i := range h.Modules() {
			if i.Digest == digest {
				t.Errorf("it is listed: %+v", i)
			}
		}
	}
	if _, err := h.Activate(digest); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Rollback(SlotBilling); err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(digest); err != nil {
		t.Fatal(err)
	}
	check()
	_ = h.Close()
	h, _ = openTest(t, o)
	check()
	if _, err := h.Load(t.Context(), billingGuest(t, "1", abi.Quote{Upper: 9}, charge), nil, []byte(`{"other":1}`)); err == nil {
		t.Error("it was loaded with another configuration")
	}
	if _, err := h.Load(t.Context(), billingGuest(t, "1", abi.Quote{Upper: 9}, charge), nil, nil); err != nil || stateOf(t,
		h, digest) != StateLoaded {
		t.Errorf("loading it again: %v", err)
	}
}

// TestCorruptCache damages every byte region of a compiled module that the
// engine reads back; it must compile again and never run the damaged code.
func TestCorruptCache(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	wasm := chatGuest(t, "1")
	files := func() (all []string) {
		_ = filepath.WalkDir(filepath.Join(o.Dir, "cache"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "SUM" {
				all = append(all, path)
			}
			return err
		})
		return all
	}
	run := func() {
		t.Helper()
		h, _ := openTest(t, o)
		defer h.Close()
		activate(t, h, wasm)
		if got := request(t, h, "a"); got != `{"by":"1"}` {
			t.Errorf("%s serves", got)
		}
	}
	run()
	if len(files()) != 1 {
		t.Fatalf("the cache holds %v", files())
	}
	path := files()[0]
	intact, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := filepath.Join(filepath.Dir(filepath.Dir(path)), "SUM")
	long := time.Unix(1e9, 0)
	if err := os.Chtimes(sum, long, long); err != nil {
		t.Fatal(err)
	}
	run() // from the cache, of which the sum stays true
	if info, err := os.Stat(sum); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("the sum of what is in the cache was written again, %v", err)
	}
	for _, at := range []int{0, 6, 8, 20, 24, len(intact) / 2, len(intact) - 1} {
		flip(t, path, at)
		run()
		if now, err := os.ReadFile(path); err != nil || string(now) != string(intact) {
			t.Errorf("byte %d: the damaged file was not replaced, %v", at, err)
		}
	}
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	run()
}

// TestMissingPolicies: while the policies that an operator chose are not in
// memory, or no longer pass, admission fails closed and charges are provisional,
// until the operator decides.
func TestMissingPolicies(t *testing.T) {
	for _, open := range []bool{false, true} {
		o := Options{Dir: t.TempDir(), AdmissionFailOpen: open}
		h, _ := openTest(t, o)
		admission := activate(t, h, admissionGuest(t, abi.Decision{})).Digest
		charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
		billing := activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge)).Digest
		_ = h.Close()
		for _, digest := range []string{admission, billing} {
			flip(t, h.folder.path(digest, extWasm), 30)
		}
		h, _ = openTest(t, o)
		if h.Deciding() == open {
			t.Errorf("fail open %v: deciding %v", open, h.Deciding())
		}
		if _, err := h.Decide("", abi.AdmissionInput{}); (err == nil) != open || err != nil && abi.KindOf(err) != abi.Overloaded {
			t.Errorf("fail open %v: %v", open, err)
		}
		rate := func() Charge {
			t.Helper()
			q, err := h.Quote("", ratingInput)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			quoted, err := q.Charge(ratingUsage, nil)
			rated, err2 := h.Rate("", ratingCharge, nil)
			if err != nil || err2 != nil || quoted.Provisional != rated.Provisional || quoted.Amount != nativeAmount {
				t.Errorf("%+v, %v and %+v, %v", quoted, err, rated, err2)
			}
			return quoted
		}
		if !rate().Provisional {
			t.Error("the builtin stands in for a module that is missing, and its charge is final")
		}
		for _, s := range []Slot{SlotAdmission, SlotBilling} {
			if _, err := h.Rollback(s); err != nil {
				t.Errorf("accepting what ships in slot %s: %v", s, err)
			}
		}
		if _, err := h.Decide("", abi.AdmissionInput{}); err != nil || h.Deciding() || rate().Provisional {
			t.Errorf("after the operator's decision: %v, deciding %v", err, h.Deciding())
		}
	}
}

// TestMissingStaysMissing: trying another policy while the chosen ones are
// missing is no decision to do without them, also after the next start.
func TestMissingStaysMissing(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
	policies := []string{
		activate(t, h, admissionGuest(t, abi.Decision{})).Digest,
		activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge)).Digest,
	}
	_ = h.Close()
	for _, digest := range policies {
		flip(t, h.folder.path(digest, extWasm), 30)
	}
	other := newGuest(SlotAdmission, "2")
	other.answers[abi.OpDecide] = abi.Decision{}.Append(nil)
	for start := range 2 {
		h, _ = openTest(t, o)
		if start == 0 {
			if _, err := h.Canary(mustLoad(t, h, other.bytes(t)), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Shadow(mustLoad(t, h, billingGuest(t, "2", abi.Quote{Upper: 9}, charge)), 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.Decide("", abi.AdmissionInput{Account: "a"}); err == nil {
			t.Errorf("start %d: admission is open without its policy", start)
		}
		c, err := h.Rate("", ratingCharge, nil)
		if err != nil || !c.Provisional {
			t.Errorf("start %d: the charge of what stands in is final: %+v, %v", start, c, err)
		}
		_ = h.Close()
	}
}

// openHalf opens a host whose start stands still where what ships is loaded:
// between the active modules and the others. goOn lets it end.
func openHalf(t *testing.T, o Options) (h *Host, goOn func()) {
	t.Helper()
	asked, release := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	wasm := goodResponses(t)
	shipped := append(testShipped(), shippedModule{slot: SlotResponses, name: "responses", native: nativeChat("native"),
		nativeAs: "builtin:responses",
		digest:   digestOf(wasm), wasm: func() ([]byte, error) {
			ask()
			<-release
			return wasm, nil
		}})
	o.AllowUnsigned = true
	o.Prices = map[string]abi.Prices{"core": ratingCharge.Prices}
	h, err := open(o, shipped)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	<-asked
	return h, func() {
		close(release)
		<-h.Ready()
	}
}

// TestNamesDuringTheStart: a module that is only on disk has its name before what ships is there, which takes long on a busy
// node, and longest after an upgrade.
func TestNamesDuringTheStart(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	one := mustLoad(t, h, chatGuest(t, "1"))
	_ = h.Close()
	h, goOn := openHalf(t, o)
	if i, err := h.Module("test@1"); err != nil || i.Digest != one {
		t.Errorf("%+v, %v", i, err)
	}
	goOn()
}

// TestVerbDuringTheStart: what happens on a slot whose modules are still being
// brought back is about what they will be, and forgets none of them.
func TestVerbDuringTheStart(t *testing.T) {
	cases := []struct {
		name    string
		verb    func(h *Host, two, three string) error
		serves  string // after the start
		percent int    // of the canary, then
	}{
		{"a shadow that is none ends", func(h *Host, two, _ string) error {
			_, err := h.Shadow(two, 0)
			return err
		}, "2", 40},
		{"the canary ends", func(h *Host, _, three string) error {
			_, err := h.Canary(three, 0)
			return err
		}, "2", 0},
		{"rolled back", func(h *Host, _, _ string) error {
			_, err := h.Rollback(SlotChat)
			return err
		}, "2", 0},
		{"rolled back twice", func(h *Host, _, _ string) error {
			_, err := h.Rollback(SlotChat)
			_, err2 := h.Rollback(SlotChat)
			return errors.Join(err, err2)
		}, "1", 0},
		{"the active one fails too often", func(h *Host, two, _ string) error {
			g := h.slot(SlotChat).now.Load().active
			for range breakerFaults {
				h.failed(g, abi.OpRequest, caller{account: "a"}, guest.Faultf(guest.CauseTrap, "unreachable"))
			}
			return nil
		}, "1", 40},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Dir: t.TempDir()}
				h, _ := openTest(t, o)
				_, two, three := threeOnChat(t, h)
				_ = h.Close()
				h, goOn := openHalf(t, o)
				done := make(chan error, 1)
				go func() { done <- c.verb(h, two, three) }()
				synctest.Wait() // until it is done, or waits for the start
				goOn()
				if err := <-done; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				check := func(when string) {
					t.Helper()
					a := h.slot(SlotChat).now.Load()
					if a.active.manifest.Version != c.serves || (a.canary != nil) != (c.percent > 0) || a.canaryPercent != c.percent {
						t.Errorf("%s version %s serves, the canary is %v with %d %%", when, a.active.manifest.Version,
							a.canary, a.canaryPercent)
					}
					if c.serves == "2" && (a.previous == nil || a.previous.manifest.Version != "1") {
						t.Errorf("%s version 1 is not the previous one", when)
					}
				}
				check("now")
				_ = h.Close()
				h, _ = openTest(t, o)
				check("after another start")
			})
		})
	}
}

// TestEndOfWhatDoesNotLoad: a canary and a shadow that no longer load end
// nevertheless, and nothing else with them.
func TestEndOfWhatDoesNotLoad(t *testing.T) {
	shadow := func(h *Host, three string) error {
		_, err := h.Canary(three, 0)
		_, err2 := h.Shadow(three, 30)
		return errors.Join(err, err2)
	}
	for name, c := range map[string]struct {
		begin, end func(h *Host, three string) error
	}{
		"canary 0": {nil, func(h *Host, three string) error { _, err := h.Canary(three, 0); return err }},
		"rollback": {nil, func(h *Host, _ string) error { _, err := h.Rollback(SlotChat); return err }},
		"shadow 0": {shadow, func(h *Host, three string) error { _, err := h.Shadow(three, 0); return err }},
	} {
		o := Options{Dir: t.TempDir()}
		h, _ := openTest(t, o)
		one, two, three := threeOnChat(t, h)
		if c.begin != nil {
			if err := c.begin(h, three); err != nil {
				t.Fatal(err)
			}
		}
		_ = h.Close()
		flip(t, h.folder.path(three, extWasm), 30)
		h, _ = openTest(t, o)
		if w := h.state.Slots[SlotChat]; w.Canary == "" && w.Shadow == "" {
			t.Fatalf("%s: nothing is to end", name)
		}
		if err := c.end(h, three); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = h.Close()
		flip(t, h.folder.path(three, extWasm), 30)
		h, _ = openTest(t, o)
		if a := h.slot(SlotChat).now.Load(); a.active.digest != two || a.previous.digest != one || a.canary != nil || a.shadow != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestRemoveOfWhatIsMissing: a module that is to serve, or to be tried, is in use
// also when it does not load; what is only kept for a rollback may go.
func TestRemoveOfWhatIsMissing(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	one, two, three := threeOnChat(t, h)
	g := newGuest(SlotResponses, "4")
	g.answers = chatAnswers("4")
	four := mustLoad(t, h, g.bytes(t))
	if _, err := h.Shadow(four, 30); err != nil {
		t.Fatal(err)
	}
	admission := activate(t, h, admissionGuest(t, abi.Decision{})).Digest
	_ = h.Close()
	for _, digest := range []string{one, two, three, four, admission} {
		flip(t, h.folder.path(digest, extWasm), 30)
	}
	h, _ = openTest(t, o)
	for _, digest := range []string{two, three, four, admission} {
		if err := h.Remove(digest); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: %v", digest, err)
		}
	}
	if err := h.Remove(one); err != nil {
		t.Error(err)
	}
	if got := h.state.Slots[SlotChat].Previous; got != "" {
		t.Errorf("the state names %s, which was removed", got)
	}
	if _, err := h.Rollback(SlotAdmission); err != nil {
		t.Error(err)
	}
	if err := h.Remove(admission); err != nil {
		t.Errorf("after the operator's decision: %v", err)
	}
}
