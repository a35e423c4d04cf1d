package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"corenode/actors/limit"
	"corenode/node/store/rules"
)

// openChanges are the open requests of which something is to be written.
type openChanges struct {
	fresh, permits, changed []*request // new with a hold, new without one, and with another hold than before
	ended, endedPermits     []string
}

// openChanges sorts the open requests by what became of them. What the state moved to a hold is taken over from it.
func (w *work) openChanges() (c openChanges) {
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
			c.endedPermits = append(c.endedPermits, id)
		case q.ended:
			c.ended = append(c.ended, id)
		case q.fresh && q.free:
			c.permits = append(c.permits, q)
		case q.fresh:
			c.fresh = append(c.fresh, q)
		case q.changed && !q.free:
			c.changed = append(c.changed, q)
		}
	}
	return c
}

var freshHolds = arrays[*request]{
	text("request_id", func(q *request) string { return q.RequestID }),
	text("account_id", func(q *request) string { return q.account }),
	bigint("held", func(q *request) int64 { return int64(q.held) }),
	bigint("hold_id", func(q *request) int64 { return q.holdID }),
	bigint("reserved", func(q *request) int64 { return int64(q.Hold) }),
	bigint("upper", func(q *request) int64 { return int64(q.Upper) }),
	boolean("permit", func(q *request) bool { return q.Permit }),
	boolean("gone", func(q *request) bool { return q.gone }),
	bigint("taken", func(q *request) int64 { return q.taken }),
	bigint("arrival", func(q *request) int64 { return int64(q.Arrival) }),
	text("key_id", func(q *request) string { return q.KeyID }),
	bigint("key_held", func(q *request) int64 { return int64(q.KeyHold) }),
	bigint("key_taken", func(q *request) int64 { return q.keyTaken }),
}

var freshPermits = freshHolds[:2] // the request and its account

var changedHolds = arrays[*request]{
	text("id", func(q *request) string { return q.RequestID }),
	bigint("reserved", func(q *request) int64 { return int64(q.Hold) }),
	bigint("key_held", func(q *request) int64 { return int64(q.KeyHold) }),
	boolean("permit", func(q *request) bool { return q.Permit }),
	boolean("gone", func(q *request) bool { return q.gone }),
}

var (
	insertHolds = `INSERT INTO open_holds (checkpoint_id, node, fence, ` + freshHolds.names() + `)
		SELECT 0, $1, $2, t.* FROM unnest(` + freshHolds.params(3) + `) AS t`
	insertPermits = `INSERT INTO open_permits (node, fence, ` + freshPermits.names() + `)
		SELECT $1, $2, t.* FROM unnest(` + freshPermits.params(3) + `) AS t`
	updateHolds = `UPDATE open_holds o SET reserved = t.reserved, key_held = t.key_held, permit = t.permit, gone = t.gone
		FROM unnest(` + changedHolds.params(1) + `) AS t (` + changedHolds.names() + `) WHERE o.request_id = t.id`
)

// queueOpen writes what open requests have now: new ones, changed ones, and those that end.
func (w *work) queueOpen(b *pgx.Batch) {
	c := w.openChanges()
	if len(c.fresh) > 0 {
		b.Queue(insertHolds, freshHolds.args(c.fresh, w.s.node, w.fence)...)
	}
	if len(c.permits) > 0 {
		b.Queue(insertPermits, freshPermits.args(c.permits, w.s.node, w.fence)...)
	}
	if len(c.changed) > 0 {
		b.Queue(updateHolds, changedHolds.args(c.changed)...)
	}
	if len(c.ended) > 0 {
		b.Queue(`DELETE FROM open_holds WHERE request_id = ANY ($1)`, c.ended)
	}
	if len(c.endedPermits) > 0 {
		b.Queue(`DELETE FROM open_permits WHERE request_id = ANY ($1)`, c.endedPermits)
	}
	if len(w.points) > 0 {
		ids := slices.Sorted(maps.Keys(w.points))
		b.Queue(`UPDATE open_holds o SET checkpoint_id = t.id FROM unnest($1::text[], $2::bigint[]) AS t (request_id, id)
			WHERE o.request_id = t.request_id`, ids, column(ids, func(id string) int64 { return w.points[id] }))
	}
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

// balance is what is to be written of an account, and what is added to its balance.
type balance struct {
	id     string
	amount int64
	row
}

var changedBalances = arrays[balance]{
	text("id", func(r balance) string { return r.id }),
	bigint("amount", func(r balance) int64 { return r.amount }),
	bigint("permits", func(r balance) int64 { return r.permits }),
	bigint("held", func(r balance) int64 { return r.held }),
	bigint("shorts", func(r balance) int64 { return r.shorts }),
	bigint("arrivals", func(r balance) int64 { return r.arrivals }),
	bigint("capacity", func(r balance) int64 { return r.capacity }),
	bigint("parts", func(r balance) int64 { return r.parts }),
	bigint("bucket_at", func(r balance) int64 { return r.at }),
	bigint("overshot", func(r balance) int64 { return r.overshot }),
}

var updateBalances = `UPDATE balances SET amount = balances.amount + t.amount, permits = t.permits, held = t.held, shorts = t.shorts,
	arrivals = t.arrivals, capacity = t.capacity, parts = t.parts, bucket_at = t.bucket_at, overshot = t.overshot
	FROM unnest(` + changedBalances.params(1) + `) AS t (` + changedBalances.names() + `) WHERE account_id = t.id`

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
	var changed []balance
	for _, id := range slices.Sorted(maps.Keys(w.accounts)) {
		a := w.accounts[id]
		now, more := a.now(shorts[id]), w.sums.Balances[id]
		w.queueKeyBuckets(b, a)
		if now != a.was || more != 0 {
			changed = append(changed, balance{id, int64(more), now})
		}
	}
	if len(changed) > 0 {
		b.Queue(updateBalances, changedBalances.args(changed)...)
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
