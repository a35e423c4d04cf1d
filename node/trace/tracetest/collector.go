// Package tracetest is a collector of traces for tests. It reads the JSON encoding of OTLP as its
// schema has it, and is stricter than a collector: what the schema does not know is an error.
package tracetest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Span is one span that came.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is empty at the root
	State, Name       string
	Kind              int
	Flags             uint32
	Began, Ended      time.Time
	Attributes        map[string]any // string, int64, float64, bool or []any of them
	Events            []Event
	Failed            bool
	Resource          map[string]any
	SchemaURL         string
}

// Event is one of a span's.
type Event struct {
	Name string
	At   time.Time
}

// Collector takes traces over HTTP. What is not as the schema has it fails the test.
type Collector struct {
	URL string // of its path for traces

	t       *testing.T
	mu      sync.Mutex
	spans   []Span
	headers []http.Header
	refuse  []int // statuses of the next answers
}

// Start runs a collector until the test ends.
func Start(t *testing.T) *Collector {
	c := &Collector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

// Refuse makes it answer the next requests with these statuses, and take nothing of them.
func (c *Collector) Refuse(statuses ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = statuses
}

// Spans are those that came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Headers are those of the requests so far, refused ones too.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := content(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	if len(c.refuse) > 0 {
		w.WriteHeader(c.refuse[0])
		c.refuse = c.refuse[1:]
		return
	}
	var spans []Span
	if err == nil {
		spans, err = Decode(body)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s %s: %v\n%s", r.Method, r.URL, err, body)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.spans = append(c.spans, spans...)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}") // a client that has left
}

func content(r *http.Request) ([]byte, error) {
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		return nil, fmt.Errorf("content type %q", got)
	}
	switch e := r.Header.Get("Content-Encoding"); e {
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case "":
		return io.ReadAll(r.Body)
	default:
		return nil, fmt.Errorf("content encoding %q", e)
	}
}

// The messages of the schema: opentelemetry/proto/collector/trace/v1, trace/v1, common/v1 and
// resource/v1, with the names and types of their JSON.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
		SchemaURL  string       `json:"schemaUrl"`
	}
	resource struct {
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
	}
	scopeSpans struct {
		Scope     scope  `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl"`
	}
	scope struct {
		Name                   string     `json:"name"`
		Version                string     `json:"version"`
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
	}
	span struct {
		TraceID                string     `json:"traceId"`
		SpanID                 string     `json:"spanId"`
		TraceState             string     `json:"traceState"`
		ParentSpanID           string     `json:"parentSpanId"`
		Flags                  uint32     `json:"flags"`
		Name                   string     `json:"name"`
		Kind                   int        `json:"kind"`
		StartTimeUnixNano      string     `json:"startTimeUnixNano"`
		EndTimeUnixNano        string     `json:"endTimeUnixNano"`
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
		Events                 []event    `json:"events"`
		DroppedEventsCount     uint32     `json:"droppedEventsCount"`
		Links                  []link     `json:"links"`
		DroppedLinksCount      uint32     `json:"droppedLinksCount"`
		Status                 *status    `json:"status"`
	}
	event struct {
		TimeUnixNano           string     `json:"timeUnixNano"`
		Name                   string     `json:"name"`
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
	}
	link struct {
		TraceID                string     `json:"traceId"`
		SpanID                 string     `json:"spanId"`
		TraceState             string     `json:"traceState"`
		Attributes             []keyValue `json:"attributes"`
		DroppedAttributesCount uint32     `json:"droppedAttributesCount"`
		Flags                  uint32     `json:"flags"`
	}
	status struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		StringValue *string     `json:"stringValue"`
		BoolValue   *bool       `json:"boolValue"`
		IntValue    *string     `json:"intValue"` // 64 bits are a text
		DoubleValue *float64    `json:"doubleValue"`
		ArrayValue  *arrayValue `json:"arrayValue"`
		BytesValue  *string     `json:"bytesValue"`
	}
	arrayValue struct {
		Values []value `json:"values"`
	}
)

