package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"corenode/node/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the embedded scripts in order; script i takes the schema
// from version i to i+1. Scripts that were released are never edited.
func migrations() []string {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("store: embedded migrations: %v", err))
	}
	slices.Sort(names)
	scripts := make([]string, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic("store: " + err.Error())
		}
		scripts[i] = string(text)
	}
	return scripts
}

// holdsByAccount gives open_holds a primary key that finds what an account has open, too. Who looks for a request knows its account, so
// a hold costs no second index.
const holdsByAccount = `
CREATE TEMPORARY TABLE held AS SELECT account_id, request_id, held, hold_id, checkpoint_id FROM open_holds;
DROP TABLE open_holds;
CREATE TABLE open_holds (
  account_id    TEXT NOT NULL,
  request_id    TEXT NOT NULL,
  held          INTEGER NOT NULL,
  hold_id       INTEGER NOT NULL,
  checkpoint_id INTEGER NOT NULL,
  PRIMARY KEY (account_id, request_id)
) STRICT, WITHOUT ROWID;
INSERT INTO open_holds SELECT * FROM held;
DROP TABLE held;`

// arrange changes what is of no schema version: a database gets it as it is opened, whatever wrote it. A binary that does not know it
// works with it all the same, so a release that adds something here leaves the way back open.
func (c *conn) arrange() error {
	var keyed, index int64
	err := c.view(func() (err error) { // a database that needs nothing waits for nobody who writes
		if keyed, err = c.number(`SELECT pk = 1 FROM pragma_table_info('open_holds') WHERE name = 'account_id'`); err != nil {
			return err
		}
		index, err = c.number(`SELECT count(*) FROM sqlite_schema WHERE name = 'open_holds_account'`)
		return err
	})
	script := ""
	if index != 0 {
		script = `DROP INDEX open_holds_account;` // a binary that does not know the key makes it
	}
	if keyed == 0 {
		script += holdsByAccount
	}
	if err != nil || script == "" {
		return err
	}
	return c.transaction(func() error { return c.db.Exec(script) })
}

// version is that of the schema, 0 of a new database. One that this binary does not know is an error.
func (c *conn) version() (version int64, err error) {
	err = c.view(func() (err error) {
		version, err = c.number(`PRAGMA user_version`)
		return err
	})
	if err == nil {
		err = wantKnown(version, len(migrations()))
	}
	return version, err
}

// migrate runs the scripts that the database lacks, each in one transaction
// with its version number, so that an interrupted one leaves the old schema.
func (c *conn) migrate(scripts []string) error {
	version, err := c.version()
	if err != nil {
		return err
	}
	for ; version < int64(len(scripts)); version++ {
		err := c.transaction(func() error {
			return c.db.Exec(scripts[version] + fmt.Sprintf("\nPRAGMA user_version = %d;", version+1))
		})
		if err != nil {
			return fmt.Errorf("migrate to schema %d: %w", version+1, err)
		}
	}
	return nil
}

// wantKnown refuses a schema above the last one that the binary knows.
func wantKnown(version int64, last int) error {
	if version > int64(last) {
		return fmt.Errorf("%w: its schema is version %d, this binary knows %d", store.ErrNewerSchema, version, last)
	}
	return nil
}
