package cpu

import (
	"fmt"

	"corenode/engine/kernel"
)

const (
	panelRows  = 32 // output rows of a panel
	stepCols   = 64 // input columns of a step of a quantized panel
	blockCols  = 32 // input columns that share an activation scale
	recordSize = 128
	superSteps = 4 // steps of a superblock: 256 columns, the blocks of the K-quants
)

// layout is a packed form of weights; doc.go draws them.
type layout uint8

const (
	code8 layout = iota
	code6
	code5m
	code4
	code4m
	float32s
	float16s
	bfloat16s
	layouts // their number
)

// shape says how a layout lies in memory. For float layouts only stepBytes
// means anything, and a step is one column. A layout of superblocks has the
// scales of four steps before their codes.
type shape struct {
	quantized bool
	group     int // columns that share a scale
	offset    int // subtracted from codes
	mins      bool
	nibbles   bool
	highBits  int // bits of a code above its nibble
	super     bool
	stepBytes int // a quarter of a superblock, where there are
	codesAt   int // offset of the codes in a step, or in a superblock
}

var shapes = [layouts]shape{
	code8: {quantized: true, group: 32, offset: 128, stepBytes: 2176, codesAt: 128},
	code6: {quantized: true, group: 16, offset: 32, nibbles: true, highBits: 2, super: true,
		stepBytes: 1680, codesAt: 576},
	code5m: {quantized: true, group: 32, mins: true, nibbles: true, highBits: 1, super: true,
		stepBytes: 1408, codesAt: 512},
	code4:     {quantized: true, group: 32, offset: 8, nibbles: true, stepBytes: 1152, codesAt: 128},
	code4m:    {quantized: true, group: 32, mins: true, nibbles: true, super: true, stepBytes: 1152, codesAt: 512},
	float32s:  {stepBytes: 128},
	float16s:  {stepBytes: 64},
	bfloat16s: {stepBytes: 64},
}

// source says how a type lies in a model file and what it is packed into.
type source struct {
	layout layout
	values int // per block
	bytes  int // per block
}

var sources = map[kernel.Type]source{
	kernel.F32:  {float32s, 1, 4},
	kernel.F16:  {float16s, 1, 2},
	kernel.BF16: {bfloat16s, 1, 2},
	kernel.Q8_0: {code8, 32, 34},
	kernel.Q4_0: {code4, 32, 18},
	kernel.Q4_K: {code4m, 256, 144},
	kernel.Q5_K: {code5m, 256, 176},
	kernel.Q6_K: {code6, 256, 210},
	// The codes of these stand for whole numbers of eight bits.
	kernel.Q5_0:   {code8, 32, 22},
	kernel.IQ4_NL: {code8, 32, 18},
	kernel.MXFP4:  {code8, 32, 17},
}

// colsMax keeps sizes of hostile files from overflowing.
const colsMax = 1 << 28

// checkSource verifies that the data of src has exactly the size of its shape.
func checkSource(src kernel.Source) (source, error) {
	s, ok := sources[src.Type]
	switch {
	case !ok:
		return s, fmt.Errorf("load %s: type %d is not supported", src.Name, src.Type)
	case src.Experts < 1 || src.Rows < 1 || src.Cols < 1 || src.Cols > colsMax || src.Cols%s.values != 0:
		return s, fmt.Errorf("load %s: shape %d x %d x %d in blocks of %d", src.Name, src.Experts, src.Rows, src.Cols, s.values)
	}
	if src.Pieces != nil {
		return s, checkPieces(src, src.Cols/s.values*s.bytes)
	}
	// The division keeps the product from overflowing on hostile shapes.
	row := src.Cols / s.values * s.bytes
	if len(src.Data)%row != 0 || len(src.Data)/row/src.Rows != src.Experts || len(src.Data)/row%src.Rows != 0 {
		return s, fmt.Errorf("load %s: %d bytes of data for %d x %d rows of %d bytes", src.Name, len(src.Data), src.Experts, src.Rows, row)
	}
	return s, nil
}

// checkPieces is checkSource for pieces: each has the rows of an expert, or a whole number of panels of them.
func checkPieces(src kernel.Source, row int) error {
	each := src.Experts * src.Rows / max(1, len(src.Pieces))
	whole := each == src.Rows || each > 0 && src.Rows%each == 0 && each%panelRows == 0
	for i, p := range src.Pieces {
		if !whole || len(p)%row != 0 || len(p)/row != each || len(src.Pieces) != src.Experts*(src.Rows/each) {
			return fmt.Errorf("load %s: %d bytes of piece %d of %d for %d x %d rows of %d bytes",
				src.Name, len(p), i, len(src.Pieces), src.Experts, src.Rows, row)
		}
	}
	if len(src.Pieces) == 0 {
		return fmt.Errorf("load %s: no pieces for %d x %d rows", src.Name, src.Experts, src.Rows)
	}
	return nil
}

// steps is how many steps a panel of a matrix with cols columns has.
func (l layout) steps(cols int) int {
	if shapes[l].quantized {
		return (cols + stepCols - 1) / stepCols
	}
	return cols
}

// panelBytes is the size of one panel.
func (l layout) panelBytes(cols int) int { return l.steps(cols) * shapes[l].stepBytes }

// nibbleBytes is the size of the plane of nibbles in a step; the plane of
// higher bits follows it.
const nibbleBytes = stepCols * panelRows / 2

// step is step i of a panel: where its scales are found, which is all of a
// superblock, and its codes.
func (s shape) step(panel []byte, i int) (scales, codes []byte) {
	if !s.super {
		scales = panel[i*s.stepBytes : (i+1)*s.stepBytes]
		return scales, scales[s.codesAt:]
	}
	scales = panel[i/superSteps*superSteps*s.stepBytes:][:superSteps*s.stepBytes]
	size := (len(scales) - s.codesAt) / superSteps
	at := s.codesAt + i%superSteps*size
	return scales, scales[at : at+size]
}

// highLine says where the bits above the nibble of column group g (0 to 7) of
// a block lie: the line of the plane, and the bit within each byte.
func (s shape) highLine(block, g int) (line, shift int) {
	bit := g * s.highBits
	return block*s.highBits + bit/8, bit % 8
}
