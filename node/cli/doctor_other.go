//go:build !linux

package cli

import (
	"io/fs"

	"corenode/node/doctor"
)

// filesLimit is not known here.
func filesLimit() int64 { return 0 }

// ofOwnGroup is not known here.
func ofOwnGroup(fs.FileInfo) bool { return false }

// clock is not known here.
func clock() (*doctor.Clock, error) { return nil, nil }
