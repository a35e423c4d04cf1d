package engine

import (
	"regexp"
	"strings"

	"corenode/engine/output"
	"corenode/engine/template"
)

// callForm is a form in which models write calls of tools.
type callForm uint8

const (
	// callsJSON is of Hermes, Qwen2.5 and Qwen3, and of templates that show none of these forms:
	// <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>
	callsJSON callForm = iota
	// callsXML is of Qwen3-Coder and Qwen3.5:
	// <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
	callsXML
	// callsKeys is of GLM:
	// <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>
	callsKeys
	// callsDelimited is of Mistral, DeepSeek and Kimi: names, and arguments as JSON, between delimiters of
	// the family's own.
	callsDelimited
	// callsChannels is of gpt-oss: a call is a message to functions.NAME, whose body is JSON.
	callsChannels
)

// chatFormat is how a model reads conversations and writes calls and thinking. It is decided in
// chatFormatOf alone and does not change.
type chatFormat struct {
	calls callForm
	// marker is the token that begins a call, -1 without one: that of <tool_call>, or of delimiters.Open.
	marker int32
	// delimiters are of callsDelimited; nil for others.
	delimiters *output.Delimiters
	// Of callsDelimited too. textArguments says that the template takes the arguments of calls as text, shortIDs
	// that it takes ids of nine letters and digits only, or none that are shorter, callsApart that it shows calls only
	// in messages whose content is None.
	textArguments, shortIDs, callsApart bool
	// tellsTools says that the template leaves tools out, or shows calls in a form that is none of these: the system prompt
	// has them then, and the template does not.
	tellsTools bool
	// capital says that the template shows arguments that are true, false or null as Python writes them.
	capital bool
	// turns is what it wants of the order of messages.
	turns turnRules
	// channelTokens are of callsChannels: the marks between the parts of messages, by id; nil for others.
	channelTokens map[int32]string
	// textOfCalls says, of callsChannels, that the template shows the content of a message with a call.
	textOfCalls bool

	// tags stand around thinking.
	tags output.Tags
	// opens says that the template shows the usual tags. Where the prompt opens no thinking, the model may, as Qwen3 does.
	opens bool
	// opensByToken says that the vocabulary has a token for the tag too. An answer in JSON may begin with it.
	opensByToken bool
	// thinkOpen is the token that opens thinking where the tags are control tokens and not the usual ones, as
	// those of Mistral; -1 for others. The prompt opens thinking with it, and it is never drawn.
	thinkOpen int32
	// Of a format with thinkOpen. thinkBlocks says that the template takes thinking as a block of a
	// message's content, thinkEffort that it tells the model how to think: "none", or "high".
	thinkBlocks, thinkEffort bool

	// written are the control tokens that are text in calls, in what has a form, or at the ends of thinking.
	written map[int32]string
	// turn is the token that starts a turn, -1 without one.
	turn int32
	// sent is of asSent.
	sent bool
}

// asSent is the format of a template that servers elsewhere render: they give it a conversation as it is sent to them, and
// add nothing to what it makes of it.
func (f chatFormat) asSent() chatFormat {
	f.sent, f.tellsTools, f.turns, f.thinkOpen = true, false, turnRules{}, -1
	if f.calls == callsDelimited {
		f.calls = callsJSON // whose calls keep their shape
	}
	return f
}

// formatSource is what a format is decided from.
type formatSource struct {
	// template is the text of the chat template: what it shows is what its model was trained to write.
	// Templates of one family want different things of a conversation: render tries one.
	template string
	render   func([]template.Message) (string, error)
	// special is the id of a control token that stands for its name, -1 without one; bytes is what a
	// token stands for.
	special func(name string) int32
	bytes   func(id int32) []byte
}

// chatFormatOf decides the format.
func chatFormatOf(s formatSource) chatFormat {
	f := chatFormat{turn: s.special("<|im_start|>"), marker: s.special("<tool_call>"), tags: output.TagsOf(s.template), thinkOpen: -1}
	shows := func(text string) bool { return strings.Contains(s.template, text) }
	f.channelTokens, f.delimiters = s.channelTokens(), output.DelimitersOf(s.template)
	switch {
	case f.channelTokens != nil:
		f.calls, f.delimiters, f.turn = callsChannels, nil, s.special(output.MarkStart)
		f.textOfCalls = s.showsOfCall("0123456789", "{}", "0123456789")
	case f.delimiters != nil:
		f.calls, f.marker = callsDelimited, s.special(f.delimiters.Open)
		f.tellsTools = !namesTools.MatchString(s.template)
		f.textArguments, f.shortIDs, f.callsApart = s.wantedCalls()
	case !shows("<tool_call>"):
		f.tellsTools = true
	case shows("<arg_key>"):
		f.calls = callsKeys
	case shows("<function="):
		f.calls = callsXML
	default:
		f.tellsTools = !namesTools.MatchString(s.template)
	}
	f.capital = (f.calls == callsXML || f.calls == callsKeys) && s.showsOfCall("", `{"x": true}`, "True")
	f.turns = s.turnRules(&f)
	f.opens = f.tags.Usual() && f.calls != callsChannels && shows(f.tags.Close)
	if !f.tags.Usual() {
		f.thinkOpen = s.special(f.tags.Open)
	}
	if f.thinkOpen >= 0 {
		f.thinkBlocks = !s.showsThinking(false) && s.showsThinking(true)
		f.thinkEffort = shows("[MODEL_SETTINGS]")
	}
	f.written = s.written(&f)
	if open := s.special(f.tags.Open); open >= 0 {
		f.opensByToken = f.opens && (string(s.bytes(open)) == f.tags.Open || f.written[open] != "")
	}
	return f
}

