package extensions

import (
	"testing"

	"corenode/wasm/abi"
)

// TestRequestsOfModules: a module of each kind counts a request that it works for once, whichever operation is the first
// and however many follow.
func TestRequestsOfModules(t *testing.T) {
	filtered := func(t *testing.T, h *Host) {
		f, err := h.Filter("a", "r")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, last := range []bool{false, true, true} { // of two blocks
			if _, err := f.Text(abi.Facts{}, abi.BlockText, "text", last); err != nil {
				t.Error(err)
			}
		}
	}
	translated := func(asks func(*Translation)) func(*testing.T, *Host) {
		return func(t *testing.T, h *Host) {
			tr := h.Translate(SlotChat, "a", "r", abi.Facts{Stream: true})
			defer tr.Close()
			asks(tr)
			if out := tr.Error(nil, &abi.Error{Kind: abi.Internal, Msg: "m"}, 500); len(out) == 0 {
				t.Error("no error is written")
			}
		}
	}
	for name, c := range map[string]struct {
		module []byte
		asks   func(*testing.T, *Host)
	}{
		"filter": {policyGuest(t, SlotFilter, "test", 0, shows("", "text")), filtered},
		"rewrite": {policyGuest(t, SlotRewrite, "test", 0, gives(abi.OpRewrite, `{"by":"test"}`)), func(t *testing.T, h *Host) {
			if _, err := h.Rewrite("r", abi.RewriteInput{Account: "a", Body: []byte("{}")}); err != nil {
				t.Error(err)
			}
		}},
		"translator": {chatGuest(t, "1"), translated(func(tr *Translation) {
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Error(err)
			}
		})},
		"translator, of an error alone": {chatGuest(t, "1"), translated(func(*Translation) {})},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := openTest(t, Options{})
			digest := activate(t, h, c.module).Digest
			for want := range uint64(3) {
				if i, err := h.info(digest); err != nil || i.Requests != want {
					t.Errorf("%d requests, want %d, %v", i.Requests, want, err)
				}
				c.asks(t, h)
			}
		})
	}
}
