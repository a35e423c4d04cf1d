package protocol

import "github.com/tidwall/gjson"

// readEvent reads the data of one event of a messages stream. Its type is read
// from the data, which has it always; an event's name may be missing.
func (r *Reader) readEvent(data []byte) error {
	kind := ""
	err := members(data, func(key string, v gjson.Result) {
		switch key {
		case "type":
			kind = v.Str
		case "message":
			each(v.Get("usage"), r.readUsage)
		case "content_block", "delta":
			each(v, r.readBlock)
		case "usage":
			each(v, r.readUsage)
		}
	})
	switch {
	case err == nil && kind == "":
		return malformed(data)
	case kind == "message_stop":
		r.done = true
	case kind == "error":
		r.fail(data)
	}
	return err
}

// readBlock reads what a block begins with, or what is added to it. The name of a tool is output too.
func (r *Reader) readBlock(key string, v gjson.Result) {
	switch key {
	case "text":
		r.output(v, true)
	case "name", "thinking", "partial_json":
		r.output(v, false)
	}
}

func (r *Reader) readUsage(key string, v gjson.Result) {
	t := &r.tokens
	switch key {
	case "input_tokens":
		replace(&t.input, v)
	case "cache_read_input_tokens":
		replace(&t.read, v)
	case "cache_creation_input_tokens":
		replace(&t.written, v)
	case "output_tokens":
		replace(&t.output, v)
	}
}

// readMessage reads a whole reply.
func (r *Reader) readMessage(body []byte) error {
	return members(body, func(key string, v gjson.Result) {
		switch key {
		case "type":
			r.done = r.done || v.Str == "message"
			if v.Str == "error" {
				r.fail(body)
			}
		case "error":
			r.fail(body)
		case "content":
			each(v, func(_ string, block gjson.Result) { each(block, r.readBlock) })
		case "usage":
			each(v, r.readUsage)
		}
	})
}

// readCount reads the reply to a request that counts tokens.
func (r *Reader) readCount(body []byte) error {
	err := members(body, r.readUsage)
	r.done = r.tokens.input > 0
	return err
}
