package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"corenode/extensions"
)

// TestFaultsFromTheStart: an alert on an increase sees a module's first fault,
// which it does only where the series was 0 before.
func TestFaultsFromTheStart(t *testing.T) {
	var written bytes.Buffer
	writeModule(&written, extensions.Info{Slot: extensions.SlotChat, Name: "m", Version: "1.0.0", Digest: "d", Faults: map[string]uint64{"rule": 3}})
	for _, cause := range extensions.Causes() {
		want := 0
		if cause == "rule" {
			want = 3
		}
		line := fmt.Sprintf(`corenode_module_faults_total{slot="chat",module="m@1.0.0",digest="d",cause=%q} %d`, cause, want)
		if !strings.Contains(written.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, &written)
		}
	}
}
