package grammar

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

const (
	wholeMax    = 20  // digits of a whole number, or in front of the point: all that 64 bits can have
	fractionMax = 15  // digits behind the point, if no bound has more
	boundMax    = 60  // likewise, whatever a bound has
	exponentMax = 99  // the exponent
	numberMax   = 320 // digits, or the exponent, of a number of a schema
)

var digit = oneOf(span('0', '9'))

// number is a JSON number, whole unless others are allowed.
func (c *compiler) number(s *schema) expr {
	fractions := s.types&typeNumber != 0
	if s.low != nil || s.high != nil {
		c.spend(s.low.steps() + s.high.steps())
		return c.rule(fmt.Sprint("number ", fractions, s.low, s.high), func() expr { return closable(alt(bounded(s, fractions)...), 0) })
	}
	key := "integer"
	if fractions {
		key = "number"
	}
	return c.rule(key, func() expr {
		whole := seq(optional(lit("-")), alt(lit("0"), seq(oneOf(span('1', '9')), repeat(digit, 0, wholeMax-1))))
		if !fractions {
			return closable(whole, 0)
		}
		exponent := seq(oneOf(bytesOf("eE")), optional(oneOf(bytesOf("+-"))), repeat(digit, 1, 2))
		return closable(seq(whole, fraction(fractionMax), optional(exponent)), 0)
	})
}

// rational is a JSON number, which is read once and not to be changed; not one that is too long or too large to reckon with,
// nor another value.
func (v *value) rational() (*big.Rat, bool) {
	if v.number != nil || v.kind != '0' || len(v.raw) > numberMax {
		return v.number, v.number != nil
	}
	if at := strings.IndexAny(v.raw, "eE"); at >= 0 {
		if e, err := strconv.Atoi(v.raw[at+1:]); err != nil || e < -numberMax || e > numberMax {
			return nil, false
		}
	}
	v.number, _ = new(big.Rat).SetString(v.raw)
	return v.number, v.number != nil
}

// digitSteps is what it costs to write a number, which may be nil.
func digitSteps(n *big.Rat) int {
	if n == nil {
		return 0
	}
	return (n.Num().BitLen() + n.Denom().BitLen()) / stepWork
}

// count takes a bound of a number of characters or items.
func (c *compiler) count(s *schema, keyword string, m *value) {
	n, ok := m.rational()
	if !ok || !n.IsInt() || n.Sign() < 0 || n.Cmp(big.NewRat(lengthMax, 1)) > 0 {
		if ok && keyword == "maxLength" && n.IsInt() && n.Cmp(big.NewRat(limitMax, 1)) <= 0 && n.Sign() > 0 {
			if x := int(n.Num().Int64()); s.limit == 0 || x < s.limit {
				s.limit = x
			}
			return
		}
		c.ignore(keyword) // a bound that an answer hardly reaches
		return
	}
	of, x := ofLength, int(n.Num().Int64())
	if strings.HasSuffix(keyword, "Items") {
		of = ofItems
	}
	if strings.HasPrefix(keyword, "min") {
		s.least[of] = max(s.least[of], x)
	} else if s.most[of] < 0 || x < s.most[of] {
		s.most[of] = x
	}
}

// limit takes a bound of a number.
func (c *compiler) limit(s *schema, keyword string, m *value) {
	at, ok := m.rational()
	if !ok {
		c.ignore(keyword) // drafts before 6 have true and false
		return
	}
	b := &bound{at: at, open: strings.HasPrefix(keyword, "exclusive")}
	if strings.HasSuffix(strings.ToLower(keyword), "minimum") {
		if s.low == nil || b.at.Cmp(s.low.at) > 0 || b.at.Cmp(s.low.at) == 0 && b.open {
			s.low = b
		}
	} else if s.high == nil || b.at.Cmp(s.high.at) < 0 || b.at.Cmp(s.high.at) == 0 && b.open {
		s.high = b
	}
}

// bound is of a number; open ones are not reached themselves.
type bound struct {
	at   *big.Rat
	open bool
}

func (b *bound) String() string {
	if b == nil {
		return "none"
	}
	return fmt.Sprint(b.at, b.open)
}

// steps is what it costs to make the expressions of a bound.
func (b *bound) steps() int {
	if b == nil {
		return 0
	}
	return digitSteps(b.at)
}

