package soak

import (
	"os"
	"testing"
	"time"
)

// TestSoak is a run of two minutes against the program that CORENODE_SOAK names.
func TestSoak(t *testing.T) {
	program := os.Getenv("CORENODE_SOAK")
	if program == "" {
		t.Skip("two minutes with a node: set CORENODE_SOAK to a built corenode, or run make soak")
	}
	o := Defaults()
	o.Node, o.Duration, o.Samples = program, 2*time.Minute, 24
	r, err := Run(t.Context(), *o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Met() {
		t.Errorf("%+v", r)
	}
}
