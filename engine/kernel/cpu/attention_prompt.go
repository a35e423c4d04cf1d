package cpu

import (
	"encoding/binary"
	"math"

	"corenode/engine/kernel"
)

// Attention of prompts: scores are a product of queries and K, results one of
// weights and V, on matrix tiles of bfloat16. All four are taken apart into two
// parts, a high and a low one, K and V once for all queries of a unit. Blocks of
// positions begin at multiples of promptBlock and are added in order, each
// scaled to the largest score so far: the result of a row depends on what it
// sees alone, wherever the prompt was cut and whichever rows are beside it.
const (
	promptBlock   = 128     // positions that pass at once: their scores stay in the nearest cache
	promptQueries = 512     // the most of a unit: then taking K and V apart is a few percent of its work
	promptFloats  = 1 << 16 // numbers of the queries of a unit: they and their sums share a cache with K and V
	promptTile    = 32      // queries that are multiplied at once, and positions, and dimensions
	promptUnits   = 4       // of each thread, if there are as many: then none waits long for another
	pairPart      = 16 * 32 // numbers of a part of a matrix
	partBytes     = 4 * pairPart
	stateFloats   = 16 + 16*16 // of 16 queries: the largest scores, 16 sums of weights of each
)

// promptOps are the kernels of attention with matrix tiles. A matrix is parts of
// 16 rows of 32 numbers taken apart, or, on the right, of 16 columns of 32; sums
// and scores lie in parts of the same size, [16][32].
type promptOps struct {
	// query writes x·scale as a row of parts.
	query func(dst *byte, x *float32, scale float32, blocks int)
	// keys takes blocks of dimensions of a half tile of K apart.
	keys [kvTypes]func(dst, src *byte, blocks int)
	// values takes two half tiles of V apart, as [16 dimensions] parts.
	values [kvTypes]func(dst, first, second *byte, d int)
	// product writes to dst 32 rows of left times 32 columns of right, on top of what is
	// there if more is 1, for each of columns times 32 columns. The other 16 rows of dst
	// and left, and columns of right, are so many bytes apart; the next block of right
	// comes rightNext bytes, the next columns rightStep bytes later.
	product func(dst *byte, dstApart int, left *byte, leftApart int, right *byte, rightApart, rightNext, rightStep, blocks, columns, more int, config *byte)
	// softmax turns up to 16 rows of scores into weights taken apart, in place, and scales
	// state and columns blocks of out to the new maximum.
	softmax func(p *byte, rows, blocks int, state *float32, out *byte, columns int)
	// finish writes a row of out divided by the sum of its weights.
	finish func(dst *float32, out *byte, sums *float32, blocks int)
}

// promptScratch is what one thread needs for a unit.
type promptScratch struct {
	config []byte    // of tiles: 16 rows of 64 bytes each
	row    []float32 // of a head dimension that is padded
	q, out []float32 // [16 queries][32 dimensions]
	state  []float32 // [16 queries]
	k      []float32 // [16 positions][32 dimensions]
	v      []float32 // [32 positions][16 dimensions]
	p      []float32 // [2 x 16 queries][32 positions]
	last   []byte    // two half tiles of V, which the context ends in
}

// promptTask is the part of an attendTask that is prompts.
type promptTask attendTask

// tiled says whether a span's rows are computed on matrix tiles.
func (o *ops) tiled(s *kernel.Span) bool { return s.Prompt && o.prompts != nil }

// planPrompts lists the units of prompts, longest context first within a span.
func (t *attendTask) planPrompts(step *kernel.Step) {
	most := t.promptRows(step)
	t.prompts = t.prompts[:0]
	for i := range step.Spans {
		s := &step.Spans[i]
		if !t.b.ops.tiled(s) {
			continue
		}
		blocks := (s.Len + most - 1) / most
		block := (s.Len + blocks - 1) / blocks
		for row := (s.Len - 1) / block * block; row >= 0; row -= block {
			for head := range t.c.cfg.KVHeads {
				t.prompts = append(t.prompts, attendUnit{span: s, row: row, rows: min(block, s.Len-row), head: head})
			}
		}
	}
}

