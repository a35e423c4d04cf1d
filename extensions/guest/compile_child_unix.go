//go:build unix && !linux

package guest

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes keeps from the child what a terminal sends to this process. A
// child whose parent was killed ends when it has compiled.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// lowerPriority lets other processes of the machine go first.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
