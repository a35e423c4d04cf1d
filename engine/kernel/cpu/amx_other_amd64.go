//go:build !linux

package cpu

// amxPermitted is false where nobody has tried.
func amxPermitted() bool { return false }
