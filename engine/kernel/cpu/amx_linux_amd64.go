package cpu

import (
	"sync"
	"syscall"
)

// amxPermitted asks Linux, once, to let this process use the tile registers:
// their 8 KiB make the frames of signals larger, so it wants to be asked.
var amxPermitted = sync.OnceValue(func() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, failed := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return failed == 0
})
