package main

import (
	"testing"

	"corenode/node/config"
)

// TestLoadOfAModel: what an admission policy is told of a model is what its step
// loop says: at rest nothing waits, and what runs holds pages.
func TestLoadOfAModel(t *testing.T) {
	model := endless(t)
	n, base, key := startNode(t, func(cfg *config.Config) {
		model(cfg)
		cfg.Limits.QueueRequestsMax = 77
	})
	for _, m := range treeModels(n.catalog, n.cfg.Limits.QueueRequestsMax) {
		if l := m.Load(); l.Queued != 0 || l.QueuedMax != 77 || l.Wait != 0 || l.PagesUsed != 0 {
			t.Errorf("model %v at rest: %+v", m.IDs, l)
		}
	}
	_, _, done, err := openStream(t.Context(), base, key, 3000)
	if err != nil {
		t.Fatal(err)
	}
	e := n.catalog.engines["endless"]
	waitFor(t, "a running request to hold pages", func() bool { l := loadOf(e, 77); return l.PagesUsed > 0 && l.PagesUsed <= l.Pages })
	done()
	waitFor(t, "its pages to be given back", func() bool { l := loadOf(e, 77); return l.PagesUsed == 0 && l.Pages > 0 })
}
