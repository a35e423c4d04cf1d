package main

import (
	"testing"

	"corenode/engine"
)

// TestDrafters: each drafter's tokens are counted under its own label.
func TestDrafters(t *testing.T) {
	s := engine.Stats{LookupDrafts: engine.Drafts{Drafted: 5, Accepted: 3}, LayerDrafts: engine.Drafts{Drafted: 7, Accepted: 6}}
	for name, want := range map[string]engine.Drafts{"ngram": s.LookupDrafts, "mtp": s.LayerDrafts} {
		of, ok := drafters[name]
		if !ok || of(s) != want {
			t.Errorf("drafter %s is missing or counts another's tokens", name)
		}
	}
	if len(drafters) != 2 {
		t.Errorf("%d drafters", len(drafters))
	}
}
