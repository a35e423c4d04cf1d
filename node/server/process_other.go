//go:build !linux

package server

import (
	"io"

	vm "github.com/VictoriaMetrics/metrics"
)

// writeProcess writes what the console draws of the process, and more.
func writeProcess(w io.Writer) { vm.WriteProcessMetrics(w) }
