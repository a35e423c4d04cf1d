package cpu

import "encoding/binary"

// The scales of a superblock stand before its codes, as many bits as in the
// model file, for all rows of the panel:
//
//	Q6_K:        d f16 x 32, then per group of 16 columns the signed parts, 8 bits x 32
//	Q4_K, Q5_K:  d f16 x 32, low f16 x 32, then per step words, 16 bits x 32,
//	             then per step bytes x 32
//
// A scale is d times its part, a minimum low times its part: 6 bits each for the
// two groups of a step. A word holds the part of group 0, that of group 1 and the
// lower 4 bits of group 1's minimum, from its low end on; a byte the part of
// group 0's minimum and the upper 2 bits of group 1's.
const (
	superParts = panelRows * 2              // offset of a superblock's parts, of Q6_K
	superWords = panelRows * 2 * 2          // offset of its words
	superBytes = superWords + superSteps*64 // offset of its bytes
	wordsStep  = panelRows * 2              // words of a step
	bytesStep  = panelRows                  // bytes of a step
	partsStep  = stepCols / 16 * panelRows  // parts of a step
)

// packSuper writes the scales of a step for one row.
func (r *codeRow) packSuper(dst []byte, lane, step int, s shape) {
	block, q := &r.super[step/superSteps], step%superSteps
	binary.LittleEndian.PutUint16(dst[lane*2:], block.d)
	if !s.mins {
		for g, part := range r.part[step*4 : step*4+4] {
			dst[superParts+q*partsStep+g*panelRows+lane] = part
		}
		return
	}
	binary.LittleEndian.PutUint16(dst[(panelRows+lane)*2:], block.low)
	part, low := r.part[step*2:step*2+2], r.minPart[step*2:step*2+2]
	word := uint16(part[0]) | uint16(part[1])<<6 | uint16(low[1]&15)<<12
	binary.LittleEndian.PutUint16(dst[superWords+q*wordsStep+lane*2:], word)
	dst[superBytes+q*bytesStep+lane] = low[0] | low[1]>>4<<6
}

// superScale reads the scale and the minimum of group g in step q of a superblock.
func (s shape) superScale(block []byte, lane, q, g int) (scale, low float32) {
	d := half(block[lane*2:])
	if !s.mins {
		return d * float32(int8(block[superParts+q*partsStep+g*panelRows+lane])), 0
	}
	word := binary.LittleEndian.Uint16(block[superWords+q*wordsStep+lane*2:])
	rest := uint16(block[superBytes+q*bytesStep+lane])
	part, minPart := word&63, rest&63
	if g == 1 {
		part, minPart = word>>6&63, word>>12|rest>>6<<4
	}
	return d * float32(part), half(block[(panelRows+lane)*2:]) * float32(minPart)
}
