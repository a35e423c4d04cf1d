// Package postgres keeps accounts, keys and the ledger in a PostgreSQL database that many
// nodes share.
//
// Every change is one transaction, durable when the call returns. It is tried again after a
// serialization failure or a deadlock, and after a lost connection where the loss came
// before the commit was asked for, or where doing it twice is doing it once: rows of a
// request are unique by its id.
//
// No call waits longer than callMax for the database. All methods are safe for concurrent use.
// Rows are followed in the order of commits: see ../DESIGN.md.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"corenode/node/store"
)

const (
	// connectionsMax bounds the connections of one node, unless its URL says pool_max_conns. Beside them it has one that listens, and
	// one for each proof and each long read of the ledger.
	connectionsMax = 8
	// callMax bounds one call, its retries among it; scanMax Scan, which reads all accounts and keys, and long reads of the ledger. A
	// proof of it has no bound but its caller's: it takes as long as there are rows.
	callMax, scanMax = 20 * time.Second, 10 * time.Minute
	// auditMax bounds the row of what was done: its caller waits for the answer, and the log has a line of it.
	auditMax = 2 * time.Second
	// triesMax bounds how often one transaction is tried, retryDelay what is waited before the second try.
	triesMax   = 6
	retryDelay = 5 * time.Millisecond
)

// readOnly is the code of the error that a transaction may not change anything.
const readOnly = "25006"

// idleTimeout is what the server calls the time after which it ends a transaction that nobody continues.
const idleTimeout = "idle_in_transaction_session_timeout"

// Config says where the database is, and who asks.
type Config struct {
	URL string // postgres://user@host/database; what it leaves out is in the usual PG variables
	// Password is called before each connection; nil and "" = what URL and variables say.
	Password func() (string, error)
	Node     string // the id of this node
	// Lease is how long a node counts as live after its last renewal, and how long a grant lives, for tests; 0 is DefaultLease.
	Lease time.Duration
}

// Store is a database that was opened.
type Store struct {
	pool  *pgxpool.Pool
	renew func(*pgx.ConnConfig) // before each connection that is none of the pool
	node  string
	lease time.Duration
	fence atomic.Int64     // the number of this node's last Register, 0 before the first
	now   func() time.Time // replaced by tests only
	// forgot is when nodes were last forgotten that are gone for long; nil is never.
	forgot atomic.Pointer[time.Time]
	// clock stands for the database's clock, in tests only; nil = the database's.
	clock func() time.Time
	// reading is of all reads, and ended by endReads: Close waits for none.
	reading  context.Context
	endReads context.CancelFunc
	long     chan struct{} // has what the one long read of the ledger puts in
}

// Open is OpenAsItIs and Migrate.
func Open(c Config) (*Store, error) {
	s, err := OpenAsItIs(c)
	if err != nil {
		return nil, err
	}
	if _, err := s.Migrate(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenAsItIs connects. A new database gets the schema of this binary. Until Migrate it may be of an older schema, and only Secret and
// Close are to be called.
func OpenAsItIs(c Config) (*Store, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err) // it hides the password
	}
	renew := c.renewal(settings)
	settings.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
		renew(to)
		return nil
	}
	if !strings.Contains(c.URL, "pool_max_conns") {
		settings.MaxConns = connectionsMax
	}
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{pool: pool, renew: renew, node: c.Node, lease: cmp.Or(c.Lease, DefaultLease), now: time.Now,
		long: make(chan struct{}, 1)}
	s.reading, s.endReads = context.WithCancel(context.Background())
	version, _, err := readVersion(ctx, pool, len(migrations()))
	if errors.Is(err, errNew) || err == nil && version == 0 {
		_, err = s.migrate(ctx, migrations())
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", known(err))
	}
	return s, nil
}

// Migrate brings the schema up to that of this binary, and says from which to which.
func (s *Store) Migrate() (store.Migration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	m, err := s.migrate(ctx, migrations())
	return m, wrapped(known(err), "open store")
}

