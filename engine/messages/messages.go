// Package messages is the messages protocol as pure code: Parse reads and
// validates a request body, Encoder writes an answer's events as the stream
// or as the JSON object of the protocol. It knows no HTTP and no model.
package messages

import (
	"context"
	"encoding/json"
)

// ValuesMax bounds the JSON values of a body, as Values counts them: in a call's input or a schema each
// may take some hundred bytes. A value that a model reads is a token or more, and so many tokens are
// four times the largest context window of the models that are hosted.
const ValuesMax = 1 << 20

// Bounds of a request that no SDK comes near; a body beyond one is refused by name.
const (
	depthMax         = 128     // nesting of the JSON body
	itemsMax         = 100_000 // messages and content blocks of one request, each of which takes some hundred bytes
	toolsMax         = 1024    // function tools of one request
	stopsMax         = 64      // stop sequences of one request
	stopBytesMax     = 1024    // bytes of one stop sequence
	toolNameBytesMax = 128
	schemaBytesMax   = 256 << 10 // of a tool or a format
)

// Request is a parsed and validated body of /v1/messages or count_tokens.
// It owns its memory: nothing but Body aliases the body.
type Request struct {
	// Body is the body itself, valid until the request is prepared: for models that are
	// answered elsewhere, to which it goes as it came.
	Body []byte
	// Context ends what servers elsewhere are asked before the request is prepared; nil is none.
	Context context.Context
	// Forward are headers of the client's, name and value, that go along with it: one for each line.
	Forward       [][2]string
	Model         string
	System        string // the system text blocks, one per line
	Messages      []Message
	MaxTokens     int // 0 when absent, which Parse does not accept
	Stream        bool
	StopSequences []string
	Sampling      Sampling
	Tools         []Tool // the caller's function tools, those that messages define among them; server-side ones are skipped
	ToolChoice    ToolChoice
	Format        *Format // nil for plain text
	Thinking      bool    // on unless disabled
	Effort        string  // of thinking: "low", "medium" or "high"; "" where the model's template decides
	// Raw: the text of the only message is the whole prompt, without the model's template;
	// no special token is recognized in it. Only translators can ask for it.
	Raw bool
	// Translated: a translator made the body of another protocol's, so it may ask for what this one has not.
	Translated bool
	// StreamArray: the answer that streams is one JSON array, element by element. Only
	// translators can ask for it.
	StreamArray bool
	// RoomTokens: an answer of fewer is worth nothing, so the window must have room for them. Only translators can ask for it.
	RoomTokens int
}

// ForcesCall says whether the answer has to be a call: then it has no text, and no format.
func (q *Request) ForcesCall() bool { return q.ToolChoice.Mode == "any" || q.ToolChoice.Mode == "tool" }

// SingleCall says whether the answer ends with its first call: it is asked for, or one
// tool was named, which whoever does that expects to be called once.
func (q *Request) SingleCall() bool {
	return q.ToolChoice.DisableParallel || q.ToolChoice.Mode == "tool"
}

// Details is the cause of a failure that programs can act on: a JSON object, which stands beside
// the message in the protocol's envelope. Its error_code is a name that official clients know.
type Details string

// Error is the object.
func (d Details) Error() string { return string(d) }

// ToolChoice is how the model may use tools. Invariant: with "any" and "tool"
// there are tools, and with "tool" Name is one of theirs.
type ToolChoice struct {
	Mode            string // "auto", "any", "tool" or "none"
	Name            string // of the tool to call; counts with "tool" only
	DisableParallel bool
}

// Format is the JSON that the answer's text must be: output_config.format, its
// older form output_format, or response_format, which is other protocols' and
// means the same here.
type Format struct {
	// Schema is the schema, an object as sent, that the text must be valid
	// against; nil for any JSON object. At most schemaBytesMax.
	Schema json.RawMessage
	At     string // where the schema stands in the body, empty without one
}

// Tool is a function the caller offers. Schema is the object schema as sent.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
	At          int // its place among the tools of the body, skipped ones counted; of one that a message defines behind them
}

// Message is one turn of one role, its blocks in order.
type Message struct {
	Role   string // "user", "assistant", "system"
	Blocks []Block

	passing bool // see note
}

// BlockType says what a request's block holds.
type BlockType uint8

const (
	Text       BlockType = iota // what either side says
	Thinking                    // what the model thought
	ToolUse                     // a call of a tool
	ToolResult                  // what came of it
	skipped                     // of a server-side tool: read, and in no Message
)

// Block is one content block of a request.
type Block struct {
	Type    BlockType
	Text    string          // Text, Thinking; ToolResult: its text blocks, one per line
	ID      string          // ToolUse: id; ToolResult: tool_use_id
	Name    string          // ToolUse
	Input   json.RawMessage // ToolUse: an object, as sent
	IsError bool            // ToolResult
}
