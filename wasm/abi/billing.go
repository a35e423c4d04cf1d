package abi

import (
	"bytes"
	"encoding/binary"
)

// Prices are what a model's tokens cost, in nano-dollars each.
type Prices struct {
	Input  Nano // a prompt token that was computed, or written to the cache
	Cached Nano // a prompt token that was served from the prefix cache
	Output Nano // a produced token, reasoning included
}

// QuoteInput is the input of OpQuote: the most a request may use.
type QuoteInput struct {
	Prices    Prices
	Input     int64 // prompt tokens, of which any part may come from the cache
	OutputMax int64
	At        int64 // when the request came, Unix seconds
	Model     string
	Account   string
}

const quoteTag, chargeTag = "quote/1\x00", "charge/2"

// Append encodes in.
func (in QuoteInput) Append(dst []byte) []byte {
	dst = append(dst, quoteTag...)
	dst = appendInts(dst, int64(in.Prices.Input), int64(in.Prices.Cached), int64(in.Prices.Output), in.Input, in.OutputMax, in.At)
	return append(appendText(dst, in.Model), in.Account...)
}

// ParseQuoteInput decodes a QuoteInput, which aliases b.
func ParseQuoteInput(b []byte) (in QuoteInput, err error) {
	c := cursor{b: b}
	c.tag(quoteTag)
	in.Prices = c.prices()
	in.Input, in.OutputMax, in.At = c.i64(), c.i64(), c.i64()
	in.Model = c.aliasedText()
	in.Account = c.aliasedRest()
	return in, c.err
}

func (c *cursor) prices() (p Prices) {
	p.Input, p.Cached, p.Output = Nano(c.i64()), Nano(c.i64()), Nano(c.i64())
	return p
}

// Quote is the output of OpQuote: no charge for the request is above Upper, and
// an account that has less than Minimum is refused.
type Quote struct {
	Upper, Minimum Nano
	// Takes is what the request may take of the module's counters, in the order of its
	// manifest. CoveredUpper and CoveredMinimum bound the charge instead where the request
	// gets Max of every counter.
	Takes                        []Take
	CoveredUpper, CoveredMinimum Nano
}

// Append encodes q.
func (q Quote) Append(dst []byte) []byte {
	dst = appendInts(dst, int64(q.Upper), int64(q.Minimum))
	if len(q.Takes) == 0 {
		return dst
	}
	dst = appendU32(appendInts(dst, int64(q.CoveredUpper), int64(q.CoveredMinimum)), uint32(len(q.Takes)))
	for _, t := range q.Takes {
		dst = appendInts(dst, t.Limit, t.Max)
	}
	return dst
}

// ParseQuote decodes a Quote.
func ParseQuote(b []byte) (q Quote, err error) {
	c := cursor{b: b}
	q.Upper, q.Minimum = Nano(c.i64()), Nano(c.i64())
	if c.err != nil || len(c.b) == 0 {
		return q, c.err
	}
	q.CoveredUpper, q.CoveredMinimum = Nano(c.i64()), Nano(c.i64())
	n := c.u32()
	if n == 0 || n > CountersMax {
		return Quote{}, ErrMalformed
	}
	for range n {
		q.Takes = append(q.Takes, Take{Limit: c.i64(), Max: c.i64()})
	}
	return q, c.end()
}

// ChargeInput is the input of OpCharge. Its encoding is kept with the charge
// and is what the charge's input hash is of.
type ChargeInput struct {
	Prices  Prices
	Usage   Usage
	At      int64 // the same as in the quote
	Model   string
	Account string
	// Held is what the request has of the module's counters, at most what the quote said.
	Held []int64
}

// Append encodes in.
func (in ChargeInput) Append(dst []byte) []byte {
	tag := chargeTag
	if len(in.Held) > 0 {
		tag = chargeCountersTag
	}
	dst = append(dst, tag...)
	dst = appendInts(dst, int64(in.Prices.Input), int64(in.Prices.Cached), int64(in.Prices.Output))
	dst = appendInts(appendUsage(dst, in.Usage), in.At)
	if len(in.Held) > 0 {
		dst = appendCounts(dst, in.Held)
	}
	return append(appendText(dst, in.Model), in.Account...)
}

// ParseChargeInput decodes a ChargeInput, which aliases b.
func ParseChargeInput(b []byte) (in ChargeInput, err error) {
	c := cursor{b: b}
	counted := bytes.HasPrefix(b, []byte(chargeCountersTag))
	if counted {
		c.tag(chargeCountersTag)
	} else {
		c.tag(chargeTag)
	}
	in.Prices = c.prices()
	u := &in.Usage
	u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning = c.i64(), c.i64(), c.i64(), c.i64(), c.i64()
	in.At = c.i64()
	if counted {
		in.Held = c.counts()
	}
	in.Model = c.aliasedText()
	in.Account = c.aliasedRest()
	return in, c.err
}

// Line is one item of a charge.
type Line struct {
	Unit   string // such as "input", "cached_input", "output"; at most UnitBytes
	Tokens int64
	Price  Nano // of one token
	Amount Nano
}

// UnitBytes is the room for a line's unit, LinesMax the most lines of a charge.
const (
	UnitBytes = 16
	LinesMax  = 16
)

// Charge is the output of OpCharge. The host adds the lines up again.
type Charge struct {
	Total Nano
	Tier  int // which rates applied; 1 = plain
	Lines []Line
	// Taken is what of ChargeInput.Held is used up; the rest goes back.
	Taken []int64
}

// Append encodes ch.
func (ch Charge) Append(dst []byte) []byte {
	dst = appendInts(dst, int64(ch.Total))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(ch.Tier))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(ch.Lines)))
	for _, l := range ch.Lines {
		var unit [UnitBytes]byte
		copy(unit[:], l.Unit)
		dst = appendInts(append(dst, unit[:]...), l.Tokens, int64(l.Price), int64(l.Amount))
	}
	if len(ch.Taken) > 0 {
		dst = appendCounts(dst, ch.Taken)
	}
	return dst
}

// ParseCharge decodes a Charge. It checks the layout only; what the numbers
// must satisfy is the host's rule.
func ParseCharge(b []byte) (ch Charge, err error) {
	c := cursor{b: b}
	ch.Total = Nano(c.i64())
	ch.Tier = int(int32(c.u32()))
	n := c.u32()
	if n > LinesMax {
		return Charge{}, ErrMalformed
	}
	if n > 0 {
		ch.Lines = make([]Line, n)
	}
	for i := range ch.Lines {
		unit, _, _ := bytes.Cut(c.take(UnitBytes), []byte{0})
		ch.Lines[i] = Line{Unit: string(unit), Tokens: c.i64(), Price: Nano(c.i64()), Amount: Nano(c.i64())}
	}
	if c.err == nil && len(c.b) > 0 {
		ch.Taken = c.counts()
	}
	if err := c.end(); err != nil {
		return Charge{}, err
	}
	return ch, nil
}

// ChargeMax bounds what a request may be quoted and charged: a million dollars.
// None costs that much, but a policy that counts in a wrong unit may say so; and
// thousands of such sums still fit an int64, as balances and holds must.
const ChargeMax Nano = 1e15
