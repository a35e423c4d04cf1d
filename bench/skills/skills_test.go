package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadRefusesWhatWouldAlwaysHold(t *testing.T) {
	good := `{"skill":"a","body":{"messages":[]},"expect":{"text":"x"}}`
	cases, err := Read(strings.NewReader("# a comment\n\n" + good + "\n"))
	if err != nil || len(cases) != 1 || cases[0].Name != "line 3" {
		t.Fatalf("%+v, %v", cases, err)
	}
	for _, bad := range []string{
		``,
		`{`,
		`{"skill":"a","body":{"messages":[]},"expect":{}}`,
		`{"skill":"a","body":{"messages":[]},"expect":{"txt":"x"}}`,
		`{"skill":"a","body":{"messages":[]},"expect":{"text":"("}}`,
		`{"skill":"a","body":{},"expect":{"text":"x"}}`,
		`{"body":{"messages":[]},"expect":{"text":"x"}}`,
		`{"skill":"a","body":{"messages":[],"model":"m"},"expect":{"text":"x"}}`,
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("no complaint about %s", bad)
		}
	}
}

func TestJudge(t *testing.T) {
	call := func(name, input string) Call { return Call{name, json.RawMessage(input)} }
	for _, c := range []struct {
		expect string
		answer Answer
		right  bool
	}{
		{`{"text":"^4$"}`, Answer{Text: "4", Stop: "end_turn"}, true},
		{`{"text":"^4$"}`, Answer{Text: "5", Stop: "end_turn"}, false},
		{`{"text":"^4$"}`, Answer{Text: "4", Stop: "max_tokens"}, false},
		{`{"text":"a.b"}`, Answer{Text: "a\nb", Stop: "end_turn"}, true},
		{`{"not":"sorry"}`, Answer{Text: "I am sorry", Stop: "end_turn"}, false},
		{`{"thinking":"carry"}`, Answer{Text: "4", Thinking: "carry one", Stop: "end_turn"}, true},
		{`{"thinking":"carry"}`, Answer{Text: "carry", Stop: "end_turn"}, false},
		{`{"json":{"a":1,"b":[2.0]}}`, Answer{Text: `{"b":[2],"a":1}`, Stop: "end_turn"}, true},
		{`{"json":{"a":1}}`, Answer{Text: `{"a":1,"b":2}`, Stop: "end_turn"}, false},
		{`{"json":{"a":1}}`, Answer{Text: `not json`, Stop: "end_turn"}, false},
		{`{"tools":[{"name":"f","input":{"x":1}}]}`, Answer{Calls: []Call{call("f", `{"x":1.0}`)}, Stop: "tool_use"}, true},
		{`{"tools":[{"name":"f","input":{"x":1}}]}`, Answer{Calls: []Call{call("f", `{"x":2}`)}, Stop: "tool_use"}, false},
		{`{"tools":[{"name":"f","input":null}]}`, Answer{Calls: []Call{call("f", `{"x":2}`)}, Stop: "tool_use"}, true},
		{`{"tools":[{"name":"f"}]}`, Answer{Calls: []Call{call("g", `{}`)}, Stop: "tool_use"}, false},
		{`{"tools":[{"name":"f"}]}`, Answer{Calls: []Call{call("f", `{}`), call("f", `{}`)}, Stop: "tool_use"}, false},
		{`{"tools":[{"name":"f"}]}`, Answer{Text: "f", Stop: "end_turn"}, false},
		{`{"tools":[],"text":"no"}`, Answer{Text: "no", Calls: []Call{call("f", `{}`)}, Stop: "end_turn"}, false},
		{`{"stop":"max_tokens"}`, Answer{Stop: "max_tokens"}, true},
	} {
		var e Expect
		if err := json.Unmarshal([]byte(c.expect), &e); err != nil {
			t.Fatal(err)
		}
		if fault := e.Judge(c.answer); (fault == "") != c.right {
			t.Errorf("%s of %+v: %q, want right %v", c.expect, c.answer, fault, c.right)
		}
	}
}

