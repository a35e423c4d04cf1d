package tree

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/actors/system"
	"corenode/extensions"
	"corenode/wasm/abi"
)

// freeExpiry is RequestExpiry of count_tokens and the like, abortGrace how long Drain waits for the streams it aborted.
const freeExpiry, abortGrace = 5 * time.Minute, 10 * time.Second

// Config of a Tree. Secret and the fields that name a key of the configuration are required; of every other the zero
// value means its default.
type Config struct {
	// Secret keys the names of sessions. Required.
	Secret []byte
	// RequestsMax is the most requests at once, waiting ones included; over it is 503. Default 4096.
	RequestsMax int
	// MailboxMax is the most messages that wait for one actor; over it is 503. Default 1024.
	MailboxMax int
	// InboxMax is the most jobs that wait for a model's next step. Default 256.
	InboxMax int
	// OutputEventsMax is how many events wait for a stream's writer before its sequence pauses. Default 256.
	OutputEventsMax int
	// LimitersMax and SessionsMax bound the actors. What admitted requests give back makes limiters beyond that.
	// Default 100,000 and 20,000.
	LimitersMax, SessionsMax int
	// AccountSessionsMax and AccountPinnedBytesMax are limits.sessions_per_account and
	// limits.pinned_bytes_per_account: they bound what the sessions of one account pin. With 0 bytes no engine gives a pin.
	AccountSessionsMax    int
	AccountPinnedBytesMax int64
	// SessionIdleMax is limits.session_idle: how long an unused session keeps its pin.
	SessionIdleMax time.Duration
	// AdmissionTimeout is the longest a request waits for its admission and its
	// place in the model's queue; over it is 503. Default 30 s.
	AdmissionTimeout time.Duration
	// SettleWait is how long a request whose owner waits for its settlement keeps its
	// permit, and how long Stop waits for settlements. Default 10 s.
	SettleWait time.Duration
	// SettleGrace is how long after its end a stream that nobody settled is settled
	// by the tree. Default 30 s.
	SettleGrace time.Duration
	// RequestExpiry is when the reservation of a request with an answer is taken back whatever its owner does. Default 24 h.
	RequestExpiry time.Duration
	// SweepEvery is the period of checkpoints, sweeps and expiry. Default 1 s.
	SweepEvery time.Duration
	// Lease is how long a cluster's store waits for a silent node before others may have what it has. Default 10 s.
	Lease time.Duration
	// RecallEvery is how often the tree asks a cluster's store whether another node needs what is idle
	// of this one's grants. Default 100 ms.
	RecallEvery time.Duration
	// ClockOff is how far the clock is off that rows and modules are told. Durations do not go by it. It is for tests.
	ClockOff time.Duration
	// SweepMax is the most actors of a kind asked by one sweep whether they are idle. Default 300.
	SweepMax int
	// CountCached makes cached input count against tokens per minute.
	CountCached bool
	Ledger      ledger.Config
	// hook is for tests only: it is called at named points inside actors and may panic.
	hook system.Hook
}

func (c Config) withDefaults() Config {
	c.RequestsMax = cmp.Or(c.RequestsMax, 4096)
	c.MailboxMax = cmp.Or(c.MailboxMax, 1024)
	c.InboxMax = cmp.Or(c.InboxMax, 256)
	c.OutputEventsMax = cmp.Or(c.OutputEventsMax, 256)
	c.LimitersMax = cmp.Or(c.LimitersMax, 100_000)
	c.SessionsMax = cmp.Or(c.SessionsMax, 20_000)
	c.AdmissionTimeout = cmp.Or(c.AdmissionTimeout, 30*time.Second)
	c.SettleWait = cmp.Or(c.SettleWait, 10*time.Second)
	c.SettleGrace = cmp.Or(c.SettleGrace, 30*time.Second)
	c.RequestExpiry = cmp.Or(c.RequestExpiry, 24*time.Hour)
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Second)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.RecallEvery = cmp.Or(c.RecallEvery, 100*time.Millisecond)
	c.SweepMax = cmp.Or(c.SweepMax, 300)
	return c
}

// Validate names every field without a default that is missing.
func (c Config) Validate() error {
	var errs []error
	if len(c.Secret) < 16 {
		errs = append(errs, fmt.Errorf("secret has %d bytes, want at least 16", len(c.Secret)))
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"account_sessions_max", int64(c.AccountSessionsMax)}, {"session_idle_max", int64(c.SessionIdleMax)},
	} {
		if f.value < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, want at least 1", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

// Model is one loaded model and the id it answers to.
type Model struct {
	ID string
	// New makes its stepper, at the start and after a failure.
	New func(wake func()) (batcher.Stepper, error)
	// PollEvery is batcher.Config.PollEvery.
	PollEvery time.Duration
	// PinBytesPerToken is what one token of a pinned prefix costs in memory; it
	// weighs sessions against AccountPinnedBytesMax. 0: the model pins nothing, and its conversations have no sessions.
	PinBytesPerToken int64
	// Load fills in how full the model is, for Policy: the counters whose names begin with
	// Model. nil: not known. It must not wait.
	Load func(*abi.Counters)
}

// Accounts tells what an account is and has now.
type Accounts interface {
	Account(id string) (account.Account, error)
	Balance(id string) (balance, held abi.Nano, err error)
}

// Billing turns tokens into money. It is called on the goroutine of the request,
// never inside an actor.
type Billing interface {
	// Quote says what the request of an id may cost; it knows the prices itself. The Quote is closed once.
	Quote(requestID string, in abi.QuoteInput) (Quote, error)
}

// Quote is the offer for one request: whatever is billed later is charged by
// what made the offer.
type Quote interface {
	// Bounds are what the charge may be, and what it may take of counters.
	Bounds() extensions.Bounds
	// Module names what made the offer, and Provisional says that it did so in
	// place of the operator's choice: its charge is to be rated again.
	Module() string
	Provisional() bool
	// Charge rates what was used of a request that holds so much of the counters.
	Charge(u abi.Usage, held []abi.Counter) (extensions.Charge, error)
	// Close gives the offer back; more than once is harmless.
	Close()
}

// Policy is the operator's say in admission, asked before the account's own
// limits, on the goroutine of the request.
type Policy interface {
	// Deciding says whether there is a policy; without one nothing is asked.
	Deciding() bool
	// Decide answers for the request of an id; an error refuses it. What denies is shown as it is.
	Decide(request string, in abi.AdmissionInput) (extensions.Decision, error)
}

// Deps is what the tree needs from the node.
type Deps struct {
	Models   []Model
	Store    ledger.Store
	Cluster  ClusterStore // Store, where many nodes share it; else nil
	Accounts Accounts
	Billing  Billing
	Policy   Policy       // may be nil
	Logger   *slog.Logger // nil: silent
	// Fatal is called once if the tree cannot go on; the node must end. It must not wait. May be nil.
	Fatal func(actor string, reason any)
}
