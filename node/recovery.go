package main

import (
	"fmt"
	"maps"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// replayBatch is how many rows of the spill journal one transaction takes.
const replayBatch = 256

// damageSaid is how many bytes of damaged rows a log line has.
const damageSaid = 16 << 10

// replaySpilled brings what an outage left in the spill journal to the store. A
// row that it rejects is said and left out: it was never valid. So is one that
// cannot be read, as it stands there, since the journal forgets it.
func (n *node) replaySpilled() error {
	entries, err := n.spill.Entries()
	if err != nil || len(entries) == 0 {
		return err
	}
	for _, d := range n.spill.Damaged() {
		n.log.Error("the spill journal is damaged", "byte", d.At, "length", len(d.Bytes), "rows", fmt.Sprintf("%.*q", damageSaid, d.Bytes))
	}
	err = ledger.Replay(entries, replayBatch, n.store.Append, store.Rejects, func(e account.Entry, err error) {
		n.log.Error("a spilled row is not valid", "kind", e.Kind, "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	})
	if err != nil {
		return fmt.Errorf("replay the spill journal: %w", err)
	}
	n.log.Warn("replayed the spill journal", "rows", len(entries))
	return n.spill.Reset()
}

// settleCrashed closes what a killed process left open: each request pays what
// was delivered at its last checkpoint, at the prices of that process. Those of
// this one are kept when they are no longer needed.
func (n *node) settleCrashed() error {
	before, err := n.store.KeptPrices()
	if err != nil {
		return err
	}
	rate := func(e *account.Entry) error { return n.rateCrashed(e, before) }
	settled, err := store.SettleOpenHolds(n.store, account.Crashed, rate, func(e account.Entry, err error) {
		n.log.Error("a request that a crash left open cannot be settled", "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	})
	for _, e := range settled {
		n.log.Warn("settled a request that a crash left open", "id", e.RequestID, "account", e.AccountID,
			"model", e.Model, "charge_nano_usd", int64(-e.Amount))
	}
	if now := n.listed(); err == nil && !maps.Equal(before, now) {
		err = n.store.KeepPrices(now)
	}
	return err
}

// rateCrashed charges what a killed process left open, by the module that
// quoted it, also when another one serves by now; the hold's time is the
// quote's. Should that module be of no use, the one that serves charges. What
// was provisional stays so. before are the prices of that process.
func (n *node) rateCrashed(e *account.Entry, before map[string]abi.Prices) error {
	prices, ok := pricesAt(before, e.Model, e.Time)
	if !ok { // it kept none
		var err error
		if prices, err = n.modules.Prices(e.Model); err != nil { // a model that is not served any more
			e.Provisional, e.Note, e.ModuleDigest = true, "the model has no price now", ""
			e.Counters = abi.Settled(e.Counters, e.Usage)
			return nil
		}
	}
	<-n.modules.Ready() // what serves is in memory then, and is not opened for each row
	in := abi.ChargeInput{Prices: prices, Usage: e.Usage, At: e.Time.Unix(), Model: e.Model, Account: e.AccountID}
	c, err := n.modules.RateBy(e.ModuleDigest, in, e.Counters)
	if err != nil {
		n.log.Warn("the module that quoted a request cannot charge it", "id", e.RequestID, "module", e.ModuleDigest, "error", err.Error())
		c, err = n.modules.Rate(e.RequestID, in, nil)
		c.Provisional, c.Counters = true, abi.Settled(e.Counters, e.Usage) // all of it, until it is rated again
	}
	e.Amount, e.Tier, e.Provisional = -c.Amount, c.Tier, e.Provisional || c.Provisional
	e.ModuleDigest, e.InputHash, e.ChargeInput, e.Counters = c.ModuleDigest, c.InputHash, c.Input, c.Counters
	return err
}
