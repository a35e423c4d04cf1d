package main

import (
	"os"
	"strings"
	"testing"

	"corenode/bench/engine"
	"corenode/bench/gpu"
	"corenode/bench/kernels"
	"corenode/bench/overhead"
	"corenode/bench/peer"
	"corenode/bench/result"
	"corenode/bench/skills"
	"corenode/bench/soak"
)

// TestMethodNamesEveryLayout: who reads a file of a result finds its layout by the schema in it, as the help of --json says.
func TestMethodNamesEveryLayout(t *testing.T) {
	text, err := os.ReadFile("METHOD.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{overhead.Schema, engine.Schema, kernels.Schema, gpu.Schema, peer.Schema, peer.RoundSchema,
		skills.Schema, soak.Schema, result.Schema, result.SweepSchema} {
		if !strings.Contains(string(text), "`"+schema+"`") {
			t.Errorf("METHOD.md does not name the layout %s", schema)
		}
	}
}
