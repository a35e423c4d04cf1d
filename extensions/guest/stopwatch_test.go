package guest

import (
	"runtime"
	"testing"
	"time"
)

// TestTimeOfAThread: what a call took is told by its thread's clock: waiting is not in it.
func TestTimeOfAThread(t *testing.T) {
	if _, ok := threadClock(); !ok {
		t.Skip("no clock of one thread on this system")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s stopwatch
	began := time.Now()
	s.reset()
	time.Sleep(50 * time.Millisecond)
	s.stop()
	time.Sleep(50 * time.Millisecond) // others run at a safepoint
	s.start()
	if spent, passed := s.end(), time.Since(began); spent < 0 || spent > passed/4 {
		t.Errorf("%v of %v", spent, passed)
	}
}
