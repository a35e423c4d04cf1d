package sqlite

import (
	"fmt"
	"math"

	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// addUsage writes the sums of a batch. One that leaves an int64 would be a REAL, which the table does not take.
func (c *conn) addUsage(sums map[rules.UsageGroup]*store.UsageSum) error {
	for group, sum := range sums {
		u := sum.Usage
		err := c.exec(`INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
			requests = requests + excluded.requests, input_uncached = input_uncached + excluded.input_uncached,
			cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
			output = output + excluded.output, reasoning = reasoning + excluded.reasoning, charged = charged + excluded.charged`,
			group.AccountID, group.Day, group.Model, group.Key, sum.Requests, u.InputUncached, u.CacheRead, u.CacheWrite, u.Output,
			u.Reasoning, int64(sum.Charged))
		if err != nil {
			return fmt.Errorf("usage of %s: %w", group.AccountID, invalidRow(err))
		}
	}
	return nil
}

// Usage implements store.Store.
func (s *Store) Usage(q store.UsageQuery) (page []store.UsageSum, err error) {
	if q.Limit <= 0 || q.Limit > store.EntriesMax {
		q.Limit = store.EntriesMax
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = rules.Day(q.Since)
	}
	if !q.Until.IsZero() {
		to = rules.Day(q.Until)
	}
	after := rules.Day(q.AfterDay)
	if q.After && q.ByDay {
		from = max(from, after) // what the pages before showed is not read again
	}
	err = s.asked.viewEach(`SELECT iif(?4, day, 0) AS d, iif(?5, model, '') AS m, iif(?6, key_id, '') AS k, sum(requests), sum(input_uncached),
			sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(charged)
		FROM usage WHERE account_id = ?1 AND day BETWEEN ?2 AND ?3
		AND (NOT ?7 OR (iif(?4, day, 0), iif(?5, model, ''), iif(?6, key_id, '')) > (?8, ?9, ?10))
		GROUP BY d, m, k ORDER BY d, m, k LIMIT ?11`, func(r row) error {
		page = append(page, store.UsageSum{
			Day: rules.DayTime(r.num(0)), Model: r.text(1), KeyID: r.text(2), Requests: r.num(3), Charged: abi.Nano(r.num(9)),
			Usage: abi.Usage{InputUncached: r.num(4), CacheRead: r.num(5), CacheWrite: r.num(6), Output: r.num(7), Reasoning: r.num(8)},
		})
		return nil
	}, q.AccountID, from, to, q.ByDay, q.ByModel, q.ByKey, q.After, after, q.AfterModel, q.AfterKeyID, int64(q.Limit))
	return page, wrapped(err, "usage of %q", q.AccountID)
}
