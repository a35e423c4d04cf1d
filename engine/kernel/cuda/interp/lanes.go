package interp

import "math/bits"

// What follows makes closures that run a function in each lane of a mask. The
// loop over all lanes has no test: it is what nearly always runs.

func (d *decoder) unary(k kind, f func(a uint64) uint64) {
	if !d.args(2, 2) {
		return
	}
	to, a := d.dst(), d.src(1, k)
	d.in.run = func(w *warp, mask uint32) {
		x, z := &w.regs[a], &w.regs[to]
		if mask == full {
			for i := range z {
				z[i] = f(x[i])
			}
			return
		}
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			z[i] = f(x[i])
		}
	}
}

func (d *decoder) binary(k kind, f func(a, b uint64) uint64) {
	if d.args(3, 3) {
		d.in.run = binaryLanes(d.dst(), d.src(1, k), d.src(2, k), f)
	}
}

func binaryLanes(to, a, b int, f func(a, b uint64) uint64) func(*warp, uint32) {
	return func(w *warp, mask uint32) {
		x, y, z := &w.regs[a], &w.regs[b], &w.regs[to]
		if mask == full {
			for i := range z {
				z[i] = f(x[i], y[i])
			}
			return
		}
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			z[i] = f(x[i], y[i])
		}
	}
}

func (d *decoder) ternary(k, last kind, f func(a, b, c uint64) uint64) {
	if d.args(4, 4) {
		d.in.run = ternaryLanes(d.dst(), d.src(1, k), d.src(2, k), d.src(3, last), f)
	}
}

func ternaryLanes(to, a, b, c int, f func(a, b, c uint64) uint64) func(*warp, uint32) {
	return func(w *warp, mask uint32) {
		x, y, v, z := &w.regs[a], &w.regs[b], &w.regs[c], &w.regs[to]
		if mask == full {
			for i := range z {
				z[i] = f(x[i], y[i], v[i])
			}
			return
		}
		for ; mask != 0; mask &= mask - 1 {
			i := bits.TrailingZeros32(mask) & 31
			z[i] = f(x[i], y[i], v[i])
		}
	}
}
