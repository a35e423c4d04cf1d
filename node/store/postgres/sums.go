package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/node/store/rules"
)

// The tables of sums are changed in the order of their keys, behind the accounts' rows: who waits, waits in no circle.

func queueCounterSums(b *pgx.Batch, sums *rules.Sums) {
	groups := slices.SortedFunc(maps.Keys(sums.Counters), func(a, b rules.CounterGroup) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Period, b.Period), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range groups {
		sum := sums.Counters[n]
		b.Queue(`INSERT INTO counters (account_id, name, period, used, most) VALUES ($1, $2, $3, 0, 0) ON CONFLICT DO NOTHING`,
			clean(n.AccountID), clean(n.Name), clean(n.Period))
		b.Queue(`UPDATE counters SET used = used + $4, most = greatest(most, $5) WHERE account_id = $1 AND name = $2 AND period = $3`,
			clean(n.AccountID), clean(n.Name), clean(n.Period), sum.Used, sum.Limit)
	}
}

func queueUsage(b *pgx.Batch, sums *rules.Sums) {
	groups := slices.SortedFunc(maps.Keys(sums.Usage), func(a, b rules.UsageGroup) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.Key, b.Key))
	})
	if len(groups) == 0 {
		return
	}
	var accounts, models, keys []string
	nums := make([][]int64, 8)
	for _, g := range groups {
		sum := sums.Usage[g]
		accounts, models, keys = append(accounts, clean(g.AccountID)), append(models, clean(g.Model)), append(keys, clean(g.Key))
		u := sum.Usage
		for i, n := range []int64{g.Day, sum.Requests, u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning,
			int64(sum.Charged)} {
			nums[i] = append(nums[i], n)
		}
	}
	b.Queue(`INSERT INTO usage AS u (account_id, day, model, key_id, requests, input_uncached, cache_read, cache_write, output, reasoning, charged)
		SELECT account_id, day, model, key_id, sum(requests), sum(input_uncached), sum(cache_read), sum(cache_write), sum(output),
		sum(reasoning), sum(charged) FROM unnest($1::text[], $4::bigint[], $2::text[], $3::text[], $5::bigint[], $6::bigint[], $7::bigint[],
		$8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) AS t (account_id, day, model, key_id, requests, input_uncached,
		cache_read, cache_write, output, reasoning, charged)
		GROUP BY account_id, day, model, key_id ORDER BY account_id, day, model, key_id
		ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET requests = u.requests + excluded.requests,
		input_uncached = u.input_uncached + excluded.input_uncached, cache_read = u.cache_read + excluded.cache_read,
		cache_write = u.cache_write + excluded.cache_write, output = u.output + excluded.output,
		reasoning = u.reasoning + excluded.reasoning, charged = u.charged + excluded.charged`,
		accounts, models, keys, nums[0], nums[1], nums[2], nums[3], nums[4], nums[5], nums[6], nums[7])
}
