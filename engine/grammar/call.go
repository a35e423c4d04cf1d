package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"corenode/engine/output"
)

// apart are the arguments of each tool. Their rules come behind the first one, in the order of the tools.
func (b *builder) apart(f Form) expr {
	var each []expr
	for i, t := range f.Calls {
		each = append(each, b.rule(fmt.Sprint("arguments of ", i), func() expr {
			c := b.compiler(t.Schema, i)
			return c.needs(c.value(append(slices.Clone(c.root), anyObject)))
		}))
	}
	return alt(each...)
}

// taggable says that arguments can be written in the tagged form and are read back as
// what they are.
func (c *compiler) taggable(s *schema) bool {
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf", "enum", "const"} {
		if c.root[0].member(keyword) != nil {
			return false // names and types have to stand in the schema's own properties
		}
	}
	if len(s.properties) == 0 && s.open() && len(s.others) > 0 || len(c.members(s)) > len(s.properties) {
		return false // it has members that no schema names
	}
	if c.expected == nil {
		return false
	}
	for _, p := range s.properties {
		if p.name == "" || strings.ContainsAny(p.name, "<>\n\r") || strings.TrimSpace(p.name) != p.name {
			return false
		}
		if len(p.schemas) > 1 || !c.readable(p.schemas, c.expected[p.name]) {
			return false
		}
	}
	return true
}

// expected are the types that the call parser expects of each parameter, none for a
// string; nil where it does not look the whole schema up.
func expected(schema json.RawMessage) map[string]types {
	of, ok := output.ParameterTypes(schema)
	if !ok {
		return nil
	}
	all := make(map[string]types, len(of))
	for name, t := range of {
		for one, as := range parsedTypes {
			if t&one != 0 {
				all[name] |= as
			}
		}
	}
	return all
}

var parsedTypes = map[output.Types]types{
	output.TypeString: typeString, output.TypeBoolean: typeBoolean, output.TypeNull: typeNull, output.TypeInteger: typeInteger,
	output.TypeNumber: typeNumber | typeInteger, output.TypeArray: typeArray, output.TypeObject: typeObject,
}

// readable says that what an argument of some schemas can be is read back as what it is
// by a parser that expects some types.
func (c *compiler) readable(all []*value, expected types) bool {
	options := c.options(all)
	var of, whole types // what it can be, and what it can be without a list of values
	for _, o := range options {
		if o.limited {
			for _, v := range c.listed(o) {
				of |= typeOf(v)
				if !c.reads(v, expected) {
					return false
				}
			}
			continue
		}
		of |= o.types
		whole |= o.types
	}
	if expected == 0 {
		return len(options) == 1 && options[0].anyText()
	}
	if of&^expected != 0 {
		return false
	}
	if whole&typeString == 0 {
		return true
	}
	return expected&typeBoolean&^whole == 0 && expected&typeNull&^of == 0 && !slices.ContainsFunc(options, func(o *schema) bool {
		return len(o.pattern) > 0 && (expected&typeLong != 0 || strings.Contains(o.pattern[0].member("pattern").text, "<"))
	})
}

// typeLong are the types whose texts are told from others by how they begin.
const typeLong = typeNumber | typeInteger | typeArray | typeObject

// begins are the bytes with which texts of those types, and blanks before them, begin.
const begins = "0123456789+-.{[ \t\n\r"

// reads says whether the text of a listed value is read as that value.
func (c *compiler) reads(v *value, expected types) bool {
	text := v.compact()
	if v.kind == '"' {
		text = v.text
	}
	if strings.Contains(text, c.valueClose()) || strings.Contains(text, callClose) {
		return false
	}
	switch v.kind {
	case '0':
		x, ok := v.rational()
		return ok && (!strings.ContainsAny(v.raw, ".eE") || new(big.Rat).Abs(x).Cmp(big.NewRat(1<<53, 1)) < 0)
	case '"':
		switch word := strings.Trim(text, " \t\r\n"); {
		case strings.EqualFold(word, "null"):
			return expected&typeNull == 0
		case strings.EqualFold(word, "true"), strings.EqualFold(word, "false"):
			return expected&typeBoolean == 0
		case word != "" && strings.IndexByte(begins, word[0]) >= 0:
			return expected&typeLong == 0
		}
	}
	return true
}

// anyText says that every text is of the schema.
func (s *schema) anyText() bool {
	return s.types == typeAll && !s.limited && len(s.pattern) == 0 && s.least[ofLength] == 0 && s.most[ofLength] < 0
}