// channelTokens are the tokens of the channel format; nil where the vocabulary lacks one that is needed.
func (s formatSource) channelTokens() map[int32]string {
	tokens := map[int32]string{}
	for _, name := range []string{output.MarkStart, output.MarkChannel, output.MarkConstrain, output.MarkMessage, output.MarkEnd} {
		if id := s.special(name); id >= 0 {
			tokens[id] = name
		} else if name != output.MarkConstrain {
			return nil
		}
	}
	return tokens
}

// namesTools finds the variable of the tools in a template.
var namesTools = regexp.MustCompile(`\btools\b`)

// wantedCalls finds out how the template wants calls: the first way in which it shows one, with its name and what its
// argument is. Some that render a call leave it out. Where none shows it, the first way in which it is rendered counts, and
// without any the template is given calls as they are. Ids are shortened too where one of a single letter is refused that
// way: some templates want nine at least.
func (s formatSource) wantedCalls() (textArguments, shortIDs, apart bool) {
	const name, city = "harbor_tide", "Reykjavik"
	try := func(id string, asText, noContent bool) (text string, err error) {
		return s.render([]template.Message{
			{Role: "user", Content: "a"},
			{Role: "assistant", NoContent: noContent,
				ToolCalls: []template.ToolCall{{ID: id, Name: name, Arguments: []byte(`{"x": "` + city + `"}`), Text: asText}}},
			{Role: "tool", Content: "b", ToolCallID: id},
		})
	}
	rendered := false
	for way := range 8 {
		noContent, short, asText := way&4 != 0, way&2 != 0, way&1 != 0
		id := "functions." + name + ":0" // which Kimi's show in place of the name
		if short {
			id = "abcdef123"
		}
		text, err := try(id, asText, noContent)
		shown := strings.Contains(text, name) && strings.Contains(text, city)
		if err != nil || !shown && (rendered || noContent) {
			continue
		}
		if _, err := try("a", asText, noContent); err != nil {
			short = true
		}
		if shown {
			return asText, short, noContent
		}
		rendered, textArguments, shortIDs = true, asText, short
	}
	return textArguments, shortIDs, false
}

// showsOfCall says whether a text is what the template shows of a message with a call.
func (s formatSource) showsOfCall(content, arguments, shown string) bool {
	text, err := s.render([]template.Message{
		{Role: "user", Content: "a"},
		{Role: "assistant", Content: content, ToolCalls: []template.ToolCall{{ID: "call_1", Name: "f", Arguments: []byte(arguments)}}},
		{Role: "tool", Content: "b", ToolCallID: "call_1"},
	})
	return err == nil && strings.Contains(text, shown)
}

// showsThinking says whether the template shows the thinking of an earlier answer, as a block or not.
func (s formatSource) showsThinking(block bool) bool {
	const thought = "0123456789"
	text, err := s.render([]template.Message{
		{Role: "user", Content: "a"},
		{Role: "assistant", Content: "b", Reasoning: thought, HasReasoning: true, ReasoningBlock: block},
	})
	return err == nil && strings.Contains(text, thought)
}

// written finds the control tokens that are text where an answer has a form: the delimiters of calls, what
// ends thinking, and what opens it where the model does. They stand for no bytes elsewhere.
func (s formatSource) written(f *chatFormat) map[int32]string {
	var names []string
	if f.delimiters != nil {
		names = f.delimiters.Tokens()
	}
	switch {
	case f.thinkOpen >= 0:
		names = append(names, f.tags.Close)
	case f.tags.Usual() && f.calls != callsChannels:
		names = append(names, f.tags.Open, f.tags.Close)
	}
	written := map[int32]string{}
	for _, name := range names {
		if id := s.special(name); id >= 0 && len(s.bytes(id)) == 0 {
			written[id] = name
		}
	}
	return written
}
