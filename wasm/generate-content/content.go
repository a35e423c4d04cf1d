package generatecontent

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// content is what the parts of the content that is read say, and its role, which
// may come last.
type content struct {
	role                     []byte
	parts                    int
	thought, call, responded bool
	blocks                   []block
}

// block is a native block of the content that is read, by its place in request.blocks: its comma
// is at from, and what stands in its text, and behind that, from text to end.
type block struct {
	kind            blockKind
	from, text, end int
}

type blockKind byte

const (
	blockNone     blockKind = iota
	blockText               // its texts and those of a neighbor are one
	blockThinking           // likewise
	blockSigned             // thinking that came as the signature of a part
	blockOther
)

// What stands around the text of a block, and a block of none.
const (
	textHead     = `,{"type":"text","text":"`
	thinkingHead = `,{"type":"thinking","thinking":"`
	blockEnd     = `"}`
	emptyText    = `{"type":"text","text":""}`
)

// turn is what the model's message says that the messages end with; not open where they end with
// the user's.
type turn struct {
	open    bool
	from    int // where its blocks begin in request.messages
	last    blockKind
	thought bool
}

// readContent reads one content as a native message, or as more of the model's.
func (r *request) readContent() {
	r.readParts()
	if !r.OK() {
		return
	}
	c, path := &r.content, r.S.Path()
	switch string(c.role) {
	case "user", "function", "":
		if c.call || c.thought {
			r.Fail(path+".parts", "calls and thoughts are the model's, not the user's")
		}
		r.turn = turn{}
		r.messages = append(r.messages, `,{"role":"user","content":[`...)
		r.messages = append(append(r.messages, r.blocks[1:]...), "]}"...)
	case "model":
		if c.responded {
			r.Fail(path+".parts", "responses of functions are the user's, not the model's")
		}
		r.appendTurn()
	default:
		r.Fail(path+".role", field.Quoted(c.role)+" is not one of user, model")
	}
}

// appendTurn appends a content of the model. It goes on with a message that is the model's, as what
// a client kept of a stream is one content for each piece, and text or thinking goes on with the
// same: what was said in pieces is one prompt with what was said at once.
func (r *request) appendTurn() {
	t := &r.turn
	if t.open {
		r.flags |= keptJoined
		r.messages = r.messages[:len(r.messages)-len("]}")]
	} else {
		r.messages = append(r.messages, `,{"role":"assistant","content":[`...)
		*t = turn{open: true, from: len(r.messages)}
	}
	for _, b := range r.content.blocks {
		if string(r.messages[t.from:]) == emptyText { // it said nothing
			r.messages, t.last = r.messages[:t.from], blockNone
			r.flags |= keptMoved
		}
		silent := b.kind == blockText && b.end-b.text == len(blockEnd) && t.last != blockNone
		switch {
		case silent, b.kind == blockSigned && t.thought: // the thinking came in pieces, too
			r.flags |= keptMoved
			continue
		case b.kind == t.last && (b.kind == blockText || b.kind == blockThinking):
			r.flags |= keptMoved
			r.messages = append(r.messages[:len(r.messages)-len(blockEnd)], r.blocks[b.text:b.end]...)
			continue
		case t.last == blockNone:
			b.from++ // no comma before the first
		}
		r.messages = append(r.messages, r.blocks[b.from:b.end]...)
		t.last = b.kind
		t.thought = t.thought || b.kind == blockThinking || b.kind == blockSigned
	}
	r.messages = append(r.messages, "]}"...)
}

// readSystem reads systemInstruction, a content of nothing but text.
func (r *request) readSystem() {
	r.readParts()
	if c := &r.content; c.call || c.thought || c.responded {
		r.Fail(r.S.Path()+".parts", "a system instruction is text only")
	}
	r.system = append(r.system[:0], r.blocks...)
}

// readParts reads the members of one content.
func (r *request) readParts() {
	r.blocks, r.content = r.blocks[:0], content{blocks: r.content.blocks[:0]}
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		switch camel(r.S.Key()) {
		case "role":
			r.content.role = r.Text()
		case "parts":
			r.blocks, r.content = r.blocks[:0], content{role: r.content.role, blocks: r.content.blocks[:0]}
			r.each(r.readPart)
		default:
			r.unknown()
		}
	}
	if r.content.parts == 0 {
		r.Fail(r.S.Path()+".parts", "field required, at least one part")
	}
}

// part is one part as it comes in.
type part struct {
	text      []byte // raw
	thought   bool
	signature []byte
	called    bool
	call      function
	responded bool
	response  function
	kinds     int
}

// function is a call, or what came of one.
type function struct {
	id, name []byte // raw
	value    []byte // args or response: an object
}

