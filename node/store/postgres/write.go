package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/actors/limit"
	"corenode/node/store/rules"
)

// queueOpen writes what open requests have now: new ones, changed ones, and those that end.
func (w *work) queueOpen(b *pgx.Batch) {
	var fresh, changed, permits []*request
	var ended, endedFree []string
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		q, a := w.open[id], w.accounts[w.open[id].account]
		if a == nil {
			continue
		}
		if now, open := a.state.Open(id); open && (now.Hold != q.Hold || now.KeyHold != q.KeyHold) {
			q.Hold, q.KeyHold, q.changed = now.Hold, now.KeyHold, true
		}
		switch {
		case q.fresh && q.ended:
		case q.ended && q.free:
			endedFree = append(endedFree, id)
		case q.ended:
			ended = append(ended, id)
		case q.fresh && q.free:
			permits = append(permits, q)
		case q.fresh:
			fresh = append(fresh, q)
		case q.changed && !q.free:
			changed = append(changed, q)
		}
	}
	if len(fresh) > 0 {
		b.Queue(`INSERT INTO open_holds (request_id, account_id, held, hold_id, checkpoint_id, node, fence, reserved, upper, permit, gone,
			taken, arrival, key_id, key_held, key_taken)
			SELECT request_id, account_id, held, hold_id, 0, $13, $14, reserved, upper, permit, gone, taken, arrival, key_id, key_held,
			key_taken
			FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::boolean[],
			$9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $15::bigint[]) AS t (request_id, account_id, held, hold_id, reserved,
			upper, permit, gone, taken, arrival, key_id, key_held, key_taken)`,
			column(fresh, func(q *request) string { return q.RequestID }), column(fresh, func(q *request) string { return q.account }),
			column(fresh, func(q *request) int64 { return int64(q.held) }), column(fresh, func(q *request) int64 { return q.holdID }),
			column(fresh, func(q *request) int64 { return int64(q.Hold) }), column(fresh, func(q *request) int64 { return int64(q.Upper) }),
			column(fresh, func(q *request) bool { return q.Permit }), column(fresh, func(q *request) bool { return q.gone }),
			column(fresh, func(q *request) int64 { return q.taken }), column(fresh, func(q *request) int64 { return int64(q.Arrival) }),
			column(fresh, func(q *request) string { return q.KeyID }), column(fresh, func(q *request) int64 { return int64(q.KeyHold) }),
			w.s.node, w.fence, column(fresh, func(q *request) int64 { return q.keyTaken }))
	}
	if len(permits) > 0 {
		b.Queue(`INSERT INTO open_permits SELECT t.*, $3, $4 FROM unnest($1::text[], $2::text[]) AS t`,
			column(permits, func(q *request) string { return q.RequestID }), column(permits, func(q *request) string { return q.account }),
			w.s.node, w.fence)
	}
	if len(changed) > 0 {
		b.Queue(`UPDATE open_holds o SET reserved = t.reserved, key_held = t.key_held, permit = t.permit, gone = t.gone
			FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[], $5::boolean[]) AS t (id, reserved, key_held, permit, gone)
			WHERE o.request_id = t.id`,
			column(changed, func(q *request) string { return q.RequestID }),
			column(changed, func(q *request) int64 { return int64(q.Hold) }),
			column(changed, func(q *request) int64 { return int64(q.KeyHold) }), column(changed, func(q *request) bool { return q.Permit }),
			column(changed, func(q *request) bool { return q.gone }))
	}
	if len(ended) > 0 {
		b.Queue(`DELETE FROM open_holds WHERE request_id = ANY ($1)`, ended)
	}
	if len(endedFree) > 0 {
		b.Queue(`DELETE FROM open_permits WHERE request_id = ANY ($1)`, endedFree)
	}
	if len(w.points) > 0 {
		ids := slices.Sorted(maps.Keys(w.points))
		b.Queue(`UPDATE open_holds o SET checkpoint_id = t.id FROM unnest($1::text[], $2::bigint[]) AS t (request_id, id)
			WHERE o.request_id = t.request_id`, ids, column(ids, func(id string) int64 { return w.points[id] }))
	}
}

// column is one value of each.
func column[T, V any](all []T, of func(T) V) []V {
	values := make([]V, len(all))
	for i := range all {
		values[i] = of(all[i])
	}
	return values
}

