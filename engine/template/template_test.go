package template

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"corenode/engine/modelfile/gguftest"
)

var update = flag.Bool("update", false, "rewrite the golden file; read the diff before you commit it")

// TestBuiltin pins the prompts of our own template. TestOracle proves the
// same conversations against Python where there is one.
func TestBuiltin(t *testing.T) {
	tmpl, err := New(Builtin)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	all := conversations()
	if len(all) == 0 {
		t.Fatal("no conversations")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, thinking := range []bool{true, false} {
			in := all[name]
			in.GenerationPrompt, in.Thinking = true, thinking
			prompt, err := tmpl.Render(in)
			if err != nil {
				prompt = "error: " + err.Error()
			} else if EndsWith(prompt, "<think>") != thinking {
				t.Errorf("%s: whether it starts with thinking is %v", name, !thinking)
			}
			fmt.Fprintf(&b, "======== %s, thinking %v\n%s\n", name, thinking, prompt)
		}
	}
	const path = "testdata/builtin.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != b.String() {
		t.Errorf("prompts differ from %s (err %v); run with -update and read the diff\n%s", path, err, b.String())
	}
}

func TestEndsWith(t *testing.T) {
	for prompt, want := range map[string]bool{
		"<|im_start|>assistant\n<think>\n":               true,
		"<|im_start|>assistant\n<think>":                 true,
		"<|im_start|>assistant\n<think>\n\n</think>\n\n": false,
		"<|im_start|>assistant\n<think>\n</think>":       false,
		"<|im_start|>assistant\n":                        false,
		"":                                               false,
	} {
		if got := EndsWith(prompt, "<think>"); got != want {
			t.Errorf("%q: %v", prompt, got)
		}
	}
}

