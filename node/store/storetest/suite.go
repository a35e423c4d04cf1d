// Package storetest is the suite of tests that every store passes. It is for tests only.
package storetest

import (
	"slices"
	"testing"
	"time"

	"corenode/node/store"
)

// Store is a store whose clock and rows a test can change.
type Store interface {
	store.Store
	SetClock(func() time.Time)
	// Exec runs SQL past the store.
	Exec(sql string) error
}

// Home is where one store keeps its rows.
type Home struct {
	// Open opens the store, which the end of the test closes. Who closes it before may open
	// it again: what it kept is there.
	Open func(testing.TB) Store
	// Dir is a folder of the store's node.
	Dir string
	// Allow is SQL that takes away what forbids to harm rows.
	Allow string
	// Harms has what to run instead of a statement of the suite; "" leaves it out.
	Harms map[string]string
	// FillUsage makes the sums of usage anew from the rows, as a migration did; nil where none does.
	FillUsage func(Store) error
}

// long are tests that write thousands of rows, or open dozens of stores.
var long = []string{"Statement", "Usage", "Verify", "VerifyCounters"}

// maker makes an empty home for each test.
type maker func(testing.TB) Home

// Run runs all tests of the suite, each on homes of its own.
func Run(t *testing.T, fresh func(testing.TB) Home) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, maker)
	}{
		{"EveryColumnComesBack", everyColumnComesBack},
		{"AppendAgainChangesNothing", appendAgainChangesNothing},
		{"LedgerRefuses", ledgerRefuses},
		{"BalanceDoesNotOverflow", balanceDoesNotOverflow},
		{"RowsCannotBeChanged", rowsCannotBeChanged},
		{"RandomHistory", randomHistory},
		{"SettleOpenHolds", settleOpenHolds},
		{"AccountHolds", accountHolds},
		{"JournalGivenAgain", journalGivenAgain},
		{"SettleOpenHoldsLeavesOut", settleOpenHoldsLeavesOut},
		{"Pages", pages},
		{"ConcurrentUse", concurrentUse},
		{"ClosedStoreRefuses", closedStoreRefuses},
		{"Accounts", accounts},
		{"ChangesAtOnceAreNotLost", changesAtOnceAreNotLost},
		{"InvalidAccountsAreRefusedInWhole", invalidAccountsAreRefusedInWhole},
		{"ModelsThatNoNodeServes", modelsThatNoNodeServes},
		{"TopUpIsDoneOncePerIdempotencyKey", topUpIsDoneOncePerIdempotencyKey},
		{"Keys", keys},
		{"PricesAreKept", pricesAreKept},
		{"SecretsStay", secretsStay},
		{"FirstStart", firstStart},
		{"ScanKeepsKeysApart", scanKeepsKeysApart},
		{"HoldersInPages", holdersInPages},
		{"AccountKeys", accountKeys},
		{"RefusedIsNotUsed", refusedIsNotUsed},
		{"Refund", refund},
		{"RefundOfNothing", refundOfNothing},
		{"RefundByHand", refundByHand},
		{"ProvisionalChargesAreRatedOnce", provisionalChargesAreRatedOnce},
		{"AuditIsAppendOnly", auditIsAppendOnly},
		{"Counters", counters},
		{"RowsHaveTheirCounters", rowsHaveTheirCounters},
		{"BadCounters", badCounters},
		{"VerifyCounters", verifyCounters},
		{"Statement", statement},
		{"Usage", usage},
		{"UsageBehindNoName", usageBehindNoName},
		{"KeyLimitsAreKept", keyLimitsAreKept},
		{"KeysAreChargedByTheMonth", keysAreChargedByTheMonth},
		{"Verify", verify},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && slices.Contains(long, test.name) {
				t.Skip("skipped in short mode: it takes up to 20 s under the race detector, and has one goroutine")
			}
			test.run(t, fresh)
		})
	}
}
