//go:build !linux

package cli

import (
	"io/fs"
	"os"

	"corenode/node/doctor"
)

// filesLimit is not known here.
func filesLimit() int64 { return 0 }

// ofOwnGroup is not known here.
func ofOwnGroup(fs.FileInfo) bool { return false }

// userOf takes every file for this process's.
func userOf(fs.FileInfo) int { return os.Geteuid() }

// clock is not known here.
func clock() (*doctor.Clock, error) { return nil, nil }