func TestRaised(t *testing.T) {
	tmpl, err := New("{% macro m() %}{{ raise_exception('not ' + 'so') }}{% endmacro %}{% if true %}{{ m()|trim }}{% endif %}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmpl.Render(Input{})
	if raised, ok := errors.AsType[*Raised](err); !ok || raised.Message != "not so" {
		t.Errorf("got %v", err)
	}
}

// TestLimits wants small templates that would take all time or memory to be stopped.
func TestLimits(t *testing.T) {
	for name, source := range map[string]string{
		"loops":        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
		"range":        "{{ range(1000000000)|list }}",
		"doubling":     "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"tilde":        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"lists":        "{% set ns = namespace(x=[1, 2, 3]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"repeat":       "{{ 'abc' * 1000000000 }}",
		"numbers":      "{% set ns = namespace(x=10) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
		"recursion":    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"two macros":   "{% macro a(n) %}{{ b(n) }}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{{ a(n) }}{% endmacro %}{{ a(1) }}",
		"replace":      "{% set x = 'a' * 100000 %}{{ x.replace('', x) }}",
		"output":       "{% set x = 'a' * 1000000 %}{% for i in range(9999) %}{{ x }}{% endfor %}",
		"join":         "{% set x = 'a' * 1000000 %}{{ range(9999)|join(x) }}",
		"nested tilde": "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x ~ '' }}",
		"copies":       "{% set x = 'a' * 60000000 %}{% for i in range(9999) %}{% set y = x|upper %}{% endfor %}",
		"map":          "{% set ns = namespace(x=['a' * 1000000]) %}{% for i in range(14) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|map('upper')|list|length }}",
		"long":         "{% for i in range(99999) %}{% for j in range(9) %}{% set x = 1" + strings.Repeat(" + 1", 500) + " %}{% endfor %}{% endfor %}",
		"parts":        "{{ ('a,' * 1100000).split(',')|length }}",
		"words":        "{{ ('a ' * 1100000).split()|length }}",
		"lines":        "{{ ('a\\n' * 1100000).splitlines()|length }}",
		"characters":   "{{ ('a' * 1100000)|list|length }}",
		"nested json":  "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out, err := tmpl.Render(Input{}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: got %d bytes, error %v", name, len(out), err)
		}
	}
}

// deepValue makes two values that are nested deeper than may be printed or compared, in each of the ways to nest one.
const deepValue = "{% set ns = namespace(x=1, y=1) %}{% for i in range(400) %}{% set ns.x = [(1, {'a': ns.x})] %}" +
	"{% set ns.y = [(1, {'a': ns.y})] %}{% endfor %}"

// TestDeepValues wants values that would overflow the stack, which ends the process, to be refused where they are printed or compared.
func TestDeepValues(t *testing.T) {
	for name, source := range map[string]string{
		"text":    deepValue + "{{ ns.x }}",
		"tilde":   deepValue + "{{ 'a' ~ ns.x }}",
		"string":  deepValue + "{{ ns.x|string|length }}",
		"join":    deepValue + "{{ [ns.x]|join }}",
		"format":  deepValue + "{{ '{}'.format(ns.x) }}",
		"json":    deepValue + "{{ ns.x|tojson }}",
		"indent":  deepValue + "{{ ns.x|tojson(indent=1, sort_keys=true) }}",
		"equals":  deepValue + "{{ ns.x == ns.y }}",
		"in":      deepValue + "{{ ns.x in [1, ns.y] }}",
		"unique":  deepValue + "{{ [ns.x, ns.y]|unique|list|length }}",
		"changed": deepValue + "{% for i in range(2) %}{{ loop.changed(ns.x if i else ns.y) }}{% endfor %}",
		"key":     deepValue + "{{ {ns.x: 1} }}",
		"group": "{% set ns = namespace(x=1) %}{% for i in range(2000) %}" +
			"{% set ns.x = [{'a': 1, 'b': ns.x}]|groupby('a') %}{% endfor %}{{ ns.x }}",
		"very deep": "{% set ns = namespace(x=1) %}{% for i in range(99999) %}{% set ns.x = [[[ns.x]]] %}{% endfor %}{{ ns.x }}",
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out, err := tmpl.Render(Input{}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: got %d bytes, error %v", name, len(out), err)
		}
	}
	tmpl, err := New(strings.ReplaceAll(deepValue, "range(400)", "range(300)") + "{{ ns.x }}{{ ns.x|tojson }}{{ ns.x == ns.y }}")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tmpl.Render(Input{}); err != nil || !strings.HasSuffix(out, "True") {
		t.Errorf("a value of 900 in each other: %d bytes, %v", len(out), err)
	}
}

// TestWideObjects: looking up every member of an object, there or in a list of names
// such as a schema's required ones, is work that grows with its square.
func TestWideObjects(t *testing.T) {
	for _, source := range []string{
		"{% for k in tools[0] %}{% if tools[0][k] %}{% endif %}{% endfor %}",
		"{% for k in tools[0] %}{% if tools[0].get(k) %}{% endif %}{% endfor %}",
		"{% for k in tools[0] %}{% if k in tools[0] %}{% endif %}{% endfor %}",
		"{% set names = tools[0]|list %}{% for k in names %}{% if k in names %}{% endif %}{% endfor %}",
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Fatal(err)
		}
		for members, want := range map[int]error{1000: nil, 20_000: ErrLimit} {
			tool := []byte(`{"a":1`)
			for i := range members {
				tool = fmt.Appendf(tool, `,"%d":1`, i)
			}
			if _, err := tmpl.Render(Input{Tools: []json.RawMessage{append(tool, '}')}}); !errors.Is(err, want) {
				t.Errorf("%s with %d members: %v", source, members, err)
			}
		}
	}
}

