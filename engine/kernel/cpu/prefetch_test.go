package cpu

import (
	"testing"
	"unsafe"

	"corenode/engine/kernel"
)

// TestBegin: what is prefetched are lines of the panels that a thread begins with,
// none twice; all of them but the few that streams of equal length leave over.
func TestBegin(t *testing.T) {
	r := newRand(31)
	for range 300 {
		typ, n := []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q6_K, kernel.F16}[r.IntN(4)], 1+r.IntN(prefetchRows)
		src := kernel.Source{Type: typ, Experts: 1, Rows: 32 * (1 + r.IntN(20)), Cols: 256 * (1 + r.IntN(4))}
		w := newWeight(src, sources[typ].layout)
		w.data = make([]byte, w.size())
		p := r.IntN(w.panels)
		end := p + 1 + r.IntN(w.panels-p)
		var b begin
		b.of(&matJob{w: w, n: n}, p, end)
		size := w.layout.panelBytes(src.Cols)
		seen := map[int]bool{}
		for line := range int(b.lines.Load()) {
			for i := range b.streams {
				from := int(uintptr(unsafe.Pointer(b.streams[i].Load()))-uintptr(unsafe.Pointer(&w.data[0]))) + b.at(line)
				if from < p*size || from+64 > end*size || seen[from] {
					t.Fatalf("type %d, %d rows, panels %d to %d of %d bytes: line at %d is outside or read again", typ, n, p, end, size, from)
				}
				seen[from] = true
			}
		}
		all := min((end-p)*size, prefetchBytes)
		if n == 1 {
			all = min((end-p)/vecStreams*vecStreams*size, prefetchBytes)
		}
		if left := all - 64*len(seen); left < 0 || left > (end-p)*64*vecStreams*prefetchLines {
			t.Fatalf("type %d, %d rows, panels %d to %d of %d bytes: %d bytes are not prefetched", typ, n, p, end, size, left)
		}
	}
}
