package server

import (
	"bytes"
	"strings"
	"testing"

	vm "github.com/VictoriaMetrics/metrics"

	exposition "corenode/node/metrics"
)

// TestProcess: the console draws of the process what the node shows at /metrics.
func TestProcess(t *testing.T) {
	read := func(text bytes.Buffer) map[string]float64 {
		all := map[string]float64{}
		for series, value := range exposition.Samples(text.Bytes()) {
			all[string(series)] = value
		}
		return all
	}
	var before, own, after bytes.Buffer
	vm.WriteProcessMetrics(&before)
	writeProcess(&own)
	vm.WriteProcessMetrics(&after)
	low, got, high := read(before), read(own), read(after)
	const cpu, memory = "process_cpu_seconds_total", "process_resident_memory_bytes"
	if len(got) != 2 || got[cpu] < low[cpu]-0.02 || got[cpu] > high[cpu]+0.02 { // theirs are in hundredths, rounded down twice
		t.Errorf("%v, between %v and %v", got, low[cpu], high[cpu])
	}
	if got[memory] < low[memory]/2 || got[memory] > 2*high[memory] {
		t.Errorf("%v, between %v and %v", got, low[memory], high[memory])
	}
}

// TestSamplesAreFew: what the console draws nothing of costs an idle node nothing.
func TestSamplesAreFew(t *testing.T) {
	var samples strings.Builder
	start(t, Config{}, newFakeBackend(say("x"))).s.WriteSamples(&samples)
	for _, name := range []string{"go_", "process_io_", "process_open_fds", "corenode_request_"} {
		if strings.Contains(samples.String(), "\n"+name) {
			t.Errorf("the console reads %s...", name)
		}
	}
}
