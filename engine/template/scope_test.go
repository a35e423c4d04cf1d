package template

import (
	"fmt"
	"testing"
)

// TestScopeAgainstMaps drives nested scopes and plain maps, the oracle, over
// the size at which a scope changes how it searches.
func TestScopeAgainstMaps(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, scopeSearchMax, scopeSearchMax + 1, 3 * scopeSearchMax} {
		outer := &scope{}
		inner := outer.inside()
		outerWant, innerWant := map[string]value{}, map[string]value{}
		for i := range 2 * n { // every name twice: made, then changed
			name := fmt.Sprint("v", i%max(n, 1))
			v := i
			outer.set(name, v)
			outerWant[name] = v
			if i%3 == 0 {
				w := -i
				inner.set(name, w)
				innerWant[name] = w
			}
		}
		for i := range n + 1 { // the last one is in neither
			name := fmt.Sprint("v", i)
			if got := outer.get(name); got != outerWant[name] {
				t.Errorf("%d variables: outer %s is %v, want %v", n, name, got, outerWant[name])
			}
			want, ok := innerWant[name]
			if !ok {
				want = outerWant[name]
			}
			if got := inner.get(name); got != want {
				t.Errorf("%d variables: inner %s is %v, want %v", n, name, got, want)
			}
		}
	}
}

// TestMacroOutlivesItsRound: rounds of a loop share a scope, but not with a
// macro that was defined in one: it goes on seeing that round's variables.
func TestMacroOutlivesItsRound(t *testing.T) {
	const source = "{% set ns = namespace() %}{% for x in [1, 2, 3] %}{% if x == 2 %}{% set y = x * 10 %}{% macro m() %}{{ x }}{{ y }}{% endmacro %}{% set ns.m = m %}{% endif %}{{ ns.m() if ns.m }},{% endfor %}{{ ns.m() }}"
	tmpl, err := New(source)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // what one rendering kept, the next one must not see
		if got, err := tmpl.Render(Input{}); err != nil || got != ",220,220,220" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
