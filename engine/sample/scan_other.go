//go:build !amd64

package sample

func archScanners() []scanner { return nil }
