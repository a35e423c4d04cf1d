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

// policies is what happens when an actor panics, for every actor of the tree.
// What clients see:
//
//   - node, limits, sessions, models: branches without state of their own. The
//     message is dropped (a request in it is refused with 503) and the branch goes
//     on; a restart would stop all its children. Three failures in a minute end the node.
//   - limiter: the request in hand fails with 500, those that wait are served by the
//     next incarnation, which rebuilds permits and holds from the live requests and the
//     ledger. Streams notice nothing. After ten failures in ten seconds it is stopped: the
//     requests that wait are refused with 503 and the next one makes a new limiter.
//   - session: the turn in hand is refused with 503. Its pin is kept. Streams notice
//     nothing. After five failures in ten seconds it is stopped like a limiter, and its pin released.
//   - batcher: if its step loop panicked, every stream of the model ends with an
//     error event and the model is rebuilt after a delay during which requests wait;
//     the third failure in five minutes puts the model down (503), the others live. If only the
//     actor failed, the request in hand is refused with 503 and streams notice nothing.
//   - ledger: the row in hand is refused (a hold: 503; a settlement is sent again),
//     the queue survives. Ten failures in a minute end the node: nothing could be billed.
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
