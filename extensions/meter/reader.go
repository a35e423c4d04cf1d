package meter

import (
	"encoding/binary"
	"fmt"
)

// reader walks a module from its front. The first fault sticks in err: every
// later read yields zero values, so callers check err once per item.
// Invariant: pos <= end <= len(b).
type reader struct {
	b       []byte
	pos     int
	end     int
	section string
	fn      int
	err     *Error
}

func (r *reader) fail(at int, fix, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Section: r.section, Func: r.fn, Offset: at, Msg: fmt.Sprintf(format, args...), Fix: fix}
	}
	r.pos = r.end
}

func (r *reader) done() bool { return r.pos >= r.end }

func (r *reader) u8() byte {
	if r.pos >= r.end {
		r.fail(r.pos, fixRebuild, "ends too early")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	at := r.pos
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.u8()
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(at, fixRebuild, "a number has more than 32 bits")
	return 0
}

// signed reads a signed LEB128 of at most the given bits: 32, 33 or 64.
func (r *reader) signed(bits int) int64 {
	at := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.u8()
		v |= int64(c&0x7f) << shift
		if c >= 0x80 {
			continue
		}
		if used := bits - shift; used < 7 { // the bits beyond must repeat the sign
			if top := int8(c<<1) >> used; top != 0 && top != -1 {
				break
			}
		}
		if shift+7 < 64 && c&0x40 != 0 {
			v |= -1 << (shift + 7)
		}
		return v
	}
	r.fail(at, fixRebuild, "a number has more than %d bits", bits)
	return 0
}

// skip returns the next n bytes, which alias the module.
func (r *reader) skip(n int) []byte {
	if n < 0 || n > r.end-r.pos {
		r.fail(r.pos, fixRebuild, "ends too early")
		return nil
	}
	head := r.b[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return head
}

// count reads the length of a vector whose items take at least itemBytes each,
// so that a length alone can never make anyone reserve memory.
func (r *reader) count(what string, most, itemBytes int) int {
	at := r.pos
	n := int(r.u32())
	if n > (r.end-r.pos)/itemBytes {
		r.fail(at, fixRebuild, "%d %s do not fit in the section", n, what)
		return 0
	}
	if n > most {
		r.fail(at, fixSmaller, "%d %s, at most %d are accepted", n, what, most)
		return 0
	}
	return n
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// appendVec appends the length of body and body.
func appendVec(b, body []byte) []byte {
	return append(appendU32(b, uint32(len(body))), body...)
}