// below says whether a number keeps a lower bound.
func (b *bound) below(x *big.Rat) bool {
	return b == nil || x.Cmp(b.at) > 0 || x.Cmp(b.at) == 0 && !b.open
}

// above says whether a number keeps an upper bound.
func (b *bound) above(x *big.Rat) bool {
	return b == nil || x.Cmp(b.at) < 0 || x.Cmp(b.at) == 0 && !b.open
}

// bounded is the numbers between bounds: those below zero by what they are without their sign, and the others.
func bounded(s *schema, fractions bool) (each []expr) {
	zero := new(big.Rat)
	if s.low == nil || s.low.at.Sign() < 0 {
		least := negated(s.high)
		if least == nil || least.at.Sign() <= 0 {
			least = &bound{zero, true}
		}
		for _, e := range magnitudes(least, negated(s.low), fractions) {
			each = append(each, seq(lit("-"), e))
		}
	}
	if s.high == nil || s.high.at.Sign() >= 0 {
		least := s.low
		if least == nil || least.at.Sign() < 0 {
			least = &bound{zero, false}
		}
		each = append(each, magnitudes(least, s.high, fractions)...)
	}
	return each
}

func negated(b *bound) *bound {
	if b == nil {
		return nil
	}
	return &bound{new(big.Rat).Neg(b.at), b.open}
}

// magnitudes is the numbers from low, which is not below zero, to high. Without high, or with one of more digits, they have up to
// wholeMax in front of the point, or one more than low. Without fractions they are whole.
func magnitudes(low, high *bound, fractions bool) (each []expr) {
	if fractions {
		each = scientific(low, high)
	}
	from, least := parts(low)
	least = least.lower()
	top := powerOfTen(max(wholeMax, len(from.String())+1))
	if high == nil || high.at.Cmp(top) > 0 {
		high = &bound{top, true}
	}
	to, most := parts(high)
	if most.digits == "" && most.open {
		to.Sub(to, big.NewInt(1))
		most = nil
	}
	if !fractions {
		if least != nil {
			from.Add(from, big.NewInt(1))
		}
		return between(from, to)
	}
	places := min(max(fractionMax, least.places()+1, most.places()+1), boundMax)
	switch from.Cmp(to) {
	case 1:
		return each
	case 0:
		return append(each, withFraction(from, least, most, places)...)
	}
	if least != nil {
		each = append(each, withFraction(from, least, nil, places)...)
		from.Add(from, big.NewInt(1))
	}
	if most != nil {
		each = append(each, withFraction(to, nil, most, places)...)
		to.Sub(to, big.NewInt(1))
	}
	if whole := between(from, to); len(whole) > 0 {
		each = append(each, seq(alt(whole...), fraction(places)))
	}
	return each
}

