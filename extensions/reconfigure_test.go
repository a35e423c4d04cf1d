package extensions

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestReconfigure: the same file with another configuration takes over the roles that it has
// while a stream ends on what it began with, also after a restart.
func TestReconfigure(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	wasm, one, two := chatGuest(t, "1"), []byte(`{"n":1}`), []byte(`{"n":2}`)
	first, err := h.Load(t.Context(), wasm, nil, one)
	if err != nil {
		t.Fatal(err)
	}
	if first, err = h.Activate(first.Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Load(t.Context(), wasm, nil, two); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "--reconfigure") {
		t.Errorf("Load gave %v", err)
	}
	running := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	second, err := h.Reconfigure(t.Context(), wasm, nil, two)
	if err != nil {
		t.Fatal(err)
	}
	if second.Digest != first.Digest || second.State != StateActive || second.Generation <= first.Generation ||
		second.ConfigSHA256 == first.ConfigSHA256 {
		t.Errorf("it is %+v, was %+v", second, first)
	}
	if out, err := running.Events(nil, answerEvents()[:1]); err != nil || !strings.HasPrefix(string(out), "data: ") {
		t.Errorf("the stream that runs: %s, %v", out, err)
	}
	old := running.generation
	running.Close()
	if !old.retired.Load() || old.refs.Load() != 0 {
		t.Error("what nobody uses any more stays in memory")
	}
	if got := request(t, h, "a"); got != `{"by":"1"}` {
		t.Errorf("%s serves", got)
	}
	if again, err := h.Reconfigure(t.Context(), wasm, nil, two); err != nil || again.Generation != second.Generation {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if _, err := h.Activate(mustLoad(t, h, chatGuest(t, "2"))); err != nil {
		t.Fatal(err)
	}
	third, err := h.Reconfigure(t.Context(), wasm, nil, one)
	if err != nil || third.State != StatePrevious {
		t.Errorf("what is kept to go back to: %+v, %v", third, err)
	}
	if back, err := h.Rollback(SlotChat); err != nil || back.Generation != third.Generation {
		t.Errorf("going back: %+v, %v", back, err)
	}
	_ = h.Close()
	h, _ = openTest(t, o)
	if i, err := h.Module(first.Digest); err != nil || i.ConfigSHA256 != first.ConfigSHA256 {
		t.Errorf("after a restart: %+v, %v", i, err)
	}
}

// TestReconfigureRoles: canary and shadow go on as what they are.
func TestReconfigureRoles(t *testing.T) {
	h, _ := openTest(t, Options{})
	wasm := chatGuest(t, "1")
	digest := mustLoad(t, h, wasm)
	for _, c := range []struct {
		set  func(string, int) (Info, error)
		want string
	}{{h.Canary, StateCanary}, {h.Shadow, StateShadow}} {
		if _, err := c.set(digest, 40); err != nil {
			t.Fatal(err)
		}
		i, err := h.Reconfigure(t.Context(), wasm, nil, []byte(`{"for":"`+c.want+`"}`))
		if err != nil || i.State != c.want || i.Percent != 40 {
			t.Errorf("want %s: %+v, %v", c.want, i, err)
		}
		if _, err := c.set(digest, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReconfigureBilling: what charges were computed with stays.
func TestReconfigureBilling(t *testing.T) {
	h, _ := openTest(t, Options{Dir: t.TempDir()})
	wasm := billingGuest(t, "1", abi.Quote{Upper: 9}, abi.Charge{})
	digest := mustLoad(t, h, wasm)
	refused := func() {
		t.Helper()
		_, err := h.Reconfigure(t.Context(), wasm, nil, []byte(`{"fee":2}`))
		if err == nil || !strings.Contains(err.Error(), "version") || strings.Contains(err.Error(), "--reconfigure") {
			t.Errorf("Reconfigure gave %v", err)
		}
		if _, err := os.Stat(h.folder.path(digest, extConfig)); err == nil {
			t.Error("the configuration on disk is another")
		}
	}
	if _, err := h.Shadow(digest, 10); err != nil {
		t.Fatal(err)
	}
	refused()
	if _, err := h.Activate(digest); err != nil {
		t.Fatal(err)
	}
	refused()
	if _, err := h.Rollback(SlotBilling); err != nil {
		t.Fatal(err)
	}
	refused()
}

// TestClusterKeepsConfigurations: nor is one loaded with another configuration that has a role in the cluster and is not in
// memory here. What another node of the cluster took is.
func TestClusterKeepsConfigurations(t *testing.T) {
	r := &row{}
	dir := t.TempDir()
	a, b := r.join(t, t.TempDir()), r.join(t, dir)
	other := []byte(`{"n":1}`)
	files := [][]byte{chatGuest(t, "1"), chatGuest(t, "2"), chatGuest(t, "3")}
	for _, wasm := range files {
		if _, err := a.Activate(bring(t, wasm, a, b)); err != nil {
			t.Fatal(err)
		}
		r.follow(t, b)
	}
	if _, err := a.Rollback(SlotChat); err != nil { // the second serves, the first is in no role any more
		t.Fatal(err)
	}
	if _, err := a.Canary(digestOf(files[2]), 50); err != nil {
		t.Fatal(err)
	}
	r.follow(t, b)
	_ = b.Close()
	b, _ = openWith(t, Options{Dir: dir, Keep: r.keep, State: r.text, Number: r.number}, testShipped()) // nobody has signed them
	b.options.AllowUnsigned = true
	b.Trust(nil, nil)
	for n, wasm := range files {
		for _, load := range []func(context.Context, []byte, []byte, []byte) (Info, error){b.Load, b.Reconfigure} {
			i, err := load(t.Context(), wasm, nil, other)
			if n > 0 && (!errors.Is(err, ErrInUse) || strings.Contains(err.Error(), "--reconfigure")) {
				t.Errorf("module %d: %+v, %v", n+1, i, err)
			} else if n == 0 && err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := b.Load(t.Context(), files[1], nil, nil); err != nil {
		t.Errorf("with the configuration that it has: %v", err)
	}
	if err := b.Bring(files[2], nil, other); err != nil {
		t.Errorf("what another node took: %v", err)
	}
}

// TestShowByName: of several builds of one name and version the one that serves is shown;
// a verb that changes something wants to know which.
func TestShowByName(t *testing.T) {
	h, _ := openTest(t, Options{})
	for _, by := range []string{"x", "y"} {
		g := newGuest(SlotAdmission, "1")
		g.manifest.Description = by
		mustLoad(t, h, g.bytes(t))
	}
	if _, err := h.Module("test@1"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("with none that serves: %v", err)
	}
	second := h.Modules()[len(h.Modules())-1].Digest
	if _, err := h.Activate(second); err != nil {
		t.Fatal(err)
	}
	if i, err := h.Module("test@1"); err != nil || i.Digest != second {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := h.Canary("test@1", 10); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("a verb took it: %v", err)
	}
}

// TestKeepLeavesTheModule: another configuration needs no room for a second copy of the module, and what fails before it is
// written changes nothing; a module's file that is damaged is written again.
func TestKeepLeavesTheModule(t *testing.T) {
	f, wasm := folder{dir: t.TempDir()}, []byte("a module")
	m := &module{digest: digestOf(wasm), config: []byte(`{"n":1}`)}
	keep := func(config string) error {
		m.config = []byte(config)
		return f.keep(m, wasm)
	}
	if err := keep(`{"n":1}`); err != nil {
		t.Fatal(err)
	}
	path := f.path(m.digest, extWasm)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := keep(`{"n":2}`); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the module was written again: %v", err)
	}
	if err := os.MkdirAll(f.path(m.digest, extSignature)+"/full", 0o700); err != nil { // no file takes its place
		t.Fatal(err)
	}
	if err := keep(`{"n":3}`); err == nil {
		t.Error("a write that cannot be is no error")
	}
	if config, err := os.ReadFile(f.path(m.digest, extConfig)); err != nil || string(config) != `{"n":2}` {
		t.Errorf("the configuration is %s, %v", config, err)
	}
	if err := errors.Join(os.RemoveAll(f.path(m.digest, extSignature)), os.WriteFile(path, []byte("a mod"), 0o600), keep(`{"n":3}`)); err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(path); err != nil || string(there) != string(wasm) {
		t.Errorf("a damaged module is %q, %v", there, err)
	}
}
