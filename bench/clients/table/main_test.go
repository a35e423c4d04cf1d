package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestJudge: a new failure is wrong, and so is a list that is not true any more.
func TestJudge(t *testing.T) {
	list := []expectation{
		{Client: "a", Protocol: "chat", Case: "n", Says: "400", Reason: "n = 1 only"},
		{Client: "a", Case: "image", Says: "400", Reason: "text only"},
	}
	image := result{Client: "a", Protocol: "messages", Case: "image", Error: "400"}
	n := result{Client: "a", Protocol: "chat", Case: "n", Error: "status 400: n"}
	for _, c := range []struct {
		name  string
		got   []result
		some  bool
		wrong int
		says  string
	}{
		{"as expected", []result{n, image, {Client: "a", Case: "plain"}}, false, 0, "3 cases, 1 ok, 2 expected failures, 0 wrong"},
		{"expected on every protocol", []result{n, image, {Client: "a", Protocol: "chat", Case: "image", Error: "400"}}, false, 0, "expected failure: text only"},
		{"a new failure", []result{n, image, {Client: "a", Protocol: "chat", Case: "plain", Error: "boom"}}, false, 1, "boom"},
		{"another client's", []result{n, image, {Client: "b", Protocol: "chat", Case: "n", Error: "400"}}, false, 1, "FAIL"},
		{"another protocol's", []result{n, image, {Client: "a", Protocol: "responses", Case: "n", Error: "400"}}, false, 1, "FAIL"},
		{"another error than expected", []result{{Client: "a", Protocol: "chat", Case: "n", Error: "500"}, image}, false, 1, "500"},
		{"one passes now", []result{{Client: "a", Protocol: "chat", Case: "n"}, image}, false, 1, "PASSES"},
		{"one did not run", []result{image}, false, 1, "DID NOT RUN"},
		{"only some ran", []result{image}, true, 0, "1 expected failures"},
	} {
		var out strings.Builder
		wrong, err := show(&out, judge(c.got, list, c.some))
		if err != nil || wrong != c.wrong || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %d wrong, %v\n%s", c.name, wrong, err, out.String())
		}
	}
}

func TestReadRefuses(t *testing.T) {
	if got, err := readResults(nil); err == nil {
		t.Errorf("no results read as %v", got)
	}
	if got, err := readResults([]byte(`{"client":"corenode","case":"no errors logged, shipped"}`)); err == nil {
		t.Errorf("results of the nodes alone read as %v", got)
	}
	if list, err := readExpected([]byte(`[{"client":"a","case":"b","says":"400"}]`)); err == nil {
		t.Errorf("an expectation without a reason read as %v", list)
	}
}

// TestOnlyKnownClients: a word that is in no client's name ends the script before it starts anything; it says the names.
func TestOnlyKnownClients(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for only, unknown := range map[string]string{"langchain langchian": "langchian", "TypeScript claude llm nobody": "nobody"} {
		script := exec.Command(bash, "../run.sh")
		script.Env = append(os.Environ(), "CLIENTS_ONLY="+only)
		said, err := script.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(said), `no client's name holds "`+unknown+`"`) || !strings.Contains(string(said), "openai Python, legacy") {
			t.Errorf("only %q: %v, %s", only, err, said)
		}
	}
}

// TestExpectedIsReadable reads the lists that are checked in.
func TestExpectedIsReadable(t *testing.T) {
	for _, name := range []string{"../expected.json", "../expected-llama.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := readExpected(text); err != nil || len(list) == 0 {
			t.Errorf("%s: %d expectations, %v", name, len(list), err)
		}
	}
}
