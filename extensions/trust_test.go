package extensions

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

func denials(t testing.TB, texts ...string) (all []Denial) {
	t.Helper()
	for _, text := range texts {
		d, err := ParseDenial(text)
		if err != nil || d.String() != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q: %v, %v", text, d, err)
		}
		all = append(all, d)
	}
	return all
}

func TestDenialCovers(t *testing.T) {
	digest := digestPrefix + strings.Repeat("0a", 32)
	for _, c := range []struct {
		entry, version string
		want           bool
	}{
		{"test<2", "1", true}, {"test<2", "2", false}, {"test < 2.0", "2", false}, {"test<2", "2.0.0", false},
		{"test<1.10.0", "1.9.9", true}, {"test<1.9", "1.10", false}, {"test<1.2.0", "1.2.0-rc1", true}, {"test<1.2.0-rc2",
			"1.2.0-rc1", true},
		{"test<1.2.0-rc.10", "1.2.0-rc.9", true}, {"test<1.2.0-rc.2", "1.2.0-rc.10", false}, {"test<1.2.0-2", "1.2.0-beta", false},
		{"test<1.2.0-rc", "1.2.0-rc.1", false}, {"test<1.2.0-rc1", "1.2.0", false},
		{"test<v3", "v2.9", true}, {"test<3", "v3", false}, {"test<1", "beta", true}, {"test<1", "1_0", true}, {"test<0", "0", false},
		{"other<9", "1", false}, {digest, "1", true}, {digestPrefix + strings.Repeat("0b", 32), "1", false},
	} {
		d := denials(t, c.entry)[0]
		if got := d.covers(digest, &guest.Manifest{Name: "test", Version: c.version}); got != c.want {
			t.Errorf("%s covers version %s: %v", c.entry, c.version, got)
		}
		if got := d.covers(digest, nil); got != (c.entry == digest) {
			t.Errorf("%s covers a module without a manifest: %v", c.entry, got)
		}
		if d.covers("", nil) {
			t.Errorf("%s covers nothing", c.entry)
		}
	}
	for _, bad := range []string{"", "test", "test<", "<1", "test<beta", "test<1<2", "test>1", "Test<1", digest[:70],
		digest + "0", strings.ToUpper(digest)} {
		if d, err := ParseDenial(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, d)
		}
	}
}

func wantDenied(t testing.TB, err error) {
	t.Helper()
	if refused, ok := errors.AsType[*guest.LoadError](err); !errors.Is(err, ErrDenied) || !ok || refused.Stage != "denied" ||
		refused.Fix == "" || !strings.Contains(refused.Reason, "modules.denied") {
		t.Errorf("refused with %v", err)
	}
}

// TestDeniedModule: a module that becomes denied while the host runs gives its
// place to the one before it, and to what ships when that is denied too; what
// runs ends on it. It is not loaded again until the entry is gone.
func TestDeniedModule(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, l := openTest(t, o)
	one, two, three := threeOnChat(t, h)
	running := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	begun := running.generation.digest
	check := chatSlot(t, h, one, two, three)
	h.Trust(nil, denials(t, three))
	if a := h.slot(SlotChat).now.Load(); a.canary != nil || a.canaryPercent != 0 {
		t.Errorf("the denied canary is still there: %+v", a)
	}
	check("2", StatePrevious, StateActive, StateDenied)
	h.Trust(nil, denials(t, three, two))
	check("1", StateActive, StateDenied, StateDenied)
	if out, err := running.Events(nil, answerEvents()[:1]); err != nil || !strings.HasPrefix(string(out), "data: ") {
		t.Errorf("the stream on %s: %s, %v", begun, out, err)
	}
	running.Close()
	if !strings.Contains(l.String(), "denied module is taken out of service") || !strings.Contains(l.String(), "test@2") {
		t.Errorf("the log:\n%s", l)
	}
	h.Trust(nil, denials(t, "test<9"))
	check("native", StateDenied, StateDenied, StateDenied)
	if a := h.slot(SlotChat).now.Load(); a.missing {
		t.Error("the slot counts as missing")
	}
	_, err := h.Load(t.Context(), chatGuest(t, "4"), nil, nil)
	wantDenied(t, err)
	_, err = h.Load(t.Context(), chatGuest(t, "2"), nil, nil)
	wantDenied(t, err)
	for _, verb := range []func() (Info, error){
		func() (Info, error) { return h.Activate(two) },
		func() (Info, error) { return h.Canary(two, 10) },
		func() (Info, error) { return h.Shadow(two, 10) },
	} {
		_, err := verb()
		wantDenied(t, err)
	}
	h.Trust(nil, denials(t, "test<2"))
	check("native", StateDenied, StateStored, StateStored)
	if _, err := h.Activate(two); err != nil {
		t.Error(err)
	}
	check("2", StateDenied, StateActive, StateStored)
}

