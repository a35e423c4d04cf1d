//go:build !linux

package main

import (
	"errors"
	"testing"

	"corenode/node/store/postgrestest"
)

// networks are there on Linux only.
type networks struct{}

func newNetworks(*testing.T) (*networks, error) {
	return nil, errors.New("network namespaces are of Linux")
}

func (*networks) cut(int) error                   { return nil }
func (*networks) heal(int) error                  { return nil }
func (*networks) in(int, func() error) error      { return nil }
func (*networks) loopback(*testing.T, int) string { return "" }
func (*networks) reaches(int, string) bool        { return false }

func (*networks) database(*testing.T, string) (*postgrestest.Proxy, string) { return nil, "" }
