package cpu

import (
	"encoding/binary"
	"unsafe"
)

const (
	bandRows          = 12 // of activations, at most: their sums leave registers for what scales them
	bandRowsFew       = 24 // rows for which half as much is taken apart: reading takes most of the time then
	bandSteps         = 8  // steps that are taken apart at once for many bands: 18 KB and the sums fit in the nearest cache
	bandStepMax       = 2048 + 1024
	bandConfig        = 64 // bytes of a tile configuration
	bandMagicAt       = bandConfig
	bandDotsAt        = bandMagicAt + 64
	bandFixed         = bandDotsAt + 2*bandRows*panelRows*4 // two buffers of integer sums
	bandCodes         = 64                                  // bytes of codes of a row and step
	bandTail          = 16                                  // bytes after the codes of all rows: two scales, two scale·Σcodes
	prefetchesPerStep = 4                                   // times that a step asks for weights
	prefetchStreams   = 4                                   // in which it asks
	magic             = 0x4b400000                          // the bits of 1.5·2^23
)

// bandFunc writes to dst the products of bands of rows with steps of a panel
// that was taken apart, on top of the sums of earlier steps if more is 1. Rows
// of dst are dstStride bytes apart, those of sums follow each other, bands of
// act are actStride bytes apart. Memory is asked for in prefetchStreams streams,
// prefetchStride bytes apart, of which the first begins at prefetch: prefetchStep bytes of
// each at a time. scratch is that of a bandScratch.
type bandFunc func(dst *float32, dstStride int, sums *float32, more int, act *byte, bands, actStride int, codes *byte, steps int,
	prefetch uintptr, prefetchStride, prefetchStep int, scratch *byte)

// quantizeBandFunc writes a row of a band: codes and tails of its steps, which lie
// stride bytes apart.
type quantizeBandFunc func(codes, tail *byte, stride int, x *float32, blocks int)

// bandOps are the kernels of a level that takes panels apart for many rows.
type bandOps struct {
	rows int // of a band
	min  int // rows from which bands are no slower: with fewer, reading takes longer than their work on panels leaves for it
	// unpack takes steps of a panel apart into signed bytes, float32 scales and
	// what else the level needs, once for many rows.
	unpack   [layouts]func(dst, panel *byte, steps int)
	multiply [layouts]bandFunc
	quantize quantizeBandFunc
}

// bandScratch is the memory of one thread for bands.
type bandScratch struct {
	fixed []byte    // a tile configuration, 16 x magic, two buffers of integer sums
	codes []byte    // a part of a panel taken apart
	sums  []float32 // outputs of a block of rows
	group int       // that the configuration is for
}

// configure makes room and writes the configuration for groups of so many
// columns: sums in tiles 0 to 3, activations in 4 and 5, codes in 6 and 7.
func (s *bandScratch) configure(group int) {
	if s.fixed == nil {
		s.fixed = heapBytes(bandFixed)
		s.codes = heapBytes(bandSteps * bandStepMax)
		s.sums = asFloats(heapBytes(rowBlockMax * panelRows * 4))
		for i := range 16 {
			binary.LittleEndian.PutUint32(s.fixed[bandMagicAt+4*i:], magic)
		}
	}
	if s.group == group {
		return
	}
	s.group = group
	c := s.fixed[:bandConfig]
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

// banded says whether n rows of a job are computed in bands, the last of which
// may be partly empty.
func (o *ops) banded(quantized bool, n int) bool {
	return o.bands != nil && quantized && n >= o.bands.min
}

// bandRow is how many bytes a row takes in a band.
func bandRow(cols int) int { return roundUp(cols, stepCols) / stepCols * (bandCodes + bandTail) }

// quantizeBandRow writes x as row r of the band at dst.
func (o *bandOps) quantizeBandRow(dst *byte, r int, x []float32) {
	o.quantize(skip(dst, r*bandCodes), skip(dst, o.rows*bandCodes+r*bandTail), o.rows*(bandCodes+bandTail), ptr(x), len(x)/blockCols)
}

// bandRows computes panels from to end for all rows.
func (j *matJob) bandRows(o *bandOps, s *bandScratch, from, end int) {
	bands := (j.n + o.rows - 1) / o.rows
	s.configure(shapes[j.w.layout].group)
	most := max(min(rowBlockBytes/bandRow(j.w.src.Cols), rowBlockMax)/o.rows, 1)
	blocks := (bands + most - 1) / most
	block := (bands + blocks - 1) / blocks
	for band := 0; band < bands; band += block {
		for p := from; p < end; p++ {
			j.bandPanel(o, s, p, band*o.rows, min(block, bands-band))
		}
	}
}

// prefetchStep spreads a step of the weights over that step of all bands.
func (l layout) prefetchStep(bands int) int {
	places := prefetchesPerStep * prefetchStreams * bands
	return (shapes[l].stepBytes + places - 1) / places
}

// bandPanel computes the 32 outputs of panel p for bands of rows from row on.
func (j *matJob) bandPanel(o *bandOps, s *bandScratch, p, row, bands int) {
	l, width := j.w.layout, j.w.src.Rows
	codes, fixed := unsafe.SliceData(s.codes), unsafe.SliceData(s.fixed)
	at, lanes := p*panelRows, min(panelRows, width-p*panelRows)
	direct := 0 // bands whose outputs need no detour
	if lanes == panelRows {
		direct = min(bands, (j.n-row)/o.rows)
	}
	panel, steps := unsafe.SliceData(j.w.panel(j.expert, p)), l.steps(j.w.src.Cols)
	bandBytes, stepBytes := o.rows*bandRow(j.w.src.Cols), shapes[l].stepBytes
	kernel, prefetchStep := o.multiply[l], l.prefetchStep(bands)
	part := bandSteps
	if bands*o.rows <= bandRowsFew {
		part /= 2
	}
	for first := 0; first < steps; first += part {
		n, more := min(part, steps-first), min(first, 1)
		o.unpack[l](codes, skip(panel, first*stepBytes), n)
		prefetch := uintptr(unsafe.Pointer(panel)) + uintptr((first+n)*stepBytes) // panels follow each other
		act := skip(j.act, row/o.rows*bandBytes+first*o.rows*(bandCodes+bandTail))
		placed := 0 // bands whose outputs go to their place
		if first+n == steps {
			placed = direct
			if direct > 0 {
				kernel(&j.dst[row*width+at], 4*width, &s.sums[0], more, act, direct, bandBytes, codes, n,
					prefetch, n*stepBytes/prefetchStreams, prefetchStep, fixed)
			}
		}
		if placed < bands {
			prefetch += uintptr(n * placed / bands * stepBytes / prefetchStreams)
			to := &s.sums[placed*o.rows*panelRows]
			kernel(to, 4*panelRows, to, more, skip(act, placed*bandBytes), bands-placed, bandBytes, codes, n,
				prefetch, n*stepBytes/prefetchStreams, prefetchStep, fixed)
		}
	}
	for r := row + direct*o.rows; r < min(row+bands*o.rows, j.n); r++ {
		copy(j.dst[r*width+at:r*width+at+lanes], s.sums[(r-row)*panelRows:])
	}
}
