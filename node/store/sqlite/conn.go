package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/store"
	"corenode/node/store/rules"
)

// writerPragmas make a commit durable before it returns. The 16 MiB cache
// keeps the right edge of every index in memory. A checkpoint every 4,000
// pages (16 MiB of WAL) costs a tenth less CPU per row than every 1,000. While
// something is read for long the WAL grows; it is cut to twice that afterwards.
const writerPragmas = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 33554432;
PRAGMA foreign_keys = ON;
PRAGMA cache_size = -16384;`

// servingPragmas follow the migrations, which sort tables of any size and need files for that. No
// statement of a request sorts more than a few rows.
const servingPragmas = `PRAGMA temp_store = MEMORY;`

const readerPragmas = `
PRAGMA query_only = ON;
PRAGMA cache_size = -4096;`

// busyTimeout bounds how long a statement waits for SQLite's own locks. The
// folder lock keeps other nodes away, so only a checkpoint or an operator's
// sqlite3 shell can hold them.
const busyTimeout = 10 * time.Second

// conn is one SQLite connection and its prepared statements.
type conn struct {
	mu    sync.Mutex
	db    *sqlite3.Conn         // Guarded by mu.
	stmts map[string]*statement // Guarded by mu. Bounded: one per SQL text in this package. nil = closed.
	path  string                // of the database
	done  func()                // forgets where its temporary files are
}

// dial opens a connection for what is asked. What it sorts may take all of the disk: it is short, and gives back what it took.
func dial(path, pragmas string) (*conn, error) { return dialReader(path, pragmas, 0) }

// dialLong is dial for what may take hours: what it sorts leaves spareBytes of the disk to the ledger.
func dialLong(path, pragmas string) (*conn, error) { return dialReader(path, pragmas, spareBytes) }

func dialReader(path, pragmas string, spare int64) (*conn, error) {
	return dialWith(sqlite3.WithMaxMemory(context.Background(), readerMemory), path, pragmas, spare, nil)
}

// They bound the memory of a connection: the writer's and that of each other one. Its address space is taken when it is opened, the memory
// when it is needed: of each 16 MiB of the WAL 32 KiB for its index, and 8 KiB more to bring it to the database. So the writer opens what
// nobody can read before it is cut, such as a WAL that grew beside somebody's shell. Replaced by tests only.
var writerMemory, readerMemory int64 = 1 << 30, 256 << 20

// dialWriter is dial for the one connection that changes the database. It has files only while it migrates, when nothing else is written.
func dialWriter(path string) (*conn, error) {
	return dialWith(sqlite3.WithMaxMemory(context.Background(), writerMemory), path, writerPragmas, 0, new(wal))
}

func dialWith(ctx context.Context, path, pragmas string, spare int64, log *wal) (*conn, error) {
	uri, done := openBeside(path, spare, log)
	c := &conn{stmts: map[string]*statement{}, path: path, done: done}
	err := opening(func() (err error) {
		c.db, err = sqlite3.OpenContext(ctx, uri+"&mode=rw")
		return err
	})
	if err != nil {
		done()
		return nil, err
	}
	if log != nil {
		c.db.RollbackHook(log.drop)
	}
	err = opening(func() error { return errors.Join(c.db.BusyTimeout(busyTimeout), c.db.Exec(pragmas)) })
	if err != nil {
		return nil, errors.Join(withRoom(err, path), opening(c.close))
	}
	return c, nil
}

// cutWAL brings to the database what other processes that read it let go of the WAL, and waits for none of them. Without any it
// ends the WAL.
func (c *conn) cutWAL() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer outOfMemory(&err)
	return errors.Join(c.db.BusyTimeout(0), c.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`), c.db.BusyTimeout(busyTimeout))
}

func (c *conn) close() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer outOfMemory(&err)
	if c.stmts == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.sql.Close() // the statement's last error, which its caller has seen
	}
	c.stmts = nil
	defer c.done()
	return c.db.Close()
}

// transaction runs change and commits, or rolls back if it fails.
func (c *conn) transaction(change func() error) error { return c.within(`BEGIN IMMEDIATE`, change) }

// view runs a set of reads on one consistent state of the database.
func (c *conn) view(read func() error) error { return c.within(`BEGIN`, read) }

// viewEach is a view of one query.
func (c *conn) viewEach(query string, visit func(row) error, args ...any) error {
	return c.view(func() error { return c.each(query, visit, args...) })
}

// within begins a transaction, does what is asked and commits, or rolls back if that fails.
func (c *conn) within(begin string, do func() error) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer outOfMemory(&err)
	defer func() { err = withRoom(err, c.path) }()
	if err := c.exec(begin); err != nil {
		return err
	}
	defer func() {
		if !c.db.GetAutocommit() { // no COMMIT went through, also where do panicked
			_ = c.exec(`ROLLBACK`) // the error that led here is the one to report
		}
	}()
	if err := do(); err != nil {
		return err
	}
	return c.exec(`COMMIT`)
}

