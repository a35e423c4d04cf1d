package interp

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"corenode/engine/kernel/cuda"
)

// instructionsMax is how many instructions of warps a block may execute: one that
// needs more does not end.
const instructionsMax = 1 << 28

// kernelRun is one launch.
type kernelRun struct {
	*kernel
	memory *arena
	params []byte
	grid   [3]int
	block  [3]int
	bytes  int // of shared memory
	seed   uint64
	shadow bool
	limit  int64 // instructionsMax, but in tests
	ran    []bool
	mu     sync.Mutex // guards ran and first
	first  *fault
	count  atomic.Int64 // instructions of warps
}

// execute runs all blocks in a random order: on the given number of workers,
// or on one where blocks meet in global memory.
func (k *kernelRun) execute(workers int) *fault {
	blocks := k.grid[0] * k.grid[1] * k.grid[2]
	if k.ordered {
		workers = 1
	}
	order := rand.New(rand.NewPCG(k.seed, 0)).Perm(blocks)
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(workers, blocks) {
		done.Go(func() {
			c := k.takeBlock()
			for {
				i := int(next.Add(1)) - 1
				if i >= blocks || k.failed() {
					break
				}
				c.reset(order[i])
				c.run()
				k.count.Add(c.count)
				k.note(c)
			}
			k.leaveBlock(c)
		})
	}
	done.Wait()
	return k.first
}

func (k *kernelRun) failed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.first != nil
}

func (k *kernelRun) note(c *cta) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first == nil {
		k.first = c.fault
	}
	for i, ran := range c.ran {
		k.ran[i] = k.ran[i] || ran
	}
}

// takeBlock is the memory of a block, which serves one block after another: that of an earlier launch of the kernel, or new.
func (k *kernelRun) takeBlock() *cta {
	threads := k.block[0] * k.block[1] * k.block[2]
	if c, ok := k.blocks.Get().(*cta); ok && c.threads == threads && len(c.shared) == k.bytes {
		c.k = k
		return c
	}
	begin := k.registers()
	c := &cta{k: k, threads: threads, shared: make([]byte, k.bytes), ran: make([]bool, len(k.code)), tiles: &tiles{}, begin: begin}
	for i := range (threads + lanes - 1) / lanes {
		w := &warp{c: c, id: i, regs: slices.Clone(begin), preds: make([]uint32, k.preds),
			local: make([]byte, lanes*k.localBytes), parts: make([]part, 0, 2*lanes)}
		w.began = full
		if rest := threads - i*lanes; rest < lanes {
			w.began = 1<<rest - 1
		}
		c.warps = append(c.warps, w)
	}
	return c
}

// leaveBlock keeps memory for the kernel's next launch. That of a fault goes: which instruction broke off does not show in ran.
func (k *kernelRun) leaveBlock(c *cta) {
	if c.fault == nil {
		c.k = nil
		k.blocks.Put(c)
	}
}

// registers are those of a warp as it begins: poison and constants.
func (k *kernelRun) registers() []vector {
	all, bad := make([]vector, k.regs), vector{}
	for l := range bad {
		bad[l] = ^uint64(0)
	}
	for i := range all {
		all[i] = bad
	}
	for _, c := range k.constants {
		for l := range lanes {
			all[c.slot][l] = c.value
		}
	}
	return all
}

// reset makes a block the index-th of the grid, with poison in all that it may read.
func (c *cta) reset(index int) {
	k := c.k
	c.index = [3]int{index % k.grid[0], index / k.grid[0] % k.grid[1], index / k.grid[0] / k.grid[1]}
	c.random = rand.New(rand.NewPCG(k.seed, uint64(index)+1))
	c.barriers = [16]barrier{}
	c.bars, c.bulk, c.fault, c.count, c.shadow = c.bars[:0], c.bulk[:0], nil, 0, nil
	fill(c.shared, poison)
	if k.shadow {
		c.shadow = newShadow(len(c.shared))
	}
	c.forget()
	for _, w := range c.warps {
		w.reset()
	}
}

// forget makes the registers what they are at first. There are many more than most blocks write, so it visits those that what ran
// may have written.
func (c *cta) forget() {
	for pc, ran := range c.ran {
		if !ran {
			continue
		}
		for _, slot := range c.k.writes[pc] {
			for _, w := range c.warps {
				w.regs[slot] = c.begin[slot]
			}
		}
	}
	clear(c.ran)
}

func (w *warp) reset() {
	k := w.c.k
	w.alive = w.began
	w.parts = append(w.parts[:0], part{mask: w.began})
	w.async = asyncState{copies: w.async.copies[:0]}
	w.stores, w.ready, w.passed, w.again, w.ticket, w.hint = [lanes]uint32{}, false, false, false, ticket{}, nil
	w.matrix = matrixState{queue: w.matrix.queue[:0]}
	fill(w.local, poison)
	clear(w.preds)
	for _, s := range k.specials {
		for l := range lanes {
			w.regs[s.slot][l] = w.special(s.which, l)
		}
	}
}

