package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"corenode/engine/model"
)

// deviceShare is the part of a device's memory that is planned for nothing, for each model on it: what operations need
// beside the rows of steps, graphs, and what the driver takes.
const deviceShare = 16

// deviceStates is the part of what a model gets of a device that is for states where the config says neither how much
// they nor pages have.
const deviceStates = 4

// hasMemory is a backend on a device, which has memory of its own.
type hasMemory interface {
	Memory() (free, total int64, err error)
}

// claim is what one model wants of a device, in bytes: for pages and for states. divide fills in what is 0.
type claim struct {
	pages, states       int64
	pagesMax, statesMax int64 // more is of no use
}

// open says whether something is left to be filled in.
func (c claim) open() bool { return c.pages == 0 || c.states == 0 && c.statesMax > 0 }

// fixed is what the config says, as far as it is of use.
func (c claim) fixed() int64 { return min(c.pages, c.pagesMax) + min(c.states, c.statesMax) }

// need is how much of what is left to be filled in is of use.
func (c claim) need() (bytes int64) {
	if c.pages == 0 {
		bytes += c.pagesMax
	}
	if c.states == 0 {
		bytes += c.statesMax
	}
	return bytes
}

// fill fills in what is open with part. What pages have no use for is for states too.
func (c *claim) fill(part int64) {
	pages, states := c.pages == 0, c.states == 0
	if pages {
		c.pages = part
		if states {
			c.pages -= min(part/deviceStates, c.statesMax)
		}
		c.pages = min(c.pages, c.pagesMax)
		part -= c.pages
	}
	if states {
		c.states = min(part, c.statesMax)
	}
}

// divide fills in what claims leave open. Each gets an equal part of what those that need less left.
func divide(room int64, claims []claim) {
	var open []*claim
	for i := range claims {
		c := &claims[i]
		if room -= c.fixed(); c.open() {
			open = append(open, c)
		}
	}
	slices.SortStableFunc(open, func(a, b *claim) int { return cmp.Compare(a.need(), b.need()) })
	for i, c := range open {
		had := c.fixed()
		c.fill(max(0, room) / int64(len(open)-i))
		room -= c.fixed() - had
	}
}

// Divide sizes the memory of engines that Load returned and that share a device: the weights of all are there, and it
// divides what they leave, those that need least first. It takes nothing: the step loops do. Engines on the host have their sizes.
func Divide(engines ...*Engine) error {
	var on []*Engine
	var claims []claim
	var says []string
	var free, total, fixed int64
	for _, e := range engines {
		b, ok := e.backend.(hasMemory)
		if !ok {
			continue
		}
		f, t, err := b.Memory()
		if err != nil {
			return fmt.Errorf("model %s: memory of the device: %w", e.info.ID, err)
		}
		if len(on) == 0 || f < free {
			free, total = f, t
		}
		c := e.claim()
		if c.fixed() > 0 {
			says = append(says, e.info.ID)
		}
		on, claims, fixed = append(on, e), append(claims, c), fixed+c.fixed()
	}
	spare := int64(len(on)) * (total / deviceShare)
	if fixed > 0 && fixed > free-spare {
		return fmt.Errorf("kv.memory_bytes and kv.state_memory_bytes of %s come to %d bytes, "+
			"the weights leave %d of the GPU, %d of which are kept free", strings.Join(says, ", "), fixed, free, spare)
	}
	divide(free-spare, claims)
	for i, e := range on {
		o := e.options
		o.Cache.Bytes, o.Cache.StateBytes = claims[i].pages, claims[i].states
		if err := e.size(o); err != nil {
			return fmt.Errorf("model %s: %w", o.ID, err)
		}
	}
	return nil
}

// claim is what an engine's options say, and what is of use for its model.
func (e *Engine) claim() claim {
	o, m := e.options, e.forwarder.(*model.Model)
	pages, states := useful(o, e.info.ContextLength)
	c := claim{pages: o.Cache.Bytes, pagesMax: pages * m.BytesPerPage(o.Cache.PageTokens, o.Cache.KV)}
	if m.HasState() {
		c.states, c.statesMax = o.Cache.StateBytes, states*m.BytesPerState(o.Cache.States)
	}
	return c
}
