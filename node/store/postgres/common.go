package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"corenode/node/store"
)

// Numbers implements store.Common.
func (s *Store) Numbers(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	rows, err := s.pool.Query(ctx, `SELECT name, number FROM common`)
	if err != nil {
		return nil, known(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var number int64
		if err := rows.Scan(&name, &number); err != nil {
			return nil, err
		}
		all[name] = number
	}
	return all, known(rows.Err())
}

// Common implements store.Common.
func (s *Store) Common(name string) (value []byte, number int64, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT value, number FROM common WHERE name = $1`, name).Scan(&value, &number)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, number, wrapped(err, "read the common %s", name)
}

// SetCommon implements store.Common. A try after one whose commit was not heard of finds its own value.
func (s *Store) SetCommon(name string, before int64, value []byte) (number int64, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO common (name, number, value) VALUES ($1, 0, '') ON CONFLICT DO NOTHING`, name)
		if err != nil {
			return err
		}
		number = before + 1
		tag, err := tx.Exec(ctx, `UPDATE common SET number = $3, value = $4
			WHERE name = $1 AND (number = $2 OR number = $3 AND value = $4)`, name, before, number, value)
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrOutdated
		}
		return err
	})
	return number, wrapped(err, "change the common %s", name)
}

// nextModules raises the number of module files. Its row is locked until the commit, so that
// who reads a number finds all changes up to it.
func nextModules(ctx context.Context, tx pgx.Tx) (number int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO common (name, number, value) VALUES ($1, 1, '')
		ON CONFLICT (name) DO UPDATE SET number = common.number + 1 RETURNING number`, store.CommonModules).Scan(&number)
	return number, err
}

// PutModule implements store.Common.
func (s *Store) PutModule(m store.ModuleFile, ask bool) error {
	err := s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		number, err := nextModules(ctx, tx)
		if err != nil {
			return err
		}
		return insertModule(ctx, tx, m, number, ask)
	})
	return wrapped(err, "keep the module %s", m.Digest)
}

func insertModule(ctx context.Context, tx pgx.Tx, m store.ModuleFile, number int64, ask bool) error {
	text := func(b []byte) []byte { return append([]byte{}, b...) } // none is empty, and not absent
	_, err := tx.Exec(ctx, `INSERT INTO modules (digest, wasm, signature, config, number, asked)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $6 THEN now() END)
		ON CONFLICT (digest) DO UPDATE SET signature = excluded.signature, config = excluded.config, number = excluded.number,
			asked = coalesce(excluded.asked, modules.asked)`, m.Digest, m.Wasm, text(m.Signature), text(m.Config), number, ask)
	return err
}

// AskModule implements store.Common.
func (s *Store) AskModule(digest string) (number int64, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) (err error) {
		if number, err = nextModules(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE modules SET asked = now(), number = $2 WHERE digest = $1`, digest, number)
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrNotFound
		}
		return err
	})
	return number, wrapped(err, "ask the nodes for the module %s", digest)
}

// dropMax is how many module files are removed at a time: each may be megabytes.
const dropMax = 100

// DropModules implements store.Common.
func (s *Store) DropModules(digests []string) error {
	err := s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM modules WHERE digest IN (SELECT digest FROM modules
			WHERE digest = ANY ($1) AND coalesce(asked < now() - interval '1 hour', true) ORDER BY digest LIMIT $2 FOR UPDATE)`, digests, dropMax)
		return err
	})
	return wrapped(err, "remove module files")
}

// ModuleFiles implements store.Common.
func (s *Store) ModuleFiles(after int64, visit func(store.ModuleFile) error) (number int64, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) (err error) {
		if number, err = numberOf(ctx, tx, store.CommonModules); err != nil {
			return err
		}
		return each(ctx, tx, `SELECT digest, wasm, signature, config, coalesce(asked > now() - interval '1 hour', false)
			FROM modules WHERE number > $1 ORDER BY number, digest`, func(r pgx.Rows) error {
			var m store.ModuleFile
			if err := r.Scan(&m.Digest, &m.Wasm, &m.Signature, &m.Config, &m.Asked); err != nil {
				return err
			}
			return visit(m)
		}, after)
	})
	return number, wrapped(err, "read the module files")
}

// ModuleList implements store.Common.
func (s *Store) ModuleList() (all []store.ModuleFile, number int64, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) (err error) {
		if number, err = numberOf(ctx, tx, store.CommonModules); err != nil {
			return err
		}
		all = nil
		return each(ctx, tx, `SELECT digest, signature, config, coalesce(asked > now() - interval '1 hour', false)
			FROM modules ORDER BY number, digest`, func(r pgx.Rows) error {
			var m store.ModuleFile
			err := r.Scan(&m.Digest, &m.Signature, &m.Config, &m.Asked)
			all = append(all, m)
			return err
		})
	})
	return all, number, wrapped(err, "list the module files")
}

// ModuleWasm implements store.Common.
func (s *Store) ModuleWasm(digest string) (wasm []byte, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT wasm FROM modules WHERE digest = $1`, digest).Scan(&wasm)
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrNotFound
		}
		return err
	})
	return wasm, wrapped(err, "read the module file %s", digest)
}

func numberOf(ctx context.Context, tx pgx.Tx, name string) (int64, error) {
	return number(ctx, tx, `SELECT number FROM common WHERE name = $1`, name)
}

// Report implements store.Common.
func (s *Store) Report(r store.NodeReport) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO node_reports (node, report) VALUES ($1, $2)
				ON CONFLICT (node) DO UPDATE SET report = excluded.report`, s.node, string(text))
			return err
		})
	}
	return wrapped(err, "report of the node %s", s.node)
}

// Reports implements store.Common.
func (s *Store) Reports() (all map[string]store.NodeReport, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		all = map[string]store.NodeReport{}
		return each(ctx, tx, `SELECT n.id, coalesce(r.report::text, '{}') FROM nodes n LEFT JOIN node_reports r ON r.node = n.id
			WHERE `+live, func(rows pgx.Rows) error {
			var id, text string
			var r store.NodeReport
			if err := rows.Scan(&id, &text); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return err
			}
			all[id] = r
			return nil
		}, s.lease.Seconds())
	})
	return all, wrapped(err, "read the reports of the nodes")
}
