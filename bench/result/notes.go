package result

import (
	"encoding/json"
	"fmt"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// Bounds beyond which a reader is warned.
const (
	latenessMS   = 5.0  // p99 of the harness's own lateness
	harnessShare = 0.1  // of the machine's CPU
	cachedShare  = 0.05 // of prompts that are meant to be new
	perEvent     = 1.02 // tokens of an output event
)

// notes says what must be known to read the numbers: how they were counted, and
// what in this result speaks against them.
func notes(f *File) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	c := &f.Conditions
	if c.Loop == "closed" {
		add("closed loop: a slow server is asked less, and the wait of those who would have come meanwhile is in no latency")
	} else {
		add("open loop: latencies count from when a request was due")
	}
	if c.Stream {
		add("ITL is the gap between output events as they were read; TPOT uses the tokens of usage")
	} else {
		add("not streamed: there is no TTFT, ITL or TPOT, and all tokens of a reply count at its end")
	}
	for i := range f.Runs {
		before := len(list)
		runNotes(c, &f.Runs[i], add)
		for j := before; j < len(list) && len(f.Runs) > 1; j++ {
			list[j] = fmt.Sprintf("run %d: %s", i+1, list[j])
		}
	}
	return list
}

// ignoresEnd says whether a load's further members ask for answers that do not end early.
func ignoresEnd(extra string) bool {
	var members struct {
		Ignore bool `json:"ignore_eos"`
	}
	return json.Unmarshal([]byte(extra), &members) == nil && members.Ignore
}

func runNotes(c *Conditions, r *stats.Run, add func(string, ...any)) {
	n := &r.Requests
	if r.Stopped {
		add("stopped before its end; %d requests were cut off and are not counted", n.Aborted)
	}
	if n.NotSent > 0 {
		add("%d requests were not sent, %d being in flight already: latencies are of those that were", n.NotSent, c.InFlightMax)
	}
	if p := r.Tokens.PerEvent; p > perEvent {
		add("an output event carries %s tokens on average: gaps between tokens are shorter than ITL says", report.Number(p))
	}
	if p := r.Tokens.PerEvent; p > 0 && p < 1/perEvent {
		add("there are %s output events per token of usage: ITL has gaps that are none between tokens", report.Number(1/p))
	}
	if n.NoUsage > 0 {
		instead := "and from rates"
		if c.Stream {
			instead = "and rates count their events instead"
		}
		add("%d replies had no usage: their tokens are missing from sums and means, %s", n.NoUsage, instead)
	}
	if n := r.Tokens.Shorter; n > 0 && ignoresEnd(c.Extra) {
		add("%d answers are shorter than asked though ignore_eos was sent: does the server know it?", n)
	}
	if n.Silent > 0 {
		add("%d replies had no output at all: they have no TTFT", n.Silent)
	}
	if r.Tokens.CachedShare > cachedShare && c.PrefixTokens == 0 && c.Turns == 1 {
		add("%.0f %% of the input came from a cache though all prompts differ: has the server seen this seed before?",
			100*r.Tokens.CachedShare)
	}
	if n := r.Harness.Retried; n > 0 {
		add("%d requests were sent again on a new connection: the server had closed the kept one, or dropped them without an answer", n)
	}
	if c.Loop == "open" && r.Harness.Lateness.P99 > latenessMS {
		add("the harness itself was late: p99 %s ms, max %s ms (in the latencies)",
			report.Number(r.Harness.Lateness.P99), report.Number(r.Harness.Lateness.Max))
	}
	if r.Harness.CPUShare > harnessShare {
		add("the harness used %.0f %% of this machine's CPU: a server on the same machine had that much less", 100*r.Harness.CPUShare)
	}
	if e := r.Latency["e2e"]; c.DurationS > 0 && e.Count > 0 && r.WindowS*1000 < 3*e.P50 {
		add("the window is shorter than three requests: rates depend on its edges")
	}
}
