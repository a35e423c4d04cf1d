package messages

import (
	"slices"
	"strings"
)

// message reads one element of messages. The system's may be without content.
func (r *reader) message() (m Message, n note) {
	r.countItem()
	hasContent := false
	r.object(func(name string) {
		switch name {
		case "role":
			m.Role = r.string()
		case "content":
			if hasContent = !r.null(); hasContent {
				m.Blocks = r.blocks(fieldsOf)
			}
		case "output_config":
			n.effort = r.effortWithin()
		case "clear_at":
			n.passing = r.is("next_user_message")
		default:
			r.skip()
		}
	})
	switch { // the object is closed: path names it
	case m.Role == "":
		r.fail(invalid(r.path()+".role", "field required, user or assistant"))
	case m.Role != "user" && m.Role != "assistant" && m.Role != "system":
		r.fail(invalid(r.path()+".role", "%q is not one of user, assistant", m.Role))
	case !hasContent && m.Role != "system":
		r.fail(invalid(r.path()+".content", "field required, a string or an array of blocks"))
	default:
		r.checkRole(m)
	}
	return m, n
}

// turn reads one element of messages into q, unless all that it says was said by
// server-side tools, which are skipped.
func (r *reader) turn(q *Request) {
	m, n := r.message()
	said := slices.DeleteFunc(m.Blocks, func(b Block) bool { return b.Type == skipped })
	if len(said) == 0 && len(m.Blocks) > 0 {
		return
	}
	if m.Blocks = said; m.Role == "system" {
		r.noted(q, m, n)
		return
	}
	r.turned(q, m)
}

// countItem bounds what a body of many small parts takes in memory.
func (r *reader) countItem() {
	if r.items++; r.items > itemsMax {
		r.fail(invalid("messages", "at most %d messages and content blocks", itemsMax))
	}
}

// checkRole refuses blocks that the role cannot say.
func (r *reader) checkRole(m Message) {
	for _, b := range m.Blocks {
		switch {
		case b.Type == ToolUse && m.Role != "assistant":
			r.fail(invalid(r.path()+".content", "tool_use blocks are the assistant's, not the role %q's", m.Role))
		case b.Type == Thinking && m.Role != "assistant":
			r.fail(invalid(r.path()+".content", "thinking blocks are the assistant's, not the role %q's", m.Role))
		case b.Type == ToolResult && m.Role != "user":
			r.fail(invalid(r.path()+".content", "tool_result blocks are the user's, not the role %q's", m.Role))
		}
	}
}

// blocks reads content: a string, or an array of blocks, of which fields count.
func (r *reader) blocks(fields map[string][]string) (blocks []Block) {
	if r.err == nil && r.dec.PeekKind() == '"' {
		return []Block{{Type: Text, Text: r.string()}}
	}
	if r.err == nil && r.dec.PeekKind() != '[' {
		r.want('[', "a string or an array of blocks")
		return nil
	}
	r.array(func() { blocks = append(blocks, r.block(fields)) })
	return blocks
}

// text reads what is a string or an array of text blocks and joins the blocks, one per line.
func (r *reader) text() string {
	blocks := r.blocks(textFieldsOf)
	if slices.ContainsFunc(blocks, func(b Block) bool { return b.Type != Text }) {
		r.fail(invalid(r.path(), "only text blocks may stand here"))
	}
	return joinText(blocks)
}

func joinText(blocks []Block) string {
	if len(blocks) == 1 {
		return blocks[0].Text
	}
	parts := make([]string, len(blocks))
	for i := range blocks {
		parts[i] = blocks[i].Text
	}
	return strings.Join(parts, "\n")
}

// fieldsOf are the fields that count in a block, by its type; all others are
// accepted and ignored.
var fieldsOf = map[string][]string{
	"text":        {"text"},
	"thinking":    {"thinking", "signature"},
	"tool_use":    {"id", "name", "input"},
	"tool_result": {"tool_use_id", "content", "is_error"},
	// What the search of a client among its own tools found: these are offered anyway, so
	// the model reads their names.
	"tool_reference": {"tool_name"},
	// What the system says behind the first turn.
	"mid_conv_system": {"content"},
	// Which of the tools are offered from there on: all are, anyway, and so are those that are defined here.
	"tool_addition": {"tool"}, "tool_removal": {"tool"},
}

