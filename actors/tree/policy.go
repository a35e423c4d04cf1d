package tree

import (
	"time"

	"corenode/actors/system"
)

// The names of the actors, as in logs and counters.
const (
	nodeActor     = "node"
	limitsActor   = "limits"
	limiterActor  = "limiter"
	sessionsActor = "sessions"
	sessionActor  = "session"
	modelsActor   = "models"
	batcherActor  = "batcher"
	ledgerActor   = "ledger"
)

// policies is what happens when an actor panics, for every actor of the tree. The table under
// "Supervision" in actors/DESIGN.md says what each forgets, and what clients see.
var policies = map[string]system.Policy{
	nodeActor:     {Resume: true, FailuresMax: 3, Within: time.Minute, GiveUp: system.FailNode},
	limitsActor:   {Resume: true, FailuresMax: 3, Within: time.Minute, GiveUp: system.FailNode},
	sessionsActor: {Resume: true, FailuresMax: 3, Within: time.Minute, GiveUp: system.FailNode},
	modelsActor:   {Resume: true, FailuresMax: 3, Within: time.Minute, GiveUp: system.FailNode},
	limiterActor: {FailuresMax: 10, Within: 10 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 200 * time.Millisecond},
	sessionActor: {FailuresMax: 5, Within: 10 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 200 * time.Millisecond},
	batcherActor: {FailuresMax: 3, Within: 5 * time.Minute,
		BackoffMin: 500 * time.Millisecond, BackoffMax: 30 * time.Second},
	ledgerActor: {FailuresMax: 10, Within: time.Minute, GiveUp: system.FailNode,
		BackoffMin: time.Millisecond, BackoffMax: time.Second},
}

// policyOf returns the policy of an actor; each has one.
func policyOf(name string) system.Policy {
	p, ok := policies[name]
	if !ok {
		panic("no policy for actor " + name)
	}
	return p
}
