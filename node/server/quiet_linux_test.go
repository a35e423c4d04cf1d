package server

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// TestNothingIsSaidOfStalls: a kernel that counts no stalls of control groups is no news to whoever starts a program, and
// what the library of metrics says of it is no line of a node's log.
func TestNothingIsSaidOfStalls(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `mount -t tmpfs none /sys/fs/cgroup && exec "$0" -test.run='^$'`
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, self).CombinedOutput()
	if err != nil {
		t.Skipf("not run: %v, %s (it takes root, unshare and mount)", err, out)
	}
	if bytes.Contains(out, []byte("metrics")) {
		t.Errorf("as the program starts: %s", out)
	}
}