// LosingReplicas counts the replicas that stream from the database, where no commit waits for one
// of them: what it said was durable may be gone after a failover.
func (s *Store) LosingReplicas(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN count(*) ELSE 0 END
		FROM pg_stat_replication WHERE state IS NULL OR state = 'streaming'`).Scan(&n)
	return n, wrapped(known(err), "look for replicas")
}

// Close implements store.Store. Changes that run are waited for, which takes callMax at most; reads end, since some take minutes.
func (s *Store) Close() error {
	s.endReads()
	s.leave()
	s.pool.Close()
	return nil
}

// Backup implements store.Store: the database has its own.
func (s *Store) Backup(string) ([]string, error) {
	return nil, fmt.Errorf("%w: the rows are in PostgreSQL, whose own tools (pg_basebackup, pg_dump) make backups", store.ErrInvalid)
}

// Secret implements store.Store.
func (s *Store) Secret(name string) (secret []byte, err error) {
	fresh := make([]byte, 32)
	rand.Read(fresh)
	setting := "secret:" + name
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, setting, fresh)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&secret)
	})
	return secret, wrapped(err, "read secret %q", name)
}

// DefaultMade implements store.Store.
func (s *Store) DefaultMade() (made bool, err error) {
	err = s.view(func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM settings WHERE name = 'default_account')
			OR EXISTS (SELECT 1 FROM accounts WHERE name = $1)`, store.DefaultAccount).Scan(&made)
	})
	return made, wrapped(err, "look for the account %q", store.DefaultAccount)
}

