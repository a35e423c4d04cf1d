package cpu

import (
	"encoding/binary"
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
