package storetest

import (
	"testing"

	"corenode/node/store"
)

// auditIsAppendOnly: rows come back whole, newest first, of one operator or of all, and stay.
func auditIsAppendOnly(t *testing.T, fresh maker) {
	s := fresh(t).Open(t)
	for _, who := range []string{"alice", "bob", "alice"} {
		if err := s.Audit(store.AuditRow{Operator: who, Method: "POST", Path: "/p/{x}", Target: "x", AccountID: "a",
			KeyID: "k", Status: 200}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Audited("", 0, 10)
	if err != nil || len(all) != 3 || all[0].ID != 3 || all[0].Time.IsZero() {
		t.Fatalf("%+v, %v", all, err)
	}
	want := store.AuditRow{ID: 2, Time: all[1].Time, Operator: "bob", Method: "POST", Path: "/p/{x}", Target: "x",
		AccountID: "a", KeyID: "k", Status: 200, Node: all[1].Node}
	if all[1] != want {
		t.Errorf("%+v, want %+v", all[1], want)
	}
	if page, err := s.Audited("alice", 3, 10); err != nil || len(page) != 1 || page[0].ID != 1 {
		t.Errorf("alice before row 3: %+v, %v", page, err)
	}
	for _, harm := range []string{`UPDATE audit SET operator = 'eve'`, `DELETE FROM audit`} {
		err := s.Exec(harm)
		if err == nil {
			t.Errorf("%s was done", harm)
		}
	}
}
