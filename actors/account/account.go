// Package account holds the records that admission, the ledger and the store
// share: accounts, keys and ledger entries. They are plain values; whoever
// changes one makes a new one.
package account

import (
	"errors"
	"regexp"
	"slices"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// ErrOperator is the cause of the error of a request that an operator cancelled. Its client is not to send it again by itself.
var ErrOperator = errors.New("an operator cancelled the request")

// Account is who is limited and billed. Its JSON, like a key's, is the admin API's.
type Account struct {
	ID        string `json:"id"`   // "acct_" + random
	Name      string `json:"name"` // unique, chosen by the operator
	Unlimited bool   `json:"unlimited" doc:"No money is checked; rows are written all the same."`
	Disabled  bool   `json:"disabled" doc:"Every key is refused."`
	// Concurrency is the most requests at once, over all endpoints. 0 = no limit.
	Concurrency int `json:"concurrency" doc:"Requests at once; 0 = no limit."`
	// TokensPerMinute is the capacity and the refill per minute of the token bucket. 0 = no limit.
	TokensPerMinute int64     `json:"tokens_per_minute" doc:"0 = no limit."`
	Models          []string  `json:"models" doc:"Ids it may use; empty = all."`
	Created         time.Time `json:"created"`
}

// modelID keeps ids usable in URLs, log lines and metric labels.
var modelID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$`)

// CheckModel says what is right where an id can be that of no model.
func CheckModel(id string) error {
	if !modelID.MatchString(id) {
		return errors.New("want 1 to 128 letters, digits or . _ : / @ -, first a letter or digit")
	}
	return nil
}

// MayUse says whether the account is entitled to a model. One that it may not
// use is treated like an unknown one.
func (a Account) MayUse(model string) bool {
	return len(a.Models) == 0 || slices.Contains(a.Models, model)
}

// Limits is an account's rate-limit state, as the rate-limit headers say it. A limit of 0
// means that there is none.
type Limits struct {
	RequestsLimit, RequestsRemaining int
	TokensLimit, TokensRemaining     int64
	// RequestsReset is now, or when to try again while no permit is free.
	// TokensReset is when the bucket is full again.
	RequestsReset, TokensReset time.Time
}

// KeyLimits are what a key may do beside its account; both count.
type KeyLimits struct {
	Models []string `json:"models" doc:"Ids it may use, of those of its account; none = all of them."`
	// TokensPerMinute is as that of an Account, of what this key asks for. 0 = no limit.
	TokensPerMinute int64    `json:"tokens_per_minute" doc:"0 = no limit beside the account's."`
	Budget          abi.Nano `json:"budget_nano_usd" doc:"Most that it is charged in a calendar month, UTC; 0 = no limit."`
}

// MayUse says whether the key is entitled to a model, as Account.MayUse does.
func (k KeyLimits) MayUse(model string) bool {
	return len(k.Models) == 0 || slices.Contains(k.Models, model)
}

// LimitedKey is the key that a request came with, and of its limits those that admission counts.
type LimitedKey struct {
	ID              string // empty: there is none
	TokensPerMinute int64
	Budget          abi.Nano
}

// KeyUse is what was charged to a key with a budget in a month, less what was given back in it.
type KeyUse struct {
	KeyID   string
	Budget  abi.Nano
	Charged abi.Nano
}

// Month counts the calendar months up to that of t, UTC.
func Month(t time.Time) int {
	t = t.UTC()
	return t.Year()*12 + int(t.Month()) - 1
}

// Key is a secret that acts for an account. The secret itself is shown once
// and never kept: Hash is its SHA-256.
type Key struct {
	ID        string    `json:"id"` // "key_" + random; safe to log
	AccountID string    `json:"account_id"`
	Hash      [32]byte  `json:"-"`
	Hint      string    `json:"hint" doc:"Its first characters."`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero" doc:"Absent = never."`
	Revoked   time.Time `json:"revoked,omitzero" doc:"Absent = active."`
	LastUsed  time.Time `json:"last_used,omitzero" doc:"Coarse; absent = never."`
	KeyLimits
}

// EntryKind says what a ledger entry is.
type EntryKind string

const (
	// TopUp adds money (or removes it: a correction by the operator).
	TopUp EntryKind = "topup"
	// Hold reserves money for a request. It changes no balance; open holds
	// reduce what is available.
	Hold EntryKind = "hold"
	// Checkpoint records what a running request has used; it changes no balance.
	Checkpoint EntryKind = "checkpoint"
	// Settlement closes a hold and charges its request, once.
	Settlement EntryKind = "settlement"
	// Adjustment changes what a settlement charged, and names it: a re-rating, or a refund.
	Adjustment EntryKind = "adjustment"
)

// Reason says how a settled request ended.
type Reason string

const (
	// Finished: the answer is complete.
	Finished Reason = "finished"
	// Canceled: the client left, its deadline passed, or the node stopped.
	Canceled Reason = "cancelled"
	// Crashed: the process died; the next start settled what was open.
	Crashed Reason = "crashed"
	// Failed: the node failed, or withheld the answer.
	Failed Reason = "error"
)

// NeverRan is the note of a settlement that only closes what a cluster's store may have for a request that it
// admitted and that was refused after all. It charges nothing, and no sum of usage counts the request.
const NeverRan = "the request was refused before it ran"