// TestDeniedAtTheStart: what a start finds denied gives its place as it does at
// a reload, by its digest, by its name, with its file gone, and for every role.
func TestDeniedAtTheStart(t *testing.T) {
	digests := func(one, two, three string) map[string][]string {
		return map[string][]string{"2": {three}, "1": {two}, "native": {one, two}}
	}
	for _, by := range []string{"2", "1", "native", "gone", "name"} {
		t.Run(by, func(t *testing.T) {
			o := Options{Dir: t.TempDir()}
			h, _ := openTest(t, o)
			one, two, three := threeOnChat(t, h)
			_ = h.Close()
			serves := by
			switch by {
			case "name":
				o.Denied, serves = denials(t, "test<3"), "native"
			case "gone":
				o.Denied, serves = denials(t, two), "1"
				if err := os.Remove(h.folder.path(two, extWasm)); err != nil {
					t.Fatal(err)
				}
			default:
				o.Denied = denials(t, digests(one, two, three)[by]...)
			}
			for start := range 2 { // the second finds the state that the first one left
				h, l := openTest(t, o)
				a := h.slot(SlotChat).now.Load()
				if got := a.active.manifest.Version; got != serves || a.missing {
					t.Errorf("start %d: %s serves, missing %v\n%s", start, got, a.missing, l)
				}
				if by == "2" != (a.canary == nil) {
					t.Errorf("start %d: the canary is %v", start, a.canary)
				}
				if said := strings.Contains(l.String(), "a denied module is taken out"); said != (start == 0) {
					t.Errorf("start %d: the log says %v\n%s", start, said, l)
				}
				_ = h.Close()
			}
		})
	}
}

// TestDeniedPolicies: charges of what stands behind a denied billing module are
// final, since the operator chose so; a denied admission policy with nothing
// behind it fails closed, or open where the options say so.
func TestDeniedPolicies(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			o := Options{Dir: t.TempDir(), AdmissionFailOpen: open}
			h, _ := openTest(t, o)
			admission := activate(t, h, admissionGuest(t, abi.Decision{})).Digest
			charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
			billing := activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, charge)).Digest
			q, err := h.Quote("", ratingInput)
			if err != nil {
				t.Fatal(err)
			}
			o.Denied = denials(t, admission, billing)
			if h.Trust(nil, o.Denied); restart {
				q.Close()
				_ = h.Close()
				h, _ = openTest(t, o)
			} else {
				if c, err := q.Charge(ratingUsage, nil); err != nil || c.ModuleDigest != billing || c.Provisional {
					t.Errorf("what was quoted before is charged %+v, %v", c, err)
				}
				q.Close()
			}
			if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Provisional || c.Amount != nativeAmount {
				t.Errorf("charged %+v, %v", c, err)
			}
			if c, err := h.Replay(billing, abi.ChargeInput{Model: "core", Usage: ratingUsage}.Append(nil)); err != nil || c.Amount != 5 {
				t.Errorf("a replay gives %+v, %v", c, err)
			}
			if _, err := h.Decide("", abi.AdmissionInput{}); (err == nil) != open {
				t.Errorf("fail open %v: %v", open, err)
			}
			if _, err := h.Rollback(SlotAdmission); err != nil {
				t.Error(err)
			}
			if _, err := h.Decide("", abi.AdmissionInput{}); err != nil || h.Deciding() {
				t.Errorf("after the operator's decision: %v", err)
			}
		}
	}
}

