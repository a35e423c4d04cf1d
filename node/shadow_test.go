package main

import (
	"strings"
	"testing"

	"corenode/node/admin"
	"corenode/node/cli"
)

// TestShadowOfABillingChange: before a billing module serves, its operator reads
// what it would have charged whom, from requests that were charged otherwise.
func TestShadowOfABillingChange(t *testing.T) {
	n, base, key, operator := startWithModules(t, instantModels)
	m, err := operator.LoadModule(admin.NewModule{Wasm: example(t, "billing-c"), Config: []byte(`{"fee_nano":1000000}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.ShadowModule(m.Digest, 100); err != nil {
		t.Fatal(err)
	}
	const requests = 5
	var charged int64
	for range requests {
		_, _, id := wholeChat(t, base, key, `{"model":"core-1.1","max_tokens":8,"messages":[{"role":"user","content":"my secret"}]}`)
		charged -= int64(settled(t, n, id).Amount)
	}
	waitFor(t, "the shadow", func() bool {
		r, err := operator.ShadowReport(m.Digest)
		return err == nil && r.Charges != nil && r.Charges.Calls >= requests
	})
	r, err := operator.ShadowReport(m.Digest)
	if err != nil || int64(r.Charges.OldNanoUSD) != charged || r.Charges.NewNanoUSD != r.Charges.OldNanoUSD+1000000*requests ||
		r.Charges.More != requests || len(r.First) == 0 {
		t.Fatalf("charged %d; %+v, %+v, %v", charged, r, r.Charges, err)
	}
	root := cli.Root(version, serve)
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"module", "shadow", "--data-dir", n.cfg.DataDir, m.Digest[:18]})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"5 charges: 0 less, 5 more, 0 the same.", "+$0.005 (", "acct_", "The first calls that differ:"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, &out)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("it has a text of a client:\n%s", &out)
	}
}
