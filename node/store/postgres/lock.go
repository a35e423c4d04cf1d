package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// work is one batch inside its transaction: the accounts that it locked, by the arithmetic of
// package limit, and what is to be written of them. It reads everything first and writes at the end, but
// for the rows of the batch, which say by themselves what was there before.
type work struct {
	s     *Store
	now   time.Time // the database's, after the locks
	ids   []int64   // for rows and grants, rising
	place int64
	sums  *rules.Sums
	// nodes is how many are alive. fenced says that this one is not.
	nodes    int
	fenced   bool
	fence    int64
	accounts map[string]*held
	open     map[string]*request    // by id: those that the batch ends or asks for, and all of some accounts
	known    map[string]requestRows // of requests that have rows, among those of the batch
	points   map[string]int64       // the last checkpoint of a request, behind its hold
	holds    []account.Entry        // of those that were admitted
	rows     []account.Entry        // of the batch, when they are written with the rest
}

// requestRows says which rows of a request are in the ledger.
type requestRows struct{ hold, settled bool }

// held is one account whose row is locked.
type held struct {
	id    string
	state *limit.State
	was   row
	// all says that each of its open requests is told apart, with counters and keys. Else only
	// those of the batch are, and no request is short of anything.
	all      bool
	grants   []*grant
	buckets  map[string]limit.Bucket // of keys, as they were
	touched  map[string]bool         // keys whose buckets may have changed
	balance  abi.Nano
	account  account.Account
	overshot int64
}

// row is what is written of an account.
type row struct {
	permits, held, shorts, arrivals, overshot int64
	capacity, parts, at                       int64
}

// request is one that has something of its account.
type request struct {
	limit.Live
	account         string
	held            abi.Nano // what its row in the ledger says
	holdID          int64
	free            bool // it has a permit and no hold
	gone            bool // its permit and its tokens were given back
	taken, keyTaken int64
	fresh, ended    bool // it was not there before, it is to be removed
	changed         bool
}

// grant is what a node has of an account.
type grant struct {
	account, node string
	fence, number int64
	until         int64
	wanted        bool
	given, moved  limit.Part
	back          limit.Part
	changed       bool
	ended         bool
}

func (g *grant) left() limit.Part { return g.given.Minus(g.moved).Minus(g.back) }

// wants is what a batch asks the database for before it decides.
type wants struct {
	accounts []string // to be locked, sorted
	named    []string // all that rows name
	requests []string // whose open row is needed
	begun    []string // requests whose rows of the ledger are needed
	keys     []string // that are asked for
	ids      int
	asks     bool
	all      map[string]bool // accounts whose requests are to be told apart
}

func wantsOf(b limit.Batch) wants {
	w := wants{all: map[string]bool{}, ids: len(b.Rows) + 2*len(b.Asks), asks: len(b.Asks) > 0}
	for i := range b.Rows {
		e := &b.Rows[i]
		id := clean(e.AccountID)
		if w.named = append(w.named, id); e.Kind != account.Checkpoint {
			w.accounts = append(w.accounts, id)
		}
		switch e.Kind {
		case account.Hold:
			w.begun = append(w.begun, clean(e.RequestID))
		case account.Settlement:
			w.requests, w.begun = append(w.requests, clean(e.RequestID)), append(w.begun, clean(e.RequestID))
		}
	}
	for i := range b.Asks {
		p := &b.Asks[i]
		w.accounts = append(w.accounts, clean(p.AccountID))
		w.requests, w.begun = append(w.requests, clean(p.RequestID)), append(w.begun, clean(p.RequestID))
		if p.Key.ID != "" {
			w.keys = append(w.keys, clean(p.Key.ID))
		}
		if len(p.Takes) > 0 || len(p.Needs) > 0 || p.Key.Budget > 0 {
			w.all[clean(p.AccountID)] = true
		}
	}
	for _, r := range b.Releases {
		w.accounts, w.requests = append(w.accounts, clean(r.AccountID)), append(w.requests, clean(r.RequestID))
	}
	for _, r := range b.Returns {
		w.accounts = append(w.accounts, clean(r.AccountID))
	}
	slices.Sort(w.accounts)
	slices.Sort(w.named)
	w.accounts, w.named = slices.Compact(w.accounts), slices.Compact(w.named)
	return w
}

