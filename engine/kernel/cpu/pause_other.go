//go:build !amd64

package cpu

import "runtime"

// pause gives other goroutines of this processor a turn.
func pause(int) { runtime.Gosched() }
