package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

// weight is a packed matrix, or a stack of them.
type weight struct {
	src    kernel.Source // Data stays valid while the backend lives; nil for a stack that is packed
	layout layout
	panels int    // per expert
	data   []byte // experts x panels x layout.panelBytes, aligned to 64; nil for a table that only Embed reads
	habits [2]habit
}

// Rows implements kernel.Weight.
func (w *weight) Rows() int { return w.src.Rows }

// Cols implements kernel.Weight.
func (w *weight) Cols() int { return w.src.Cols }

// Experts implements kernel.Weight.
func (w *weight) Experts() int { return w.src.Experts }

// is says whether src is the very memory that w was made from.
func (w *weight) is(src kernel.Source) bool {
	return w.src.Pieces == nil && src.Pieces == nil &&
		unsafe.SliceData(w.src.Data) == unsafe.SliceData(src.Data) && len(w.src.Data) == len(src.Data) &&
		w.src.EmbedOnly == src.EmbedOnly && w.src.Type == src.Type && w.src.Experts == src.Experts &&
		w.src.Rows == src.Rows && w.src.Cols == src.Cols
}

// newWeight is the weight of src in the given layout, without its data.
func newWeight(src kernel.Source, l layout) *weight {
	return &weight{src: src, layout: l, panels: (src.Rows + panelRows - 1) / panelRows}
}

// size is how many bytes the packed form takes.
func (w *weight) size() int {
	return w.src.Experts * w.panels * w.layout.panelBytes(w.src.Cols)
}

// panel is panel p of an expert.
func (w *weight) panel(expert, p int) []byte {
	n := w.layout.panelBytes(w.src.Cols)
	at := (expert*w.panels + p) * n
	return w.data[at : at+n : at+n]
}

// part is n panels of an expert, from panel p on, as a weight of its own.
func (w *weight) part(expert, p, n int) *weight {
	part := &weight{src: w.src, layout: w.layout, panels: n}
	rows := min(n*panelRows, w.src.Rows-p*panelRows)
	part.src.Experts, part.src.Rows, part.src.Pieces = 1, rows, nil
	part.src.Data = w.sourceRows(expert, p*panelRows, rows)
	size := w.layout.panelBytes(w.src.Cols)
	at := (expert*w.panels + p) * size
	part.data = w.data[at : at+n*size]
	return part
}

// sourceRow is the bytes of a row in the model file.
func (w *weight) sourceRow(expert, row int) []byte { return w.sourceRows(expert, row, 1) }

// sourceRows are those of n rows of an expert.
func (w *weight) sourceRows(expert, row, n int) []byte {
	s := sources[w.src.Type]
	size := w.src.Cols / s.values * s.bytes
	if w.src.Pieces != nil {
		each := w.rowsTogether()
		row += expert * w.src.Rows
		return w.src.Pieces[row/each][row%each*size : (row%each+n)*size]
	}
	at := (expert*w.src.Rows + row) * size
	return w.src.Data[at : at+n*size : at+n*size]
}

// rowsTogether is how many rows of an expert lie together in the model file.
func (w *weight) rowsTogether() int {
	if w.src.Pieces == nil {
		return w.src.Rows
	}
	return w.src.Experts * w.src.Rows / len(w.src.Pieces)
}

// packer is the scratch memory of one thread that packs.
type packer struct {
	codes  *codeRow
	values []float32
}

func newPacker(cols int) *packer {
	return &packer{newCodeRow(cols), make([]float32, cols)}
}

// pack fills panel p of an expert, which is zero before.
func (k *packer) pack(w *weight, expert, p int) {
	dst := w.panel(expert, p)
	if w.layout == float16s || w.layout == bfloat16s {
		w.pack16(dst, expert, p)
		return
	}
	for lane := range min(panelRows, w.src.Rows-p*panelRows) {
		row := w.sourceRow(expert, p*panelRows+lane)
		switch {
		case shapes[w.layout].quantized:
			k.codes.unpack(w.src.Type, row)
			k.codes.pack(dst, lane, shapes[w.layout])
		default:
			dequantize(k.values, w.src.Type, row, k.codes)
			for i, v := range k.values {
				binary.LittleEndian.PutUint32(dst[(i*panelRows+lane)*4:], math.Float32bits(v))
			}
		}
	}
}

