package cpu

// pause waits n PAUSE instructions; n is at least 1.
//
//go:noescape
func pause(n int)
