package abi

import "bytes"

// Facts are what the host knows of a request and a translator may show. They
// hold for every call of one request. Decoded ones alias what they were read
// from, strings too: there is one decode per event group, and it takes no memory.
type Facts struct {
	ID      string // the request's own part of an id, [a-z0-9]; the guest adds a prefix such as "chatcmpl-"
	Created int64  // when the request came, Unix seconds
	Model   string // the model id that answers; empty in OpRequest
	Stream  bool   // the answer is a stream; false in OpRequest
}

func (f Facts) append(dst []byte) []byte {
	dst = appendInts(dst, f.Created)
	stream := byte(0)
	if f.Stream {
		stream = 1
	}
	return appendText(appendText(append(dst, stream), f.ID), f.Model)
}

func (c *cursor) facts() (f Facts) {
	f.Created = c.i64()
	f.Stream = c.u8() != 0
	f.ID, f.Model = c.aliasedText(), c.aliasedText()
	return f
}

// RequestInput is the input of OpRequest: a body of the guest's protocol.
type RequestInput struct {
	Facts Facts
	Route *Route // given to modules with routes, else nil
	Body  []byte
}

// Append encodes in.
func (in RequestInput) Append(dst []byte) []byte {
	if in.Route != nil {
		return append(in.Route.append(in.Facts.append(append(dst, requestTag...))), in.Body...)
	}
	return append(in.Facts.append(dst), in.Body...)
}

// ParseRequestInput decodes a RequestInput, which aliases b.
func ParseRequestInput(b []byte) (in RequestInput, err error) {
	c := cursor{b: b}
	if bytes.HasPrefix(b, []byte(requestTag)) {
		c.tag(requestTag)
		in.Facts = c.facts()
		route := c.route()
		in.Route = &route
	} else {
		in.Facts = c.facts()
	}
	in.Body = c.rest()
	return in, c.err
}

// Translated is the output of OpRequest.
type Translated struct {
	// Body is a body of the messages protocol. The host parses it as if a client
	// had sent it: model, stream and max_tokens are read from there. max_tokens
	// may be absent; min_p, the penalties of presence, frequency and repetition, seed,
	// min_tokens, ignore_eos and response_format are honored beside the protocol's own.
	Body []byte
	// Kept comes back with the calls that need it: what the answer must know of
	// the request. At most KeptBytesMax.
	Kept []byte
}

// KeptBytesMax bounds Translated.Kept, and StateBytesMax Written.State.
const (
	KeptBytesMax  = 1 << 20
	StateBytesMax = 4 << 10
)

// Append encodes t.
func (t Translated) Append(dst []byte) []byte {
	return append(appendSection(dst, t.Kept), t.Body...)
}

// ParseTranslated decodes a Translated, which aliases b.
func ParseTranslated(b []byte) (t Translated, err error) {
	c := cursor{b: b}
	t.Kept = c.section()
	t.Body = c.rest()
	if len(t.Kept) > KeptBytesMax {
		c.err = ErrMalformed
	}
	return t, c.err
}

// EventsInput is the input of OpEvents: the next event group of a stream. How
// a stream is cut into groups must not show in its bytes.
type EventsInput struct {
	Facts Facts
	State []byte // what the previous group's call returned; empty at first
	// Kept is Translated.Kept when the group holds an EventStart or an EventEnd, else empty.
	Kept []byte
	// History is the whole answer so far, this group included, one delta a block;
	// given when the group holds an EventBlockStop or an EventEnd and the
	// manifest asks for history, else empty.
	History Frames
	Events  Frames
}

// Append encodes in.
func (in EventsInput) Append(dst []byte) []byte {
	dst = appendSection(in.Facts.append(dst), in.State)
	dst = appendSection(appendSection(dst, in.Kept), in.History)
	return append(dst, in.Events...)
}

// ParseEventsInput decodes an EventsInput, which aliases b.
func ParseEventsInput(b []byte) (in EventsInput, err error) {
	// Once an event group, so without a cursor, which costs a Go guest a call a field.
	const id = 8 + 1
	if len(b) < id {
		return in, ErrMalformed
	}
	in.Facts.Created, in.Facts.Stream = int64(Uint64(b, 0)), b[8] != 0
	text, at := sectionAt(b, id)
	in.Facts.ID = aliased(text)
	text, at = sectionAt(b, at)
	in.Facts.Model = aliased(text)
	in.State, at = sectionAt(b, at)
	in.Kept, at = sectionAt(b, at)
	in.History, at = sectionAt(b, at)
	if at < 0 {
		return in, ErrMalformed
	}
	in.Events = b[at:len(b):len(b)]
	return in, nil
}