// lock locks the accounts of a batch in the order of their ids, and reads what decides about them.
// What follows the lock in the same transaction sees all that others committed before.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, batch limit.Batch) (*work, error) {
	want := wantsOf(batch)
	w := &work{s: s, nodes: 1, sums: rules.NewSums(), accounts: map[string]*held{}, open: map[string]*request{},
		known: map[string]requestRows{}, points: map[string]int64{},
		fence: s.fence.Load()}
	b := &pgx.Batch{}
	if want.asks {
		w.fenced = true
		b.Queue(`SELECT 1 FROM nodes WHERE id = $1 AND fence = $2 AND state NOT IN ('fenced', 'gone') FOR KEY SHARE`, s.node, w.fence).
			Query(func(rows pgx.Rows) error {
				w.fenced = !rows.Next()
				return nil
			})
		b.Queue(`SELECT count(*) FROM nodes WHERE `+live, s.lease.Seconds()).
			QueryRow(func(r pgx.Row) error { return r.Scan(&w.nodes) })
	}
	w.queueLocks(b, want.accounts)
	var missing []string
	if len(want.named) > 0 {
		b.Queue(`SELECT t.id FROM unnest($1::text[]) AS t (id) WHERE NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = t.id)`, want.named).
			Query(func(rows pgx.Rows) (err error) {
				missing, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
	}
	if len(want.requests) > 0 {
		w.queueRequests(b, `request_id`, want.requests)
	}
	if len(want.begun) > 0 {
		b.Queue(`SELECT request_id, kind FROM ledger WHERE request_id = ANY ($1) AND (kind = 'hold' OR kind = 'settlement')`, want.begun).
			Query(w.readKnown)
	}
	b.Queue(`SELECT nextval('ledger_id') FROM generate_series(1, $1::bigint)`, want.ids).Query(func(rows pgx.Rows) (err error) {
		w.ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	b.Queue(`SELECT place()`).QueryRow(func(r pgx.Row) error { return r.Scan(&w.place) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	slices.Sort(w.ids)
	if len(missing) > 0 {
		i := slices.IndexFunc(batch.Rows, func(e account.Entry) bool { return clean(e.AccountID) == missing[0] })
		return nil, rules.About(&batch.Rows[i], fmt.Errorf("account %q: %w", missing[0], store.ErrNotFound))
	}
	w.nodes = max(w.nodes, 1)
	return w, w.restore(ctx, tx, want)
}

// queueLocks locks accounts, and reads the clock, their grants and the buckets of their keys.
func (w *work) queueLocks(b *pgx.Batch, ids []string) {
	if len(ids) == 0 {
		return
	}
	b.Queue(`SELECT account_id, amount, permits, held, shorts, arrivals, capacity, parts, bucket_at, overshot
		FROM balances WHERE account_id = ANY ($1) ORDER BY account_id FOR NO KEY UPDATE`, ids).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				a := &held{buckets: map[string]limit.Bucket{}, touched: map[string]bool{}}
				err := rows.Scan(&a.id, &a.balance, &a.was.permits, &a.was.held, &a.was.shorts, &a.was.arrivals, &a.was.capacity,
					&a.was.parts, &a.was.at, &a.was.overshot)
				if err != nil {
					return err
				}
				w.accounts[a.id] = a
			}
			return rows.Err()
		})
	w.queueLimits(b, ids)
	b.Queue(databaseClock).QueryRow(func(r pgx.Row) error {
		var ns int64
		err := r.Scan(&ns)
		if w.now = rules.ToTime(ns); w.s.clock != nil {
			w.now = w.s.clock()
		}
		return err
	})
	b.Queue(`SELECT `+grantColumns+` FROM grants WHERE account_id = ANY ($1) ORDER BY account_id, node`, ids).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				g, err := scanGrant(rows)
				if err != nil {
					return err
				}
				if a := w.accounts[g.account]; a != nil {
					a.grants = append(a.grants, g)
				}
			}
			return rows.Err()
		})
	b.Queue(`SELECT key_id, account_id, capacity, parts, bucket_at FROM key_buckets WHERE account_id = ANY ($1)`, ids).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var key, id string
				var k limit.Bucket
				var at int64
				if err := rows.Scan(&key, &id, &k.Capacity, &k.Parts, &at); err != nil {
					return err
				}
				if k.At = rules.ToTime(at); w.accounts[id] != nil {
					w.accounts[id].buckets[key] = k
				}
			}
			return rows.Err()
		})
}

