package server

import (
	"bytes"
	"io"
	"os"
	"strconv"

	vm "github.com/VictoriaMetrics/metrics"
	"golang.org/x/sys/unix"
)

// writeProcess writes what the console draws of the process, every second. The library's way to all its series stops the
// program to count the memory of the Go runtime, and reads a dozen files.
func writeProcess(w io.Writer) {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		vm.WriteCounterFloat64(w, "process_cpu_seconds_total", float64(usage.Utime.Nano()+usage.Stime.Nano())/1e9)
	}
	text, _ := os.ReadFile("/proc/self/statm") // pages: all, resident, ...
	if fields := bytes.Fields(text); len(fields) > 1 {
		if pages, err := strconv.ParseUint(string(fields[1]), 10, 64); err == nil {
			vm.WriteGaugeUint64(w, "process_resident_memory_bytes", pages*uint64(os.Getpagesize()))
		}
	}
}
