package extensions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"corenode/extensions/capture"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Capture begins to keep what the modules of a slot are asked, for an account or, with
// none, for all, in place of what was kept before. It is in memory only: see package capture.
// Of rewrite and filter modules nothing is ever kept: that is ErrCapture.
func (h *Host) Capture(s Slot, account string, span time.Duration) (capture.Status, error) {
	if span <= 0 || span > capture.TimeMax {
		return capture.Status{}, fmt.Errorf("%w: for %v, want more than 0 and at most %v", ErrCapture, span, capture.TimeMax)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return capture.Status{}, ErrClosed
	case !slices.Contains(h.Slots(), s):
		return capture.Status{}, fmt.Errorf("%q: %w", s, ErrSlot)
	}
	sl := h.slot(s)
	if slices.Contains(h.members(SlotRewrite), sl) || slices.Contains(h.members(SlotFilter), sl) {
		return capture.Status{}, fmt.Errorf("%w of slot %s, want one of billing, admission or a translator: "+
			"nothing is kept of what is rewritten or filtered", ErrCapture, s)
	}
	now := h.now()
	c := capture.New(account, now, now.Add(span))
	sl.captured.Swap(c).Forget()
	h.spawn(func() { h.forgetLater(sl, c, span+capture.KeptFor) })
	h.log.Warn("what requests ask is kept in memory", "slot", string(s), "account", cmp.Or(account, "all"), "for", span.String(),
		"bytes_max", capture.BytesMax)
	return inSlot(s, c.Status()), nil
}

// capture takes a request in whose slot's calls are kept; nil is none. Who comes without a key is nobody's
// account, and does not fill what is kept of others.
func (h *Host) capture(sl *slot, account, request string) *capture.Request {
	c := sl.captured.Load()
	if c == nil || account == "" {
		return nil
	}
	return c.Begin(account, request, h.now())
}

// EndCapture forgets what was kept of a slot's calls, if anything was.
func (h *Host) EndCapture(s Slot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.Slots(), s) {
		return fmt.Errorf("%q: %w", s, ErrSlot)
	}
	if c := h.slot(s).captured.Swap(nil); c != nil {
		c.Forget()
		h.log.Info("what requests asked is forgotten", "slot", string(s))
	}
	return nil
}

// Captured says what is kept of a slot's calls; ErrNoCapture: nothing is.
func (h *Host) Captured(s Slot) (capture.Status, error) {
	c, err := h.capturedOf(s)
	if err != nil {
		return capture.Status{}, err
	}
	return inSlot(s, c.Status()), nil
}

func (h *Host) capturedOf(s Slot) (*capture.Capture, error) {
	if !slices.Contains(h.Slots(), s) {
		return nil, fmt.Errorf("%q: %w", s, ErrSlot)
	}
	c := h.slot(s).captured.Load()
	if c == nil {
		return nil, fmt.Errorf("slot %s: %w", s, ErrNoCapture)
	}
	return c, nil
}

func inSlot(s Slot, status capture.Status) capture.Status {
	status.Slot = string(s)
	return status
}

// forgetLater forgets a capture when its time is over, or the host closes.
func (h *Host) forgetLater(sl *slot, c *capture.Capture, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Forgotten():
	case <-h.closing.Done():
	}
	sl.captured.CompareAndSwap(c, nil)
	c.Forget()
}

// compareTimeMax bounds how long a comparison may take; what is left then is said.
const compareTimeMax = 20 * time.Second

// CompareCaptured runs what was kept of the calls of a module's slot on two builds, which are in
// memory: newer, and older, or where that is "" what served before it or serves now. Requests come first: each
// run waits for the slot's share of the processors. It ends early when ctx does.
func (h *Host) CompareCaptured(ctx context.Context, older, newer string, count capture.Count) (capture.Report, error) {
	before, after, err := h.acquireTwo(older, newer)
	if err != nil {
		return capture.Report{}, err
	}
	defer before.release()
	defer after.release()
	s := slotOf(&after.manifest)
	kept, err := h.capturedOf(s)
	if err != nil {
		return capture.Report{}, err
	}
	requests := kept.Requests()
	slices.SortStableFunc(requests, func(a, b *capture.Request) int { return strings.Compare(a.Account, b.Account) })
	first, second := &bench{of: before}, &bench{of: after}
	defer first.close()
	defer second.close()
	c := capture.NewCompare(first.side(), second.side(), count)
	began, done := time.Now(), 0
	for _, r := range requests {
		if ctx.Err() != nil || time.Since(began) > compareTimeMax {
			break
		}
		if _, _, ok := after.throttle.admit(0, guest.WaitMax); !ok {
			break
		}
		started := time.Now()
		c.Add(r)
		after.throttle.settle(0, time.Since(started))
		done++
	}
	report := c.Report(len(requests) - done)
	report.Slot, report.Old, report.New = string(s), before.manifest.Ref(), after.manifest.Ref()
	if report.Old == report.New { // a version may have several builds
		report.Old, report.New = report.Old+" "+Abbreviate(before.digest), report.New+" "+Abbreviate(after.digest)
	}
	return report, ctx.Err()
}

// acquireTwo finds two generations in memory, of one slot, which the caller releases.
func (h *Host) acquireTwo(older, newer string) (before, after *generation, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after, err = h.inMemory(newer); err != nil {
		return nil, nil, err
	}
	if older != "" {
		before, err = h.inMemory(older)
	} else if a := h.slot(slotOf(&after.manifest)).now.Load(); a.active != after {
		before = a.active
	} else {
		before = a.previous
	}
	switch {
	case err != nil:
		return nil, nil, err
	case before == nil:
		return nil, nil, fmt.Errorf("%q: %w", newer, ErrNoPrevious)
	case slotOf(&before.manifest) != slotOf(&after.manifest):
		return nil, nil, fmt.Errorf("%q and %q: %w", older, newer, ErrOtherSlot)
	}
	before.acquire() // neither is retired while mu is held and it is found
	after.acquire()
	return before, after, nil
}

func (h *Host) inMemory(ref string) (*generation, error) {
	m, err := h.modules.find(ref)
	if err == nil && m.generation == nil {
		err = fmt.Errorf("%q: %w", ref, ErrNotInMemory)
	}
	if err != nil {
		return nil, err
	}
	return m.generation, nil
}

// bench is one build that captured calls are run on: an instance for each account, which
// no request of another reaches and no live request uses.
type bench struct {
	of       *generation
	account  string
	instance *guest.Instance // nil: none yet, or it faulted
}

func (b *bench) side() capture.Side {
	return capture.Side{History: b.of.manifest.History, Held: b.of.manifest.Held, Call: b.call}
}

func (b *bench) call(account string, op abi.Op, in []byte) (frame []byte, ticks int64, err error) {
	if b.of.native != nil {
		out, f := b.of.doNative(op, in, nil)
		if f != nil {
			return nil, 0, f
		}
		return out, 0, nil
	}
	if b.instance == nil || b.account != account {
		b.close()
		if b.instance, err = b.of.module.Fresh(); err != nil {
			b.instance = nil
			return nil, 0, err
		}
		b.account = account
	}
	if frame, ticks, err = b.instance.Call(op, in, nil); err != nil {
		b.close()
	}
	return frame, ticks, err
}

func (b *bench) close() {
	if b.instance != nil {
		b.instance.Close()
		b.instance = nil
	}
}
