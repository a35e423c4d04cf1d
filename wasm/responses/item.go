package responses

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// Statuses of items and responses.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

// item is one output item. Its byte slices are escaped JSON text and alias the
// frames it was read from.
type item struct {
	block   abi.BlockKind
	index   int
	custom  bool // a call of a custom tool
	search  bool // a call of the client's own search of tools
	summary bool // text that is a summary of the conversation
	closed  bool // its block is
	callID  []byte
	name    []byte // native name of the tool
	text    []byte // thinking, answer text, or a call's arguments as JSON text
	input   []byte // of a call that is held back, once the block is closed: a custom tool's free text, a search's object
}

// begin makes an item of a block's start frame.
func begin(f *abi.Frame, as special) item {
	it := item{block: f.Block, index: f.Index, summary: f.Block == abi.BlockText && as.summary}
	if f.Block == abi.BlockToolUse {
		it.callID, it.name = f.Tool()
		it.custom = as.custom.has(it.name)
		it.search = as.search && string(it.name) == searchTool
	}
	return it
}

// held says whether nothing of the item is told before it is whole.
func (it *item) held() bool { return it.custom || it.search || it.summary }

// walk calls each for every item of an answer, in order.
func walk(answer abi.Frames, as special, each func(item)) {
	if as.summary {
		walkSummary(answer, as, each)
	} else {
		walkBlocks(answer, as, each)
	}
}

// walkBlocks calls each for every block that can be an item.
func walkBlocks(answer abi.Frames, as special, each func(item)) {
	var it item
	open := false
	for {
		f, ok := answer.Next()
		if !ok {
			break
		}
		switch f.Kind {
		case abi.EventBlockStart:
			it, open = begin(&f, as), f.Block <= abi.BlockToolUse
		case abi.EventDelta:
			it.text = f.Payload // the only one of its block
		case abi.EventBlockStop:
			if open {
				it.closed, open = true, false
				switch {
				case it.custom:
					it.input = freeText(it.text)
				case it.search:
					it.input = object(it.text)
				}
				each(it)
			}
		}
	}
	if open {
		each(it)
	}
}

// find returns the item with an index; one without text if it is not there.
func find(answer abi.Frames, as special, f *abi.Frame) item {
	found := item{block: f.Block, index: f.Index}
	walk(answer, as, func(it item) {
		if it.index == f.Index {
			found = it
		}
	})
	return found
}

// arguments are those of a function call; a call without any has an empty object.
func (it *item) arguments() []byte {
	if len(it.text) == 0 && it.closed {
		return []byte("{}")
	}
	return it.text
}

// appendID appends the item's id.
func (it *item) appendID(dst []byte, f *abi.Facts) []byte {
	switch {
	case it.block == abi.BlockThinking:
		dst = append(dst, "rs_"...)
	case it.summary:
		dst = append(dst, "cmp_"...)
	case it.block == abi.BlockText:
		dst = append(dst, "msg_"...)
	case it.custom:
		dst = append(dst, "ctc_"...)
	case it.search:
		dst = append(dst, "tsc_"...)
	default:
		dst = append(dst, "fc_"...)
	}
	dst = append(dst, f.ID...) // [a-z0-9]
	dst = append(dst, '_')
	return strconv.AppendInt(dst, int64(it.index), 10)
}

// appendPlace appends the members that say which item a frame is about.
func (it *item) appendPlace(dst []byte, f *abi.Facts) []byte {
	dst = append(dst, `,"item_id":"`...)
	dst = it.appendID(dst, f)
	dst = append(dst, `","output_index":`...)
	return strconv.AppendInt(dst, int64(it.index), 10)
}

