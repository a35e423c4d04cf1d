package extensions

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"
)

// meanwhile opens a host and gives a function that names what is to happen
// once, in the middle of the next build of a module: that asks for the time.
func meanwhile(t *testing.T, o Options) (*Host, func(verb func())) {
	var pending func()
	o.Now = func() time.Time {
		if verb := pending; verb != nil {
			pending = nil
			verb()
		}
		return time.Now()
	}
	h, _ := openTest(t, o)
	return h, func(verb func()) { pending = verb }
}

// TestActivateWhileLoading: a module that begins to serve while it is loaded
// with another configuration serves on with its own.
func TestActivateWhileLoading(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, during := meanwhile(t, o)
	wasm, old := chatGuest(t, "1"), []byte(`{"n":1}`)
	i, err := h.Load(t.Context(), wasm, nil, old)
	if err != nil {
		t.Fatal(err)
	}
	during(func() {
		if _, err := h.Activate(i.Digest); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.Load(t.Context(), wasm, nil, []byte(`{"n":2}`)); !errors.Is(err, ErrInUse) {
		t.Errorf("Load gave %v", err)
	}
	if h.slot(SlotChat).now.Load().active.retired.Load() {
		t.Fatal("what serves is retired: every request would look for another for ever")
	}
	if got := request(t, h, "a"); got != `{"by":"1"}` {
		t.Errorf("%s serves", got)
	}
	if kept, err := os.ReadFile(h.folder.path(i.Digest, extConfig)); err != nil || !bytes.Equal(kept, old) {
		t.Errorf("the configuration on disk is %s, %v", kept, err)
	}
}

// TestRemoveWhileOpening: a module that is removed while it is brought into
// memory does not serve.
func TestRemoveWhileOpening(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	digest := mustLoad(t, h, chatGuest(t, "1"))
	_ = h.Close()
	h, during := meanwhile(t, o)
	during(func() {
		if err := h.Remove(digest); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.Activate(digest); !errors.Is(err, ErrUnknownModule) {
		t.Errorf("Activate gave %v", err)
	}
	if got := request(t, h, "a"); got != `{"by":"native"}` {
		t.Errorf("%s serves", got)
	}
}
