package grammar

import (
	"slices"

	"corenode/engine/output"
)

// idLength is how many letters and digits the id of a delimited call has, and indexMax the most digits of
// its number.
const idLength, indexMax = 9, 3

// delimited are the calls behind the marker, one or, where the delimiters hold several, more.
func (b *builder) delimited(f Form) expr {
	one := b.rule("delimited call", func() expr {
		var each []expr
		for i, t := range f.Calls {
			each = append(each, b.delimitedCall(f.Delimiters, i, t))
		}
		return alt(each...)
	})
	several := f.Delimiters.Close != "" || f.Delimiters.List
	all := one
	if several && !f.SingleCall {
		all = seq(one, star(seq(lit(f.Delimiters.Between), one)))
	}
	if f.Delimiters.List {
		return seq(repeat(lit(" "), 0, 1), lit("["), all, lit("]"))
	}
	return seq(all, lit(f.Delimiters.Close))
}

// delimitedCall is one call of a tool.
func (b *builder) delimitedCall(d *output.Delimiters, at int, t Tool) expr {
	c := b.compiler(t.Schema, at)
	parts := []expr{lit(d.Before + t.Name)}
	id := oneOf(alphanumeric)
	if d.Numbered {
		parts = append(parts, lit(":"), kept(repeat(oneOf(span('0', '9')), 1, indexMax)))
	}
	if d.Identified != "" && !d.List {
		parts = append(parts, lit(d.Identified), repeat(id, idLength, idLength))
	}
	parts = append(parts, lit(d.Arguments), c.needs(c.value(append(slices.Clone(c.root), anyObject))))
	if d.List && d.Identified != "" {
		parts = append(parts, optional(seq(lit(d.Identified), repeat(id, idLength, idLength), lit(`"`))))
	}
	return seq(append(parts, lit(d.After))...)
}

var alphanumeric = func() byteSet {
	s := span('0', '9')
	s.add('A', 'Z')
	s.add('a', 'z')
	return s
}()
