package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"corenode/node/operators"
	"corenode/node/store/sqlite"
)

// TestRoles calls every verb with every role: who may not gets a 403 before the verb runs,
// a viewer changes nothing, and what was tried is in the audit.
func TestRoles(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api := New(s, &fakeNode{}, &fakeModules{}, nil, nil)
	everybody := []operators.Operator{{}, {Name: "v", Role: operators.Viewer}, {Name: "m", Role: operators.Manager},
		{Name: "o", Role: operators.Owner}}
	fill := strings.NewReplacer("{", "", "}", "")
	for _, r := range routes {
		for _, who := range everybody {
			status, _, answer := api.Handle(operators.With(t.Context(), who), r.method, fill.Replace(r.path), nil, nil)
			if forbidden := who.Role < r.needs(); forbidden != (status == http.StatusForbidden) {
				t.Errorf("%s %s by a %s: %d %s", r.method, r.path, who.Role, status, answer)
			}
		}
		changes := r.method != http.MethodGet && r.path != Root+"/ledger/verify" && !strings.HasSuffix(r.path, "/replay")
		if changes && r.needs() == operators.Viewer {
			t.Errorf("a viewer may %s %s", r.method, r.path)
		}
	}
	rows, err := s.Audited("v", 0, 1000)
	tried := 0
	for _, row := range rows {
		if row.Status == http.StatusForbidden {
			tried++
		}
	}
	if err != nil || tried < 15 {
		t.Errorf("the audit has %d calls that were refused, %v", tried, err)
	}
}

