package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/extensions/guest"
)

// TestSlotMetrics: what a slot uses of its share, and what was declined for it.
func TestSlotMetrics(t *testing.T) {
	var written bytes.Buffer
	writeSlot(&written, extensions.SlotUse{Slot: extensions.SlotChat, Limit: 1.5, CPU: 2500 * time.Millisecond,
		Waits: 3, Waited: 120 * time.Millisecond, Declined: 7})
	want := `corenode_module_slot_cpu_limit{slot="chat"} 1.5
corenode_module_slot_cpu_seconds_total{slot="chat"} 2.5
corenode_module_slot_waits_total{slot="chat"} 3
corenode_module_slot_wait_seconds_total{slot="chat"} 0.12
corenode_module_slot_declined_total{slot="chat",reason="share"} 7
`
	if written.String() != want {
		t.Errorf("written\n%s, want\n%s", &written, want)
	}
}

// TestFaultsFromTheStart: an alert on an increase sees a module's first fault,
// which it does only where the series was 0 before.
func TestFaultsFromTheStart(t *testing.T) {
	var written bytes.Buffer
	writeModule(&written, extensions.Info{Slot: extensions.SlotChat, Name: "m", Version: "1.0.0", Digest: "d", Faults: map[string]uint64{"rule": 3}})
	for _, cause := range guest.Causes() {
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
