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
	// Plain is for a server that knows no more than the protocol: system messages that lead, and the schema of
	// response_format, go where the protocol has them.
	Plain bool
	// BlockSkipped says of a content block's type whether it is left out, and with the last of them their message, as
	// package messages reads it; nil leaves none out. A tool that such a block defines goes among the others.
	BlockSkipped func(kind string) bool
	// Without are members that are left out.
	Without []string
	// Count makes the body of a question for a count, which says nothing of how to answer: servers refuse it there.
	Count bool
}

// uncounted are the members of a body that a count is without.
var uncounted = append([]string{
	"stream", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier", "compaction",
}, slices.DeleteFunc(slices.Clone(MessagesFields), func(name string) bool { return name == "response_format" })...)

// edit replaces body[from:to] by text.
type edit struct {
	from, to int
	text     string
}

// Splice returns a messages body for a server that speaks the protocol. The body has been
// parsed by package messages; an error means that it was not.
//
// Requests always stream upstream, whatever the client asked for: only a stream has running
// counts, and only it can be seen to stall. A count is no request.
func Splice(body []byte, s Splices) ([]byte, error) {
	w := splicer{body: body, s: s, dec: decoderOf(body), values: map[string]span{}}
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

	values map[string]span // of the members but a list of messages, by their names
	gone   []string        // members that are left out

	tools   []span            // as they are listed
	defined []json.RawMessage // tools that messages define, in blocks that are left out
	stays   bool              // a block that stays defines a tool that is not skipped

	turns   []span   // of messages
	leading []int    // the turns that say the system, before all others
	others  int      // turns behind those, without the skipped ones
	opening []string // what the leading ones say: strings and blocks, as they are written
	within  []edit   // of the leading ones, if they stay
}

