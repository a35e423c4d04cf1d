package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	depthMax   = 64      // nesting of a schema, and of references and unions that are followed
	optionsMax = 256     // alternatives of one value
	lengthMax  = 2000    // characters or items whose number states count
	limitMax   = 1 << 30 // characters that the matcher counts
)

// value is a JSON value with its members in order.
type value struct {
	kind   byte // as jsontext.Kind: n f t " 0 { [
	text   string
	raw    string
	names  []string
	values []*value // of an array's items, or of an object's members
	parent *value
	at     int      // index in the parent
	size   int      // bytes of its text
	number *big.Rat // of a number that was reckoned with: see rational
}

// pointer is the JSON pointer of where the value stands.
func (v *value) pointer() string {
	if v.parent == nil {
		return ""
	}
	step := fmt.Sprint(v.at)
	if v.parent.kind == '{' {
		step = pointerEscape.Replace(v.parent.names[v.at])
	}
	return v.parent.pointer() + "/" + step
}

// list is the items of an array.
func (v *value) list() []*value {
	if v == nil || v.kind != '[' {
		return nil
	}
	return v.values
}

func (v *value) member(name string) *value {
	if v == nil || v.kind != '{' {
		return nil
	}
	if i := slices.Index(v.names, name); i >= 0 {
		return v.values[i]
	}
	return nil
}

func readSchema(raw json.RawMessage) (*value, error) {
	return readValue(jsontext.NewDecoder(bytes.NewBuffer(raw)), nil, 0)
}

func readValue(dec *jsontext.Decoder, parent *value, depth int) (*value, error) {
	if depth > depthMax {
		return nil, fmt.Errorf("the schema is nested deeper than %d", depthMax)
	}
	kind := dec.PeekKind()
	v := &value{kind: byte(kind), parent: parent}
	if parent != nil {
		v.at = len(parent.values)
	}
	if kind != '{' && kind != '[' {
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("the schema is not JSON: %w", err)
		}
		v.raw, v.size = string(raw), len(raw)
		if kind == '"' {
			unquoted, _ := jsontext.AppendUnquote(nil, raw) // it was read as a string
			v.text = string(unquoted)
		}
		return v, nil
	}
	begin := dec.InputOffset()
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		if kind == '{' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, fmt.Errorf("the schema is not JSON: %w", err)
			}
			v.names = append(v.names, name.String())
		}
		member, err := readValue(dec, v, depth+1)
		if err != nil {
			return nil, err
		}
		v.values = append(v.values, member)
	}
	_, err := dec.ReadToken()
	v.size = int(dec.InputOffset() - begin)
	return v, err
}

var (
	pointerEscape   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// compact is the value as JSON without whitespace.
func (v *value) compact() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case '{', '[':
		b.WriteByte(v.kind)
		for i, m := range v.values {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.kind == '{' {
				b.WriteString(quote(v.names[i]) + ":")
			}
			m.write(b)
		}
		b.WriteByte(v.kind + 2) // the closing bracket of ASCII
	case '"':
		b.WriteString(quote(v.text))
	default:
		b.WriteString(v.raw)
	}
}

func quote(text string) string {
	b, _ := jsontext.AppendQuote(nil, text) // fails only for broken UTF-8, which it replaces
	return string(b)
}

// types is a set of JSON types.
type types uint8

const (
	typeString types = 1 << iota
	typeNumber
	typeInteger
	typeBoolean
	typeNull
	typeArray
	typeObject
	typeAll = 1<<iota - 1
)

var typeNames = map[string]types{
	"string": typeString, "number": typeNumber | typeInteger, "integer": typeInteger, "boolean": typeBoolean,
	"null": typeNull, "array": typeArray, "object": typeObject,
}

func typeOf(v *value) types {
	switch v.kind {
	case '"':
		return typeString
	case '0':
		if n, ok := v.rational(); ok && n.IsInt() {
			return typeInteger
		}
		return typeNumber
	case 'n':
		return typeNull
	case '[':
		return typeArray
	case '{':
		return typeObject
	}
	return typeBoolean
}

