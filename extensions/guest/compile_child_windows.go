package guest

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// childAttributes starts the child at the lowest priority, without what a console
// sends to this process. One whose parent was killed ends when it has compiled.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.IDLE_PRIORITY_CLASS | windows.CREATE_NEW_PROCESS_GROUP}
}

// lowerPriority has nothing to do: see childAttributes.
func lowerPriority() {}
