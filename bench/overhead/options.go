// Package overhead measures what the node costs per request and per streamed
// event, beside a bare pass-through that costs what no server can avoid.
//
// A run starts a mock upstream, the pass-through, three nodes and, where it is named, LiteLLM's proxy, each a process
// of its own, and then works through rounds. A round visits every cell (a
// target and a kind of work) for a fixed time under the same number of clients;
// the CPU time that the kernel counted for the server's process meanwhile,
// divided by the replies, is the cell's number. Comparing is done within a
// round, over rounds the median counts. Everything that decides is in
// summary.go and knows no processes; what waits is in measure.go.
package overhead

import (
	"fmt"
	"time"

	"corenode/bench/option"
)

// Options say what a run does; List has their defaults and their bounds.
type Options struct {
	Node        string        `json:"-"`
	LiteLLM     string        `json:"-"` // its program; empty: it is not measured
	Clients     int           `json:"clients"`
	Duration    time.Duration `json:"duration_ns"` // of one cell of one round
	Warmup      time.Duration `json:"warmup_ns"`   // of each cell, before the first round; 0: none
	Rounds      int           `json:"rounds"`
	PlainTokens int           `json:"plain_tokens"`
	ShortTokens int           `json:"short_tokens"`
	LongTokens  int           `json:"long_tokens"`
	// PacedClients is how many paced streams run at once.
	PacedClients int     `json:"paced_clients"`
	MaxRatio     float64 `json:"max_ratio"`
	MaxEventUS   float64 `json:"max_event_us"`
	// MaxUpstreamRatio bounds what a model that servers elsewhere answer costs, ledger apart.
	MaxUpstreamRatio float64       `json:"max_upstream_ratio"`
	ProfileDir       string        `json:"-"`          // empty: profiles are not kept
	Profile          time.Duration `json:"profile_ns"` // after the rounds; 0: none
}

// List describes the options.
func (o *Options) List() option.List {
	const tick = 10 * time.Millisecond // of CPU time
	return option.List{
		option.Text(&o.Node, "node", "bin/corenode", "a path", "the corenode program"),
		option.Text(&o.LiteLLM, "litellm", "", "",
			"the litellm program of LiteLLM's proxy (PyPI: litellm[proxy]), to measure beside the node"),
		option.Int(&o.Clients, "clients", 16, 1, 1024,
			"connections that send requests at once, but for paced streams and those of 1 client"),
		option.Duration(&o.Duration, "duration", time.Second, tick, time.Minute, "length of one cell of one round"),
		option.Duration(&o.Warmup, "warmup", 500*time.Millisecond, 0, time.Minute,
			"length of each cell before the first round, not measured; 0 leaves it out"),
		option.Int(&o.Rounds, "rounds", 7, 1, 1000, "how often each cell is measured"),
		option.Int(&o.PlainTokens, "plain-tokens", 16, 1, 1<<14, "max_tokens of plain requests"),
		option.Int(&o.ShortTokens, "short-tokens", 16, 1, 1<<14, "max_tokens of short streams"),
		option.Int(&o.LongTokens, "long-tokens", 256, 2, 1<<14, "max_tokens of long streams"),
		option.Int(&o.PacedClients, "paced-clients", 32, 1, 1024, "paced streams at once"),
		option.Check(func() error {
			if o.LongTokens <= o.ShortTokens {
				return fmt.Errorf("--long-tokens is %d, want more than --short-tokens", o.LongTokens)
			}
			return nil
		}),
		option.Positive(&o.MaxRatio, "max-ratio", 3, "gate: CPU of a plain request, node / pass-through"),
		option.Positive(&o.MaxEventUS, "max-event-us", 8, "gate: microseconds of CPU per streamed event"),
		option.Positive(&o.MaxUpstreamRatio, "max-upstream-ratio", 1.25,
			"gate: CPU of a plain request, ledger apart, node with an upstream / node; needs profiles"),
		option.Duration(&o.Profile, "profile", 3*time.Second, 0, time.Minute,
			"length of each profile in the end; 0 takes none, and leaves out the gates that need them"),
		option.Check(func() error {
			if o.Profile > 0 && o.Profile < time.Second {
				return fmt.Errorf("--profile is %v, want 0 or 1s to 1m", o.Profile)
			}
			return nil
		}),
		option.Text(&o.ProfileDir, "profile-dir", "", "", "folder to leave the profiles in, for go tool pprof"),
	}
}

// Defaults are the options of a run that was told nothing.
func Defaults() (o Options) {
	o.List().Reset()
	return o
}
