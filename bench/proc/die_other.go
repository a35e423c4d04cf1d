//go:build !linux

package proc

import "syscall"

// dieWithParent is for Linux only, where alone anything can be measured.
func dieWithParent() *syscall.SysProcAttr { return nil }
