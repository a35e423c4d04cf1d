package model

import "testing"

// TestLongFolders: the last logits of prompts of 4,096 tokens, and those of a greedy continuation.
func TestLongFolders(t *testing.T) {
	if testing.Short() {
		t.Skip("prompts of 4,096 tokens take long")
	}
	for name, r := range recordingsIn(t, "testdata/folders/long") {
		if len(r.Prompt) != 4096 {
			t.Fatalf("%s: a prompt of %d tokens", name, len(r.Prompt))
		}
		f := openFolder(t, r.Config, r.stored(), 1)
		for _, k := range exactMakers(t) {
			t.Run(name+"/"+k.name, func(t *testing.T) {
				if name == "deepseek_v2-groups" && k.name == "portable" {
					t.Skip("takes 30 s")
				}
				prompt, greedy := r.replay(t, loadOn(t, f, k.make(t, 2)), []int{512, 1, 200, 1000})
				if d := max(worst(prompt, r.Logits), worst(greedy, r.Greedy)); !(d <= 1e-3) {
					t.Errorf("a logit differs by %g, want at most 0.001", d)
				}
			})
		}
	}
}