func powerOfTen(n int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// scientific is the numbers with an exponent between low, which is not below zero, and high: those below one, and those from
// one on, each where the bounds have all of them.
func scientific(low, high *bound) (each []expr) {
	one := powerOfTen(0)
	mantissa := seq(oneOf(span('1', '9')), fraction(fractionMax), oneOf(bytesOf("eE")))
	if low.at.Sign() == 0 && (high == nil || high.at.Cmp(one) >= 0) {
		each = append(each, seq(mantissa, lit("-"), alt(seq(oneOf(span('1', '9')), optional(digit)), seq(lit("0"), oneOf(span('1', '9'))))))
	}
	if low.below(one) && (high == nil || high.at.Cmp(powerOfTen(exponentMax+1)) >= 0) {
		each = append(each, seq(mantissa, optional(lit("+")), repeat(digit, 1, 2)))
	}
	return each
}

// fraction is a point and digits, or nothing.
func fraction(places int) expr { return optional(seq(lit("."), repeat(digit, 1, places))) }

// edge is what is left of a bound's digits behind the point. Nil is none: whatever follows keeps the bound.
type edge struct {
	digits string // without zeros at the end
	open   bool
}

// parts are the whole part of a bound that is not below zero, and its edge.
func parts(b *bound) (*big.Int, *edge) {
	whole, rest := new(big.Int).QuoRem(b.at.Num(), b.at.Denom(), new(big.Int))
	e := &edge{open: b.open}
	if rest.Sign() != 0 {
		text := new(big.Rat).SetFrac(rest, b.at.Denom()).FloatString(2 * numberMax)
		e.digits = strings.TrimRight(text[len("0."):], "0")
	}
	return whole, e
}

// lower is the edge of a lower bound, which is kept when all its digits are there.
func (e *edge) lower() *edge {
	if e != nil && e.digits == "" && !e.open {
		return nil
	}
	return e
}

func (e *edge) places() int {
	if e == nil {
		return 0
	}
	return len(e.digits)
}

func (e *edge) first() byte {
	if e.digits == "" {
		return '0'
	}
	return e.digits[0]
}

// behind is the edge behind its first digit.
func (e *edge) behind() *edge {
	if e == nil {
		return nil
	}
	return &edge{e.digits[min(1, len(e.digits)):], e.open}
}

// ends says whether a number may have no more digits.
func ends(lower, upper *edge) bool {
	return lower == nil && (upper == nil || upper.digits != "" || !upper.open)
}

// withFraction is a whole part with the fractions between two edges.
func withFraction(whole *big.Int, lower, upper *edge, places int) []expr {
	tail := tails(lower, upper, places)
	switch {
	case len(tail) == 0 && !ends(lower, upper):
		return nil
	case len(tail) == 0:
		return []expr{lit(whole.String())}
	}
	e := seq(lit("."), alt(tail...))
	if ends(lower, upper) {
		e = optional(e)
	}
	return []expr{seq(lit(whole.String()), e)}
}

// tails is one digit or more, left at most, between two edges.
func tails(lower, upper *edge, left int) (each []expr) {
	if left == 0 {
		return nil
	}
	if lower == nil && upper == nil {
		return []expr{repeat(digit, 1, left)}
	}
	add := func(from, to byte, lower, upper *edge) {
		e := oneOf(span(from, to))
		rest := tails(lower, upper, left-1)
		switch {
		case len(rest) > 0 && ends(lower, upper):
			e = seq(e, optional(alt(rest...)))
		case len(rest) > 0:
			e = seq(e, alt(rest...))
		case !ends(lower, upper):
			return
		}
		each = append(each, e)
	}
	from, to := byte('0'), byte('9')
	if lower != nil {
		from = lower.first()
	}
	if upper != nil {
		to = upper.first()
	}
	if from == to {
		add(from, to, lower.behind().lower(), upper.behind())
	}
	if from >= to {
		return each
	}
	if lower != nil {
		add(from, from, lower.behind().lower(), nil)
		from++
	}
	if upper != nil {
		add(to, to, nil, upper.behind())
		to--
	}
	if from <= to {
		add(from, to, nil, nil)
	}
	return each
}

// between is the whole numbers from low, which is not below zero, to high.
func between(low, high *big.Int) (each []expr) {
	for n := 1; ; n++ { // of n digits, which begin with 0 only alone
		from, to := new(big.Int), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
		if n > 1 {
			from.Exp(big.NewInt(10), big.NewInt(int64(n-1)), nil)
		}
		if from.Cmp(high) > 0 {
			return each
		}
		to.Sub(to, big.NewInt(1))
		if from.Cmp(low) < 0 {
			from = low
		}
		if to.Cmp(high) > 0 {
			to = high
		}
		if from.Cmp(to) <= 0 {
			each = append(each, digits(from.String(), to.String()))
		}
	}
}

// digits is the texts of digits between two of equal length.
func digits(low, high string) expr {
	if low == "" {
		return seq()
	}
	n := len(low) - 1
	zeros, nines := strings.Repeat("0", n), strings.Repeat("9", n)
	if low[0] == high[0] {
		return seq(lit(low[:1]), digits(low[1:], high[1:]))
	}
	if low[1:] == zeros && high[1:] == nines {
		return seq(oneOf(span(low[0], high[0])), repeat(digit, n, n))
	}
	options := []expr{seq(lit(low[:1]), digits(low[1:], nines)), seq(lit(high[:1]), digits(zeros, high[1:]))}
	if high[0]-low[0] > 1 {
		options = append(options, seq(oneOf(span(low[0]+1, high[0]-1)), repeat(digit, n, n)))
	}
	return alt(options...)
}
