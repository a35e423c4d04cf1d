package model

import (
	"slices"

	"corenode/engine/kernel"
)

// routed is a backend that keeps which experts every row chose.
type routed struct {
	kernel.Backend
	experts int
	chosen  [][]choice // by call
}

// choice is what one row chose in one layer.
type choice struct {
	experts []int   // in rising order
	lead    float32 // of the least of them over the best of the others, as a share of the logits' range
}

// watchRoutes puts the recorder in place; nil for models without experts.
func watchRoutes(m *Model) *routed {
	if m.cfg.Experts == 0 {
		return nil
	}
	r := &routed{Backend: m.b, experts: m.cfg.Experts}
	m.b = r
	return r
}

func (r *routed) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, how kernel.Routing) {
	var rows []choice
	for i := range n {
		l := make([]float32, r.experts)
		r.Backend.Download(l, logits, i*r.experts)
		rows = append(rows, choose(l, how.Top))
	}
	r.chosen = append(r.chosen, rows)
	r.Backend.Experts(dst, x, logits, n, s, how)
}

func choose(logits []float32, top int) choice {
	order := slices.Clone(logits)
	slices.Sort(order)
	least, most := order[0], order[len(order)-1]
	worst, next := order[len(order)-top], order[len(order)-top-1]
	c := choice{lead: (worst - next) / (most - least)}
	for e, l := range logits {
		if l >= worst {
			c.experts = append(c.experts, e)
		}
	}
	return c
}

// take returns the choices since the last call, by row: those of all layers.
func (r *routed) take() [][]choice {
	if r == nil {
		return nil
	}
	rows := make([][]choice, len(r.chosen[0]))
	for _, layer := range r.chosen {
		for i, c := range layer {
			rows[i] = append(rows[i], c)
		}
	}
	r.chosen = nil
	return rows
}

// firstTurn is the first row that chose other experts, len(a) if none did, and by
// how much it led where it did so first.
func firstTurn(a, b [][]choice) (row int, lead float32) {
	for i := range a {
		for l := range a[i] {
			if !slices.Equal(a[i][l].experts, b[i][l].experts) {
				return i, a[i][l].lead
			}
		}
	}
	return len(a), 0
}