// queueLimits reads the limits of accounts behind their locks: an operator's change that these waited for is seen.
func (w *work) queueLimits(b *pgx.Batch, ids []string) {
	b.Queue(`SELECT id, unlimited, disabled, concurrency, tokens_per_minute FROM accounts WHERE id = ANY ($1)`, ids).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var a account.Account
				var concurrency int64
				if err := rows.Scan(&a.ID, &a.Unlimited, &a.Disabled, &concurrency, &a.TokensPerMinute); err != nil {
					return err
				}
				if a.Concurrency = int(concurrency); w.accounts[a.ID] != nil {
					w.accounts[a.ID].account = a
				}
			}
			return rows.Err()
		})
}

// databaseClock is the server's clock in nanoseconds, not that of the transaction's beginning.
const databaseClock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000`

const grantColumns = `account_id, node, fence, number, until, wanted, given_permits, given_tokens, given_money, moved_permits,
	moved_tokens, moved_money, back_permits, back_tokens, back_money`

func scanGrant(rows pgx.Rows) (*grant, error) {
	g := &grant{}
	err := rows.Scan(&g.account, &g.node, &g.fence, &g.number, &g.until, &g.wanted, &g.given.Permits, &g.given.Tokens, &g.given.Money,
		&g.moved.Permits, &g.moved.Tokens, &g.moved.Money, &g.back.Permits, &g.back.Tokens, &g.back.Money)
	return g, err
}

// queueRequests reads open requests by a column.
func (w *work) queueRequests(b *pgx.Batch, column string, values []string) {
	b.Queue(`SELECT request_id, account_id, held, reserved, upper, hold_id, permit, gone, taken, arrival, key_id, key_held, key_taken
		FROM open_holds WHERE `+column+` = ANY ($1) UNION ALL
		SELECT request_id, account_id, 0, 0, 0, 0, true, false, 0, 0, '', 0, 0 FROM open_permits WHERE `+column+` = ANY ($1)`, values).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				q := &request{}
				err := rows.Scan(&q.RequestID, &q.account, &q.held, &q.Hold, &q.Upper, &q.holdID, &q.Permit, &q.gone, &q.taken, &q.Arrival,
					&q.KeyID, &q.KeyHold, &q.keyTaken)
				if err != nil {
					return err
				}
				q.free = q.holdID == 0
				w.open[q.RequestID] = q
			}
			return rows.Err()
		})
}

func (w *work) readKnown(rows pgx.Rows) error {
	for rows.Next() {
		var id, kind string
		if err := rows.Scan(&id, &kind); err != nil {
			return err
		}
		k := w.known[id]
		k.hold, k.settled = k.hold || kind == string(account.Hold), k.settled || kind == string(account.Settlement)
		w.known[id] = k
	}
	return rows.Err()
}

// restore makes the states of accounts from what was read. Of those in all, and of those with a
// request that is short of something, each request is read.
func (w *work) restore(ctx context.Context, tx pgx.Tx, want wants) error {
	var whole []string
	for id, a := range w.accounts {
		if a.all = want.all[id] || a.was.shorts > 0; a.all {
			whole = append(whole, id)
		}
	}
	slices.Sort(whole)
	loaded := map[string]*limit.Loaded{}
	if len(whole) > 0 {
		if err := w.readWhole(ctx, tx, whole, want.keys, loaded); err != nil {
			return err
		}
	}
	open := map[string][]limit.Live{}
	for _, q := range w.open {
		open[q.account] = append(open[q.account], q.Live)
	}
	for id, a := range w.accounts {
		r := limit.Loaded{At: w.now}
		if known := loaded[id]; known != nil {
			r = *known
		}
		r.Account, r.Balance = a.account, a.balance
		lent := a.lent()
		k := limit.Kept{Permits: int(a.was.permits) + lent.Permits, Held: abi.Nano(a.was.held) + lent.Money,
			Arrivals: uint64(a.was.arrivals),
			Bucket:   w.bucket(limit.Bucket{Capacity: a.was.capacity, Parts: a.was.parts, At: rules.ToTime(a.was.at)})}
		if a.was.capacity < 0 {
			k.Bucket = limit.NewBucket(a.account.TokensPerMinute, w.now)
		}
		a.state = limit.Restore(r, k, open[id])
		a.state.Refill(account.LimitedKey{}, w.now)
		for key, b := range a.buckets {
			a.state.SetKeyBucket(key, w.bucket(b))
		}
		w.endGrants(a)
	}
	return nil
}

// bucket is one that was kept. After a failover to a server whose clock is behind, it refills from now on and not only
// when that clock has caught up; that time is refilled twice at most.
func (w *work) bucket(b limit.Bucket) limit.Bucket {
	if b.At.After(w.now) {
		b.At = w.now
	}
	return b
}

// readWhole reads all open requests of accounts, what they have and used of counters, and what
// was charged to the keys that are asked for, or short of their budget.
func (w *work) readWhole(ctx context.Context, tx pgx.Tx, ids, keys []string, loaded map[string]*limit.Loaded) error {
	var short []string
	for _, id := range ids {
		if loaded[id] = (&limit.Loaded{At: w.now}); w.accounts[id].was.shorts > 0 {
			short = append(short, id)
		}
	}
	b := &pgx.Batch{}
	w.queueRequests(b, `account_id`, ids)
	b.Queue(`SELECT o.request_id, n.name, n.period, n.most, n.amount FROM open_holds o JOIN ledger_counters n ON n.entry_id = o.hold_id
		WHERE o.account_id = ANY ($1) ORDER BY o.request_id, n.name`, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id string
			var n abi.Counter
			if err := rows.Scan(&id, &n.Name, &n.Period, &n.Limit, &n.Amount); err != nil {
				return err
			}
			w.open[id].Counters = append(w.open[id].Counters, n)
		}
		return rows.Err()
	})
	b.Queue(`SELECT account_id, name, period, used FROM counters WHERE account_id = ANY ($1) AND period >= $2`, ids,
		account.OldestPeriod(w.now)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id string
			var n account.CounterUse
			if err := rows.Scan(&id, &n.Name, &n.Period, &n.Used); err != nil {
				return err
			}
			loaded[id].Counters = append(loaded[id].Counters, n)
		}
		return rows.Err()
	})
	from, to := rules.Month(w.now)
	queueKeysDecided(b, ids, keys, short, from, to, func(id string, n account.KeyUse) { loaded[id].Keys = append(loaded[id].Keys, n) })
	return tx.SendBatch(ctx, b).Close()
}

// lent is what nodes have left of their grants.
func (a *held) lent() (p limit.Part) {
	for _, g := range a.grants {
		if !g.ended {
			p = p.Plus(g.left())
		}
	}
	return p
}