// now is what is to be written of an account.
func (a *held) now(shorts int64) row {
	k, lent := a.state.Kept(), a.lent()
	r := row{permits: int64(k.Permits - lent.Permits), held: int64(k.Held - lent.Money), shorts: shorts, arrivals: int64(k.Arrivals),
		overshot: a.was.overshot + a.overshot, capacity: k.Bucket.Capacity, parts: k.Bucket.Parts, at: rules.FromTime(k.Bucket.At)}
	if k.Bucket.Capacity == 0 || k.Bucket.Full() {
		r.capacity, r.parts, r.at = -1, 0, 0
	}
	return r
}

// queueAccounts writes the accounts' rows, and the buckets of their keys.
func (w *work) queueAccounts(b *pgx.Batch) {
	shorts := map[string]int64{}
	for id, q := range w.open {
		if a := w.accounts[q.account]; a != nil && !q.ended {
			l, open := a.state.Open(id)
			if open && (l.Hold < l.Upper || l.KeyID != "" && l.KeyHold < l.Upper) {
				shorts[q.account]++
			}
		}
	}
	var ids []string
	nums := make([][]int64, 9)
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		a := w.accounts[id]
		now, more := a.now(shorts[id]), w.sums.Balances[id]
		w.queueKeyBuckets(b, a)
		if now == a.was && more == 0 {
			continue
		}
		ids = append(ids, id)
		for i, n := range []int64{int64(more), now.permits, now.held, now.shorts, now.arrivals, now.capacity,
			now.parts, now.at, now.overshot} {
			nums[i] = append(nums[i], n)
		}
	}
	if len(ids) > 0 {
		b.Queue(`UPDATE balances SET amount = balances.amount + t.amount, permits = t.permits, held = t.held, shorts = t.shorts,
			arrivals = t.arrivals, capacity = t.capacity, parts = t.parts, bucket_at = t.bucket_at, overshot = t.overshot
			FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
			$9::bigint[], $10::bigint[]) AS t (id, amount, permits, held, shorts, arrivals, capacity, parts, bucket_at, overshot)
			WHERE account_id = t.id`, ids, nums[0], nums[1], nums[2], nums[3], nums[4], nums[5], nums[6], nums[7], nums[8])
	}
}

// queueKeyBuckets writes the buckets of keys that have a limit.
func (w *work) queueKeyBuckets(b *pgx.Batch, a *held) {
	for _, id := range slices.Sorted(maps.Keys(a.touched)) {
		now, ok := a.state.KeyBucket(id)
		switch was, before := a.buckets[id]; {
		case ok && (!before || now != was):
			b.Queue(`INSERT INTO key_buckets (key_id, account_id, capacity, parts, bucket_at) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (key_id) DO UPDATE SET capacity = excluded.capacity, parts = excluded.parts, bucket_at = excluded.bucket_at`,
				id, a.id, now.Capacity, now.Parts, rules.FromTime(now.At))
		case before && !ok:
			b.Queue(`DELETE FROM key_buckets WHERE key_id = $1`, id)
		}
	}
}

// queueGrants writes what nodes have of accounts. A new grant gets its number with its row.
func (w *work) queueGrants(b *pgx.Batch) {
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		for _, g := range w.accounts[id].grants {
			switch {
			case g.ended:
				b.Queue(`DELETE FROM grants WHERE account_id = $1 AND node = $2 AND number = $3`, id, g.node, g.number)
			case g.changed:
				b.Queue(`INSERT INTO grants (`+grantColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
					ON CONFLICT (account_id, node) DO UPDATE SET until = excluded.until, wanted = excluded.wanted,
					given_permits = excluded.given_permits, given_tokens = excluded.given_tokens, given_money = excluded.given_money,
					moved_permits = excluded.moved_permits, moved_tokens = excluded.moved_tokens, moved_money = excluded.moved_money,
					back_permits = excluded.back_permits, back_tokens = excluded.back_tokens, back_money = excluded.back_money`,
					append([]any{id, g.node, g.fence, g.number, g.until, g.wanted}, parts(g.given, g.moved, g.back)...)...)
			}
		}
	}
}

func parts(all ...limit.Part) (values []any) {
	for _, p := range all {
		values = append(values, int64(p.Permits), p.Tokens, int64(p.Money))
	}
	return values
}