// readPart reads one part as a native block.
func (r *request) readPart() {
	r.content.parts++
	if !r.Open(scan.Object) {
		return
	}
	var p part
	for r.S.NextMember() {
		switch camel(r.S.Key()) {
		case "text":
			p.text = r.Str()
			p.kinds++
		case "thought":
			p.thought = r.Bool()
		case "thoughtSignature":
			p.signature = r.Text()
		case "functionCall":
			p.called, p.call = true, r.readFunction("args")
			p.kinds++
		case "functionResponse":
			p.responded, p.response = true, r.readFunction("response")
			p.kinds++
		case "partMetadata": // what a client notes for itself
			r.passObject()
		case "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			r.Refuse(r.S.Path(), "it is not supported: text and functions only")
		default:
			r.unknown()
		}
	}
	if p.kinds != 1 {
		r.Fail(r.S.Path(), "want exactly one of text, functionCall and functionResponse in a part")
	}
	r.appendPart(&p)
}

// appendPart appends the block of a part whose object was walked.
func (r *request) appendPart(p *part) {
	c := &r.content
	if thinking, is := openSignature(p.signature); is && !c.thought {
		c.thought = true
		r.flags |= keptMoved
		r.appendText(blockSigned, thinkingHead, abi.AppendEscaped(nil, thinking))
	}
	from := len(r.blocks)
	switch {
	case p.called:
		c.call = true
		r.calls++
		id := p.call.id
		if len(id) == 0 {
			id = strconv.AppendInt([]byte("call_"), int64(r.calls), 10)
		}
		name := string(p.call.name)
		r.open[name] = append(r.open[name], string(id))
		r.blocks = append(field.AppendToolUse(append(r.blocks, ','), id, p.call.name), p.call.value...)
		r.blocks = append(r.blocks, '}')
	case p.responded:
		c.responded = true
		r.blocks = field.AppendResult(append(r.blocks, ','), r.answered(&p.response))
		r.blocks = append(abi.AppendEscaped(append(r.blocks, '"'), string(p.response.value)), `"}`...)
	case p.thought:
		c.thought = true
		r.appendText(blockThinking, thinkingHead, p.text)
		return
	default:
		r.appendText(blockText, textHead, p.text)
		return
	}
	c.blocks = append(c.blocks, block{blockOther, from, from, len(r.blocks)})
}

// appendText appends a block that is a text, which is raw.
func (r *request) appendText(kind blockKind, head string, text []byte) {
	from := len(r.blocks)
	r.blocks = append(append(append(r.blocks, head...), text...), blockEnd...)
	at, end := from+len(head), len(r.blocks)
	r.content.blocks = append(r.content.blocks, block{kind, from, at, end})
}

// answered is the id of the call that a response is to: the one it names, or
// else the oldest of its function without a response.
func (r *request) answered(f *function) []byte {
	name := string(f.name)
	open := r.open[name]
	switch {
	case len(f.id) > 0:
		if len(open) > 0 && open[0] == string(f.id) {
			r.open[name] = open[1:]
		}
		return f.id
	case len(open) > 0:
		r.open[name] = open[1:]
		return []byte(open[0])
	}
	r.Fail(r.S.Path()+".functionResponse.name", "no functionCall of this name waits for a response")
	return nil
}

// readFunction reads a functionCall or a functionResponse, whose object is the member value.
func (r *request) readFunction(value string) (f function) {
	if !r.Open(scan.Object) {
		return f
	}
	for r.S.NextMember() {
		name := camel(r.S.Key())
		switch {
		case name == "id":
			f.id = r.Str()
		case name == "name":
			f.name = r.Str()
		case name == value:
			if r.S.Kind() != scan.Object {
				r.Want("an object")
			}
			f.value = r.S.Raw()
		case name == "willContinue":
			r.unless(!r.Bool())
		case name == "parts":
			r.unless(r.Empty(scan.Array))
		default:
			r.unknown()
		}
	}
	switch {
	case len(f.name) == 0:
		r.Fail(r.S.Path()+".name", "field required")
	case f.value == nil && value == "response":
		r.Fail(r.S.Path()+".response", "field required, an object")
	case f.value == nil:
		f.value = []byte("{}")
	}
	return f
}

// signatureMark begins a signature, decoded, that is the thinking before a call.
const signatureMark = "thinking:"

// appendSignature appends the signature of a call with the thinking, escaped, before it.
func appendSignature(dst, thinking []byte) []byte {
	return base64.StdEncoding.AppendEncode(dst, scan.Unescape([]byte(signatureMark), thinking))
}

// openSignature is the thinking that a signature of ours has. Others, of another
// service where the conversation began, say nothing here. Clients keep the bytes
// and may write them in the other alphabet.
func openSignature(signature []byte) (thinking string, ok bool) {
	text := bytes.Map(func(c rune) rune {
		switch c {
		case '-':
			return '+'
		case '_':
			return '/'
		case '=':
			return -1
		}
		return c
	}, signature)
	decoded, err := base64.RawStdEncoding.AppendDecode(nil, text)
	rest, ours := bytes.CutPrefix(decoded, []byte(signatureMark))
	return string(rest), err == nil && ours && utf8.Valid(rest)
}
