package grammar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// plainMax is the most bytes of a plain token.
const plainMax = 64

const indentMax = 40 // blanks at the beginning of a line

var hex = bytesOf("0123456789abcdefABCDEF")

// multibyte is one character outside of ASCII.
var multibyte = runes(0x80, 0x10ffff)

// space is the whitespace between tokens: none, a blank, or a new line with its indent.
func (c *compiler) space() expr {
	return c.rule("space", func() expr {
		return kept(alt(seq(), lit(" "), seq(lit("\n"), repeat(oneOf(bytesOf(" \t")), 0, indentMax))))
	})
}

// char is one character of a JSON string. A lone half of a surrogate pair is none.
func (c *compiler) char() expr {
	key, ascii := "char", span(0x20, 0x7f).without(`"\`)
	if c.noAngle {
		key, ascii = "char without <", ascii.without("<")
	}
	return c.rule(key, func() expr {
		unit := alt(seq(oneOf(hex.without("dD")), repeat(oneOf(hex), 3, 3)),
			seq(oneOf(bytesOf("dD")), oneOf(span('0', '7')), repeat(oneOf(hex), 2, 2)))
		return alt(oneOf(ascii), multibyte, seq(lit(`\`), alt(oneOf(bytesOf(`"\/bfnrt`)), seq(lit("u"), unit))))
	})
}

// value is a JSON text for which all of some schemas hold.
func (c *compiler) value(all []*value) expr {
	key := c.key("value", all)
	return c.rule(key, func() expr {
		var each []expr
		for _, o := range c.options(all) {
			each = append(each, c.option(o)...)
		}
		if len(each) == 0 {
			c.impossible(all[0])
		}
		return alt(each...)
	})
}

// key names what is made of some schemas of one tool.
func (c *compiler) key(what string, all []*value) string {
	c.spend(len(all))
	parts := []string{what, fmt.Sprint(c.tool), fmt.Sprint(c.noAngle)}
	for _, v := range all {
		parts = append(parts, fmt.Sprintf("%p", v))
	}
	return strings.Join(parts, " ")
}

// option is one alternative of a value, as JSON: a choice of its types.
func (c *compiler) option(s *schema) (each []expr) {
	if s.limited {
		var texts []string
		for _, v := range c.listed(s) {
			texts = append(texts, c.escaped(v.compact()))
		}
		if len(texts) > 0 {
			each = append(each, words(texts))
		}
		return each
	}
	add := func(t types, e func() expr) {
		if s.types&t != 0 {
			each = append(each, e())
		}
	}
	add(typeNull, func() expr { return lit("null") })
	add(typeBoolean, func() expr { return alt(lit("true"), lit("false")) })
	add(typeNumber|typeInteger, func() expr { return c.number(s) })
	if !s.none(ofLength) {
		add(typeString, func() expr { return c.quoted(s) })
	}
	if !s.none(ofItems) {
		add(typeArray, func() expr { return c.array(s) })
	}
	add(typeObject, func() expr { return c.object(s) })
	return each
}

// escaped is a JSON text in which < stands only where it may; it stands in strings, where it can be escaped.
func (c *compiler) escaped(text string) string {
	if c.noAngle {
		return strings.ReplaceAll(text, "<", `\u003c`)
	}
	return text
}

// charactersMax is how many characters a string of a text has of which its schema says nothing.
const charactersMax = 4096

// quoted is a string. Of one whose characters no state counts the matcher counts them; the
// arguments of a call, which may be files, are as long as the model makes them.
func (c *compiler) quoted(s *schema) expr {
	limit := s.limit
	if limit == 0 && c.tool < 0 {
		limit = charactersMax
	}
	return seq(lit(`"`), closable(seq(c.inside(s), lit(`"`)), limit))
}

// inside is what stands between the quotes of a string.
func (c *compiler) inside(s *schema) expr {
	if e := c.patterned(s, true); e != nil {
		c.unlimited(s)
		return e
	}
	least, most := c.bounds(s, ofLength)
	if most < 0 {
		return seq(repeat(character(c.char()), least, least), repeatPlain(c.char(), 0, -1, plainJSON))
	}
	return repeatPlain(c.char(), least, most, plainJSON)
}

