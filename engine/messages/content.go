package messages

import (
	"slices"
	"strings"
)

// message reads one element of messages.
func (r *reader) message() (m Message) {
	hasContent := false
	r.object(func(name string) {
		switch name {
		case "role":
			m.Role = r.string()
		case "content":
			hasContent = true
			m.Blocks = r.blocks()
		default:
			r.skip()
		}
	})
	if r.err != nil {
		return m
	}
	switch { // the object is closed: path names it
	case m.Role == "":
		r.fail(invalid(r.path()+".role", "field required, user or assistant"))
	case m.Role != "user" && m.Role != "assistant" && m.Role != "system":
		r.fail(invalid(r.path()+".role", "%q is not one of user, assistant", m.Role))
	case !hasContent:
		r.fail(invalid(r.path()+".content", "field required, a string or an array of blocks"))
	default:
		r.checkRole(m)
	}
	return m
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

// blocks reads content: a string, or an array of blocks.
func (r *reader) blocks() (blocks []Block) {
	if r.err == nil && r.dec.PeekKind() == '"' {
		return []Block{{Type: Text, Text: r.string()}}
	}
	if r.err == nil && r.dec.PeekKind() != '[' {
		r.want('[', "a string or an array of blocks")
		return nil
	}
	r.array(func() { blocks = append(blocks, r.block()) })
	return blocks
}

// text reads what is a string or an array of text blocks and joins the blocks, one per line.
func (r *reader) text() string {
	blocks := r.blocks()
	if r.err == nil && slices.ContainsFunc(blocks, func(b Block) bool { return b.Type != Text }) {
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

// blockFields is a block as it comes in, before its type says which fields count.
type blockFields struct {
	kind    string
	present []string
	b       Block
}

// block reads one content block of a message.
func (r *reader) block() Block {
	f := blockFields{}
	r.object(func(name string) {
		f.present = append(f.present, name)
		r.blockField(&f, name)
	})
	if r.err != nil {
		return Block{}
	}
	return r.typed(f)
}

// blockField reads one field of a block. A type may come after the fields it governs, so
// fields are read by their own rules: "content" is a tool result's only.
func (r *reader) blockField(f *blockFields, name string) {
	if r.null() {
		return
	}
	switch name {
	case "type":
		f.kind = r.string()
	case "text":
		f.b.Text = r.string()
	case "thinking":
		f.b.Text = r.string()
	case "signature":
		f.b.Signature = r.string()
	case "id":
		f.b.ID = r.string()
	case "tool_use_id":
		f.b.ID = r.string()
	case "name":
		f.b.Name = r.string()
	case "input":
		f.b.Input = r.rawObject()
	case "content":
		f.b.Text = r.text()
	case "is_error":
		f.b.IsError = r.bool()
	default:
		r.skip()
	}
}

// typed checks a block against its type.
func (r *reader) typed(f blockFields) Block {
	b := f.b
	need := ""
	switch f.kind {
	case "text":
		b.Type, need = Text, "text"
	case "thinking":
		b.Type, need = Thinking, "thinking"
	case "tool_use":
		b.Type, need = ToolUse, "name"
		if b.Input == nil {
			b.Input = []byte("{}")
		}
	case "tool_result":
		b.Type, need = ToolResult, "tool_use_id"
	case "redacted_thinking":
		r.fail(invalid(r.path()+".type", "redacted_thinking blocks cannot be replayed here"))
	case "":
		r.fail(invalid(r.path()+".type", "field required"))
	default:
		r.fail(invalid(r.path()+".type", "%q is not supported: text content only", f.kind))
	}
	if r.err == nil && !slices.Contains(f.present, need) {
		r.fail(invalid(r.path()+"."+need, "field required in a %s block", f.kind))
	}
	return b
}
