package eager

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/modelfile"
)

// NewBuffer implements kernel.Backend.
func (b *Backend) NewBuffer(n int) kernel.Buffer {
	b.sweep()
	p, err := b.device.Alloc(4 * int64(max(n, 1)))
	b.Must(err)
	b.Must(b.stream.Fill(p, 0, 4*int64(max(n, 1))))
	v := &buffer{at: p, n: n}
	v.dropped = runtime.AddCleanup(v, b.drop, p)
	return v
}

// Release gives buffers back at once, when queued work has ended. Nobody may use them any more.
func (b *Backend) Release(buffers ...kernel.Buffer) {
	b.Wait()
	for _, x := range buffers {
		v := x.(*buffer)
		v.dropped.Stop()
		b.Must(b.device.Free(v.at))
		v.at, v.n = 0, 0
	}
}

// drop notes memory that nobody refers to. The garbage collector calls it.
func (b *Backend) drop(p cuda.Pointer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.garbage = append(b.garbage, p)
}

// sweep gives back what was dropped.
func (b *Backend) sweep() {
	b.mu.Lock()
	old := b.garbage
	b.garbage = nil
	b.mu.Unlock()
	if len(old) == 0 {
		return
	}
	b.Wait() // queued work may use it
	for _, p := range old {
		b.Must(b.device.Free(p))
	}
}

// The kinds of matrices on the device, as the kernels number them.
const (
	KindF32 = iota
	KindF16
	KindBF16
	KindQ8   // blocks as in a model file, as of the next
	KindQ4K  // rows of whole blocks
	KindE4M3 // codes, of which 128 share a scale; rows of whole 128
)

// weightKinds are the types that stay as they are.
var weightKinds = map[kernel.Type]int{
	kernel.F32: KindF32, kernel.F16: KindF16, kernel.BF16: KindBF16, kernel.Q8_0: KindQ8, kernel.Q4_K: KindQ4K,
	kernel.F8E4M3: KindE4M3,
}

// Of a matrix of E4M3, each block of a source is codes and a scale. On the device codes follow each other, and the scales
// lie before them, the first one last.
const (
	eightCodes = 128
	eightBlock = eightCodes + 4
)

var _ kernel.EightBitBackend = (*Backend)(nil)

// TakesEightBits implements kernel.EightBitBackend.
func (b *Backend) TakesEightBits() bool { return true }

// overread is how many bytes behind a matrix kernels may read, and not use. They are zeros.
const overread = 4

// weight is a stack of matrices on the device.
type weight struct {
	at                  cuda.Pointer
	kind                int
	experts, rows, cols int
}

// Rows implements kernel.Weight.
func (w *weight) Rows() int { return w.rows }

// Cols implements kernel.Weight.
func (w *weight) Cols() int { return w.cols }

// Experts implements kernel.Weight.
func (w *weight) Experts() int { return w.experts }

// Load implements kernel.Backend. The source is not needed afterwards.
func (b *Backend) Load(src kernel.Source) (_ kernel.Weight, err error) {
	defer cuda.Catch(&err)
	_, block, blockBytes, known := modelfile.TypeInfo(src.Type)
	values := src.Experts * src.Rows * src.Cols
	if src.Experts < 1 || src.Rows < 1 || src.Cols < 1 || !known || !modelfile.Readable(src.Type) || values%block != 0 {
		return nil, fmt.Errorf("load %s: shape %d x %d x %d of type %d", src.Name, src.Experts, src.Rows, src.Cols, src.Type)
	}
	if src.Experts > expertsMax {
		return nil, fmt.Errorf("load %s: %d experts, at most %d", src.Name, src.Experts, expertsMax)
	}
	pieces := src.Pieces
	if pieces == nil {
		pieces = [][]byte{src.Data}
	}
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	if total != values/block*blockBytes {
		return nil, fmt.Errorf("load %s: %d bytes for %d values of type %d", src.Name, total, values, src.Type)
	}
	kind, stays := weightKinds[src.Type]
	size := int64(total)
	if stays = stays && src.Cols%block == 0; !stays {
		kind, size = KindF16, 2*int64(values)
		if src.Type == kernel.MXFP4 {
			kind = KindBF16
		}
	}
	before := int64(0)
	if kind == KindE4M3 {
		before, size = (4*int64(values/eightCodes)+255)&^255, int64(values)
	}
	w := &weight{kind: kind, experts: src.Experts, rows: src.Rows, cols: src.Cols}
	if w.at, err = b.device.Alloc(before + size + overread); err != nil {
		return nil, fmt.Errorf("load %s: %w", src.Name, err)
	}
	w.at += cuda.Pointer(before)
	b.Must(b.stream.Fill(w.at+cuda.Pointer(size), 0, overread))
	switch {
	case kind == KindE4M3:
		b.fillCodes(w.at, src, pieces)
		return w, nil
	case stays:
		b.fill(w.at, src, pieces)
		return w, nil
	}
	data := pieces[0]
	if len(pieces) > 1 || src.Read != nil {
		data = make([]byte, 0, total)
		read(src, pieces, func(part []byte) { data = append(data, part...) })
	}
	if err := b.loadHalves(w, src.Type, data, block, blockBytes); err != nil {
		return nil, fmt.Errorf("load %s: %w", src.Name, err)
	}
	return w, nil
}

