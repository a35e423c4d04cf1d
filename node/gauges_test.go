package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"corenode/actors/tree"
	"corenode/engine"
	"corenode/engine/kernel"
	"corenode/engine/tokenizer"
	"corenode/node/doctor"
	"corenode/node/why"
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

// TestSampledPrompts: a prompt that another node computes is not this node's work.
func TestSampledPrompts(t *testing.T) {
	for replica, want := range map[string]bool{"": true, "http://node-b:8080": false} {
		r := tree.LiveRequest{ID: "req_1", Model: "m", Phase: tree.PhasePrefill, Prompt: 74_000, Progress: engine.Progress{Replica: replica}}
		if got := sampleRequest(r); got.Prefill != want || got.ID != "req_1" || got.Prompt != 74_000 {
			t.Errorf("sent to %q: %+v", replica, got)
		}
	}
}

// broken is a model whose every step panics.
type broken struct{}

func (broken) Forward(*kernel.Step, []int32, kernel.Cache, []int32, [][]float32) error {
	panic("planted")
}

func (broken) Close() {}

// TestModelThatIsDown: a model that failed too often has a series that stays, is a finding of the doctor, and is what the node is
// said to be slow for. The other models are not down.
func TestModelThatIsDown(t *testing.T) {
	const failed, well = "core-1.1-mini", "core-1.1"
	n, base, key := startNodeWith(t, standIns{adjust: func(o *engine.Options) {
		if o.ID == failed {
			o.Model = func(*tokenizer.Tokenizer) engine.Forwarder { return broken{} }
		}
	}}, instantModels)
	if page := scraped(t, n); !strings.Contains(page, `corenode_model_down{model="`+failed+"\"} 0\n") {
		t.Errorf("before anything failed there is no series at 0:\n%s", page)
	}
	waitFor(t, "the model to be down", func() bool {
		return smallStatus(t, base, key) != http.StatusOK && n.ready() != nil
	})
	page := scraped(t, n)
	for model, want := range map[string]string{failed: "1", well: "0"} {
		if !strings.Contains(page, `corenode_model_down{model="`+model+`"} `+want+"\n") {
			t.Errorf("%s is not shown with %s", model, want)
		}
	}
	if found, _ := n.examine(); !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Check == "models" && f.State == doctor.Fail }) {
		t.Errorf("the doctor does not see it: %+v", found)
	}
	if d := why.Diagnose(n.sample(), n.sample()); d.Causes[0].Name != "model" || !strings.Contains(d.Sentence, failed) {
		t.Errorf("it is slow for %+v", d)
	}
}
