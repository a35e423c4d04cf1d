package responses

import (
	"bytes"

	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// role is whose native message is open.
type role uint8

const (
	roleNone role = iota
	roleUser
	roleResults // the user's, with the results of calls: they gather in one message
	roleAssistant
	roleSystem
)

var roleNames = [...]string{roleUser: "user", roleResults: "user", roleAssistant: "assistant", roleSystem: "system"}

// input reads the conversation: a string is the user's one message.
func (r *request) input() {
	switch r.S.Kind() {
	case scan.String:
		text := r.Str()
		r.open(roleUser)
		r.messages = field.AppendText(r.messages, text)
		return
	case scan.Array:
	default:
		r.Want("a string or an array of items")
		return
	}
	var f fields
	for r.S.Open(); r.S.Next(); {
		index := r.S.Index()
		if r.fields(&r.S, top, &f) {
			r.item(&f, element("input", index))
		}
	}
}

// open makes ready for one more block of a role: in a message of its own,
// unless the blocks of this role gather and the open message is such a one.
func (r *request) open(who role) {
	if r.role == who && (who == roleAssistant || who == roleResults) {
		r.messages = append(r.messages, ',')
		return
	}
	if r.role != roleNone {
		r.messages = append(r.messages, "]},"...)
	}
	r.role = who
	r.messages = append(append(r.messages, `{"role":"`...), roleNames[who]...)
	r.messages = append(r.messages, `","content":[`...)
}

// silent are the items that say what a service did on its side. There is
// nothing in them that the model could be told.
var silent = []string{
	"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools",
}

const noItems = `this service keeps no items to refer to; send the item itself, as clients do that are told "store": false`

// item translates one item of the conversation.
func (r *request) item(f *fields, p place) {
	kind := word(r.text(f.kind, p, "type"))
	if r.flags&keptSummary != 0 {
		r.Fail(p.at(""), "a compaction_trigger must be the last item")
	}
	switch string(kind) {
	case "message":
		r.message(f, p)
	case "agent_message":
		r.agentMessage(f, p)
	case "reasoning":
		r.reasoning(f, p)
	case "function_call":
		r.call(f, p)
	case "custom_tool_call":
		r.customCall(f, p)
	case "function_call_output":
		if f.callID == nil {
			r.told(f, p)
		} else {
			r.result(f, p)
		}
	case "custom_tool_call_output":
		r.result(f, p)
	case "additional_tools", "tool_search_output":
		r.found = append(r.found, toolList{raw: f.tools, at: p.in("tools", -1)})
		if string(kind) == "tool_search_output" && f.byClient() {
			r.searchResult(f, p)
		}
	case "tool_search_call":
		if f.byClient() {
			r.searchCall(f, p)
		}
	case "configuration_update":
		r.configure(f, p)
	case "compaction":
		r.compaction(f, p)
	case "compaction_trigger":
		r.flags |= keptSummary
	case "item_reference":
		r.Fail(p.at(""), noItems)
	case "":
		r.untyped(f, p)
	default:
		for _, skipped := range silent {
			if string(kind) == skipped {
				return
			}
		}
		r.Fail(p.at("type"), quote(kind)+" items are not supported here")
	}
}

// untyped is an item without a type: a message, or a reference to an item.
func (r *request) untyped(f *fields, p place) {
	switch {
	case f.role != nil || f.content != nil:
		r.message(f, p)
	case f.id != nil:
		r.Fail(p.at(""), noItems)
	default:
		r.Fail(p.at("type"), "field required, such as message or function_call_output")
	}
}

// message translates a message. System messages that open the conversation
// join the instructions; later ones stay where they are.
func (r *request) message(f *fields, p place) {
	who := roleUser
	switch name := string(word(r.required(f.role, p, "role"))); {
	case r.Err != nil:
		return
	case name == "assistant":
		who = roleAssistant
	case name == "system" || name == "developer":
		who = roleSystem
	case name != "user":
		r.Fail(p.at("role"), quote(word(f.role[1:len(f.role)-1]))+" is not one of user, assistant, system, developer")
		return
	}
	r.said(f.content, p, "content", messageBlocks{who: who})
}

// agentMessage translates what another agent of the client says, as who sent it to this one: a message of the user.
func (r *request) agentMessage(f *fields, p place) {
	blocks := messageBlocks{who: roleUser}
	if author := r.text(f.author, p, "author"); len(author) > 0 {
		r.block(&blocks, append(append([]byte("Message from the agent "), author...), ':'))
	}
	r.ofAgent = true
	r.said(f.content, p, "content", blocks)
	r.ofAgent = false
}

// told translates what a tool of the client gave though nobody called it, such as one that begins a turn at its time:
// a message of the user. A result would need a call that the model made.
func (r *request) told(f *fields, p place) {
	from := "Output of a tool:"
	if f.name != nil {
		from = "Output of the tool " + string(nativeName(f.namespace, r.name(f, p))) + ":"
	}
	blocks := messageBlocks{who: roleUser}
	r.block(&blocks, []byte(from))
	r.said(f.output, p, "output", blocks)
}

// said writes the content of a message, the field of the item at p, behind the blocks that it has.
func (r *request) said(raw []byte, p place, field string, blocks messageBlocks) {
	const want = "a string or an array of parts"
	if raw == nil {
		r.Fail(p.at(field), "field required, "+want)
		return
	}
	switch raw[0] {
	case '"':
		r.block(&blocks, raw[1:len(raw)-1])
	case '[':
		r.parts(raw, p, field, func(text []byte) { r.block(&blocks, text) })
	default:
		r.Wrong(p.at(field), want, kindOf(raw))
	}
	if blocks.count == 0 {
		r.block(&blocks, nil) // a turn without words is still one
	}
}

// messageBlocks is how many blocks of a message are written.
type messageBlocks struct {
	who   role
	count int
}

// block writes one text block of a message. The assistant's empty ones say
// nothing: they are what answers without text come back as.
func (r *request) block(b *messageBlocks, text []byte) {
	switch {
	case b.who != roleUser && len(text) == 0:
		return
	case b.who == roleSystem && r.role == roleNone:
		if len(r.system) > 0 {
			r.system = append(r.system, ',')
		}
		r.system = field.AppendText(r.system, text)
		return
	case b.count == 0:
		r.open(b.who)
	default:
		r.messages = append(r.messages, ',')
	}
	b.count++
	r.messages = field.AppendText(r.messages, text)
}

// parts calls each for the text of every part in an array, the field of the item at p.
func (r *request) parts(raw []byte, p place, field string, each func(text []byte)) {
	s := &r.In
	s.Reset(raw)
	base := p.in(field, -1)
	var f fields
	for s.Open(); s.Next(); {
		one := p.in(field, s.Index())
		if !r.fields(s, base, &f) {
			return
		}
		text, name := f.text, "text"
		kind, known := word(r.required(f.kind, one, "type")), true
		switch string(kind) {
		case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		case "refusal":
			text, name = f.refusal, "refusal"
		case "encrypted_content": // which clients take for what a model here said to another agent in plain words
			text, name, known = f.encrypted, "encrypted_content", r.ofAgent
		default:
			known = false
		}
		if !known {
			r.Fail(one.at("type"), quote(kind)+" is not supported: text content only")
		}
		if text == nil {
			r.Fail(one.at(name), "field required, a string")
		}
		each(r.text(text, one, name))
	}
}

// reasoning translates a reasoning item into a thinking block of the assistant's
// turn. Its content is the thinking itself, its summary what there is without
// one; encrypted thinking of another service is left out.
func (r *request) reasoning(f *fields, p place) {
	raw, field := f.content, "content"
	if raw == nil || bytes.Equal(raw, []byte("[]")) {
		raw, field = f.summary, "summary"
	}
	if raw == nil {
		return
	}
	if raw[0] != '[' {
		r.Wrong(p.at(field), "an array", kindOf(raw))
		return
	}
	count := 0
	r.parts(raw, p, field, func(text []byte) {
		switch {
		case len(text) == 0:
			return
		case count == 0:
			r.open(roleAssistant)
			r.messages = append(r.messages, `{"type":"thinking","thinking":"`...)
		default:
			r.messages = append(r.messages, `\n\n`...)
		}
		count++
		r.messages = append(r.messages, text...)
	})
	if count > 0 {
		r.messages = append(r.messages, `"}`...)
	}
}

// openCall writes a call up to its input.
func (r *request) openCall(f *fields, p place) {
	id := r.required(f.callID, p, "call_id")
	name := r.name(f, p)
	r.open(roleAssistant)
	r.messages = field.AppendToolUse(r.messages, id, nativeName(f.namespace, name))
}

// call translates a function call, whose arguments are an object as text.
func (r *request) call(f *fields, p place) {
	arguments := r.text(f.arguments, p, "arguments")
	r.openCall(f, p)
	from := len(r.messages)
	r.messages = scan.Unescape(r.messages, arguments)
	object := bytes.TrimSpace(r.messages[from:])
	if len(object) == 0 {
		r.messages = append(r.messages[:from], "{}"...)
	} else if wrong := r.ObjectText(object, quote); wrong != "" {
		r.Fail(p.at("arguments"), wrong)
	}
	r.messages = append(r.messages, '}')
}

// customCall translates a call of a custom tool into one of the function that
// stands for it.
func (r *request) customCall(f *fields, p place) {
	input := r.text(f.input, p, "input")
	r.openCall(f, p)
	r.messages = append(append(r.messages, `{"`+customField+`":"`...), input...)
	r.messages = append(r.messages, `"}}`...)
}

// byClient says whether an item is of a search that the client did itself: such a one has a call_id, and says so or nothing.
func (f *fields) byClient() bool { return f.ofClient() || f.execution == nil && f.callID != nil }

// searchCall translates a call of the client's own search of tools.
func (r *request) searchCall(f *fields, p place) {
	id := r.required(f.callID, p, "call_id")
	if f.arguments == nil {
		r.Fail(p.at("arguments"), "field required, an object")
	} else if f.arguments[0] != '{' {
		r.Wrong(p.at("arguments"), "an object", kindOf(f.arguments))
	}
	r.open(roleAssistant)
	r.messages = field.AppendToolUse(r.messages, id, []byte(searchTool))
	r.messages = append(append(r.messages, f.arguments...), '}')
}

// searchResult translates what such a search found, which is the last of found: the result names the tools.
func (r *request) searchResult(f *fields, p place) {
	id := r.required(f.callID, p, "call_id")
	r.open(roleResults)
	r.messages = append(field.AppendResult(r.messages, id), '"')
	r.found[len(r.found)-1].result = len(r.messages)
	r.messages = append(r.messages, `"}`...)
}

// result translates what a call gave.
func (r *request) result(f *fields, p place) {
	id := r.required(f.callID, p, "call_id")
	if f.output == nil {
		r.Fail(p.at("output"), "field required, a string or an array of parts")
	}
	if r.Err != nil {
		return
	}
	r.open(roleResults)
	r.messages = field.AppendResult(r.messages, id)
	switch f.output[0] {
	case '"':
		r.messages = append(r.messages, f.output...)
	case '[':
		r.messages = append(r.messages, '[')
		first := true
		r.parts(f.output, p, "output", func(text []byte) {
			if !first {
				r.messages = append(r.messages, ',')
			}
			first = false
			r.messages = field.AppendText(r.messages, text)
		})
		r.messages = append(r.messages, ']')
	default:
		r.Wrong(p.at("output"), "a string or an array of parts", kindOf(f.output))
	}
	r.messages = append(r.messages, '}')
}
