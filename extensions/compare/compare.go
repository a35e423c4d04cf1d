// Package compare says how the answers of a shadow differ from those of the
// module that serves: how many calls by operation, what became of the charges,
// and what the first calls look like. Numbers and structure are kept, no text.
//
// A Comparison has a bounded size, however many calls it is given: a table of
// at most accountsMax accounts (see accounts), a histogram with fixed bounds,
// and the first firstMax calls that differ.
package compare

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// firstMax is how many of the calls that differ are kept, the first ones.
const firstMax = 10

// besideMax is how many modules that answered the requests are named.
const besideMax = 4

// Call is one call that two modules answered. It is not kept.
type Call struct {
	Op       abi.Op
	Account  string
	By       string // the module that answered the request, as name@version
	In       []byte
	Old, New []byte // output frames: of that module, and of the shadow
	// Fault is why the shadow has no answer, "" if it has one. New is nothing then.
	Fault string
}

// Comparison adds calls up. It may be used by several goroutines.
type Comparison struct {
	free     bool // the shadow's manifest lets it charge nothing
	counters int  // how many its manifest has
	since    time.Time

	dropped atomic.Uint64

	mu       sync.Mutex // guards what follows
	beside   []string
	ops      map[abi.Op]*Operation
	charges  *Charges
	accounts accounts
	first    []Difference
}

// New makes an empty comparison. free and the number of counters are what the shadow's manifest says.
func New(since time.Time, free bool, counters int) *Comparison {
	return &Comparison{free: free, counters: counters, since: since, ops: map[abi.Op]*Operation{}}
}

// Add compares the answers of a call, and says whether they differ.
func (c *Comparison) Add(call Call) (differ bool) {
	differ = call.Fault != "" || !bytes.Equal(call.Old, call.New)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.beside, call.By) && len(c.beside) < besideMax {
		c.beside = append(c.beside, call.By)
	}
	o := c.ops[call.Op]
	if o == nil {
		o = &Operation{Op: call.Op.String()}
		c.ops[call.Op] = o
	}
	o.Calls++
	if differ {
		o.Differ++
	}
	if call.Fault != "" {
		o.Failed++
	}
	switch call.Op {
	case abi.OpCharge:
		c.addCharge(call)
	case abi.OpQuote:
		c.addQuote(call)
	}
	if differ && len(c.first) < firstMax {
		c.first = append(c.first, differenceOf(call))
	}
	return differ
}

// Drop counts a call that there was no time to repeat.
func (c *Comparison) Drop() { c.dropped.Add(1) }

// addQuote holds what the shadow quoted to the rules.
func (c *Comparison) addQuote(call Call) {
	out, err := abi.ParseOutput(call.New)
	if err != nil || out.Status != abi.StatusOK {
		return
	}
	if q, err := abi.ParseQuote(out.Payload); err == nil {
		c.broke(probe.CheckQuote(q, c.counters))
	}
}

// broke counts a rule that an answer breaks, and says whether there is one.
func (c *Comparison) broke(p *probe.Problem) bool {
	if p == nil {
		return false
	}
	if c.charges == nil {
		c.charges = newCharges()
	}
	c.charges.AgainstRules++
	c.charges.Rule = p.What
	return true
}

// addCharge adds a charge up. One that either side did not make is only counted.
func (c *Comparison) addCharge(call Call) {
	if c.charges == nil {
		c.charges = newCharges()
	}
	in, err := abi.ParseChargeInput(call.In)
	older, okOld := chargeOf(call.Old)
	newer, okNew := chargeOf(call.New)
	if err != nil || !okOld || probe.CheckSums(older) != nil {
		return // the builtin tariff charged instead, which is repeated like any call
	}
	if !okNew || call.Fault != "" {
		c.charges.NotMade++
		return
	}
	if c.broke(probe.CheckCharge(newer, in, -1, c.free)) {
		return
	}
	c.charges.add(older.Total, newer.Total)
	c.accounts.add(call.Account, older.Total, newer.Total)
}

// chargeOf is the charge in an output frame, if it is one.
func chargeOf(frame []byte) (abi.Charge, bool) {
	out, err := abi.ParseOutput(frame)
	if err != nil || out.Status != abi.StatusOK {
		return abi.Charge{}, false
	}
	charge, err := abi.ParseCharge(out.Payload)
	return charge, err == nil
}

// Report is what the comparison has come to so far.
func (c *Comparison) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{Since: c.since, Dropped: c.dropped.Load(),
		Beside: append([]string{}, c.beside...), First: append([]Difference{}, c.first...), Operations: []Operation{}}
	for _, op := range slices.Sorted(maps.Keys(c.ops)) {
		r.Operations = append(r.Operations, *c.ops[op])
	}
	if c.charges != nil {
		charges := *c.charges
		charges.Ratios = slices.Clone(charges.Ratios)
		charges.Accounts = c.accounts.worst()
		r.Charges = &charges
	}
	return r
}
