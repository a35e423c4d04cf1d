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
	promptBlock   = 128                   // positions that pass at once: their scores stay in the nearest cache
	promptQueries = 512                   // the most of a unit: then taking K and V apart is a few percent of its work
	promptFloats  = 1 << 16               // numbers of the queries of a unit: they and their sums share a cache with K and V
	sharedFloats  = 5 << 15               // the same where K is V
	promptTile    = 32                    // queries that are multiplied at once, and positions, and dimensions
	promptUnits   = 4                     // of each thread, if there are as many: then none waits long for another
	pairPart      = 16 * promptTile       // numbers of a part of a matrix
	pairBlock     = 2 * pairPart          // of two of them
	stateFloats   = promptTile * (1 + 16) // of a tile: the largest scores, 16 sums of weights of each
)

// promptOps are the kernels of attention with matrix tiles. A matrix is blocks of
// 32 rows of 32 numbers taken apart, or, on the right, of 32 columns of 32;
// sums and scores lie in blocks of the same size, [32][32].
type promptOps struct {
	// query writes rows of x·scale as rows of blocks. Rows of x follow each other, but
	// skip bytes come after left of them and then after every group.
	query func(dst *byte, x *float32, scale float32, blocks, rows, left, group, skip int)
	// keys takes a half tile of K apart: 16 columns of blocks of 32 dimensions.
	keys [kvTypes]func(dst, src *byte, blocks int)
	// values takes two half tiles of V apart: 32 positions of columns, 32 dimensions a block.
	values [kvTypes]func(dst, first, second *byte, d int)
	// step runs a *promptStep.
	step func(step *byte)
	// finish writes rows of out divided by the sum of their weights, to where query
	// reads rows of x.
	finish func(dst *float32, out *byte, sums *float32, blocks, rows, left, group, skip int)
}

// promptStep is three things that do not need each other, done at the same
// time: the results of one tile of queries, the scores of another, and between
// them the softmax of a third. gen/prompt.go knows where fields are.
type promptStep struct {
	products [2]promptProduct
	softmax  promptSoftmax
	config   *byte // of tiles: 16 rows of 64 bytes each
}

// promptProduct is 32 rows of left times 32 columns of right, for each of columns
// times 32 columns, on top of what is in dst if more is 1.
type promptProduct struct {
	dst, left, right *float32
	rightNext        int // bytes to the next block of right
	rightStep        int // and to the first of the next columns
	blocks           int // that are summed
	columns          int
	more             int
}

// promptSoftmax turns rows of scores into weights taken apart, in place, and
// scales what was summed to the new maximum.
type promptSoftmax struct {
	scores     *float32
	tops, sums *float32 // of each row: the maximum so far; 16 sums of weights
	out        *float32
	rows       int
	blocks     int // of 32 positions
	columns    int // blocks of out
	each       int // rows between two blocks of products, at most
}

// promptScratch is what one thread needs for a unit.
type promptScratch struct {
	step     promptStep
	config   []byte
	row      []float32 // of a head dimension that is padded
	q, out   []float32 // [tile of queries][32 dimensions]
	state    []float32 // [tile of queries]
	k        []float32 // [32 positions][32 dimensions]
	v        []float32 // [32 positions][32 dimensions]
	p        []float32 // of two tiles of queries: [32 positions]
	prefetch promptPrefetch
	last     []byte // two half tiles of V, which the context ends in

	k32, v32, scales []float32 // tiles of K and V where they are one, and scales of their codes
}

// promptPrefetch is the tiles of K and V of the next block, and how many of them memory
// was asked for while this block was computed.
type promptPrefetch struct {
	list  []*byte
	asked int
}

// promptTask is the part of an attendTask that is prompts.
type promptTask attendTask

// tiled says whether a span's rows are attended to on matrix tiles; those of windows and of heads
// with sinks are not.
func (t *attendTask) tiled(s *kernel.Span) bool {
	return s.Prompt && t.b.ops.prompts != nil && !t.b.exact && t.window == 0 && t.sinks == nil
}

