package wide

import (
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

const (
	chunkRows = 64
	// chunksMax is how many chunks are prepared before they are scanned, for the memory that they take.
	chunksMax = 32
	columns   = 32 // of a state that a block of the scan has
)

// prepareBytes and scanBytes are the shared memory of the kernels for heads of d values.
func prepareBytes(d int) int { return 4 * (3*chunkRows*(d+4) + chunkRows*(chunkRows+4) + 3*chunkRows) }

func scanBytes(d int) int {
	return 4 * (2*chunkRows*(d+4) + chunkRows*(d+8) + chunkRows*(chunkRows+4) + (d+chunkRows)*(columns+8))
}

// leftFloats is what a chunk of a head leaves for the scan.
func leftFloats(d int) int { return 4*chunkRows*d + chunkRows*chunkRows + 4 }

// long says whether a span goes through DeltaNet in chunks. States between its rows are known only at chunks' ends.
func long(s *kernel.Span) bool { return s.Len >= rowsMin && len(s.Saves) == 0 }

// DeltaNet implements kernel.Backend.
func (b *Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer, w kernel.DeltaWeights,
	s kernel.DeltaShape, step *kernel.Step) {
	prepare, scan := fmt.Sprintf("prepare%d", s.Dim), fmt.Sprintf("scan%d", s.Dim)
	if !b.able[prepare] || !b.able[scan] {
		b.Backend.DeltaNet(kc, layer, dst, qkv, z, beta, alpha, w, s, step)
		return
	}
	mixed := b.Convolve(kc, layer, qkv, w, s, step)
	for from, to := range runs(step.Spans, func(s *kernel.Span) bool { return !long(s) }) {
		b.Recur(kc, layer, dst, z, beta, alpha, w, s, step, from, to-from)
	}
	l, n, passes := b.Arrange(kc, step), step.Rows, b.passes(step)
	if len(passes) == 0 {
		return
	}
	lists, width := b.bring(&b.chunks), n*s.VHeads*s.Dim
	left := b.Need(&b.left, 4*int64(min(chunksMax, up(n, chunkRows)+len(step.Spans)))*int64(s.VHeads)*int64(leftFloats(s.Dim)))
	for _, p := range passes {
		b.Queue(prepare, eager.Shape{X: p.chunks, Y: s.VHeads, Threads: 2 * s.Dim, Shared: shared[prepare]}, left, mixed,
			b.Address(beta, n*s.VHeads), b.Address(alpha, n*s.VHeads), b.Address(w.A, s.VHeads), b.Address(w.DtBias, s.VHeads),
			lists+cuda.Pointer(4*p.at), l.Config.ConvDim, s.KHeads, s.VHeads, s.Tiled, s.Eps)
		b.Queue(scan, eager.Shape{X: s.Dim / columns, Y: s.VHeads, Z: p.spans, Threads: 128, Shared: shared[scan]}, b.Address(dst, width),
			left, b.States(kc, layer, s), lists+cuda.Pointer(4*(p.at+2*p.chunks)), l.SlotFloats, s.VHeads, l.Brain)
	}
	for from, to := range runs(step.Spans, long) {
		first, last := step.Spans[from], step.Spans[to-1]
		further := cuda.Pointer(4 * first.Row * s.VHeads * s.Dim)
		b.Queue("finish", eager.Shape{X: last.Row + last.Len - first.Row, Threads: 256}, b.Address(dst, width)+further,
			b.Address(z, width)+further, b.Address(w.Norm, s.Dim), s.VHeads, s.Dim, s.Eps)
	}
}

// pass is chunks that are prepared together: at at in the list are {first row, rows} of each, then a record of
// each span, {first row, rows, slot, first chunk, the one behind the last}.
type pass struct{ at, chunks, spans int }

// passes makes lists of the chunks of a step.
func (b *Backend) passes(step *kernel.Step) (all []pass) {
	v, chunks, spans := b.chunks.next[:0], []int32(nil), []int32(nil)
	flush := func() {
		if len(chunks) > 0 {
			all = append(all, pass{len(v), len(chunks) / 2, len(spans) / 5})
			v = append(append(v, chunks...), spans...)
			chunks, spans = chunks[:0], spans[:0]
		}
	}
	for i := range step.Spans {
		s := &step.Spans[i]
		for done := 0; done < s.Len && long(s); {
			first := len(chunks) / 2
			rows := min(s.Len-done, (chunksMax-first)*chunkRows)
			for at := 0; at < rows; at += chunkRows {
				chunks = append(chunks, int32(s.Row+done+at), int32(min(chunkRows, rows-at)))
			}
			spans = append(spans, int32(s.Row+done), int32(rows), s.State, int32(first), int32(len(chunks)/2))
			if done += rows; len(chunks)/2 == chunksMax {
				flush()
			}
		}
	}
	flush()
	b.chunks.next = v
	return all
}
