package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Marks make content safe inside a rendered prompt. They are noncharacters,
// which Unicode reserves for such private use of a program.
//
// guard is inserted where a special token must not be read; any number of them
// in a row mean the same. escape begins the two-character forms in which
// content's own U+FDD0 and U+FDD1 travel, so that removing the marks gives
// back any content exactly.
const (
	guard         = "\uFDD0"
	escape        = "\uFDD1"
	escapedGuard  = escape + "\uFDD2"
	escapedEscape = escape + "\uFDD3"
	markPrefix    = "\xef\xb7" // the first bytes of all of them: a quick test
)

const (
	specialBytesMax  = 1024    // of the name of a special token
	specialsBytesMax = 4 << 20 // of all names together; a table of what is left of each takes 16 times as much
)

var unprotect = strings.NewReplacer(escapedGuard, guard, escapedEscape, escape, guard, "")

// specialSet finds the names of special tokens in text, leftmost first and the
// longest where several begin.
type specialSet struct {
	names   []string         // in id order
	ids     map[string]int32 // by name
	trie    []specialNode    // 0 is the root
	first   [256]bool        // bytes that names begin with
	oneByte int              // the only such byte, -1 when there are several or none
	longest int              // bytes
	tails   []string         // what is left of names behind each of their beginnings: see shortest
}

// specialNode is a node of the trie of names. Children of a node are a list: most
// have one or two.
type specialNode struct {
	id          int32 // of the name that ends here, -1 = none
	child, next int32 // first child, next child of the same parent; 0 = none
	byte        byte  // leads here from the parent
}

// build collects the tokens of some kinds. Of two with one name the first stays.
func (s *specialSet) build(tokens []string, kinds []uint8, which ...uint8) error {
	s.ids, s.trie = map[string]int32{}, []specialNode{{id: -1}}
	bytes := 0
	for id, name := range tokens {
		if !slices.Contains(which, kinds[id]) || name == "" {
			continue
		}
		if _, dup := s.ids[name]; dup {
			continue
		}
		if len(name) > specialBytesMax || !utf8.ValidString(name) || strings.Contains(name, markPrefix) {
			return fmt.Errorf("special token %d (%.40q) is too long, not UTF-8 or has a character that guards content", id, name)
		}
		if bytes += len(name); bytes > specialsBytesMax {
			return fmt.Errorf("the names of the special tokens have more than %d bytes together", specialsBytesMax)
		}
		s.ids[name] = int32(id)
		s.names = append(s.names, name)
		s.longest = max(s.longest, len(name))
		s.addPath(name, int32(id))
	}
	s.tails = make([]string, 0, bytes)
	for _, name := range s.names {
		for k := 1; k < len(name); k++ {
			s.tails = append(s.tails, name[k:])
		}
	}
	s.tails = shortest(s.tails)
	s.oneByte = onlyByte(s.first)
	return nil
}

// shortest sorts texts and leaves out those that begin with another one: what begins with
// them, or what they begin with, is so of that one too.
func shortest(texts []string) []string {
	slices.Sort(texts)
	var all []string
	for _, text := range texts {
		if len(all) == 0 || !strings.HasPrefix(text, all[len(all)-1]) {
			all = append(all, text)
		}
	}
	return slices.Clip(all)
}

// onlyByte returns the one member of set, -1 when there is not exactly one.
func onlyByte(set [256]bool) int {
	only := -1
	for b, ok := range set {
		if ok && only >= 0 {
			return -1
		}
		if ok {
			only = b
		}
	}
	return only
}

func (s *specialSet) addPath(name string, id int32) {
	s.first[name[0]] = true
	node := int32(0)
	for i := range len(name) {
		child := s.step(node, name[i])
		if child == 0 {
			child = int32(len(s.trie))
			s.trie = append(s.trie, specialNode{id: -1, next: s.trie[node].child, byte: name[i]})
			s.trie[node].child = child
		}
		node = child
	}
	s.trie[node].id = id
}

// step returns the child of a node that a byte leads to, 0 when there is none.
func (s *specialSet) step(node int32, b byte) int32 {
	child := s.trie[node].child
	for child != 0 && s.trie[child].byte != b {
		child = s.trie[child].next
	}
	return child
}

// candidate returns the first offset from i on where a name may begin, -1 if none.
func (s *specialSet) candidate(text string, i int) int {
	if s.oneByte >= 0 {
		if at := strings.IndexByte(text[i:], byte(s.oneByte)); at >= 0 {
			return i + at
		}
		return -1
	}
	if len(s.names) == 0 {
		return -1
	}
	for ; i < len(text); i++ {
		if s.first[text[i]] {
			return i
		}
	}
	return -1
}

// matchAt returns the longest name at the start of text; length 0 for none.
// cut is true when text ends where a name could still go on.
func (s *specialSet) matchAt(text string) (id int32, length int, cut bool) {
	node := int32(0)
	for i := range len(text) {
		if node = s.step(node, text[i]); node == 0 {
			return id, length, false
		}
		if end := s.trie[node].id; end >= 0 {
			id, length = end, i+1
		}
	}
	return id, length, s.trie[node].child != 0
}