// append appends the item with all of its text, or with none while it is in progress.
func (it *item) append(dst []byte, f *abi.Facts, status string) []byte {
	dst = append(dst, `{"id":"`...)
	dst = it.appendID(dst, f)
	switch {
	case it.block == abi.BlockThinking:
		dst = append(dst, `","type":"reasoning","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","summary":[`...)
		if status != inProgress {
			dst = appendSummary(dst, it.text)
		}
		dst = it.appendID(append(dst, `],"encrypted_content":"`...), f)
		return append(dst, `"}`...)
	case it.summary:
		dst = append(dst, `","type":"compaction","encrypted_content":"`...)
		if status != inProgress {
			dst = append(dst, it.text...)
		}
		return append(dst, `"}`...)
	case it.block == abi.BlockText:
		dst = append(dst, `","type":"message","status":"`...)
		dst = append(dst, status...)
		dst = append(dst, `","role":"assistant","content":[`...)
		if status != inProgress {
			dst = appendPart(dst, it.text)
		}
		return append(dst, "]}"...)
	case it.search:
		dst = append(dst, `","type":"tool_search_call","execution":"client","status":"`...)
		dst = append(append(dst, status...), `","call_id":"`...)
		dst = append(append(dst, it.callID...), `","arguments":`...)
		if it.input == nil {
			return append(dst, "{}}"...)
		}
		return append(append(dst, it.input...), '}')
	case it.custom:
		dst = append(dst, `","type":"custom_tool_call`...)
	default:
		dst = append(dst, `","type":"function_call","status":"`...)
		dst = append(dst, status...)
	}
	return it.appendCall(dst)
}

// appendCall appends what calls have; a string is open before it.
func (it *item) appendCall(dst []byte) []byte {
	namespace, name := splitName(it.name)
	dst = append(dst, `","call_id":"`...)
	dst = append(dst, it.callID...)
	dst = append(dst, `","name":"`...)
	dst = append(dst, name...)
	if len(namespace) > 0 {
		dst = append(dst, `","namespace":"`...)
		dst = append(dst, namespace...)
	}
	if it.custom {
		dst = append(dst, `","input":"`...)
		dst = append(dst, it.input...)
		return append(dst, `"}`...)
	}
	dst = append(dst, `","arguments":"`...)
	dst = append(dst, it.arguments()...)
	return append(dst, `"}`...)
}

// freeText is what a custom tool's call says, escaped: the string named input of
// its arguments, or all of them when there is no such string.
func freeText(arguments []byte) []byte {
	var s scan.Scanner
	s.Reset(scan.Unescape(make([]byte, 0, len(arguments)), arguments))
	var text []byte
	found := false
	for s.Open(); s.Next(); {
		if string(s.Key()) == customField {
			text, found = s.Str()
		}
	}
	if !found || !s.End() {
		return arguments
	}
	return abi.AppendOneLine(make([]byte, 0, len(text)), text)
}

// object is what a call's arguments are the escaped text of, on one line; one without members where they are no object.
func object(arguments []byte) []byte {
	raw := scan.Unescape(make([]byte, 0, len(arguments)), arguments)
	var s scan.Scanner
	s.Reset(raw)
	if s.Kind() != scan.Object || !s.End() {
		return []byte("{}")
	}
	return abi.AppendOneLine(make([]byte, 0, len(raw)), appendCompact(make([]byte, 0, len(raw)), raw))
}

// customField is the one parameter of the function that stands for a custom tool.
const customField = "input"

func appendPart(dst, text []byte) []byte {
	dst = append(dst, `{"type":"output_text","annotations":[],"logprobs":[],"text":"`...)
	return append(append(dst, text...), `"}`...)
}

func appendSummary(dst, text []byte) []byte {
	dst = append(dst, `{"type":"summary_text","text":"`...)
	return append(append(dst, text...), `"}`...)
}

// appendOutput appends the items of an answer. A cut answer's last item, and one
// whose block never closed, are incomplete. One that goes on or failed has no summary.
func appendOutput(dst []byte, f *abi.Facts, answer abi.Frames, k kept, o outcome) []byte {
	last := lastIndex(answer)
	dst = append(dst, '[')
	start := len(dst)
	walk(answer, k.special(), func(it item) {
		if it.summary && o.status != completed {
			return
		}
		status := completed
		if !it.closed || o.cut && it.index == last {
			status = incomplete
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = it.append(dst, f, status)
	})
	return append(dst, ']')
}

func lastIndex(answer abi.Frames) int {
	last := -1
	for {
		f, ok := answer.Next()
		if !ok {
			return last
		}
		if f.Kind == abi.EventBlockStart {
			last = f.Index
		}
	}
}
