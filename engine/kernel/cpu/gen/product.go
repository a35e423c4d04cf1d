package main

import (
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Fields of struct product in deltachunk.go, in bytes.
const (
	productDst = 8 * iota
	productDstRow
	productDstBlock
	productInit
	productInitRow
	productInitBlock
	productScale
	productScaleStep
	productA
	productARow
	productACol
	productX
	productXBlock
	productN
	productNStep
	productTiles
)

// moving are the fields that each tile moves on: the kernel's copies of them are
// on its stack, where the garbage collector does not follow pointers past an end.
var moving = []int{productDst, productInit, productScale, productA, productN}

// fields is a *product in a register with the copies of what moves.
type fields struct {
	p      reg.Register
	copies operand.Mem
}

// at is where a field lies.
func (f fields) at(field int) operand.Mem {
	if i := slices.Index(moving, field); i >= 0 {
		return f.copies.Offset(8 * i)
	}
	return mem(f.p, field)
}

// productRows is the height of a tile of a product: as many rows share one load of x.
const productRows = 8

// products emits the small matrix products of the chunked delta rule.
func (g *gen) products() {
	g.product("product", "writes dst = scale·init + a·x for tiles of 8 rows by 32 columns; p is a *product.", false)
	g.product("solve", "finds dst of dst = init + a·dst, a strictly lower triangular; p is a *product.", true)
	g.transpose()
}

// part is what one pass over x computes of a tile: rows from first on, of
// registers that lie at disp in a block of 16 columns.
type part struct {
	first, rows int
	blocks      []int
	disps       []int
}

// parts cut a tile so that its sums fit the registers of the level.
func (g *gen) parts() []part {
	if g.wide {
		return []part{{0, 8, []int{0, 1}, []int{0, 0}}}
	}
	var all []part
	for block := range 2 {
		for first := 0; first < productRows; first += 4 {
			all = append(all, part{first, 4, []int{block, block}, []int{0, 32}})
		}
	}
	return all
}

// product emits one of the two kernels: a product, or one whose x is the rows of dst
// before the tile, and within the tile the rows above.
func (g *gen) product(name, doc string, solve bool) {
	g.function(name, "func(p *byte)", doc)
	p, tiles := fields{g.arg("p"), g.AllocLocal(8 * len(moving))}, g.GP64()
	for _, field := range moving {
		v := g.GP64()
		g.MOVQ(mem(p.p, field), v)
		g.MOVQ(v, p.at(field))
	}
	g.MOVQ(p.at(productTiles), tiles)
	restore := g.flushTiny()
	g.loop(tiles, func() {
		for _, t := range g.parts() {
			sums := g.startRows(p, t, solve)
			rows := g.sumRows(p, t, sums, solve)
			if solve {
				for j := range t.rows {
					for i := j + 1; i < t.rows; i++ {
						f := g.vec()
						g.VBROADCASTSS(shifted(rows[i], 4*j), f)
						for c := range t.blocks {
							g.VFMADD231PS(f, sums[j][c], sums[i][c])
						}
					}
				}
			}
			for i, to := range g.rowsOf(p, productDst, productDstRow, productDstBlock, t) {
				for c := range t.blocks {
					g.VMOVUPS(sums[i][c], to[c])
				}
			}
		}
		g.advance(p, productDst, productDstRow)
		g.advance(p, productInit, productInitRow)
		g.advance(p, productScale, productScaleStep)
		g.advance(p, productA, productARow)
		step := g.GP64()
		g.MOVQ(p.at(productNStep), step)
		g.ADDQ(step, p.at(productN))
	})
	restore()
	g.finish()
}

// advance moves the pointer at field on by 8 steps.
func (g *gen) advance(p fields, field, step int) {
	n := g.GP64()
	g.MOVQ(p.at(step), n)
	g.SHLQ(operand.U8(3), n)
	g.ADDQ(n, p.at(field))
}

func shifted(m operand.Mem, disp int) operand.Mem {
	m.Disp += disp
	return m
}

// rowAddresses are the addresses of rows 0, 1, ... (at most 8) from base on.
func (g *gen) rowAddresses(base, stride reg.GPVirtual, rows int) []operand.Mem {
	third := g.GP64()
	g.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, third)
	var all []operand.Mem
	for i := 0; i < rows; i += 4 {
		b := base
		if i > 0 {
			b = g.GP64()
			g.LEAQ(operand.Mem{Base: base, Index: stride, Scale: 4}, b)
		}
		all = append(all, mem(b, 0), operand.Mem{Base: b, Index: stride, Scale: 1},
			operand.Mem{Base: b, Index: stride, Scale: 2}, operand.Mem{Base: b, Index: third, Scale: 1})
	}
	return all
}

// firstRow loads the pointer at field and moves it on to a part's first row.
func (g *gen) firstRow(p fields, field int, stride reg.GPVirtual, t part) reg.GPVirtual {
	base := g.GP64()
	g.MOVQ(p.at(field), base)
	if t.first == 4 {
		g.LEAQ(operand.Mem{Base: base, Index: stride, Scale: 4}, base)
	}
	return base
}

