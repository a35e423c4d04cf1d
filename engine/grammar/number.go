package grammar

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

const (
	wholeMax    = 15  // digits of a whole number, or in front of the point
	fractionMax = 15  // digits behind the point
	boundedMax  = 6   // likewise, where a number has bounds
	numberMax   = 320 // digits, or the exponent, of a number of a schema
)

var digit = oneOf(span('0', '9'))

// number is a JSON number, whole unless others are allowed.
func (c *compiler) number(s *schema) expr {
	fractions := s.types&typeNumber != 0
	if s.low != nil || s.high != nil {
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
		return closable(seq(whole, optional(seq(lit("."), repeat(digit, 1, fractionMax))), optional(exponent)), 0)
	})
}

// rational reads a JSON number; not one that is too long or too large to reckon with.
func rational(raw string) (*big.Rat, bool) {
	if at := strings.IndexAny(raw, "eE"); at >= 0 {
		if e, err := strconv.Atoi(raw[at+1:]); err != nil || e < -numberMax || e > numberMax {
			return nil, false
		}
	}
	if raw == "" || len(raw) > numberMax {
		return nil, false
	}
	return new(big.Rat).SetString(raw)
}

func (b *bound) String() string {
	if b == nil {
		return "none"
	}
	return fmt.Sprint(b.at, b.open)
}

// below says whether a number keeps a lower bound.
func (b *bound) below(x *big.Rat) bool {
	return b == nil || x.Cmp(b.at) > 0 || x.Cmp(b.at) == 0 && !b.open
}

// above says whether a number keeps an upper bound.
func (b *bound) above(x *big.Rat) bool {
	return b == nil || x.Cmp(b.at) < 0 || x.Cmp(b.at) == 0 && !b.open
}

// bounded is the numbers between bounds, for each number of digits behind the point:
// with d of them they are the whole numbers between the bounds times 10^d.
func bounded(s *schema, fractions bool) (each []expr) {
	most := 0
	if fractions {
		most = boundedMax
	}
	for d := 0; d <= most; d++ {
		scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d)), nil))
		limit := new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(wholeMax+d)), nil), big.NewInt(1))
		var low, high *big.Int
		if s.low != nil {
			low = ceil(new(big.Rat).Mul(s.low.at, scale), s.low.open)
		}
		if s.high != nil { // the highest number is minus the lowest of the negated
			high = ceil(new(big.Rat).Neg(new(big.Rat).Mul(s.high.at, scale)), s.high.open)
			high.Neg(high)
		}
		high = capped(high, low, limit)
		low = negative(capped(negative(low), negative(high), limit))
		each = append(each, between(low, high, d)...)
	}
	return each
}

// capped is an upper bound that leaves out numbers with too many digits, if there are others.
func capped(high, low, limit *big.Int) *big.Int {
	most := limit
	if low != nil && low.Cmp(limit) > 0 {
		most = new(big.Int).Mul(low, big.NewInt(10))
	}
	if high == nil || high.Cmp(most) > 0 {
		return most
	}
	return high
}

func negative(n *big.Int) *big.Int {
	if n == nil {
		return nil
	}
	return new(big.Int).Neg(n)
}

// ceil is the least whole number from x on, or above it.
func ceil(x *big.Rat, above bool) *big.Int {
	n, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() != 0 || above {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// between is the whole numbers from low to high, written with a point in front of
// the last d digits.
func between(low, high *big.Int, d int) (each []expr) {
	if low.Cmp(high) > 0 {
		return nil
	}
	if low.Sign() < 0 {
		to := new(big.Int).Neg(high)
		if to.Sign() <= 0 {
			to.SetInt64(1)
		}
		each = between(to, new(big.Int).Neg(low), d)
		for i, e := range each {
			each[i] = seq(lit("-"), e)
		}
	}
	if high.Sign() < 0 {
		return each
	}
	if low.Sign() < 0 {
		low = new(big.Int)
	}
	for n := d + 1; ; n++ { // of n digits, which begin with 0 only in front of the point
		from, to := new(big.Int), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
		if n > d+1 {
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
			each = append(each, digits(padded(from, n), padded(to, n), n-d))
		}
	}
}

func padded(n *big.Int, width int) string {
	text := n.String()
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// digits is the texts of digits between two of equal length; a point follows the
// first point of them, if any are left then.
func digits(low, high string, point int) expr {
	if low == "" {
		return seq()
	}
	rest := func(low, high string) expr {
		e := digits(low, high, point-1)
		if point == 1 && low != "" {
			return seq(lit("."), e)
		}
		return e
	}
	n := len(low) - 1
	zeros, nines := strings.Repeat("0", n), strings.Repeat("9", n)
	if low[0] == high[0] {
		return seq(lit(low[:1]), rest(low[1:], high[1:]))
	}
	if low[1:] == zeros && high[1:] == nines {
		return seq(oneOf(span(low[0], high[0])), anyDigits(n, point-1))
	}
	options := []expr{seq(lit(low[:1]), rest(low[1:], nines)), seq(lit(high[:1]), rest(zeros, high[1:]))}
	if high[0]-low[0] > 1 {
		options = append(options, seq(oneOf(span(low[0]+1, high[0]-1)), anyDigits(n, point-1)))
	}
	return alt(options...)
}

// anyDigits is n digits of any kind, with a point after the first point of them.
func anyDigits(n, point int) expr {
	if n == 0 {
		return seq()
	}
	if point < 0 || point >= n {
		return repeat(digit, n, n)
	}
	return seq(repeat(digit, point, point), lit("."), repeat(digit, n-point, n-point))
}
