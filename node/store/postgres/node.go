package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// aliveFor is how long after its last renewal a node counts as one that may still run. It
// renews each second or so.
const aliveFor = 15 * time.Second

// ErrNodeTaken means that another process runs as this node: its data folder is a copy.
var ErrNodeTaken = errors.New("another process runs as this node: was its data folder copied, node.id with it?")

// Register says that this node runs, from the data folder at home. The same folder is taken
// over at once: its lock says that the process before is gone. From another one a node of this
// id is ErrNodeTaken while it may still run, since its open holds would be settled under it.
func (s *Store) Register(home, version string) error {
	err := s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `INSERT INTO nodes (id, fence, home, version, renewed) VALUES ($1, 1, $2, $3, now())
			ON CONFLICT (id) DO UPDATE SET fence = nodes.fence + 1, home = excluded.home, version = excluded.version, renewed = now()
			WHERE nodes.home = excluded.home OR nodes.renewed < now() - make_interval(secs => $4) RETURNING fence`,
			s.node, clean(home), version, aliveFor.Seconds()).Scan(&s.fence)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNodeTaken
		}
		return err
	})
	return wrapped(err, "register the node %s", s.node)
}

// Renew says that this node still runs, or gives ErrNodeTaken when another process registered
// as it.
func (s *Store) Renew(ctx context.Context) error {
	tag, err := s.pool.Exec(ctx, `UPDATE nodes SET renewed = now() WHERE id = $1 AND fence = $2`, s.node, s.fence)
	if err != nil {
		return fmt.Errorf("the database does not answer: %w", known(err))
	}
	if tag.RowsAffected() == 0 {
		return ErrNodeTaken
	}
	return nil
}

// leaveMax bounds how long a stop waits to say that it is one.
const leaveMax = 2 * time.Second

// leave lets another folder register as this node at once. Without a word it is waited for
// aliveFor, as after a crash.
func (s *Store) leave() {
	if s.fence == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveMax)
	defer cancel()
	_, _ = s.pool.Exec(ctx, `UPDATE nodes SET renewed = '-infinity' WHERE id = $1 AND fence = $2`, s.node, s.fence)
}
