package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/node/store/rules"
	"corenode/wasm/abi"
)

// sweepMax bounds what one call of Sweep or SettleDead looks at.
const sweepMax = 300

// Wanted implements store.Cluster.
func (s *Store) Wanted() (ids []string, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT account_id FROM grants WHERE node = $1 AND wanted ORDER BY account_id`, s.node)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	return ids, wrapped(err, "read wanted grants")
}

// Grants implements store.Cluster.
func (s *Store) Grants() (all []store.NodeGrant, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		return each(ctx, tx, `SELECT `+grantColumns+` FROM grants ORDER BY account_id, node`, func(r pgx.Rows) error {
			g, err := scanGrant(r)
			if err == nil {
				all = append(all, store.NodeGrant{Node: g.node, AccountID: g.account, Left: g.left(),
					Until: rules.ToTime(g.until), Wanted: g.wanted})
			}
			return err
		})
	})
	return all, wrapped(err, "read grants")
}

// Sweep implements store.Cluster. What it finds is looked at again under the locks of its accounts.
func (s *Store) Sweep() (more bool, err error) {
	var b limit.Batch
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		b = limit.Batch{}
		now, err := s.databaseTime(ctx, tx)
		if err != nil {
			return err
		}
		err = each(ctx, tx, `SELECT DISTINCT account_id FROM grants WHERE until <= $1 LIMIT $2`, func(r pgx.Rows) error {
			var ended limit.Return // of a grant that no node has: its account is locked, and what ended there ends
			err := r.Scan(&ended.AccountID)
			b.Returns = append(b.Returns, ended)
			return err
		}, now.UnixNano(), sweepMax)
		if err != nil {
			return err
		}
		return each(ctx, tx, `SELECT o.request_id, o.account_id FROM nodes n JOIN (SELECT request_id, account_id, node, fence FROM open_holds
			WHERE permit UNION ALL SELECT request_id, account_id, node, fence FROM open_permits) o ON o.node = n.id AND o.fence < n.fence
			WHERE n.fenced < now() - make_interval(secs => $1) LIMIT $2`, func(r pgx.Rows) error {
			var q limit.Release
			err := r.Scan(&q.RequestID, &q.AccountID)
			b.Releases = append(b.Releases, q)
			return err
		}, s.lease.Seconds(), sweepMax)
	})
	if err == nil && len(b.Returns)+len(b.Releases) > 0 {
		err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error { return s.sweep(ctx, tx, b) })
	}
	if err == nil {
		err = s.forgetNodes()
	}
	return max(len(b.Returns), len(b.Releases)) == sweepMax, wrapped(err, "take back what ended")
}

func (s *Store) sweep(ctx context.Context, tx pgx.Tx, b limit.Batch) error {
	w, err := s.lock(ctx, tx, b) // grants end by that
	if err != nil {
		return err
	}
	for _, r := range b.Releases {
		if q := w.open[r.RequestID]; q != nil && w.accounts[q.account] != nil && q.Permit {
			w.takePermit(q)
		}
	}
	return w.write(ctx, tx, oneByOne)
}

// takePermit takes a permit from a request whose node was fenced. Its tokens are corrected with its settlement.
func (w *work) takePermit(q *request) {
	a := w.accounts[q.account]
	a.state.Leave(limit.Leave{RequestID: q.RequestID}, w.now)
	a.overshot++ // it may still run
	q.Permit, q.changed, q.ended = false, true, q.free
}

func (s *Store) databaseTime(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	if s.clock != nil {
		return s.clock(), nil
	}
	ns, err := number(ctx, tx, databaseClock)
	return rules.ToTime(ns), err
}

// claimFor is how long a node has the holds of a dead one that it settles to itself.
const claimFor = time.Minute

// SettleDead implements store.Cluster.
func (s *Store) SettleDead(grace time.Duration, rate func(*account.Entry, map[string]abi.Prices) error,
	leftOut func(account.Entry, error)) (settled []account.Entry, err error) {
	var ids []string
	nodes := map[string]string{} // by request
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE open_holds o SET claimed = now() + make_interval(secs => $3) WHERE request_id IN (
			SELECT o.request_id FROM open_holds o JOIN nodes n ON n.id = o.node AND n.fence > o.fence
			WHERE n.fenced < now() - make_interval(secs => $1) AND o.claimed < now() LIMIT $2 FOR UPDATE OF o SKIP LOCKED)
			RETURNING request_id, node`, grace.Seconds(), sweepMax, claimFor.Seconds())
		if err != nil {
			return err
		}
		var id, node string
		ids = nil
		_, err = pgx.ForEachRow(rows, []any{&id, &node}, func() error {
			ids, nodes[id] = append(ids, id), node
			return nil
		})
		return err
	})
	if err != nil || len(ids) == 0 {
		return nil, wrapped(err, "claim the holds of dead nodes")
	}
	slices.Sort(ids)
	holds, err := s.openHolds(`WHERE o.request_id = ANY ($1)`, ids)
	if err != nil {
		return nil, err
	}
	prices := map[string]map[string]abi.Prices{}
	for _, id := range ids {
		if _, read := prices[nodes[id]]; read {
			continue
		}
		if prices[nodes[id]], err = s.keptPrices(nodes[id]); err != nil {
			return nil, err
		}
	}
	return store.SettleHolds(s, holds, func(e *account.Entry) error {
		return rate(e, prices[nodes[e.RequestID]])
	}, leftOut)
}
