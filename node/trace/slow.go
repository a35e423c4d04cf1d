package trace

import (
	"math/bits"
	"sync"
	"time"
)

// slowest knows how long requests take, and which of them takes longer than 99 of 100. Older
// ones count less and less.
type slowest struct {
	mu     sync.Mutex
	counts [256]uint32 // by quarter of an octave of nanoseconds; guarded by mu, as is what follows
	all    uint32
	bound  int // the highest quarter that is usual
	since  int // observations since bound was computed
}

const (
	slowAfter = 200  // requests before which none is slow
	slowEvery = 32   // requests after which the bound is computed again
	slowKept  = 8192 // requests that count: above, all count half
)

// quarter is the place of a duration on the scale.
func quarter(d time.Duration) int {
	n := uint64(max(d, 4))
	octave := bits.Len64(n) - 1
	return octave<<2 | int(n>>(octave-2)&3)
}

// slow takes a request up and says whether it is slow among those before it.
func (s *slowest) slow(d time.Duration) bool {
	at := quarter(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.all >= slowAfter && at > s.bound
	s.counts[at]++
	s.all++
	if s.since++; s.since >= slowEvery {
		s.renew()
	}
	return is
}

func (s *slowest) renew() {
	s.since = 0
	if s.all > slowKept {
		s.all = 0
		for i := range s.counts {
			s.counts[i] /= 2
			s.all += s.counts[i]
		}
	}
	above := uint32(0)
	for s.bound = len(s.counts) - 1; s.bound > 0; s.bound-- {
		if above += s.counts[s.bound]; above*100 > s.all {
			return
		}
	}
}
