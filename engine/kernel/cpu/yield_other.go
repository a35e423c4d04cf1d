//go:build !linux

package cpu

import "runtime"

// yieldThread lets another goroutine have this thread.
func yieldThread() { runtime.Gosched() }
