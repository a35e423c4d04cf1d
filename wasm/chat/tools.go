package chat

import (
	"strconv"

	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// readCalls reads an assistant message's tool_calls as native blocks.
func (r *request) readCalls() {
	m := &r.message
	m.calls = m.calls[:0]
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if r.Open(scan.Object) {
			m.calls = r.appendCall(m.calls)
		}
	}
}

// appendCall reads one call, whose object is open, and appends its block.
func (r *request) appendCall(dst []byte) []byte {
	var f function
	var id, kind []byte
	called := false
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "id":
			id = r.Str()
		case "type":
			kind = r.Text()
		case "function":
			called, f = true, r.readFunction()
		}
	}
	switch {
	case len(kind) > 0 && string(kind) != "function":
		r.Fail(r.S.Path()+".type", field.Quoted(kind)+" is not supported: calls of functions only")
	case len(id) == 0:
		r.Fail(r.S.Path()+".id", "field required")
	case !called:
		r.Fail(r.S.Path()+".function", "field required")
	}
	return appendToolUse(dst, id, f)
}

// function is what a call says: which one, and the text of an object.
type function struct{ name, arguments []byte }

// readFunction reads the name and the arguments of a call.
func (r *request) readFunction() (f function) {
	f.arguments = []byte("{}")
	if !r.Open(scan.Object) {
		return f
	}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "name":
			f.name = r.Str()
		case "arguments":
			f.arguments = r.readArguments()
		}
	}
	if len(f.name) == 0 {
		r.Fail(r.S.Path()+".name", "field required")
	}
	return f
}

// readArguments reads the arguments of a call: the text of a JSON object, or
// nothing for none.
func (r *request) readArguments() []byte {
	text := r.Text()
	r.In.Reset(text)
	if r.In.Kind() == scan.Invalid && r.In.Err().What == scan.Truncated {
		return []byte("{}") // empty, or white space only
	}
	if wrong := r.ObjectText(text, field.Quoted); wrong != "" {
		r.Fail(r.S.Path(), wrong)
	}
	return text
}

func appendToolUse(dst, id []byte, f function) []byte {
	return append(append(field.AppendToolUse(append(dst, ','), id, f.name), f.arguments...), '}')
}

// readLegacyCall reads function_call, what tool_calls was before calls had an
// id: it is given one, which the message of role function behind it answers.
func (r *request) readLegacyCall() {
	m := &r.message
	r.legacyID = strconv.AppendInt([]byte("call_function_"), int64(r.count), 10)
	m.legacy = appendToolUse(m.legacy[:0], r.legacyID, r.readFunction())
}

// readChoice reads tool_choice: a word, or an object that names the function to call or those
// that may be called.
func (r *request) readChoice() {
	r.allowed = nil
	switch r.S.Kind() {
	case scan.String:
		switch word := r.Text(); string(word) {
		case "auto", "none":
			r.choice.Mode, r.forced = string(word), false
		case "required":
			r.choice.Mode, r.forced = "any", true
		default:
			r.Fail("tool_choice", field.Quoted(word)+" is not one of auto, none, required")
		}
	case scan.Object:
		r.readObjectChoice()
	default:
		r.Want("a string or an object that names a function")
	}
}

func (r *request) readObjectChoice() {
	var kind, mode []byte
	r.choice.Name = nil
	for r.S.Open(); r.S.NextMember(); {
		switch string(r.S.Key()) {
		case "type":
			kind = r.Text()
		case "function":
			r.choice.Name = r.readFunctionName()
		case "allowed_tools":
			mode = r.readAllowed()
		}
	}
	switch {
	case string(kind) == "allowed_tools":
		r.checkAllowed(mode)
		return
	case string(kind) != "function":
		r.Fail("tool_choice.type", field.Quoted(kind)+" is not one of function, allowed_tools")
	case len(r.choice.Name) == 0:
		r.Fail("tool_choice.function.name", "field required")
	}
	r.choice.Mode, r.forced, r.allowed = "tool", true, nil
}

// readFunctionName reads an object that only names a function.
func (r *request) readFunctionName() (called []byte) {
	if !r.Open(scan.Object) {
		return nil
	}
	for r.S.Next() {
		if string(r.S.Key()) == "name" {
			called = r.Str()
		}
	}
	return called
}

// readAllowed reads the mode and the names of an object of the tools that may be called.
func (r *request) readAllowed() (mode []byte) {
	if !r.Open(scan.Object) {
		return nil
	}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "mode":
			mode = r.Text()
		case "tools":
			r.readAllowedTools()
		}
	}
	return mode
}

func (r *request) readAllowedTools() {
	r.allowed = []string{}
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if !r.Open(scan.Object) {
			return
		}
		var called []byte
		for r.S.Next() {
			if string(r.S.Key()) == "function" {
				called = r.readFunctionName()
			}
		}
		if len(called) == 0 {
			r.Fail(r.S.Path()+".function.name", "field required")
		}
		r.allowed = append(r.allowed, string(scan.Unescape(nil, called)))
	}
}

// checkAllowed checks a choice of the tools that may be called.
func (r *request) checkAllowed(mode []byte) {
	const path = "tool_choice.allowed_tools"
	switch string(mode) {
	case "auto":
		r.choice.Mode, r.forced = "auto", false
	case "required":
		r.choice.Mode, r.forced = "any", true
	default:
		r.Fail(path+".mode", field.Quoted(mode)+" is not one of auto, required")
	}
	if len(r.allowed) == 0 {
		r.Fail(path+".tools", "field required, at least one tool")
	}
}

// allow takes away the tools that may not be called.
func (r *request) allow() {
	if r.allowed == nil {
		return
	}
	some, missing := field.Only(r.tools, r.allowed)
	if missing != "" {
		r.Fail("tool_choice.allowed_tools.tools", field.Quoted([]byte(missing))+" is not the name of a tool of this request")
	}
	r.renumbered = len(some) < len(r.tools)
	r.tools = some
}
