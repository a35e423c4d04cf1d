//go:build unix && !linux

package extensions

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes asks for nothing: a child whose parent was killed ends when it has compiled.
func childAttributes() *syscall.SysProcAttr { return nil }

// lowerPriority lets other processes of the machine go first.
func lowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