// TestDeniedWhatShips: the native build serves in the place of a denied module of the program.
func TestDeniedWhatShips(t *testing.T) {
	wasm := goodResponses(t)
	shipped := append(testShipped(), shippedModule{slot: SlotResponses, name: "responses", native: nativeChat("native"),
		nativeAs: "builtin:responses",
		digest:   digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }})
	o := Options{Dir: t.TempDir(), AllowUnsigned: true}
	h, l := openWith(t, o, shipped)
	if a := h.slot(SlotResponses).now.Load(); a.active.digest != digestOf(wasm) {
		t.Fatalf("%s serves", a.active.title())
	}
	h.Trust(nil, denials(t, digestOf(wasm)))
	if a := h.slot(SlotResponses).now.Load(); a.active.native == nil || a.missing || !strings.Contains(l.String(), "taken out of service") {
		t.Errorf("%s serves\n%s", a.active.title(), l)
	}
}

// TestTrustedKeysChange: a module in memory needs a signature of a key that is
// trusted by now, where the file of its signature lies; without one it is
// missing, as after a restart.
func TestTrustedKeysChange(t *testing.T) {
	old, oldPrivate, _ := ed25519.GenerateKey(rand.Reader)
	young, youngPrivate, _ := ed25519.GenerateKey(rand.Reader)
	charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
	billing, chat := billingGuest(t, "1", abi.Quote{Upper: 9}, charge), chatGuest(t, "1")
	o := Options{Dir: t.TempDir(), TrustedKeys: []ed25519.PublicKey{old}}
	h, l := openWith(t, o, testShipped())
	for _, wasm := range [][]byte{billing, chat} {
		i, err := h.Load(t.Context(), wasm, Sign(oldPrivate, wasm), nil)
		if err == nil {
			_, err = h.Activate(i.Digest)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Trust([]ed25519.PublicKey{old, young}, nil)
	if err := os.WriteFile(filepath.Join(o.Dir, strings.TrimPrefix(digestOf(billing), digestPrefix)+extSignature),
		Sign(youngPrivate, billing), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Trust([]ed25519.PublicKey{young}, nil)
	i, err := h.info(digestOf(billing))
	if c, err2 := h.Rate("", ratingCharge, nil); err != nil || err2 != nil || c.Provisional || c.Amount != 5 || i.State != StateActive {
		t.Errorf("signed again: %+v, %+v, %v, %v", i, c, err, err2)
	}
	if i, err = h.info(digestOf(chat)); err != nil || i.State != StateFailed || !strings.Contains(i.Error, "no trusted key") {
		t.Errorf("not signed again: %+v, %v", i, err)
	}
	if got := request(t, h, "a"); got != `{"by":"native"}` || !h.slot(SlotChat).now.Load().missing ||
		!strings.Contains(l.String(), "not trusted any more") {
		t.Errorf("%s serves\n%s", got, l)
	}
	if _, err := h.Load(t.Context(), chatGuest(t, "2"), Sign(oldPrivate, chatGuest(t, "2")), nil); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a module that the old key signed: %v", err)
	}
	if _, err := h.Load(t.Context(), chatGuest(t, "2"), Sign(youngPrivate, chatGuest(t, "2")), nil); err != nil {
		t.Error(err)
	}
}

// TestSignedAgain: loading what is in memory with the signature of another trusted key keeps that one, here and on the
// other nodes of a cluster. When the old key goes the module serves on, and after a restart too.
func TestSignedAgain(t *testing.T) {
	old, oldPrivate, _ := ed25519.GenerateKey(rand.Reader)
	young, youngPrivate, _ := ed25519.GenerateKey(rand.Reader)
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	wasm := chatGuest(t, "1")
	r := &row{}
	open := func(dir string, keys ...ed25519.PublicKey) *Host {
		h, _ := openWith(t, Options{Dir: dir, TrustedKeys: keys, Keep: r.keep, State: r.text, Number: r.number}, testShipped())
		return h
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	a, b, c := open(dirs[0], old), open(dirs[1], old), open(dirs[2], old)
	i, err := a.Load(t.Context(), wasm, Sign(oldPrivate, wasm), nil)
	if err = errors.Join(err, b.Bring(wasm, Sign(oldPrivate, wasm), nil), c.Bring(wasm, Sign(oldPrivate, wasm), nil)); err == nil {
		_, err = a.Activate(i.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.follow(t, b, c)
	signedBy := func(h *Host, key ed25519.PublicKey) {
		t.Helper()
		i, err := h.Module(digestOf(wasm))
		if err != nil || i.State != StateActive || i.SignedBy != base64.StdEncoding.EncodeToString(key) {
			t.Errorf("%+v, %v", i, err)
		}
	}
	for _, h := range []*Host{a, b, c} {
		h.Trust([]ed25519.PublicKey{old, young}, nil)
	}
	for _, wrong := range [][]byte{Sign(stranger, wasm), []byte("x")} {
		if _, err := a.Load(t.Context(), wasm, wrong, nil); err == nil {
			t.Error("a wrong signature of a module in memory is taken")
		}
		if err := b.Note(digestOf(wasm), wasm, wrong, nil); err != nil { // or nothing after it would be followed
			t.Error(err)
		}
	}
	if _, err := a.Load(t.Context(), wasm, nil, nil); err != nil {
		t.Error(err)
	}
	for _, h := range []*Host{a, b, c} {
		signedBy(h, old)
	}
	again := Sign(youngPrivate, wasm)
	loaded, err := a.Load(t.Context(), wasm, again, nil)
	if err = errors.Join(err, b.Note(digestOf(wasm), wasm, again, nil), c.Bring(wasm, again, nil)); err != nil {
		t.Fatal(err)
	}
	if loaded.SignedBy != base64.StdEncoding.EncodeToString(young) || loaded.Generation != i.Generation {
		t.Errorf("loaded again: %+v", loaded)
	}
	for n, h := range []*Host{a, b, c} {
		signedBy(h, young)
		h.Trust([]ed25519.PublicKey{young}, nil)
		signedBy(h, young)
		_ = h.Close()
		signedBy(open(dirs[n], young), young)
	}
}

// TestSignatureToKeep: of a module in memory the signature that counts is one that a trusted key made, whatever was put beside
// its file since.
func TestSignatureToKeep(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(rand.Reader)
	wasm, o := chatGuest(t, "1"), Options{Dir: t.TempDir(), TrustedKeys: []ed25519.PublicKey{public}}
	h, _ := openWith(t, o, testShipped())
	good := Sign(private, wasm)
	if _, err := h.Load(t.Context(), wasm, good, nil); err != nil {
		t.Fatal(err)
	}
	text := []byte(base64.StdEncoding.EncodeToString(good))
	for _, c := range []struct{ beside, want []byte }{{good, good}, {text, text}, {[]byte("wrong"), good}, {nil, good}} {
		writeTestFile(t, h.folder.path(digestOf(wasm), extSignature), c.beside)
		if got, err := h.Signature(digestOf(wasm)); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("beside it lies %q: %q, %v", c.beside, got, err)
		}
	}
	h.Trust(nil, nil)
	if got, err := h.Signature(digestOf(wasm)); !errors.Is(err, ErrNotSigned) || got != nil {
		t.Errorf("without its key: %q, %v", got, err)
	}
	if _, err := h.Signature(digestOf(text)); !errors.Is(err, ErrUnknownModule) {
		t.Errorf("of another module: %v", err)
	}
}
