// Package workload is what the benchmarks send and what the mock server answers:
// bytes only, made once, so that neither side spends time on them under load.
package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Model is the id that every request names and the node under test serves.
const Model = "core-1.1"

// ModelAtOnce is a model of the node with an upstream, whose answers the mock writes at once.
const ModelAtOnce = "core-1.1-mini"

// ModelPaced is a model of both nodes whose streams have a pace.
const ModelPaced = "paced"

// prompt makes the body of a request with two messages about 300 bytes long.
const prompt = "Please read the following note and say in one short paragraph what its author wants from us, by when, " +
	"and what happens if we are late."

// Messages returns the body of a messages request. Thinking is off and the
// temperature 0: the engine's own work is to be as small as it can be.
func Messages(tokens int, stream bool) []byte {
	var switches string
	if stream {
		switches = `"stream":true,`
	}
	return fmt.Appendf(nil, `{"model":%q,"max_tokens":%d,%s"temperature":0,"thinking":{"type":"disabled"},%s}`,
		Model, tokens, switches, conversation)
}

// Count returns the body of a count_tokens request with the same conversation.
func Count() []byte {
	return fmt.Appendf(nil, `{"model":%q,"thinking":{"type":"disabled"},%s}`, Model, conversation)
}

var conversation = fmt.Sprintf(`"system":"Be brief.","messages":[{"role":"user","content":%q}]`, prompt)

// TokensAsked finds max_tokens in a request body, 1 when there is none: all
// that the mock server reads of a request.
func TokensAsked(body []byte) int {
	const name = `"max_tokens":`
	at := bytes.Index(body, []byte(name))
	if at < 0 {
		return 1
	}
	digits := body[at+len(name):]
	if end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	if n, err := strconv.Atoi(string(digits)); err == nil && n > 0 {
		return n
	}
	return 1
}

// answerText is the text of the mock's plain reply, which is then about 600 bytes long.
var answerText = strings.TrimSpace(strings.Repeat("The author asks for a short reply. ", 9))

// Reply is the mock's answer to a plain request.
func Reply() []byte {
	return fmt.Appendf(nil, `{"id":"msg_0123456789abcdefghijklmn","type":"message","role":"assistant","model":%q,`+
		`"content":[{"type":"text","text":%q}],"stop_reason":"max_tokens","stop_sequence":null,`+
		`"usage":{"input_tokens":60,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":16}}`, Model, answerText)
}

// Stream is the mock's answer to a streaming request, in the events that are
// flushed one by one.
type Stream struct {
	Begin [][]byte // message_start and content_block_start
	Delta []byte   // one per token
	End   [][]byte // content_block_stop, message_delta and message_stop
}

// Events returns the events of the mock's streams. The one that reports usage
// says 1 token, which the mock does not count.
func Events() Stream {
	event := func(name, data string) []byte { return []byte("event: " + name + "\ndata: " + data + "\n\n") }
	return Stream{
		Begin: [][]byte{
			event("message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_0123456789abcdefghijklmn","type":"message",`+
				`"role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":60,"output_tokens":1}}}`, Model)),
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		},
		Delta: event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" author"}}`),
		End: [][]byte{
			event("content_block_stop", `{"type":"content_block_stop","index":0}`),
			event("message_delta",
				`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":1}}`),
			event("message_stop", `{"type":"message_stop"}`),
		},
	}
}
