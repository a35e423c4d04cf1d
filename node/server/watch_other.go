//go:build !unix

package server

// asked cannot ask here: clients that left are noticed when a write fails.
type asked struct{}

func (asked) sweep([]*watch, func(*watch)) {}