// guardedSingle reports whether text[:n] is one character with a guard after
// it: a guard cannot stand inside a name of one character.
func guardedSingle(text string, n int) bool {
	return n <= utf8.UTFMax && strings.HasPrefix(text[n:], guard) && utf8.RuneCountInString(text[:n]) == 1
}

// next finds the first special token; end is 0 if there is none.
func (s *specialSet) next(text string) (id int32, start, end int) {
	for i := 0; ; {
		at := s.candidate(text, i)
		if at < 0 {
			return 0, 0, 0
		}
		if id, n, _ := s.matchAt(text[at:]); n > 0 && !guardedSingle(text[at:], n) {
			return id, at, at + n
		}
		i = at + 1
	}
}

// opens reports whether text ends with the beginning of a name, which the text
// after it could complete.
func (s *specialSet) opens(text string) bool {
	for i := max(0, len(text)-s.longest); i < len(text); i++ {
		if i = s.candidate(text, i); i < 0 {
			return false
		}
		if _, _, cut := s.matchAt(text[i:]); cut {
			return true
		}
	}
	return false
}

// closes reports whether text begins with, or all of it is, a part of a name
// after the name's beginning, which the text before it could complete. No tail begins with another, so
// that one of which text is a beginning is the first behind it, and one with which it begins the last before.
func (s *specialSet) closes(text string) bool {
	if text == "" {
		return false
	}
	at, _ := slices.BinarySearch(s.tails, text)
	return at < len(s.tails) && strings.HasPrefix(s.tails[at], text) || at > 0 && strings.HasPrefix(text, s.tails[at-1])
}

// EncodePrompt appends the ids of a rendered chat template to dst. Specials
// become their tokens, leftmost first and the longest where several begin; the
// text between them is encoded as content after its guards are removed.
func (t *Tokenizer) EncodePrompt(dst []int32, text string) []int32 {
	return t.EncodePromptMax(dst, text, math.MaxInt)
}

// EncodePromptMax is EncodePrompt that stops, a little later, once dst has more
// than most ids.
func (t *Tokenizer) EncodePromptMax(dst []int32, text string, most int) []int32 {
	for whole := true; len(dst) <= most; whole = false {
		id, start, end := t.specials.next(text)
		if end == 0 {
			return t.encodePart(dst, t.Unprotect(text), most, whole)
		}
		before := text[:start]
		text = text[end:]
		if strip, ok := t.strips[id]; ok {
			if strip.Left {
				before = strings.TrimRightFunc(before, unicode.IsSpace)
			}
			if strip.Right {
				text = strings.TrimLeftFunc(text, unicode.IsSpace)
			}
		}
		dst = append(t.encodePart(dst, t.Unprotect(before), most, whole), id)
	}
	return dst
}

// Protect marks content so that EncodePrompt reads no special token in it, nor
// one that it would make together with the text around it, trimmed or not:
// EncodePrompt of Protect(s) gives what Encode of s gives, and trimming before
// or after comes to the same. Content that needs no mark is returned as it is,
// without allocating.
func (t *Tokenizer) Protect(content string) string {
	trimmed := strings.TrimFunc(content, isSpace) // templates trim, which moves the edges
	var edges []int                               // where a guard keeps content and what is around it apart
	lead := strings.Index(content, trimmed)
	if t.specials.closes(content) {
		edges = append(edges, 0)
	}
	if lead > 0 && t.specials.closes(trimmed) {
		edges = append(edges, lead)
	}
	end := lead + len(trimmed)
	if end < len(content) && t.specials.opens(trimmed) {
		edges = append(edges, end)
	}
	if t.specials.opens(content) {
		edges = append(edges, len(content))
	}
	if _, _, special := t.specials.next(content); len(edges) == 0 && special == 0 && !strings.Contains(content, markPrefix) {
		return content
	}
	return t.specials.protect(content, edges)
}

// isSpace is what Python's str.strip takes off, and with it the templates.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// protect returns text with a guard at each of edges and after the first
// character of every place where a name begins, overlapping ones included, and
// with its own marks escaped. Edges are ascending and between characters.
func (s *specialSet) protect(text string, edges []int) string {
	var b strings.Builder
	names := 4
	if s.oneByte >= 0 { // so a text full of names is not copied again and again
		names += strings.Count(text, string(rune(s.oneByte)))
	}
	b.Grow(len(text) + names*len(guard))
	done := 0
	put := func(upTo, next int, mark string) {
		b.WriteString(text[done:upTo])
		b.WriteString(mark)
		done = next
	}
	for i := 0; i < len(text); {
		for ; len(edges) > 0 && edges[0] == i; edges = edges[1:] {
			put(i, i, guard)
		}
		r, width := utf8.DecodeRuneInString(text[i:])
		switch r {
		case '\uFDD0':
			put(i, i+width, escapedGuard)
		case '\uFDD1':
			put(i, i+width, escapedEscape)
		}
		if s.first[text[i]] {
			if _, n, _ := s.matchAt(text[i:]); n > 0 {
				put(i+width, i+width, guard)
			}
		}
		i += width
	}
	b.WriteString(text[done:])
	for range edges { // at the end
		b.WriteString(guard)
	}
	return b.String()
}

// Unprotect removes the marks of Protect.
func (t *Tokenizer) Unprotect(text string) string {
	if !strings.Contains(text, markPrefix) {
		return text
	}
	return unprotect.Replace(text)
}
