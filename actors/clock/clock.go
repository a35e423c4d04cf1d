// Package clock tells the moments by which a node believes in what a store lends it for a time.
//
// Linux's monotonic clock, which time.Now goes by, stands still while the machine is suspended, as a virtual
// machine may be for hours. What was lent runs out meanwhile. So these moments are ahead of time.Now by what
// the machine was suspended since the process began. On other systems they are time.Now.
package clock

import (
	"sync/atomic"
	"time"
)

// suspended is how long the machine was, as far as anybody looked. It only grows.
var suspended atomic.Int64

// planted is what tests add to it.
var planted atomic.Int64

// Now is a moment to be compared with others of Now only. Should the machine be suspended inside of it, it is
// one of before.
func Now() time.Time {
	now := int64(longer(offset(read) - atStart))
	for known := suspended.Load(); known < now && !suspended.CompareAndSwap(known, now); known = suspended.Load() {
	}
	return time.Now().Add(time.Duration(suspended.Load() + planted.Load()))
}

// Suspend makes moments what they would be had the machine just been suspended for so long, until the end of the test calls
// forget. It is for tests.
func Suspend(d time.Duration) (forget func()) {
	planted.Add(int64(d))
	return func() { planted.Add(-int64(d)) }
}

// atStart is the offset when the process began.
var atStart = offset(read)

// tight is how close the reads of two clocks must be, and triesMax how often they are tried. noise is what such reads
// may differ by without a suspend.
const (
	tight    = time.Millisecond
	triesMax = 100
	noise    = 10 * time.Millisecond
)

// longer is the part of a growth of the offset that is no noise.
func longer(grown time.Duration) time.Duration {
	if grown < noise {
		return 0
	}
	return grown
}

// offset is how far the clock that goes on in a suspend is ahead of the one that does not: the truth less what lies
// between two reads, and never more.
func offset(read func() (still, on time.Duration)) (ahead time.Duration) {
	for range triesMax {
		before, on := read()
		after, _ := read()
		if ahead = on - after; after-before < tight {
			break
		}
	}
	return ahead
}