func TestLoops(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "no no no": false,
		strings.Repeat("word ", 12):                                   true,
		"it begins well, " + strings.Repeat("and then and so ", 4):    true,
		"one two three four five six seven eight nine ten eleven end": false,
		strings.Repeat("one two three four five six ", 2):             false,
	} {
		if got := Loops(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestRun asks a server that adds two numbers, though not always.
func TestRun(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model       string
			MaxTokens   int `json:"max_tokens"`
			Temperature *float64
			Messages    []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Model != "m" || r.Header.Get("x-api-key") != "k" || q.Temperature == nil {
			t.Errorf("request %+v, %v", q, err)
		}
		var a, b int
		fmt.Sscanf(q.Messages[0].Content, "%d+%d", &a, &b)
		sum := a + b
		if sum > 9 {
			sum--
		}
		fmt.Fprintf(w, `{"content":[{"type":"thinking","thinking":"add"},{"type":"text","text":" %d\n"}],"stop_reason":"end_turn","usage":{"output_tokens":%d}}`, sum, q.MaxTokens)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "cases.jsonl")
	var lines strings.Builder
	for _, c := range [][3]int{{1, 2, 3}, {4, 5, 9}, {9, 9, 18}, {2, 2, 4}} {
		fmt.Fprintf(&lines, `{"skill":"add","body":{"max_tokens":7,"messages":[{"role":"user","content":"%d+%d"}]},"expect":{"text":"^%d$"}}`+"\n", c[0], c[1], c[2])
	}
	lines.WriteString(`{"skill":"think","body":{"messages":[{"role":"user","content":"1+1"}]},"expect":{"thinking":"add"}}`)
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.URL, o.Key, o.Models, o.Files, o.Temperatures, o.MinScore = server.URL, "k", []string{"m"}, []string{file}, []float64{0, 1}, 0.7
	r, err := Run(context.Background(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rounds) != 2 || r.Rounds[1].Temperature != 1 {
		t.Fatalf("rounds %+v, want one for each temperature", r.Rounds)
	}
	one := r.Rounds[0]
	if len(one.Skills) != 2 || one.Skills[0].Right != 3 || one.Skills[0].Share != 0.75 || one.Skills[0].Tokens != 7 ||
		one.Skills[1].Share != 1 {
		t.Errorf("scores %+v", one.Skills)
	}
	if len(one.Faults) != 1 || one.Faults[0].Name != "line 3" || !r.Met() || one.All.Right != 4 {
		t.Errorf("faults %+v, met %v, all %+v", one.Faults, r.Met(), one.All)
	}
	var out bytes.Buffer
	row := "| add | 4 | 75.0 % | 100.0 % | 75.0 % | 100.0 % |"
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), row) || !strings.Contains(out.String(), "line 3") {
		t.Errorf("printed %v:\n%s", err, out.String())
	}
	o.Only = []string{"think"}
	if r, err := Run(context.Background(), o, t.Logf); err != nil || r.Rounds[0].All.Cases != 1 {
		t.Errorf("only one skill: %+v, %v", r.Rounds, err)
	}
	o.Only = []string{"think", "ad"} // a gate that no case of it could miss
	if _, err := Run(context.Background(), o, t.Logf); err == nil || !strings.Contains(err.Error(), `"ad"`) {
		t.Errorf("a skill that is not in the file: %v", err)
	}
}

func TestRunEndsWhenTheServerRefuses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "go away", http.StatusTooManyRequests)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "cases.jsonl")
	line := `{"skill":"a","name":"first","body":{"messages":[]},"expect":{"text":"x"}}` + "\n"
	if err := os.WriteFile(file, []byte(strings.Repeat(line, 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.URL, o.Models, o.Files = server.URL, []string{"m"}, []string{file}
	if _, err := Run(context.Background(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "first") {
		t.Errorf("%v, want the status and the case", err)
	}
}
