package extensions

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// childAttributes starts the child at the lowest priority. One whose parent was
// killed ends when it has compiled.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.IDLE_PRIORITY_CLASS}
}

// lowerPriority has nothing to do: see childAttributes.
func lowerPriority() {}
