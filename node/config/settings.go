package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// Origins says where the values of a Config came from.
type Origins struct {
	places map[string]place
	keyed  bool // the file has a key, which something else may give as well
}

// Setting is one value that is in force.
type Setting struct {
	Key, Value, Default string
	// Source is a file, an environment variable or "command line"; empty for a default. Line is
	// that of the file, 0 elsewhere.
	Source string
	Line   int
	Reload bool // a reload changes it; else it waits for the next start
}

// Changed says whether the value is another one than the default.
func (s Setting) Changed() bool { return s.Value != s.Default }

// Settings are all values of a Config in the order of the file, those of models by their ids. The
// default of a model's key is what an entry of its id starts from.
func Settings(c *Config, o Origins) (all []Setting) {
	copied := *c
	defaults := leavesOf(Default())
	for i, leaf := range leavesOf(&copied) {
		all = append(all, o.setting(leaf, defaults[i], slices.Contains(reloadable, leaf.key)))
	}
	for _, id := range slices.Sorted(maps.Keys(c.Models)) {
		m, from := c.Models[id], defaultModel(id)
		defaults := leavesUnder("models."+id+".", reflect.ValueOf(&from).Elem())
		for i, leaf := range leavesUnder("models."+id+".", reflect.ValueOf(&m).Elem()) {
			all = append(all, o.setting(leaf, defaults[i], modelReloadable(strings.TrimPrefix(leaf.key, "models."+id), m, m)))
		}
	}
	return all
}

func (o Origins) setting(value, byDefault leaf, reload bool) Setting {
	s := Setting{Key: value.key, Value: textOf(value.value), Default: textOf(byDefault.value), Reload: reload}
	if value.key == operatorsKey {
		s.Value = withoutHashes(s.Value)
	}
	at, given := o.places[value.key]
	if !given && s.Changed() { // a flag that names a new model gives it as a whole
		d := decoder{places: o.places}
		at = d.placeOf(value.key)
	}
	s.Source, s.Line = at.source, at.line
	return s
}

// withoutHashes leaves out what a token could be guessed by: operators are shown as NAME:ROLE.
func withoutHashes(operators string) string { return operatorHash.ReplaceAllString(operators, "") }

var operatorHash = regexp.MustCompile(`:[0-9a-fA-F]{64}\b`)

// Follow is where values come from after a reload that read next: all but those that wait for a
// restart, whose values are still those of before.
func (o Origins) Follow(waits []string, next Origins) Origins {
	waiting := func(key string, _ place) bool {
		return slices.ContainsFunc(waits, func(w string) bool { return key == w || strings.HasPrefix(key, w+".") })
	}
	places := maps.Clone(next.places)
	maps.DeleteFunc(places, waiting)
	for key, at := range o.places {
		if waiting(key, at) {
			places[key] = at
		}
	}
	return Origins{places, next.keyed}
}

// textOf writes a value as a file would.
func textOf(v reflect.Value) string {
	switch p := v.Interface().(type) {
	case []string:
		return "[" + strings.Join(p, ", ") + "]"
	case Size:
		return p.String()
	case Price:
		if p == priceMissing {
			return ""
		}
		return builtin.FormatUSD(abi.Nano(p) * 1_000_000)
	case time.Duration:
		return p.String()
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// String writes a size with the largest binary unit that leaves a whole number.
func (s Size) String() string {
	units := []string{"", "KiB", "MiB", "GiB", "TiB"}
	n, at := int64(s), 0
	for n != 0 && n%1024 == 0 && at+1 < len(units) {
		n, at = n/1024, at+1
	}
	return fmt.Sprintf("%d%s", n, units[at])
}
