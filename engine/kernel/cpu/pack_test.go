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
// there, whatever the pieces are, and no part of a source is read twice.
func TestPackedFromReads(t *testing.T) {
	b := open(t, Options{Threads: 2})
	for _, typ := range []kernel.Type{kernel.F32, kernel.BF16, kernel.Q8_0, kernel.Q4_K} {
		for _, rows := range []int{1, 33, 4000} {
			src := randomSource(newRand(7), typ, 3, rows, 256)
			load := func(name string, pieces bool, read func([]byte, *[]byte) []byte) []byte {
				s := src
				if s.Name, s.Read = name, read; pieces {
					for e := range s.Experts {
						size := len(s.Data) / s.Experts
						s.Pieces = append(s.Pieces, s.Data[e*size:(e+1)*size])
					}
					s.Data = nil
				}
				w, err := b.Load(s)
				if err != nil {
					t.Fatal(err)
				}
				return w.(*weight).data
			}
			want := load(fmt.Sprint("there ", typ, rows), false, nil)
			for _, pieces := range []bool{false, true} {
				var bytes atomic.Int64
				got := load(fmt.Sprint("read ", typ, rows, pieces), pieces, func(part []byte, scratch *[]byte) []byte {
					bytes.Add(int64(len(part)))
					*scratch = append((*scratch)[:0], part...)
					return *scratch
				})
				if !slices.Equal(got, want) || bytes.Load() != int64(len(src.Data)) {
					t.Errorf("type %d, %d rows, pieces %v: other bytes, or %d of %d read", typ, rows, pieces, bytes.Load(), len(src.Data))
				}
			}
		}
	}
}
