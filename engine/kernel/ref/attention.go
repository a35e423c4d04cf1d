package ref

import (
	"math"

	"corenode/engine/kernel"
)

// RopeAngles implements kernel.Backend.
func (*Backend) RopeAngles(dst kernel.Buffer, step *kernel.Step, invFreq []float64, gain float64) {
	out, half := mem(dst), len(invFreq)
	for _, s := range step.Spans {
		for i := range s.Len {
			row := out[(s.Row+i)*2*half:]
			for j, f := range invFreq {
				sin, cos := math.Sincos(float64(s.Pos+i) * f)
				row[j], row[half+j] = float32(cos*gain), float32(sin*gain)
			}
		}
	}
}

// Rope implements kernel.Backend.
func (*Backend) Rope(x, angles kernel.Buffer, n, heads, headDim, half int, neox bool) {
	for i := range n * heads {
		head := mem(x)[i*headDim : (i+1)*headDim]
		row := mem(angles)[i/heads*2*half:]
		for j := range half {
			a, b := 2*j, 2*j+1
			if neox {
				a, b = j, j+half
			}
			cos, sin := float64(row[j]), float64(row[half+j])
			u, v := float64(head[a]), float64(head[b])
			head[a] = float32(u*cos - v*sin)
			head[b] = float32(u*sin + v*cos)
		}
	}
}

// Attend implements kernel.Backend.
func (*Backend) Attend(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads, window int, scale float32,
	sinks kernel.Buffer) {
	c := kc.(*cache)
	d := c.cfg.HeadDim
	for _, s := range step.Spans {
		for i := range s.Len {
			for h := range heads {
				at := ((s.Row+i)*heads + h) * d
				kvHead := h / (heads / c.cfg.KVHeads)
				sum, top := c.attend(mem(dst)[at:at+d], mem(q)[at:at+d], layer, kvHead, s.Pages, s.Pos+i, window, float64(scale))
				if sinks != nil {
					share := sum / (sum + math.Exp(float64(mem(sinks)[h])-top))
					for j := range d {
						mem(dst)[at+j] = float32(float64(mem(dst)[at+j]) * share)
					}
				}
			}
		}
	}
}

// attend computes one head of one row: softmax over the window that ends with last. The weights
// were divided by sum·exp(top).
func (c *cache) attend(dst, q []float32, layer, kvHead int, pages []int32, last, window int, scale float64) (sum, top float64) {
	d, first := c.cfg.HeadDim, 0
	if window > 0 {
		first = max(0, last+1-window)
	}
	scores := make([]float64, last+1)
	top = math.Inf(-1)
	for pos := first; pos <= last; pos++ {
		scores[pos] = scale * dot(q, c.row(layer, 0, pages, pos)[kvHead*d:(kvHead+1)*d])
		top = max(top, scores[pos])
	}
	out := make([]float64, d)
	for pos := first; pos <= last; pos++ {
		p := math.Exp(scores[pos] - top)
		sum += p
		for j, v := range c.row(layer, 1, pages, pos)[kvHead*d : (kvHead+1)*d] {
			out[j] += p * float64(v)
		}
	}
	for j := range dst {
		dst[j] = float32(out[j] / sum)
	}
	return sum, top
}
