// Package protocol speaks the two protocols that a server may be driven in:
// it writes the bodies of requests and reads replies, streamed or whole. It is
// pure: bytes in, bytes and counts out, no clock and no connection.
//
// It reads what servers really send: events in pieces cut anywhere, comments,
// unknown events and members, an error as an event or as an object, usage in
// the first event, the last or both. What it does not forgive is a stream that
// stops without the protocol's end, or data that is no JSON.
package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Protocol is one way to ask for a completion.
type Protocol string

// Messages is POST /v1/messages, Chat is POST /v1/chat/completions. Count asks
// how many tokens the prompt of a messages request has, and for no completion.
const (
	Messages Protocol = "messages"
	Chat     Protocol = "chat"
	Count    Protocol = "count_tokens"
)

// Parse reads a protocol's name.
func Parse(name string) (Protocol, error) {
	if p := Protocol(name); p == Messages || p == Chat {
		return p, nil
	}
	return "", fmt.Errorf("the protocol is %q, want %q or %q", name, Messages, Chat)
}

// Path is where requests are sent, under the server's address.
func (p Protocol) Path() string {
	switch p {
	case Chat:
		return "/v1/chat/completions"
	case Count:
		return "/v1/messages/count_tokens"
	}
	return "/v1/messages"
}

// Header returns the header lines that carry a key, each with its end; no key, no line of it.
func (p Protocol) Header(key string) string {
	switch {
	case p == Chat && key != "":
		return "Authorization: Bearer " + key + "\r\n"
	case p == Chat:
		return ""
	case key == "":
		return "anthropic-version: 2023-06-01\r\n"
	default:
		return "anthropic-version: 2023-06-01\r\nx-api-key: " + key + "\r\n"
	}
}

// Turn is one message of a conversation. Text is the inside of a JSON string.
type Turn struct {
	Role string // user or assistant
	Text []byte
}

// Template is what all requests of a run have in common.
type Template struct {
	Protocol Protocol
	Model    string
	Stream   bool
	// Temperature is sent when it is not negative.
	Temperature float64
	// Extra is an object whose members are added to each body; they win over
	// temperature and stream_options. Empty for none.
	Extra []byte
}

// Encoder writes request bodies of one template.
type Encoder struct {
	protocol Protocol
	head     []byte // the object up to its last constant member
}

// reserved are the members that the workload decides.
var reserved = []string{"model", "stream", "max_tokens", "max_completion_tokens", "messages", "system"}

// Encoder checks a template and prepares what is written for every request.
func (t Template) Encoder() (Encoder, error) {
	var extra map[string]json.RawMessage
	if len(t.Extra) > 0 {
		if err := json.Unmarshal(t.Extra, &extra); err != nil {
			return Encoder{}, fmt.Errorf("extra members %.80q: want a JSON object: %w", t.Extra, err)
		}
	}
	for name := range extra {
		if slices.Contains(reserved, name) {
			return Encoder{}, fmt.Errorf("extra member %q: the workload decides it", name)
		}
	}
	set := func(name string, value any) {
		if _, theirs := extra[name]; !theirs {
			extra[name], _ = json.Marshal(value) // numbers, booleans and maps of them cannot fail
		}
	}
	if extra == nil {
		extra = map[string]json.RawMessage{}
	}
	if t.Temperature >= 0 {
		set("temperature", t.Temperature)
	}
	if t.Stream && t.Protocol == Chat {
		set("stream_options", map[string]bool{"include_usage": true})
	}
	set("model", t.Model)
	set("stream", t.Stream)
	head, err := json.Marshal(extra) // in the order of their names
	if err != nil {
		return Encoder{}, fmt.Errorf("extra members: %w", err)
	}
	return Encoder{t.Protocol, head[:len(head)-1]}, nil
}

// Append writes the body of one request behind dst. system, like the turns'
// texts, is the inside of a JSON string; empty for none. tokensMax 0 leaves the
// limit out, as requests that only count tokens do.
func (e Encoder) Append(dst []byte, tokensMax int, system []byte, turns []Turn) []byte {
	dst = append(dst, e.head...)
	if tokensMax > 0 {
		dst = strconv.AppendInt(append(dst, `,"max_tokens":`...), int64(tokensMax), 10)
	}
	if len(system) > 0 && e.protocol == Messages {
		dst = append(append(append(dst, `,"system":"`...), system...), '"')
	}
	dst = append(dst, `,"messages":[`...)
	if len(system) > 0 && e.protocol == Chat {
		dst = append(append(append(dst, `{"role":"system","content":"`...), system...), `"},`...)
	}
	for i, t := range turns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":"`...), t.Role...), `","content":"`...)
		dst = append(append(dst, t.Text...), `"}`...)
	}
	return append(dst, "]}"...)
}
