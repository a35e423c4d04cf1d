package modelfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// A mapped file that nobody has read yet comes in small pieces, each when a thread waits for it.
// So who loads a model has what Bytes makes, and what is small, read ahead in large pieces and in the
// order of its layers. What is read is dropped: it is in the system's memory then. The rest is
// read by Read (reading.go).
const (
	prefetchPiece = 1 << 20
	// prefetchMax is how much is read that nobody has asked for yet.
	prefetchMax = 512 << 20
)

// prefetcher reads the files of a model ahead of those who use them.
type prefetcher struct {
	mu      sync.Mutex
	changed *sync.Cond // a piece was read, or asked for, or the end has come
	files   []prefetchFile
	unasked int   // pieces that were read and not asked for
	failed  error // of the first read that did
	stopped bool
	ended   sync.WaitGroup
}

// prefetchFile is one part.
type prefetchFile struct {
	file   *os.File
	direct *os.File // the same, past the system's memory; nil where that cannot be
	data   []byte   // its mapping
	pieces []pieceState
}

type pieceState uint8

const (
	pieceUnread pieceState = iota
	pieceReading
	pieceRead  // not asked for
	pieceAsked // read
)

// Prefetch reads the tensors of layer after layer in the background, so that Ready finds them
// read, but for those that are packed from where they lie (asStored). Between it and stop one
// goroutine calls Ready, and any call Read.
func (f *File) Prefetch() (stop func()) {
	a := &prefetcher{}
	a.changed = sync.NewCond(&a.mu)
	for _, p := range f.parts {
		if p.release == nil {
			continue // nothing is mapped
		}
		file := p.same(os.Open(p.path))
		if file == nil {
			continue // an aid: without it the mapping is read as it is
		}
		pieces := make([]pieceState, (len(p.data)+prefetchPiece-1)/prefetchPiece)
		a.files = append(a.files, prefetchFile{file, p.same(openDirect(p.path)), p.data, pieces})
	}
	var order [][]byte
	byLayer := func(a, b *Tensor) int { return layerOf(a.Name) - layerOf(b.Name) }
	for _, t := range slices.SortedStableFunc(slices.Values(f.tensors), byLayer) {
		if !t.asStored() || t.Size() < prefetchPiece {
			order = append(order, t.stored()...)
		}
	}
	f.prefetcher = a
	a.ended.Go(func() { a.run(order) })
	return func() {
		a.mu.Lock()
		a.stopped = true
		a.changed.Broadcast()
		a.mu.Unlock()
		a.ended.Wait()
		for _, of := range a.files {
			_ = of.file.Close() // nothing was written
			if of.direct != nil {
				_ = of.direct.Close()
			}
		}
		f.prefetcher = nil
	}
}

// same is a file that was opened by the mapping's path, nil and closed where it is not the mapped one: a
// new model gets its place by a rename, and a device's weights are read again at any time after it.
func (m *mapping) same(file *os.File, err error) *os.File {
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || !os.SameFile(info, m.info) {
		_ = file.Close() // nothing was written
		return nil
	}
	return file
}

// layerOf is the number of a tensor's layer, from 1, and 0 for what is of none.
func layerOf(name string) int {
	rest, _ := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n + 1
}

// Ready returns when what a tensor is made from was read, if it is read ahead. Its data must not be touched
// when Failed says that something could not be read.
func (f *File) Ready(t *Tensor) {
	a := f.prefetcher
	if a == nil {
		return
	}
	var scratch []byte
	for _, data := range t.stored() {
		of, from, to := a.find(data)
		for i := from; i < to; i++ {
			if a.claim(of, i, true) {
				scratch = a.read(of, i, scratch)
				a.done(of, i, pieceAsked)
			}
		}
	}
}

// run reads in order.
func (a *prefetcher) run(order [][]byte) {
	var scratch []byte
	for _, data := range order {
		of, from, to := a.find(data)
		for i := from; i < to; i++ {
			if !a.claim(of, i, false) {
				if a.isStopped() {
					return
				}
				continue
			}
			scratch = a.read(of, i, scratch)
			a.done(of, i, pieceRead)
		}
	}
}

func (a *prefetcher) isStopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// find is the file that data is mapped from, and its pieces there; none for what is not mapped.
func (a *prefetcher) find(data []byte) (of *prefetchFile, from, to int) {
	of, offset := a.locate(data)
	if of == nil {
		return nil, 0, 0
	}
	return of, offset / prefetchPiece, (offset+len(data)-1)/prefetchPiece + 1
}

// locate is the file that data is mapped from, and where it begins there; nil for what is not mapped.
func (a *prefetcher) locate(data []byte) (of *prefetchFile, offset int) {
	if len(data) == 0 {
		return nil, 0
	}
	at := uintptr(unsafe.Pointer(&data[0]))
	for i := range a.files {
		of := &a.files[i]
		if offset := at - uintptr(unsafe.Pointer(&of.data[0])); offset < uintptr(len(of.data)) {
			return of, int(offset)
		}
	}
	return nil, 0
}

// claim says whether the caller has to read a piece. Who asks for it waits while it is read; who
// does not ask waits until enough of the rest is asked for.
func (a *prefetcher) claim(of *prefetchFile, i int, asked bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	waits := func() bool {
		if asked {
			return of.pieces[i] == pieceReading
		}
		return of.pieces[i] == pieceUnread && a.unasked*prefetchPiece >= prefetchMax
	}
	for !a.stopped && waits() {
		a.changed.Wait()
	}
	switch {
	case of.pieces[i] == pieceUnread && !a.stopped:
		of.pieces[i] = pieceReading
		return true
	case of.pieces[i] == pieceRead && asked:
		of.pieces[i] = pieceAsked
		a.unasked--
		a.changed.Broadcast()
	}
	return false
}

// read reads a piece; scratch is used again.
func (a *prefetcher) read(of *prefetchFile, i int, scratch []byte) []byte {
	if scratch == nil {
		scratch = make([]byte, prefetchPiece)
	}
	if n, err := of.file.ReadAt(scratch, int64(i)*prefetchPiece); n < min(prefetchPiece, len(of.data)-i*prefetchPiece) {
		a.fail(of, err)
	}
	return scratch
}

// fail keeps why a file could not be read.
func (a *prefetcher) fail(of *prefetchFile, err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("it is shorter than it was when it was opened")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = fmt.Errorf("read %s: %w", of.file.Name(), err)
	}
}

func (a *prefetcher) done(of *prefetchFile, i int, state pieceState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.pieces[i] = state; state == pieceRead {
		a.unasked++
	}
	a.changed.Broadcast()
}
