package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/node/store/sqlite"
	"corenode/node/why"
)

// described is what the tests read of the document.
type described struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref                         string `json:"$ref"`
	Type, Format, Description   string
	ContentEncoding             string
	Enum, Required              []string
	Properties                  map[string]schema
	Items, AdditionalProperties *schema
}

// readDocument gives the document as a caller gets it.
func readDocument(t *testing.T) (d described) {
	t.Helper()
	status, _, body := New(nil, nil, nil, nil, nil).Handle(t.Context(), "GET", "/openapi.json", nil, nil)
	if err := json.Unmarshal(body, &d); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	return d
}

// answer is the schema of what a verb answers with a status.
func (d described) answer(verb route, status string) (s schema, known bool) {
	var o struct {
		Summary   string
		Responses map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	if err := json.Unmarshal(d.Paths[verb.path][strings.ToLower(verb.method)], &o); err != nil || o.Summary == "" {
		return s, false
	}
	content, known := o.Responses[status].Content["application/json"]
	return content.Schema, known
}

// checked is a client that holds every answer to what the document says of its verb.
func checked(t *testing.T, c *Client) *Client {
	t.Helper()
	d := readDocument(t)
	return &Client{send: func(method, path string, query url.Values, body []byte) (int, []byte, error) {
		status, answer, err := c.send(method, path, query, body)
		verb, _, unknown := match(method, path)
		if err != nil || unknown != nil {
			return status, answer, err
		}
		code := strconv.Itoa(status)
		if status >= 400 {
			code = "default"
		}
		s, known := d.answer(verb, code)
		var value any
		if err = json.Unmarshal(answer, &value); err == nil {
			err = d.check(s, value, "the answer")
		}
		if !known || err != nil {
			t.Errorf("%s %s: %d %s is not as described: %v", method, path, status, answer, err)
		}
		return status, answer, nil
	}}
}

// check says where a value is not what its schema says.
func (d described) check(s schema, value any, at string) error {
	if name, refers := strings.CutPrefix(s.Ref, "#/components/schemas/"); refers {
		whole, known := d.Components.Schemas[name]
		if !known {
			return fmt.Errorf("%s refers to %s, which is not there", at, name)
		}
		return d.check(whole, value, at)
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Type == "object" {
			return d.checkObject(s, v, at)
		}
	case []any:
		if s.Type == "array" {
			return d.checkList(s, v, at)
		}
	case string:
		if s.Type == "string" {
			return checkText(s, v, at)
		}
	case float64:
		if s.Type == "number" || s.Type == "integer" && v == math.Trunc(v) {
			return nil
		}
	case bool:
		if s.Type == "boolean" {
			return nil
		}
	}
	return fmt.Errorf("%s is %v, of the type %q", at, value, s.Type)
}

func (d described) checkList(s schema, value []any, at string) error {
	for i, item := range value {
		if err := d.check(*s.Items, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func (d described) checkObject(s schema, value map[string]any, at string) error {
	for _, name := range s.Required {
		if _, there := value[name]; !there {
			return fmt.Errorf("%s has no %s", at, name)
		}
	}
	for name, item := range value {
		property, known := s.Properties[name]
		if s.AdditionalProperties != nil {
			property, known = *s.AdditionalProperties, true
		}
		if !known && s.Properties != nil {
			return fmt.Errorf("%s has %s, which the document has not", at, name)
		}
		if !known { // of an object of any fields
			continue
		}
		if err := d.check(property, item, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkText(s schema, value, at string) (err error) {
	switch {
	case s.Enum != nil && !slices.Contains(s.Enum, value):
		err = fmt.Errorf("want one of %v", s.Enum)
	case s.Format == "date-time":
		_, err = time.Parse(time.RFC3339, value)
	case s.ContentEncoding == "base64":
		_, err = base64.StdEncoding.DecodeString(value)
	}
	if err != nil {
		return fmt.Errorf("%s is %q: %w", at, value, err)
	}
	return nil
}

// TestDocumentSaysWhatEveryVerbDoes: each verb has a sentence, and a schema for what it answers; what
// is said of parameters, segments and schemas is said of some that there are.
func TestDocumentSaysWhatEveryVerbDoes(t *testing.T) {
	d := readDocument(t)
	used := map[string]bool{}
	for _, r := range routes {
		rest := strings.TrimPrefix(r.path, Root)
		_, braces, _ := strings.Cut(rest, "{")
		name, _, _ := strings.Cut(braces, "}")
		for _, key := range []string{rest, name} {
			used[key] = true
		}
		if name != "" && segments[rest] == "" && segments[name] == "" {
			t.Errorf("nothing is said of {%s} in %s", name, r.path)
		}
		if _, known := d.answer(r, strconv.Itoa(r.status)); !known {
			t.Errorf("%s %s is not described", r.method, r.path)
		}
		if names := r.parameters(); !slices.IsSortedFunc(names, func(a, b parameter) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("%s: %v are not in the order of their names", r.path, names)
		}
	}
	for _, keys := range [][]string{slices.Collect(maps.Keys(segments)), slices.Collect(maps.Keys(queries))} {
		for _, key := range keys {
			if !used[key] {
				t.Errorf("%s is described, and no verb has it", key)
			}
		}
	}
	for key, says := range schemaTexts {
		name, field, _ := strings.Cut(key, ".")
		whole, known := d.Components.Schemas[name]
		if !known || field == "" && whole.Description != says || field != "" && whole.Properties[field].Description != says {
			t.Errorf("%q is said of %s, which there is not", says, key)
		}
	}
}

// TestAnswersAreHeldToTheDocument: an answer that is not as described is found.
func TestAnswersAreHeldToTheDocument(t *testing.T) {
	d := readDocument(t)
	for answer, wrong := range map[string]string{
		`{"draining":true}`:             "",
		`{}`:                            "has no draining",
		`{"draining":"yes"}`:            "draining is yes",
		`{"draining":null}`:             "draining is <nil>",
		`{"draining":true,"drained":1}`: "has drained",
		`[]`:                            "the answer is []",
	} {
		var value any
		if err := json.Unmarshal([]byte(answer), &value); err != nil {
			t.Fatal(err)
		}
		err := d.check(d.Components.Schemas["Status"], value, "the answer")
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", answer, err, wrong)
		}
	}
}

// fakeLive is a node that has one of everything.
type fakeLive struct{}

func (fakeLive) Requests() []Request {
	return []Request{{ID: "req_1", AccountID: "acct_1", Phase: "decode", DecodeRate: 2.5}}
}

func (fakeLive) PastRequests(string, string, string, uint64, int) []PastRequest {
	return []PastRequest{{Number: 7, ID: "req_0", TotalMS: 1.5, Began: time.Now()}}
}

func (fakeLive) CancelRequest(string) bool { return true }

func (fakeLive) Reload() (Reloaded, error) {
	return Reloaded{Changed: []string{"log.level"}, Waiting: []string{}, Problems: []string{}}, nil
}

func (fakeLive) LookAtCaches(context.Context, string, string, int) (CacheLook, error) {
	return CacheLook{[]CachedModel{{Accounts: []CachedAccount{{}}, Prefixes: []CachedPrefix{{}}}}}, nil
}

func (fakeLive) WhyUnshared(context.Context, string, string) (Unshared, error) {
	return Unshared{}, nil
}

func (fakeLive) Prices() []ModelPrices { return []ModelPrices{{Model: "m"}} }

func (fakeLive) ApplyPrices() error { return nil }

func (fakeLive) Settings() []Setting { return []Setting{{Key: "log.level"}} }

func (fakeLive) Logs(LogQuery) LogPage { return LogPage{Data: []LogLine{{Number: 1}}, Missed: 1} }

func (fakeLive) DrainState() DrainState { return DrainState{} }

func (fakeLive) Why(context.Context, time.Duration) why.Diagnosis {
	return why.Diagnosis{Causes: []why.Cause{{Name: "disk", Weight: 0.5}}}
}

// TestLiveVerbsAnswerAsDescribed asks a node that runs for all that only such a one can tell.
func TestLiveVerbsAnswerAsDescribed(t *testing.T) {
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	api := New(s, &fakeNode{}, nil, nil, nil)
	api.SetLive(fakeLive{})
	c := checked(t, Local(api))
	for _, call := range []string{"GET /requests", "GET /requests/past", "POST /requests/req_1/cancel", "GET /why", "GET /cache",
		"GET /cache/why", "POST /reload", "GET /prices", "POST /prices/apply", "GET /config", "GET /logs", "GET /drain"} {
		method, path, _ := strings.Cut(call, " ")
		query := url.Values{}
		if path == "/cache/why" {
			query = url.Values{"first": {"req_0"}, "second": {"req_1"}}
		}
		if err := c.roundTrip(method, Root+path, query, nil, &json.RawMessage{}); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
