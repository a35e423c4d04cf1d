package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"corenode/bench/proc"
)

// TestGateways2_22_StartsOffline starts the node, with nothing in its data
// folder, on a machine that has no network at all: no price sheet, no tokenizer
// and no schema is fetched from anywhere.
func TestGateways2_22_StartsOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	if out, err := exec.Command("unshare", "-n", "true").CombinedOutput(); err != nil {
		t.Skipf("no machine without a network here: %v: %s", err, out)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{childVariable + "=1", "CORENODE_MODULES_CACHE_DIR=" + moduleCache, "CORENODE_DATA_DIR=" + t.TempDir(),
		"CORENODE_LISTEN=0.0.0.0:0", // not even the loopback interface is up
		"CORENODE_ADMIN_LISTEN=0.0.0.0:0", "CORENODE_ADMIN_ALLOW_REMOTE=true"}
	child, _, err := proc.Start(t.Context(), proc.Spec{Name: "offline", Path: "unshare", Args: []string{"-n", program, "serve"},
		Env: env, Dir: t.TempDir(),
		Ready: func(line string) (string, bool) { return "", strings.HasSuffix(line, "is ready") }})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Stop(); err != nil {
		t.Error(err)
	}
}
