package template

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// features are small templates, one habit of chat templates each. Python says
// what they give; the variables are those of featureInput.
var features = []string{
	// whitespace
	"a\n  {% if true %}\n  b\n  {% endif %}\n c", "{#- x -#}  a  {#- y #}\n b", "  {{- 'x' -}}  y\n", "a {%- if true -%} b {%- endif +%}\n c",
	"{% raw %}{{ x }}{% endraw %}\n", "{{ 'a\\n' }}\n\n", "x\r\ny\r\n",
	// literals
	`{{ '\\' }}{{ "\'" }}{{ 'a\tb\x41\u2603\101\q' }}{{ "it's" }}`, `{{ '{{ %} }}' }}`, "{{ 1.0 }} {{ 1e5 }} {{ 1e22 }} {{ 0.00001 }} {{ 10 }} {{ -3 }}",
	"{{ [1, 'a', \"it's\", none, true, 1.5, {'k': [2]}] }}", "{{ (1, 2)[0] }}", "{{ {'a': 1}['a'] }}{{ {'a': 1}.a }}", "{{ none }}|{{ None }}|{{ nothing }}",
	"{{ true and\n  'x' }}{{\n'y'\n}}",
	// conditions
	"{{ 'a' if messages else 'b' }}{{ 'x' if false }}{{ 'a' if false else 'b' if false else 'c' }}", "{{ ('a' if true else 'b') + ('c' if false else 'd') }}",
	"{{ [('a' if false else 'b'), 'c' if true else 'd']|join('-') }}", "{% set x = 'a' if not messages else 'b' %}{{ x }}", "{% set x = 1 if false %}{{ x is defined }}",
	"{{ '' or 'x' }}{{ 'a' and '' }}{{ not '' }}{{ not 0 }}{{ 1 and 2 }}", "{% if(true)and(not(false)) %}y{% endif %}", "{{ 1 == 1.0 }}{{ 'a' != 'b' }}{{ true == 1 }}{{ none == none }}{{ [1] == [1] }}{{ {'a': 1} == {'a': 1} }}",
	"{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 in [1] in [[1]] }}{{ not 1 == 2 }}{{ 2 is not odd and 'x' }}{{ 3 is divisibleby(3) }}", "{{ 1, 2 }}{{ () }}{{ (1,) }}{{ 'a' 'b' }}", "{{ 1_000 + 0 }}{{ 1.5e2 }}{{ 2 - 1 - 1 }}{{ 8 / 2 / 2 }}{{ - 2 + 3 }}{{ -2|abs }}{{ +1 }}{{ --1 }}", "{{ not not 1 }}{{ {'a': {'b': {}}}}}{{ messages.0.role }}{{ messages [0] ['role'] }}",
	"  {%+ if true %}x{%+ endif %}\n  {%- raw -%}  {{ y }} {%- endraw +%}\n z", "{% raw %}\n a\n  {% endraw %}\nb", "{#- a -#}\n\n x {#+ b +#}\n{{- 'y' -}}\n\n{{ 'z' }}\n\n",
	"{{ 1 < 2 }}{{ 'a' < 'b' }}{{ 2 >= 3 }}", "{{ 'b' in 'abc' }}{{ 1 in [1] }}{{ 'k' in {'k': 1} }}{{ 'z' not in 'abc' }}{{ 'A' in 'abc'|upper }}",
	// arithmetic
	"{{ 7 // 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 % -3 }}{{ 7 // -2 }}{{ 1 / 2 }}{{ 2 * 3 }}{{ 'ab' * 2 }}{{ 1 + 2.5 }}{{ 5 - 7 }}", "{{ 1 + 2 ~ 'x' ~ true ~ none }}", "{{ [1] + [2] }}", "{{ 9223372036854775807 + 1 }}",
	// lookups
	"{{ messages[-1].role }}{{ messages[0]['role'] }}{{ messages[5] is defined }}", "{{ (messages|first).role }}{{ messages|last is mapping }}", "{{ messages[1:]|length }}{{ messages[::-1]|length }}{{ 'abcdef'[1:-1:2] }}{{ 'añc'[:2] }}{{ 'añc'[2:1] }}{{ 'añc'[-2:] }}{{ 'añc'[9:] }}{{ [1, 2, 3][2:1] }}{{ [1, 2, 3][-9:2] }}{{ (1, 2, 3)[1:]|list }}{{ 'añc'|first }}{{ 'añc'|last }}{{ 'abc'[::-1] }}{{ 'añb'[1] }}{{ messages[:1][0].role }}",
	"{{ messages[0].missing }}|{{ messages[0].missing is defined }}", "{{ messages[0].missing.deeper }}", "{{ missing.x }}", "{{ messages[0].get('role') }}{{ messages[0].get('z', 'd') }}", "{{ messages[0].items()|list }}", "{{ messages[0].keys()|list }}{{ tools[0].function.values()|list|length }}",
	"{{ 'a' + missing }}", "{{ 'a' + 1 }}",
	// strings
	"{{ ' x '.strip() }}{{ 'xxaxx'.strip('x') }}{{ '\\n\\na'.lstrip('\\n') }}{{ 'a,b,c'.split(',') }}{{ 'a b  c'.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}",
	"{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ (' abc '|trim).startswith('a') }}{{ 'x</think>y'.split('</think>')[-1].lstrip('\\n').split('z')[0].strip() }}",
	"{{ 'abc'.replace('b', 'x') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'Abc dEF'.title() }}{{ 'abC'.capitalize() }}{{ 'a'.upper() }}{{ 'añb'.find('b') }}{{ 'aXbX'.count('X') }}{{ 'a\\nb\\n'.splitlines() }}{{ ','.join(['a', 'b']) }}{{ 'abc'.removeprefix('a') }}{{ '12'.isdigit() }}",
	"{{ '\\n'.splitlines() }}{{ ''.splitlines() }}{{ '\\r\\n\\n'.splitlines() }}",
	"{{ 'a\\x0bb\\x0cc\\x1cd\\x1de\\x1ef\\x85g\\u2028h\\u2029'.splitlines() }}",
	"{{ 'a\\r\\nb\\x0b\\u2028c\\rd\\n\\r'|indent(1) }}", "{{ 'a\\x0c\\x85b'|indent('> ', true, true) }}{{ '\\r'|indent(first=true) }}{{ ''|indent }}",
	// filters
	"{{ ' a '|trim }}{{ 'xa'|trim('x') }}{{ [3, 1, 2]|sort }}{{ [1, 2]|last }}{{ ['a', 'b']|join(', ') }}{{ 'a'|upper|lower }}{{ 'añ'|length }}{{ missing|length }}{{ missing|default('d') }}{{ ''|default('d', true) }}{{ none|default('d') }}",
	"{{ messages|map(attribute='role')|join(',') }}{{ messages|map(attribute='content')|list|length }}", "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|rejectattr('role', 'equalto', 'user')|list|length }}",
	"{{ {'b': 1, 'a': 2}|dictsort }}{{ {'b': 1}|items|list }}{{ {'b': 1}|list }}", "{{ 'a\\nb\\n\\nc'|indent(2) }}{{ 'a\\nb'|indent(first=true) }}", "{{ '5'|int + 1 }}{{ 2.7|int }}{{ true|string }}{{ 1.0|string }}{{ [1, 2]|string }}{{ -5|abs }}", "{{ 'abc'|reverse }}{{ [1, 2]|reverse|list }}{{ 'abc'|first }}{{ 'a b'|replace(' ', '') }}", "{{ ['a', 'b', 'a']|unique|list }}", "{{ [1, 2, 3]|sum }}{{ [1, 3]|max }}", "{{ 'x<y'|e }}",
	"{% set d = {'b': 1, 'A': 3, 'a': 2, 'B': 1} %}{{ d|dictsort }}{{ d|dictsort(true) }}{{ d|dictsort(false, 'value') }}",
	"{{ {'b': 1, 'A': 3, 'a': 2}|dictsort(reverse=true) }}{{ {'b': 1, 'A': 3, 'B': 1}|dictsort(by='value', reverse=true) }}",
	"{% set d = {'x': 'b', 'y': 'A', 'z': 'B'} %}{{ d|dictsort(by='value') }}{{ d|dictsort(true, 'value') }}",
	"{{ {'a': 1}|dictsort(by='x') }}", "{{ {'a': 1, 'b': 'x'}|dictsort(by='value') }}", "{{ missing|dictsort }}",
	"{% filter upper %}abc{% endfilter %}", "{% filter trim|upper %} a {% endfilter %}",
	"{{ ['b', 'A', 'c']|sort }}{{ ['b', 'A', 'c']|sort(reverse=true) }}{{ ['b', 'A', 'a']|sort(case_sensitive=true) }}{{ messages|sort(attribute='role')|map(attribute='role')|join }}{{ [['b', 1], ['a', 2], ['B', 3]]|sort(true, attribute='0') }}",
	"{% for g in messages|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %}{% for k, v in messages|groupby('none', default='x') %}{{ k }}{{ v|length }}{% endfor %}",
	"{{ ['a', '', 'b']|select|list }}{{ [1, 2, 3]|select('odd')|list }}{{ [1, 2, 3]|reject('gt', 1)|list }}{{ messages|selectattr('content')|list|length }}{{ ['a']|map('upper')|list }}{{ ['a b']|map('replace', ' ', '-')|list }}{{ messages|map(attribute='z', default='d')|join }}",
	"{{ ['b', 'A']|min }}{{ ['b', 'A']|max }}{{ messages|max(attribute='role') is mapping }}{{ []|min is defined }}{{ [1.5, 2]|sum(start=1) }}{{ [{'a': {'b': 2}}]|sum('a.b') }}{{ ['a', 'A', 1, 1.0]|unique|list }}{{ ['a', 'A']|unique(case_sensitive=true)|list }}",
	"{{ 2.5|round }}{{ 2.675|round(2) }}{{ 2.1|round(method='ceil') }}{{ -2.1|round(0, 'floor') }}{{ 3|round }}{{ 1234.5|round(-2) }}{{ '0x1f'|int(base=16) }}{{ 'z'|int(7) }}{{ ' 12 '|int }}{{ '1e3'|int }}{{ none|int }}{{ '1.5'|float }}{{ 'z'|float(2.5) }}{{ 3|float }}{{ -1.5|abs }}{{ true|int }}",
	"{{ \"a-b (c) isn't\"|title }}{{ 'one, two'|wordcount }}{{ 'a b/ä?'|urlencode }}{{ {'a b': 'c/d'}|urlencode }}{{ '&\"'|escape }}",
	// tojson
	"{{ tools|tojson }}", "{{ tools[0]|tojson(indent=4) }}", "{{ tools[0]|tojson(indent=2, sort_keys=true) }}", "{{ 'é☃😀\\u2028<>&\\'\"\\\\\\x7f\\x00'|tojson }}", "{{ 'é😀'|tojson(ensure_ascii=true) }}", "{{ {'a': 1, 'b': [1, 2]}|tojson(separators=(',', ':')) }}", "{{ [[], {}, [{}], 1.0, true, none]|tojson(indent=2) }}", "{{ missing|tojson }}",
	// tests
	"{{ 'a' is string }}{{ 1 is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is sequence }}{{ 1 is iterable }}{{ 'a' is iterable }}{{ {} is iterable }}{{ none is none }}{{ missing is none }}{{ none is defined }}{{ true is boolean }}{{ 1 is boolean }}{{ 1 is number }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is true }}{{ 1 is true }}{{ 0 is false }}{{ false is false }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 'a' is in ['a'] }}{{ 1 is not string }}{{ namespace is callable }}",
	"{{ 'AB 1' is upper }}{{ 'aé-' is lower }}{{ 'Ab' is upper }}{{ 'Ab' is lower }}{{ '5' is upper }}{{ '' is lower }}{{ '\\n' is upper }}{{ 5 is lower }}{{ none is upper }}",
	"{{ missing is sequence }}{{ missing is iterable }}{{ none is sequence }}{{ namespace() is sequence }}",
	// loops
	"{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem.role if loop.previtem }}{{ loop.nextitem.role if loop.nextitem is defined }};{% endfor %}",
	"{% for x in [] %}a{% else %}b{% endfor %}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "{% for k in {'z': 1, 'a': 2} %}{{ k }}{% endfor %}", "{% for x in range(5) if x is odd %}{{ x }}{{ loop.index }}{% endfor %}", "{% for x in range(3) %}{% for y in range(2) %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{% endfor %}",
	"{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% set x = 1 %}{% for i in range(2) %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "{% for c in 'aé' %}{{ c }}.{% endfor %}", "{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }}{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}", "{% for x in 5 %}{% endfor %}",
	"{% for x in range(3) %}{{ y is defined }}{% set y = x %}{{ y }}{% for z in range(2) %}{{ y }}{{ w is defined }}{% set w = z %}{% set y = 'in' %}{% endfor %}{{ y }}{{ w is defined }};{% endfor %}",
	"{% for x in [1, 2] %}{% macro m(a) %}{{ x }}{{ a }}{{ loop is defined }}{% endmacro %}{{ m(x) }}{{ m(b) if false }}{% for y in [3, 4] %}{{ m(y) }}{% endfor %}{{ m(x) }};{% endfor %}{{ m is defined }}",
	"{% set ns = namespace() %}{% for x in [1, 2] %}{% if loop.first %}{% macro m(a) %}[{{ a }}]{% endmacro %}{% set ns.m = m %}{% endif %}{{ ns.m(x) }}{% endfor %}{{ ns.m(9) }}",
	"{% for a in range(20) %}{% set b = a %}{% set c = a %}{% set d = a %}{% set e = a %}{% set f = a %}{% set g = a %}{% set h = a %}{% set i = a %}{% set j = a %}{% set k = a %}{% set l = a %}{% set m = a %}{% set n = a %}{% set o = a %}{% set p = a %}{% set q = a %}{% set r = a %}{{ b + r }}{% endfor %}{{ r is defined }}",
	// sets, namespaces, macros
	"{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b is defined }}", "{% set x %}a{{ 1 }}{% endset %}[{{ x }}]", "{% if true %}{% set x = 1 %}{% endif %}{{ x }}",
	"{% macro m(a, b='d') %}{{ a }}{{ b }}{{ messages|length }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}", "{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro m(a) %}[{{ a is defined }}]{% endmacro %}{{ m() }}{{ m(1, 2) }}", "{% set f = 'x' %}{{ f() }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
	"{% macro m() %}x{% endmacro %}{% set ns = namespace() %}{{ 'a' if m else 'b' }}{{ 'a' if ns else 'b' }}{{ 'a' if range else 'b' }}{% for x in [0] %}{{ 'a' if loop else 'b' }}{% endfor %}",
	"{{ dict(a=1)|tojson }}{{ dict({'z': 1}, b=2).z }}",
	// what the lines above leave open, mostly what is wrong
	"{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m() %}x{% endmacro %}{% for i in range(300) %}{{ m() }}{% endfor %}", "{{ range('a')|list }}", "{{ range(1, 5, 0)|list }}", "{{ range()|list }}", "{{ range(5, 1, -2)|list }}",
	"{{ 'abc'[::0] }}", "{{ 'abc'['x'] is defined }}{{ 'abc'[-3] }}{{ 'abc'[-4] is defined }}{{ 'abc'[3] is defined }}{{ 'abc'[2::-1] }}{{ 'abc'[:0:-1] }}", "{{ '\\x01a\\x01'|trim|length }}{{ '\\x1ca\\x1f'.strip()|length }}",
	"{{ missing|items|list }}", "{{ messages|join(',', attribute='role') }}{{ [1, 2]|join }}", "{{ 0|default('d', true) }}{{ 'x'|default('d', true) }}{{ missing|d }}", "{{ 'abc'|replace('b') }}", "{{ 'a\\n\\nb'|indent(2, blank=true) }}", "{{ '\\na'|indent('>', first=true) }}",
	"{{ strftime_now('%q %-q %') }}", "{{ '{:*>05}|{:s}|{:X}|{:o}|{:b}|{:e>3}|{:+.1f}|{:+}|{: d}'.format(3, 'a', 255, 8, 5, 'x', 1.25, 2, 3) }}", "{{ '{:+}'.format('a') }}", "{{ '{:.2d}'.format(1) }}", "{{ '{!x}'.format(1) }}", "{{ '{:=3}'.format('a') }}", "{{ '{:,}'.format('a') }}", "{{ '{:q}'.format(1) }}", "{{ '{:d}'.format(1.5) }}",
	"a {% if true %} b {% endif %} c\n {# x #} d\n", "{{ 'a\\x41' }}{{ '\\7' == '\\x07' }}{{ 'a\\u2603' }}", "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
	"{{ {'a': 1}.items(1) }}", "{{ {'a': 1}.nope() }}", "{{ {'a': 1, 'b': [2]}.values()|list }}{{ {'a': 1, 'b': 2} }}", "{{ 'abc'.find() }}", "{{ 'abc'.find(1) }}", "{{ 'abc'.startswith(1) }}", "{{ 'abc'.startswith() }}", "{{ 'abc'.find('a') }}{{ 'abc'.find('z') }}{{ 'abc'.rfind('c') }}",
	"{{ 'inf'|int }}{{ 'nan'|int(3) }}{{ '1e400'|int }}{{ '1e400'|float }}{{ '-5'|int }}", "{{ 1 + 'a' }}", "{{ 2 * 'ab' }}{{ 'ab' * -1 }}{{ '' * 3 }}", "{{ 'ab' * 'c' }}", "{{ 2.5 - 1 }}{{ 2 * 1.5 }}{{ 1.5 * 2 }}{{ 3 - 0.5 }}{{ 1.5 / 2 }}{{ 3 / 1.5 }}", "{{ 'a' / 2 }}", strings.Repeat("{{ not -(1) }}{% if true %}{% for x in [] %}{% endfor %}{% endif %}", nestingMax+1), "{{ 1 + 2 + 3 - 4 + 'ab'|length }}{{ 'a' + 'b' + 'c' }}{{ 2 * 3 * 4 }}{{ 1 ~ 2 ~ 3 }}{{ '\\1234\\08' }}",
	"{% for k, v in [{'a': 1, 'b': 0}, {'b': 1}]|groupby('a', default=2) %}{{ k }}{{ v|length }}{% endfor %}", "{% for x in [1, 0] if x %}{% endfor %}{{ x is defined }}{% set y = 7 %}{% for y in [1] if y %}{{ y }}{% endfor %}{{ y }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 'a' + [1] }}", "{{ ['a', 1]|sum }}", "{{ 1 - 'a' }}", "{{ -'a' }}",
	"{{ range|tojson }}", "{{ [1, [2]]|tojson(indent=-1) }}{{ [1]|tojson(indent='>') }}", "{{ [1]|tojson(separators=(',',)) }}", "{{ [1]|tojson(separators=5) }}",
	"{{ ['a\\\\b', \"it's\", 'it\\'s \"x\"', '\\n\\r\\t\\x01\\x7f\\u00ad\\u0378\\u2028é😀'] }}", "{{ not 0.0 }}{{ not 0.5 }}{{ not () }}{{ not (1,) }}{{ not {} }}{{ not {'a': 1} }}{{ not [] }}",
	"{{ {'a': 1} == {'a': 1, 'b': 2} }}{{ {'a': 1} == {'b': 1} }}{{ {'a': 1} == {'a': 2} }}{{ {'a': 1} == [1] }}{{ [1] == 5 }}{{ [1, 2] == [1] }}{{ [1, 2] == [1, 3] }}{{ 1 == 'a' }}{{ 'a' == none }}{{ 5 == {'a': 1} }}{{ (1, 2) == (1, 2) }}", "{{ 1.5 < 2 }}{{ 2 < 1.5 }}{{ [2, 1.5, 3]|sort }}{{ 'a' < 'b' }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ [1, 'a']|sort }}",
	// time, formats, JSON texts, ids
	"{{ strftime_now('%d %b %Y, %A %B %-d %e %y %m %H:%M:%S %I %p %j %a %w %u %Z %z %F %T %D %R %% %f %h %n|%t|%s') }}", "{{ strftime_now() }}", "{{ strftime_now(3) }}", "{{ strftime_now('%') }}{{ strftime_now('%-m/%-d %-H %-I %-M %-j %-y') }}{{ strftime_now is defined }}",
	"{{ '{} and {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('x', none) }}{{ '{a} {b}'.format(a=1.5, b=true) }}{{ '{{}}{}'.format(1) }}{{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }}{{ '{:05d} {:,} {:+d} {:x} {:.2f} {:8.3f} {:.3} {:5}|{:5}'.format(42, 1234567, 3, 255, 2.345, 1.5, 'abcdef', 7, 'z') }}{{ '{:d}'.format(true) }}{{ '{!s}{!r:>5}'.format(1, 'a') }}",
	"{{ '{}'.format() }}", "{{ '{a}'.format(1) }}", "{{ '{-1}'.format(1) }}", "{{ '{1}'.format(1) }}", "{{ '{0} {}'.format(1, 2) }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{} {0}'.format(1) }}", "{{ '{:d}'.format('a') }}", "{{ '{} {}'.format([1, 'a'], {'k': none}) }}", "{{ '{:.1f} {:.0f} {:,.2f} {:%}'.format(0.25, 2.5, 12345.678, 0.5) }}", "{{ '{:05}|{:<05}|{:-6}|{: }'.format(-3, 3, 4, 5) }}",
	"{{ ('{\"a\": [1, 2.5, null]}'|from_json).a }}{{ '3'|from_json + 1 }}{% for k, v in ('{\"z\":1,\"b\":2}'|from_json).items() %}{{ k }}{{ v }}{% endfor %}", "{{ '{'|from_json }}", "{{ ''|from_json }}",
	"{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].id }}{{ m.tool_calls[0]|tojson }}{{ m.tool_calls[1].id is defined }}{% endif %}{{ m.tool_call_id }}{{ m.tool_call_id is defined }}{% endfor %}",
	"{{ raise_exception('no: ' ~ messages|length) }}", "{% if enable_thinking is not false %}on{% endif %}{{ enable_thinking is true }}{{ add_generation_prompt }}", "{{ documents is none }}{{ bos_token is defined }}",
}

