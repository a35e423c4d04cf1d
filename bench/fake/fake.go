// Package fake is servers of other makes, for tests and for measuring: each speaks its
// flavor's protocol as the real one does, that of messages as strictly as public servers do,
// answers what a script says, and fails where the script says so. It records what it was sent, and when a client left.
//
// The shapes of frames are those of the real servers: vLLM's and SGLang's from their
// sources, llama-server's and this node's from transcripts of running ones.
package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/engine/upstream/wire"
)

// Fault is how an answer goes wrong.
type Fault string

// The faults. Those that happen within an answer happen at Script.At.
const (
	None             Fault = ""
	DieBeforeHeaders Fault = "dies before headers"
	DieAfterHeaders  Fault = "dies after headers"
	DieBetweenEvents Fault = "dies between events"
	DieInEvent       Fault = "dies within an event"
	DieInCharacter   Fault = "dies within a character"
	EndEarly         Fault = "ends cleanly without a reason"
	Stall            Fault = "stalls"
	LieInput         Fault = "lies about the prompt"
	LieOutput        Fault = "lies about the output"
	LieCached        Fault = "says more cached than prompt"
	NoUsage          Fault = "reports no usage"
	ErrorBody        Fault = "200 with an error as its body"
	ErrorEvent       Fault = "an error within the stream"
	NoDone           Fault = "no end marker"
	TwoDone          Fault = "two end markers"
	NotJSON          Fault = "an event that is no JSON"
	Full429          Fault = "429"
	Full503          Fault = "503"
	Broken500        Fault = "500"
	Refuse400        Fault = "400"
	Refuse401        Fault = "401"
	InvalidCall      Fault = "a call that does not fit its schema"
	UnknownCall      Fault = "a call of a tool that is not there"
)

// Faults lists every fault, for tables that must cover them all.
func Faults() []Fault {
	return []Fault{DieBeforeHeaders, DieAfterHeaders, DieBetweenEvents, DieInEvent, DieInCharacter, EndEarly, Stall, LieInput, LieOutput,
		LieCached, NoUsage, ErrorBody, ErrorEvent, NoDone, TwoDone, NotJSON, Full429, Full503, Broken500, Refuse400, Refuse401,
		InvalidCall, UnknownCall}
}

// Call is a tool call of an answer.
type Call struct{ Name, Input string }

// Script is one answer.
type Script struct {
	Thinking, Text []string // each is a delta of one token
	Calls          []Call
	// PerDelta is how many tokens the usage has for each delta, default 1; Reasoning is how many of
	// them a chat server says to be reasoning, 0 where it says nothing of it.
	PerDelta, Reasoning int
	// Beside says that it reports them beside the output, which is then without the thinking.
	Beside bool
	// Stop is the reason: of the messages protocol. Empty is end_turn, or tool_use behind calls.
	Stop  string
	First time.Duration // before the first event
	Gap   time.Duration // before each delta
	Fault Fault
	At    int // deltas before the fault
}

// Seen is one request as it came.
type Seen struct {
	Path   string
	Header http.Header
	Body   []byte
	// Left is when the client's connection was seen to be closed before the answer was
	// complete; zero if it was not.
	Left time.Time
}

// Server is one fake.
type Server struct {
	*httptest.Server
	Flavor wire.Flavor
	// Tokens counts a prompt. Default: one for each word of the body.
	Tokens func(body []byte) int

	mu     sync.Mutex
	script func(n int, body []byte) Script // guarded by mu
	seen   []*Seen
	counts []Seen                     // questions for a count
	cached map[string]map[string]bool // prompts by partition
	down   bool                       // health says 503
	wait   int                        // the gauge of waiting requests
}

// New starts a fake on a free port of the loopback, until the test ends. script gives the answer
// of the nth request, from 0.
func New(t testing.TB, f wire.Flavor, script func(n int, body []byte) Script) *Server {
	s := &Server{Flavor: f, script: script, cached: map[string]map[string]bool{},
		Tokens: func(body []byte) int { return len(strings.Fields(string(body))) }}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+f.Path(), s.answer)
	mux.HandleFunc("POST /v1/messages/count_tokens", s.count)
	mux.HandleFunc("GET /", s.page)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// SetScript replaces the script.
