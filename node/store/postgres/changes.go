package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
)

const (
	// channel hurries who follows changes. Nothing rests on it.
	channel = "corenode_changes"
	// changesKept is how long a change stays; who did not follow for longer reads everything again.
	changesKept = time.Hour
	// changesMax is the most changes that are told one by one.
	changesMax = 10_000
	// listenAgain is the wait before a connection that listened is made again.
	listenAgain = time.Second
)

// forgetFuture removes changes of a dump that was restored into a server whose transactions are
// numbered from lower on: they would never become known.
const forgetFuture = `DELETE FROM changes WHERE at >= pg_snapshot_xmax(pg_current_snapshot())`

// forgetOld replaces old changes by one row, which says that there were some.
const forgetOld = `WITH old AS (DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE time < now() - make_interval(secs => $1)
		ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING at, time)
	INSERT INTO changes (at, time, topic, subject) SELECT at, time, 'all', '' FROM old ORDER BY at DESC LIMIT 1`

const notify = `SELECT pg_notify($1, '')`

// change tells all nodes that an account, its keys or its money is not what it was, in the transaction that changes it.
func change(ctx context.Context, tx pgx.Tx, accountID string) error {
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO changes (topic, subject) VALUES ($1, $2)`, store.TopicAccount, clean(accountID))
	b.Queue(forgetOld, changesKept.Seconds())
	b.Queue(notify, channel)
	return tx.SendBatch(ctx, b).Close()
}

// hurry wakes who listens when the transaction commits.
func hurry(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, notify, channel)
	return err
}

// A position is a snapshot, and the run of a server that it is of. After a failover what a node has followed may be gone, and the
// numbers of those transactions taken again: who was elsewhere reads everything.
const (
	positionMark = "@"
	serverRun    = `extract(epoch FROM pg_postmaster_start_time())::text`
	positionNow  = `pg_current_snapshot()::text || '` + positionMark + `' || ` + serverRun
)

// knownHere is the snapshot of a position, the parameter $9; null where that is of another run.
const knownHere = `CASE WHEN split_part($9::text, '` + positionMark + `', 2) = ` + serverRun + `
	THEN nullif(split_part($9::text, '` + positionMark + `', 1), '')::pg_snapshot END`

// Position implements store.Nodes.
func (s *Store) Position(ctx context.Context) (p store.Position, err error) {
	err = s.pool.QueryRow(ctx, `SELECT `+positionNow).Scan(&p)
	return p, wrapped(known(err), "read the position of changes")
}

// Changes implements store.Nodes: rows whose transactions are visible now and were not at since. So
// none is missed that committed late, and no long transaction of others holds one up.
func (s *Store) Changes(ctx context.Context, since store.Position) (all []store.Change, behind store.Position, err error) {
	snapshot, run, _ := strings.Cut(string(since), positionMark)
	rows, err := s.pool.Query(ctx, `SELECT `+positionNow+`, coalesce(c.topic, ''), coalesce(c.subject, '')
		FROM (SELECT 1) one LEFT JOIN (SELECT DISTINCT topic, subject FROM changes
			WHERE at >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(at, $1::text::pg_snapshot)
			LIMIT $2) c ON true`, snapshot, changesMax+1)
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			var c store.Change
			if err = rows.Scan(&behind, &c.Topic, &c.Subject); err != nil {
				break
			}
			if c.Topic != "" {
				all = append(all, c)
			}
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
	}
	if err != nil {
		return nil, since, fmt.Errorf("read changes: %w", known(err))
	}
	if _, now, _ := strings.Cut(string(behind), positionMark); now != run || len(all) > changesMax {
		all = []store.Change{{Topic: store.TopicAll}}
	}
	return all, behind, nil
}

// Listen implements store.Nodes, on a connection of its own.
func (s *Store) Listen(ctx context.Context, heard func()) {
	for ctx.Err() == nil {
		_ = s.listen(ctx, heard) // whatever it was: who polls does not need it
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
		}
	}
}

func (s *Store) listen(ctx context.Context, heard func()) error {
	return s.apart(ctx, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, `LISTEN `+channel); err != nil {
			return err
		}
		for {
			heard() // once for what came before
			if _, err := c.WaitForNotification(ctx); err != nil {
				return err
			}
		}
	})
}

// apart gives use a connection that is none of the pool, and closes it.
func (s *Store) apart(ctx context.Context, use func(*pgx.Conn) error) error {
	to := s.pool.Config().ConnConfig
	s.renew(to)
	c, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), leaveMax)
		defer cancel()
		_ = c.Close(closing)
	}()
	return use(c)
}

// Unaware implements store.Nodes. A node that is silent for the lease admits nothing, and reads what changed before it does again.
func (s *Store) Unaware(ctx context.Context, topic, subject string) (ids []string, err error) {
	rows, err := s.pool.Query(ctx, `SELECT id FROM nodes WHERE `+live+` AND (known IS NULL OR EXISTS (SELECT 1 FROM changes c
		WHERE c.topic = $2 AND c.subject = $3 AND NOT pg_visible_in_snapshot(c.at, known))) ORDER BY id`, s.lease.Seconds(), topic, clean(subject))
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return ids, wrapped(known(err), "ask which nodes know a change")
}
