package wide

import (
	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda/eager"
)

// queryRows is how many rows of a head a block of attention has.
const queryRows = 64

// attends says which kernel has room for heads of a width, "" for none.
func attends(c kernel.CacheConfig) string {
	switch {
	case c.KV != kernel.KVF16 || c.Shared || c.HeadDim%8 != 0 || c.HeadDim > 256:
		return ""
	case c.HeadDim <= 64:
		return "attendMany64"
	case c.HeadDim <= 128:
		return "attendMany128"
	}
	return "attendMany256"
}

// Attend implements kernel.Backend.
func (b *Backend) Attend(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads, window int, scale float32,
	sinks kernel.Buffer) {
	l := b.Arrange(kc, step)
	name := attends(l.Config)
	parts := &b.parts
	parts.next = parts.next[:0]
	table := 0
	for _, s := range step.Spans {
		for i := 0; i < s.Len && s.Len >= rowsMin; i += queryRows {
			parts.next = append(parts.next, int32(s.Row+i), int32(min(queryRows, s.Len-i)), int32(s.Pos+i), int32(table))
		}
		table += len(s.Pages)
	}
	if !b.able[name] || len(parts.next) == 0 {
		b.Backend.Attend(kc, layer, dst, q, step, heads, window, scale, sinks)
		return
	}
	at, size := b.bring(parts), step.Rows*heads*l.Config.HeadDim
	b.Queue(name, eager.Shape{X: len(parts.next) / 4, Y: heads, Threads: 128, Shared: shared[name]}, b.Address(dst, size),
		b.Address(q, size), l.Pages, b.Address(sinks, heads), at, l.Tables, layer, l.Config.PageTokens, l.PageBytes, l.RowBytes, heads,
		l.Config.KVHeads, l.Config.HeadDim, window, scale)
	for from, to := range runs(step.Spans, func(s *kernel.Span) bool { return s.Len < rowsMin }) {
		first, last := step.Spans[from], step.Spans[to-1]
		b.AttendRows(kc, layer, dst, q, step, first.Row, last.Row+last.Len-first.Row, heads, window, scale, sinks)
	}
}

// runs are the longest runs of spans that f accepts: from the first one to the one behind the last.
func runs(spans []kernel.Span, f func(s *kernel.Span) bool) func(func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(spans); from++ {
			to := from
			for to < len(spans) && f(&spans[to]) {
				to++
			}
			if to > from && !yield(from, to) {
				return
			}
			from = to
		}
	}
}
