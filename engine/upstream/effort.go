package upstream

import (
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema that looks at each value twice, through a reference to one that does so, and so on thirty times, looks a
// thousand million times; and the validator cannot be stopped. So its work is counted before it begins, by what remembers
// each end of a reference at each value: it is counted once, not as often as it is looked at. Any other schema is looked at
// with the one that it stands in. A step is some ten nanoseconds, and lookSteps are those of one schema at one value.
const (
	effortMax   = 1 << 24 // steps of all calls of a request
	valuesMax   = 1 << 19 // values of a call, and names of members
	nestedMax   = 1024    // looks within looks
	lookSteps   = 16
	formatSteps = 4096 // per byte of a regular expression that is a value
)

// sized is a value of a call.
type sized struct {
	kind  string   // as schemas call it; number of integers, too
	text  string   // of a string
	names []*sized // of an object: what its parts are called
	parts []*sized // members or items
	size  int      // steps of a comparison of all of it
}

// effort counts the steps of one call.
type effort struct {
	outline *outline // of its schema
	left    int      // steps that may be made
	values  int
	took    int            // steps of the count itself: each is one of what is counted, so they are no more
	looked  map[look]looks // of ends of references that look further
}

type look struct {
	schema *jsonschema.Schema
	value  *sized
}

// looks are a look with those within it; height is how far they nest, 0 while they are being counted.
type looks struct{ steps, height int }

// sized makes a call's value one with sizes. It is not ok with too many values, or a number that is too long or too large.
func (e *effort) sized(value any) (v *sized, ok bool) {
	if e.values++; e.values > valuesMax {
		return nil, false
	}
	v, ok = &sized{size: 1}, true
	add := func(part any) {
		if ok {
			var p *sized
			if p, ok = e.sized(part); ok {
				v.parts, v.size = append(v.parts, p), v.size+p.size
			}
		}
	}
	switch value := value.(type) {
	case nil:
		v.kind = "null"
	case bool:
		v.kind = "boolean"
	case string:
		v.kind, v.text, v.size = "string", value, 1+len(value)/16
	case json.Number:
		v.kind = "number"
		v.size, ok = numberSteps(value.String())
		v.size += e.outline.numbers // one of the schema may be compared with it
	case []any:
		v.kind = "array"
		for _, item := range value {
			add(item)
		}
	case map[string]any:
		v.kind = "object"
		for name, member := range value {
			n := &sized{kind: "string", text: name, size: 1 + len(name)/16}
			v.names, v.size, e.values = append(v.names, n), v.size+n.size, e.values+1
			add(member)
		}
	}
	return v, ok
}

// take says whether the count may go on for so many steps.
func (e *effort) take(steps int) bool {
	e.took += steps
	return e.took <= e.left
}

// follow counts the steps of the end of a reference at a value. It is not ok where at is not, and where the end is on the way
// to itself.
func (e *effort) follow(s *jsonschema.Schema, v *sized, depth int) (l looks, ok bool) {
	here := look{s, v}
	if l, ok = e.looked[here]; ok {
		return l, l.height > 0 && depth+l.height <= nestedMax && e.take(lookSteps)
	}
	e.looked[here] = looks{}
	if l, ok = e.at(s, v, depth); l.height == 1 {
		delete(e.looked, here) // to count it again is as cheap
	} else {
		e.looked[here] = l
	}
	return l, ok
}

// at counts the steps of a schema at a value, depth looks deep. It is not ok where they are too many, or not known: a
// reference that leads back to where it stands, or to what depends on the way to it.
func (e *effort) at(s *jsonschema.Schema, v *sized, depth int) (l looks, ok bool) {
	if s.Bool != nil || s.Types != nil && !s.Types.IsEmpty() && !typed(s.Types.ToStrings(), v.kind) {
		return looks{lookSteps, 1}, e.take(lookSteps) // and looks no further
	}
	if depth > nestedMax || wanders(s) {
		return l, false
	}
	l = looks{e.own(s, v), 1}
	count := func(below looks, ok bool) bool {
		l = looks{l.steps + below.steps, max(l.height, below.height+1)}
		return ok && l.steps <= e.left
	}
	follow := func(s *jsonschema.Schema) bool { return s == nil || count(e.follow(s, v, depth+1)) }
	ok = e.take(l.steps) && follow(s.Ref) && follow(s.RecursiveRef) && (s.DynamicRef == nil || follow(s.DynamicRef.Ref)) &&
		within(s, v, func(s *jsonschema.Schema, v *sized) bool { return s == nil || count(e.at(s, v, depth+1)) })
	return l, ok
}

// typed says whether a value's kind is among the types of a schema.
func typed(types []string, kind string) bool {
	return slices.Contains(types, kind) || kind == "number" && slices.Contains(types, "integer")
}

// wanders says whether a schema has a reference whose end depends on the way to it.
func wanders(s *jsonschema.Schema) bool {
	d := s.DynamicRef
	return s.RecursiveRef != nil && s.RecursiveRef.RecursiveAnchor || d != nil && d.Anchor != "" && d.Anchor == d.Ref.DynamicAnchor
}

// own is the steps of a schema at a value without those of the schemas within.
func (e *effort) own(s *jsonschema.Schema, v *sized) int {
	n := lookSteps + len(v.text)/16 + 4*(len(v.parts)+len(s.Required))
	if s.Const != nil {
		n += v.size
	}
	if s.Enum != nil {
		n += len(s.Enum.Values) * v.size
	}
	if s.Format != nil {
		n += len(v.text)
		if s.Format.Name == "regex" {
			n += len(v.text) * formatSteps
		}
	}
	switch v.kind {
	case "string":
		if s.Pattern != nil {
			n += (1 + len(v.text)) * e.outline.steps(s.Pattern)
		}
	case "number":
		n += v.size
		if s.MultipleOf != nil {
			n += 16 * v.size
		}
	case "array":
		if s.UniqueItems {
			n += uniqueSteps(v)
		}
	case "object":
		n += e.ownOfObject(s, v)
	}
	return n
}

func (e *effort) ownOfObject(s *jsonschema.Schema, v *sized) (n int) {
	names := 0
	for _, name := range v.names {
		names += 1 + len(name.text)
	}
	for pattern := range s.PatternProperties {
		n += names * e.outline.steps(pattern)
	}
	for _, names := range s.DependentRequired {
		n += lookSteps + len(names)
	}
	for _, d := range s.Dependencies {
		names, _ := d.([]string)
		n += lookSteps + len(names)
	}
	return n
}

// steps is what a pattern takes for a byte. Those that no outline has are of the schemas of schemas.
func (o *outline) steps(pattern jsonschema.Regexp) int {
	if n, ok := o.patterns[pattern.String()]; ok {
		return n
	}
	return lookSteps
}

// uniqueSteps is what it takes to see that items are unlike. A few are compared with each other. Of more the hashes are,
// which lists and objects can be made to share.
func uniqueSteps(v *sized) int {
	if len(v.parts) <= 20 {
		return len(v.parts) * v.size
	}
	nested, size := 0, 0
	for _, p := range v.parts {
		if p.parts != nil {
			nested, size = nested+1, size+p.size
		}
	}
	return 4*v.size + nested*size/2
}

// within visits the schemas in a schema that it looks with, and at which values, until visit is false. They may be more than
// the validator visits, which leaves out what cannot matter any more.
func within(s *jsonschema.Schema, v *sized, visit func(*jsonschema.Schema, *sized) bool) bool {
	for _, list := range [][]*jsonschema.Schema{{s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			if !visit(sub, v) {
				return false
			}
		}
	}
	if v.kind == "object" && !withinDependencies(s, v, visit) {
		return false
	}
	for i, part := range v.parts {
		if v.kind == "array" && !withinItem(s, i, part, visit) || v.kind == "object" && !withinMember(s, v.names[i], part, visit) {
			return false
		}
	}
	return true
}

func withinDependencies(s *jsonschema.Schema, v *sized, visit func(*jsonschema.Schema, *sized) bool) bool {
	for _, sub := range s.DependentSchemas {
		if !visit(sub, v) {
			return false
		}
	}
	for _, d := range s.Dependencies {
		if sub, _ := d.(*jsonschema.Schema); !visit(sub, v) {
			return false
		}
	}
	return true
}

func withinMember(s *jsonschema.Schema, name, part *sized, visit func(*jsonschema.Schema, *sized) bool) bool {
	named := s.Properties[name.text]
	for _, sub := range s.PatternProperties {
		if !visit(sub, part) {
			return false
		}
	}
	more, _ := s.AdditionalProperties.(*jsonschema.Schema)
	if named != nil {
		more = nil
	}
	return visit(named, part) && visit(more, part) && visit(s.PropertyNames, name) && visit(s.UnevaluatedProperties, part)
}

func withinItem(s *jsonschema.Schema, i int, part *sized, visit func(*jsonschema.Schema, *sized) bool) bool {
	each, _ := s.Items.(*jsonschema.Schema)
	first, _ := s.Items.([]*jsonschema.Schema) // of drafts before 2020-12
	more, _ := s.AdditionalItems.(*jsonschema.Schema)
	if s.Items2020 != nil {
		more = s.Items2020
	}
	for _, list := range [][]*jsonschema.Schema{first, s.PrefixItems} {
		if i < len(list) {
			each, more = list[i], nil
		}
	}
	return visit(each, part) && visit(more, part) && visit(s.Contains, part) && visit(s.UnevaluatedItems, part)
}