// TestAudit: who changed what is kept, newest first and in pages, and nothing of a body is.
func TestAudit(t *testing.T) {
	bothWays(t, func(t *testing.T, c *Client, node *fakeNode, s *sqlite.Store) {
		made, err := c.CreateAccount(NewAccount{Name: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.TopUp("alice", TopUp{Amount: Amount{USD: "1"}, Note: "hush"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Account("alice"); err != nil { // a look leaves nothing
			t.Fatal(err)
		}
		if _, err := c.RevokeKey("key_none"); err == nil {
			t.Fatal("an unknown key was revoked")
		}
		page, err := c.Audit(url.Values{"limit": {"2"}})
		if err != nil || len(page.Data) != 2 || page.Next == 0 {
			t.Fatalf("%+v, %v", page, err)
		}
		if r := page.Data[0]; r.Operator != operators.Local || r.Path != Root+"/keys/{key}/revoke" || r.Status != 404 || r.Target != "" || r.Time.IsZero() {
			t.Errorf("a call that failed: %+v", r)
		}
		if r := page.Data[1]; r.AccountID != made.ID || r.Status != 200 || r.Path != Root+"/accounts/{account}/topups" {
			t.Errorf("a top-up: %+v", r)
		}
		if text, _ := json.Marshal(page); strings.Contains(string(text), "hush") {
			t.Errorf("the audit has a body: %s", text)
		}
		if rest, err := c.Audit(url.Values{"before": {"2"}}); err != nil || len(rest.Data) != 1 || rest.Data[0].KeyID != made.KeyID || rest.Next != 0 {
			t.Errorf("the page behind: %+v, %v", rest, err)
		}
		if none, err := c.Audit(url.Values{"operator": {"bob"}}); err != nil || len(none.Data) != 0 {
			t.Errorf("of another: %+v, %v", none, err)
		}
		if _, err := c.Audit(url.Values{"before": {"x"}}); err == nil {
			t.Error("a cursor that is none was taken")
		}
	})
}

// TestEveryWritingVerbIsAudited walks the table of verbs: whatever may change something leaves a row
// with who called it and how it ended, also when it is refused before it runs; what only looks leaves none.
func TestEveryWritingVerbIsAudited(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var log bytes.Buffer
	api := New(s, &fakeNode{}, &fakeModules{}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	fill := strings.NewReplacer("{", "", "}", "")
	latest := func() (id int64, about string) {
		rows, err := s.Audited("", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			return 0, ""
		}
		return rows[0].ID, fmt.Sprintln(rows[0].Operator, rows[0].Method, rows[0].Path, rows[0].Status)
	}
	tooLarge := make([]byte, BodyBytesMax+1)
	for _, c := range []struct {
		how, query string
		body       []byte
		fill       *strings.Replacer
	}{
		{"as it should be", "", []byte("{}"), fill},
		{"with a parameter that it has not", "hidden=1", nil, fill},
		{"with a query that is none", "hidden=%zz", nil, fill},
		{"with a body that is too large", "", tooLarge, fill},
		{"with a segment that is not escaped", "", nil, strings.NewReplacer("{", "%zzhidden", "}", "")},
	} {
		for _, who := range []operators.Operator{{Name: "v", Role: operators.Viewer}, {Name: "o", Role: operators.Owner}} {
			for _, r := range routes {
				before, _ := latest()
				log.Reset()
				status, _, _ := api.Handle(operators.With(t.Context(), who), r.method, c.fill.Replace(r.path), []byte(c.query), c.body)
				after, about := latest()
				row, lines := fmt.Sprintln(who.Name, r.method, r.path, status), strings.Count(log.String(), "msg=admin ")
				if writes := r.method != http.MethodGet; writes != (after == before+1) || writes != (lines == 1) || writes && about != row {
					t.Errorf("%s %s by a %s %s: %d, the last row of the audit was %d and is %d: %s; the log has %q",
						r.method, r.path, who.Role, c.how, status, before, after, about, log.String())
				}
				if forbidden := who.Role < r.needs(); forbidden != (status == http.StatusForbidden) {
					t.Errorf("%s %s by a %s %s: %d", r.method, r.path, who.Role, c.how, status)
				}
				if strings.Contains(about+log.String(), "hidden") {
					t.Errorf("%s %s %s: what was sent is in %q or in %q", r.method, r.path, c.how, about, log.String())
				}
			}
		}
	}
}

// TestRefusedByTheListener: a call of which the listener has not read the body is noted as others are, by its verb alone.
func TestRefusedByTheListener(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	api := New(s, &fakeNode{}, &fakeModules{}, nil, nil)
	viewer, manager := operators.Operator{Name: "v", Role: operators.Viewer}, operators.Operator{Name: "m", Role: operators.Manager}
	for _, c := range []struct {
		who          operators.Operator
		method, path string
		forbidden    bool
		row          string
	}{
		{manager, "POST", Root + "/accounts/alice/topups", false, "m POST " + Root + "/accounts/{account}/topups  413"},
		{viewer, "POST", Root + "/accounts/alice/topups", true, "v POST " + Root + "/accounts/{account}/topups  403"},
		{viewer, "GET", Root + "/accounts", false, ""},
		{manager, "POST", "/secret", false, ""},
		{manager, "SECRET", Root + "/accounts", false, ""},
	} {
		before, err := s.Audited("", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		forbidden := api.Refuse(operators.With(t.Context(), c.who), c.method, c.path, http.StatusRequestEntityTooLarge)
		after, err := s.Audited("", 0, 100)
		row := ""
		if len(after) > len(before) {
			r := after[0]
			row = fmt.Sprint(r.Operator, " ", r.Method, " ", r.Path, " ", r.Target, " ", r.Status)
		}
		if err != nil || (forbidden != nil) != c.forbidden || row != c.row {
			t.Errorf("%s %s of %s: forbidden %v, kept %q, want %q; %v", c.method, c.path, c.who.Name, forbidden, row, c.row, err)
		}
	}
}

// TestAuditOfModulesHasTheirDigest: which module was loaded is in no path, and what was typed of one may name another one later.
func TestAuditOfModulesHasTheirDigest(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var log bytes.Buffer
	c := Local(New(s, &fakeNode{}, &fakeModules{}, nil, slog.New(slog.NewTextHandler(&log, nil))))
	load := func(again bool) func() error {
		return func() error {
			_, err := c.LoadModule(NewModule{Wasm: []byte("wasm"), Reconfigure: again})
			return err
		}
	}
	for _, v := range []struct {
		do     func() error
		target string
	}{
		{load(false), discount.Digest},
		{load(true), discount.Digest},
		{func() error { _, err := c.ActivateModule("disc"); return err }, "disc " + discount.Digest},
		{func() error { _, err := c.ActivateModule(discount.Digest); return err }, discount.Digest},
		{func() error { _, err := c.Rollback("billing"); return err }, "billing " + discount.Digest},
		{func() error { return c.RemoveModule("disc") }, "disc " + discount.Digest},
	} {
		log.Reset()
		if err := v.do(); err != nil {
			t.Fatal(err)
		}
		rows, err := s.Audited("", 0, 1)
		if err != nil || len(rows) != 1 || rows[0].Target != v.target || !strings.Contains(log.String(), discount.Digest) {
			t.Errorf("%+v, %v, want the target %q; the log has %s", rows, err, v.target, log.String())
		}
	}
	if _, err := c.ActivateModule("nobody"); err == nil {
		t.Error("an unknown module was activated")
	}
	if rows, err := s.Audited("", 0, 1); err != nil || rows[0].Target != "" {
		t.Errorf("of none: %+v, %v", rows, err)
	}
}
