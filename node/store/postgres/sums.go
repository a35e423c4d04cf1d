package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
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

// usage is what is added to the usage of an account, model and key in a day.
type usage struct {
	group rules.UsageGroup
	sum   *store.UsageSum
}

var addedUsage = arrays[usage]{
	text("account_id", func(u usage) string { return clean(u.group.AccountID) }),
	bigint("day", func(u usage) int64 { return u.group.Day }),
	text("model", func(u usage) string { return clean(u.group.Model) }),
	text("key_id", func(u usage) string { return clean(u.group.Key) }),
	bigint("requests", func(u usage) int64 { return u.sum.Requests }),
	bigint("input_uncached", func(u usage) int64 { return u.sum.Usage.InputUncached }),
	bigint("cache_read", func(u usage) int64 { return u.sum.Usage.CacheRead }),
	bigint("cache_write", func(u usage) int64 { return u.sum.Usage.CacheWrite }),
	bigint("output", func(u usage) int64 { return u.sum.Usage.Output }),
	bigint("reasoning", func(u usage) int64 { return u.sum.Usage.Reasoning }),
	bigint("charged", func(u usage) int64 { return int64(u.sum.Charged) }),
}

// addUsage adds rows of one key up: texts that differ may be the same ones once they are stored.
var addUsage = `INSERT INTO usage AS u (` + addedUsage.names() + `)
	SELECT account_id, day, model, key_id, sum(requests), sum(input_uncached), sum(cache_read), sum(cache_write), sum(output),
	sum(reasoning), sum(charged) FROM unnest(` + addedUsage.params(1) + `) AS t (` + addedUsage.names() + `)
	GROUP BY account_id, day, model, key_id ORDER BY account_id, day, model, key_id
	ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET requests = u.requests + excluded.requests,
	input_uncached = u.input_uncached + excluded.input_uncached, cache_read = u.cache_read + excluded.cache_read,
	cache_write = u.cache_write + excluded.cache_write, output = u.output + excluded.output,
	reasoning = u.reasoning + excluded.reasoning, charged = u.charged + excluded.charged`

func queueUsage(b *pgx.Batch, sums *rules.Sums) {
	groups := slices.SortedFunc(maps.Keys(sums.Usage), func(a, b rules.UsageGroup) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.Key, b.Key))
	})
	if len(groups) > 0 {
		b.Queue(addUsage, addedUsage.args(column(groups, func(g rules.UsageGroup) usage { return usage{g, sums.Usage[g]} }))...)
	}
}