// valueClose ends the value of an argument.
func (c *compiler) valueClose() string {
	if c.keyed {
		return "</arg_value>"
	}
	return "</parameter>"
}

// closing is what stands behind a value.
func (c *compiler) closing() expr {
	if c.keyed {
		return lit(c.valueClose())
	}
	return lit("\n" + c.valueClose())
}

// parameters are the arguments of a call in the tagged form, in the order of the
// schema, each on lines of its own.
func (c *compiler) parameters(s *schema) expr {
	required := s.needed()
	var all []expr
	for _, m := range s.properties {
		one := seq(lit("<parameter="+m.name+">\n"), c.argument(m), lit("\n"))
		if c.keyed {
			one = seq(lit("\n<arg_key>"+m.name+"</arg_key>\n<arg_value>"), c.argument(m))
		}
		if !required[m.name] {
			one = optional(one)
		}
		all = append(all, one)
	}
	return seq(all...)
}

// argument is the value of a parameter and the tag behind it: the text of a string
// as it is, anything else as JSON.
func (c *compiler) argument(p property) expr {
	return c.rule(c.key("argument", p.schemas), func() expr {
		expected := c.expected[p.name]
		var each []expr
		for _, o := range c.options(p.schemas) {
			if expected == 0 { // whatever is written is read as text
				o.types = typeString
			}
			each = append(each, c.written(o, expected)...)
		}
		if len(each) == 0 {
			c.impossible(p.schemas[0])
		}
		return alt(each...)
	})
}

// written are the ways to write one alternative of an argument of which some types
// are expected.
func (c *compiler) written(s *schema, expected types) (each []expr) {
	closing := c.closing()
	if s.limited {
		var texts []string
		for _, v := range c.listed(s) {
			text := v.compact()
			if v.kind == '"' {
				text = v.text
			}
			texts = append(texts, text)
			texts = append(texts, c.capitals(func(w *value) bool { return w.kind == v.kind }, expected)...)
		}
		if len(texts) > 0 {
			each = append(each, seq(words(texts), closing))
		}
		return each
	}
	rest := *s
	rest.types &^= typeString
	for _, e := range c.option(&rest) {
		each = append(each, seq(e, closing))
	}
	for _, word := range c.capitals(func(w *value) bool { return s.types&typeOf(w) != 0 }, expected) {
		each = append(each, seq(lit(word), closing))
	}
	if s.types&typeString == 0 || s.none(ofLength) {
		return each
	}
	return append(each, c.raw(s, expected))
}

// capitalWords are what Python writes for a value of each kind.
var capitalWords = []struct {
	word string
	of   *value
}{{"True", &value{kind: 't'}}, {"False", &value{kind: 'f'}}, {"None", &value{kind: 'n'}}}

// capitals are the words of those of the values that match, as far as an argument may be one. A parser that expects a string takes
// None for that.
func (c *compiler) capitals(match func(*value) bool, expected types) (words []string) {
	for _, w := range capitalWords {
		if c.capital && match(w.of) && (w.of.kind != 'n' || expected&typeString == 0) {
			words = append(words, w.word)
		}
	}
	return words
}

// raw is the text of a string and the tag behind it. It does not begin like a value
// of another type that is expected, for it would be read as that.
func (c *compiler) raw(s *schema, expected types) expr {
	c.unlimited(s)
	closing := c.closing()
	if e := c.patterned(s, false); e != nil {
		return closable(seq(e, closing), 0)
	}
	free := c.rule("text", func() expr { return closable(until(c.valueClose(), callClose), 0) })
	char := c.rule("text char", func() expr { return alt(oneOf(textASCII), multibyte) })
	first := alt(oneOf(textASCII.without(begins)), multibyte)
	least, most := c.bounds(s, ofLength)
	switch {
	case expected&typeLong == 0 && least == 0 && most < 0:
		return free
	case expected&typeLong == 0:
		return closable(seq(repeatPlain(char, least, most, plainText), closing), 0)
	case least == 0 && most < 0:
		return alt(closing, seq(first, free))
	}
	var each []expr
	if least == 0 {
		each = append(each, closing)
	}
	if most != 0 {
		each = append(each, seq(first, repeatPlain(char, max(0, least-1), max(-1, most-1), plainText), closing))
	}
	return closable(alt(each...), 0)
}

// textASCII is what a text of bounded length has of ASCII: no tag can be in it.
var textASCII = func() byteSet {
	s := span(0x20, 0x7e).without("<")
	s.add('\n', '\n')
	s.add('\t', '\t')
	return s
}()
