package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRandom drives a pool with random calls, Check after each, and compares
// hits with a set of prefixes kept beside it: a hit must be a prefix that was
// indexed in that namespace, and while nothing was evicted, the longest.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		size := []int{16, 32, 64}[seed%3]
		c := Config{Pages: 24, PageTokens: size, PageBytes: 8, Seed: seed}
		if seed%2 == 1 {
			c.States, c.SnapshotsMax, c.StateBytes = 6, 4, 20
		}
		if err := randomCalls(r, newPool(t, c)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

type live struct {
	Table
	space  string
	tokens []int32
}

func randomCalls(r *rand.Rand, p *Pool) error {
	size := p.config.PageTokens
	known := map[string]bool{}
	var open []*live
	var handles []Handle
	for step := range 1500 {
		switch k := r.IntN(10); {
		case k < 3 && len(open) < 5:
			l, err := openRandom(r, p, known)
			if err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			if l != nil {
				open = append(open, l)
			}
		case k < 6 && len(open) > 0:
			l := open[r.IntN(len(open))]
			full := len(l.tokens) / size
			if full == 0 {
				break
			}
			n := (1 + r.IntN(full)) * size
			if p.Hybrid() {
				p.Snapshot(&l.Table, l.tokens, n)
				if r.IntN(4) == 0 {
					p.DropSnapshot(&l.Table, (1+r.IntN(full))*size)
				}
			} else {
				p.Index(&l.Table, l.tokens, n)
			}
			for at := size; at <= n; at += size {
				known[key(l, at)] = true
			}
		case k < 7 && len(open) > 0 && p.Hybrid():
			l := open[r.IntN(len(open))]
			if n := len(l.Saves); n > 0 {
				p.KeepSave(&l.Table, r.IntN(n+1))
			} else {
				p.TakeSaves(&l.Table, r.IntN(p.StatesFree()+1))
			}
		case k < 8 && len(open) > 0:
			i := r.IntN(len(open))
			if r.IntN(2) == 0 {
				handles = append(handles, p.Pin(&open[i].Table, []int{size, 2 * size}, int64(r.IntN(120))))
			}
			p.Close(&open[i].Table)
			open = slices.Delete(open, i, i+1)
		case len(handles) > 0:
			p.Unpin(handles[r.IntN(len(handles))])
		}
		if err := p.Check(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	for _, l := range open {
		p.Close(&l.Table)
	}
	for _, h := range handles {
		p.Unpin(h)
	}
	if s := p.Stats(); s.PagesOwned+s.PagesPinned+s.Handles+s.Guarded+s.Tables > 0 {
		return fmt.Errorf("something leaked: %+v", s)
	}
	return p.Check()
}

// openRandom opens a table with all it needs and checks its hit; nil says
// that there was no room.
func openRandom(r *rand.Rand, p *Pool, known map[string]bool) (*live, error) {
	size := p.config.PageTokens
	l := &live{space: fmt.Sprint(r.IntN(2)), tokens: make([]int32, 1+r.IntN(6*size))}
	for i := range l.tokens { // few kinds of pages, so that paths meet
		l.tokens[i] = int32(i/size*10 + r.IntN(40)/39)
	}
	evicted := p.count.PagesEvicted + p.count.SnapshotsEvicted
	n, _ := p.Open(&l.Table, l.space, l.tokens)
	switch {
	case n >= len(l.tokens) || n%size != 0:
		return nil, fmt.Errorf("hit of %d of %d", n, len(l.tokens))
	case n > 0 && !known[key(l, n)]:
		return nil, fmt.Errorf("hit of %d that was never indexed there", n)
	case evicted == 0 && n+size < len(l.tokens) && !p.Hybrid() && known[key(l, n+size)]:
		return nil, fmt.Errorf("hit of %d, but more is known", n)
	}
	if p.Hybrid() {
		if _, err := p.TakeState(&l.Table); err != nil {
			p.Close(&l.Table)
			return nil, nil
		}
	}
	if p.Grow(&l.Table, len(l.tokens)) != nil {
		p.Close(&l.Table)
		return nil, nil
	}
	p.CountHit(&l.Table)
	return l, nil
}

func key(l *live, n int) string { return fmt.Sprint(l.space, l.tokens[:n]) }
