package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
)

const (
	// DefaultLease is how long a node counts as live after its last renewal, if Config does not say.
	DefaultLease = 10 * time.Second
	// aliveFor is how long after its last renewal a node keeps its id from another data folder. It
	// is more than a lease: what it runs is settled by who takes its id over.
	aliveFor = 15 * time.Second
)

// Lease implements store.Nodes.
func (s *Store) Lease() time.Duration { return s.lease }

// live is the condition of nodes that may admit; $1 is the lease in seconds.
const live = `state NOT IN ('fenced', 'gone') AND renewed >= now() - make_interval(secs => $1)`

// Register implements store.Nodes. The folder that a node ran from is taken over at once: its lock
// says that the process before is gone. From another one a node of this id is store.ErrNodeTaken
// while it may still run, since its open holds would be settled under it.
func (s *Store) Register(ctx context.Context, p store.Presence) error {
	rejoins := s.fence.Load() != 0
	var fence int64
	err := s.transactionWithin(ctx, again, func(ctx context.Context, tx pgx.Tx) error {
		// What is asked for under the fence before has committed by then.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM nodes WHERE id = $1 FOR UPDATE`, s.node); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `INSERT INTO nodes (id, fence, home, version, renewed, state, address, models, models_digest,
				prices_digest, known)
			VALUES ($1, $12, $2, $3, now(), $4, $5, $6, $7, $8, `+knownHere+`)
			ON CONFLICT (id) DO UPDATE SET fence = nodes.fence + 1, home = excluded.home, version = excluded.version, renewed = now(),
				fenced = CASE WHEN nodes.state = 'fenced' THEN nodes.fenced ELSE now() END,
				started = CASE WHEN $10 THEN nodes.started ELSE now() END, drain = nodes.drain AND $10,
				state = excluded.state, address = excluded.address, models = excluded.models,
				models_digest = excluded.models_digest, prices_digest = excluded.prices_digest, known = excluded.known
			WHERE nodes.home = excluded.home OR nodes.renewed < now() - make_interval(secs => $11) RETURNING fence`,
			s.node, clean(p.Home), p.Version, string(p.State), p.Address, models(p), p.ModelsDigest, p.PricesDigest, string(p.Known),
			rejoins, aliveFor.Seconds(), s.fence.Load()+1).Scan(&fence)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNodeTaken
		}
		if err == nil {
			_, err = tx.Exec(ctx, forgetFuture)
		}
		return err
	})
	if err == nil { // the fence of a try that was rolled back may become another process's
		s.fence.Store(fence)
	}
	return wrapped(err, "register the node %s", s.node)
}

// models are never nil: the column is never null.
func models(p store.Presence) []string { return append([]string{}, p.Models...) }

// fenceLost counts out who was silent for the lease. Its lock waits for no node, and a commit that checks its
// fence FOR KEY SHARE ends before it is taken: nothing of an old fence is admitted after it.
const fenceLost = `UPDATE nodes SET state = 'fenced', fence = fence + 1, fenced = now() FROM (SELECT id AS lost FROM nodes
		WHERE state NOT IN ('fenced', 'gone') AND renewed < now() - make_interval(secs => $1) AND id <> $2
		ORDER BY id FOR UPDATE SKIP LOCKED) l
	WHERE id = lost RETURNING id`

// Renew implements store.Nodes, in one round trip.
func (s *Store) Renew(ctx context.Context, p store.Presence, fence bool) (told store.Told, err error) {
	renewed := false
	b := &pgx.Batch{}
	b.Queue(`UPDATE nodes SET renewed = now(), version = $3, state = $4, address = $5, models = $6, models_digest = $7, prices_digest = $8,
		known = `+knownHere+` WHERE id = $1 AND fence = $2 AND state <> 'fenced' RETURNING drain`,
		s.node, s.fence.Load(), p.Version, string(p.State), p.Address, models(p), p.ModelsDigest, p.PricesDigest, string(p.Known)).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				renewed = true
				if err := rows.Scan(&told.Drain); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	if fence {
		b.Queue(fenceLost, s.lease.Seconds(), s.node).Query(func(rows pgx.Rows) error {
			told.Lost, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}
	b.Queue(`SELECT `+nodeColumns+`, 0::bigint FROM nodes WHERE `+live+` ORDER BY id`, s.lease.Seconds()).Query(func(rows pgx.Rows) error {
		told.Live, err = pgx.CollectRows(rows, scanNode)
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		s.leaveReadOnly(err)
		return store.Told{}, fmt.Errorf("the database does not answer: %w", known(err))
	}
	if !renewed {
		return store.Told{}, store.ErrFenced
	}
	return told, nil
}

// nodeColumns are those of a node; $1 is the lease in seconds.
const nodeColumns = `id, fence, home, version, address, state, models, models_digest, prices_digest, coalesce(known::text, ''), drain,
	` + live + `, started, CASE WHEN renewed = '-infinity' THEN -1 ELSE extract(epoch FROM now() - renewed) END::float8`

// unread counts the changes that a node has not applied.
const unread = `(SELECT count(*) FROM changes c
	WHERE known IS NULL OR c.at >= pg_snapshot_xmin(known) AND NOT pg_visible_in_snapshot(c.at, known))`

func scanNode(r pgx.CollectableRow) (n store.Node, err error) {
	var silent float64
	err = r.Scan(&n.ID, &n.Fence, &n.Home, &n.Version, &n.Address, &n.State, &n.Models, &n.ModelsDigest, &n.PricesDigest, &n.Known,
		&n.Drain, &n.Live, &n.Started, &silent, &n.Unread)
	n.Started, n.Silent = n.Started.UTC(), time.Duration(silent*float64(time.Second))
	return n, err
}

// forgottenAfter is how long a node is out or has stopped when its row is removed, forgetEvery how often a process looks for
// such ones, forgetMax how many at a time.
const (
	forgottenAfter = 7 * 24 * time.Hour
	forgetEvery    = time.Hour
	forgetMax      = 100
)

// forgetNodes removes nodes that are gone for long and have nothing open. One that comes back all the same registers as a new one,
// with the prices that were kept for it; a process that was cut off for so long with a higher fence than it had.
func (s *Store) forgetNodes() error {
	last, now := s.forgot.Load(), time.Now()
	if last != nil && now.Sub(*last) < forgetEvery || !s.forgot.CompareAndSwap(last, &now) {
		return nil
	}
	return s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH forgotten AS (DELETE FROM nodes WHERE id IN (SELECT id FROM nodes n
				WHERE state IN ('fenced', 'gone') AND fenced < now() - make_interval(secs => $1) AND id <> $2
				AND NOT EXISTS (SELECT 1 FROM open_holds o WHERE o.node = n.id)
				AND NOT EXISTS (SELECT 1 FROM open_permits o WHERE o.node = n.id)
				AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.node = n.id)
				ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING id)
			DELETE FROM node_reports WHERE node IN (SELECT id FROM forgotten)`, forgottenAfter.Seconds(), s.node, forgetMax)
		return err
	})
}