// pack16 moves the rows of a panel of a 16-bit type, some columns at a time: what is written
// stays in the nearest cache until all lanes have written to it.
func (w *weight) pack16(dst []byte, expert, p int) {
	const columns = 64
	cols, lanes := w.src.Cols, min(panelRows, w.src.Rows-p*panelRows)
	var rows [panelRows][]byte
	for lane := range lanes {
		rows[lane] = w.sourceRow(expert, p*panelRows+lane)
	}
	for from := 0; from < cols; from += columns {
		n, lane := min(columns, cols-from), 0
		for ; lane+4 <= lanes && n%4 == 0; lane += 4 {
			turn16(dst[(from*panelRows+lane)*2:], (*[4][]byte)(rows[lane:]), 2*from, n)
		}
		for ; lane < lanes; lane++ {
			row, to := rows[lane][2*from:2*(from+n)], dst[(from*panelRows+lane)*2:]
			for i := 0; i < len(row); i += 2 {
				binary.LittleEndian.PutUint16(to[i*panelRows:], binary.LittleEndian.Uint16(row[i:]))
			}
		}
	}
}

// turn16 writes n columns of four rows, from byte at on, n a multiple of 4: four numbers beside each
// other for each column. Four columns at a time are a square of numbers, turned in its halves
// and then as a whole.
func turn16(dst []byte, rows *[4][]byte, at, n int) {
	const even, low = 0x0000ffff0000ffff, 0x00000000ffffffff
	const next = 2 * panelRows // bytes to the next column
	r0, r1, r2, r3 := rows[0][at:][:2*n], rows[1][at:][:2*n], rows[2][at:][:2*n], rows[3][at:][:2*n]
	for i := 0; i+8 <= len(r0); i += 8 {
		a, b := binary.LittleEndian.Uint64(r0[i:]), binary.LittleEndian.Uint64(r1[i:])
		c, d := binary.LittleEndian.Uint64(r2[i:]), binary.LittleEndian.Uint64(r3[i:])
		ab, cd := a&even|b&even<<16, c&even|d&even<<16 // of columns 0 and 2
		to := dst[i/2*next:][:3*next+8]
		binary.LittleEndian.PutUint64(to, ab&low|cd<<32)
		binary.LittleEndian.PutUint64(to[2*next:], ab>>32|cd&^low)
		ab, cd = a>>16&even|b&^even, c>>16&even|d&^even // of columns 1 and 3
		binary.LittleEndian.PutUint64(to[next:], ab&low|cd<<32)
		binary.LittleEndian.PutUint64(to[3*next:], ab>>32|cd&^low)
	}
}

// pack writes the row into one lane of a panel.
func (r *codeRow) pack(dst []byte, lane int, s shape) {
	steps := len(dst) / s.stepBytes
	for step := range steps {
		scales, codes := s.step(dst, step)
		if s.super {
			r.packSuper(scales, lane, step, s)
		} else {
			r.packScales(scales, lane, step, s)
		}
		code := r.code[step*stepCols : min((step+1)*stepCols, len(r.code))]
		if s.nibbles {
			packNibbles(codes, lane, code, s)
		} else {
			packBytes(codes, lane, code)
		}
	}
}

// packScales writes the scales of a step's groups as float16.
func (r *codeRow) packScales(dst []byte, lane, step int, s shape) {
	groups := stepCols / s.group
	for g := range groups {
		i := step*groups + g
		if i*s.group >= len(r.code) {
			break
		}
		binary.LittleEndian.PutUint16(dst[(g*panelRows+lane)*2:], floatToHalf(r.scale[i]))
	}
}

func packBytes(dst []byte, lane int, code []uint8) {
	for g := range len(code) / 4 {
		binary.LittleEndian.PutUint32(dst[g*128+lane*4:], binary.LittleEndian.Uint32(code[g*4:]))
	}
}

// packNibbles joins rows 16 apart, and adds the higher bits to their plane.
func packNibbles(dst []byte, lane int, code []uint8, s shape) {
	const low, high = 0x0f0f0f0f, 0x03030303
	for b := range len(code) / blockCols {
		for g := range 8 {
			group := binary.LittleEndian.Uint32(code[b*blockCols+g*4:])
			orUint32(dst[(b*8+g)*64+lane%16*4:], group&low<<(lane/16*4))
			if s.highBits > 0 {
				line, shift := s.highLine(b, g)
				orUint32(dst[nibbleBytes+line*128+lane*4:], group>>4&high<<shift)
			}
		}
	}
}

// orUint32 sets the bits of v.
func orUint32(dst []byte, v uint32) {
	binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(dst)|v)
}
