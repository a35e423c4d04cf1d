package sched

import "corenode/engine/kv"

// The fake model has what real attention and recurrence would read and write:
// what a position stores depends on everything stored before it, read through
// the page table; the state depends on every token since its reset. So one
// wrong page, slot or position, or a page of another namespace, changes all
// outputs after it.

func mix(a, b uint64) uint64 {
	h := (a ^ b*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
	return h ^ h>>29
}

// stored is what a token leaves at its position; fold reads all of them.
func stored(salt, fold uint64, token int32) uint64 { return mix(mix(fold, salt), uint64(token)+1) }

func saltOf(namespace string) uint64 {
	h := uint64(1469598103934665603)
	for _, b := range []byte(namespace) {
		h = mix(h, uint64(b))
	}
	return h
}

type fakeModel struct {
	pageTokens int
	kv         [][]uint64 // page, slot
	states     []uint64
	coming     map[*Sequence]int32 // what the step before gave, while nobody else knows it
}

func newFakeModel(c kv.Config) *fakeModel {
	m := &fakeModel{pageTokens: c.PageTokens, states: make([]uint64, c.States), coming: map[*Sequence]int32{}}
	for range c.Pages {
		m.kv = append(m.kv, make([]uint64, c.PageTokens))
	}
	return m
}

func (m *fakeModel) do(ops []kv.StateOp) {
	for _, op := range ops {
		if op.Src == kv.NoState {
			m.states[op.Dst] = 0
		} else {
			m.states[op.Dst] = m.states[op.Src]
		}
	}
}

func (m *fakeModel) at(pages []int32, pos int) *uint64 {
	return &m.kv[pages[pos/m.pageTokens]][pos%m.pageTokens]
}

func (m *fakeModel) fold(pages []int32, n int) (fold uint64) {
	for pos := range n {
		fold = mix(fold, *m.at(pages, pos))
	}
	return fold
}

// step runs a plan and returns the output after each item, of one with a draft
// after each of its rows. Outputs are read after all writes: two sequences that
// write to one page, or save to one slot, are found out.
func (m *fakeModel) step(p *Plan) [][]uint64 {
	m.do(p.Before)
	for _, it := range p.Items {
		salt, fold := saltOf(it.Seq.Namespace), m.fold(it.Pages, it.Start)
		for row := range it.Len {
			pos, token := it.Start+row, m.token(&it, row)
			*m.at(it.Pages, pos) = stored(salt, fold, token)
			fold = mix(fold, *m.at(it.Pages, pos))
			if it.State != kv.NoState {
				m.states[it.State] = mix(m.states[it.State], mix(salt, uint64(token)))
			}
			if row < len(it.Saves) {
				m.states[it.Saves[row]] = m.states[it.State]
			}
		}
	}
	out := make([][]uint64, len(p.Items))
	for i, it := range p.Items {
		for row := it.Len - 1 - len(it.Draft); row < it.Len; row++ {
			x := m.fold(it.Pages, it.Start+row+1)
			switch {
			case it.State == kv.NoState:
			case row < it.Len-1:
				x = mix(x, m.states[it.Saves[row]])
			default:
				x = mix(x, m.states[it.State])
			}
			out[i] = append(out[i], x)
		}
	}
	return out
}

// token is what a row of an item computes.
func (m *fakeModel) token(i *Item, row int) int32 {
	if own := i.Len - len(i.Draft); row >= own {
		return i.Draft[row-own]
	}
	if i.Start+row == len(i.Seq.Tokens) {
		return m.coming[i.Seq]
	}
	return i.Seq.Tokens[i.Start+row]
}

// oracle computes the same outputs for one sequence alone, from its tokens
// only: no pages, no slots, no batch.
type oracle struct {
	salt, fold, state uint64
	n                 int
}

func (o *oracle) output(tokens []int32, hybrid bool) uint64 {
	for ; o.n < len(tokens); o.n++ {
		o.fold = mix(o.fold, stored(o.salt, o.fold, tokens[o.n]))
		o.state = mix(o.state, mix(o.salt, uint64(tokens[o.n])))
	}
	if hybrid {
		return mix(o.fold, o.state)
	}
	return o.fold
}
