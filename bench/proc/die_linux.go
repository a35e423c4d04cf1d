package proc

import "syscall"

// dieWithParent has the kernel end the child when the benchmark is killed and
// cannot do so itself. The signal follows the death of the thread that started
// the child; the Go runtime ends no thread but those of locked goroutines.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