// MakeDefault implements store.Store. Of nodes that start at once, one makes it.
func (s *Store) MakeDefault(first store.First) (made bool, err error) {
	err = s.transaction(again, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO settings (name, value) VALUES ('default_account', $1) ON CONFLICT DO NOTHING`, []byte(first.Account.ID))
		if err != nil {
			return err
		}
		if made = tag.RowsAffected() == 1; !made {
			var by []byte // a try whose commit was not heard of made it, or another node
			err := tx.QueryRow(ctx, `SELECT value FROM settings WHERE name = 'default_account'`).Scan(&by)
			made = string(by) == first.Account.ID
			return err
		}
		if err := insertAccount(ctx, tx, first.Account); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, first.Key); err != nil {
			return err
		}
		return change(ctx, tx, first.Account.ID)
	})
	return made && err == nil, err
}

// repeat says what a lost connection means for a change whose commit was asked for.
type repeat bool

const (
	again repeat = true  // done twice is done once
	once  repeat = false // done twice is wrong
)

// transaction runs change and commits, or rolls back if it fails.
func (s *Store) transaction(r repeat, change func(context.Context, pgx.Tx) error) error {
	return s.transactionWithin(context.Background(), r, change)
}

// committing is transaction for a change that is the same if it is done twice, and that commits by itself with its last statements: the
// locks that it holds are held for one round trip less.
func (s *Store) committing(change func(context.Context, pgx.Tx) error) error {
	const nothing = `SELECT`
	return s.transactionAs(context.Background(), pgx.TxOptions{CommitQuery: nothing}, again, change)
}

// transactionWithin is transaction for a caller who may not wait so long.
func (s *Store) transactionWithin(ctx context.Context, r repeat, change func(context.Context, pgx.Tx) error) error {
	return s.transactionAs(ctx, pgx.TxOptions{}, r, change)
}

func (s *Store) transactionAs(ctx context.Context, o pgx.TxOptions, r repeat, change func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	delay := retryDelay
	for try := 1; ; try++ {
		asked, err := s.try(ctx, o, change)
		if err == nil || try == triesMax || ctx.Err() != nil || !retryable(err, asked && r == once) {
			return known(err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		delay *= 3
	}
}

// try runs one transaction. asked says that the commit was asked for.
func (s *Store) try(ctx context.Context, o pgx.TxOptions, change func(context.Context, pgx.Tx) error) (asked bool, err error) {
	tx, err := s.pool.BeginTx(ctx, o)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx) // after a commit it does nothing; else the error that led here is the one to report
	if err := change(ctx, tx); err != nil {
		s.leaveReadOnly(err)
		return false, err
	}
	return true, tx.Commit(ctx)
}

// leaveReadOnly drops all connections where err says that one of them takes no changes, as after a failover from its server: the
// pool takes such a connection for a good one, and keeps it for an hour.
func (s *Store) leaveReadOnly(err error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == readOnly {
		s.pool.Reset()
	}
}

// view runs a set of reads on one consistent state of the database.
func (s *Store) view(read func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(s.reading, callMax)
	defer cancel()
	err := s.viewOnce(ctx, read)
	if err != nil && ctx.Err() == nil && retryable(err, false) { // once: the pool may have had connections of a server that is gone
		err = s.viewOnce(ctx, read)
	}
	return known(err)
}

// viewOnce is one try of a view, by a context of s.reading.
func (s *Store) viewOnce(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	_, err := s.try(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
	if err != nil && s.reading.Err() != nil {
		return store.ErrClosed
	}
	return err
}

// viewApart is viewOnce on a connection that is none of the pool, for what takes long: renewals and charges use the pool.
func (s *Store) viewApart(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	err := s.apart(ctx, func(c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		return read(ctx, tx) // its end is that of the connection
	})
	if err != nil && s.reading.Err() != nil {
		return store.ErrClosed
	}
	return known(err)
}

// viewLong is viewApart of what passes rows that nothing bounds, for as long as Scan may take. There is one at a time:
// who gave up and asks again takes no further connection.
func (s *Store) viewLong(read func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(s.reading, scanMax)
	defer cancel()
	select {
	case s.long <- struct{}{}:
		defer func() { <-s.long }()
		return s.viewApart(ctx, read)
	case <-ctx.Done():
		if s.reading.Err() != nil {
			return store.ErrClosed
		}
		return known(ctx.Err())
	}
}

// retryable says whether the same transaction may succeed. unsure means that its commit was
// asked for, and that done twice it is wrong: then a lost connection is the end.
func retryable(err error, unsure bool) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "40001", "40P01", readOnly: // serialization failure, deadlock, see leaveReadOnly: it was rolled back
			return true
		case "57P01", "57P02", "57P03": // the server stops, crashed or starts
			return !unsure
		}
		return false
	}
	return !unsure && lost(err)
}

// lost says whether an error is that of a connection that broke, or was not made.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// known turns what the database says into the errors of package store.
func known(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "closed pool") {
		return store.ErrClosed
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok || store.Rejects(err):
		return err
	case e.Code == "23505" && e.ConstraintName == "accounts_name_key":
		return store.ErrNameTaken
	case e.Code == "23503":
		return fmt.Errorf("%w: %s", store.ErrNotFound, e.Detail)
	case e.Code == "23505" && numbered[e.TableName] != "" && e.ConstraintName == e.TableName+"_pkey": // it says nothing of the row
		return fmt.Errorf("the sequence %s is behind the rows of %s, which a restart mends, of a node whose role may set it: %w",
			numbered[e.TableName], e.TableName, err)
	case strings.HasPrefix(e.Code, "23"), strings.HasPrefix(e.Code, "22"), e.Code == "54000": // a constraint, a value, a size
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return err
}

// wrapped adds to an error what was attempted. Without an error it is nil.
func wrapped(err error, attempt string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(attempt, args...), err)
}

// clean makes text that PostgreSQL takes: UTF-8 without zero bytes. What comes from servers
// elsewhere may be anything, and no charge is lost for it.
func clean(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// number reads the first column of the first row, 0 when there is no row.
func number(ctx context.Context, tx pgx.Tx, query string, args ...any) (n int64, err error) {
	err = tx.QueryRow(ctx, query, args...).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// each calls visit for every row of a query.
func each(ctx context.Context, tx pgx.Tx, query string, visit func(pgx.Rows) error, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
