package cpu

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"corenode/engine/kernel"
)

// Options are the settings of a Backend.
type Options struct {
	// Threads is how many threads compute, the caller included. 0 is GOMAXPROCS.
	Threads int
	// Level is "amx", "avx512vnni", "avx2", "dotprod", "neon" or "portable". Empty is what the
	// environment variable CORENODE_CPU_LEVEL says, else the best one this
	// processor has.
	Level string
	// CacheDir is a folder for packed weights, made if needed. Empty packs in
	// memory at each start.
	CacheDir string
	// CacheKey names the model's file in CacheDir: a digest of its content,
	// letters and digits only. Empty is as an empty CacheDir.
	CacheKey string
	// CacheBytes is how much of the disk the packed weights will take, about: the sum of PackedBytes.
	// Where it would leave little free, nothing is written, and Seal says so.
	CacheBytes int64
	// Exact multiplies float32 activations with weights dequantized to float32,
	// for reference outputs. It takes four bytes per weight and no cache.
	Exact bool
}

// threadsMax bounds Options.Threads against typing errors.
const threadsMax = 1024

// Backend implements kernel.Backend. It owns its threads and all memory it
// hands out; Close ends both.
type Backend struct {
	ops    *ops
	pool   *pool
	exact  bool
	disk   *store // nil without a cache on disk
	caches []*cache
	memory arena              // of weights that are not used from disk's file
	mapped bool               // weights stay in disk's file: the system refused what they would move to
	loaded map[string]*weight // by name: a tensor with two uses is loaded once
	rounds bool               // a product rounds its activations to 8 bits
	last   *habit             // of the latest product; nil when it had many rows
	ends   []int32            // scratch of planning a prefetch

	// Scratch of single operations, reused to keep steps free of allocation.
	mm     matMulTask
	attend attendTask
	store  storeTask
	delta  deltaTask
	expert expertScratch
	quant  quantTask
	heads  headTask
	row    rowTask

	embedRow *codeRow
	loading  *loading // nil unless weights are being read
}

var _ kernel.HeadBackend = (*Backend)(nil)

// New starts a backend.
func New(o Options) (*Backend, error) {
	level, err := pickLevel(o.Level)
	if err != nil {
		return nil, err
	}
	threads := cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	if threads < 1 || threads > threadsMax {
		return nil, fmt.Errorf("cpu threads %d, want 1 to %d", o.Threads, threadsMax)
	}
	b := &Backend{ops: level, exact: o.Exact, loaded: map[string]*weight{}}
	if o.CacheDir != "" && o.CacheKey != "" && !o.Exact {
		if b.disk, err = openStore(o.CacheDir, o.CacheKey, o.CacheBytes); err != nil {
			return nil, err
		}
	}
	b.pool = newPool(threads)
	b.init(threads)
	return b, nil
}

// init points the tasks at their backend and makes the scratch of each thread.
func (b *Backend) init(threads int) {
	b.mm.b, b.attend.b, b.store.b, b.delta.b, b.quant.b, b.heads.b = b, b, b, b, b, b
	b.mm.tiles = make([]tileScratch, threads)
	b.mm.bands = make([]bandScratch, threads)
	b.attend.scratch, b.attend.floatsMax = make([]attendScratch, threads), attendFloats
	b.store.scratch = make([]storeScratch, threads)
	b.delta.scratch = make([]deltaScratch, threads)
}

// Name implements kernel.Backend.
func (b *Backend) Name() string { return "cpu/" + b.ops.name }

// Threads is how many threads compute.
func (b *Backend) Threads() int { return b.pool.workers + 1 }

// Close implements kernel.Backend: the threads end, the memory of caches and
// mapped weights is given back. Nothing of the backend may be used after it.
func (b *Backend) Close() {
	b.Wait()
	b.pool.close()
	for _, c := range b.caches {
		c.free()
	}
	b.memory.release()
	b.caches, b.loaded, b.last = nil, nil, nil
	if b.disk != nil {
		b.disk.close()
	}
}

// Load implements kernel.Backend. The packed form comes from the cache on
// disk when it is there. A source that is read may be packed later, until Wait
// (loading.go).
func (b *Backend) Load(src kernel.Source) (kernel.Weight, error) {
	s, err := checkSource(src)
	if err != nil {
		return nil, err
	}
	if w := b.loaded[src.Name]; w != nil && w.is(src) {
		return w, nil
	}
	l := s.layout
	if b.exact {
		l = float32s
	}
	w := newWeight(src, l)
	b.loaded[src.Name] = w
	if src.EmbedOnly {
		return w, nil
	}
	b.rounds = b.rounds || shapes[l].quantized
	if err := b.fill(w); err != nil {
		delete(b.loaded, src.Name)
		return nil, fmt.Errorf("load %s: %w", src.Name, err)
	}
	w.src.Read = nil
	if src.Experts > 1 || src.Copied {
		w.src.Data, w.src.Pieces = nil, nil // only Embed reads it again, and no stack: one may be a copy, as large as much of the model
	}
	return w, nil
}

