// Package drive puts load on a server and records what its clients see.
//
// In a closed loop a fixed number of clients each send their next request when
// the last one is answered: a slow server is asked less, and what a request
// would have waited before it was sent is in no latency. In an open loop
// requests are due at times of their own, whatever the server does, and latency
// counts from when they were due: a stall is paid for by all that were due in it.
//
// What is sent follows from package workload, what came back goes to package
// stats; here is what waits in between.
package drive

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"corenode/bench/client"
	"corenode/bench/protocol"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

// Options say what is sent where, and for how long.
type Options struct {
	Target     client.Target
	Connection client.Options
	Keys       []string // at least one; "" sends none
	Template   protocol.Template
	Shape      workload.Shape
	// Body, if not nil, is every request's, whatever Template and Shape would make.
	Body []byte

	// Clients is the number of a closed loop's clients; 0 for an open loop.
	Clients int
	// Rate is conversations per second of an open loop, at random times, or at
	// equal distances with Constant. Trace, if not empty, stands instead of it.
	Rate     float64
	Constant bool
	Trace    []time.Duration

	// Ramp is how long clients are added one by one, or the rate grows, before
	// Warmup; both are before the window.
	Ramp, Warmup time.Duration
	// Duration is the window's length; 0: until Count requests were sent in it, or
	// the trace ends.
	Duration time.Duration
	Count    int

	// InFlightMax bounds the conversations of an open loop at once. One that is
	// due beyond it is not sent, and counted so.
	InFlightMax int
	// Timeout bounds one request, from its sending to the end of the reply.
	Timeout time.Duration
	// ErrorPause is how long a client of a closed loop waits after a failure, or
	// for as long as Retry-After says, up to RetryAfterMax.
	ErrorPause, RetryAfterMax time.Duration
	// SessionHeader names the header with the conversation's session, "" for none.
	SessionHeader string
	Objectives    []stats.Objective
}

// Streams are the options of streams, greedy ones unless the template says otherwise, one at a time unless the caller
// says otherwise, whose prompts are of words.
func Streams(url, key string, t protocol.Template) (Options, error) {
	target, err := client.ParseTarget(url)
	t.Model, t.Stream = workload.Model, true
	return Options{Target: target, Connection: client.Options{Connect: 10 * time.Second}, Keys: []string{key}, Template: t,
		Clients: 1, Count: 1, InFlightMax: 1, Timeout: 10 * time.Minute,
		Shape: workload.Shape{Turns: 1, Size: workload.Calibration{PerWord: 1}}}, err
}

// Validate lists everything that is wrong.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	ways := 0
	for _, way := range []bool{o.Clients > 0, o.Rate > 0, len(o.Trace) > 0} {
		if way {
			ways++
		}
	}
	check(ways == 1, "want exactly one of clients, rate and arrivals")
	check(o.Clients >= 0 && o.Clients <= 100_000, "clients is %d, want 1 to 100000", o.Clients)
	check(o.Rate >= 0 && o.Rate <= 1e6 && !math.IsNaN(o.Rate), "rate is %v, want up to 1e6 per second", o.Rate)
	check(o.Ramp >= 0 && o.Warmup >= 0 && o.Duration >= 0, "ramp, warm-up and duration must not be negative")
	check(o.Count >= 0, "count is %d, want 0 or more", o.Count)
	check(o.Duration > 0 || o.Count > 0 || len(o.Trace) > 0, "want a duration or a count: the run would not end")
	check(o.Ramp == 0 || len(o.Trace) == 0, "arrivals from a trace have no ramp")
	check(o.InFlightMax > 0, "the most in flight is %d, want 1 or more", o.InFlightMax)
	check(o.Timeout > 0, "timeout is %v, want more than 0", o.Timeout)
	check(o.ErrorPause >= 0 && o.RetryAfterMax >= 0, "pauses must not be negative")
	check(len(o.Keys) > 0, "want at least one key, which may be empty")
	check(o.Shape.Turns >= 1 && o.Shape.Turns <= 1000, "turns is %d, want 1 to 1000", o.Shape.Turns)
	check(o.Shape.Think >= 0, "think is %v, want 0 or more", o.Shape.Think)
	check(o.Shape.Think == 0 || o.Shape.Turns > 1, "think is a pause between the turns of a conversation: want 2 turns or more")
	check(!o.Constant || o.Rate > 0, "constant is how a rate arrives: want a rate")
	check(o.Shape.PrefixTokens >= 0 && o.Shape.PrefixGroup >= 0, "prefix tokens and group must not be negative")
	check(o.Template.Model != "", "want the name of a model")
	check(!strings.ContainsAny(o.SessionHeader, " :\t\r\n"), "session header %q is not the name of one", o.SessionHeader)
	return errors.Join(errs...)
}

// Closed says which of the two loops it is.
func (o Options) Closed() bool { return o.Clients > 0 }