// promptRows is the most rows of a unit: fewer than would fit when threads would be idle.
func (t *attendTask) promptRows(step *kernel.Step) int {
	queries := min(promptQueries, promptFloats/t.c.shape.dim)
	for ; queries > promptTile; queries /= 2 {
		units := 0
		for i := range step.Spans {
			if s := &step.Spans[i]; t.b.ops.tiled(s) {
				units += (s.Len*t.group + queries - 1) / queries * t.c.cfg.KVHeads
			}
		}
		if units >= promptUnits*t.b.Threads() || t.b.Threads() == 1 {
			break
		}
	}
	return max(queries/t.group, 1)
}

// do computes a unit.
func (p *promptTask) do(worker, i int) {
	t := (*attendTask)(p)
	u, w := &t.prompts[i], &t.scratch[worker].prompt
	n := u.rows * t.group
	w.start(n, t.c.shape)
	t.splitQueries(w, u, n)
	for start := 0; start < u.end(); start += promptBlock {
		t.splitBlock(w, u, start)
		for m := 0; m < n; m += promptTile {
			t.promptTile(w, u, start, m, min(promptTile, n-m))
		}
	}
	t.finishPrompts(w, u, n)
}

// start makes room for n queries that have seen nothing. Rows of no query are
// what they were: they mean nothing to the others.
func (w *promptScratch) start(n int, s tileShape) {
	whole := roundUp(n, promptTile)
	w.q, w.out = grow(w.q, whole*s.dim), grow(w.out, whole*s.dim)
	w.k, w.v = grow(w.k, promptBlock*s.dim), grow(w.v, promptBlock*s.dim)
	w.state = grow(w.state, whole/16*stateFloats)
	clear(w.state)
	for i := range whole {
		w.state[i/16*stateFloats+i%16] = -math.MaxFloat32
	}
	if len(w.last) != 2*s.half {
		w.last = heapBytes(2 * s.half)
	}
	if w.config == nil {
		w.p, w.row, w.config = grow(nil, promptTile*promptBlock), grow(nil, headDimMax), heapBytes(64)
		w.config[0] = 1 // the only palette
		for i := range 8 {
			binary.LittleEndian.PutUint16(w.config[16+2*i:], 64)
			w.config[48+i] = 16
		}
	}
}

// partAt is where row m of a matrix with so many columns begins.
func partAt(m, columns int) int { return m/16*16*columns + m%16*32 }

// splitQueries takes the unit's queries apart, scaled so that weights are powers of two.
func (t *attendTask) splitQueries(w *promptScratch, u *attendUnit, n int) {
	d, dim := t.c.cfg.HeadDim, t.c.shape.dim
	for m := range n {
		at := t.place(u, m)
		x := t.q[at : at+d]
		if d < dim {
			copy(w.row, x)
			clear(w.row[d:dim])
			x = w.row
		}
		t.b.ops.prompts.query(bytePtr(w.q[partAt(m, dim):]), &x[0], t.scale*math.Log2E, dim/32)
	}
}

// splitBlock takes K and V apart, from position start on. Scores of positions
// that the last tile lacks are masked; its V counts as zero.
func (t *attendTask) splitBlock(w *promptScratch, u *attendUnit, start int) {
	o, kv, dim := t.b.ops.prompts, t.c.shape.kv, t.c.shape.dim
	stop := min(start+promptBlock, u.end())
	for pos := start; pos < stop; pos += 2 * kvTile {
		var tiles [2]*byte
		for i := range tiles {
			first := pos + i*kvTile
			tiles[i] = &w.last[i*t.c.shape.half]
			if first < stop {
				tile := t.c.tile(t.layer, u.head, u.span.Pages, first)
				o.keys[kv](bytePtr(w.k[(first-start)*dim:]), &tile[0], dim/32)
				if stop-first >= kvTile {
					tiles[i] = &tile[t.c.shape.half]
					continue
				}
				t.c.shape.copyValues(w.last[i*t.c.shape.half:], tile[t.c.shape.half:], stop-first)
				continue
			}
			clear(w.last[i*t.c.shape.half : (i+1)*t.c.shape.half])
		}
		o.values[kv](bytePtr(w.v[(pos-start)*dim:]), tiles[0], tiles[1], dim)
	}
}

