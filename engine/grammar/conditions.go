package grammar

import "slices"

// What is not enforced forbids nothing: members that only a pattern of names or a condition names may be written.

// condition lets members be written of which an unenforced keyword of a schema says what they are on a condition.
func (c *compiler) condition(s *schema, v *value, keyword string, m *value, within []*value) {
	switch keyword {
	case "patternProperties":
		if v.matches() {
			c.matching(s, v, m)
		}
	case "then", "else":
		c.mention(s, m, within, map[*value]bool{})
	case "dependentSchemas", "dependencies", "dependentRequired":
		for _, part := range m.values {
			c.mention(s, part, within, map[*value]bool{})
		}
	}
}

// matching is what a schema says of its other members by patterns of their names, which are not enforced. The schema of one pattern
// holds for all of them where no others may be.
func (c *compiler) matching(s *schema, v, patterns *value) {
	o := others{named: namedBy(v), schema: free}
	switch {
	case len(patterns.values) > 1:
	case closes(v.member("additionalProperties")):
		o.schema = patterns.values[0]
	case closes(v.member("unevaluatedProperties")): // others are those that no part of it names
		o = others{within: v, schema: patterns.values[0]}
	}
	s.others = append(s.others, o)
}

func closes(others *value) bool { return others != nil && others.kind == 'f' }

// matches says whether a schema has patterns of names.
func (v *value) matches() bool {
	patterns := v.member("patternProperties")
	return patterns != nil && len(patterns.values) > 0
}

// namedBy are the properties of a schema.
func namedBy(v *value) *value {
	if named := v.member("properties"); named != nil {
		return named
	}
	return nothingNamed
}

// nothingNamed are the properties of a schema without any.
var nothingNamed = &value{kind: '{'}

// mention notes the members that are named by a schema which holds on a condition. What they are is not enforced. A schema
// is looked at once.
func (c *compiler) mention(s *schema, v *value, within []*value, seen map[*value]bool) {
	if v == nil || seen[v] || c.err != nil {
		return
	}
	seen[v] = true
	c.spend(1 + len(v.names) + len(v.values))
	names := v.list() // of dependencies
	for i, keyword := range v.names {
		m := v.values[i]
		switch keyword {
		case "properties":
			for _, name := range m.names {
				names = append(names, &value{kind: '"', text: name})
			}
		case "required":
			names = append(names, m.list()...)
		case "$ref":
			c.mention(s, c.lookup(m), within, seen)
		case "then", "else":
			c.mention(s, m, within, seen)
		case "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "dependentRequired":
			for _, part := range m.values {
				c.mention(s, part, within, seen)
			}
		}
	}
	if c.spend(len(names) + len(s.mentioned)); len(names) == 0 {
		return
	}
	s.mentioned = slices.Clone(s.mentioned) // alternatives share it
	for _, name := range names {
		if name.kind == '"' {
			s.mentioned = append(s.mentioned, property{name: name.text, within: within})
		}
	}
}