// special is the value of a special register.
func (w *warp) special(which special, l int) uint64 {
	k := w.c.k
	t := w.id*lanes + l
	switch {
	case which <= tidZ:
		return uint64([3]int{t % k.block[0], t / k.block[0] % k.block[1], t / k.block[0] / k.block[1]}[which-tidX])
	case which <= ntidZ:
		return uint64(k.block[which-ntidX])
	case which <= ctaidZ:
		return uint64(w.c.index[which-ctaidX])
	case which <= nctaidZ:
		return uint64(k.grid[which-nctaidX])
	}
	switch which {
	case laneID:
		return uint64(l)
	case warpID:
		return uint64(w.id)
	case maskEq:
		return 1 << l
	case maskLt:
		return 1<<l - 1
	case maskLe:
		return 2<<l - 1
	case maskGt:
		return full &^ (2<<l - 1)
	case maskGe:
		return full &^ (1<<l - 1)
	}
	return uint64(k.bytes - k.sharedBytes)
}

// run executes a block: some instructions of a random warp at a time. Tensor
// copies arrive when nothing else can go on, and at random in some blocks.
func (c *cta) run() {
	early := c.random.IntN(2) == 0
	for c.fault == nil {
		if len(c.bulk) > 0 && early && c.random.IntN(8) == 0 {
			c.deliverAny()
		}
		if moved, alive := c.turn(); !alive {
			break
		} else if moved || c.fault != nil {
			continue
		}
		if !c.deliverAny() {
			c.deadlock()
			return
		}
	}
	if c.fault == nil {
		c.leftovers()
	}
}

// turn lets the warps run from a random one on until one moves.
func (c *cta) turn() (moved, alive bool) {
	first := c.random.IntN(len(c.warps))
	budget := 1 + c.random.IntN(64)
	for i := range c.warps {
		w := c.warps[(first+i)%len(c.warps)]
		if w.alive == 0 {
			continue
		}
		alive = true
		if w.advance(budget) {
			if c.count > c.k.limit {
				w.fail(-1, "the block has executed %d instructions: it does not end", c.count)
			}
			return true, true
		}
		if c.fault != nil {
			return false, true
		}
	}
	return false, alive
}

// deliverAny performs one load that is under way.
func (c *cta) deliverAny() bool {
	if len(c.bulk) == 0 {
		return false
	}
	first := c.random.IntN(len(c.bulk))
	for i := range c.bulk {
		if at := (first + i) % len(c.bulk); c.bulk[at].load {
			c.deliver(at)
			return true
		}
	}
	return false
}

// deadlock reports who waits where.
func (c *cta) deadlock() {
	var all []string
	for _, w := range c.warps {
		for _, p := range w.parts {
			s := c.k.code[p.pc].source
			all = append(all, fmt.Sprintf("threads %d to %d (%#x) at line %d: %s",
				w.id*lanes+bits.TrailingZeros32(p.mask), w.id*lanes+31-bits.LeadingZeros32(p.mask), p.mask, s.line, s.text))
		}
	}
	for _, w := range c.warps {
		if len(w.parts) > 0 {
			w.pc = w.parts[0].pc
			w.fail(bits.TrailingZeros32(w.parts[0].mask), "deadlock: %s", strings.Join(all, "; "))
			return
		}
	}
}

// leftovers finds copies and multiplications that nobody waited for, and bytes
// that were expected in vain.
func (c *cta) leftovers() {
	for _, b := range c.bulk {
		c.warps[b.warp].pc = b.pc
		c.warps[b.warp].fail(b.lane, "the kernel ended with this copy under way")
	}
	for _, b := range c.bars {
		if b.bytes != 0 {
			c.warps[0].fail(-1, "the kernel ended with an mbarrier at %#x that misses %d bytes", b.at, b.bytes)
		}
	}
	for _, w := range c.warps {
		for _, l := range w.async.copies {
			w.pc = l.pc
			w.fail(l.lane, "the kernel ended with this copy under way")
		}
		for _, q := range w.matrix.queue {
			w.pc = q.pc
			w.fail(-1, "the kernel ended with this multiplication under way")
		}
	}
}

// newRun checks a launch as a driver does.
func newRun(k *kernel, l cuda.Launch, sharedMax int) (*kernelRun, error) {
	r := &kernelRun{kernel: k, grid: dims(l.Grid), block: dims(l.Block), bytes: k.sharedBytes + l.Shared, limit: instructionsMax}
	threads := r.block[0] * r.block[1] * r.block[2]
	switch {
	case min(r.grid[0], r.grid[1], r.grid[2], r.block[0], r.block[1], r.block[2]) < 1 || r.grid[1] > 65535 || r.grid[2] > 65535:
		return nil, fmt.Errorf("grid %v of blocks %v", r.grid, r.block)
	case threads > 1024 || r.block[2] > 64:
		return nil, fmt.Errorf("%d threads in a block", threads)
	case k.threadsMax > 0 && threads > k.threadsMax:
		return nil, fmt.Errorf("%d threads in a block of a kernel for %d", threads, k.threadsMax)
	case k.exact[0] > 0 && r.block != k.exact:
		return nil, fmt.Errorf("block %v of a kernel for %v", r.block, k.exact)
	case l.Shared < 0 || r.bytes > sharedMax:
		return nil, fmt.Errorf("%d bytes of shared memory, at most %d", r.bytes, sharedMax)
	case l.Shared > 0 && !k.dynamic:
		return nil, fmt.Errorf("%d bytes of shared memory that the kernel does not name", l.Shared)
	case len(l.Params) != k.paramBytes:
		return nil, fmt.Errorf("%d bytes of parameters, want %d", len(l.Params), k.paramBytes)
	}
	r.params = append([]byte(nil), l.Params...)
	return r, nil
}

func dims(d cuda.Dim) [3]int {
	one := func(n int) int {
		if n == 0 {
			return 1
		}
		return n
	}
	return [3]int{one(d.X), one(d.Y), one(d.Z)}
}
