package workload

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestBodiesAreJSONOfTheStatedSize(t *testing.T) {
	cases := []struct {
		name     string
		body     []byte
		min, max int
	}{
		{"plain", Messages(16, false), 250, 350},
		{"stream", Messages(256, true), 250, 350},
		{"count", Count(), 200, 350},
		{"reply", Reply(), 550, 650},
	}
	for _, c := range cases {
		if !json.Valid(c.body) || len(c.body) < c.min || len(c.body) > c.max {
			t.Errorf("%s: %d bytes, want %d to %d of JSON: %s", c.name, len(c.body), c.min, c.max, c.body)
		}
	}
}

func TestTokensAsked(t *testing.T) {
	cases := map[string]int{
		string(Messages(256, true)): 256, string(Messages(7, false)): 7, string(Count()): 1,
		`{"max_tokens":12`: 12, `{"max_tokens":`: 1, `{"max_tokens":-4}`: 1, ``: 1,
	}
	for body, want := range cases {
		if got := TokensAsked([]byte(body)); got != want {
			t.Errorf("%q: %d, want %d", body, got, want)
		}
	}
}

func TestEventsAreEvents(t *testing.T) {
	s := Events()
	all := append(append(append([][]byte(nil), s.Begin...), s.Delta), s.End...)
	if len(all) != 6 {
		t.Fatalf("%d events", len(all))
	}
	for _, e := range all {
		name, data, ok := bytes.Cut(e, []byte("\ndata: "))
		var parsed struct{ Type string }
		if err := json.Unmarshal(data, &parsed); err != nil || !ok || "event: "+parsed.Type != string(name) || !bytes.HasSuffix(e, []byte("\n\n")) {
			t.Errorf("not an event: %q (%v)", e, err)
		}
	}
}