// fill finds or makes the packed form of w.
func (b *Backend) fill(w *weight) (err error) {
	if b.disk != nil {
		if w.data = b.disk.find(w); w.data != nil {
			b.settle(w)
			return nil
		}
		w.data = b.disk.reserve(w)
	}
	if w.data == nil {
		if w.data, err = b.memory.take(w.size()); err != nil {
			return err
		}
		return b.packAll(w)
	}
	if err := b.packAll(w); err != nil {
		return err
	}
	b.Wait()
	b.settle(w)
	return nil
}

// settlePiece is how much of a weight a thread moves at once.
const settlePiece = 1 << 20

// settle moves a weight from the mapped file to huge pages where the system
// has them, so that reading them in several streams takes few entries of the
// address cache. What it had there is given back.
//
// The system is asked for all that the file needs at once. Where it refuses, weights
// are used where they lie: a mapped file does not count as memory, and what they
// could have of that until it ends would lack elsewhere.
func (b *Backend) settle(w *weight) {
	if !hugePages() || b.mapped {
		return
	}
	from := w.data
	if len(b.memory.blocks) == 0 {
		if b.mapped = b.memory.extend(b.disk.size()) != nil; b.mapped {
			return
		}
	}
	to, err := b.memory.take(len(from))
	if b.mapped = err != nil; b.mapped {
		return
	}
	b.pool.run((len(from)+settlePiece-1)/settlePiece, taskFunc(func(_, i int) {
		copy(to[i*settlePiece:], from[i*settlePiece:min((i+1)*settlePiece, len(from))])
	}))
	w.data = to
	b.disk.release(from)
}

// Kept says that packed weights are those of an earlier start, so that Load reads little of what
// they are made from.
func (b *Backend) Kept() bool { return b.disk != nil && b.disk.kept() }

// Seal finishes the cache on disk after the last Load. Without it, or when it
// fails, the next start packs again; nothing else suffers.
func (b *Backend) Seal() error {
	b.Wait()
	if b.disk == nil {
		return nil
	}
	return b.disk.seal()
}

// buffer is float32 memory in the Go heap, aligned to 64 bytes.
type buffer []float32

// Len implements kernel.Buffer.
func (b buffer) Len() int { return len(b) }

// floats is the memory behind a Buffer of this backend, of which n are used.
func floats(b kernel.Buffer, n int) []float32 { return b.(buffer)[:n] }

// NewBuffer implements kernel.Backend.
func (*Backend) NewBuffer(n int) kernel.Buffer { return buffer(asFloats(heapBytes(4 * n))) }

// Wrap makes a Buffer of the caller's memory, for results that need no copy.
func (*Backend) Wrap(x []float32) kernel.Buffer { return buffer(x) }

// Upload implements kernel.Backend.
func (b *Backend) Upload(dst kernel.Buffer, off int, src []float32) {
	to := dst.(buffer)
	copy(to[off:off+len(src)], src)
	delete(b.delta.convs, ptr(to))
}

// Download implements kernel.Backend; nothing is ever queued here.
func (*Backend) Download(dst []float32, src kernel.Buffer, off int) {
	copy(dst, src.(buffer)[off:off+len(dst)])
}

// Embed implements kernel.Backend. Rows come from the model file itself, so a
// table that only Embed uses costs little memory.
func (b *Backend) Embed(dst kernel.Buffer, table kernel.Weight, ids []int32) {
	w := table.(*weight)
	cols := w.src.Cols
	out := floats(dst, len(ids)*cols)
	if b.embedRow == nil || len(b.embedRow.code) < cols {
		b.embedRow = newCodeRow(cols)
	}
	for i, id := range ids {
		dequantize(out[i*cols:(i+1)*cols], w.src.Type, w.sourceRow(0, int(id)), b.embedRow)
	}
}

// GatherRows implements kernel.Backend.
func (*Backend) GatherRows(dst, src kernel.Buffer, rows []int32, d int) {
	out, in := floats(dst, len(rows)*d), src.(buffer)
	for i, r := range rows {
		copy(out[i*d:(i+1)*d], in[int(r)*d:(int(r)+1)*d])
	}
}

// ptr is the address of the first value.
func ptr(x []float32) *float32 { return unsafe.SliceData(x) }

// bytePtr is the address of the first value, as of a byte.
func bytePtr(x []float32) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }

// skip is the address n bytes on.
func skip(p *byte, n int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), n)) }
