package store

import (
	"fmt"
	"math"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// usageGroup is what sums of usage are kept by.
type usageGroup struct {
	accountID  string
	day        int64 // of the row, UTC, counted from 1970
	model, key string
}

// day is the time of one in nanoseconds.
const day = int64(24 * time.Hour)

// UsageSum is what some of an account's requests used, and what they were charged.
type UsageSum struct {
	Day      time.Time // its first moment, UTC
	Model    string
	KeyID    string
	Requests int64 // settlements
	Usage    abi.Usage
	Charged  abi.Nano // less what was given back that day
}

// usageSums are those of one batch.
type usageSums map[usageGroup]*UsageSum

// add counts a row that was inserted. Adjustments repeat the usage of their settlement: only their amount counts.
func (all usageSums) add(e *account.Entry) error {
	if e.Kind != account.Settlement && e.Kind != account.Adjustment {
		return nil
	}
	group := usageGroup{e.AccountID, fromTime(e.Time) / day, e.Model, e.KeyID}
	sum := all[group]
	if sum == nil {
		sum = &UsageSum{}
		all[group] = sum
	}
	var err error
	if sum.Charged, err = addAmounts(sum.Charged, -e.Amount); err != nil || e.Kind != account.Settlement {
		return err
	}
	sum.Requests++
	for _, n := range []struct {
		to   *int64
		more int64
	}{
		{&sum.Usage.InputUncached, e.Usage.InputUncached}, {&sum.Usage.CacheRead, e.Usage.CacheRead},
		{&sum.Usage.CacheWrite, e.Usage.CacheWrite}, {&sum.Usage.Output, e.Usage.Output}, {&sum.Usage.Reasoning, e.Usage.Reasoning},
	} {
		if *n.to > math.MaxInt64-n.more {
			return fmt.Errorf("%w: tokens of one batch overflow: %d and %d", ErrInvalid, *n.to, n.more)
		}
		*n.to += n.more
	}
	return nil
}

// addUsage writes the sums of a batch. One that leaves an int64 would be a REAL, which the table does not take.
func (c *conn) addUsage(sums usageSums) error {
	for group, sum := range sums {
		u := sum.Usage
		err := c.exec(`INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
			requests = requests + excluded.requests, input_uncached = input_uncached + excluded.input_uncached,
			cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
			output = output + excluded.output, reasoning = reasoning + excluded.reasoning, charged = charged + excluded.charged`,
			group.accountID, group.day, group.model, group.key, sum.Requests, u.InputUncached, u.CacheRead, u.CacheWrite, u.Output,
			u.Reasoning, int64(sum.Charged))
		if err != nil {
			return fmt.Errorf("usage of %s: %w", group.accountID, invalidRow(err))
		}
	}
	return nil
}

// UsageQuery selects sums of one account, by day, model and key.
type UsageQuery struct {
	AccountID string
	// Since and Until are days, both included: the sums of the days that they are in. Zero = no bound.
	Since, Until           time.Time
	ByDay, ByModel, ByKey  bool // what sums are told apart by; the others are added up and empty
	AfterDay               time.Time
	AfterModel, AfterKeyID string // the last sum of the page before, with AfterDay; empty = from the first
	Limit                  int    // 1 to EntriesMax; 0 = EntriesMax
}

// Usage returns a page of sums in the order of day, model and key.
func (s *Store) Usage(q UsageQuery) (page []UsageSum, err error) {
	if q.Limit <= 0 || q.Limit > EntriesMax {
		q.Limit = EntriesMax
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = fromTime(q.Since) / day
	}
	if !q.Until.IsZero() {
		to = fromTime(q.Until) / day
	}
	after, begun := fromTime(q.AfterDay)/day, !q.AfterDay.IsZero() || q.AfterModel != "" || q.AfterKeyID != ""
	if begun && q.ByDay {
		from = max(from, after) // what the pages before showed is not read again
	}
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	err = s.read.each(`SELECT iif(?4, day, 0) AS d, iif(?5, model, '') AS m, iif(?6, key_id, '') AS k, sum(requests), sum(input_uncached),
			sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(charged)
		FROM usage WHERE account_id = ?1 AND day BETWEEN ?2 AND ?3
		AND (NOT ?7 OR (iif(?4, day, 0), iif(?5, model, ''), iif(?6, key_id, '')) > (?8, ?9, ?10))
		GROUP BY d, m, k ORDER BY d, m, k LIMIT ?11`, func(r row) error {
		page = append(page, UsageSum{Day: toTime(r.num(0) * day), Model: r.text(1), KeyID: r.text(2), Requests: r.num(3), Usage: abi.Usage{
			InputUncached: r.num(4), CacheRead: r.num(5), CacheWrite: r.num(6), Output: r.num(7), Reasoning: r.num(8)},
			Charged: abi.Nano(r.num(9))})
		return nil
	}, q.AccountID, from, to, q.ByDay, q.ByModel, q.ByKey, begun, after, q.AfterModel, q.AfterKeyID, int64(q.Limit))
	return page, wrapped(err, "usage of %q", q.AccountID)
}
