package cpu

import (
	"encoding/binary"
	"unsafe"
)

const (
	bandRows         = 8        // rows of activations that a band kernel takes at once
	bandMin          = 5        // rows from which a band, partly empty, is no slower than the kernels for fewer
	bandSteps        = 8        // steps that are taken apart at once: 18 KB and the sums' buffers fit in the nearest cache
	bandsFew         = 2        // bands for which half as much is taken apart: reading takes most of the time then
	bandConfig       = 64       // bytes of a tile configuration
	bandDots         = 2 * 1024 // bytes of integer sums
	bandStepMax      = 2048 + 512
	bandCodesAt      = bandConfig + bandDots
	bandSumsAt       = bandCodesAt + bandSteps*bandStepMax
	bandScratchBytes = bandSumsAt + rowBlockMax*panelRows*4
)

// bandFunc writes to dst the products of bands of 8 rows with steps of a panel
// that was taken apart, on top of the sums of earlier steps if more is 1. Rows
// of dst are dstStride bytes apart, those of sums follow each other, bands of
// act are actStride bytes apart. One step in aheadEvery also asks for a step
// of weights at ahead. scratch is that of a bandScratch.
type bandFunc func(dst *float32, dstStride int, sums *float32, more int, act *byte, bands, actStride int, w *byte, steps int, ahead uintptr, aheadEvery int, scratch *byte)

// bandOps are the kernels of a level with matrix tiles.
type bandOps struct {
	// unpack takes steps of a panel apart into signed bytes and float32 scales,
	// once for many rows.
	unpack   [layouts]func(dst, panel *byte, steps int)
	multiply [layouts]bandFunc
}

// bandScratch is the memory of one thread for bands: a tile configuration, two
// buffers of integer sums, a part of a panel taken apart, and outputs of a
// block of rows.
type bandScratch struct {
	mem   []byte
	group int // that the configuration is for
}

// configure writes the configuration for groups of so many columns: sums in
// tiles 0 to 3, activations in 4 and 5, codes in 6 and 7.
func (s *bandScratch) configure(group int) {
	if s.mem == nil {
		s.mem = heapBytes(bandScratchBytes)
	}
	if s.group == group {
		return
	}
	s.group = group
	c := s.mem[:bandConfig]
	c[0] = 1 // the only palette
	for t := range 8 {
		rows, rowBytes := bandRows, 64
		switch {
		case t >= 6:
			rows = group / 4
		case t >= 4:
			rowBytes = group
		}
		binary.LittleEndian.PutUint16(c[16+2*t:], uint16(rowBytes))
		c[48+t] = byte(rows)
	}
}

// bandCount is how many bands n rows of a job are computed in; rows that are left
// over are fewer than bandMin.
func (o *ops) bandCount(quantized bool, n int) int {
	if o.bands == nil || !quantized {
		return 0
	}
	return (n + bandRows - bandMin) / bandRows
}

// bandPanel computes the 32 outputs of panel p for bands of rows from row on.
func (j *matJob) bandPanel(o *bandOps, s *bandScratch, p, row, bands int) {
	l, width := j.w.layout, j.w.src.Rows
	s.configure(shapes[l].group)
	base := unsafe.SliceData(s.mem)
	codes, sums := skip(base, bandCodesAt), asFloats(s.mem[bandSumsAt:])
	at, lanes := p*panelRows, min(panelRows, width-p*panelRows)
	direct := 0 // bands whose outputs need no detour
	if lanes == panelRows {
		direct = min(bands, (j.n-row)/bandRows)
	}
	panel, steps := unsafe.SliceData(j.w.panel(j.expert, p)), l.steps(j.w.src.Cols)
	bandBytes, stepBytes := bandRows*actRow(true, j.w.src.Cols), shapes[l].stepBytes
	part := bandSteps
	if bands <= bandsFew {
		part /= 2
	}
	for first := 0; first < steps; first += part {
		n, more := min(part, steps-first), min(first, 1)
		o.unpack[l](codes, skip(panel, first*stepBytes), n)
		ahead := uintptr(unsafe.Pointer(panel)) + uintptr((first+n)*stepBytes) // panels follow each other
		act := skip(j.act, row/bandRows*bandBytes+first*bandRows*recordSize)
		placed := 0 // bands whose outputs go to their place
		if first+n == steps {
			placed = direct
			if direct > 0 {
				o.multiply[l](&j.dst[row*width+at], 4*width, &sums[0], more, act, direct, bandBytes, codes, n, ahead, bands, base)
			}
		}
		if placed < bands {
			ahead += uintptr(n * placed / bands * stepBytes)
			to := &sums[placed*bandRows*panelRows]
			o.multiply[l](to, 4*panelRows, to, more, skip(act, placed*bandBytes), bands-placed, bandBytes, codes, n, ahead, bands, base)
		}
	}
	for r := row + direct*bandRows; r < min(row+bands*bandRows, j.n); r++ {
		copy(j.dst[r*width+at:r*width+at+lanes], sums[(r-row)*panelRows:])
	}
}
