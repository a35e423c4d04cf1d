package skills

import (
	"encoding/json"
	"testing"

	"corenode/engine/messages"
)

// The cases of the embedded models: the server takes every one, and none is
// right without an answer.
func TestEmbeddedCases(t *testing.T) {
	o := Defaults()
	o.Files = []string{"../../engine/embedded/skills.jsonl", "../../engine/embedded/promises.jsonl"}
	cases, err := o.cases()
	if err != nil {
		t.Fatal(err)
	}
	thinks := map[string]map[bool]int{}
	for _, c := range cases {
		body, err := o.body("core-1.1", 0, c)
		if err != nil {
			t.Fatal(err)
		}
		q, err := messages.Parse(body)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if thinks[c.Skill] == nil {
			thinks[c.Skill] = map[bool]int{}
		}
		thinks[c.Skill][q.Thinking]++
		for _, stop := range []string{"end_turn", "tool_use"} {
			if c.Skill != loopsSkill && c.Judge(Answer{Stop: stop}) == "" {
				t.Errorf("%s is right with no answer: %s", c.Name, describe(c.Expect))
			}
		}
	}
	for skill, n := range thinks {
		if n[true] < 3 || n[false] < 3 || n[true]-n[false] > 1 || n[false] > n[true] {
			t.Errorf("%s: %d cases think and %d do not", skill, n[true], n[false])
		}
	}
	if len(thinks) < 28 {
		t.Errorf("%d skills", len(thinks))
	}
}

func describe(e Expect) string {
	b, _ := json.Marshal(e) // of strings
	return string(b)
}
