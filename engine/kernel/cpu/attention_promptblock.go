package cpu

import (
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

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
				o.keys[kv](bytePtr(w.k[(pos-start)*dim+i*pairPart:]), &tile[0], dim/32)
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

// sees is how many positions of the block at start a tile of the unit sees, by
// its first and by its last query; not above zero for none.
func (t *attendTask) sees(u *attendUnit, start, tile int) (first, last int) {
	m := tile * promptTile
	from := u.span.Pos + u.row + 1 - start
	return from + m/t.group, min(from+min(m+promptTile-1, u.rows*t.group-1)/t.group, promptBlock)
}

// addBlock adds a block of positions to the results of all tiles that see it. Each
// tile passes through three steps: scores, softmax, results.
func (t *attendTask) addBlock(w *promptScratch, u *attendUnit, start int) {
	tiles := (u.rows*t.group + promptTile - 1) / promptTile
	from := 0
	for ; ; from++ {
		if _, last := t.sees(u, start, from); last > 0 {
			break
		}
	}
	s := &w.step
	asks := (len(w.prefetch.list) + tiles - from + 1) / (tiles - from + 2)
	for tile := from; tile < tiles+2; tile++ {
		t.ask(&w.prefetch, asks)
		s.products, s.softmax.rows = [2]promptProduct{}, 0
		if before := tile - 2; before >= from {
			t.results(w, u, start, before)
		}
		if before := tile - 1; before >= from && before < tiles {
			t.weights(w, u, start, before)
		}
		if tile < tiles {
			t.scoresOf(w, u, start, tile)
		}
		work := s.products[0].blocks*s.products[0].columns + s.products[1].blocks*s.products[1].columns
		s.softmax.each = (s.softmax.rows + work - 1) / max(work, 1)
		t.b.ops.prompts.step((*byte)(unsafe.Pointer(s)))
		if tile < tiles {
			t.mask(w, u, start, tile)
		}
	}
}

// tilesFrom lists the tiles of the block of positions at start.
func (t *attendTask) tilesFrom(list []*byte, u *attendUnit, start int) []*byte {
	for pos := start; pos < min(start+promptBlock, u.end()); pos += kvTile {
		list = append(list, &t.c.tile(t.layer, u.head, u.span.Pages, pos)[0])
	}
	return list
}

// ask asks memory for n more tiles of the next block.
func (t *attendTask) ask(a *promptPrefetch, n int) {
	for ; n > 0 && a.asked < len(a.list) && t.b.ops.fetchLines != nil; n-- {
		t.b.ops.fetchLines(a.list[a.asked], t.c.shape.size/64)
		a.asked++
	}
}

// scoresOf plans the scores of a tile.
func (t *attendTask) scoresOf(w *promptScratch, u *attendUnit, start, tile int) {
	dim := t.c.shape.dim
	_, last := t.sees(u, start, tile)
	w.step.products[1] = promptProduct{
		dst: &w.p[tile%2*promptTile*promptBlock], left: &w.q[tile*promptTile*dim], right: &w.k[0],
		rightNext: 4 * pairBlock, rightStep: 4 * 32 * dim, blocks: dim / 32, columns: (last + 31) / 32,
	}
}

// weights plans the softmax of a tile.
func (t *attendTask) weights(w *promptScratch, u *attendUnit, start, tile int) {
	dim := t.c.shape.dim
	_, last := t.sees(u, start, tile)
	state := w.state[tile*stateFloats:]
	w.step.softmax = promptSoftmax{
		scores: &w.p[tile%2*promptTile*promptBlock], tops: &state[0], sums: &state[promptTile], out: &w.out[tile*promptTile*dim],
		rows: min(promptTile, u.rows*t.group-tile*promptTile), blocks: (last + 31) / 32, columns: min(start, 1) * dim / 32,
	}
}

// results plans the results of a tile.
func (t *attendTask) results(w *promptScratch, u *attendUnit, start, tile int) {
	dim := t.c.shape.dim
	_, last := t.sees(u, start, tile)
	w.step.products[0] = promptProduct{
		dst: &w.out[tile*promptTile*dim], left: &w.p[tile%2*promptTile*promptBlock], right: &w.v[0],
		rightNext: 4 * 32 * dim, rightStep: 4 * pairBlock, blocks: (last + 31) / 32, columns: dim / 32, more: min(start, 1),
	}
}

// masked is a row of scores of positions that a query does not see.
var masked = func() (m [32]float32) {
	for i := range m {
		m[i] = float32(math.Inf(-1))
	}
	return m
}()

// mask hides the positions after each query's own.
func (t *attendTask) mask(w *promptScratch, u *attendUnit, start, tile int) {
	first, last := t.sees(u, start, tile)
	end := roundUp(last, 32)
	if first >= end {
		return
	}
	p := w.p[tile%2*promptTile*promptBlock:]
	for i := range min(promptTile, u.rows*t.group-tile*promptTile) {
		seen := max(u.span.Pos+u.row+1-start+(tile*promptTile+i)/t.group, 0)
		for at := seen; at < end; at = at&^31 + 32 {
			copy(p[at/32*pairBlock+i*32+at%32:at/32*pairBlock+(i+1)*32], masked[:])
		}
	}
}
