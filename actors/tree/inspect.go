package tree

import (
	"maps"
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/actors/limiter"
)

// accountsShown bounds the accounts of a Status.
const accountsShown = 200

// Status is the state of the tree, for people. It holds no session keys.
type Status struct {
	Draining    bool
	Requests    int // live, waiting ones included
	DeadLetters uint64
	Abandoned   uint64 // as in Counters, like the next two
	SelfSettled uint64
	Expired     uint64
	Branches    map[string]int // mailbox depth by actor
	Failures    map[string]uint64
	Models      []batcher.Stats
	Ledger      ledger.Stats
	Limiters    int
	Accounts    map[string]AccountState // some of them
	Sessions    int
	Pins        int
	PinnedBytes int64
}

// AccountState is one limiter.
type AccountState struct {
	Depth int // of its mailbox
	State account.Limits
}

// Actors returns the names of all kinds of actors, sorted.
func Actors() []string { return slices.Sorted(maps.Keys(policies)) }

// Down returns the ids of models that failed too often and are not served any more.
func (t *Tree) Down() (ids []string) {
	for id, m := range t.models {
		if m.unit.Stats().Down {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Ledger returns the counters of the ledger.
func (t *Tree) Ledger() ledger.Stats { return t.journal.Stats() }

// Inspect returns the state of the tree.
func (t *Tree) Inspect() Status {
	s := Status{Draining: t.draining.Load(), Requests: t.requests.len(), DeadLetters: t.sys.DeadLetters(),
		Branches: map[string]int{}, Failures: map[string]uint64{}, Accounts: map[string]AccountState{},
		Ledger: t.journal.Stats(), Limiters: t.limits.Len(), Sessions: t.sessions.Len()}
	c := &t.counters
	s.Abandoned, s.SelfSettled, s.Expired = c.Abandoned.Load(), c.SelfSettled.Load(), c.Expired.Load()
	for i, name := range []string{limitsActor, sessionsActor, modelsActor} {
		s.Branches[name] = t.branches[i].Depth()
	}
	s.Branches[ledgerActor] = t.ledger.Depth()
	for _, name := range Actors() {
		s.Failures[name] = t.counters.Failures(name)
	}
	for _, m := range t.units {
		s.Models = append(s.Models, m.unit.Stats())
	}
	now := time.Now()
	t.limits.Each(accountsShown, func(id string, depth int, c *limiter.Cell) {
		st, _ := c.Limits(account.LimitedKey{}, now)
		s.Accounts[id] = AccountState{depth, st}
	})
	s.Pins, s.PinnedBytes = t.budget.Total()
	return s
}
