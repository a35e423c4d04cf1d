package upstream

import (
	"fmt"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
)

// countedBody is the body of which servers were asked for a count when a request was prepared, or only counted.
func countedBody(t *testing.T, f wire.Flavor, body string, prepare bool) string {
	t.Helper()
	q, err := messages.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, f, plainAnswer)
	m := open(t, f, nil, s)
	if _, err = m.Count(q); prepare {
		_, err = m.Prepare("a", q)
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", f, body, err)
	}
	all := s.Counts()
	return string(all[len(all)-1].Body)
}

// TestCountOfSkippedTools: where only a tool that is skipped could be called, a server is asked to count no forced
// call, which it would refuse without tools.
func TestCountOfSkippedTools(t *testing.T) {
	for _, f := range flavors {
		for _, choice := range []string{`{"type":"any"}`, `{"type":"tool","name":"web_search"}`} {
			counted := countedBody(t, f, fmt.Sprintf(helloBody, `,"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":`+choice), true)
			if _, err := messages.ParseCount([]byte(counted)); err != nil {
				t.Errorf("%s, tool_choice %s: the count of %s is refused: %v", f, choice, counted, err)
			}
		}
	}
}

// TestCountOfSignatures: a server is asked to count a thinking block with its own signature, as it is asked to answer.
func TestCountOfSignatures(t *testing.T) {
	counted := countedBody(t, wire.Messages, `{"model":"far","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[
		{"type":"thinking","thinking":"t","signature":"b3Vycw==~dGhlaXJz"},{"type":"text","text":"y"}]},{"role":"user","content":"z"}]}`, false)
	if !strings.Contains(counted, `"signature":"theirs"`) {
		t.Errorf("the count is of %s", counted)
	}
}

// TestCountOfNamedTool: of a server that is told no other tool than the named one, a count is asked with no other.
func TestCountOfNamedTool(t *testing.T) {
	body := fmt.Sprintf(helloBody, `,"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{"type":"object"}},
		{"type":"custom","name":"c","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"b"}`)
	for _, f := range flavors {
		for _, prepare := range []bool{false, true} {
			counted := countedBody(t, f, body, prepare)
			q, err := messages.ParseCount([]byte(counted))
			if err != nil {
				t.Fatalf("%s is asked of %s: %v", f, counted, err)
			}
			want := 3
			if f.Traits().AnyTool {
				want = 1
			}
			if len(q.Tools) != want || q.ToolChoice.Name != "b" {
				t.Errorf("%s is asked for the count of %s, want %d tools", f, counted, want)
			}
		}
	}
}

// TestCountOfItself: a count has nothing of how to answer, which servers refuse there: neither that of a prompt nor the node's
// own question whether a server counts.
func TestCountOfItself(t *testing.T) {
	body := fmt.Sprintf(helloBody, `,"stream":true,"temperature":1,"stop_sequences":["x"],"seed":1,"metadata":{},"system":"s"`)
	for _, f := range flavors {
		s := start(t, f, plainAnswer)
		q, err := messages.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, f, nil, s).Count(q); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for i, counted := range s.Counts() {
			want := `{"model":"far","messages":[{"role":"user","content":"hi"}]}`
			if i == len(s.Counts())-1 { // all before it are the node's own
				want = `{"model":"far","messages":[{"role":"user","content":"one two three four"}],"system":"s"}`
			}
			if string(counted.Body) != want {
				t.Errorf("%s is asked for the count of %s, want %s", f, counted.Body, want)
			}
		}
	}
}

// TestCountOfSchemas: a count is of the schemas that are sent.
func TestCountOfSchemas(t *testing.T) {
	const shown, note = `{"type":"object"}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`
	body := fmt.Sprintf(helloBody, `,"tools":[{"type":"bash_1","name":"b"},{"name":"a","input_schema":`+note+`},{"input_schema":`+note+`,"name":"c"}]`)
	for _, f := range flavors {
		schema := shown
		if f.Traits().Messages {
			schema = note
		}
		counted := countedBody(t, f, body, false)
		if want := `"tools":[{"name":"a","input_schema":` + schema + `},{"input_schema":` + schema + `,"name":"c"}]`; !strings.Contains(counted, want) {
			t.Errorf("%s is asked for the count of %s, want in it %s", f, counted, want)
		}
	}
}
