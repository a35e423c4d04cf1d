package postgres

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
	"corenode/node/store/sqlite"
	"corenode/node/store/storetest"
)

// TestMoveFromFolder: a database that took over a data folder answers as the folder did, goes
// on with its ids, and is never taken over twice.
func TestMoveFromFolder(t *testing.T) {
	from, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to := dial(t, postgrestest.URL(t), "one")
	a := storetest.Use(t, from)
	secret, err := from.Secret("node")
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Audit(store.AuditRow{Operator: "alice", Method: "POST", Path: "/p", Status: 200}); err != nil {
		t.Fatal(err)
	}
	silent := func(Moving) {}
	if _, err := to.MoveFrom(from, silent); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "1 requests are open") {
		t.Errorf("with an open hold: %v", err)
	}
	storetest.MustAppend(t, from, storetest.Settlement(a.ID, "two", -5))
	told, last := map[string]int64{}, Moving{}
	v, err := to.MoveFrom(from, func(m Moving) {
		if m.Done < last.Done || m.Done > m.All {
			t.Errorf("%+v after %+v", m, last)
		}
		told[m.Table], last = m.Rows, m
	})
	if err != nil || len(v.Findings) > 0 || v.Rows != 11 || told["ledger"] != 11 || told["audit"] != 1 || last.Done != last.All {
		t.Fatalf("%+v, %v, %+v, %v", v, told, last, err)
	}
	for name, read := range map[string]func(store.Store) (any, error){
		"ledger":   func(s store.Store) (any, error) { return s.Entries(store.Query{}) },
		"accounts": func(s store.Store) (any, error) { return s.Holders("", 10) },
		"keys":     func(s store.Store) (any, error) { return s.Keys("") },
		"secret":   func(s store.Store) (any, error) { return s.Secret("node") },
		"audit":    func(s store.Store) (any, error) { return s.Audited("", 0, 10) },
		"usage": func(s store.Store) (any, error) {
			return s.Usage(store.UsageQuery{AccountID: a.ID, ByDay: true, ByModel: true})
		},
	} {
		want, err := read(from)
		got, errGot := read(to)
		if err != nil || errGot != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, errGot, want, err)
		}
	}
	if len(secret) == 0 {
		t.Error("there is no secret")
	}
	rows := storetest.MustAppend(t, to, storetest.Settlement(a.ID, "after", -1))
	if rows[0].ID != 12 {
		t.Errorf("the next row has the id %d, want 12", rows[0].ID)
	}
	if page, err := to.Entries(store.Query{After: 11}); err != nil || len(page) != 1 || page[0].RequestID != "after" {
		t.Errorf("behind what came: %+v, %v", page, err)
	}
	if _, err := to.TopUp(a.ID, 7, "", "invoice 17"); err != nil { // done before, there
		t.Error(err)
	}
	if _, err := to.MoveFrom(from, silent); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second time: %v", err)
	}
	if v, err := to.Verify(); err != nil || len(v.Findings) > 0 || v.Rows != 12 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestMoveForARestrictedRole: what was moved is opened next by a role that may not read or set the sequences.
func TestMoveForARestrictedRole(t *testing.T) {
	from, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	a := storetest.MustCreate(t, from, "a", 5)
	url := postgrestest.URL(t)
	to := dial(t, url, "one")
	if _, err := to.MoveFrom(from, func(Moving) {}); err != nil {
		t.Fatal(err)
	}
	as, _ := asRole(t, to, url)
	storetest.MustAppend(t, dial(t, as, "two"), storetest.Settlement(a.ID, "r", -1))
}

// broken is a source that fails in the middle.
type broken struct{ *sqlite.Store }

func (b broken) Each(table string, columns []string, visit func([]any) error) error {
	if table == "usage" {
		return errors.New("cut")
	}
	return b.Store.Each(table, columns, visit)
}

// TestMoveThatFailsLeavesNothing: what came before the failure is not there.
func TestMoveThatFailsLeavesNothing(t *testing.T) {
	from, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to := dial(t, postgrestest.URL(t), "one")
	if _, err := from.CreateAccount(account.Account{Name: "a"}, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := to.MoveFrom(broken{from}, func(Moving) {}); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("moved with %v", err)
	}
	if page, err := to.Holders("", 10); err != nil || len(page) != 0 {
		t.Errorf("it left %+v, %v", page, err)
	}
	if _, err := to.MoveFrom(from, func(Moving) {}); err != nil {
		t.Error(err)
	}
}

// TestMoveWithAnUnknownEnd: a connection that is lost while the move commits says neither that
// the rows are there nor that they are not.
func TestMoveWithAnUnknownEnd(t *testing.T) {
	from, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	storetest.MustCreate(t, from, "a", 5)
	to := dial(t, postgrestest.URL(t), "one")
	err = to.Exec(`CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cut()`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.MoveFrom(from, func(Moving) {}); !errors.Is(err, ErrUnsure) {
		t.Errorf("moved with %v", err)
	}
	if _, err := to.MoveFrom(broken{from}, func(Moving) {}); err == nil || errors.Is(err, ErrUnsure) {
		t.Errorf("before the commit: %v", err)
	}
}