// TestWorkIsCounted: what a comparison, a test, a key or a path looks at is counted, however little of the template says so.
func TestWorkIsCounted(t *testing.T) {
	const twice = "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(17) %}" +
		"{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
	const letters = "{% set a = 'a' * 1000000 %}{% set b = 'a' * 1000000 %}"
	var tool strings.Builder
	tool.WriteString(`{"a":1`)
	for i := range 20_000 {
		fmt.Fprintf(&tool, `,"k%d":1`, i)
	}
	tool.WriteString("}")
	for source, least := range map[string]int{
		twice + "{{ ns.x == ns.y }}":                                                         4000,
		twice + "{{ ns.x is eq(ns.y) }}":                                                     4000,
		twice + "{{ ns.x in [ns.y] }}":                                                       4000,
		twice + "{{ [ns.x, ns.y]|unique|list|length }}":                                      4000,
		twice + "{{ [ns.y]|select('in', [ns.x])|list|length }}":                              4000,
		twice + "{% for i in range(2) %}{{ loop.changed(ns.x if i else ns.y) }}{% endfor %}": 4000,
		letters + "{{ [a] == [b] }}":                                                         2 * 3900,
		letters + "{{ a is lower }}":                                                         3 * 3900,
		"{{ tools[0] == tools[1] }}":                                                         900,
		"{% for i in range(20) %}{% if tools[0].k19999 %}{% endif %}{% endfor %}":            20 * 300,
		"{{ [tools[0], tools[0]]|map(attribute='a')|list|length }}":                          600,
		"{{ [tools[0], tools[0], tools[0]]|sum('a') }}":                                      900,
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		r := newRun()
		tools := []json.RawMessage{[]byte(tool.String()), []byte(tool.String())}
		if _, err := tmpl.render(r, Input{Tools: tools}); err != nil || r.steps < least {
			t.Errorf("%s: %d steps, want %d; %v", source, r.steps, least, err)
		}
	}
}

// TestGathering: members are found by a map where they are many, and are those that looking at each would give.
func TestGathering(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var g gathering
		var plain object
		for i := range n {
			key := fmt.Sprint(r.IntN(1 + n))
			g.set(key, i)
			if at := slices.IndexFunc(plain, func(m member) bool { return m.key == key }); at >= 0 {
				plain[at].val = i
			} else {
				plain = append(plain, member{key, i})
			}
		}
		if !slices.Equal(g.object, plain) || len(plain) > objectSearchMax && len(g.at) != len(plain) {
			t.Fatalf("%v of %d members with %d positions, want %v", g.object, len(g.object), len(g.at), plain)
		}
	}
	both := "{% set d = {" + strings.Repeat("'a': 1, 'b': 2, ", 20)
	for i := range 40 {
		both += fmt.Sprintf("'k%d': %d, ", i, i)
	}
	tmpl, err := New(both + "'a': 3, 'k39': 4} %}{{ d|length }} {{ d.a }} {{ d.k39 }} {{ d == dict(d) }} {{ dict(d, k39=5) == d }}")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := tmpl.Render(Input{}); out != "42 3 4 True False" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestSumsGrowInPlace: what is added up is not copied for each part.
func TestSumsGrowInPlace(t *testing.T) {
	for source, want := range map[string]string{
		"{{ (('b' * 100000)|list|sum(start=''))|length }}":        "100000",
		"{{ ([range(1000)|list, (1, 2)]|sum(start=[]))|length }}": "1002",
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := tmpl.Render(Input{})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; out != want || took > 100<<20 {
			t.Errorf("%s: %s, %v, %d bytes", source, out, err, took)
		}
	}
}

// TestLongStrings: a template that looks at a part of a text takes memory for its
// characters, not for a value of each.
func TestLongStrings(t *testing.T) {
	in := Input{Messages: []Message{{Role: "user", Content: strings.Repeat("añ\n", 1<<18)}}}
	for _, source := range []string{"{{ messages[0].content[:5] }}", "{{ messages[0].content[-1] }}", "{{ messages[0].content|first }}", "{{ messages[0].content|last }}"} {
		tmpl, err := New(source)
		if err != nil {
			t.Fatal(err)
		}
		if allocations := testing.AllocsPerRun(1, func() {
			if out, err := tmpl.Render(in); out == "" || err != nil {
				t.Error(out, err)
			}
		}); allocations > 1000 {
			t.Errorf("%s: %.0f allocations", source, allocations)
		}
	}
}

