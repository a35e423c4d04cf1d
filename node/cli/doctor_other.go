//go:build !linux

package cli

import "corenode/node/doctor"

// filesLimit is not known here.
func filesLimit() int64 { return 0 }

// clock is not known here.
func clock() (*doctor.Clock, error) { return nil, nil }
