package skills

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
)

// Case is one prompt and what a right answer looks like.
type Case struct {
	Skill string `json:"skill"`
	// Name tells the cases of a skill apart; the line number where it is empty.
	Name string `json:"name"`
	// Body is a messages request: messages, and what else it needs. The run adds
	// model, and max_tokens and temperature as Options say.
	Body   map[string]json.RawMessage `json:"body"`
	Expect Expect                     `json:"expect"`

	forms forms // of Expect.Schema and of the body's tools
}

// Expect is what is checked; every rule that is set must hold.
type Expect struct {
	// Text must match the answer's text, Not must not; Thinking must match its
	// thoughts. Regular expressions of Go's syntax; the text has no space around it.
	Text     *Pattern `json:"text"`
	Not      *Pattern `json:"not"`
	Thinking *Pattern `json:"thinking"`
	// JSON must be equal to the text read as JSON, whatever the order of members.
	JSON json.RawMessage `json:"json"`
	// Schema is a JSON schema that the text read as JSON must be valid by.
	Schema json.RawMessage `json:"schema"`
	// Tools are the calls that must be made, in this order and no others.
	Tools []Call `json:"tools"`
	// Stop is the stop_reason. Empty is tool_use where Tools are expected, else end_turn.
	Stop string `json:"stop"`
}

// Call is a call of a tool. An input of null is not compared.
type Call struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Pattern is a regular expression in JSON.
type Pattern struct{ *regexp.Regexp }

// UnmarshalText compiles the expression; a dot matches line ends too.
func (p *Pattern) UnmarshalText(b []byte) (err error) {
	p.Regexp, err = regexp.Compile("(?s)" + string(b))
	return err
}

// caseMax bounds one line of a file of cases: prompts can be long.
const caseMax = 4 << 20

// Read reads cases, one on each line; empty lines and those that begin with # are skipped.
// An error names the line.
func Read(r io.Reader) ([]Case, error) {
	var all []Case
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, caseMax)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		c, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if c.Name == "" {
			c.Name = fmt.Sprintf("line %d", n)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("there are no cases in it")
	}
	return all, nil
}

func parse(line []byte) (c Case, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields() // a rule with a typing error would always hold
	if err := d.Decode(&c); err != nil {
		return c, err
	}
	e := c.Expect
	switch {
	case c.Skill == "":
		return c, errors.New("it has no skill")
	case c.Body["messages"] == nil:
		return c, errors.New("its body has no messages")
	case c.Body["model"] != nil || c.Body["stream"] != nil:
		return c, errors.New("its body names model or stream: the run does")
	case e.Text == nil && e.Not == nil && e.Thinking == nil && e.JSON == nil && e.Schema == nil && e.Tools == nil && e.Stop == "":
		return c, errors.New("it expects nothing")
	}
	c.forms, err = compileForms(c)
	return c, err
}

// Answer is what is judged of a reply.
type Answer struct {
	Text, Thinking string
	Calls          []Call
	Stop           string
	Output         int // tokens
}

// Judge says what is wrong with an answer; nothing is empty. Of the expectations' schema it knows nothing: Case.Judge does.
func (e Expect) Judge(a Answer) string {
	stop := cmp.Or(e.Stop, "end_turn")
	if e.Stop == "" && len(e.Tools) > 0 {
		stop = "tool_use"
	}
	switch {
	case a.Stop != stop:
		return fmt.Sprintf("it stopped for %s, want %s", a.Stop, stop)
	case e.Text != nil && !e.Text.MatchString(a.Text):
		return fmt.Sprintf("the text does not match %q", e.Text)
	case e.Not != nil && e.Not.MatchString(a.Text):
		return fmt.Sprintf("the text matches %q", e.Not)
	case e.Thinking != nil && !e.Thinking.MatchString(a.Thinking):
		return fmt.Sprintf("the thoughts do not match %q", e.Thinking)
	case e.JSON != nil && !equal(e.JSON, []byte(a.Text)):
		return fmt.Sprintf("the text is not the JSON value %s", e.JSON)
	}
	return judgeCalls(e.Tools, a.Calls)
}

func judgeCalls(want, got []Call) string {
	if want == nil {
		return ""
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d tools were called, want %d", len(got), len(want))
	}
	for i, w := range want {
		if got[i].Name != w.Name {
			return fmt.Sprintf("call %d is of %q, want %q", i+1, got[i].Name, w.Name)
		}
		if w.Input != nil && string(w.Input) != "null" && !equal(w.Input, got[i].Input) {
			return fmt.Sprintf("call %d has input %s, want %s", i+1, got[i].Input, w.Input)
		}
	}
	return ""
}

// equal compares two JSON values; numbers by value, objects without order.
func equal(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// A text loops when some loopWords words or fewer follow themselves loopTimes
// times or more, and all of it is at least loopLength words: "no no no" is none.
const (
	loopWords  = 24
	loopTimes  = 4
	loopLength = 12
)

// Loops says whether a text goes round in circles somewhere.
func Loops(text string) bool {
	words := strings.Fields(text)
	for period := 1; period <= loopWords; period++ {
		same := 0
		for i := period; i < len(words); i++ {
			if words[i] != words[i-period] {
				same = 0
				continue
			}
			same++
			if same >= (loopTimes-1)*period && same+period >= loopLength {
				return true
			}
		}
	}
	return false
}