// unlimited notes that nothing counts the characters of a string that has a limit.
func (c *compiler) unlimited(s *schema) {
	if s.limit > 0 {
		c.ignore("maxLength")
	}
}

// looseMax is the number of characters or items up to which a loose grammar counts.
const looseMax = 32

// bounds are of how many characters or items there are. Every one that is counted takes
// states, so a grammar that would be too large without it counts few.
func (c *compiler) bounds(s *schema, of int) (least, most int) {
	least, most = s.least[of], s.most[of]
	if c.loose && (least > looseMax || most > looseMax) {
		c.ignore([]string{"minLength and maxLength", "minItems and maxItems"}[of])
		least = min(least, looseMax)
		if most > looseMax {
			most = -1
		}
	}
	return least, most
}

// array is in brackets: the items of a prefix, each with its schemas, then others.
func (c *compiler) array(s *schema) expr {
	least, most := c.bounds(s, ofItems)
	fixed := 0
	for _, l := range s.lists {
		fixed = max(fixed, len(l.prefix))
	}
	c.spend(fixed * len(s.lists))
	item := func(i int) expr { // made once, if it is used
		one := sync.OnceValue(func() expr { return c.value(c.item(s, i)) })
		return func(b *builder, next int32) int32 { return one()(b, next) }
	}
	comma := seq(lit(","), c.space())
	// rest is the items from that one on, each with a comma in front.
	rest := func(from int) expr {
		return repeat(seq(comma, item(from)), max(0, least-from), max(-1, most-from, min(most, 0)))
	}
	// tail is what can come after the items before i.
	var tail func(i int) expr
	tail = func(i int) expr {
		if most >= 0 && i >= most {
			return seq()
		}
		if i > 0 && i >= fixed {
			return rest(i)
		}
		one := item(i)
		if i > 0 {
			one = seq(comma, one)
		}
		one = seq(one, tail(i+1))
		if i < least {
			return one
		}
		return optional(one)
	}
	return seq(lit("["), c.space(), tail(0), c.space(), lit("]"))
}

// members are those of an object that its schema names, the required ones, and those that may be on a condition.
func (c *compiler) members(s *schema) []property {
	members := slices.Clone(s.properties)
	have := map[string]bool{}
	for _, p := range members {
		have[p.name] = true
	}
	for _, name := range s.required {
		if !have[name] {
			have[name] = true
			members = append(members, property{name: name})
		}
	}
	for _, m := range s.mentioned {
		if !have[m.name] {
			have[m.name] = true
			members = append(members, m)
		}
	}
	for _, o := range s.others {
		named := map[string]bool{}
		if o.named != nil {
			c.spend(len(o.named.names))
			for _, name := range o.named.names {
				named[name] = true
			}
		}
		for i, p := range members {
			if c.spend(1 + len(p.within)); c.err != nil {
				return nil
			}
			if !named[p.name] && !(o.named == nil && slices.Contains(p.within, o.within)) {
				members[i].schemas = c.with(p.schemas, o.schema)
			}
		}
	}
	for i, p := range members {
		members[i].schemas = anything(p.schemas)
	}
	return members
}

// object has the named members in their order, and then others if it is open.
func (c *compiler) object(s *schema) expr {
	members, required := c.members(s), s.needed()
	comma := seq(lit(","), c.space())
	pairs := func(b *builder, next int32) int32 {
		// Where it goes on when members from i on are still to come, without and
		// with one before.
		none, some := next, next
		if s.open() {
			var all []*value
			for _, o := range s.others {
				all = c.with(all, o.schema)
			}
			other := seq(c.otherName(members), lit(":"), c.space(), c.value(anything(all)))
			more := star(seq(comma, other))
			none, some = optional(seq(other, more))(b, next), more(b, next)
		}
		for i := len(members) - 1; i >= 0 && b.err == nil; i-- {
			m := members[i]
			first := seq(lit(c.escaped(quote(m.name))), lit(":"), c.space(), c.value(m.schemas))(b, some)
			later := comma(b, first)
			if !required[m.name] {
				first, later = b.fork(first, none), b.fork(later, some)
			}
			none, some = first, later
		}
		return none
	}
	return seq(lit("{"), c.space(), pairs, c.space(), lit("}"))
}

