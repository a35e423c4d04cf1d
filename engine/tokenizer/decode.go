package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns a copy of the bytes that a token stands for, which need not be
// whole characters. Control, unknown and unused tokens stand for nothing;
// user-defined ones (<think>, <tool_call>) for their name.
func (t *Tokenizer) Bytes(id int32) []byte {
	if s := t.visible(id); s != "" {
		return []byte(s)
	}
	return nil
}

// Text shows any token for people: its bytes, or the name of a token that
// stands for nothing; "" outside the vocabulary.
func (t *Tokenizer) Text(id int32) string {
	if id < 0 || int(id) >= len(t.kinds) {
		return ""
	}
	return t.tokens.bytes(id)
}

// visible is Bytes without the copy.
func (t *Tokenizer) visible(id int32) string {
	if id < 0 || int(id) >= len(t.kinds) {
		return ""
	}
	switch t.kinds[id] {
	case typeNormal, typeUserDefined, typeByte:
		return t.tokens.bytes(id)
	}
	return ""
}

// Decoder turns the tokens of one stream into text piece by piece. What it
// returns is valid UTF-8 and never ends inside a character: the beginning of
// one, at most three bytes, is held back. Bytes that are no UTF-8 become
// U+FFFD, one for each maximal part that could have begun a character, which
// is what Unicode recommends and Python and browsers do. Where the text is cut
// does not change it.
type Decoder struct {
	tokenizer  *Tokenizer
	prefixed   bool                  // the text begins with a space that is not its own
	partial    [utf8.UTFMax - 1]byte // partial[:partialLen] begins a character
	partialLen int
}

// NewDecoder returns a decoder for the tokens of a text, or with within for those of one
// that has begun: the space that the tokenizer puts in front of a text is taken off again.
func (t *Tokenizer) NewDecoder(within bool) *Decoder {
	return &Decoder{tokenizer: t, prefixed: !within && t.sentences != nil && t.sentences.prefix.Space}
}

// Feed takes the next token and returns the text that is now complete.
func (d *Decoder) Feed(id int32) string {
	s := d.tokenizer.visible(id)
	if d.prefixed && s != "" {
		d.prefixed, s = false, strings.TrimPrefix(s, " ")
	}
	if d.partialLen == 0 && utf8.ValidString(s) {
		return s // nearly always: no copy
	}
	return d.feed(s)
}

// feed takes the bytes of a token.
func (d *Decoder) feed(s string) string {
	s = string(d.partial[:d.partialLen]) + s
	d.partialLen = 0
	var out strings.Builder
	for len(s) > 0 {
		r, width := utf8.DecodeRuneInString(s)
		switch {
		case r != utf8.RuneError || width > 1:
			out.WriteString(s[:width])
		case !utf8.FullRuneInString(s): // a beginning: the rest may come
			d.partialLen = copy(d.partial[:], s)
			return out.String()
		default:
			width = invalidPart(s)
			out.WriteRune(utf8.RuneError)
		}
		s = s[width:]
	}
	return out.String()
}

// invalidPart returns the length of the longest beginning of s that could have
// begun a character, 1 if there is none. s begins with no character.
func invalidPart(s string) int {
	n := 1
	for n < len(s) && n < utf8.UTFMax && !utf8.FullRuneInString(s[:n]) && !utf8.FullRuneInString(s[:n+1]) {
		n++
	}
	return n
}

// Within says whether the text so far ends inside a character.
func (d *Decoder) Within() bool { return d.partialLen > 0 }

// Flush returns what is held back, as U+FFFD, and leaves the decoder empty.
// Call it once, after the last token.
func (d *Decoder) Flush() string {
	if d.partialLen == 0 {
		return ""
	}
	d.partialLen = 0
	return string(utf8.RuneError) // a held beginning is one maximal part
}