// outOfMemory makes an error of the panic with which the driver says that SQLite has no memory: SQLite took that as any other error,
// and goes on. Every other panic goes on, since it may have left SQLite in the middle of a change: whether that counts is not known.
func outOfMemory(err *error) {
	switch p := recover().(type) {
	case nil:
	case error:
		if p.Error() != sqlite3.NOMEM.Error() {
			panic(p)
		}
		*err = p
	default:
		panic(p)
	}
}

// opening does a step of a connection that nothing was asked of yet. It makes an error also of the panic with which the driver says that
// the system has no memory for it.
func opening(step func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case syscall.Errno:
			err = p
		default:
			panic(p)
		}
	}()
	defer outOfMemory(&err)
	return step()
}

// prepare returns the statement of a SQL text. The caller holds mu.
func (c *conn) prepare(text string) (*statement, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	if c.stmts == nil {
		return nil, store.ErrClosed
	}
	sql, _, err := c.db.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", text, err)
	}
	s := &statement{sql: sql, bound: make([]binding, sql.BindCount())}
	c.stmts[text] = s
	return s, nil
}

// exec runs a statement that returns no rows. The caller holds mu.
func (c *conn) exec(text string, args ...any) error {
	return c.each(text, nil, args...)
}

// each calls visit for every row of a query. The caller holds mu.
func (c *conn) each(text string, visit func(row) error, args ...any) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	for i, arg := range args {
		s.bind(i+1, arg)
	}
	return s.run(visit)
}

// number returns the first column of the first row, 0 when there is no row. The caller holds mu.
func (c *conn) number(text string, args ...any) (n int64, err error) {
	err = c.each(text, func(r row) error {
		n = r.num(0)
		return nil
	}, args...)
	return n, err
}

// statement is a prepared statement that remembers what is bound to it. Bindings survive
// a run. Most columns of a ledger row, such as model and digest, are those of the row
// before it: not binding them again saves a call and a copy into SQLite for each.
type statement struct {
	sql   *sqlite3.Stmt
	bound []binding
	err   error // the first failed bind since the last run
}

type binding struct {
	kind byte // 0 = unknown, 't' = text, 'n' = num
	text string
	num  int64
}

// text binds a string to parameter i, counted from 1.
func (s *statement) text(i int, v string) {
	b := &s.bound[i-1]
	if b.kind == 't' && b.text == v {
		return
	}
	if err := s.sql.BindText(i, v); err != nil {
		s.fail(i, err)
		return
	}
	*b = binding{kind: 't', text: v}
}

// num binds an integer to parameter i, counted from 1.
func (s *statement) num(i int, v int64) {
	b := &s.bound[i-1]
	if b.kind == 'n' && b.num == v {
		return
	}
	if err := s.sql.BindInt64(i, v); err != nil {
		s.fail(i, err)
		return
	}
	*b = binding{kind: 'n', num: v}
}

// blob binds bytes to parameter i, counted from 1. No bytes are an empty blob, never NULL.
func (s *statement) blob(i int, v []byte) {
	s.bound[i-1] = binding{}
	if v == nil {
		v = []byte{}
	}
	if err := s.sql.BindBlob(i, v); err != nil {
		s.fail(i, err)
	}
}

func (s *statement) fail(i int, err error) {
	s.bound[i-1] = binding{}
	if s.err == nil {
		s.err = err
	}
}

// bind binds any value that this package stores.
func (s *statement) bind(i int, v any) {
	switch v := v.(type) {
	case string:
		s.text(i, v)
	case int64:
		s.num(i, v)
	case bool:
		s.num(i, fromBool(v))
	case time.Time:
		s.num(i, rules.FromTime(v))
	case []byte:
		s.blob(i, v)
	default:
		panic(fmt.Sprintf("store: cannot bind a %T", v))
	}
}

// run steps through all rows and makes the statement ready for the next run.
func (s *statement) run(visit func(row) error) (err error) {
	if err := s.err; err != nil {
		s.err = nil
		return err
	}
	defer func() { // also where it panics: what is not reset keeps the WAL as it is
		if reset := s.sql.Reset(); err == nil { // it repeats the error of the failed step
			err = reset
		}
	}()
	for err == nil && s.sql.Step() {
		if visit != nil {
			err = visit(row{s.sql})
		}
	}
	return err
}

// row is the current row of a running query. Columns count from 0.
type row struct{ sql *sqlite3.Stmt }

func (r row) num(i int) int64      { return r.sql.ColumnInt64(i) }
func (r row) text(i int) string    { return r.sql.ColumnText(i) }
func (r row) flag(i int) bool      { return r.num(i) != 0 }
func (r row) blob(i int) []byte    { return r.sql.ColumnBlob(i, nil) }
func (r row) time(i int) time.Time { return rules.ToTime(r.num(i)) }

func fromBool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
