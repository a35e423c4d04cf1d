package cpu

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"corenode/engine/kernel"
)

// TestPackedHalves: in a panel of a 16-bit type, column after column holds that of each row, and
// lanes without a row stay zero, for widths around those that are moved at once.
func TestPackedHalves(t *testing.T) {
	for _, cols := range []int{1, 3, 4, 60, 63, 64, 66, 68, 130} {
		for _, rows := range []int{1, 3, 4, 7, 31, 32, 37} {
			src := randomSource(newRand(5), kernel.BF16, 2, rows, cols)
			w := newWeight(src, bfloat16s)
			w.data = make([]byte, w.size())
			for panel := range 2 * w.panels {
				newPacker(cols).pack(w, panel/w.panels, panel%w.panels)
			}
			for i := range 2 * w.panels * panelRows * cols {
				expert, row, col := i/(w.panels*panelRows*cols), i/cols%(w.panels*panelRows), i%cols
				want := uint16(0)
				if row < rows {
					want = binary.LittleEndian.Uint16(src.Data[((expert*rows+row)*cols+col)*2:])
				}
				got := binary.LittleEndian.Uint16(w.panel(expert, row/panelRows)[(col*panelRows+row%panelRows)*2:])
				if got != want {
					t.Fatalf("%d x %d: row %d, column %d of %d is %#x, want %#x", rows, cols, row, col, expert, got, want)
				}
			}
		}
	}
}

// TestPackedFromReads: weights whose source is read in pieces are packed as those whose source is
// there, whatever the pieces are, and no part of a source is read twice. All of them are packed when
// Wait returns, and weights can be loaded after it.
func TestPackedFromReads(t *testing.T) {
	b := open(t, Options{Threads: 2})
	var read atomic.Int64
	reader := func(part []byte, scratch *[]byte) []byte {
		read.Add(int64(len(part)))
		*scratch = append((*scratch)[:0], part...)
		return *scratch
	}
	for _, typ := range []kernel.Type{kernel.F32, kernel.BF16, kernel.Q8_0, kernel.Q4_K} {
		var want, got []*weight
		size := 0
		load := func(name string, rows, each int, read func([]byte, *[]byte) []byte) *weight {
			s := randomSource(newRand(7), typ, 3, rows, 256)
			if s.Name, s.Read = fmt.Sprint(name, typ, rows, each), read; read != nil {
				size += len(s.Data)
			}
			if each > 0 {
				s.Pieces, s.Data = slices.Collect(slices.Chunk(s.Data, len(s.Data)/(3*rows)*each)), nil
			}
			w, err := b.Load(s)
			if err != nil {
				t.Fatal(err)
			}
			return w.(*weight)
		}
		for _, shape := range [][2]int{{1, 0}, {1, 1}, {33, 0}, {33, 33}, {4000, 0}, {4000, 4000}, {4000, 160}, {9600, 4800}} {
			got = append(got, load("read ", shape[0], shape[1], reader))
			want = append(want, load("there ", shape[0], shape[1], nil))
		}
		b.Wait()
		for i := range got {
			if !slices.Equal(got[i].data, want[i].data) {
				t.Errorf("type %d: %d rows have other bytes", typ, got[i].src.Rows)
			}
		}
		if n := read.Swap(0); n != int64(size) {
			t.Errorf("type %d: %d of %d bytes read", typ, n, size)
		}
	}
}
