package piece

import (
	"bytes"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// AppendTexts appends the text of all blocks of a kind, escaped as it stands
// between quotes.
func AppendTexts(dst []byte, events abi.Frames, b abi.BlockKind) []byte {
	for f, ok := events.Next(); ok; f, ok = events.Next() {
		if f.Kind == abi.EventDelta && f.Block == b {
			dst = append(dst, f.Payload...)
		}
	}
	return dst
}

// Call is a whole call of a tool. ID and Name are escaped.
type Call struct {
	ID, Name  []byte
	arguments []byte
}

// FindCall is the call that is block index of an answer with one delta a block.
func FindCall(events abi.Frames, index int) (c Call) {
	for f, ok := events.Next(); ok; f, ok = events.Next() {
		if f.Index != index || f.Block != abi.BlockToolUse {
			continue
		}
		switch f.Kind {
		case abi.EventBlockStart:
			c.ID, c.Name = f.Tool()
		case abi.EventDelta:
			c.arguments = f.Payload
		}
	}
	return c
}

// AppendArguments appends what the call is given, as a JSON object on one line.
// The node sees to it that it is one; whatever else came would break the answer.
func (c *Call) AppendArguments(dst []byte) []byte {
	object := scan.Unescape(make([]byte, 0, len(c.arguments)), c.arguments)
	if b := bytes.TrimSpace(object); len(b) == 0 || b[0] != '{' || scan.Valid(object) != nil {
		return append(dst, "{}"...)
	}
	return abi.AppendOneLine(dst, object)
}

// AppendInt appends a member that is a number, with a comma before it.
func AppendInt(dst []byte, name string, n int64) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return strconv.AppendInt(dst, n, 10)
}
