//go:build invariants

package kv

import "testing"

// TestFaultIsFound: with the tag, the next call after a fault panics.
func TestFaultIsFound(t *testing.T) {
	p := newPool(t, Config{Pages: 8})
	tab, _ := fill(t, p, "x", tokens(48, 0))
	p.pages[tab.Pages[0]].refs++
	defer func() {
		if recover() == nil {
			t.Error("a page with one owner too many went unseen")
		}
	}()
	_ = p.Grow(tab, 49)
}