func (s *Server) SetScript(script func(n int, body []byte) Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// SetDown makes the health page say that the server cannot answer.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// SetWaiting sets the gauge of waiting requests.
func (s *Server) SetWaiting(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = n
}

// Seen returns the requests for answers so far.
func (s *Server) Seen() (all []Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		all = append(all, *r)
	}
	return all
}

// Counts returns the requests for counts so far.
func (s *Server) Counts() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.counts)
}

// page serves health, version and metrics.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down, waiting := s.down, s.wait
	s.mu.Unlock()
	t := s.Flavor.Traits()
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case r.URL.Path == t.Metrics && t.Metrics != "":
		fmt.Fprintf(w, "# HELP x Requests.\n%s{model_name=\"m\"} %d.0\n", t.Waiting[0], waiting)
	case r.URL.Path == t.Version && t.Version != "":
		fmt.Fprintf(w, `{"version":"1.2.3","build_info":""}`)
	case r.URL.Path == t.Health:
		fmt.Fprint(w, "{}")
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) count(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.counts = append(s.counts, Seen{Path: r.URL.Path, Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if s.refuses(w, body, countFields) {
		return
	}
	fmt.Fprintf(w, `{"input_tokens":%d}`, s.promptTokens(body))
}

// countFields are the members that the messages protocol has of a question for a count, answerFields those that it
// has of a request.
var (
	countFields = []string{"model", "messages", "system", "thinking", "tools", "tool_choice", "output_config", "cache_control",
		"context_management", "mcp_servers"}
	answerFields = append([]string{"max_tokens", "stream", "stop_sequences", "temperature", "top_p", "top_k", "metadata", "service_tier",
		"container"}, countFields...)
)

// refuses answers as a public server of the messages protocol does where a body has a member or a role that
// the protocol has not, or no messages. Servers of other makes are not as strict.
func (s *Server) refuses(w http.ResponseWriter, body []byte, fields []string) bool {
	if s.Flavor != wire.Messages {
		return false
	}
	var members map[string]json.RawMessage
	var turns []struct{ Role string }
	why := ""
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["messages"], &turns) != nil || len(turns) == 0 {
		why = "messages: at least one message is required"
	}
	for name := range members {
		if !slices.Contains(fields, name) {
			why = name + ": Extra inputs are not permitted"
		}
	}
	for i, turn := range turns {
		if turn.Role != "user" && turn.Role != "assistant" {
			why = fmt.Sprintf("messages.%d: unexpected role %q", i, turn.Role)
		}
	}
	if why != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, why)
	}
	return why != ""
}

// request is what the fake reads of either protocol's body.
type request struct {
	Model    string
	Messages json.RawMessage
	Salt     string `json:"cache_salt"`
	Stream   bool
	Options  struct {
		Continuous bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	MaxTokens int `json:"max_tokens"`
}

// promptTokens counts what both protocols' bodies say, so that a count and an answer agree:
// the texts of all messages.
func (s *Server) promptTokens(body []byte) int {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return 0
	}
	object, _ := v.(map[string]any)
	return s.Tokens([]byte(texts(object["system"]) + " " + texts(object["messages"])))
}

// texts joins the strings of a value that are content.
func texts(v any) string {
	switch v := v.(type) {
	case string:
		return v + " "
	case []any:
		all := ""
		for _, e := range v {
			all += texts(e)
		}
		return all
	case map[string]any:
		return texts(v["content"]) + texts(v["text"])
	}
	return ""
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	seen := &Seen{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	s.mu.Lock()
	n := len(s.seen)
	s.seen = append(s.seen, seen)
	script := s.script
	s.mu.Unlock()
	if s.refuses(w, body, answerFields) {
		return
	}
	a := &answerer{s: s, w: w, r: r, seen: seen, script: script(n, body), tokens: s.promptTokens(body)}
	if json.Unmarshal(body, &a.request) != nil || !a.request.Stream {
		http.Error(w, `{"error":{"message":"want a streamed request"}}`, http.StatusBadRequest)
		return
	}
	a.run()
}

// cachedTokens says how much of a prompt an earlier one of the same partition left, and
// remembers it.
func (s *Server) cachedTokens(partition string, prompt string, tokens int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached[partition] == nil {
		s.cached[partition] = map[string]bool{}
	}
	hit := s.cached[partition][prompt]
	s.cached[partition][prompt] = true
	if hit {
		return max(0, tokens-1)
	}
	return 0
}

var errGone = errors.New("the client left, or the script ends the connection")