// schema is what one alternative of a value has to be: all the keywords of the
// schemas that hold for it, together.
type schema struct {
	types      types
	enum       []*value // nil: any
	limited    bool     // by an enum
	properties []property
	required   []string
	mentioned  []property // by what holds on a condition; without schemas
	declared   bool       // a schema says which members there are
	others     []others
	lists      []list
	least      [2]int   // of ofLength and ofItems
	most       [2]int   // likewise; -1: no bound
	limit      int      // characters: a bound that no state counts; 0: none
	pattern    []*value // the schemas that have one
	low, high  *bound   // of numbers; nil: none
	unions     []union
}

// union is schemas of which one has to hold. within are the schemas with
// unevaluatedProperties in which it stands.
type union struct {
	of, within []*value
}

// Indexes of least and most.
const (
	ofLength = iota
	ofItems
)

// property is a member with all the schemas that hold for it.
type property struct {
	name    string
	schemas []*value
	within  []*value // the schemas with unevaluatedProperties that name it
}

// others are the members that one schema does not name, and what they have to be.
type others struct {
	named  *value // the properties beside it; nil: all that within names, also in its parts
	within *value
	schema *value
}

// list is what one schema says about items: those of a prefix, and others (nil: anything).
type list struct {
	prefix []*value
	others *value
}

// open says that an object may have members that no schema names.
func (s *schema) open() bool {
	return (len(s.others) > 0 || !s.declared) && !slices.ContainsFunc(s.others, func(o others) bool { return o.schema.kind == 'f' })
}

// needed are the names of the members that have to be there.
func (s *schema) needed() map[string]bool {
	names := map[string]bool{}
	for _, name := range s.required {
		names[name] = true
	}
	return names
}

// none says that no number of characters or items is within the bounds.
func (s *schema) none(of int) bool { return s.most[of] >= 0 && s.least[of] > s.most[of] }

// item is the schemas of an item.
func (c *compiler) item(s *schema, i int) (all []*value) {
	for _, l := range s.lists {
		switch {
		case c.err != nil:
			return nil
		case i < len(l.prefix):
			all = c.with(all, l.prefix[i])
		case l.others != nil:
			all = c.with(all, l.others)
		}
	}
	return anything(all)
}

// with is a list with one more schema, if it is not there. The list is looked through and copied.
func (c *compiler) with(all []*value, v *value) []*value {
	if c.spend(1 + len(all)); c.err != nil || slices.Contains(all, v) {
		return all
	}
	return append(all[:len(all):len(all)], v)
}

var (
	free      = &value{kind: 't'}
	anyObject = &value{kind: '{', names: []string{"type"}, values: []*value{{kind: '"', text: "object"}}}
)

// anything is a list of schemas, or the one that holds for every value.
func anything(all []*value) []*value {
	if len(all) > 0 {
		return all
	}
	return []*value{free}
}

// compiler makes the expressions of one schema.
type compiler struct {
	*builder
	root     []*value
	tool     int
	noAngle  bool             // strings have no <
	expected map[string]types // of the parameters of a call
	nothing  *value           // the first schema of which there is no value
	programs map[*value]program
	// references is nil until one is followed.
	references *references
}

func (b *builder) compiler(raw json.RawMessage, tool int) *compiler {
	c := &compiler{builder: b, tool: tool, programs: map[*value]program{}}
	v, err := readSchema(raw)
	if err != nil {
		b.fail(&Error{Tool: tool, Msg: err.Error()})
		v = &value{kind: 't'}
	}
	c.root = []*value{v}
	return c
}

func (c *compiler) wrong(v *value, format string, args ...any) {
	if c.err == nil {
		c.fail(&Error{Tool: c.tool, Pointer: v.pointer(), Msg: fmt.Sprintf(format, args...)})
	}
}

