package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Splices say what of a client's body is replaced. Everything else of the body goes out
// byte for byte.
type Splices struct {
	// Model is the model's name at the server.
	Model string
	// ToolSkipped says of a tool's type whether it is left out; nil leaves none out.
	ToolSkipped func(kind string) bool
	// Tool is the name of the only tool that stays; empty leaves none out.
	Tool string
	// Schema gives what a tool's schema becomes; nil changes none.
	Schema func(json.RawMessage) json.RawMessage
	// Signature gives what a replayed thinking block's signature becomes; an empty result
	// leaves the member as it is. nil changes none.
	Signature func(ours string) string
	// ChoiceAuto makes a forced tool_choice auto: only skipped tools could have been called.
	ChoiceAuto bool
	// MaxTokens is put in where the body has no max_tokens, which a translator may leave out.
	MaxTokens int
}

// edit replaces body[from:to] by text.
type edit struct {
	from, to int
	text     string
}

// Splice returns a messages body for a server that speaks the protocol. The body has been
// parsed by package messages; an error means that it was not.
//
// Requests always stream upstream, whatever the client asked for: only a stream has running
// counts, and only it can be seen to stall.
func Splice(body []byte, s Splices) ([]byte, error) {
	w := splicer{body: body, s: s, dec: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))}
	if err := w.top(); err != nil {
		return nil, err
	}
	return w.apply(), nil
}

type splicer struct {
	body  []byte
	s     Splices
	dec   *jsontext.Decoder
	edits []edit // not overlapping
	end   int    // offset of the brace that closes the body
	empty bool

	toolsKept, toolsSkipped int
}

// span is an element of an array, or a member of the body.
type span struct {
	from, to int
	skipped  bool
}

func (w *splicer) edit(from, to int, text string) {
	w.edits = append(w.edits, edit{from, to, text})
}

