package grammar

import (
	"slices"

	"corenode/engine/output"
)

// idLength is how many letters and digits the id of a framed call has, and indexMax the most digits of
// its number.
const idLength, indexMax = 9, 3

// framed are the calls behind the marker of a frame, one or, where the frame holds several, more.
func (b *builder) framed(f Form) expr {
	one := b.rule("framed call", func() expr {
		var each []expr
		for i, t := range f.Calls {
			each = append(each, b.framedCall(f.Frame, i, t))
		}
		return alt(each...)
	})
	several := f.Frame.Close != "" || f.Frame.List
	all := one
	if several && !f.SingleCall {
		all = seq(one, star(seq(lit(f.Frame.Between), one)))
	}
	if f.Frame.List {
		return seq(repeat(lit(" "), 0, 1), lit("["), all, lit("]"))
	}
	return seq(all, lit(f.Frame.Close))
}

// framedCall is one call of a tool.
func (b *builder) framedCall(f *output.Frame, at int, t Tool) expr {
	c := b.compiler(t.Schema, at)
	parts := []expr{lit(f.Before + t.Name)}
	id := oneOf(alphanumeric)
	if f.Numbered {
		parts = append(parts, lit(":"), kept(repeat(oneOf(span('0', '9')), 1, indexMax)))
	}
	if f.Identified != "" && !f.List {
		parts = append(parts, lit(f.Identified), repeat(id, idLength, idLength))
	}
	parts = append(parts, lit(f.Arguments), c.needs(c.value(append(slices.Clone(c.root), anyObject))))
	if f.List && f.Identified != "" {
		parts = append(parts, optional(seq(lit(f.Identified), repeat(id, idLength, idLength), lit(`"`))))
	}
	return seq(append(parts, lit(f.After))...)
}

var alphanumeric = func() byteSet {
	s := span('0', '9')
	s.add('A', 'Z')
	s.add('a', 'z')
	return s
}()
