package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"corenode/node/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration takes the schema from one version to the next. A binary that knows fewer
// versions than reader does not work with the schema after it: an expanding step keeps the
// reader of the step before, a contracting one, a release later, raises it. What was
// released is never edited.
type migration struct {
	reader int
	script string
}

// migrations returns the embedded scripts in order. Each begins with the line "-- reader N".
func migrations() []migration {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("postgres: embedded migrations: %v", err))
	}
	slices.Sort(names)
	all := make([]migration, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err == nil {
			_, err = fmt.Sscanf(string(text), "-- reader %d\n", &all[i].reader)
		}
		if err != nil {
			panic("postgres: " + name + ": " + err.Error())
		}
		all[i].script = string(text)
	}
	return all
}

// migrateLock is the advisory lock of migrations, in their transaction: of nodes that start
// at once, one migrates and the others see that it is done.
const migrateLock = 0x636f7265

// Who waits for a lock of a whole table has everybody wait behind it, nodes that renew their places too. So a script waits for
// stepWait at most, and tries again after stepPause, in which the others have their turn.
const stepWait, stepPause = time.Second, 2 * time.Second

// migrate runs the scripts that the database lacks, all in one transaction. A database that
// a newer binary expanded is taken as it is.
func (s *Store) migrate(ctx context.Context, all []migration) (store.Migration, error) {
	for {
		m, err := s.migrateOnce(ctx, all)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != lockNotAvailable {
			return m, err
		}
		select {
		case <-time.After(stepPause):
		case <-ctx.Done():
			return m, fmt.Errorf("another session has a table locked for long, such as a dump: %w", err)
		}
	}
}

// lockNotAvailable is the code of the error that a lock was waited for as long as lock_timeout says.
const lockNotAvailable = "55P03"

func (s *Store) migrateOnce(ctx context.Context, all []migration) (m store.Migration, err error) {
	_, err = s.try(ctx, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, migrateLock); err != nil {
			return err
		}
		version, reader, err := readVersion(ctx, tx, len(all))
		if err != nil {
			return err
		}
		m = store.Migration{From: version, To: max(version, len(all)), Reader: reader}
		if version < len(all) {
			m.Reader = all[len(all)-1].reader
		}
		if err := runScripts(ctx, tx, all, version); err != nil {
			return err
		}
		if err := raisePlaces(ctx, tx); err != nil {
			return err
		}
		return raiseIDs(ctx, tx)
	})
	if errors.Is(err, errNew) {
		if err := s.makeVersion(ctx); err != nil {
			return m, err
		}
		return s.migrateOnce(ctx, all)
	}
	return m, err
}

// readVersion reads the version of the schema, and that of its readers. One that a binary does not read which knows so many is an error.
func readVersion(ctx context.Context, in interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, known int) (version, reader int, err error) {
	err = in.QueryRow(ctx, `SELECT version, reader FROM schema_version`).Scan(&version, &reader)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "42P01" { // no such table
		return 0, 0, errNew
	}
	if err == nil && reader > known {
		err = fmt.Errorf("%w: its schema is version %d, for binaries that know %d; this one knows %d",
			store.ErrNewerSchema, version, reader, known)
	}
	return version, reader, err
}

// errNew says that the database has no schema of ours yet.
var errNew = errors.New("no schema")

// makeVersion makes the table that says which schema there is: version 0.
func (s *Store) makeVersion(ctx context.Context) error {
	_, err := s.try(ctx, pgx.TxOptions{}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, migrateLock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_version (version int NOT NULL, reader int NOT NULL)`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO schema_version SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM schema_version)`)
		return err
	})
	return err
}

func runScripts(ctx context.Context, tx pgx.Tx, all []migration, version int) error {
	if version >= len(all) {
		return nil
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, stepWait.Milliseconds())); err != nil {
		return err
	}
	for ; version < len(all); version++ {
		if _, err := tx.Exec(ctx, all[version].script, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", version+1, err)
		}
	}
	_, err := tx.Exec(ctx, `UPDATE schema_version SET version = $1, reader = $2`, version, all[version-1].reader)
	return err
}

// raisePlaces keeps the order of rows where a dump was restored into a server whose
// transactions are numbered from lower on: what is written now has its place behind all rows.
func raisePlaces(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `UPDATE places SET since = since + last.place + 1
		FROM (SELECT coalesce(max(place), 0) AS place FROM ledger) last
		WHERE last.place >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint + since`)
	return err
}

// numbered are the tables whose ids are drawn from a sequence, and its name. No other value of their rows is drawn: that an id is
// taken says that its sequence is behind.
var numbered = map[string]string{"ledger": "ledger_id", "audit": "audit_id_seq", "changes": "changes_id_seq"}

// raiseIDs lets ids go on behind the rows that there are, where only these were brought: a logical replica has no sequences. One
// that is ahead stays, since other nodes draw from it. So does one that the node's role may not see: of an identity column it needs
// no right to the sequence, and may have none. One that is behind and may only be seen is an error.
func raiseIDs(ctx context.Context, tx pgx.Tx) error {
	for table, sequence := range numbered {
		var readable, usable, settable bool
		err := tx.QueryRow(ctx, `SELECT has_sequence_privilege($1, 'SELECT'), has_sequence_privilege($1, 'USAGE'),
			has_sequence_privilege($1, 'UPDATE')`, sequence).Scan(&readable, &usable, &settable)
		if err != nil {
			return err
		}
		var drawn string
		switch {
		case readable:
			drawn = `(SELECT last_value - (NOT is_called)::int FROM ` + sequence + `)`
		case usable: // of what was not drawn from yet this does not say where it begins: at 1
			drawn = `coalesce(pg_sequence_last_value('` + sequence + `'), 0)`
		default:
			continue
		}
		behind, is := fmt.Sprintf(`FROM (SELECT max(id) AS id FROM %s) last WHERE last.id > %s`, table, drawn), false
		if settable {
			_, err = tx.Exec(ctx, fmt.Sprintf(`SELECT setval('%s', last.id) %s`, sequence, behind))
		} else {
			err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT `+behind+`)`).Scan(&is)
		}
		if err == nil && is {
			err = fmt.Errorf("the sequence %s is behind the rows of %s, and this role may not set it: as its owner run "+
				"SELECT setval('%[1]s', (SELECT max(id) FROM %[2]s))", sequence, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
