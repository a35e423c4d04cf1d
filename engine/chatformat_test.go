package engine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"corenode/engine/output"
	"corenode/engine/template"
)

// formatCases are what templates show, with the control tokens of a vocabulary, and the format that both come to. Of
// delimiters only Open is compared; the tokens of a map are those that the names say.
var formatCases = []struct {
	name, template string
	tokens         []string
	want           chatFormat
	open           string
	written        []string
}{
	{"nothing", `{{ messages }}`, nil, chatFormat{turn: -1, marker: -1, tellsTools: true}, "", nil},
	{"a form of its own", `{% if tools %}{"name", "parameters"}{% endif %}{{ messages[0].tool_calls }}`, nil, chatFormat{turn: -1, marker: -1, tellsTools: true}, "", nil},
	{"functions in tags of its own", `{# tools #}<own:tool_call><function=`, nil, chatFormat{turn: -1, marker: -1, tellsTools: true}, "", nil},
	{"JSON with tools", `{# tools #}<tool_call>{"name"`, nil, chatFormat{turn: -1, marker: -1}, "", nil},
	{"JSON", `<tool_call>{"name"`, []string{"<|im_start|>", "<tool_call>"}, chatFormat{turn: 0, marker: 1, tellsTools: true}, "", nil},
	{"words of Python", `<tool_call><function=>{# tools #}{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments.x|string }}{% endfor %}{% endfor %}`,
		nil, chatFormat{calls: callsXML, turn: -1, marker: -1, capital: true}, "", nil},
	{"functions", `<tool_call><function=`, []string{"<tool_call>"}, chatFormat{calls: callsXML, turn: -1}, "", nil},
	{"functions, spelled", `<tool_call><function=`, nil, chatFormat{calls: callsXML, turn: -1, marker: -1}, "", nil},
	{"keys", `<tool_call>NAME<arg_key>`, []string{"<tool_call>"}, chatFormat{calls: callsKeys, turn: -1}, "", nil},
	{"keys beside functions", `<tool_call><function= <arg_key>`, nil, chatFormat{calls: callsKeys, turn: -1, marker: -1}, "", nil},
	{"a list", `{# tools [TOOL_CALLS] #}`, []string{"<tool_call>", "[TOOL_CALLS]"},
		chatFormat{calls: callsDelimited, turn: -1, marker: 1}, "[TOOL_CALLS]", nil},
	{"delimiters beside keys", `[TOOL_CALLS][ARGS]<arg_key>{{ tools }}`, []string{"[ARGS]", "[TOOL_CALLS]"},
		chatFormat{calls: callsDelimited, turn: -1, marker: 1}, "[TOOL_CALLS]", []string{"[ARGS]"}},
	{"short ids", `{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}{{ raise_exception("9") }}{% endif %}
		{%- endfor %}{% endfor %}{# tools [TOOL_CALLS] #}`, nil,
		chatFormat{calls: callsDelimited, turn: -1, marker: -1, shortIDs: true}, "[TOOL_CALLS]", nil},
	{"no shorter ids", `{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length < 9 %}{{ raise_exception("9") }}{% endif %}
		{{- c.function|string }}{% endfor %}{% endfor %}{# tools [TOOL_CALLS] #}`, nil,
		chatFormat{calls: callsDelimited, turn: -1, marker: -1, shortIDs: true}, "[TOOL_CALLS]", nil},
	{"arguments as text, and no tools", `{% for m in messages %}{% for c in m.tool_calls or [] %}{{ "<|tool_calls_section_begin|>" + c.function.arguments }}
		{%- endfor %}{% endfor %}`, nil, chatFormat{calls: callsDelimited, turn: -1, marker: -1, textArguments: true, tellsTools: true},
		"<|tool_calls_section_begin|>", nil},
	{"calls without content", `{% for m in messages %}{% if m.role == "assistant" and m.content is none %}{% for c in m.tool_calls %}
		{{ "<|tool_calls_section_begin|>" + c.function.name + c.function.arguments }}{% endfor %}{% else %}{{ m.content + "" }}
		{%- endif %}{% endfor %}{# tools #}`, nil,
		chatFormat{calls: callsDelimited, turn: -1, marker: -1, textArguments: true, callsApart: true},
		"<|tool_calls_section_begin|>", nil},
	{"calls with any content", `{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}{% endfor %}
		{#- tools [TOOL_CALLS] #}`, nil, chatFormat{calls: callsDelimited, turn: -1, marker: -1}, "[TOOL_CALLS]", nil},
	{"arguments shown where they are text", `{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.function.arguments is string %}
		{{- c.function.name + c.function.arguments }}{% endif %}{% endfor %}{% endfor %}{# tools [TOOL_CALLS] #}`, nil,
		chatFormat{calls: callsDelimited, turn: -1, marker: -1, textArguments: true}, "[TOOL_CALLS]", nil},
	{"calls that it never takes", `{{ raise_exception("no") }}{# tools [TOOL_CALLS] #}`, nil,
		chatFormat{calls: callsDelimited, turn: -1, marker: -1}, "[TOOL_CALLS]", nil},
	{"thinking in blocks", `{% for m in messages %}{% if m.content is not string %}{% for b in m.content %}{{ b.thinking or "" }}{% endfor %}{% endif %}
		{%- endfor %}[THINK]`, []string{"[THINK]", "[/THINK]"}, chatFormat{turn: -1, marker: -1, thinkOpen: 0, thinkBlocks: true, tellsTools: true}, "", []string{"[/THINK]"}},
	{"an effort", `[THINK][MODEL_SETTINGS]`, []string{"[THINK]"}, chatFormat{turn: -1, marker: -1, thinkOpen: 0, thinkEffort: true, tellsTools: true}, "", nil},
	{"tags that are no tokens", `[THINK][MODEL_SETTINGS]`, nil, chatFormat{turn: -1, marker: -1, thinkOpen: -1, tellsTools: true}, "", nil},
	{"usual tags that are tokens", `<think>`, []string{"<think>", "</think>"}, chatFormat{turn: -1, marker: -1, thinkOpen: -1, tellsTools: true}, "", []string{"</think>", "<think>"}},
	{"channels", `{# tools #}`, channelNames, chatFormat{calls: callsChannels, turn: 0, marker: -1}, "", nil},
	{"channels without types", ``, slices.Concat(channelNames[:2], channelNames[3:]), chatFormat{calls: callsChannels, turn: 0, marker: -1}, "", nil},
	{"no channels without an end", ``, channelNames[:4], chatFormat{turn: -1, marker: -1, tellsTools: true}, "", nil},
	{"channels beside delimiters", `[TOOL_CALLS]`, channelNames, chatFormat{calls: callsChannels, turn: 0, marker: -1}, "", nil},
}

