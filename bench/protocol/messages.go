package protocol

// readEvent reads the data of one event of a messages stream. Its type is read
// from the data, which has it always; an event's name may be missing.
func (r *Reader) readEvent(data []byte) error {
	s := scanner{b: data}
	var kind []byte
	for key := range s.fields {
		switch string(key) {
		case "type":
			kind = s.text()
		case "message":
			r.readHead(&s)
		case "content_block":
			r.readBlockStart(&s)
		case "delta":
			r.readDelta(&s)
		case "usage":
			r.readUsage(&s)
		}
	}
	if !s.end() || kind == nil {
		return malformed(data)
	}
	switch string(kind) {
	case "message_stop":
		r.done = true
	case "error":
		r.fail(data)
	}
	return nil
}

// readHead reads the message of message_start: of it, only usage.
func (r *Reader) readHead(s *scanner) {
	for key := range s.fields {
		if string(key) == "usage" {
			r.readUsage(s)
		}
	}
}

// readBlockStart reads content_block. The name of a tool is output; text that
// stands here already is too.
func (r *Reader) readBlockStart(s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "name", "thinking":
			r.output(s.text(), false)
		case "text":
			r.output(s.text(), true)
		}
	}
}

func (r *Reader) readDelta(s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "text":
			r.output(s.text(), true)
		case "thinking", "partial_json":
			r.output(s.text(), false)
		}
	}
}

func (r *Reader) readUsage(s *scanner) {
	t := &r.tokens
	for key := range s.fields {
		switch string(key) {
		case "input_tokens":
			replace(&t.input, s.count())
		case "cache_read_input_tokens":
			replace(&t.read, s.count())
		case "cache_creation_input_tokens":
			replace(&t.written, s.count())
		case "output_tokens":
			replace(&t.output, s.count())
		}
	}
}

// replace takes a count that is one: null and the like say nothing.
func replace(to *int, n int) {
	if n >= 0 {
		*to = n
	}
}

// readMessage reads a whole reply.
func (r *Reader) readMessage(body []byte) error {
	s := scanner{b: body}
	for key := range s.fields {
		switch string(key) {
		case "type":
			switch string(s.text()) {
			case "message":
				r.done = true
			case "error":
				r.fail(body)
			}
		case "error":
			r.fail(body)
		case "content":
			for range s.elements {
				r.readBlockStart(&s)
			}
		case "usage":
			r.readUsage(&s)
		}
	}
	if !s.end() {
		return malformed(body)
	}
	return nil
}

// readCount reads the reply to a request that counts tokens.
func (r *Reader) readCount(body []byte) error {
	s := scanner{b: body}
	r.readUsage(&s)
	r.done = s.end() && r.tokens.input > 0
	return nil
}
