package cpu

import (
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

// Attention of prompts to what lies far before them, with integers of 16 bits: two products take
// the time of one of float32. Queries and K are rounded to multiples of their own largest number
// / scoreLimit, V to those of its own / valueLimit, and the weights of a block of positions
// times the scales of V to those of their largest / valueLimit. Sums of products over 16 columns
// of K, or over 8 positions of V, fit 32 bits; beyond that they are float32. A lane is a query.
//
// Ranges with at least nearRanges ranges between them and a row's own are computed so, and folded
// as others are; where there are none between, so are the blocks of its own range before its own
// block. So the result of a row depends on what it sees alone.
const (
	wordTile    = 16  // queries, and positions, of a register
	wordBlock   = 64  // positions that pass at once, a part of a range
	wordNear    = 8   // ranges that keep float32, where that is more exact than what is made of the result
	wordColumns = 64  // of a head, from which integers are nearly twice as fast
	wordQueries = 512 // of a unit
	wordShared  = 256 // where K is V, whose heads are wide: queries and sums stay in the second cache
	scoreLimit  = 11585
	valueLimit  = 16383
)

// wordOps are the kernels of attention with integers of 16 bits.
type wordOps struct {
	// keys rounds 16 positions of K, or queries, [column][16], to [column/2][16] pairs, and values
	// those of V, [position][column], to [position/2][column] pairs. Both are first
	// multiplied by times, [block of 32 columns][position].
	keys, values func(dst *byte, scales, src, times *float32, limit float32, blocks int)
	// step runs a *wordStep.
	step func(step *byte)
}

// wordStep is a block of positions and 16 queries. gen/words.go knows where fields are.
type wordStep struct {
	q, qScales     *float32
	k, kScales     *float32
	v, vScales     *float32
	state          *float32 // of each query the largest score, then the sum of weights
	out            *float32 // [column][16]
	scores         *float32 // scratch
	tiles, columns int      // of positions; of K and V
}

// wordScratch is what one thread needs.
type wordScratch struct {
	step             wordStep
	q, k, v          []float32 // pairs of integers
	qScales          []float32
	kScales, vScales []float32
	state, out       []float32
	scores           []float32
	wide, times      []float32 // a half tile as float32, or 16 queries; scales of its codes
	turned           []float32 // K that is V
}

// byWords says whether far ranges of a span's rows are computed with integers: where rows see
// all of them.
func (t *attendTask) byWords(s *kernel.Span) bool {
	return s.Prompt && t.window == 0 && t.b.ops.words != nil && !t.b.exact
}

// nearRanges is how many ranges before a row's own keep float32. Where products round what they
// take to 8 bits, rounding to 16 bits before is lost in it; and in narrow heads little is won.
func (t *attendTask) nearRanges() int {
	if t.b.rounds && t.c.shape.dim >= wordColumns {
		return 0
	}
	return wordNear
}

// byBlocks says whether rows of a span attend with integers in their own range too, to the
// blocks before their own.
func (t *attendTask) byBlocks(s *kernel.Span) bool { return t.byWords(s) && t.nearRanges() == 0 }

// farRanges is how many ranges of a unit are computed with integers: of all its rows, because
// no unit lies in two ranges.
func (t *attendTask) farRanges(u *attendUnit) int {
	if !t.byWords(u.span) {
		return 0
	}
	return max(0, (u.span.Pos+u.row)/rangeSize-t.nearRanges())
}

// unitRows is the most rows of a unit of a span. Where most ranges are far, more rows share the
// rounding of K and V.
func (t *attendTask) unitRows(s *kernel.Span) int {
	queries := queryBlock
	if t.byWords(s) && (t.nearRanges() == 0 || s.Pos/rangeSize > 2*wordNear) {
		if queries = wordQueries; t.c.cfg.Shared {
			queries = wordShared
		}
	}
	return max(queries/t.group, 1)
}

// unitEnd is where a unit of a span that begins at row ends at the latest.
func (t *attendTask) unitEnd(s *kernel.Span, row int) int {
	if !t.byWords(s) {
		return s.Len
	}
	size := rangeSize
	if t.byBlocks(s) && (s.Pos+row)%wordBlock != 0 {
		size = wordBlock // then tiles of queries lie in one block
	}
	return ((s.Pos+row)/size+1)*size - s.Pos
}

// ownRange computes unit i over the range that its rows lie in: blocks before a row's own with
// integers, its own in float32.
func (t *attendTask) ownRange(w *attendScratch, i, start int, p *partial) {
	u, dim := &t.units[i], t.c.shape.dim
	first := u.span.Pos + u.row
	t.wordRange(&w.words, u, start, (first+u.rows-1)/wordBlock*wordBlock, p)
	for row := 0; row < u.rows; {
		begin := (first + row) / wordBlock * wordBlock
		own := attendUnit{span: u.span, row: u.row + row, rows: min(u.rows-row, begin+wordBlock-first-row), head: u.head}
		from, n := row*t.group, own.rows*t.group
		w.near.reset(n, dim)
		t.floatRange(w, i, &own, from, begin, &w.near)
		t.fold(&partial{p.out[from*dim:], p.stat[from : from+n]}, &w.near)
		row += own.rows
	}
}

// roundQueries rounds the unit's queries, scaled so that weights are powers of two.
func (t *attendTask) roundQueries(s *attendScratch, n int) {
	w, dim := &s.words, t.c.shape.dim
	whole := roundUp(n, wordTile)
	w.q, w.qScales = grow(w.q, whole*dim/2), grow(w.qScales, whole)
	w.wide, w.times = grow(w.wide, wordTile*dim), grow(w.times, wordTile*dim/kernel.KVBlock)
	fill(w.times, math.Log2E)
	for m := 0; m < n; m += wordTile {
		t.b.ops.transpose(&w.wide[0], &s.q[m*dim], 4*dim, dim)
		t.b.ops.words.keys(bytePtr(w.q[m*dim/2:]), &w.qScales[m], &w.wide[0], &w.times[0], scoreLimit, dim/kernel.KVBlock)
	}
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// wordRange computes unit u over the blocks from start to end that lie before each row's own, into p.
func (t *attendTask) wordRange(w *wordScratch, u *attendUnit, start, end int, p *partial) {
	n, dim := u.rows*t.group, t.c.shape.dim
	whole := roundUp(n, wordTile)
	w.k, w.kScales = grow(w.k, wordBlock*dim/2), grow(w.kScales, wordBlock)
	w.v, w.vScales = grow(w.v, wordBlock*dim/2), grow(w.vScales, wordBlock)
	w.out, w.state, w.scores = grow(w.out, whole*dim), grow(w.state, 2*whole), grow(w.scores, wordBlock*wordTile)
	clear(w.out)
	clear(w.state)
	for m := 0; m < whole; m += wordTile {
		fill(w.state[2*m:2*m+wordTile], -math.MaxFloat32)
	}
	for at := start; at < end; at += wordBlock {
		t.wordPositions(w, u, at)
		for m := max(0, at+wordBlock-u.span.Pos-u.row) * t.group; m < n; m += wordTile {
			w.step = wordStep{
				q: &w.q[m*dim/2], qScales: &w.qScales[m], k: &w.k[0], kScales: &w.kScales[0], v: &w.v[0], vScales: &w.vScales[0],
				state: &w.state[2*m], out: &w.out[m*dim], scores: &w.scores[0], tiles: wordBlock / wordTile, columns: dim,
			}
			t.b.ops.words.step((*byte)(unsafe.Pointer(&w.step)))
		}
	}
	for m := range n {
		state := w.state[m/wordTile*2*wordTile+m%wordTile:]
		p.stat[m] = [2]float32{state[0] * math.Ln2, state[wordTile]}
	}
	for m := 0; m < n; m += wordTile {
		for c := 0; c < dim; c += wordTile {
			t.b.ops.transpose(&w.wide[0], &w.out[m*dim+c*wordTile], 4*wordTile, wordTile)
			for i := range min(wordTile, n-m) {
				copy(p.out[(m+i)*dim+c:][:wordTile], w.wide[i*wordTile:])
			}
		}
	}
}

// wordPositions rounds K and V of a block.
func (t *attendTask) wordPositions(w *wordScratch, u *attendUnit, start int) {
	o, dim, half := t.b.ops.words, t.c.shape.dim, t.c.shape.half
	for at := 0; at < wordBlock; at += wordTile {
		tile := t.c.tile(t.layer, u.head, u.span.Pages, start+at)
		if t.c.cfg.Shared {
			t.sharedWords(w, tile, at)
			continue
		}
		t.widenWords(w, tile[:half])
		o.keys(bytePtr(w.k[at*dim/2:]), &w.kScales[at], &w.wide[0], &w.times[0], scoreLimit, dim/kernel.KVBlock)
		t.widenWords(w, tile[half:])
		o.values(bytePtr(w.v[at*dim/2:]), &w.vScales[at], &w.wide[0], &w.times[0], valueLimit, dim/kernel.KVBlock)
	}
}

// widenWords converts a half tile to float32, and the scales of codes; all others are 1.
func (t *attendTask) widenWords(w *wordScratch, half []byte) {
	size := wordTile * t.c.shape.dim
	t.b.ops.widen[t.c.shape.kv](&w.wide[0], &half[0], size)
	if t.c.shape.kv == kernel.KVQ8 {
		t.b.ops.widen[kernel.KVF16](&w.times[0], &half[size], len(w.times))
		return
	}
	fill(w.times, 1)
}
