package protocol

import "github.com/tidwall/gjson"

// readChunk reads the data of one chunk of a chat stream, or a whole reply: the
// two differ in the name of what a choice holds.
func (r *Reader) readChunk(data []byte) error {
	return members(data, func(key string, v gjson.Result) {
		switch key {
		case "choices":
			each(v, func(_ string, choice gjson.Result) { each(choice, r.readChoice) })
		case "usage":
			each(v, r.readChatUsage)
		case "timings": // of llama-server
			replace(&r.tokens.cachedBy, v.Get("cache_n"))
		case "error":
			if v.Type != gjson.Null {
				r.fail(data)
			}
		}
	})
}

// readChoice reads what a chunk adds. A chunk is one event however many of its
// members have output.
func (r *Reader) readChoice(key string, v gjson.Result) {
	if key != "delta" && key != "message" {
		return
	}
	before := r.outputs
	each(v, func(key string, v gjson.Result) {
		switch key {
		case "content", "refusal":
			r.output(v, true)
		case "reasoning_content", "reasoning":
			r.output(v, false)
		case "tool_calls":
			each(v, func(_ string, call gjson.Result) {
				r.output(call.Get("function.name"), false)
				r.output(call.Get("function.arguments"), false)
			})
		}
	})
	r.outputs = min(r.outputs, before+1)
	r.done = r.done || key == "message"
}

func (r *Reader) readChatUsage(key string, v gjson.Result) {
	t := &r.tokens
	switch key {
	case "prompt_tokens":
		replace(&t.input, v)
	case "completion_tokens":
		replace(&t.output, v)
	case "prompt_tokens_details":
		replace(&t.read, v.Get("cached_tokens"))
	}
}
