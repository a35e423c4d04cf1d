package cpu

import (
	"sync"
	"unsafe"
)

const (
	// pieceBytes is how much packed memory is filled at a time. Pieces end where huge pages do, so
	// that no two threads clear the same page.
	pieceBytes = hugeMin
	// readers is how many pieces are read or packed at a time: enough that a disk always has
	// something to read while threads pack.
	readers = 8
	// readSpace is the memory that a piece is read to. Where one needs more, it is found elsewhere.
	readSpace = pieceBytes + 256<<10
	// madeMax is the largest source in memory that waits among those that are read: it was made for Load,
	// and more of it would be memory that others lack.
	madeMax = 64 << 20
)

// loading fills the panels of weights from sources that are read. Its pieces are those of one weight
// after the other, so that reading never waits where one ends. Load is at most readers pieces ahead of
// what is read.
type loading struct {
	pieces  chan *weight  // closed after the last one
	packing chan struct{} // has a place for each thread of the backend
	buffers block
	ended   sync.WaitGroup
}

// startLoading starts those who read and pack. Wait ends them.
func (b *Backend) startLoading() (*loading, error) {
	buffers, err := newBlock(readers * readSpace)
	if err != nil {
		return nil, err
	}
	l := &loading{pieces: make(chan *weight, readers), packing: make(chan struct{}, b.Threads()), buffers: buffers}
	for i := range readers {
		l.ended.Go(func() { l.run(l.buffers.b[i*readSpace:][:readSpace:readSpace]) })
	}
	return l, nil
}

// run reads pieces and packs them, until the last one. While it packs, others wait for what they read.
func (l *loading) run(scratch []byte) {
	var k *packer
	for w := range l.pieces {
		if w.src.Read != nil {
			w.src.Data = w.src.Read(w.src.Data, &scratch)
		}
		if k == nil || len(k.values) != w.src.Cols {
			k = newPacker(w.src.Cols)
		}
		l.packing <- struct{}{}
		for p := range w.panels {
			k.pack(w, 0, p)
		}
		<-l.packing
	}
}

// Wait returns when all sources are read and packed. From the first source that has a Read until then
// nobody may use a weight, nor end what Read rests on.
func (b *Backend) Wait() {
	if b.loading == nil {
		return
	}
	close(b.loading.pieces)
	b.loading.ended.Wait()
	b.loading.buffers.free()
	b.loading = nil
}

// packAll fills the panels of w: on all threads, or in the background where sources are read.
func (b *Backend) packAll(w *weight) (err error) {
	if w.src.Read == nil && (b.loading == nil || w.size() > madeMax) {
		packers := make([]*packer, b.Threads())
		b.pool.run(w.src.Experts*w.panels, taskFunc(func(worker, i int) {
			if packers[worker] == nil {
				packers[worker] = newPacker(w.src.Cols)
			}
			packers[worker].pack(w, i/w.panels, i%w.panels)
		}))
		return nil
	}
	if b.loading == nil {
		if b.loading, err = b.startLoading(); err != nil {
			return err
		}
	}
	for expert := range w.src.Experts {
		for p := 0; p < w.panels; {
			n := w.pieceAt(expert, p)
			b.loading.pieces <- w.part(expert, p, n)
			p += n
		}
	}
	return nil
}

// pieceAt is how many panels of an expert, from p on, are a piece: those that begin on one huge page, and
// whose rows lie together.
func (w *weight) pieceAt(expert, p int) int {
	panel := w.panel(expert, p)
	left := pieceBytes - int(uintptr(unsafe.Pointer(&panel[0]))%pieceBytes)
	n := min((left+len(panel)-1)/len(panel), w.panels-p)
	if together := w.rowsTogether(); together < w.src.Rows {
		n = min(n, together/panelRows-p%(together/panelRows))
	}
	return n
}