// refused are templates that Jinja takes, or that break, and that New must not take.
var refused = []string{
	"{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% block a %}{% endblock %}", "{% do x %}", "{% call m() %}{% endcall %}",
	"{{ x|nope }}", "{{ x is nope }}", "{{", "{% if x %}", "{{ (a }}", "{{ a) }}", "{{ 'a }}", "{% for %}{% endfor %}", "{% endif %}", "{{ }}", "{# x", "{{ [1 }}", "{% set 1 = 2 %}", "{% set x | upper %}a{% endset %}", "{% raw %}x", "\xff", "{{ 1 2 }}", "{{ 'abc'[1 2] }}", "{{ 'abc'[] }}", "{% for a in %}{% endfor %}", "{% if %}{% endif %}",
}

func featureInput() Input {
	return Input{
		Messages: []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "q"}, {Role: "assistant", Content: "a", ToolCalls: []ToolCall{{ID: "call_1", Name: "f"}, {Name: "g"}}},
			{Role: "tool", Content: "t", ToolCallID: "call_1"}, {Role: "tool", Content: "t"}},
		Tools:            []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"f","z":[1.0,1e5,-0,123456789012345678901234567890,1E-7,"é<\u00e9\ud83d\ude00>"],"a":{},"dup":1,"dup":2,"n":null,"parameters":{"properties":{"items":1}}}}`)},
		GenerationPrompt: true, Thinking: true, Now: time.Date(2024, 2, 29, 7, 4, 9, 56789000, time.UTC),
	}
}

func TestFeatures(t *testing.T) {
	in := featureInput()
	var cases []oracleCase
	for _, f := range features {
		cases = append(cases, oracleCase{f, in.vars()})
	}
	for i, want := range oracle(t, cases) {
		tmpl, err := New(features[i])
		var got string
		if err == nil {
			got, err = tmpl.Render(in)
		}
		if (want.Out == nil) != (err != nil) || want.Out != nil && got != *want.Out {
			expected := "error " + want.Error
			if want.Out != nil {
				expected = *want.Out
			}
			t.Errorf("%s\n got %q, %v\nwant %q", features[i], got, err, expected)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, source := range refused {
		if _, err := New(source); err == nil {
			t.Errorf("%q: want an error", source)
		}
	}
}
