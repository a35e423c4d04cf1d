package wire

import (
	"encoding/json"
	"strings"
)

// list notes where the tools stand.
func (w *splicer) list() error {
	all := span{from: w.next(int(w.dec.InputOffset()), '[')}
	err := w.each(func() error {
		from, to, err := w.value()
		w.tools = append(w.tools, span{from, to, false})
		return err
	})
	all.to = int(w.dec.InputOffset())
	w.values["tools"] = all
	return err
}

// define notes the tool that a block defines, if it does. leftOut says that the block does not stay.
func (w *splicer) define(tool []byte, leftOut bool) error {
	kind, err := memberString(tool, "type")
	if kind != "tool_definition" || err != nil {
		return err
	}
	from, to, err := memberAt(tool, "definition")
	if err != nil {
		return err
	}
	if leftOut {
		w.defined = append(w.defined, tool[from:to])
		return nil
	}
	skipped, err := w.skipped(tool[from:to])
	w.stays = w.stays || !skipped
	return err
}

// offer leaves out the tools that are skipped, and has those that messages define where package messages reads them: in the
// place of one of the same name, or behind all others. What it returns becomes a member that the body does not have.
func (w *splicer) offer() (member string, err error) {
	defined, names, err := w.latest()
	if err != nil {
		return "", err
	}
	for i := range w.tools {
		if err := w.listed(&w.tools[i], defined); err != nil {
			return "", err
		}
	}
	var more []string
	for _, name := range names {
		if tool, left := defined[name]; left {
			text, err := w.shown(tool)
			if err != nil {
				return "", err
			}
			more = append(more, text)
		}
	}
	kept := w.cut(w.tools)
	text := strings.Join(more, ",")
	at, there := w.values["tools"]
	switch {
	case text == "":
		if kept == 0 && !w.stays && len(w.tools)+len(w.defined) > 0 { // servers refuse a list without tools, and a choice among none
			w.gone = append(w.gone, "tools", "tool_choice")
		}
	case !there:
		return "[" + text + "]", nil
	case w.body[at.from] != '[':
		w.edit(at.from, at.to, "["+text+"]")
	case kept > 0:
		w.edit(at.to-1, at.to-1, ","+text)
	default:
		w.edit(at.to-1, at.to-1, text)
	}
	return "", nil
}

// unforce makes a tool_choice that forces a call, which stands there, one that does not. That one call at most is wanted stays.
func (w *splicer) unforce(from, to int) error {
	choice := w.body[from:to]
	if kind, err := memberString(choice, "type"); kind != "any" && kind != "tool" || err != nil {
		return err
	}
	single, end, err := memberAt(choice, "disable_parallel_tool_use")
	text := `{"type":"auto"`
	if single < end {
		text += `,"disable_parallel_tool_use":` + string(choice[single:end])
	}
	w.edit(from, to, text+"}")
	return err
}

// latest are the tools that messages define and that stay, the latest of each name, and the names in the order in which they come.
func (w *splicer) latest() (defined map[string]json.RawMessage, names []string, err error) {
	defined = map[string]json.RawMessage{}
	for _, tool := range w.defined {
		skipped, err := w.skipped(tool)
		if skipped && err == nil {
			continue
		}
		name := ""
		if err == nil {
			name, err = memberString(tool, "name")
		}
		if err != nil {
			return nil, nil, err
		}
		if _, again := defined[name]; !again {
			names = append(names, name)
		}
		defined[name] = tool
	}
	return defined, names, nil
}

// listed edits one of the tools of the body. One that a message defines anew is taken out of those.
func (w *splicer) listed(t *span, defined map[string]json.RawMessage) (err error) {
	was := w.body[t.from:t.to]
	if t.skipped, err = w.skipped(was); t.skipped || err != nil {
		return err
	}
	name, err := memberString(was, "name")
	if err != nil {
		return err
	}
	tool := json.RawMessage(was)
	if again, ok := defined[name]; ok {
		tool = again
		delete(defined, name)
	}
	text, err := w.shown(tool)
	if text != string(was) {
		w.edit(t.from, t.to, text)
	}
	return err
}

// skipped says whether a tool is left out.
func (w *splicer) skipped(tool []byte) (bool, error) {
	kind, err := memberString(tool, "type")
	if err != nil || kind != "" && w.s.ToolSkipped != nil && w.s.ToolSkipped(kind) {
		return true, err
	}
	if w.s.Tool == "" {
		return false, nil
	}
	name, err := memberString(tool, "name")
	return name != w.s.Tool, err
}

// shown is the text of a tool with its schema as the server is to have it.
func (w *splicer) shown(tool []byte) (string, error) {
	if w.s.Schema == nil {
		return string(tool), nil
	}
	from, to, err := memberAt(tool, "input_schema")
	if from == to {
		return string(tool), err
	}
	return string(tool[:from]) + string(w.s.Schema(json.RawMessage(tool[from:to]))) + string(tool[to:]), err
}
