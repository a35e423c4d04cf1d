//go:build !linux

package kernels

import "errors"

func realTime() error { return errors.New("this system has none") }

func normalTime() {}
