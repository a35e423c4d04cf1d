package scan

import (
	"strconv"
	"strings"
)

// Problem says what is wrong with a text.
type Problem uint8

const (
	None      Problem = iota // the text is good so far
	Syntax                   // a byte that cannot stand there
	Truncated                // the text ends within a value
	UTF8                     // bytes that are no UTF-8
	Surrogate                // \u escapes with half of a surrogate pair
	TooDeep                  // more than DepthMax levels
	Trailing                 // something after the value
	stopped                  // no problem: Stop ended the walk
)

var problems = [...]string{
	"no error", "invalid syntax", "it ends early", "invalid UTF-8", "half of a surrogate pair",
	"more than 128 levels of nesting", "something follows its end", "no error",
}

// Error is what is wrong with a text, and at which byte of it.
type Error struct {
	What   Problem
	Offset int
}

// Error says it for a client: "invalid syntax at byte 12".
func (e *Error) Error() string {
	if e.What == Truncated {
		return problems[Truncated]
	}
	return problems[e.What] + " at byte " + strconv.Itoa(e.Offset)
}

// Err is the first error of the text, nil as long as there is none.
func (s *Scanner) Err() *Error {
	if s.err.What == None || s.err.What == stopped {
		return nil
	}
	e := s.err
	return &e
}

// Stop ends the walk, for a caller that found an error of its own: what follows
// is as after an error of the text, but Err does not change.
func (s *Scanner) Stop() { s.fail(s.at, stopped) }

// fail keeps the first error and returns false. Past the text's end the error
// is that it ends.
func (s *Scanner) fail(at int, what Problem) bool {
	if s.err.What == None {
		if at >= len(s.text) && what != stopped {
			what = Truncated
		}
		s.err = Error{What: what, Offset: at}
	}
	s.due = false
	return false
}

// Path says where the scanner stands: the names and numbers of what is open,
// such as "messages.3.content". It stays at a value that was read until the next
// Next, and at an array or object that was walked to its end. Empty at the top.
// Of a longer path it is the first 1,024 bytes or so: names are the text's.
func (s *Scanner) Path() string { return s.path(0) }

// path is Path from a level on.
func (s *Scanner) path(base int) string {
	var path []byte
	for i := base; i < s.depth; i++ {
		l := &s.levels[i]
		if l.index < 0 {
			break
		}
		if i > base {
			path = append(path, '.')
		}
		if l.array {
			path = strconv.AppendInt(path, int64(l.index), 10)
		} else {
			path = Unescape(path, s.text[l.name.from:min(l.name.to, l.name.from+pathBytesMax)])
		}
		if len(path) > pathBytesMax {
			path = path[:pathBytesMax]
			break
		}
	}
	return strings.ToValidUTF8(string(path), "") // a character that was cut
}

// pathBytesMax bounds what Path builds.
const pathBytesMax = 1 << 10