// planPrompts lists the units of prompts, longest context first within a span.
func (t *attendTask) planPrompts(step *kernel.Step) {
	most := t.promptRows(step)
	t.prompts = t.prompts[:0]
	for i := range step.Spans {
		s := &step.Spans[i]
		if !t.tiled(s) {
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
	queries := t.promptMax()
	for ; queries > promptTile; queries /= 2 {
		units := 0
		for i := range step.Spans {
			if s := &step.Spans[i]; t.tiled(s) {
				units += (s.Len*t.group + queries - 1) / queries * t.c.cfg.KVHeads
			}
		}
		if units >= promptUnits*t.b.Threads() || t.b.Threads() == 1 {
			break
		}
	}
	return max(queries/t.group, 1)
}

// promptMax is the most queries of a unit. Where K is V, two passes more make the tiles of a
// block, which more queries have to pay for.
func (t *attendTask) promptMax() int {
	most := promptFloats
	if t.c.cfg.Shared {
		most = sharedFloats
	}
	return min(promptQueries, most/t.c.shape.dim)
}

// do computes a unit.
func (p *promptTask) do(worker, i int) {
	t := (*attendTask)(p)
	u, w := &t.prompts[i], &t.scratch[worker].prompt
	n := u.rows * t.group
	w.start(n, t.c.shape)
	t.splitQueries(w, u, n)
	for start := 0; start < u.end(); start += promptBlock {
		if t.c.cfg.Shared {
			t.splitShared(w, u, start)
		} else {
			t.splitBlock(w, u, start)
		}
		w.prefetch.list = t.tilesFrom(w.prefetch.list[:0], u, start+promptBlock)
		w.prefetch.asked = 0
		t.addBlock(w, u, start)
	}
	t.finishPrompts(w, u, n)
}

// start makes room for n queries that have seen nothing. Rows of no query are
// what they were: they mean nothing to the others.
func (w *promptScratch) start(n int, s tileShape) {
	whole := roundUp(n, promptTile)
	w.q, w.out = grow(w.q, whole*s.dim), grow(w.out, whole*s.dim)
	w.k, w.v = grow(w.k, promptBlock*s.dim), grow(w.v, promptBlock*s.dim)
	w.state = grow(w.state, whole/promptTile*stateFloats)
	clear(w.state)
	for i := range whole {
		w.state[i/promptTile*stateFloats+i%promptTile] = -math.MaxFloat32
	}
	if len(w.last) != 2*s.half {
		w.last = heapBytes(2 * s.half)
	}
	if w.config == nil {
		w.p, w.row, w.config = grow(nil, 2*promptTile*promptBlock), grow(nil, headDimMax), heapBytes(64)
		w.config[0] = 1 // the only palette
		for i := range 8 {
			binary.LittleEndian.PutUint16(w.config[16+2*i:], 64)
			w.config[48+i] = 16
		}
		w.step.config = &w.config[0]
	}
}

// splitQueries takes the unit's queries apart, scaled so that weights are powers of two.
func (t *attendTask) splitQueries(w *promptScratch, u *attendUnit, n int) {
	d, dim := t.c.cfg.HeadDim, t.c.shape.dim
	scale, skip := t.scale*math.Log2E, 4*d*(t.heads-t.group)
	for m := 0; m < n; m += promptTile {
		at, rows := w.q[m*dim:], min(promptTile, n-m)
		if d == dim {
			t.b.ops.prompts.query(bytePtr(at), &t.q[t.place(u, m)], scale, dim/32, rows, t.group-m%t.group, t.group, skip)
			continue
		}
		for i := range rows {
			x := t.place(u, m+i)
			copy(w.row, t.q[x:x+d])
			clear(w.row[d:dim])
			t.b.ops.prompts.query(bytePtr(at[i*32:]), &w.row[0], scale, dim/32, 1, 1, 1, 0)
		}
	}
}

// finishPrompts writes the unit's rows.
func (t *attendTask) finishPrompts(w *promptScratch, u *attendUnit, n int) {
	d, dim := t.c.cfg.HeadDim, t.c.shape.dim
	skip := 4 * d * (t.heads - t.group)
	for m := 0; m < n; m += promptTile {
		out, sums, rows := w.out[m*dim:], w.state[m/promptTile*stateFloats+promptTile:], min(promptTile, n-m)
		if d == dim {
			t.b.ops.prompts.finish(&t.dst[t.place(u, m)], bytePtr(out), &sums[0], dim/32, rows, t.group-m%t.group, t.group, skip)
			continue
		}
		for i := range rows {
			t.b.ops.prompts.finish(&w.row[0], bytePtr(out[i*32:]), &sums[i*16], dim/32, 1, 1, 1, 0)
			copy(t.dst[t.place(u, m+i):][:d], w.row)
		}
	}
}