// Entry is one append-only ledger row. Amount changes the balance: positive
// for a top-up, negative or zero for a settlement, zero for holds and checkpoints.
type Entry struct {
	ID        int64 // assigned by the store, rising
	Kind      EntryKind
	AccountID string
	RequestID string // empty for top-ups
	KeyID     string
	Model     string
	Time      time.Time
	Amount    abi.Nano
	Held      abi.Nano // Hold: the money reserved
	// Counters of the billing module: what a hold has of them, what a settlement took of
	// that, what an adjustment gives back, as a negative amount.
	Counters []abi.Counter
	Usage    abi.Usage
	Tier     int    // 1, or 2 for the long-context rates
	Reason   Reason // Settlement, and what corrects one that another node wrote
	// ModuleDigest and InputHash name the billing module and the exact input
	// that gave Amount; Provisional marks a charge made by the built-in tariff
	// in place of a module that failed. ChargeInput is that input, byte for byte:
	// the module can be run on it again. A hold says who made its quote, and whether
	// that stood in for the operator's module.
	ModuleDigest string
	InputHash    string
	ChargeInput  []byte
	Provisional  bool
	// NeverHeld says of a settlement that no hold of its request was ever sent to
	// the store: there is none to close. It is not stored.
	NeverHeld bool
	Settles   int64 // Adjustment: ID of the settlement it adjusts; of a refund, 0 stands for that of its request
	// Refund says of an adjustment that it takes back all that its settlement and
	// a re-rating charged, since the client did not get its answer. The store computes Amount.
	Refund bool
	Note   string // TopUp, Adjustment: the operator's words; Settlement: NeverRan or nothing
	Source Source // Settlement
	// What follows is for a store that many nodes share, which does not keep it in the row.
	// Granted says of a hold that a grant of its node covers it. It says so of a settlement that
	// took the place of such a hold (NeverHeld).
	Granted *Granted `json:",omitempty"`
	// Spent is what the request of a settlement really used of token buckets, in place of what admission took.
	Spent int64 `json:",omitzero"`
}

// Granted is what a request has of a grant.
type Granted struct {
	Number int64 // of the grant
	Tokens int64 // taken of the account's bucket
	Held   abi.Nano
	// The grant did not count these: the account did not have such a limit.
	AnyPermits, AnyMoney bool `json:",omitzero"`
}

// OldestPeriod is the period, of a day or a month, before which no counter is asked for any
// more: that of the month before now. Periods compare as texts.
func OldestPeriod(now time.Time) string {
	return now.UTC().AddDate(0, 0, -32).Format("2006-01")
}

// CounterUse is what an account used of a counter in a period, and what its open holds have of it.
type CounterUse struct {
	Name   string `json:"name" doc:"The module and its counter, such as free-tier/tokens."`
	Period string `json:"period" doc:"A day or a month, in UTC, such as 2026-11."`
	Used   int64  `json:"used"`
	Held   int64  `json:"held" doc:"Reserved by requests that run."`
	Limit  int64  `json:"limit" doc:"The largest that a quote of the period said."`
}

// Source is which server elsewhere answered a request; zero for an engine of the node's own.
type Source struct {
	Replica   string // its base URL
	RequestID string // what it calls the request
	// Usage is "reported" where the server counted the tokens, "counted" where the node did.
	Usage string
}

// Call is one prepared request of an account. It owns all it holds.
type Call struct {
	RequestID string // unique among the live requests
	Account   Account
	Key       LimitedKey
	Request   *engine.Request
	SessionID string // X-Session-Id, or ""
	Protocol  string // what the client speaks: "messages", "chat", "responses", or that of a module
	// Translator is the module that reads and writes Protocol; empty without one.
	Translator string
	// Peer is the node that forwarded the request, limits and bills it.
	Peer Peer
	// Priority is what Peer gave it among requests that wait; 0 without one.
	Priority int8
}

// Settled is how a request ended and what it cost.
type Settled struct {
	Charge abi.Nano
	Usage  abi.Usage // what is billed
	Reason Reason
	// Source is the server elsewhere that answered, Attempts on how many it was tried; zero
	// for an engine of the node's own.
	Source   Source
	Attempts int
	// Where its time went. A phase that was not reached is zero.
	Admission time.Duration // Generate called -> the stepper has the job
	Hold      time.Duration // from then until its row, or what took its place, was durable, beside what follows; 0 without one
	Queue     time.Duration // until its first step
	Prefill   time.Duration // until its first output token
	Decode    time.Duration // until its end
	Done      time.Time     // its end
	// How long modules took of Admission and of the settlement, and whose the price is by its digest.
	Quote, Verdict, Price time.Duration
	Billing               string
	Session               [16]byte // names its conversation, and nobody can tell whose it is
	// Attempted are the tries of servers elsewhere, of a request whose trace records them.
	Attempted []engine.Attempt
}

// Refused is the cause of a refusal for which modules or servers elsewhere were asked first, of a request whose trace records that.
type Refused struct {
	Settled Settled // has what was asked, and nothing else
	Err     error   // why it is refused; may be nil
}

// Error is that of the cause: what was asked is for the trace.
func (r *Refused) Error() string {
	if r.Err == nil {
		return "the cause is not told"
	}
	return r.Err.Error()
}

// Unwrap returns the cause.
func (r *Refused) Unwrap() error { return r.Err }

// Kept says whether the ledger never refuses the row: settlements and refunds.
func (e Entry) Kept() bool { return e.Kind == Settlement || e.Refund }

// Withheld returns the settlement of the same request when its client gets an
// error instead of the answer: it is free, and names the server that was asked.
func (e Entry) Withheld() Entry {
	return Entry{Kind: e.Kind, AccountID: e.AccountID, RequestID: e.RequestID, KeyID: e.KeyID, Model: e.Model,
		Time: e.Time, Reason: Failed, NeverHeld: e.NeverHeld, Granted: e.Granted, Spent: e.Spent,
		Source: Source{Replica: e.Source.Replica, RequestID: e.Source.RequestID}}
}
