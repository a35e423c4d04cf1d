package extensions

import "time"

// CPUShareDefault is the default of Options.CPUShare. BenchmarkHonestShare of node
// says what modules that ship take of two processors at most: 8 % with short
// bodies, 21 % with conversations of 100 KB over all protocols, and about 30 % where
// all of these are of the responses protocol.
const CPUShareDefault = 0.5

// cpuQuota is a slot's part of the machine's processors: an allowance of
// processor time that fills as time passes, and that calls are taken from when
// it is known what they took. It may go below nothing: that is debt, and nobody
// is admitted before it is paid.
type cpuQuota struct {
	rate  float64       // processor time that it gains per time: 1 is one processor
	burst time.Duration // it is full then
}

// quotaWindow is the time after which an unused quota is full.
const quotaWindow = 500 * time.Millisecond

// newCPUQuota is a quota of so many processors.
func newCPUQuota(share float64, processors int) cpuQuota {
	rate := share * float64(processors)
	return cpuQuota{rate: rate, burst: time.Duration(rate * float64(quotaWindow))}
}

// filled is what an allowance of level has become after some time.
func (s cpuQuota) filled(level, passed time.Duration) time.Duration {
	if passed <= 0 || level >= s.burst {
		return level
	}
	if float64(passed) >= float64(s.burst-level)/s.rate { // also where the product would not fit
		return s.burst
	}
	return level + time.Duration(s.rate*float64(passed))
}

// wait is the time until an allowance of level is more than nothing.
func (s cpuQuota) wait(level time.Duration) time.Duration {
	if level > 0 {
		return 0
	}
	return time.Duration(float64(-level)/s.rate) + 1
}

// behind is the time until a call that takes advance has a processor of the quota to
// itself, when calls of so much in all run or wait before it.
func (s cpuQuota) behind(before, advance time.Duration) time.Duration {
	free := time.Duration(max(1, s.rate) * float64(advance)) // what can run at once
	return max(0, time.Duration(float64(before+advance-free)/s.rate))
}
