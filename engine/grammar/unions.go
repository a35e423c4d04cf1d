package grammar

import "slices"

// gathered are the alternatives of a union, of which those that only list values are one: unions of hundreds of literals are
// what some programs make of an enum.
func (c *compiler) gathered(all []*value) []*value {
	var rest []*value
	list := &value{kind: '['}
	n := 0
	for _, v := range all {
		if c.spend(1 + len(v.names)); c.err != nil {
			return all
		}
		values, of, only := v.literals()
		if !only {
			rest = append(rest, v)
			continue
		}
		n++
		for _, one := range values {
			if c.spend(1 + one.size/stepWork); of&typeOf(one) != 0 {
				list.values = append(list.values, one)
			}
		}
	}
	if n < 2 {
		return all
	}
	return append(rest, &value{kind: '{', names: []string{"enum"}, values: []*value{list}})
}

// literals are the values that a schema lists, and the types that they have to be of; only says that it says nothing else.
func (v *value) literals() (values []*value, of types, only bool) {
	of = typeAll
	for i, keyword := range v.names {
		m := v.values[i]
		switch {
		case (keyword == "const" || keyword == "enum") && !only:
			values, only = []*value{m}, true
			if keyword == "enum" {
				values = m.list()
			}
		case keyword == "type" && typeNames[m.text] != 0:
			of = typeNames[m.text]
		case !slices.Contains([]string{"title", "description"}, keyword):
			return nil, 0, false
		}
	}
	return values, of, only
}
