package skills

import (
	"encoding/json"
	"strings"
	"testing"
)

// readCases are cases of lines of JSON.
func readCases(t *testing.T, lines ...string) []Case {
	t.Helper()
	cases, err := Read(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestAnswersAreJudgedByTheirSchema(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`
	c := readCases(t, `{"skill":"schemas","body":{"messages":[]},"expect":{"schema":`+schema+`}}`)[0]
	answers := map[string]bool{`{"a":"x"}`: true, `{"a":null}`: true, `{"a":1}`: false, `{}`: false, `{"a":"x`: false, ``: false}
	for text, right := range answers {
		if fault := c.Judge(Answer{Text: text, Stop: "end_turn"}); (fault == "") != right {
			t.Errorf("%s: %q, want right %v", text, fault, right)
		}
	}
	if c.Judge(Answer{Text: `{"a":"x"}`, Stop: "max_tokens"}) == "" {
		t.Error("an answer that did not end is right")
	}
}

func TestValidCallsAreOfAToolOnOfferAndOfItsSchema(t *testing.T) {
	schema := `{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"required":["n"],"$defs":{"N":{"type":"integer"}}}`
	c := readCases(t, `{"skill":"tools","body":{"messages":[],"tools":[{"name":"f","input_schema":`+schema+`}]},`+
		`"expect":{"tools":[{"name":"f","input":{"n":1}}]}}`)[0]
	calls := []Call{{"f", json.RawMessage(`{"n":2}`)}, {"f", json.RawMessage(`{"n":"2"}`)}, {"g", json.RawMessage(`{"n":2}`)}}
	if n := c.validCalls(Answer{Calls: calls}); n != 1 {
		t.Errorf("%d calls are valid, want the first alone", n)
	}
}

func TestASchemaThatIsNoneIsRefused(t *testing.T) {
	for _, line := range []string{
		`{"skill":"a","body":{"messages":[]},"expect":{"schema":{"type":"strin"}}}`,
		`{"skill":"a","body":{"messages":[],"tools":[{"name":"f","input_schema":{"$ref":"#/no"}}]},"expect":{"text":"x"}}`,
		`{"skill":"a","body":{"messages":[],"tools":1},"expect":{"text":"x"}}`,
	} {
		if _, err := Read(strings.NewReader(line)); err == nil {
			t.Errorf("no complaint about %s", line)
		}
	}
}

// kept is what a round of a model that keeps every promise has.
func kept(model string, temperature float64) Round {
	return Round{Model: model, Temperature: temperature, Skills: []Score{
		{Skill: "new json", Cases: 100, Right: 95}, {Skill: schemasSkill, Cases: 200, Right: 190, Share: 0.95},
		{Skill: loopsSkill, Cases: 500, Looped: 0.008},
	}, All: Score{Cases: 800, Ended: 0.99, Calls: 50, ValidCalls: 50, Wanted: 50, Called: 48}}
}

func TestEveryPromiseIsAGate(t *testing.T) {
	if gates := promises([]Round{kept("core-1.1", 0), kept("core-1.1-mini", 0), kept("core-1.1", -1)}); !gates.Met() || len(gates) != 6+6+5 {
		t.Errorf("%d gates: %+v", len(gates), gates)
	}
	for what, spoil := range map[string]func(*Round){
		"right in new sentences": func(r *Round) { r.Skills[0].Right-- },
		"schemas that end valid": func(r *Round) { r.Skills[1].Share = 0.94 },
		"calls valid":            func(r *Round) { r.All.ValidCalls-- },
		"calls right":            func(r *Round) { r.All.Called--; r.All.Called-- },
		"answers that end":       func(r *Round) { r.All.Ended = 0.98 },
		"answers in circles":     func(r *Round) { r.Skills[2].Looped = 0.01 },
	} {
		r := kept("core-1.1", 0)
		spoil(&r)
		for _, g := range promises([]Round{r}) {
			if g.Met == strings.HasSuffix(g.Name, ": "+what) {
				t.Errorf("without %q the gate %q is met: %v", what, g.Name, g.Met)
			}
		}
	}
	mini := kept("core-1.1-mini", 0)
	mini.Skills[0].Right = 90
	if !promises([]Round{mini}).Met() {
		t.Error("the smaller model misses a promise at 90 %")
	}
	if promises([]Round{{Model: "m"}}).Met() {
		t.Error("what was not measured is a promise kept")
	}
}
