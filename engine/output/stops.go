package output

import "bytes"

// IgnoreStops says whether the pieces that follow are of an answer that has to be longer:
// a stop sequence that ends in them is text. One that begins in them may end behind them.
func (p *Parser) IgnoreStops(ignore bool) { p.ignoreStops = ignore }

// find finds the first match in buf that ends behind past bytes of it. None begins in what is known to be blank: what a marker
// begins with is held behind that.
func (p *Parser) find(markers []string, past int) (at int, marker string) {
	at, marker = firstMatch(p.buf[p.blank:], markers, past-p.blank)
	return p.blank + at, marker
}

// firstMatch finds the marker that is complete first behind past bytes; of several that end
// together, the longest. It returns "" if there is none.
func firstMatch(buf []byte, markers []string, past int) (at int, marker string) {
	end := len(buf) + 1
	for _, m := range markers {
		begin, limit := max(0, past-len(m)+1), min(len(buf), end) // a match that ends later does not count
		i := bytes.Index(buf[begin:limit], []byte(m))
		if i < 0 {
			continue
		}
		if i += begin; i+len(m) < end || len(m) > len(marker) {
			at, marker, end = i, m, i+len(m)
		}
	}
	return at, marker
}

// heldSuffix returns the length of the longest end of buf that one of the markers starts with.
func heldSuffix(buf []byte, markers []string) int {
	longest := 0
	for _, m := range markers {
		for n := min(len(m)-1, len(buf)); n > longest; n-- {
			if string(buf[len(buf)-n:]) == m[:n] {
				longest = n
			}
		}
	}
	return longest
}
