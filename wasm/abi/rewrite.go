package abi

// RewriteInput is the input of OpRewrite: the messages body of a request, before anything
// is made of it.
type RewriteInput struct {
	At       int64 // Unix seconds
	Counting bool  // only its tokens are counted
	Account  string
	Key      string // the key's id, never the secret
	Protocol string // "messages", "chat", "responses", or that of a module
	Body     []byte
}

const rewriteTag = "rewrit/1"

// Append encodes in.
func (in RewriteInput) Append(dst []byte) []byte {
	dst = append(appendInts(append(dst, rewriteTag...), in.At), byte(flag(in.Counting)))
	dst = appendText(appendText(appendText(dst, in.Account), in.Key), in.Protocol)
	return append(dst, in.Body...)
}

// ParseRewriteInput decodes a RewriteInput, which aliases b.
func ParseRewriteInput(b []byte) (in RewriteInput, err error) {
	c := cursor{b: b}
	c.tag(rewriteTag)
	in.At, in.Counting = c.i64(), c.u8() != 0
	in.Account, in.Key, in.Protocol = c.aliasedText(), c.aliasedText(), c.aliasedText()
	in.Body = c.rest()
	return in, c.err
}

// The output of OpRewrite is the body, or nothing where it stays as it is.

// FilterInput is the input of OpFilter: the next piece of a block's text.
type FilterInput struct {
	Facts Facts
	Block BlockKind // thinking or text
	Last  bool      // the block ends with this piece: what was held back must come out
	State []byte    // what the piece before gave; empty at the block's first
	Text  string    // UTF-8, not escaped
}

// FilterStateMax bounds a filter's state, and with it what it can hold back.
const FilterStateMax = 256

const filterTag = "filter/1"

// Append encodes in.
func (in FilterInput) Append(dst []byte) []byte {
	dst = in.Facts.append(append(dst, filterTag...))
	dst = append(dst, byte(in.Block), byte(flag(in.Last)))
	return append(appendSection(dst, in.State), in.Text...)
}

// ParseFilterInput decodes a FilterInput, which aliases b.
func ParseFilterInput(b []byte) (in FilterInput, err error) {
	c := cursor{b: b}
	c.tag(filterTag)
	in.Facts = c.facts()
	in.Block, in.Last = BlockKind(c.u8()), c.u8() != 0
	in.State = c.section()
	in.Text = c.aliasedRest()
	return in, c.err
}

// Filtered is the output of OpFilter.
type Filtered struct {
	State []byte // at most FilterStateMax bytes
	Text  []byte // what may be shown now, UTF-8
}

// Append encodes f.
func (f Filtered) Append(dst []byte) []byte { return append(appendSection(dst, f.State), f.Text...) }

// ParseFiltered decodes a Filtered, which aliases b.
func ParseFiltered(b []byte) (f Filtered, err error) {
	c := cursor{b: b}
	f.State = c.section()
	f.Text = c.rest()
	if len(f.State) > FilterStateMax {
		c.err = ErrMalformed
	}
	return f, c.err
}
