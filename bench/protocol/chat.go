package protocol

// readChunk reads the data of one chunk of a chat stream, or a whole reply: the
// two differ in the name of what a choice holds.
func (r *Reader) readChunk(data []byte) error {
	s := scanner{b: data}
	if s.peek() != '{' {
		return malformed(data)
	}
	for key := range s.fields {
		switch string(key) {
		case "choices":
			for range s.elements {
				r.readChoice(&s)
			}
		case "usage":
			r.readChatUsage(&s)
		case "timings": // of llama-server
			for key := range s.fields {
				if string(key) == "cache_n" {
					replace(&r.tokens.cachedBy, s.count())
				}
			}
		case "error":
			if s.peek() != 'n' { // null is none
				r.fail(data)
			}
		}
	}
	if !s.end() {
		return malformed(data)
	}
	return nil
}

func (r *Reader) readChoice(s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "delta":
			r.readChatDelta(s)
		case "message":
			r.readChatDelta(s)
			r.done = true
		}
	}
}

// readChatDelta reads what a chunk adds. A chunk is one event however many of
// its members have output.
func (r *Reader) readChatDelta(s *scanner) {
	before := r.outputs
	for key := range s.fields {
		switch string(key) {
		case "content", "refusal":
			r.output(s.text(), true)
		case "reasoning_content", "reasoning":
			r.output(s.text(), false)
		case "tool_calls":
			for range s.elements {
				for key := range s.fields {
					if string(key) == "function" {
						r.readFunction(s)
					}
				}
			}
		}
	}
	r.outputs = min(r.outputs, before+1)
}

func (r *Reader) readFunction(s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "name", "arguments":
			r.output(s.text(), false)
		}
	}
}

func (r *Reader) readChatUsage(s *scanner) {
	t := &r.tokens
	for key := range s.fields {
		switch string(key) {
		case "prompt_tokens":
			replace(&t.input, s.count())
		case "completion_tokens":
			replace(&t.output, s.count())
		case "prompt_tokens_details":
			for key := range s.fields {
				if string(key) == "cached_tokens" {
					replace(&t.read, s.count())
				}
			}
		}
	}
}