// Decode reads a request of the JSON encoding.
func Decode(body []byte) (spans []Span, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var q request
	if err := d.Decode(&q); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something stands behind the request")
	}
	for _, rs := range q.ResourceSpans {
		of, err := plain(rs.Resource.Attributes)
		if err != nil {
			return nil, err
		}
		for _, ss := range rs.ScopeSpans {
			if ss.Scope.Name == "" {
				return nil, errors.New("a scope without a name")
			}
			for _, s := range ss.Spans {
				one, err := s.read()
				if err != nil {
					return nil, fmt.Errorf("span %q: %w", s.Name, err)
				}
				one.Resource, one.SchemaURL = of, ss.SchemaURL
				spans = append(spans, one)
			}
		}
	}
	return spans, nil
}

func (s *span) read() (one Span, err error) {
	one = Span{Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, State: s.TraceState, Name: s.Name, Kind: s.Kind, Flags: s.Flags}
	one.Attributes, err = plain(s.Attributes)
	err = errors.Join(err, isID("traceId", s.TraceID, 16), isID("spanId", s.SpanID, 8))
	if s.ParentSpanID != "" {
		err = errors.Join(err, isID("parentSpanId", s.ParentSpanID, 8))
	}
	if s.Kind < 1 || s.Kind > 5 || s.Name == "" || s.Flags > 0x3ff || len(s.Links) > 0 {
		err = errors.Join(err, fmt.Errorf("kind %d, name %q, flags %x, %d links", s.Kind, s.Name, s.Flags, len(s.Links)))
	}
	if s.Status != nil {
		if one.Failed = s.Status.Code == 2; s.Status.Code < 0 || s.Status.Code > 2 {
			err = errors.Join(err, fmt.Errorf("status %d", s.Status.Code))
		}
	}
	read := func(text string) time.Time {
		n, bad := strconv.ParseUint(text, 10, 63)
		if bad != nil || n == 0 {
			err = errors.Join(err, fmt.Errorf("the time %q: %w", text, bad))
		}
		return time.Unix(0, int64(n))
	}
	one.Began, one.Ended = read(s.StartTimeUnixNano), read(s.EndTimeUnixNano)
	if one.Ended.Before(one.Began) {
		err = errors.Join(err, errors.New("it ended before it began"))
	}
	for _, e := range s.Events {
		if e.Name == "" {
			err = errors.Join(err, errors.New("an event without a name"))
		}
		one.Events = append(one.Events, Event{e.Name, read(e.TimeUnixNano)})
	}
	return one, err
}

// isID checks an id: as many bytes, in lower case, not all zero.
func isID(name, text string, size int) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != size || strings.ToLower(text) != text || bytes.Equal(b, make([]byte, size)) {
		return fmt.Errorf("%s is %q", name, text)
	}
	return nil
}

// plain are attributes by their keys, which have to be different.
func plain(all []keyValue) (map[string]any, error) {
	m := map[string]any{}
	for _, a := range all {
		v, err := a.Value.plain()
		if _, twice := m[a.Key]; err != nil || a.Key == "" || twice {
			return nil, fmt.Errorf("attribute %q, twice: %v: %w", a.Key, twice, err)
		}
		m[a.Key] = v
	}
	return m, nil
}

func (v *value) plain() (one any, err error) {
	set := 0
	put := func(is bool, read func() (any, error)) {
		if is {
			set++
			one, err = read()
		}
	}
	put(v.StringValue != nil, func() (any, error) { return *v.StringValue, nil })
	put(v.BoolValue != nil, func() (any, error) { return *v.BoolValue, nil })
	put(v.IntValue != nil, func() (any, error) { return strconv.ParseInt(*v.IntValue, 10, 64) })
	put(v.DoubleValue != nil, func() (any, error) { return *v.DoubleValue, nil })
	put(v.ArrayValue != nil, func() (any, error) {
		all := []any{}
		for i := range v.ArrayValue.Values {
			one, err := v.ArrayValue.Values[i].plain()
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	})
	if set != 1 || v.BytesValue != nil {
		return nil, fmt.Errorf("a value of %d kinds", set)
	}
	return one, err
}