// TestNesting wants sources that would exhaust the stack to be refused.
func TestNesting(t *testing.T) {
	const n = 100_000
	for _, source := range []string{
		"{{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " }}",
		"{{ " + strings.Repeat("[", n),
		strings.Repeat("{% if true %}", n/10) + strings.Repeat("{% endif %}", n/10),
		"{{ " + strings.Repeat("1 if 1 else ", n/10) + "1 }}",
		strings.Repeat(" ", sourceMax+1),
	} {
		if _, err := New(source); err == nil {
			t.Errorf("%.20q...: want an error", source)
		}
	}
}

func TestBadInput(t *testing.T) {
	tmpl, err := New(Builtin)
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat(`{"a":`, 2*jsonDepthMax) + "1" + strings.Repeat("}", 2*jsonDepthMax)
	for _, raw := range []string{"{", "[]", "1", `{"a":1}{}`, deep, `{"a" 1}`} {
		if _, err := tmpl.Render(Input{Tools: []json.RawMessage{json.RawMessage(raw)}}); err == nil {
			t.Errorf("tool %.30q: want an error", raw)
		}
		in := Input{Messages: []Message{{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: []byte(raw)}}}}}
		if _, err := tmpl.Render(in); err == nil {
			t.Errorf("arguments %.30q: want an error", raw)
		}
	}
}

// TestErrorsSayWhere: what is wrong with a template is said with its line, and what fails in it with its name.
func TestErrorsSayWhere(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ 1 2 }}": "line 2: ", "{% if x %}\n\n{{ (1 }}": "line 3: ", "\n{% nope %}": "line 2: ", "\n\n{{ 'a'|nope }}": "line 3: ",
		"{{ [1]|abs }}": "filter abs: ", "{{ 1 is divisibleby('a') }}": "test divisibleby: ", "{{ 'a'.find() }}": "method find: ",
	} {
		tmpl, err := New(source)
		if err == nil {
			_, err = tmpl.Render(Input{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", source, err, want)
		}
	}
}

// TestErrorsQuoteNoMessages: an error that is not a template's own words becomes part of a log line, which has no texts of
// clients. A key that the template names is said.
func TestErrorsQuoteNoMessages(t *testing.T) {
	in := Input{Messages: []Message{{Role: "user", Content: "secret"}}}
	for source, want := range map[string]string{
		"{{ nothing[messages[0].content] }}": "undefined has no such element", "{{ nothing['a'] }}": "undefined has no element 'a'",
		"{{ messages[0].content|map(messages[0].content)|list }}":    "not known",
		"{{ messages[0].content|select(messages[0].content)|list }}": "not known",
	} {
		tmpl, err := New(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tmpl.Render(in); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// TestConcurrent is for the race detector: one template, many renderings.
func TestConcurrent(t *testing.T) {
	tmpl, err := New(Builtin)
	if err != nil {
		t.Fatal(err)
	}
	in := conversations()["after the loop"]
	want, err := tmpl.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := tmpl.Render(in); err != nil || got != want {
					t.Errorf("got %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzNew wants no panic from any template, no endless rendering, and memory that its bounds
// explain: reading takes a multiple of the source, rendering one of the steps.
func FuzzNew(f *testing.F) {
	f.Add(Builtin)
	for _, source := range append(slices.Clone(features), refused...) {
		f.Add(source)
	}
	in := featureInput()
	f.Fuzz(func(t *testing.T, source string) {
		var tmpl *Template
		var err error
		if n := gguftest.Allocated(func() { tmpl, err = New(source) }); n > 1<<16+1<<10*len(source) {
			t.Fatalf("%d bytes to read %d", n, len(source))
		}
		if err != nil {
			return
		}
		r := newRun()
		n := gguftest.Allocated(func() { _, err = tmpl.render(r, in) })
		if most := 1<<20 + (r.steps+outputMax/bytesPerStep)*16*bytesPerStep; n > most || r.steps > 2*stepsMax {
			t.Fatalf("%d bytes and %d steps, want at most %d bytes", n, r.steps, most)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "chat template: ") {
			t.Errorf("error %q", err)
		}
	})
}
