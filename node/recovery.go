package main

import (
	"fmt"
	"maps"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/extensions"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// replayBatch is how many rows of the spill journal one transaction takes.
const replayBatch = 256

// damageSaid is how many bytes of damaged rows a log line has.
const damageSaid = 16 << 10

// settleFormer settles what processes before this one left: rows in the spill journal, and open requests. Loaded modules serve
// only then.
func (n *node) settleFormer() error {
	if err := n.replaySpilled(); err != nil {
		return err
	}
	if err := n.settleCrashed(); err != nil {
		return err
	}
	close(n.settled)
	n.followCommons()
	return nil
}

// replaySpilled brings what an outage left in the spill journal to the store. A
// row that it rejects is said and left out: it was never valid. So is one that
// cannot be read, as it stands there, since the journal forgets it.
func (n *node) replaySpilled() error {
	rows := n.spill.Rows()
	if rows == 0 {
		return nil
	}
	for _, d := range n.spill.Damaged() {
		n.log.Error("the spill journal is damaged", "byte", d.At, "length", len(d.Bytes), "rows", fmt.Sprintf("%.*q", damageSaid, d.Bytes))
	}
	leftOut := func(e account.Entry, err error) {
		n.log.Error("a spilled row is not valid", "kind", e.Kind, "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	}
	err := n.spill.Batches(replayBatch, func(batch []account.Entry) (int, error) {
		return ledger.Replay(batch, replayBatch, n.store.Append, store.Rejects, leftOut)
	})
	if err != nil {
		return fmt.Errorf("replay the spill journal: %w", err)
	}
	n.log.Warn("replayed the spill journal", "rows", rows)
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
	rate, done := n.rateLeft()
	defer done()
	rated := func(e *account.Entry) error { return rate(e, before) }
	settled, err := store.SettleOpenHolds(n.store, rated, func(e account.Entry, err error) {
		n.log.Error("a request that a crash left open cannot be settled", "id", e.RequestID, "account", e.AccountID,
			"amount_nano_usd", int64(e.Amount), "error", err.Error())
	})
	n.tellSettled("settled a request that a crash left open", settled)
	if now := n.listed(); err == nil && !maps.Equal(before, now) {
		err = n.store.KeepPrices(now)
	}
	return err
}

// tellSettled logs what was settled in the place of a process that is gone, and counts what is to be rated again.
func (n *node) tellSettled(msg string, settled []account.Entry) {
	for _, e := range settled {
		n.log.Warn(msg, "id", e.RequestID, "account", e.AccountID, "model", e.Model, "charge_nano_usd", int64(-e.Amount))
		if e.Provisional {
			n.provisional.Add(1)
		}
	}
}

// rater charges what a killed process left open. before are the prices of that process.
type rater = func(e *account.Entry, before map[string]abi.Prices) error

// rateLeft is rateCrashed with the modules that it opens, which done gives back.
func (n *node) rateLeft() (rate rater, done func()) {
	by := n.modules.Settling()
	return func(e *account.Entry, before map[string]abi.Prices) error { return n.rateCrashed(by, e, before) }, by.Close
}

// rateCrashed charges what a killed process left open, by the module that
// quoted it, also when another one serves by now; the hold's time is the
// quote's. Should that module be of no use, the one that serves charges. What
// was provisional stays so.
func (n *node) rateCrashed(by *extensions.Settling, e *account.Entry, before map[string]abi.Prices) error {
	prices, ok := rules.PricesAt(before, e.Model, e.Time)
	if !ok { // it kept none
		var err error
		if prices, err = n.modules.Prices(e.Model); err != nil { // a model that is not served any more
			e.Provisional, e.Note, e.ModuleDigest = true, "the model has no price now", ""
			e.Counters = abi.Settled(e.Counters, e.Usage)
			return nil
		}
	}
	in := abi.ChargeInput{Prices: prices, Usage: e.Usage, At: e.Time.Unix(), Model: e.Model, Account: e.AccountID}
	c, err := by.RateBy(e.ModuleDigest, in, e.Counters)
	if err != nil {
		n.log.Warn("the module that quoted a request cannot charge it", "id", e.RequestID, "module", e.ModuleDigest, "error", err.Error())
		c, err = n.modules.Rate(e.RequestID, in, nil)
		c.Provisional, c.Counters = true, abi.Settled(e.Counters, e.Usage) // all of it, until it is rated again
	}
	e.Amount, e.Tier, e.Provisional = -c.Amount, c.Tier, e.Provisional || c.Provisional
	e.ModuleDigest, e.InputHash, e.ChargeInput, e.Counters = c.ModuleDigest, c.InputHash, c.Input, c.Counters
	return err
}

const (
	// deadGrace is how long a node that was counted out has to settle its own requests. Then another does.
	deadGrace = 15 * time.Minute
	// sweepsMax bounds what one tick takes back: the next one goes on.
	sweepsMax = 10
)

// sweep takes back what has ended in a database that nodes share, as each of them does, until the node is stopped.
func (n *node) sweep() {
	d := n.database
	ticks := time.NewTicker(d.rows.Lease() / 10)
	defer ticks.Stop()
	for settled := time.Now(); ; {
		select {
		case <-ticks.C:
		case <-n.stopped:
			return
		}
		if d.Ready() != nil {
			continue // whoever is heard does it
		}
		for range sweepsMax {
			more, err := d.rows.Sweep()
			if err != nil {
				n.log.Warn("what has ended is not taken back yet", "error", err.Error())
			}
			if err != nil || !more {
				break
			}
		}
		if time.Since(settled) < deadGrace/15 {
			continue
		}
		settled = time.Now()
		rate, giveBack := n.rateLeft()
		done, err := d.rows.SettleDead(deadGrace, rate, func(e account.Entry, err error) {
			n.log.Error("a request of a node that is gone cannot be settled", "id", e.RequestID, "account", e.AccountID,
				"amount_nano_usd", int64(e.Amount), "error", err.Error())
		})
		giveBack()
		if err != nil {
			n.log.Warn("requests of nodes that are gone are not settled yet", "error", err.Error())
		}
		n.tellSettled("settled a request of a node that is gone", done)
	}
}