// otherName is a quoted name that none of the members has. It has no escapes, in
// which a name could hide.
func (c *compiler) otherName(members []property) expr {
	var names []string
	for _, m := range members {
		quoted := quote(m.name)
		names = append(names, quoted[1:len(quoted)-1])
	}
	ascii := span(0x20, 0x7f).without(`"\`)
	if c.noAngle {
		ascii = ascii.without("<")
	}
	return seq(lit(`"`), closable(seq(except(names, ascii), lit(`"`)), charactersMax))
}

// except is text of some ASCII characters and all others that is none of the names.
func except(names []string, ascii byteSet) expr {
	slices.Sort(names)
	return func(b *builder, next int32) int32 {
		rest := star(alt(oneOf(ascii), multibyte))(b, next)
		wide := multibyte(b, rest)
		// after is where a text goes on that has the first n bytes of some names.
		var after func(names []string, n int) int32
		after = func(names []string, n int) int32 {
			if b.spend(1); b.err != nil {
				return 0
			}
			var split []int32
			if len(names[0]) > n {
				split = append(split, next)
			}
			for len(names) > 0 && len(names[0]) == n {
				names = names[1:]
			}
			clear, multi := ascii, true
			for len(names) > 0 {
				c, same := names[0][n], 1
				for same < len(names) && names[same][n] == c {
					same++
				}
				if c >= utf8.RuneSelf {
					multi = false // no other name begins like that one
				} else if ascii.has(c) {
					clear = clear.without(string(rune(c)))
					split = append(split, b.add(state{kind: kindBytes, set: span(c, c), next: after(names[:same], n+1)}))
				}
				names = names[same:]
			}
			split = append(split, b.add(state{kind: kindBytes, set: clear, next: rest}))
			if multi {
				split = append(split, wide)
			}
			return b.add(state{split: split})
		}
		if len(names) == 0 {
			return rest
		}
		return after(names, 0)
	}
}

// listed are the values of a list that are also of the rest of the schema.
func (c *compiler) listed(s *schema) (fitting []*value) {
	for _, v := range s.enum {
		if c.fits(s, v) {
			fitting = append(fitting, v)
		}
	}
	return fitting
}

// satisfies says whether a value is of all of some schemas.
func (c *compiler) satisfies(all []*value, v *value) bool {
	return slices.ContainsFunc(c.options(all), func(o *schema) bool {
		same := c.same(v)
		return c.fits(o, v) && (!o.limited || slices.ContainsFunc(o.enum, func(w *value) bool { return c.same(w) == same }))
	})
}

// fits says whether a value is of one alternative, but for its list of values.
func (c *compiler) fits(s *schema, v *value) bool {
	c.spend(1 + v.size/stepWork)
	if c.err != nil || s.types&typeOf(v) == 0 {
		return false
	}
	within := func(n, of int) bool { return n >= s.least[of] && (s.most[of] < 0 || n <= s.most[of]) }
	switch v.kind {
	case '"':
		n := utf8.RuneCountInString(v.text)
		return within(n, ofLength) && (s.limit == 0 || n <= s.limit) && !slices.ContainsFunc(s.pattern, func(p *value) bool {
			return !c.matches(p, v.text)
		})
	case '0':
		x, ok := v.rational()
		return s.low == nil && s.high == nil || ok && s.low.below(x) && s.high.above(x)
	case '[':
		for i, m := range v.values {
			if c.err != nil || !c.satisfies(c.item(s, i), m) {
				return false
			}
		}
		return within(len(v.values), ofItems)
	case '{':
		if c.spend(len(v.names) + len(s.properties) + len(s.required)); c.err != nil {
			return false
		}
		whole, required := *s, s.needed()
		whole.required = append(slices.Clone(v.names), s.required...)
		members := c.members(&whole)
		if c.spend(len(members) * len(v.names) / stepWork); c.err != nil {
			return false
		}
		for _, p := range members {
			m := v.member(p.name)
			if m != nil && !c.satisfies(p.schemas, m) || m == nil && required[p.name] {
				return false
			}
		}
	}
	return true
}
