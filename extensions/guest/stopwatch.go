package guest

import (
	"runtime"
	"time"
)

// stopwatch measures the processor time of one call, by the clock of its thread
// where there is one, and by the time that passes elsewhere. It stands still
// while others run at the call's safepoints, after which the call may be on
// another thread; while it runs the goroutine is bound to its thread. Reading the
// thread's clock takes a microsecond, so the time that passes stands inside: of a
// short call that nothing held up it says more.
type stopwatch struct {
	on     bool
	began  time.Time
	thread time.Duration // the thread's clock then
	spent  time.Duration
}

// reset begins a call.
func (s *stopwatch) reset() {
	*s = stopwatch{on: true}
	s.start()
}

// end is what the call took.
func (s *stopwatch) end() time.Duration {
	s.stop()
	s.on = false
	return s.spent
}

func (s *stopwatch) start() {
	runtime.LockOSThread()
	s.thread, _ = threadClock()
	s.began = time.Now()
}

func (s *stopwatch) stop() {
	passed := time.Since(s.began)
	if now, ok := threadClock(); ok {
		passed = min(passed, now-s.thread)
	}
	s.spent += passed
	runtime.UnlockOSThread()
}