// top walks the members of the body.
func (w *splicer) top() error {
	seen := map[string]bool{}
	var all []span
	if _, err := w.dec.ReadToken(); err != nil { // the brace
		return err
	}
	for w.dec.PeekKind() != '}' {
		before := int(w.dec.InputOffset())
		name, err := w.name()
		if err != nil {
			return err
		}
		seen[name] = true
		from := before + bytes.IndexByte(w.body[before:], '"') // of the name: only a comma and space are before it
		if err := w.member(name); err != nil {
			return err
		}
		all = append(all, span{from, int(w.dec.InputOffset()), name == "tools" || name == "tool_choice"})
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	w.end, w.empty = int(w.dec.InputOffset())-1, len(seen) == 0
	if w.toolsSkipped > 0 && w.toolsKept == 0 {
		w.toolless(all)
	}
	if !seen["stream"] {
		w.insert(`"stream":true`)
	}
	if !seen["max_tokens"] && w.s.MaxTokens > 0 {
		w.insert(`"max_tokens":` + strconv.Itoa(w.s.MaxTokens))
	}
	return nil
}

// toolless leaves out what the members of the body say of tools, after the last tool was skipped: servers refuse
// a list without tools, and a choice among none.
func (w *splicer) toolless(all []span) {
	w.edits = slices.DeleteFunc(w.edits, func(e edit) bool {
		return slices.ContainsFunc(all, func(m span) bool { return m.skipped && m.from <= e.from && e.to <= m.to })
	})
	w.empty = w.cut(all) == 0
}

// insert adds a member at the end of the body.
func (w *splicer) insert(member string) {
	if !w.empty {
		member = "," + member
	}
	w.empty = false
	w.edit(w.end, w.end, member)
}

// name reads the name of a member.
func (w *splicer) name() (string, error) {
	t, err := w.dec.ReadToken()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// value reads one value and returns where it stands.
func (w *splicer) value() (from, to int, err error) {
	v, err := w.dec.ReadValue()
	to = int(w.dec.InputOffset())
	return to - len(v), to, err
}

func (w *splicer) member(name string) error {
	switch {
	case name == "messages" && w.s.Signature != nil && w.dec.PeekKind() == '[':
		return w.each(w.message)
	case name == "tools" && w.dec.PeekKind() == '[':
		return w.tools()
	}
	from, to, err := w.value()
	if err != nil {
		return err
	}
	switch {
	case name == "model" && w.s.Model != "":
		if text := quote(w.s.Model); text != string(w.body[from:to]) {
			w.edit(from, to, text)
		}
	case name == "stream" && string(w.body[from:to]) != "true":
		w.edit(from, to, "true")
	case name == "tool_choice" && w.s.ChoiceAuto:
		if kind, _ := memberString(w.body[from:to], "type"); kind == "any" || kind == "tool" {
			w.edit(from, to, `{"type":"auto"}`)
		}
	}
	return nil
}

// each calls do for every element of the array that comes next.
func (w *splicer) each(do func() error) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != ']' {
		if err := do(); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// object calls do for every member of the object that comes next.
func (w *splicer) object(do func(name string) error) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		name, err := w.name()
		if err == nil {
			err = do(name)
		}
		if err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// skip passes over a value.
func (w *splicer) skip() error { return w.dec.SkipValue() }

// message replaces the signatures of one message's thinking blocks.
func (w *splicer) message() error {
	return w.object(func(name string) error {
		if name != "content" || w.dec.PeekKind() != '[' {
			return w.skip()
		}
		return w.each(w.block)
	})
}

// block replaces the signature of one content block. Only thinking blocks have one.
func (w *splicer) block() error {
	if w.dec.PeekKind() != '{' {
		return w.skip()
	}
	return w.object(func(name string) error {
		if name != "signature" || w.dec.PeekKind() != '"' {
			return w.skip()
		}
		from, to, err := w.value()
		if err != nil {
			return err
		}
		ours, err := jsontext.AppendUnquote(nil, w.body[from:to])
		if err != nil {
			return err
		}
		if theirs := w.s.Signature(string(ours)); theirs != "" {
			w.edit(from, to, quote(theirs))
		}
		return nil
	})
}

// tools leaves out the tools that are skipped.
func (w *splicer) tools() error {
	var all []span
	err := w.each(func() error {
		from, to, err := w.value()
		if err != nil {
			return err
		}
		skipped, err := w.skipped(w.body[from:to])
		if all = append(all, span{from, to, skipped}); skipped || err != nil {
			return err
		}
		return w.schema(from, to)
	})
	if err != nil {
		return err
	}
	kept := w.cut(all)
	w.toolsKept, w.toolsSkipped = w.toolsKept+kept, w.toolsSkipped+len(all)-kept
	return nil
}

// cut leaves out what is skipped of a list, each with the comma beside it, and returns how many stay.
func (w *splicer) cut(all []span) (kept int) {
	for i, t := range all {
		switch {
		case !t.skipped:
			kept++
		case kept > 0: // with the comma before it
			w.edit(all[i-1].to, t.to, "")
		case i+1 < len(all): // with the comma behind it
			w.edit(t.from, all[i+1].from, "")
		default: // all were skipped
			w.edit(t.from, t.to, "")
		}
	}
	return kept
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

// schema replaces the schema of the tool body[from:to].
func (w *splicer) schema(from, to int) error {
	if w.s.Schema == nil {
		return nil
	}
	at, end, err := member(w.body[from:to], "input_schema")
	if at == end {
		return err
	}
	was := w.body[from+at : from+end]
	if text := string(w.s.Schema(was)); text != string(was) {
		w.edit(from+at, from+end, text)
	}
	return err
}

// memberString is the value of a member that is a string, empty without one.
func memberString(object []byte, name string) (string, error) {
	from, to, err := member(object, name)
	if err != nil || from == to || object[from] != '"' {
		return "", err
	}
	found, err := jsontext.AppendUnquote(nil, object[from:to])
	return string(found), err
}

// member is where the value of a member stands in an object, from == to without one.
func member(object []byte, name string) (from, to int, err error) {
	w := splicer{dec: jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))}
	if w.dec.PeekKind() != '{' {
		return 0, 0, nil
	}
	err = w.object(func(n string) error {
		if n != name {
			return w.skip()
		}
		from, to, err = w.value()
		return err
	})
	return from, to, err
}

// apply writes the body with its edits.
func (w *splicer) apply() []byte {
	slices.SortStableFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	out := make([]byte, 0, len(w.body)+256)
	at := 0
	for _, e := range w.edits {
		out = append(append(out, w.body[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, w.body[at:]...)
}

func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // it is not valid UTF-8: what can be said of it goes out
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return string(b)
}
