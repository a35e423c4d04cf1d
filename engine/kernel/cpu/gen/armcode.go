package main

import "fmt"

// word emits an instruction as its bits, with its meaning as a comment.
func (a *arm) word(bits uint32, format string, args ...any) {
	a.line("WORD $0x%08x // "+format, append([]any{bits}, args...)...)
}

// encoding is an instruction without its registers.
type encoding struct {
	bits uint32
	name string
	form string // arrangement of the result and of the operands
	from string
}

// The instructions with two and with one source register.
var (
	fadd    = encoding{0x4e20d400, "fadd", "4s", "4s"}
	fsub    = encoding{0x4ea0d400, "fsub", "4s", "4s"}
	fmul    = encoding{0x6e20dc00, "fmul", "4s", "4s"}
	fdiv    = encoding{0x6e20fc00, "fdiv", "4s", "4s"}
	fmla    = encoding{0x4e20cc00, "fmla", "4s", "4s"}
	fmls    = encoding{0x4ea0cc00, "fmls", "4s", "4s"}
	fmax    = encoding{0x4e20f400, "fmax", "4s", "4s"}
	fmin    = encoding{0x4ea0f400, "fmin", "4s", "4s"}
	faddp   = encoding{0x6e20d400, "faddp", "4s", "4s"}
	fcmge   = encoding{0x6e20e400, "fcmge", "4s", "4s"}
	fcmgt   = encoding{0x6ea0e400, "fcmgt", "4s", "4s"}
	addInts = encoding{0x4ea08400, "add", "4s", "4s"}
	addPair = encoding{0x4e60bc00, "addp", "8h", "8h"}
	and     = encoding{0x4e201c00, "and", "16b", "16b"}
	orr     = encoding{0x4ea01c00, "orr", "16b", "16b"}
	eor     = encoding{0x6e201c00, "eor", "16b", "16b"}
	smull   = encoding{0x0e20c000, "smull", "8h", "8b"}
	smull2  = encoding{0x4e20c000, "smull2", "8h", "16b"}
	zip1    = encoding{0x4e803800, "zip1", "4s", "4s"}
	zip2    = encoding{0x4e807800, "zip2", "4s", "4s"}

	fabs    = encoding{0x4ea0f800, "fabs", "4s", "4s"}
	fneg    = encoding{0x6ea0f800, "fneg", "4s", "4s"}
	fsqrt   = encoding{0x6ea1f800, "fsqrt", "4s", "4s"}
	frintn  = encoding{0x4e218800, "frintn", "4s", "4s"}
	fcvtns  = encoding{0x4e21a800, "fcvtns", "4s", "4s"}
	scvtf   = encoding{0x4e21d800, "scvtf", "4s", "4s"}
	fcvtl   = encoding{0x0e217800, "fcvtl", "4s", "4h"}
	fcvtn   = encoding{0x0e216800, "fcvtn", "4h", "4s"}
	fmaxv   = encoding{0x6e30f800, "fmaxv", "", "4s"}
	addv    = encoding{0x4eb1b800, "addv", "", "4s"}
	sadalp  = encoding{0x4e606800, "sadalp", "4s", "8h"}
	sqxtn4  = encoding{0x0e614800, "sqxtn", "4h", "4s"}
	sqxtn4b = encoding{0x4e614800, "sqxtn2", "8h", "4s"}
	sqxtn8  = encoding{0x0e214800, "sqxtn", "8b", "8h"}
	sqxtn8b = encoding{0x4e214800, "sqxtn2", "16b", "8h"}
)