// decoderOf walks JSON that was parsed before.
func decoderOf(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
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
	var all []span
	var names []string
	if _, err := w.dec.ReadToken(); err != nil { // the brace
		return err
	}
	for w.dec.PeekKind() != '}' {
		before := int(w.dec.InputOffset())
		name, err := w.name()
		if err != nil {
			return err
		}
		from := w.next(before, '"')
		if err := w.member(name); err != nil {
			return err
		}
		to := int(w.dec.InputOffset())
		all, names = append(all, span{from, to, false}), append(names, name)
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	w.end = int(w.dec.InputOffset()) - 1
	return w.rest(all, names)
}

// next is where the value or name that begins with a character stands behind an offset: only a comma and space are before it.
func (w *splicer) next(offset int, begin byte) int {
	return offset + bytes.IndexByte(w.body[offset:], begin)
}

// rest makes the edits that only the whole body can tell; all are its members.
func (w *splicer) rest(all []span, names []string) error {
	system, err := w.system()
	if err != nil {
		return err
	}
	config, err := w.format()
	if err != nil {
		return err
	}
	tools, err := w.offer()
	if err != nil {
		return err
	}
	w.gone = append(w.gone, w.s.Without...)
	if w.s.Count {
		w.gone = append(w.gone, uncounted...)
	}
	for i, name := range names {
		all[i].skipped = slices.Contains(w.gone, name)
	}
	w.empty = w.leave(all) == 0
	w.insert("system", system)
	w.insert("output_config", config)
	w.insert("tools", tools)
	if w.s.Count {
		return nil
	}
	if _, there := w.values["stream"]; !there {
		w.insert("stream", "true")
	}
	if _, there := w.values["max_tokens"]; !there && w.s.MaxTokens > 0 {
		w.insert("max_tokens", strconv.Itoa(w.s.MaxTokens))
	}
	return nil
}

// leave leaves out the members that are skipped, and what was to be changed within them. It returns how many stay.
func (w *splicer) leave(all []span) (kept int) {
	var skipped []span // few: the members have different names
	for _, m := range all {
		if m.skipped {
			skipped = append(skipped, m)
		}
	}
	w.edits = slices.DeleteFunc(w.edits, func(e edit) bool {
		return slices.ContainsFunc(skipped, func(m span) bool { return m.from <= e.from && e.to <= m.to })
	})
	return w.cut(all)
}

// system moves the system messages that lead to the system, behind what stands there, and cuts the list of messages.
// What it returns becomes a member that the body does not have.
func (w *splicer) system() (member string, err error) {
	if w.others == 0 { // a list without messages is refused everywhere
		w.edits, w.leading = append(w.edits, w.within...), nil
	}
	for _, i := range w.leading {
		w.turns[i].skipped = true
	}
	w.cut(w.turns)
	if len(w.leading) == 0 || len(w.opening) == 0 {
		return "", nil
	}
	at, there := w.values["system"]
	said, err := parts(w.body[at.from:at.to])
	if err != nil {
		return "", err
	}
	said = append(said, w.opening...)
	text := said[0]
	if len(said) > 1 || text[0] != '"' {
		for i, part := range said {
			if part[0] == '"' {
				said[i] = `{"type":"text","text":` + part + `}`
			}
		}
		text = "[" + strings.Join(said, ",") + "]"
	}
	if !there {
		return text, nil
	}
	w.edit(at.from, at.to, text)
	return "", nil
}

// parts are the blocks of a content, as they are written, or its string; none of what says nothing.
func parts(content []byte) (all []string, err error) {
	w := splicer{dec: decoderOf(content)}
	switch {
	case len(content) == 0 || string(content) == `""`:
	case content[0] == '"':
		all = []string{string(content)}
	case content[0] == '[':
		err = w.each(func() error {
			from, to, err := w.value()
			all = append(all, string(content[from:to]))
			return err
		})
	}
	return all, err
}

// format has the schema of response_format where the protocol has it: in output_config. What it returns becomes
// a member that the body does not have.
func (w *splicer) format() (member string, err error) {
	at := w.values["response_format"]
	schema, err := schemaOf(w.body[at.from:at.to])
	if schema == nil || err != nil || !w.s.Plain {
		return "", err
	}
	w.gone = append(w.gone, "response_format")
	text := `{"type":"json_schema","schema":` + string(schema) + `}`
	at, there := w.values["output_config"]
	config := w.body[at.from:at.to]
	switch from, to, err := memberAt(config, "format"); {
	case err != nil || !there:
		return `{"format":` + text + `}`, err
	case config[0] != '{':
		w.edit(at.from, at.to, `{"format":`+text+`}`)
	case from < to: // it asks for nothing: two formats are refused
		w.edit(at.from+from, at.from+to, text)
	case len(bytes.TrimSpace(config[1:len(config)-1])) == 0:
		w.edit(at.to-1, at.to-1, `"format":`+text)
	default:
		w.edit(at.to-1, at.to-1, `,"format":`+text)
	}
	return "", nil
}

// schemaOf is the schema of a response_format, nil without one.
func schemaOf(format []byte) ([]byte, error) {
	if kind, err := memberString(format, "type"); kind != "json_schema" || err != nil {
		return nil, err
	}
	from, to, err := memberAt(format, "json_schema")
	definition := format[from:to]
	if err == nil {
		from, to, err = memberAt(definition, "schema")
	}
	if err != nil || from == to || definition[from] != '{' {
		return nil, err
	}
	return definition[from:to], nil
}

// insert adds a member at the end of the body, unless its value is empty.
func (w *splicer) insert(name, value string) {
	if value == "" {
		return
	}
	member := `"` + name + `":` + value
	if !w.empty {
		member = "," + member
	}
	w.empty = false
	w.edit(w.end, w.end, member)
}

// name reads a string, such as the name of a member.
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
	case name == "messages" && w.dec.PeekKind() == '[':
		return w.each(w.message)
	case name == "tools" && w.dec.PeekKind() == '[':
		return w.list()
	}
	from, to, err := w.value()
	if err != nil {
		return err
	}
	w.values[name] = span{from, to, false}
	switch {
	case name == "model" && w.s.Model != "":
		if text := quote(w.s.Model); text != string(w.body[from:to]) {
			w.edit(from, to, text)
		}
	case name == "stream" && string(w.body[from:to]) != "true":
		w.edit(from, to, "true")
	case name == "tool_choice" && w.s.ChoiceAuto:
		return w.unforce(from, to)
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

// message splices one message: its blocks, and whether it stays.
func (w *splicer) message() error {
	mark := len(w.edits)
	turn, role, said, err := w.turn()
	if err != nil {
		return err
	}
	switch {
	case turn.skipped:
		w.edits = w.edits[:mark]
	case w.s.Plain && role == "system" && w.others == 0:
		w.leading, w.opening = append(w.leading, len(w.turns)), append(w.opening, said...)
		w.within = append(w.within, w.edits[mark:]...)
		w.edits = w.edits[:mark]
	default:
		w.others++
	}
	w.turns = append(w.turns, turn)
	return nil
}

// turn walks a message. It is skipped if all of its blocks are. Of one that may lead, said is what it says.
func (w *splicer) turn() (turn span, role string, said []string, err error) {
	if w.dec.PeekKind() != '{' {
		turn.from, turn.to, err = w.value()
		return turn, "", nil, err
	}
	turn.from = w.next(int(w.dec.InputOffset()), '{')
	var content []span // the string, or the blocks that stay
	err = w.object(func(name string) (err error) {
		switch kind := w.dec.PeekKind(); {
		case name == "role" && kind == '"':
			role, err = w.name()
		case name == "content" && kind == '"':
			from, to, err := w.value()
			content = []span{{from, to, false}}
			return err
		case name == "content" && kind == '[':
			content, turn.skipped, err = w.blocks()
		default:
			err = w.dec.SkipValue()
		}
		return err
	})
	turn.to = int(w.dec.InputOffset())
	if role == "system" && w.others == 0 {
		for _, c := range content {
			if text := string(w.body[c.from:c.to]); text != `""` {
				said = append(said, text)
			}
		}
	}
	return turn, role, said, err
}

// blocks splices the blocks of a content and returns those that stay.
func (w *splicer) blocks() (kept []span, noneLeft bool, err error) {
	var all []span
	err = w.each(func() error {
		mark := len(w.edits)
		b, err := w.block()
		if b.skipped {
			w.edits = w.edits[:mark]
		}
		all = append(all, b)
		return err
	})
	if n := w.cut(all); n == len(all) {
		return all, false, err
	}
	kept = slices.DeleteFunc(all, func(b span) bool { return b.skipped })
	return kept, len(kept) == 0, err
}

// block replaces the signature of one content block, which only thinking blocks have, and says whether it is skipped.
func (w *splicer) block() (b span, err error) {
	if w.dec.PeekKind() != '{' {
		b.from, b.to, err = w.value()
		return b, err
	}
	b.from = w.next(int(w.dec.InputOffset()), '{')
	kind, tool := "", span{}
	err = w.object(func(name string) (err error) {
		switch {
		case name == "type" && w.dec.PeekKind() == '"':
			kind, err = w.name()
		case name == "tool":
			tool.from, tool.to, err = w.value()
		case name == "signature" && w.dec.PeekKind() == '"' && w.s.Signature != nil:
			err = w.signature()
		default:
			err = w.dec.SkipValue()
		}
		return err
	})
	b.to = int(w.dec.InputOffset())
	b.skipped = w.s.BlockSkipped != nil && w.s.BlockSkipped(kind)
	if kind == "tool_addition" && err == nil {
		err = w.define(w.body[tool.from:tool.to], b.skipped)
	}
	return b, err
}

func (w *splicer) signature() error {
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

// memberString is the value of a member that is a string, empty without one.
func memberString(object []byte, name string) (string, error) {
	from, to, err := memberAt(object, name)
	if err != nil || from == to || object[from] != '"' {
		return "", err
	}
	found, err := jsontext.AppendUnquote(nil, object[from:to])
	return string(found), err
}

// memberAt is where the value of a member stands in an object, from == to without one.
func memberAt(object []byte, name string) (from, to int, err error) {
	w := splicer{dec: decoderOf(object)}
	if w.dec.PeekKind() != '{' {
		return 0, 0, nil
	}
	err = w.object(func(n string) error {
		if n != name {
			return w.dec.SkipValue()
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
	b, _ := jsontext.AppendQuote(nil, s) // fails only for broken UTF-8, which it replaces
	return string(b)
}
