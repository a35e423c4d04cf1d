package extensions

import (
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/guest"
)

// throttle keeps the calls of one slot within its quota of the processors: a call
// that comes while the quota is used up waits, or is told at once that the wait
// would be too long. What a call took is known afterwards, so a call of a slow
// operation pays in advance what such calls take, and is settled when it ends.
type throttle struct {
	quota cpuQuota
	over  func(declined uint64) // says in the log that calls were declined

	level    atomic.Int64 // of the quota, in nanoseconds; it is filled when it is used up
	advanced atomic.Int64 // by calls that run or wait, in nanoseconds: taken from level already

	// For operators.
	used     atomic.Int64 // nanoseconds of processor time
	waits    atomic.Uint64
	waited   atomic.Int64 // nanoseconds
	declined atomic.Uint64

	mu     sync.Mutex // guards what follows
	filled time.Time
	said   time.Time
	unsaid uint64 // declined since
}

const (
	// quotaWaitMax is what the calls of one request wait for the quota, together.
	quotaWaitMax = 100 * time.Millisecond
	// advanceMin is the mean of a call that pays in advance: of shorter ones,
	// of which a pool runs few at once, it is enough that they are taken afterwards.
	advanceMin = 20 * time.Millisecond
	// overEvery is the time between two lines of a slot that declines calls.
	overEvery = 10 * time.Second
)

// newThrottle begins with a full quota.
func newThrottle(quota cpuQuota, over func(declined uint64)) *throttle {
	t := &throttle{quota: quota, over: over, filled: time.Now()}
	t.level.Store(int64(quota.burst))
	return t
}

// admit asks whether a call may be made whose like take mean. It waits at most
// patience and says how long it did; when more would be needed it is not ok, at
// once. Nor is it where slow calls run that it would have to wait for longer than
// a request may wait: on a busy machine they take longer than their quota says.
// The advance is settled after the call.
func (t *throttle) admit(mean, patience time.Duration) (advance, waited time.Duration, ok bool) {
	advance = advanceFor(mean)
	if advance == 0 && t.level.Load() > 0 {
		return 0, 0, true
	}
	wait, ok := t.queue(advance, patience, false)
	if !ok {
		return 0, 0, false
	}
	t.wait(wait)
	return advance, wait, true
}

// advanceFor is what a call pays in advance whose like take mean.
func advanceFor(mean time.Duration) time.Duration {
	if mean < advanceMin {
		return 0
	}
	return mean
}

func (t *throttle) wait(d time.Duration) {
	if d > 0 {
		t.waits.Add(1)
		t.waited.Add(int64(d))
		time.Sleep(d)
	}
}

// queue fills the quota and takes advance from it. Those that come later wait for
// what was taken before them. must: the call is made in any case, after its patience
// at the latest.
func (t *throttle) queue(advance, patience time.Duration, must bool) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	level := time.Duration(t.level.Load())
	if gain := t.quota.filled(level, now.Sub(t.filled)) - level; gain > 0 {
		level = time.Duration(t.level.Add(int64(gain)))
	}
	t.filled = now
	wait = t.quota.wait(level)
	crowded := advance > 0 && t.quota.behind(time.Duration(t.advanced.Load()), advance) > max(patience, quotaWaitMax)
	if (wait > patience || crowded) && !must {
		t.decline(now)
		return 0, false
	}
	t.advanced.Add(int64(advance))
	t.level.Add(-int64(advance))
	return min(wait, patience), true
}

// decline counts a call that is not admitted. mu is held.
func (t *throttle) decline(now time.Time) {
	t.declined.Add(1)
	t.unsaid++
	if t.said.IsZero() || now.Sub(t.said) >= overEvery {
		t.over(t.unsaid)
		t.said, t.unsaid = now, 0
	}
}

// delay makes a call wait for the quota that nothing else can answer, at most
// guest.WaitMax, and then lets it be made whatever is left. Calls that something else
// can answer come behind it.
func (t *throttle) delay(mean time.Duration) (advance time.Duration) {
	advance = advanceFor(mean)
	if advance > 0 || t.level.Load() <= 0 {
		wait, _ := t.queue(advance, guest.WaitMax, true)
		t.wait(wait)
	}
	return advance
}

// settle takes what calls took, and gives back their advance.
func (t *throttle) settle(advance, took time.Duration) {
	t.level.Add(int64(advance - took))
	if advance > 0 {
		t.advanced.Add(-int64(advance))
	}
	t.used.Add(int64(took))
}