// Nodes implements store.Nodes.
func (s *Store) Nodes(after string, limit int) (page []store.Node, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+nodeColumns+`, `+unread+` FROM nodes WHERE id > $2 ORDER BY id LIMIT $3`, s.lease.Seconds(), clean(after),
			min(max(limit, 1), store.NodesMax))
		if err == nil {
			page, err = pgx.CollectRows(rows, scanNode)
		}
		return err
	})
	return page, wrapped(err, "list nodes")
}

// AskDrain implements store.Nodes.
func (s *Store) AskDrain(id string) error {
	err := s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE nodes SET drain = true WHERE id = $2 AND `+live, s.lease.Seconds(), clean(id))
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("a live node %q: %w", id, store.ErrNotFound)
		}
		if err == nil {
			err = hurry(ctx, tx)
		}
		return err
	})
	return wrapped(err, "drain a node")
}

// leaveMax bounds how long a stop waits to say that it is one.
const leaveMax = 2 * time.Second

// leave says that this node stops, and lets another folder register as it at once. Without a
// word it is waited for aliveFor, as after a crash. Its fence ends: what it leaves open others take back and settle
// in their time, should it never come back.
func (s *Store) leave() {
	fence := s.fence.Load()
	if fence == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveMax)
	defer cancel()
	_, _ = s.pool.Exec(ctx, `UPDATE nodes SET renewed = '-infinity', state = 'gone', fence = fence + 1, fenced = now()
		WHERE id = $1 AND fence = $2 AND state <> 'fenced'`, s.node, fence)
}
