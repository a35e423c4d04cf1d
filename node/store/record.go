package store

import (
	"fmt"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// Money is what an account has and what its open holds reserve of it.
type Money struct{ Balance, Held abi.Nano }

// Holder is an account and its money.
type Holder struct {
	Account account.Account
	Money   Money
}

// HoldersMax is the most accounts that one call of Holders returns.
const HoldersMax = 1000

// EntriesMax is the most rows that one call of Entries, Statement, Usage or Audited returns.
const EntriesMax = 1000

// Query selects ledger rows of every account and kind, in the order in which they were written.
type Query struct {
	Since time.Time // rows of that time and later; zero = all
	After int64     // rows behind that one: the last ID of the page before
	Limit int       // 1 to EntriesMax; 0 = EntriesMax
}

// StatementQuery selects what moved money: top-ups, settlements and adjustments, by time.
type StatementQuery struct {
	AccountID    string // empty = all accounts
	Model, KeyID string // empty = any
	Kind         account.EntryKind
	Since, Until time.Time // rows of Since and later, and before Until; zero = no bound
	Newest       bool      // newest first; else oldest first
	After        int64     // the rows behind this one, in that order; 0 = from the first
	Limit        int       // 1 to EntriesMax; 0 = EntriesMax
}

// UsageSum is what some of an account's requests used, and what they were charged.
type UsageSum struct {
	Day      time.Time // its first moment, UTC
	Model    string
	KeyID    string
	Requests int64 // settlements
	Usage    abi.Usage
	Charged  abi.Nano // less what was given back that day
}

// UsageQuery selects sums of one account, by day, model and key.
type UsageQuery struct {
	AccountID string
	// Since and Until are days, both included: the sums of the days that they are in. Zero = no bound.
	Since, Until          time.Time
	ByDay, ByModel, ByKey bool // what sums are told apart by; the others are added up and empty
	// After asks for what is behind the sum of AfterDay, AfterModel and AfterKeyID, the last of the
	// page before: all three may be empty in one.
	After                  bool
	AfterDay               time.Time
	AfterModel, AfterKeyID string
	Limit                  int // 1 to EntriesMax; 0 = EntriesMax
}

// AuditRow is one call that changed something, or tried to.
type AuditRow struct {
	ID           int64
	Time         time.Time
	Operator     string
	Method, Path string // the verb, or a form of the console that a role forbids; its segments in braces, as documented
	Target       string // that segment, of a call that found something of that name; the digest of a module
	AccountID    string
	KeyID        string
	Status       int64
	Node         string // that was called, by its id, where nodes share a database: there Audit fills it in
}

// Verification is what Verify looked at and found wrong.
type Verification struct {
	Rows      int64 `json:"rows"`
	Accounts  int64 `json:"accounts"`
	Charges   int64 `json:"charges" doc:"Settlements."`
	OpenHolds int64 `json:"open_holds" doc:"Of requests that run."`
	// Overshot counts what ran beyond a limit, of many nodes: requests whose permit was given back since their node had been
	// counted out, and holds that came after the grant that covered them had ended.
	Overshot int64    `json:"overshot,omitempty" doc:"Requests of many nodes that may have run beyond a limit, since a node had been counted out; ever."`
	Findings []string `json:"findings" doc:"What is wrong; empty when the ledger is sound."` // at most findingsMax
}

// findingsMax bounds the findings: a ledger that is wrong once is often wrong everywhere.
const findingsMax = 100

// Found adds a finding: the rule, what breaks it, and how.
func (v *Verification) Found(rule, what, how string) {
	if len(v.Findings) < findingsMax {
		v.Findings = append(v.Findings, fmt.Sprintf("%s: %s %s", rule, what, how))
	}
}
