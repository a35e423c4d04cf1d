package store

import (
	"slices"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// settleBatch bounds the rows of one transaction of SettleOpenHolds. Stopping
// between two of them is harmless: the rest is still open.
const settleBatch = 1000

// SettleOpenHolds closes every open hold of this node at its last checkpoint, for a start after a
// crash. Nothing may be running. rate gets each settlement with its usage, the time of
// its hold, the module that quoted it and whether that was provisional. It fills in the
// charge: Amount (zero or less), Tier, ModuleDigest, InputHash, ChargeInput, Provisional,
// and of Counters, which are those of the hold, what it took.
// It is not called for a hold without a checkpoint, which is free. If rate has no charge
// for a request, or the store Rejects its settlement, leftOut is called and the hold stays
// open: one request does not stop a start. The other settlements are returned for the log.
func SettleOpenHolds(s Ledger, rate func(*account.Entry) error, leftOut func(account.Entry, error)) (settled []account.Entry, err error) {
	holds, err := s.OwnHolds()
	if err != nil {
		return nil, err
	}
	return SettleHolds(s, holds, rate, leftOut)
}

// SettleHolds does so with some open holds.
func SettleHolds(s Ledger, holds []account.Entry, rate func(*account.Entry) error,
	leftOut func(account.Entry, error)) (settled []account.Entry, err error) {
	rated := holds[:0]
	for _, e := range holds {
		e.Kind, e.ID, e.Held, e.Reason, e.Tier = account.Settlement, 0, 0, account.Crashed, 1
		if e.Usage == (abi.Usage{}) {
			e.ModuleDigest, e.Provisional, e.Counters = "", false, nil
		} else if err := rate(&e); err != nil {
			leftOut(e, err)
			continue
		}
		e.Time = time.Now().UTC()
		rated = append(rated, e)
	}
	for batch := range slices.Chunk(rated, settleBatch) {
		done, err := appendValid(s, batch, leftOut)
		settled = append(settled, done...)
		if err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// appendValid appends rows in one transaction or, when one of them is
// rejected, each in its own; it returns those that are in the ledger.
func appendValid(s Ledger, entries []account.Entry, leftOut func(account.Entry, error)) (valid []account.Entry, err error) {
	if err := s.Append(entries); err == nil {
		return entries, nil
	} else if !Rejects(err) {
		return nil, err
	}
	for one := range slices.Chunk(entries, 1) {
		switch err := s.Append(one); {
		case err == nil:
			valid = append(valid, one...)
		case Rejects(err):
			leftOut(one[0], err)
		default:
			return valid, err
		}
	}
	return valid, nil
}