// copyValues copies n positions of a half tile of V, and zeros for the others: no
// weight of zero makes up for an infinity that an earlier owner left.
func (s tileShape) copyValues(dst, src []byte, n int) {
	dst = dst[:s.half]
	clear(dst)
	size := s.half / kvTile // of a position
	if s.kv == kernel.KVQ8 {
		size = s.dim
		for at := size * kvTile; at < s.half; at += 2 * kvTile {
			copy(dst[at:], src[at:at+2*n])
		}
	}
	copy(dst, src[:n*size])
}

// promptTile adds a block of positions to the results of queries from m on.
func (t *attendTask) promptTile(w *promptScratch, u *attendUnit, start, m, queries int) {
	const apart = 16 * promptBlock
	o, dim := t.b.ops.prompts, t.c.shape.dim
	seen := u.span.Pos + u.row + m/t.group + 1 - start                        // by the first query
	count := min(u.span.Pos+u.row+(m+queries-1)/t.group+1-start, promptBlock) // by the last one
	if count <= 0 {
		return
	}
	blocks, half := (count+31)/32, 16*4*dim // positions; bytes of 16 rows of queries, of results and of columns of K
	q, out := bytePtr(w.q[m*dim:]), bytePtr(w.out[m*dim:])
	o.product(bytePtr(w.p), 4*apart, q, half, bytePtr(w.k), half, partBytes, 2*half, dim/32, blocks, 0, &w.config[0])
	if seen < blocks*32 {
		t.mask(w, u, start, m, queries, blocks)
	}
	for i := 0; i < queries; i += 16 {
		state := &w.state[(m+i)/16*stateFloats]
		o.softmax(bytePtr(w.p[i/16*apart:]), min(16, queries-i), blocks, state, skip(out, i/16*half), dim/32)
	}
	o.product(out, half, bytePtr(w.p), 4*apart, bytePtr(w.v), partBytes, dim/16*partBytes, 2*partBytes, blocks, dim/32, min(start, 1), &w.config[0])
}

// masked is a row of scores of positions that a query does not see.
var masked = func() (m [32]float32) {
	for i := range m {
		m[i] = float32(math.Inf(-1))
	}
	return m
}()

// mask hides the positions after each query's own.
func (t *attendTask) mask(w *promptScratch, u *attendUnit, start, m, queries, blocks int) {
	for i := range queries {
		row := w.p[partAt(i, promptBlock):]
		seen := max(u.span.Pos+u.row+(m+i)/t.group+1-start, 0)
		for b := seen / 32; b < blocks; b++ {
			copy(row[b*pairPart+max(seen-b*32, 0):b*pairPart+32], masked[:])
		}
	}
}

// finishPrompts writes the unit's rows.
func (t *attendTask) finishPrompts(w *promptScratch, u *attendUnit, n int) {
	d, dim := t.c.cfg.HeadDim, t.c.shape.dim
	for m := range n {
		at := t.place(u, m)
		dst := t.dst[at : at+d]
		to := dst
		if d < dim {
			to = w.row
		}
		sums := &w.state[m/16*stateFloats+16+m%16*16]
		t.b.ops.prompts.finish(&to[0], bytePtr(w.out[partAt(m, dim):]), sums, dim/32)
		if d < dim {
			copy(dst, to)
		}
	}
}