// textFieldsOf are those where only text may stand. Blocks of other types are refused there, so
// nothing of them is read: results of tools could nest.
var textFieldsOf = map[string][]string{"text": fieldsOf["text"], "tool_reference": fieldsOf["tool_reference"]}

// countsInSome says whether a field counts in blocks of some type.
func countsInSome(fields map[string][]string, name string) bool {
	for _, of := range fields {
		if slices.Contains(of, name) {
			return true
		}
	}
	return false
}

// requiredOf are those that must be there.
var requiredOf = map[string][]string{
	"text":           {"text"},
	"thinking":       {"thinking"},
	"tool_use":       {"id", "name"},
	"tool_result":    {"tool_use_id"},
	"tool_reference": {"tool_name"}, "mid_conv_system": {"content"}, "tool_addition": {"tool"}, "tool_removal": {"tool"},
}

// blockFields is a block as it comes in.
type blockFields struct {
	counting map[string][]string // fieldsOf, or textFieldsOf

	kind    string
	present []string // fields that count and are not null
	b       Block
	early   []earlyField // fields before the type that may count: only it says whether they do
}

type earlyField struct {
	name string
	raw  []byte
}

// block reads one content block of a message, of which fields count.
func (r *reader) block(fields map[string][]string) Block {
	r.countItem()
	f := blockFields{counting: fields}
	r.object(func(name string) {
		switch {
		case name == "type":
			f.kind = r.string()
		case f.kind == "" && countsInSome(fields, name):
			f.early = append(f.early, earlyField{name, r.raw()})
		default:
			r.blockField(&f, name)
		}
	})
	for _, e := range f.early {
		s := within(e.raw, r.path()+"."+e.name)
		s.items = r.items
		s.blockField(&f, e.name)
		r.fail(s.err)
		r.items = s.items
	}
	return r.typed(f)
}

// blockField reads one field of a block whose type is known.
func (r *reader) blockField(f *blockFields, name string) {
	if !slices.Contains(f.counting[f.kind], name) {
		r.skip()
		return
	}
	if r.null() {
		return
	}
	f.present = append(f.present, name)
	switch name {
	case "text", "thinking", "tool_name":
		f.b.Text = r.string()
	case "signature":
		r.string() // no engine of ours reads it; that of another server goes on from the body
	case "id", "tool_use_id":
		f.b.ID = r.string()
	case "name":
		if f.b.Name = r.string(); f.b.Name == "" {
			r.fail(invalid(r.path(), "must not be empty"))
		}
	case "input", "tool":
		f.b.Input = r.rawObject()
	case "content":
		f.b.Text = r.text()
	case "is_error":
		f.b.IsError = r.bool()
	}
}

// typed checks a block against its type.
func (r *reader) typed(f blockFields) Block {
	b := f.b
	switch f.kind {
	case "text", "tool_reference", "mid_conv_system":
		b.Type = Text
	case "tool_addition", "tool_removal":
		if b.Type = skipped; b.Input != nil {
			r.changed(f.kind, b.Input)
		}
	case "thinking":
		b.Type = Thinking
	case "tool_use":
		b.Type = ToolUse
		if b.Input == nil {
			b.Input = []byte("{}")
		}
	case "tool_result":
		b.Type = ToolResult
	case "redacted_thinking":
		r.fail(invalid(r.path()+".type", "redacted_thinking blocks cannot be replayed here"))
	case "":
		r.fail(invalid(r.path()+".type", "field required"))
	default:
		if ServerBlock(f.kind) {
			return Block{Type: skipped}
		}
		r.fail(noTag(r.path()+".type", f.kind, "'text', 'thinking', 'tool_use', 'tool_result': text content only"))
	}
	for _, name := range requiredOf[f.kind] {
		if f.counting[f.kind] != nil && !slices.Contains(f.present, name) {
			r.fail(invalid(r.path()+"."+name, "field required in a %s block", f.kind))
		}
	}
	return b
}

// ServerBlock says whether a block of a type is the call or the result of a tool that ran on
// another service's side, where the conversation began, or says which tools are offered from there on. It is skipped, and
// costs no tokens but those of a tool that it defines.
func ServerBlock(kind string) bool {
	switch kind {
	case "server_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "tool_addition", "tool_removal":
		return true
	}
	return ServerTool(kind) && strings.HasSuffix(kind, "_tool_result")
}
