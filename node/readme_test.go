package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// usedAsPrinted are the commands that README.md prints in "Use it", up to the SDKs, in paragraphs.
func usedAsPrinted(t *testing.T) (commands []string) {
	t.Helper()
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## Use it\n")
	printed, _, ends := strings.Cut(rest, "\nWith an SDK")
	if !found || !ends {
		t.Fatal(`README.md has no "Use it" that goes on to SDKs`)
	}
	for paragraph := range strings.SplitSeq("\n"+printed, "\n\n") {
		if strings.HasPrefix(paragraph, "    ") {
			commands = append(commands, paragraph)
		}
	}
	return commands
}

// TestTheReadmesRequests runs what the README prints, in a shell, against a node as it comes out of the box.
func TestTheReadmesRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a node with its embedded model")
	}
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	_, base, key := startNode(t, nil)
	given := strings.NewReplacer("http://127.0.0.1:8080", base, "$(cat data/default.key)", key, "curl ", "curl -sS --max-time 60 ")
	preparing, answers := "", []any{}
	for _, command := range usedAsPrinted(t) {
		command = given.Replace(command)
		if !strings.Contains(command, "curl ") {
			preparing += command + "\n"
			continue
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-ec", preparing+command).CombinedOutput()
		var answer any
		if err != nil || json.Unmarshal(out, &answer) != nil {
			t.Fatalf("%s\n%v: %s", command, err, out)
		}
		answers = append(answers, answer)
	}
	if len(answers) != 5 {
		t.Fatalf("%d requests are printed, want two greetings, a tool round trip of two and one with a schema", len(answers))
	}
	texts := []string{str(at(blockOf(answers[0], "text"), "text")), str(at(answers[1], "choices", 0, "message", "content"))}
	for _, text := range texts {
		if !strings.Contains(text, "Hello") {
			t.Errorf("asked to say hello, the model said %q", text)
		}
	}
	call := blockOf(answers[2], "tool_use")
	if str(at(answers[2], "stop_reason")) != "tool_use" || str(at(call, "name")) != "get_weather" || str(at(call, "input", "city")) != "Paris" {
		t.Errorf("the tool is called by %v", answers[2])
	}
	if told := str(at(blockOf(answers[3], "text"), "text")); !strings.Contains(told, "17") || !strings.Contains(told, "clear") {
		t.Errorf("of a result of 17 degrees and a clear sky is told %q", told)
	}
	checkPerson(t, str(at(answers[4], "choices", 0, "message", "content")))
}

// blockOf is the first block of a kind in a message; thoughts may stand in front of it.
func blockOf(message any, kind string) any {
	for _, block := range list(at(message, "content")) {
		if str(at(block, "type")) == kind {
			return block
		}
	}
	return nil
}

// checkPerson wants a JSON answer to be what its question says.
func checkPerson(t *testing.T, text string) {
	t.Helper()
	var person struct {
		Name, City string
		Age        int
	}
	if err := json.Unmarshal([]byte(text), &person); err != nil || person.Name != "Mara" || person.City != "Oslo" || person.Age != 31 {
		t.Errorf("the answer in JSON is %q (%v)", text, err)
	}
}