// impossible notes a schema of which there is no value, which is wrong if an answer needs one.
func (c *compiler) impossible(v *value) {
	if c.nothing == nil {
		c.nothing = v
	}
}

// needs is an expr without which there is no answer.
func (c *compiler) needs(e expr) expr {
	return func(b *builder, next int32) int32 {
		at := e(b, next)
		b.needed = append(b.needed, need{at, func() error {
			wrong := &Error{Tool: c.tool, Msg: "no value is of this schema"}
			if c.nothing != nil {
				wrong.Pointer = c.nothing.pointer()
			}
			return wrong
		}})
		return at
	}
}

func (c *compiler) ignore(keyword string) {
	if !slices.Contains(c.ignored, keyword) {
		c.ignored = append(c.ignored, keyword)
	}
}

// options are the alternatives of a value for which all of some schemas hold.
func (c *compiler) options(all []*value) []*schema {
	if c.err != nil {
		return nil
	}
	s := &schema{types: typeAll, most: [2]int{-1, -1}}
	for _, v := range all {
		if !c.apply(s, v, nil, 0) {
			return nil
		}
	}
	return c.expand(s, 0)
}

// expand replaces unions by alternatives.
func (c *compiler) expand(s *schema, depth int) []*schema {
	if len(s.unions) == 0 {
		return []*schema{s}
	}
	if depth > depthMax {
		c.fail(&Error{Tool: c.tool, Msg: "the schema's unions refer to each other without end"})
		return nil
	}
	var out []*schema
	one := s.unions[0]
	for _, v := range c.gathered(one.of) {
		if c.spend(1 + s.parts()); c.err != nil {
			return nil
		}
		o := s.clone()
		o.unions = o.unions[1:]
		if c.apply(o, v, one.within, depth) {
			out = append(out, c.expand(o, depth+1)...)
		}
		if len(out) > optionsMax {
			c.wrong(v, "more than %d alternatives", optionsMax)
			return nil
		}
	}
	return out
}

// parts is how many there are to clone.
func (s *schema) parts() int {
	return len(s.properties) + len(s.required) + len(s.others) + len(s.lists) + len(s.enum) + len(s.pattern) + len(s.unions)
}

func (s *schema) clone() *schema {
	o := *s
	o.properties, o.required = slices.Clone(s.properties), slices.Clone(s.required)
	o.others, o.lists = slices.Clone(s.others), slices.Clone(s.lists)
	o.enum, o.pattern, o.unions = slices.Clone(s.enum), slices.Clone(s.pattern), slices.Clone(s.unions)
	return &o
}

// unenforced are the keywords that say something about a value and are not enforced. Any
// other keyword that is unknown here says nothing.
var unenforced = []string{"format", "multipleOf", "uniqueItems", "contains", "minContains", "maxContains",
	"unevaluatedItems", "minProperties", "maxProperties",
	"patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "not", "if", "then", "else",
	"contentEncoding", "contentMediaType", "contentSchema", "$dynamicRef", "$recursiveRef"}

