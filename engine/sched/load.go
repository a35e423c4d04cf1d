package sched

import "corenode/engine/cost"

// loadOf is what a step with these items computes.
func loadOf(items []Item) (l cost.Load) {
	for i := range items {
		logits := 0
		if items[i].Logits {
			logits = 1 + len(items[i].Draft)
		}
		l = l.With(items[i].Start, items[i].Len, logits)
	}
	return l
}

// decodes says whether an item computes a next token, with a draft or without.
func (i *Item) decodes() bool { return i.Logits && i.Len == 1+len(i.Draft) }

// lastStep is what is needed about the last committed step when its time is known.
type lastStep struct {
	load    cost.Load
	decodes bool      // some item does
	alone   cost.Load // of its only item if that decodes, without its draft; else zero
	upset   bool      // it preempted sequences
}

func lastOf(p *Plan) lastStep {
	items := p.Items
	l := lastStep{load: loadOf(items), upset: len(p.Preempted) > 0}
	for i := range items {
		l.decodes = l.decodes || items[i].decodes()
	}
	if l.decodes && len(items) == 1 {
		l.alone = l.alone.With(items[0].Start, 1, 1)
	}
	return l
}
