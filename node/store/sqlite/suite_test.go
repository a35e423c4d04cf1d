package sqlite_test

import (
	"testing"

	"corenode/node/store/sqlite"
	"corenode/node/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Home {
		dir := t.TempDir()
		return storetest.Home{
			Dir: dir,
			Allow: `DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete; DROP TRIGGER ledger_counters_no_update;
				DROP TRIGGER ledger_counters_no_delete; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;`,
			Open: func(t testing.TB) storetest.Store {
				s, err := sqlite.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				return s
			},
			FillUsage: func(s storetest.Store) error { return s.(*sqlite.Store).FillUsage() },
		}
	})
}
