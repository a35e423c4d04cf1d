package postgres

import (
	"slices"
	"testing"

	"corenode/node/store"
	"corenode/node/store/postgrestest"
)

// TestAuditNamesItsNode: a row says on which node its call was made. One of a release before that knows no such column says of none.
func TestAuditNamesItsNode(t *testing.T) {
	url := postgrestest.URL(t)
	one, two := dial(t, url, "one"), dial(t, url, "two")
	for _, s := range []*Store{one, two} {
		if err := s.Audit(store.AuditRow{Operator: "root", Method: "POST", Path: "/drain", Status: 202}); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Exec(`INSERT INTO audit (time, operator, method, path, target, account_id, key_id, status)
		VALUES (0, 'root', 'POST', '/drain', '', '', '', 202)`); err != nil {
		t.Fatal(err)
	}
	rows, err := one.Audited("", 0, 10)
	var nodes []string
	for _, r := range rows {
		nodes = append(nodes, r.Node)
	}
	if want := []string{"", "two", "one"}; err != nil || !slices.Equal(nodes, want) {
		t.Errorf("%q, %v, want %q", nodes, err, want)
	}
}