// apply adds the keywords of one more schema; false when no value can be of it. within
// are the schemas with unevaluatedProperties of which it is a part. Its switch is the
// list of what is known.
func (c *compiler) apply(s *schema, v *value, within []*value, depth int) bool {
	c.spend(1 + len(v.names))
	if depth > depthMax || c.err != nil {
		c.wrong(v, "the schema refers to itself without end")
		return false
	}
	if v.kind != '{' {
		if v.kind != 't' && v.kind != 'f' {
			c.wrong(v, "a schema is an object, true or false")
		}
		return v.kind == 't'
	}
	if v.member("unevaluatedProperties") != nil {
		within = c.with(within, v)
	}
	possible := true
	for i, keyword := range v.names {
		m := v.values[i]
		switch keyword {
		case "type":
			possible = c.restrict(s, m) && possible
		case "$ref":
			to := c.resolve(m)
			possible = to != nil && c.apply(s, to, within, depth+1) && possible
		case "allOf":
			for _, part := range c.parts(keyword, m) {
				possible = c.apply(s, part, within, depth+1) && possible
			}
		case "anyOf", "oneOf":
			s.unions = append(s.unions, union{c.parts(keyword, m), within})
			if keyword == "oneOf" && len(m.values) > 1 {
				c.ignore("oneOf") // that no second one holds
			}
		case "const":
			c.allow(s, []*value{m})
		case "enum":
			c.allow(s, m.values)
		case "properties":
			c.declare(s, m, within)
		case "required":
			c.require(s, m)
		case "additionalProperties":
			if !v.matches() {
				s.others = append(s.others, others{named: namedBy(v), schema: m})
			}
		case "unevaluatedProperties":
			if !v.matches() {
				s.others = append(s.others, others{within: v, schema: m})
			}
		case "minLength", "minItems", "maxLength", "maxItems":
			c.count(s, keyword, m)
		case "pattern":
			s.pattern = append(s.pattern, v)
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			c.limit(s, keyword, m)
		default:
			if slices.Contains(unenforced, keyword) {
				c.ignore(keyword)
				c.condition(s, v, keyword, m, within)
			}
		}
	}
	if v.member("items") != nil || v.member("prefixItems") != nil {
		s.lists = append(s.lists, listOf(v))
	}
	return possible
}

// parts are the schemas that a keyword lists. That it is null is taken to say nothing, as some programs write it.
func (c *compiler) parts(keyword string, m *value) []*value {
	if len(m.list()) == 0 && m.kind != 'n' {
		c.wrong(m, "%s is no list of one or more schemas", keyword)
	}
	return anything(m.list())
}

// require adds the members that must be there.
func (c *compiler) require(s *schema, names *value) {
	c.spend(len(names.values))
	for _, name := range names.values {
		if name.kind == '"' {
			s.required = append(s.required, name.text)
		}
	}
}

// listOf is what a schema says about items; drafts before 2020 have the prefix in items.
func listOf(v *value) list {
	items := v.member("items")
	if items.list() != nil {
		return list{items.list(), v.member("additionalItems")}
	}
	if items != nil && items.kind == '[' {
		items = nil
	}
	return list{v.member("prefixItems").list(), items}
}

// restrict takes the type keyword: a name or a list of names.
func (c *compiler) restrict(s *schema, m *value) bool {
	var allowed types
	names := m.values
	if m.kind == '"' {
		names = []*value{m}
	}
	for _, n := range names {
		t, known := typeNames[n.text]
		if !known {
			c.wrong(m, "%s is no JSON type", n.compact())
		}
		allowed |= t
	}
	s.types &= allowed
	return s.types != 0
}

// allow keeps the values of a list, or those that were allowed before too.
func (c *compiler) allow(s *schema, list []*value) {
	c.spend(len(list) + len(s.enum))
	if s.limited {
		before := map[string]bool{}
		for _, v := range s.enum {
			before[c.same(v)] = true
		}
		list = slices.DeleteFunc(slices.Clone(list), func(v *value) bool { return !before[c.same(v)] })
	}
	s.enum, s.limited = list, true
}

// same is a text that is the same for equal values, but for objects of another order. Its length is counted before it is made.
func (c *compiler) same(v *value) string {
	n, ok := v.rational()
	if c.spend(v.size/stepWork + digitSteps(n)); c.err != nil {
		return ""
	}
	if ok {
		return n.RatString()
	}
	return v.compact()
}

func (c *compiler) declare(s *schema, m *value, within []*value) {
	s.declared = true
	c.spend(len(s.properties) + len(m.names))
	known := map[string]int{}
	for i, p := range s.properties {
		known[p.name] = i
	}
	for i, name := range m.names {
		at, ok := known[name]
		if !ok {
			at = len(s.properties)
			s.properties = append(s.properties, property{name: name})
		}
		p := &s.properties[at]
		p.schemas = c.with(p.schemas, m.values[i])
		for _, v := range within {
			p.within = c.with(p.within, v)
		}
	}
}
