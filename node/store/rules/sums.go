package rules

import (
	"fmt"
	"math"
	"time"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// day is the time of one in nanoseconds.
const day = int64(24 * time.Hour)

// Day is the day of a time, UTC, counted from 1970.
func Day(t time.Time) int64 { return FromTime(t) / day }

// DayTime is the first moment of a day.
func DayTime(n int64) time.Time { return ToTime(n * day) }

// Month is the first day of a time's calendar month, UTC, and that of the next.
func Month(at time.Time) (first, next int64) {
	at = at.UTC()
	day := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Day(day), Day(day.AddDate(0, 1, 0))
}

// UsageGroup is what sums of usage are kept by.
type UsageGroup struct {
	AccountID  string
	Day        int64 // of the row
	Model, Key string
}

// CounterGroup is one counter of one account.
type CounterGroup struct{ AccountID, Name, Period string }

// CounterSum is what a batch takes of a counter, and the largest limit that it names.
type CounterSum struct{ Used, Limit int64 }

// Sums are what a batch of ledger rows changes.
type Sums struct {
	Balances map[string]abi.Nano // by account; never 0
	Usage    map[UsageGroup]*store.UsageSum
	Counters map[CounterGroup]*CounterSum
}

// NewSums are those of no rows.
func NewSums() *Sums {
	return &Sums{Balances: map[string]abi.Nano{}, Usage: map[UsageGroup]*store.UsageSum{}, Counters: map[CounterGroup]*CounterSum{}}
}

// Add counts a row that was inserted. What settlements took of counters and adjustments
// give back is summed; holds are not: they are open.
func (s *Sums) Add(e *account.Entry) error {
	balance, err := addAmounts(s.Balances[e.AccountID], e.Amount)
	if err != nil {
		return err
	}
	if s.Balances[e.AccountID] = balance; balance == 0 {
		delete(s.Balances, e.AccountID)
	}
	if e.Kind != account.Settlement && e.Kind != account.Adjustment || neverRan(e) {
		return nil
	}
	for _, n := range e.Counters {
		if n.Amount == 0 {
			continue
		}
		group := CounterGroup{e.AccountID, n.Name, n.Period}
		sum := s.Counters[group]
		if sum == nil {
			sum = &CounterSum{}
			s.Counters[group] = sum
		}
		sum.Used, sum.Limit = sum.Used+n.Amount, max(sum.Limit, n.Limit) // bounded by abi.CounterMax: far from the ends
	}
	return s.addUsage(e)
}

// neverRan says whether a row only closes what a refused request had. It is in no sum of usage; see UsedRows.
func neverRan(e *account.Entry) bool {
	return e.Kind == account.Settlement && e.Note == account.NeverRan
}

// UsedRows selects the rows of the ledger that the sums of usage are of.
const UsedRows = `(kind = 'settlement' AND note <> '` + account.NeverRan + `' OR kind = 'adjustment')`

// addUsage counts what was used. Adjustments repeat the usage of their settlement: only their amount counts, but see AddLate.
func (s *Sums) addUsage(e *account.Entry) error {
	group := UsageGroup{e.AccountID, Day(e.Time), e.Model, e.KeyID}
	sum := s.Usage[group]
	if sum == nil {
		sum = &store.UsageSum{}
		s.Usage[group] = sum
	}
	var err error
	if sum.Charged, err = addAmounts(sum.Charged, -e.Amount); err != nil || e.Kind != account.Settlement {
		return err
	}
	sum.Requests++
	return addTokens(&sum.Usage, e.Usage)
}

// AddLate counts what an adjustment, which was added, has used above the settlement that it corrects, or below it.
func (s *Sums) AddLate(e *account.Entry, settled abi.Usage) error {
	more := e.Usage
	for i, n := range tokens(&more) {
		*n -= *tokens(&settled)[i] // neither is negative
	}
	return addTokens(&s.Usage[UsageGroup{e.AccountID, Day(e.Time), e.Model, e.KeyID}].Usage, more)
}

func tokens(u *abi.Usage) [5]*int64 {
	return [5]*int64{&u.InputUncached, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning}
}

func addTokens(to *abi.Usage, more abi.Usage) error {
	for i, n := range tokens(to) {
		more := *tokens(&more)[i]
		if more > 0 && *n > math.MaxInt64-more {
			return fmt.Errorf("%w: tokens of one batch overflow: %d and %d", store.ErrInvalid, *n, more)
		}
		*n += more
	}
	return nil
}

func addAmounts(a, b abi.Nano) (abi.Nano, error) {
	if (b > 0 && a > math.MaxInt64-b) || (b < 0 && a < math.MinInt64-b) {
		return 0, fmt.Errorf("%w: amounts of one batch overflow: %d and %d", store.ErrInvalid, a, b)
	}
	return a + b, nil
}
