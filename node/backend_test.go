package main

import (
	"testing"

	"corenode/node/config"
	"corenode/wasm/abi"
)

// TestLoadOfAModel: what an admission policy is told of a model is what its step
// loop says: at rest nothing waits, and what runs holds pages.
func TestLoadOfAModel(t *testing.T) {
	model := endless(t)
	n, base, key := startNode(t, func(cfg *config.Config) {
		model(cfg)
		cfg.Limits.QueueRequestsMax = 77
	})
	for _, m := range treeModels(n.catalog, n.kept, n.cfg.Limits.QueueRequestsMax) {
		var l abi.Counters
		if m.Load(&l); l.ModelQueued != 0 || l.ModelQueuedMax != 77 || l.ModelWaitMS != 0 || l.ModelPagesUsed != 0 {
			t.Errorf("model %v at rest: %+v", m.ID, l)
		}
	}
	_, _, done, err := openStream(t.Context(), base, key, 3000)
	if err != nil {
		t.Fatal(err)
	}
	e := n.catalog.engines["endless"]
	pages := func() (l abi.Counters) { load(&l, e, 77); return l }
	waitFor(t, "a running request to hold pages", func() bool { l := pages(); return l.ModelPagesUsed > 0 && l.ModelPagesUsed <= l.ModelPages })
	done()
	waitFor(t, "its pages to be given back", func() bool { l := pages(); return l.ModelPagesUsed == 0 && l.ModelPages > 0 })
}