var channelNames = []string{output.MarkStart, output.MarkChannel, output.MarkConstrain, output.MarkMessage, output.MarkEnd}

// TestChatFormats: a template and the tokens of the vocabulary decide how a model writes calls and thinking.
func TestChatFormats(t *testing.T) {
	for _, c := range formatCases {
		got := formatIn(t, c.template, c.tokens)
		if !strings.Contains(c.template, "THINK]") {
			c.want.thinkOpen = -1
		}
		open := ""
		if got.delimiters != nil {
			open = got.delimiters.Open
		}
		if open != c.open || (got.delimiters != nil) != (got.calls == callsDelimited) {
			t.Errorf("%s: the delimiters are %+v, want those of %q", c.name, got.delimiters, c.open)
		}
		if written := slices.Sorted(maps.Values(got.written)); !slices.Equal(written, c.written) {
			t.Errorf("%s: written are %q, want %q", c.name, written, c.written)
		}
		channels := got.calls == callsChannels
		if (got.channelTokens != nil) != channels || channels && len(got.channelTokens) != len(c.tokens) {
			t.Errorf("%s: the tokens of channels are %q", c.name, got.channelTokens)
		}
		if got.calls != c.want.calls || got.marker != c.want.marker || got.turn != c.want.turn || got.thinkOpen != c.want.thinkOpen {
			t.Errorf("%s: calls %d, marker %d, turn %d, thinking %d; want %+v", c.name, got.calls, got.marker, got.turn, got.thinkOpen, c.want)
		}
		if [...]bool{got.capital, got.textArguments, got.shortIDs, got.callsApart, got.tellsTools, got.thinkBlocks, got.thinkEffort} !=
			[...]bool{c.want.capital, c.want.textArguments, c.want.shortIDs, c.want.callsApart, c.want.tellsTools, c.want.thinkBlocks,
				c.want.thinkEffort} {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// formatIn is the format of a template and a vocabulary of control tokens, whose ids are their places.
func formatIn(t *testing.T, source string, tokens []string) chatFormat {
	t.Helper()
	parsed, err := template.New(source)
	if err != nil {
		t.Fatal(err)
	}
	return chatFormatOf(formatSource{
		template: source,
		render: func(msgs []template.Message) (string, error) {
			return parsed.Render(template.Input{Messages: msgs, GenerationPrompt: true, Thinking: true})
		},
		special: func(name string) int32 { return int32(slices.Index(tokens, name)) },
		bytes:   func(int32) []byte { return nil },
	})
}
