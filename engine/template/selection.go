package template

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// selections are the filters that take another filter or a test by its name.
var selections = map[string]filterFunc{
	"map":        mapEach,
	"select":     selected(true, false),
	"reject":     selected(false, false),
	"selectattr": selected(true, true),
	"rejectattr": selected(false, true),
}

// each returns the elements of what a filter goes through.
func each(in value) list {
	all, ok := sequence(in)
	if !ok {
		panic(fmt.Errorf("%s is not iterable", typeName(in)))
	}
	return all
}

// path looks up an attribute that may be nested: a.b.0.
func path(r *run, v value, attribute value) value {
	if attribute == nil || isNone(attribute) {
		return v
	}
	if !isString(attribute) {
		r.weigh(v)
		return item(v, attribute)
	}
	for part := range strings.SplitSeq(attribute.(string), ".") {
		var key value = part
		if i, err := strconv.Atoi(part); err == nil {
			key = i
		}
		r.weigh(v)
		v = item(v, key)
	}
	return v
}

// mapEach is map('filter', args...) and map(attribute='name', default=...).
func mapEach(in value, args arguments) value {
	all, apply := each(in), mapping(args)
	out := make(list, len(all))
	for i, v := range all {
		out[i] = args.run.weigh(apply(args.run.weigh(v)))
	}
	return out
}

// mapping is what map does with each element.
func mapping(args arguments) func(value) value {
	if len(args.positional) == 0 {
		attribute, fallback := args.byName("attribute"), args.byName("default")
		if attribute == nil {
			panic(errors.New("takes a filter or an attribute"))
		}
		return func(v value) value {
			if v = path(args.run, v, attribute); fallback != nil && isUndefined(v) {
				return fallback
			}
			return v
		}
	}
	apply, ok := filters[text(args.positional[0])]
	if !ok {
		panic(errors.New("a filter's name is not known"))
	}
	args.positional = args.positional[1:]
	return func(v value) value { return apply(v, args) }
}

// selected makes select, reject and their forms that test an attribute.
func selected(keep, byAttribute bool) filterFunc {
	return func(in value, args arguments) value {
		all := each(in)
		rest := args.positional
		var attribute value
		if byAttribute {
			if len(rest) == 0 {
				panic(errors.New("takes an attribute"))
			}
			attribute, rest = rest[0], rest[1:]
		}
		passes := plain(isTrue)
		if len(rest) > 0 {
			var ok bool
			if passes, ok = tests[text(rest[0])]; !ok {
				panic(errors.New("a test's name is not known"))
			}
			rest = rest[1:]
		}
		out := list{}
		for _, v := range all {
			if passes(args.run, path(args.run, v, attribute), rest) == keep {
				out = append(out, v)
			}
		}
		return out
	}
}

// sortKeys are what elements are ordered by: an attribute of each, without
// regard to case where they are strings unless that is asked for.
func sortKeys(r *run, all list, attribute value, caseSensitive bool) []keyed {
	out := make([]keyed, len(all))
	for i, v := range all {
		at := path(r, v, attribute)
		out[i] = keyed{at, at, v}
		if s, ok := at.(string); ok && !caseSensitive {
			out[i].key = strings.ToLower(s)
		}
	}
	return out
}

// keyed is an element with what it is ordered by, and that as it was.
type keyed struct{ key, plain, element value }

// sortKeyed sorts by key, upwards (1) or downwards (-1), and keeps the order of equal ones, as Python does either way.
func sortKeyed(all []keyed, sign int) {
	slices.SortStableFunc(all, func(a, b keyed) int { return sign * compare(a.key, b.key) })
}

func sorted(in value, args arguments) value {
	return ordered(args.run, each(in), args.get(2, "attribute"), args.flag(1, "case_sensitive"), args.flag(0, "reverse"))
}

// dictSort is the pairs of a mapping by their keys, or by their values.
func dictSort(in value, args arguments) value {
	if !isMapping(in) {
		panic(fmt.Errorf("%s is not a mapping", typeName(in)))
	}
	by := 0
	switch v := args.get(1, "by"); v {
	case nil, "key":
	case "value":
		by = 1
	default:
		panic(errors.New("by must be key or value"))
	}
	return ordered(args.run, each(items(in, arguments{})), by, args.flag(0, "case_sensitive"), args.flag(2, "reverse"))
}

// ordered sorts by an attribute.
func ordered(r *run, all list, attribute value, caseSensitive, reverse bool) list {
	keys, sign := sortKeys(r, all, attribute, caseSensitive), 1
	if reverse {
		sign = -1
	}
	sortKeyed(keys, sign)
	return elementsOf(keys)
}

func elementsOf(keys []keyed) list {
	out := make(list, len(keys))
	for i := range keys {
		out[i] = keys[i].element
	}
	return out
}

// extreme is min (-1) or max (1): the first one of the least or greatest.
func extreme(sign int) filterFunc {
	return func(in value, args arguments) value {
		keys := sortKeys(args.run, each(in), args.get(1, "attribute"), args.flag(0, "case_sensitive"))
		if len(keys) == 0 {
			return undefined{}
		}
		best := 0
		for i := range keys {
			if compare(keys[i].key, keys[best].key)*sign > 0 {
				best = i
			}
		}
		return keys[best].element
	}
}

func total(in value, args arguments) value {
	all := each(in)
	parts := []value{args.or(1, "start", 0)}
	for _, v := range all {
		parts = append(parts, path(args.run, v, args.get(0, "attribute")))
	}
	return sum(parts)
}

// unique keeps the first of equal elements.
func unique(in value, args arguments) value {
	keys := sortKeys(args.run, each(in), args.get(1, "attribute"), args.flag(0, "case_sensitive"))
	budget := comparisonMax
	var kept []keyed
	for _, k := range keys {
		if !slices.ContainsFunc(kept, func(other keyed) bool { return equalWithin(other.key, k.key, &budget, 0) }) {
			kept = append(kept, k)
		}
	}
	args.run.compared(budget)
	return elementsOf(kept)
}

// groupBy sorts by an attribute and gives one group for each of its values.
func groupBy(in value, args arguments) value {
	keys := sortKeys(args.run, each(in), args.get(0, "attribute"), args.flag(2, "case_sensitive"))
	if fallback := args.get(1, "default"); fallback != nil {
		for i := range keys {
			if isUndefined(keys[i].key) {
				keys[i].key, keys[i].plain = fallback, fallback
			}
		}
	}
	sortKeyed(keys, 1)
	groups := list{}
	for start := 0; start < len(keys); {
		end := start + 1
		for end < len(keys) && equal(args.run, keys[start].key, keys[end].key) {
			end++
		}
		groups = append(groups, group{keys[start].plain, elementsOf(keys[start:end])})
		start = end
	}
	return groups
}
