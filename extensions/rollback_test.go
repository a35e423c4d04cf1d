package extensions

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestRollbackOfWhatIsMissing: where nothing stands in for a module that does not load, a
// rollback lets the one before it serve, which is in memory; only the next one empties the slot.
func TestRollbackOfWhatIsMissing(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	var modules [2]map[Slot]string
	for n, version := range []string{"1", "2"} {
		modules[n] = map[Slot]string{
			SlotFilter: activate(t, h, policyGuest(t, SlotFilter, "by"+version, 0, shows("", version))).Digest,
			"one":      activate(t, h, routedGuest("one", version, "/a").bytes(t)).Digest,
		}
	}
	_ = h.Close()
	for _, digest := range modules[1] {
		flip(t, h.folder.path(digest, extWasm), 30)
	}
	h, _ = openTest(t, o)
	for name, first := range modules[0] {
		if !h.Missing(name) || h.Goal(name) != first {
			t.Fatalf("slot %s: missing %v, a rollback goes to %q", name, h.Missing(name), h.Goal(name))
		}
		if i, err := h.Rollback(name); err != nil || i.Digest != first || i.State != StateActive || h.Missing(name) {
			t.Errorf("slot %s: %+v, %v", name, i, err)
		}
	}
	_ = h.Close()
	h, _ = openTest(t, o)
	if f, err := h.Filter("a", "r"); err != nil || f == nil {
		t.Errorf("nothing filters: %v", err)
	} else if out, err := f.Text(abi.Facts{}, abi.BlockText, "x", true); out != "1" || err != nil {
		t.Errorf("the filter gives %q, %v", out, err)
	} else {
		f.Close()
	}
	if got := routeAt(h, "/a/list"); got != "one@1:/a/list" {
		t.Errorf("the path is that of %q", got)
	}
	for name := range modules[0] {
		if _, err := h.Rollback(name); err != nil {
			t.Error(err)
		}
	}
	if h.Filtering() || routeAt(h, "/a/list") != "" {
		t.Error("without a module before, the slots are not empty")
	}
}

// twoOf loads two modules for each slot and makes the second one serve, after the first.
func twoOf(t *testing.T, h *Host) (first, second map[Slot][]byte) {
	t.Helper()
	first, second = map[Slot][]byte{}, map[Slot][]byte{}
	for version, files := range map[string]map[Slot][]byte{"1": first, "2": second} {
		files[SlotBilling] = billingGuest(t, version, abi.Quote{}, abi.Charge{})
		files[SlotFilter] = policyGuest(t, SlotFilter, "by"+version, 0, shows("", version))
		files[SlotAdmission] = policyGuest(t, SlotAdmission, "by"+version, 0, gives(abi.OpDecide, string(abi.Decision{}.Append(nil))))
	}
	for name := range first {
		activate(t, h, first[name])
		activate(t, h, second[name])
	}
	return first, second
}

// TestRollbackToWhatIsMissing: a rollback to a module that is not in memory is refused, and nothing
// changes: neither an open door nor other prices take its place. Loaded again, it is gone back to.
func TestRollbackToWhatIsMissing(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	first, second := twoOf(t, h)
	_ = h.Close()
	for _, file := range first {
		flip(t, h.folder.path(digestOf(file), extWasm), 30)
	}
	h, _ = openTest(t, o)
	for name := range first {
		before := h.state.Slots[name]
		if _, err := h.Rollback(name); !errors.Is(err, ErrNotInMemory) || !strings.Contains(err.Error(), shortDigest(before.Previous)) {
			t.Errorf("slot %s: %v", name, err)
		}
		if _, err := h.Activate(digestOf(second[name])); err != nil { // it serves already, and that changes nothing
			t.Error(err)
		}
		if a := h.slot(name).now.Load(); h.state.Slots[name] != before || a.active == nil || a.active.digest != before.Active {
			t.Errorf("slot %s: %+v is %+v now", name, before, h.state.Slots[name])
		}
		if _, err := h.Load(t.Context(), first[name], nil, nil); err != nil {
			t.Fatal(err)
		}
		if i, err := h.Rollback(name); err != nil || i.Digest != before.Previous || h.state.Slots[name].Active != before.Previous {
			t.Errorf("slot %s goes back to %+v, %v", name, i, err)
		}
	}
}

// TestRollbackBehindWhatIsMissing: without the module that a rollback would go back to,
// an operator who removes it decides for what is behind it.
func TestRollbackBehindWhatIsMissing(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	first, second := twoOf(t, h)
	_ = h.Close()
	for name, file := range first {
		flip(t, h.folder.path(digestOf(file), extWasm), 30)
		if err := os.Remove(h.folder.path(digestOf(second[name]), extWasm)); err != nil {
			t.Fatal(err)
		}
	}
	h, _ = openTest(t, o)
	for name, file := range first {
		ships := h.slot(name).builtin != nil // it stands in already
		if _, err := h.Rollback(name); ships != (err == nil) || !ships && !errors.Is(err, ErrNotInMemory) {
			t.Errorf("slot %s: %v", name, err)
		}
		if h.Missing(name) == ships {
			t.Errorf("slot %s: missing %v", name, h.Missing(name))
		}
		if ships {
			continue
		}
		if err := h.Remove(digestOf(file)); err != nil {
			t.Error(err)
		}
		if _, err := h.Rollback(name); err != nil || h.Missing(name) || h.slot(name).now.Load().active != nil {
			t.Errorf("slot %s: %v", name, err)
		}
	}
}

// TestRollbackToWhatIsNotTrusted: nor is a module gone back to whose key is none any more.
func TestRollbackToWhatIsNotTrusted(t *testing.T) {
	var publics []ed25519.PublicKey
	h, _ := openTest(t, Options{Dir: t.TempDir()})
	var digests []string
	for _, version := range []string{"1", "2"} {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		publics = append(publics, public)
		h.Trust(publics, nil)
		wasm := policyGuest(t, SlotFilter, "by"+version, 0, shows("", version))
		i, err := h.Load(t.Context(), wasm, Sign(private, wasm), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Activate(i.Digest); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, i.Digest)
	}
	h.Trust(publics[1:], nil)
	if _, err := h.Rollback(SlotFilter); !errors.Is(err, ErrNotInMemory) || !strings.Contains(err.Error(), "by1@1") {
		t.Error(err)
	}
	if a := h.slot(SlotFilter).now.Load(); a.active == nil || a.active.digest != digests[1] {
		t.Errorf("%+v serves", a.active)
	}
	h.Trust(publics, nil)
	if _, err := h.Activate(digests[0]); err != nil {
		t.Error(err)
	}
}
