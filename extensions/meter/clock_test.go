//go:build unix

package meter

import (
	"slices"

	"golang.org/x/sys/unix"
)

// cpuTime is what the process used so far, in nanoseconds: unlike the wall
// clock it does not count what else the machine does.
func cpuTime() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