// rowsOf are the addresses of a part's registers in dst or init, by row and register.
func (g *gen) rowsOf(p fields, field, row, block int, t part) [][]operand.Mem {
	stride := g.GP64()
	g.MOVQ(p.at(row), stride)
	base := g.firstRow(p, field, stride, t)
	addresses := map[int][]operand.Mem{}
	for _, b := range t.blocks {
		if addresses[b] != nil {
			continue
		}
		from := base
		if b == 1 {
			from = g.GP64()
			g.MOVQ(p.at(block), from)
			g.ADDQ(base, from)
		}
		addresses[b] = g.rowAddresses(from, stride, t.rows)
	}
	all := make([][]operand.Mem, t.rows)
	for i := range all {
		for c, b := range t.blocks {
			all[i] = append(all[i], shifted(addresses[b][i], t.disps[c]))
		}
	}
	return all
}

// startRows loads a part's sums.
func (g *gen) startRows(p fields, t part, solve bool) [][]reg.VecVirtual {
	from := g.rowsOf(p, productInit, productInitRow, productInitBlock, t)
	sums := make([][]reg.VecVirtual, t.rows)
	scale, step := g.GP64(), g.GP64()
	if !solve {
		g.MOVQ(p.at(productScaleStep), step)
		g.MOVQ(p.at(productScale), scale)
		if t.first == 4 {
			g.LEAQ(operand.Mem{Base: scale, Index: step, Scale: 4}, scale)
		}
	}
	for i := range sums {
		sums[i] = g.vecs(len(t.blocks))
		if solve {
			for c, v := range sums[i] {
				g.VMOVUPS(from[i][c], v)
			}
			continue
		}
		f := g.vec()
		g.VBROADCASTSS(mem(scale, 0), f)
		for c, v := range sums[i] {
			g.VMULPS(from[i][c], f, v)
		}
		g.ADDQ(step, scale)
	}
	return sums
}

// sumRows adds a·x to a part's sums. The addresses it returns are those of the
// column of a after the last one used.
func (g *gen) sumRows(p fields, t part, sums [][]reg.VecVirtual, solve bool) []operand.Mem {
	stride, col, x, left := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(p.at(productARow), stride)
	a := g.rowAddresses(g.firstRow(p, productA, stride, t), stride, t.rows)
	g.MOVQ(p.at(productACol), col)
	g.MOVQ(p.at(productX), x)
	g.MOVQ(p.at(productN), left)
	if solve && t.first > 0 {
		g.ADDQ(operand.I8(int8(t.first)), left)
	}
	from := []operand.Mem{mem(x, t.disps[0]), mem(x, t.disps[1])}
	if t.blocks[1] != 0 {
		block := g.GP64()
		g.MOVQ(p.at(productXBlock), block)
		if t.blocks[0] != 0 {
			g.ADDQ(block, x)
		} else {
			from[1] = operand.Mem{Base: x, Index: block, Scale: 1, Disp: t.disps[1]}
		}
	}
	g.loop(left, func() {
		v := []reg.VecVirtual{g.load(from[0]), g.load(from[1])}
		for i := range t.rows {
			f := g.vec()
			g.VBROADCASTSS(a[i], f)
			for c := range v {
				g.VFMADD231PS(f, v[c], sums[i][c])
			}
		}
		g.ADDQ(col, a[0].Base)
		if t.rows > 4 {
			g.ADDQ(col, a[4].Base)
		}
		g.ADDQ(operand.I8(64), x)
	})
	return a
}

// transpose emits the change of 16 rows into [column][16 rows], four columns at a time.
func (g *gen) transpose() {
	g.function("transpose", "func(dst, x *float32, row, n int)", "writes n columns of 16 rows, which lie row bytes apart, as dst[n][16].")
	dst, x, stride, left := g.arg("dst"), g.arg("x"), g.arg("row"), g.arg("n")
	g.SHRQ(operand.U8(2), left)
	low := g.rowAddresses(x, stride, 8)
	upper := g.GP64()
	g.LEAQ(operand.Mem{Base: x, Index: stride, Scale: 8}, upper)
	high := g.rowAddresses(upper, stride, 8)
	g.loop(left, func() {
		for half, rows := range [][]operand.Mem{low, high} {
			r := make([]reg.VecVirtual, 4)
			for i := range r {
				r[i] = g.YMM()
				g.VMOVUPS(rows[i], r[i].AsX())
				g.VINSERTF128(operand.U8(1), rows[i+4], r[i], r[i])
			}
			t := []reg.VecVirtual{g.YMM(), g.YMM(), g.YMM(), g.YMM()}
			g.VUNPCKLPS(r[1], r[0], t[0])
			g.VUNPCKHPS(r[1], r[0], t[1])
			g.VUNPCKLPS(r[3], r[2], t[2])
			g.VUNPCKHPS(r[3], r[2], t[3])
			for c := range 4 {
				out := g.YMM()
				g.VSHUFPS(operand.U8([]uint8{0x44, 0xee}[c%2]), t[2+c/2], t[c/2], out)
				g.VMOVUPS(out, mem(dst, c*64+half*32))
			}
		}
		for _, m := range []operand.Mem{low[0], low[4], high[0], high[4]} {
			g.ADDQ(operand.I8(16), m.Base)
		}
		g.ADDQ(operand.I32(256), dst)
	})
	g.finish()
}