// sender has the two halves of the page-locked memory, in turns: one is written while the device copies what is in the other.
type sender struct {
	b *Backend
	n int // that were sent
}

// next is a half that nothing reads from.
func (s *sender) next() []byte {
	half := len(s.b.staging) / len(s.b.halves)
	if s.n >= len(s.b.halves) {
		s.b.await(s.b.halves[s.n%len(s.b.halves)])
	}
	return s.b.staging[s.n%len(s.b.halves)*half:][:half:half]
}

// sent notes that copies from it were queued.
func (s *sender) sent() {
	done := &s.b.halves[s.n%len(s.b.halves)]
	if *done == nil {
		var err error
		*done, err = s.b.device.NewEvent()
		s.b.Must(err)
	}
	s.b.Must(s.b.stream.Record(*done))
	s.n++
}

// fill brings a source to the device as it is.
func (b *Backend) fill(at cuda.Pointer, src kernel.Source, pieces [][]byte) {
	b.Wait() // until nothing reads from it
	defer b.Wait()
	s := sender{b: b}
	for _, p := range pieces {
		for part := range slices.Chunk(p, len(b.staging)/len(b.halves)/2) { // a read may need more, for its alignment
			to := s.next()
			if src.Read != nil {
				scratch := to
				part = src.Read(part, &scratch)
			}
			if !inside(part, to) {
				part = to[:copy(to, part)]
			}
			b.Must(b.stream.CopyIn(at, part))
			s.sent()
			at += cuda.Pointer(len(part))
		}
	}
}

// fillCodes brings blocks of E4M3 to the device, and takes them apart on the way.
func (b *Backend) fillCodes(at cuda.Pointer, src kernel.Source, pieces [][]byte) {
	b.Wait() // until nothing reads from it
	defer b.Wait()
	s, scalesAt := sender{b: b}, at
	var scratch []byte
	for _, p := range pieces {
		for part := range slices.Chunk(p, len(b.staging)/len(b.halves)/eightBlock*eightBlock) {
			if src.Read != nil {
				part = src.Read(part, &scratch)
			}
			n := len(part) / eightBlock
			to := s.next()
			codes, scales := to[:n*eightCodes], to[n*eightCodes:][:4*n]
			for i := range n {
				block := part[i*eightBlock:][:eightBlock]
				copy(codes[i*eightCodes:], block[:eightCodes])
				copy(scales[4*(n-1-i):], block[eightCodes:])
			}
			scalesAt -= cuda.Pointer(len(scales))
			b.Must(b.stream.CopyIn(at, codes))
			b.Must(b.stream.CopyIn(scalesAt, scales))
			s.sent()
			at += cuda.Pointer(len(codes))
		}
	}
}

// inside says whether part lies in whole.
func inside(part, whole []byte) bool {
	from, begin := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return from >= begin && from < begin+uintptr(len(whole))
}

// readPiece is how much of a source is read and copied at once.
const readPiece = 4 << 20

// read calls do with what pieces of a source hold, part by part. A part is lost with the next one.
func read(src kernel.Source, pieces [][]byte, do func(part []byte)) {
	var scratch []byte
	for _, p := range pieces {
		for part := range slices.Chunk(p, readPiece) {
			if src.Read != nil {
				part = src.Read(part, &scratch)
			}
			do(part)
		}
	}
}

// halvesAtOnce is how many values are converted at a time: a multiple of every block.
const halvesAtOnce = 1 << 16

// loadHalves converts the blocks of another type to two bytes each.
func (b *Backend) loadHalves(w *weight, typ kernel.Type, data []byte, block, blockBytes int) error {
	values, halves := make([]float32, halvesAtOnce), make([]byte, 0, 2*halvesAtOnce)
	at := w.at
	for len(data) > 0 {
		n := min(halvesAtOnce, len(data)/blockBytes*block)
		if err := modelfile.Dequantize(values[:n], typ, data[:n/block*blockBytes]); err != nil {
			return err
		}
		halves = halves[:0]
		for _, v := range values[:n] {
			bits := uint16(math.Float32bits(v) >> 16) // exact for what becomes bfloat16
			if w.kind == KindF16 {
				bits = modelfile.Half(v)
				if bits&0x7c00 == 0x7c00 {
					return fmt.Errorf("the value %g is beyond float16", v)
				}
			}
			halves = binary.LittleEndian.AppendUint16(halves, bits)
		}
		b.CopyBytes(at, halves)
		at, data = at+cuda.Pointer(len(halves)), data[n/block*blockBytes:]
	}
	return nil
}
