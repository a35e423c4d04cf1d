package admin

import (
	"encoding/json"
	"testing"

	"corenode/node/store/sqlite"
)

// FuzzHandle shows that no call brings the API down, and that every answer is
// JSON: a value, or an error that says something.
func FuzzHandle(f *testing.F) {
	s, err := sqlite.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	api := New(s, &fakeNode{}, nil, nil, nil)
	f.Add("POST", Root+"/accounts", "", `{"name":"a","balance":{"usd":"1.5"}}`)
	f.Add("PATCH", Root+"/accounts/a", "", `{"models":null,"concurrency":-1}`)
	f.Add("POST", Root+"/accounts/a/topups", "", `{"amount":{"nano_usd":9223372036854775807},"idempotency_key":"k"}`)
	f.Add("GET", Root+"/accounts/a/ledger", "since=2026-01-01T00:00:00Z&after=1&limit=2", "")
	f.Add("POST", Root+"/accounts/a/keys", "", `{"expires":"0000-01-01T00:00:00Z"}`)
	f.Add("POST", Root+"/keys//revoke", "", "")
	f.Add("PATCH", Root+"/keys/k", "", `{"budget":{"usd":"1"},"models":[""]}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		status, _, answer := api.Handle(t.Context(), method, path, []byte(query), []byte(body))
		var failed struct{ Error *Error }
		if err := json.Unmarshal(answer, &failed); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
		if status >= 500 || (status >= 400) != (failed.Error != nil && failed.Error.Message != "") {
			t.Errorf("%s %s %s: %d %s", method, path, body, status, answer)
		}
	})
}