// do emits an instruction of two sources.
func (a *arm) do(e encoding, d, n, m vreg) {
	a.word(e.bits|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", e.name, d, e.form, n, e.from, m, e.from)
}

// do1 emits an instruction of one source.
func (a *arm) do1(e encoding, d, n vreg) {
	to := fmt.Sprintf("v%d.%s", d, e.form)
	if e.form == "" {
		to = fmt.Sprintf("s%d", d)
	}
	a.word(e.bits|uint32(n)<<5|uint32(d), "%s %s, v%d.%s", e.name, to, n, e.from)
}

// lane is the bits that choose one of four 32-bit lanes of the last source.
func lane(m vreg, i int) uint32 { return uint32(m)<<16 | uint32(i&1)<<21 | uint32(i>>1)<<11 }

// mulLane is d = n·m[i], fmaLane d += n·m[i].
func (a *arm) mulLane(d, n, m vreg, i int) {
	a.word(0x4f809000|lane(m, i)|uint32(n)<<5|uint32(d), "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

func (a *arm) fmaLane(d, n, m vreg, i int) {
	a.word(0x4f801000|lane(m, i)|uint32(n)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// fmsLane is d -= n·m[i].
func (a *arm) fmsLane(d, n, m vreg, i int) {
	a.word(0x4f805000|lane(m, i)|uint32(n)<<5|uint32(d), "fmls v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// dupLane is m[i] in every lane of d.
func (a *arm) dupLane(d, n vreg, i int) {
	a.word(0x4e000400|uint32(i<<3|4)<<16|uint32(n)<<5|uint32(d), "dup v%d.4s, v%d.s[%d]", d, n, i)
}

// copyVec is d = n.
func (a *arm) copyVec(d, n vreg) {
	a.word(orr.bits|uint32(n)<<16|uint32(n)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, n)
}

// zero clears registers.
func (a *arm) zero(v ...vreg) {
	for _, r := range v {
		a.word(0x6f00e400|uint32(r), "movi v%d.2d, #0x0", r)
	}
}

// shift is d = n << by in lanes of 8 or 32 bits; right if by is negative.
func (a *arm) shift(d, n vreg, by, width int) {
	form := map[int]string{8: "16b", 32: "4s"}[width]
	if by >= 0 {
		a.word(0x4f005400|uint32(width+by)<<16|uint32(n)<<5|uint32(d), "shl v%d.%s, v%d.%s, #%d", d, form, n, form, by)
		return
	}
	a.word(0x6f000400|uint32(2*width+by)<<16|uint32(n)<<5|uint32(d), "ushr v%d.%s, v%d.%s, #%d", d, form, n, form, -by)
}

// field is width bits from bit at on of every lane of n.
func (a *arm) field(d, n vreg, at, width int) {
	a.shift(d, n, 32-at-width, 32)
	a.shift(d, d, width-32, 32)
}

// widenBytes turns the first four bytes of v into integers, widenWords the first four
// 16-bit numbers, which have no sign.
func (a *arm) widenBytes(v vreg, signed bool) {
	bits, name := uint32(0x2f08a400), "uxtl"
	if signed {
		bits, name = 0x0f08a400, "sxtl"
	}
	a.word(bits|uint32(v)<<5|uint32(v), "%s v%d.8h, v%d.8b", name, v, v)
	bits += 0x10<<16 - 0x08<<16
	a.word(bits|uint32(v)<<5|uint32(v), "%s v%d.4s, v%d.4h", name, v, v)
}

func (a *arm) widenWords(v vreg) {
	a.word(0x2f10a400|uint32(v)<<5|uint32(v), "uxtl v%d.4s, v%d.4h", v, v)
}

// sdot adds to each lane of dots the products of four bytes of w with the four bytes
// of lane i of x. Without the instruction, two products fit in 16 bits: an activation
// is not below -127.
func (a *arm) sdot(dots, w, x vreg, i int) {
	if a.dot {
		a.word(0x4f80e000|lane(x, i)|uint32(w)<<5|uint32(dots), "sdot v%d.4s, v%d.16b, v%d.4b[%d]", dots, w, x, i)
		return
	}
	a.scope(func() {
		bytes, low, high := a.vec(), a.vec(), a.vec()
		a.dupLane(bytes, x, i)
		a.do(smull, low, w, bytes)
		a.do(smull2, high, w, bytes)
		a.do(addPair, low, low, high)
		a.do1(sadalp, dots, low)
	})
}
