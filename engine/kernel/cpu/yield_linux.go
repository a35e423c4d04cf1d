package cpu

import (
	"runtime"
	"syscall"
)

// yieldThread lets another thread have this processor.
func yieldThread() {
	runtime.Gosched()
	syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
}
