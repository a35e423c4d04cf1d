package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"corenode/extensions"
	"corenode/extensions/guest"
)

// writeModuleMetrics writes the series of every module. Modules come and go, so
// they are made at each scrape; there are as many as operators have loaded.
func (n *node) writeModuleMetrics(w io.Writer) {
	loading := 1
	select {
	case <-n.modules.Ready():
		loading = 0
	default:
	}
	fmt.Fprintf(w, "corenode_modules_loading %d\n", loading)
	fmt.Fprintf(w, "corenode_modules_state_damaged %d\n", oneIf(n.modules.StateDamaged()))
	for _, slot := range n.modules.Slots() {
		fmt.Fprintf(w, "corenode_module_slot_missing{slot=%q} %d\n", slot, oneIf(n.modules.Missing(slot)))
	}
	for _, use := range n.modules.Uses() {
		writeSlot(w, use)
	}
	for _, m := range n.modules.Modules() {
		if m.Digest != "" { // a slot whose module is not known has an entry without one
			writeModule(w, m)
		}
	}
}

// writeSlot writes what the modules of a slot use of the processors.
func writeSlot(w io.Writer, use extensions.SlotUse) {
	series := func(name, labels string, value any) {
		fmt.Fprintf(w, "corenode_module_slot_%s{slot=%q%s} %v\n", name, use.Slot, labels, value)
	}
	series("cpu_limit", "", use.Limit)
	series("cpu_seconds_total", "", use.CPU.Seconds())
	series("waits_total", "", use.Waits)
	series("wait_seconds_total", "", use.Waited.Seconds())
	series("declined_total", `,reason="share"`, use.Declined)
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func writeModule(w io.Writer, m extensions.Info) {
	labels := fmt.Sprintf("slot=%q,module=%q,digest=%q", m.Slot, m.Name+"@"+m.Version, m.Digest)
	series := func(name string, value any) { fmt.Fprintf(w, "corenode_module_%s{%s} %v\n", name, labels, value) }
	series("serving", oneIf(m.Serving))
	series("failed", oneIf(m.State == extensions.StateFailed)) // stays until an operator acts
	series("denied", oneIf(m.State == extensions.StateDenied))
	series("calls_total", m.Calls)
	series("requests_total", m.Requests)
	for _, cause := range guest.Causes() { // also those that never were: the increase of a series that begins with 1 is 0
		fmt.Fprintf(w, "corenode_module_faults_total{%s,cause=%q} %d\n", labels, cause, m.Faults[cause])
	}
	series("declined_total", m.Declined)
	series("fallbacks_total", m.Fallbacks)
	series("ticks_total", m.Ticks)
	series("cpu_seconds_total", m.CPU.Seconds())
	series("bytes_in_total", m.BytesIn)
	series("bytes_out_total", m.BytesOut)
	series("shadow_runs_total", m.ShadowRuns)
	series("shadow_mismatches_total", m.ShadowMismatches)
	series("shadow_dropped_total", m.ShadowDropped)
	series("instances", m.Instances)
	series("instances_busy", m.InstancesBusy)
	series("memory_bytes", m.MemoryBytes)
	for _, id := range slices.Sorted(maps.Keys(m.Metrics)) {
		fmt.Fprintf(w, "corenode_module_metric{%s,id=\"%d\"} %d\n", labels, id, m.Metrics[id])
	}
}
