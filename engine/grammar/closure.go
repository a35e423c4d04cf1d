package grammar

import "fmt"

// closureMax is how many states may follow one without a byte. A matcher follows them all for
// every byte that leads there. Lists share their beginnings, and a schema of as many members as
// fit has less; a pattern in which everything is optional may have more.
const closureMax = 10_000

// narrow refuses a grammar in which more follow. The states of a rule are made back to front, so
// that most of them have been met when their turn comes.
func (b *builder) narrow() {
	c := closures{builder: b, met: make([]int32, len(b.states))}
	c.empty = make([]bool, len(b.entries))
	for more := true; more && b.err == nil; {
		more = false
		for rule := len(b.entries) - 1; rule >= 0; rule-- {
			if !c.empty[rule] && c.follow(b.entries[rule], false) {
				c.empty[rule], more = true, true
			}
		}
	}
	clear(c.met)
	for at := len(b.states) - 1; at >= 0 && b.err == nil; at-- {
		if kind := b.states[at].kind; c.met[at] == 0 && (kind == kindSplit || kind == kindCall) {
			c.follow(int32(at), true)
		}
	}
}

// closures follows states as a matcher does, but for what comes behind the rule that they are in.
type closures struct {
	*builder
	empty []bool  // the rules that need no byte, as far as known
	met   []int32 // by state: in which round last
	round int32
	work  []int32
}

// follow counts what follows a state, also in the rules that are called if those are entered, and
// says whether its own rule may end there, for which they are not.
func (c *closures) follow(from int32, enter bool) (ends bool) {
	c.round++
	c.work = append(c.work[:0], from)
	n := 0
	for len(c.work) > 0 {
		at := c.work[len(c.work)-1]
		c.work = c.work[:len(c.work)-1]
		if c.met[at] == c.round {
			continue
		}
		c.met[at] = c.round
		if n++; n > closureMax {
			c.large = true
			c.fail(&Error{Tool: -1, Msg: fmt.Sprintf(
				"the schema is too large: at one place of its grammar more than %d states would be open at once", closureMax)})
			return false
		}
		switch s := &c.states[at]; s.kind {
		case kindSplit:
			c.work = append(c.work, s.split...)
		case kindCall:
			if enter {
				c.work = append(c.work, c.entries[s.rule])
			}
			if c.empty[s.rule] {
				c.work = append(c.work, s.next)
			}
		case kindEnd:
			ends = true
		}
	}
	c.spend(n / stepWork)
	return ends
}
