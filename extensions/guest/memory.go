package guest

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero/experimental"
)

// linear is the memory of one instance: its most bytes are reserved as address
// space once, so that growing neither copies nor moves it. It is not Go heap:
// the collector does not see it, and it must not be touched after Free.
type linear struct {
	reserved   []byte
	used       uint64
	denied     bool      // the guest wanted more than its cap
	safepoints uint64    // that the guest passed
	watch      stopwatch // of a call that is timed
	// stop is asked at every safepoint; an error ends the guest's call. nil: none does.
	stop func() error
}

// bytes is the part of the memory that begins at, nil where it is not all
// inside. It aliases the memory, which never moves.
func (l *linear) bytes(at, n uint32) []byte {
	end := uint64(at) + uint64(n)
	if end > l.used {
		return nil
	}
	return l.reserved[at:end:end]
}

// errNoRoom: the node lacks what an instance needs, and no module is to blame.
var errNoRoom = errors.New("the process has no room in its address space")

// newLinear reserves limit bytes. Whoever made it frees it, if the engine does not take it over with an instance.
func newLinear(limit int64) (*linear, error) {
	l := &linear{reserved: reserve(int(limit))}
	if l.reserved == nil && limit > 0 {
		return nil, fmt.Errorf("%w for the %d bytes of memory that an instance may have", errNoRoom, limit)
	}
	return l, nil
}

// Allocate gives itself to the engine, which asks once: an instance has one memory.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// safepointPages is what a guest asks for at its safepoints: all the memory
// that there can be, which no guest may have.
const safepointPages = 65536

// Reallocate gives the first size bytes, nil when that is over the cap. At a
// safepoint it lets other goroutines run: a guest that computes for long would
// otherwise keep its processor for a whole time slice, and with it the garbage
// collector's workers, or the streams of everybody else.
func (l *linear) Reallocate(size uint64) []byte {
	if size == safepointPages*pageBytes {
		l.safepoints++
		if l.watch.on {
			l.watch.stop()
			runtime.Gosched()
			l.watch.start()
		} else {
			runtime.Gosched()
		}
		if l.stop != nil {
			if err := l.stop(); err != nil {
				panic(guestStopped{err})
			}
		}
		return nil
	}
	if size > uint64(len(l.reserved)) {
		l.denied = true
		return nil
	}
	l.used = size
	return l.reserved[:size]
}

// guestStopped ends a guest's call: the engine recovers it and gives it as the
// call's error.
type guestStopped struct{ error }

// Free gives the memory back. It may be called again.
func (l *linear) Free() {
	release(l.reserved)
	l.reserved = nil
}
