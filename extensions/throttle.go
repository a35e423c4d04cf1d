package extensions

import (
	"corenode/extensions/guest"
	"sync"
	"sync/atomic"
	"time"
)

// throttle holds the calls of one slot to its share of the processors: who asks
// for a turn while the share is used up waits for it, or is told at once that
// the wait would be too long. What a call took is known afterwards, so a call of
// an operation that is slow holds what such calls take while it runs.
type throttle struct {
	share cpuShare
	over  func(declined uint64) // says in the log that calls were declined

	level atomic.Int64 // of the share, in nanoseconds; it is filled when it is used up
	held  atomic.Int64 // for calls that run or wait, in nanoseconds; they are taken from level

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
	// shareWaitMax is what the calls of one request wait for their turns, together.
	shareWaitMax = 100 * time.Millisecond
	// holdMin is the mean of a call for which something is held: of shorter ones,
	// of which a pool runs few at once, it is enough that they are taken afterwards.
	holdMin = 20 * time.Millisecond
	// oweMax is what an instance may have used before it is taken from the share.
	oweMax = 20 * time.Microsecond
	// overEvery is the time between two lines of a slot that declines calls.
	overEvery = 10 * time.Second
)

// newThrottle begins with a full share.
func newThrottle(share cpuShare, over func(declined uint64)) *throttle {
	t := &throttle{share: share, over: over, filled: time.Now()}
	t.level.Store(int64(share.burst))
	return t
}

// enter asks for the turn of a call whose like take mean. It waits at most
// patience and says how long it did; when more would be needed it is not ok, at
// once. Nor is it where slow calls run that it would have to wait for longer than
// a request may wait: on a busy machine they take longer than their share says.
// What it holds is settled after the call.
func (t *throttle) enter(mean, patience time.Duration) (held, waited time.Duration, ok bool) {
	held = holdFor(mean)
	if held == 0 && t.level.Load() > 0 {
		return 0, 0, true
	}
	wait, ok := t.queue(held, patience, false)
	if !ok {
		return 0, 0, false
	}
	t.wait(wait)
	return held, wait, true
}

// holdFor is what is held for a call whose like take mean.
func holdFor(mean time.Duration) time.Duration {
	if mean < holdMin {
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

// queue fills the share and takes held from it. Those that come later wait for
// what is held before them. must: the call is made in any case, after its patience
// at the latest.
func (t *throttle) queue(held, patience time.Duration, must bool) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	level := time.Duration(t.level.Load())
	if gain := t.share.filled(level, now.Sub(t.filled)) - level; gain > 0 {
		level = time.Duration(t.level.Add(int64(gain)))
	}
	t.filled = now
	wait = t.share.wait(level)
	crowded := held > 0 && t.share.behind(time.Duration(t.held.Load()), held) > max(patience, shareWaitMax)
	if (wait > patience || crowded) && !must {
		t.decline(now)
		return 0, false
	}
	t.held.Add(int64(held))
	t.level.Add(-int64(held))
	return min(wait, patience), true
}

// decline counts a call that gets no turn. mu is held.
func (t *throttle) decline(now time.Time) {
	t.declined.Add(1)
	t.unsaid++
	if t.said.IsZero() || now.Sub(t.said) >= overEvery {
		t.over(t.unsaid)
		t.said, t.unsaid = now, 0
	}
}

// space waits for the turn of a call that nothing else can answer, at most
// guest.WaitMax, and then lets it be made whatever is left. Calls that something else
// can answer come behind it.
func (t *throttle) space(mean time.Duration) (held time.Duration) {
	held = holdFor(mean)
	if held > 0 || t.level.Load() <= 0 {
		wait, _ := t.queue(held, guest.WaitMax, true)
		t.wait(wait)
	}
	return held
}

// settle takes what calls took, and gives back what was held for them.
func (t *throttle) settle(held, took time.Duration) {
	t.level.Add(int64(held - took))
	if held > 0 {
		t.held.Add(-int64(held))
	}
	t.used.Add(int64(took))
}
