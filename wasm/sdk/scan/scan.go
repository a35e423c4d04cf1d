// Package scan reads JSON text in place, for modules: it builds no values,
// keeps no maps and takes no memory but for names and strings with escapes in
// them. A Scanner walks forward through one text:
//
//	var s scan.Scanner
//	s.Reset(body)
//	if s.Kind() != scan.Object { ... }
//	for s.Open(); s.Next(); {
//		switch string(s.Key()) {
//		case "model":
//			model, ok = s.Text()
//		}
//	}
//	if !s.End() { ... s.Err() ... }
//
// At any time it stands before one value, or past the last one. Reading a value
// checks it in full against RFC 8259 with strict UTF-8 and whole surrogate
// pairs; a value that nobody reads is checked all the same when Next passes
// it. A read of the wrong kind consumes nothing and returns false. The first
// error of the text itself sticks: from then on there are no more members and
// every read returns false, so that code reads straight on and asks Err once.
//
// Loops go over eight bytes at a time and calls are few, since both are what a
// Go guest is slow at.
package scan

// DepthMax is how many arrays and objects may stand inside each other.
const DepthMax = 128

// Kind is what a JSON value is.
type Kind uint8

const (
	// Invalid is no value: the text has an error there, or it is over.
	Invalid Kind = iota
	Null         // null
	Bool         // true or false
	Number       // in the syntax of JSON
	String       // with its escapes
	Object       // members by name
	Array        // items in order
)

var kindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}

// String names the kind as an error message would: "a string".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Invalid]
}

// kinds says what value a byte begins.
var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '{': Object, '[': Array, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// level is one array or object that is open.
type level struct {
	name  span // of the member the scanner stands in, as it is in the text
	index int  // of the element or member the scanner stands in; -1 before the first
	array bool
}

type span struct{ from, to int }

// Scanner walks through a JSON text. The zero value is one after Reset(nil).
// It is no small value: keep it where it is used again.
type Scanner struct {
	text  []byte
	at    int  // where the next byte is read
	due   bool // a value begins at at and was not read
	depth int  // levels in use; the innermost is levels[depth-1]
	err   Error
	// escaped says that the last string or name has an escape in it.
	escaped bool
	levels  [DepthMax]level
	names   [][]byte // room for Duplicate
}

// Reset starts over before the one value that text is. The scanner never
// writes to text; what it returns aliases it.
func (s *Scanner) Reset(text []byte) {
	s.text, s.at, s.depth, s.err = text, space(text, 0), 0, Error{}
	s.due = true
}

// Kind is the kind of the value the scanner stands before.
func (s *Scanner) Kind() Kind {
	if !s.due {
		return Invalid
	}
	if s.at < len(s.text) {
		if k := kinds[s.text[s.at]]; k != Invalid {
			return k
		}
	}
	s.fail(s.at, Syntax)
	return Invalid
}

// Open steps into the array or object the scanner stands before: Next goes to
// its members. False when it stands before something else.
func (s *Scanner) Open() bool {
	k := s.Kind()
	if k != Object && k != Array {
		return false
	}
	if s.depth == DepthMax {
		s.fail(s.at, TooDeep)
		return false
	}
	s.levels[s.depth] = level{index: -1, array: k == Array}
	s.depth++
	s.at++
	s.due = false
	return true
}

// Next goes to the next element or member of the innermost array or object
// that is open, past a value that was not read. At its end it steps out of it
// and returns false. Walk each one to its end: an error ends every loop.
func (s *Scanner) Next() bool {
	if s.due {
		s.Skip()
	}
	if s.depth == 0 || s.err.What != None {
		return false
	}
	l := &s.levels[s.depth-1]
	b := s.text
	i := space(b, s.at)
	if i == len(b) {
		return s.fail(i, Truncated)
	}
	if b[i] == closing(l.array) {
		s.depth--
		s.at = i + 1
		return false
	}
	if l.index >= 0 {
		if b[i] != ',' {
			return s.fail(i, Syntax)
		}
		i = space(b, i+1)
	}
	l.index++
	if !l.array {
		from := i + 1
		end := s.name(i)
		if end < 0 {
			return false
		}
		l.name = span{from, end}
		if i = space(b, end+1); i == len(b) || b[i] != ':' {
			return s.fail(i, Syntax)
		}
		i = space(b, i+1)
	}
	s.at, s.due = i, true
	return true
}

func closing(array bool) byte {
	if array {
		return ']'
	}
	return '}'
}

// NextMember is Next past members that are null, which protocols take for absent. A loop that refuses
// unknown names even then calls Next.
func (s *Scanner) NextMember() bool {
	for s.Next() {
		if !s.Null() {
			return true
		}
	}
	return false
}

// Key is the name of the member that Next went to, without escapes. It is
// asked for before the value is read.
func (s *Scanner) Key() []byte {
	if s.depth == 0 {
		return nil
	}
	n := s.levels[s.depth-1].name
	raw := s.text[n.from:n.to]
	if s.escaped {
		return Unescape(nil, raw)
	}
	return raw
}

// Index is the number of the element or member that Next went to, from 0.
func (s *Scanner) Index() int {
	if s.depth == 0 {
		return 0
	}
	return s.levels[s.depth-1].index
}

// End says whether the text is over and was valid. It is asked after the last
// value; what follows that value is an error.
func (s *Scanner) End() bool {
	if s.due {
		s.Skip()
	}
	if s.err.What != None {
		return false
	}
	if i := space(s.text, s.at); i != len(s.text) {
		return s.fail(i, Trailing)
	}
	return true
}

// space returns where the first byte that is no white space stands, from i on.
func space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