// Written is the output of OpEvents.
type Written struct {
	State []byte // at most StateBytesMax
	Bytes []byte // what goes to the client: whole server-sent events, or whole lines of JSON
}

// Append encodes w.
func (w Written) Append(dst []byte) []byte {
	return append(appendSection(dst, w.State), w.Bytes...)
}

// ParseWritten decodes a Written, which aliases b.
func ParseWritten(b []byte) (w Written, err error) {
	state, at := sectionAt(b, 0)
	if at < 0 || len(state) > StateBytesMax {
		return w, ErrMalformed
	}
	return Written{State: state, Bytes: b[at:len(b):len(b)]}, nil
}

// ResponseInput is the input of OpResponse: a whole answer that is not
// streamed, from EventStart to EventEnd with one delta a block.
type ResponseInput struct {
	Facts  Facts
	Kept   []byte
	Events Frames
}

// Append encodes in.
func (in ResponseInput) Append(dst []byte) []byte {
	return append(appendSection(in.Facts.append(dst), in.Kept), in.Events...)
}

// ParseResponseInput decodes a ResponseInput, which aliases b.
func ParseResponseInput(b []byte) (in ResponseInput, err error) {
	c := cursor{b: b}
	in.Facts = c.facts()
	in.Kept = c.section()
	in.Events = c.rest()
	return in, c.err
}

// ErrorInput is the input of OpError. With Facts.Stream the stream has begun,
// maybe with no event yet, and the output is the frames that end it as broken;
// else it is the body of an error response. The host chooses the status.
type ErrorInput struct {
	Facts   Facts
	State   []byte // as in EventsInput; empty when nothing was written
	Kept    []byte // empty when the request was not translated
	History Frames // the answer so far, if the manifest asks for history
	Status  int    // HTTP status that goes with a body
	Kind    Kind
	Detail         // since ABI 1.1; before it Reason is ReasonNone
	Param   string // path of the offending field in the native body, or in the refusal
	Msg     string // for the client, not escaped: as Detail.Reason says
}

// errorTag begins the record of ABI 1.1. That of 1.0 begins with when the request
// came: no time is so late.
const errorTag = "error/2\x00"

// Append encodes in, as modules of ABI 1.1 read it.
func (in ErrorInput) Append(dst []byte) []byte {
	dst = in.appendAnswer(append(dst, errorTag...))
	dst = append(dst, byte(in.Reason), byte(in.Reason>>8))
	dst = appendInts(dst, in.Prompt, in.Value, in.Bound)
	return append(appendText(dst, in.Param), in.Msg...)
}

// Append10 encodes in as modules of ABI 1.0 read it: the sentence of the messages
// protocol, which begins with the path where Msg itself does not name it.
func (in ErrorInput) Append10(dst []byte) []byte {
	return append(appendText(in.appendAnswer(dst), in.Param), in.native(in.Param, in.Msg)...)
}

// appendAnswer appends what both versions begin with.
func (in *ErrorInput) appendAnswer(dst []byte) []byte {
	dst = appendSection(in.Facts.append(dst), in.State)
	dst = appendSection(appendSection(dst, in.Kept), in.History)
	return append(dst, byte(in.Status), byte(in.Status>>8), byte(in.Kind), byte(in.Kind>>8))
}

// ParseErrorInput decodes an ErrorInput of either version, which aliases b.
func ParseErrorInput(b []byte) (in ErrorInput, err error) {
	c := cursor{b: b}
	detailed := bytes.HasPrefix(b, []byte(errorTag))
	if detailed {
		c.tag(errorTag)
	}
	in.Facts = c.facts()
	in.State = c.section()
	in.Kept = c.section()
	in.History = c.section()
	in.Status = int(c.u16())
	in.Kind = Kind(c.u16())
	if detailed {
		in.Reason = Reason(c.u16())
		in.Prompt, in.Value, in.Bound = c.i64(), c.i64(), c.i64()
	}
	in.Param = c.aliasedText()
	in.Msg = c.aliasedRest()
	return in, c.err
}
