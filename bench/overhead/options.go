// Package overhead measures what the node costs per request and per streamed
// event, beside a bare pass-through that costs what no server can avoid.
//
// A run starts a mock upstream, the pass-through and two nodes, each a process
// of its own, and then works through rounds. A round visits every cell (a
// target and a kind of work) for a fixed time under the same number of clients;
// the CPU time that the kernel counted for the server's process meanwhile,
// divided by the replies, is the cell's number. Comparing is done within a
// round, over rounds the median counts. Everything that decides is in
// summary.go and knows no processes; what waits is in measure.go.
package overhead

import (
	"errors"
	"fmt"
	"time"
)

// Options say what a run does.
type Options struct {
	// Node is the path of the corenode binary. Default bin/corenode.
	Node string `json:"-"`
	// Self is the path of this program, which serves the mock and the pass-through too.
	Self string `json:"-"`
	// Clients are the connections that send requests at once. Default 16.
	Clients int `json:"clients"`
	// Duration is how long one cell of one round lasts. Default 1s.
	Duration time.Duration `json:"duration_ns"`
	// Warmup is how long each cell runs, unmeasured, before the first round. Default 500ms.
	Warmup time.Duration `json:"warmup_ns"`
	// Rounds is how often every cell is measured. Default 7.
	Rounds int `json:"rounds"`
	// PlainTokens, ShortTokens and LongTokens are max_tokens of the plain
	// requests and of the two streams. Defaults 16, 16, 256.
	PlainTokens int `json:"plain_tokens"`
	ShortTokens int `json:"short_tokens"`
	LongTokens  int `json:"long_tokens"`
	// MaxRatio and MaxEventUS are the gates. Defaults 3 and 8.
	MaxRatio   float64 `json:"max_ratio"`
	MaxEventUS float64 `json:"max_event_us"`
	// ProfileDir is where CPU profiles of the node are left; empty = nowhere. Default empty.
	ProfileDir string `json:"-"`
	// Profile is how long each profile is taken for, after the rounds; 0 = none. Default 3s.
	Profile time.Duration `json:"profile_ns"`
}

// Defaults are the options of a run that was told nothing.
func Defaults() Options {
	return Options{
		Node: "bin/corenode", Clients: 16, Duration: time.Second, Warmup: 500 * time.Millisecond, Rounds: 7,
		PlainTokens: 16, ShortTokens: 16, LongTokens: 256, MaxRatio: 3, MaxEventUS: 8, Profile: 3 * time.Second,
	}
}

// Validate names each option that is out of its bounds, as its flag.
func (o Options) Validate() error {
	var errs []error
	within := func(flag string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("--%s is %d, want %d to %d", flag, value, low, high))
		}
	}
	during := func(flag string, value, low time.Duration) {
		if value < low || value > time.Minute {
			errs = append(errs, fmt.Errorf("--%s is %v, want %v to 1m", flag, value, low))
		}
	}
	above := func(flag string, value float64) {
		if !(value > 0) {
			errs = append(errs, fmt.Errorf("--%s is %v, want more than 0", flag, value))
		}
	}
	within("clients", o.Clients, 1, 1024)
	within("rounds", o.Rounds, 1, 1000)
	within("plain-tokens", o.PlainTokens, 1, 1<<14)
	within("short-tokens", o.ShortTokens, 1, 1<<14)
	within("long-tokens", o.LongTokens, o.ShortTokens+1, 1<<14)
	during("duration", o.Duration, 10*time.Millisecond) // one tick of CPU time
	during("warmup", o.Warmup, 0)
	during("profile", o.Profile, 0)
	above("max-ratio", o.MaxRatio)
	above("max-event-us", o.MaxEventUS)
	if o.Profile != 0 && o.Profile < time.Second {
		errs = append(errs, fmt.Errorf("--profile is %v, want 0 or 1s to 1m", o.Profile))
	}
	return errors.Join(errs...)
}
