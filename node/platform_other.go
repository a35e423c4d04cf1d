//go:build !linux

package main

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// fileSignals are of writes, which return the error too.
var fileSignals = []os.Signal{syscall.SIGPIPE}

// keepPrivate has nothing to call here: the data folder's own mode protects it.
func keepPrivate() {}

// physicalMemory is a modest guess where the system is not asked; kv.memory_bytes
// and kv.state_memory_bytes in the config say better.
func physicalMemory() int64 { return 4 << 30 }

// isTerminal says whether a person's terminal is behind a file: any device for
// characters that is not the empty one, which services have.
func isTerminal(f *os.File) bool {
	is, err := f.Stat()
	if err != nil || is.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(is, null)
}

// processTime is not known here, nor machineTime.
func processTime() time.Duration { return 0 }

func machineTime(fs.FS) (busy, stolen time.Duration) { return 0, 0 }

// monotonic is for systemd, which is not here.
func monotonic() time.Duration { return 0 }
