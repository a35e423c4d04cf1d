package extensions

import (
	"strings"
	"testing"
	"time"

	"corenode/extensions/guest"
)

// TestCPUQuota fills and waits by the clock that it is told.
func TestCPUQuota(t *testing.T) {
	half := newCPUQuota(0.25, 2) // half a processor, 250 ms when it is full
	const ms = time.Millisecond
	for _, c := range []struct {
		level, passed, filled, wait time.Duration
	}{
		{0, 0, 0, 1},
		{0, 100 * ms, 50 * ms, 0},
		{-50 * ms, 100 * ms, 0, 1},
		{-50 * ms, 0, -50 * ms, 100*ms + 1},
		{-50 * ms, -time.Hour, -50 * ms, 100*ms + 1}, // a clock that was set back gives nothing
		{0, time.Hour, 250 * ms, 0},
		{-time.Hour, 1 << 62, 250 * ms, 0},
		{250 * ms, time.Second, 250 * ms, 0},
		{100 * ms, 100 * ms, 150 * ms, 0},
		{-20 * time.Second, time.Second, -19500 * ms, 39*time.Second + 1},
	} {
		got := half.filled(c.level, c.passed)
		if wait := half.wait(got); got != c.filled || wait != c.wait {
			t.Errorf("%v after %v is %v, wait %v; want %v, wait %v", c.level, c.passed, got, wait, c.filled, c.wait)
		}
	}
}

// TestBehind: as many calls as the quota has processors run at once.
func TestBehind(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		rate            float64
		before, advance time.Duration
		want            time.Duration
	}{
		{1, 0, 500 * ms, 0},
		{1, 500 * ms, 500 * ms, 500 * ms},
		{1, 80 * ms, 20 * ms, 80 * ms},
		{0.5, 0, 20 * ms, 0},
		{0.5, 20 * ms, 20 * ms, 40 * ms},
		{4, 1500 * ms, 500 * ms, 0},
		{4, 2000 * ms, 500 * ms, 125 * ms},
	} {
		if got := (cpuQuota{rate: c.rate}).behind(c.before, c.advance); got != c.want {
			t.Errorf("of %v processors, %v before a call of %v: %v, want %v", c.rate, c.before, c.advance, got, c.want)
		}
	}
}

// TestCPUQuotaOverTime: whatever calls take, what is used in the long run is the quota.
func TestCPUQuotaOverTime(t *testing.T) {
	s := newCPUQuota(0.5, 2)
	for _, call := range []time.Duration{time.Microsecond, time.Millisecond, 300 * time.Millisecond} {
		var now, used time.Duration
		level := s.burst
		for now < 100*time.Second {
			wait := s.wait(level)
			passed := max(wait, 10*time.Microsecond) // the machine could do more
			now += passed
			if level = s.filled(level, passed); s.wait(level) == 0 {
				level -= call
				used += call
			}
		}
		if most := time.Duration(s.rate*float64(now)) + s.burst + call; used > most || call > 10*time.Microsecond && used < most*9/10 {
			t.Errorf("calls of %v used %v of %v", call, used, most)
		}
	}
}

func TestHeavier(t *testing.T) {
	const us = time.Microsecond
	usual := func(calls uint64, ticks float64, cpu time.Duration) guest.Usual {
		return guest.Usual{Calls: calls, Ticks: ticks, CPU: cpu}
	}
	active := usual(200, 10_000, 25*us)
	for _, c := range []struct {
		name   string
		canary guest.Usual
		factor float64
		says   string
	}{
		{"the same", active, 3, ""},
		{"three times", usual(200, 30_000, 75*us), 3, ""},
		{"more ticks", usual(200, 30_100, 25*us), 3, "3.0 times the ticks: 30100, not 10000"},
		{"more time", usual(200, 10_000, 100*us), 3, "4.0 times the processor time: 100µs, not 25µs"},
		{"too few calls", usual(199, 90_000, 900*us), 3, ""},
		{"another factor", usual(200, 90_000, 100*us), 10, ""},
		{"another factor, and more", usual(200, 110_000, 100*us), 10, "11.0 times the ticks"},
	} {
		if got := heavier(c.canary, active, c.factor, 200); got != c.says && (c.says == "" || !strings.HasPrefix(got, c.says)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.says)
		}
	}
	if got := heavier(usual(200, 3000, 5*us), usual(200, 10, us/10), 3, 200); got != "" {
		t.Errorf("calls of 5 us are %q", got)
	}
	if got := heavier(active, usual(199, 1, 1), 3, 200); got != "" {
		t.Errorf("beside 199 calls: %q", got)
	}
}
