package cpu

import (
	"fmt"
	"sort"
	"unsafe"

	"corenode/engine/kernel"
)

// matJob is one product: n rows of activations with one expert's matrix.
type matJob struct {
	w      *weight
	expert int
	dst    []float32 // n rows of w.Rows() values
	act    *byte
	n      int
	first  int // number of the job's first panel
}

// matMulTask is a list of products. Their panels, numbered through, are claimed
// in units that shrink towards the end: long runs of memory first, which is
// what reading is fastest at, and an even finish. A thread that finishes first
// prefetches, so units need not become smaller than a round of streams.
type matMulTask struct {
	b     *Backend
	jobs  []matJob
	ends  []int32       // first panel after each unit
	tiles []tileScratch // one per thread
	bands []bandScratch // one per thread

	codes  []float32 // activations as records
	floats []float32 // activations as float tiles
}

// tileScratch is a tile of outputs, and twice as much that tall kernels need.
type tileScratch [3 * tallRows * panelRows]float32

// tileHeight is the height of the tile of n rows that holds the first of those left.
func (o *ops) tileHeight(quantized bool, n, left int) int {
	if left > tileMax || o.banded(quantized, n) {
		return o.tileFull(quantized, n)
	}
	return tileRows[tileIndex(left)]
}

// tileFull is the height of all tiles of n rows but the last.
func (o *ops) tileFull(quantized bool, n int) int {
	switch {
	case o.banded(quantized, n):
		return o.bands.rows
	case quantized && o.tall[code8] != nil:
		return tallRows
	}
	return tileMax
}

// tileIndex is the place in tileRows of the lowest height for so many rows.
func tileIndex(rows int) int { return sort.SearchInts(tileRows[:], min(rows, tileMax)) }

// actRow is how many bytes one row takes in a tile.
func actRow(quantized bool, cols int) int {
	if quantized {
		return roundUp(cols, stepCols) / stepCols * recordSize
	}
	return cols * 4
}

// actSize is how many bytes n rows take.
func (o *ops) actSize(quantized bool, n, cols int) int {
	if o.banded(quantized, n) {
		return roundUp(n, o.bands.rows) * bandRow(cols)
	}
	full := o.tileFull(quantized, n)
	rows := n / full * full
	if n > rows {
		rows += o.tileHeight(quantized, n, n-rows)
	}
	return rows * actRow(quantized, cols)
}

// MatMul implements kernel.Backend.
func (b *Backend) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, ws []kernel.Weight) {
	t := &b.mm
	cols := ws[0].Cols()
	in := floats(x, n*cols)
	var quantized, float bool
	for _, w := range ws {
		q := shapes[w.(*weight).layout].quantized
		quantized, float = quantized || q, float || !q
	}
	if quantized {
		t.codes = grow(t.codes, b.ops.actSize(true, n, cols)/4)
		b.makeTiles(true, bytePtr(t.codes), in, n, cols)
	}
	if float {
		t.floats = grow(t.floats, b.ops.actSize(false, n, cols)/4)
		b.makeTiles(false, bytePtr(t.floats), in, n, cols)
	}
	t.jobs = t.jobs[:0]
	for i, kw := range ws {
		w := kw.(*weight)
		if w.src.Cols != cols || w.src.Experts != 1 {
			panic(fmt.Sprintf("matmul of %s: %d x %d x %d with rows of %d", w.src.Name, w.src.Experts, w.src.Rows, w.src.Cols, cols))
		}
		act := bytePtr(t.floats)
		if shapes[w.layout].quantized {
			act = bytePtr(t.codes)
		}
		t.jobs = append(t.jobs, matJob{w: w, dst: floats(dst[i], n*w.src.Rows), act: act, n: n})
	}
	b.expect(ws, n)
	t.run()
}

// unitWork bounds the multiplications of a unit of more than one panel: some
// tenths of a millisecond, so that a thread that loses its processor holds up
// the others for little.
const unitWork = 256 << 20

// run computes all jobs.
func (t *matMulTask) run() {
	t.ends = cutUnits(t.ends[:0], t.jobs, t.b.Threads())
	t.b.pool.run(len(t.ends), t)
	clear(t.jobs) // no weight outlives its last use through this list
}

// cutUnits numbers the panels of jobs and cuts them into units of so many
// bytes; it appends the first panel after each. The first unit of each thread
// is what it may have prefetched; they leave enough to make up for unequal
// speed. Units of one row are whole rounds of streams where a matrix does not end.
func cutUnits(ends []int32, jobs []matJob, threads int) []int32 {
	total, panels := 0, 0
	for i := range jobs {
		jobs[i].first = panels
		panels += jobs[i].w.panels
		total += jobs[i].bytes()
	}
	job, at, left := 0, 0, total
	for left > 0 {
		want := left / (2 * threads)
		if len(ends) < threads {
			want = total * 3 / (5 * threads)
		}
		want = min(want, unitBytesMax)
		for took, work := 0, 0; job < len(jobs) && (took == 0 || took < want && work < unitWork); {
			j := &jobs[job]
			size := j.w.layout.panelBytes(j.w.src.Cols)
			round := 1
			if j.n == 1 {
				round = vecStreams
			}
			rounds := max((want-took+size*round/2)/(size*round), 1)
			each := j.n * j.w.src.Cols * panelRows
			n := min(rounds*round, j.first+j.w.panels-at, max((unitWork-work)/each, 1))
			at, took, left, work = at+n, took+n*size, left-n*size, work+n*each
			if at == j.first+j.w.panels {
				job++
			}
		}
		ends = append(ends, int32(at))
	}
	return ends
}

// unitBytesMax keeps the streams of a unit near each other, and what a
// descheduled thread holds small.
const unitBytesMax = 4 << 20

// bytes is the size of the job's matrix.
func (j *matJob) bytes() int { return j.w.panels * j.w.layout.panelBytes(j.w.src.Cols) }

// do computes one unit of panels, which may span jobs.
func (t *matMulTask) do(worker, unit int) {
	p, end := 0, int(t.ends[unit])
	if unit > 0 {
		p = int(t.ends[unit-1])
	}
	low, high := 0, len(t.jobs)
	for high-low > 1 { // the last job that starts at or before p
		if mid := (low + high) / 2; t.jobs[mid].first <= p {
			low = mid
		} else {
			high = mid
		}
	}
	for ; p < end; low++ {
		j := &t.jobs[low]
		if stop := min(end, j.first+j.w.panels); p < stop {
			t.panels(j, worker, p-j.first, stop-j.first)
			p = stop
		}
	}
}

const (
	// rowBlockMax bounds the rows that pass through one panel before the next: a
	// prompt's 512 in whole bands.
	rowBlockMax = 43 * bandRows
	// rowBlockBytes bounds their memory, so that they stay in the second cache
	// while the panels pass.
	rowBlockBytes = 3 << 19
)

// panels computes the outputs of panels from to end of one job.
func (t *matMulTask) panels(j *matJob, worker, from, end int) {
	o, quantized := t.b.ops, shapes[j.w.layout].quantized
	if o.banded(quantized, j.n) {
		j.bandRows(o.bands, &t.bands[worker], from, end)
		return
	}
	from = j.streams(o, &t.tiles[worker], from, end)
	block := min(rowBlockBytes/actRow(quantized, j.w.src.Cols), rowBlockMax)
	block = max(block/tallRows, 1) * tallRows
	for row := 0; row < j.n; row += block {
		for p := from; p < end; p++ {
			j.panel(o, &t.tiles[worker], p, row, min(row+block, j.n))
		}
	}
}

// streams computes panels from p on for a single row, in several streams, each a
// run of adjacent panels, and returns the first one that is left.
func (j *matJob) streams(o *ops, tile *tileScratch, p, end int) int {
	vec := o.matVec[j.w.layout]
	if vec == nil || j.n != 1 {
		return p
	}
	each, size := (end-p)/vecStreams, j.w.layout.panelBytes(j.w.src.Cols)
	for last := p + each; p < last; p++ {
		vec(&tile[0], j.act, unsafe.SliceData(j.w.panel(j.expert, p)), each*size, j.w.layout.steps(j.w.src.Cols))
		for s := range vecStreams {
			copy(j.dst[(p+s*each)*panelRows:], tile[s*panelRows:(s+1)*panelRows])
		}
	}
	return p + (vecStreams-1)*each
}

// panel computes the 32 outputs of panel p for rows from row to end.
func (j *matJob) panel(o *ops, tile *tileScratch, p, row, end int) {
	l, cols, width := j.w.layout, j.w.src.Cols, j.w.src.Rows
	steps, quantized := l.steps(cols), shapes[j.w.layout].quantized
	rowBytes, record := actRow(quantized, cols), 4
	if quantized {
		record = recordSize
	}
	panel := unsafe.SliceData(j.w.panel(j.expert, p))
	at, lanes := p*panelRows, min(panelRows, width-p*panelRows)
	for row < end {
		height := o.tileHeight(quantized, j.n, end-row)
		rows, act := min(height, end-row), skip(j.act, row*rowBytes)
		if height == tallRows && o.tall[l] != nil {
			o.tall[l](&tile[0], act, height*record, panel, steps)
		} else {
			for r := 0; r < rows; r += tileMax {
				o.matMul[l][tileIndex(rows-r)](&tile[r*panelRows], skip(act, r*record), height*record, panel, steps)
			}
		}
		for r := range rows {
			copy(j.dst[(row+r)*width+at:(row+r)*width+at+lanes], tile[r*panelRows:])
		}
		row += height
	}
}

// quantTask brings rows into tiles; unit i is tile i.
type quantTask struct {
	b         *Backend
	quantized bool
	dst       *byte
	x         []float32
	index     []int32 // which row of x each row is; nil is all in order
	n, cols   int
}

// quantParallel is the number of values from which tiles are made on all threads.
const quantParallel = 16 << 10

// makeTiles writes n rows as tiles to dst.
func (b *Backend) makeTiles(quantized bool, dst *byte, x []float32, n, cols int) {
	b.quant = quantTask{b: b, quantized: quantized, dst: dst, x: x, n: n, cols: cols}
	tiles := b.quant.tiles()
	if n*cols < quantParallel {
		for i := range tiles {
			b.quant.do(0, i)
		}
		return
	}
	b.pool.run(tiles, &b.quant)
}

// tiles is their number.
func (t *quantTask) tiles() int {
	full := t.b.ops.tileFull(t.quantized, t.n)
	return (t.n + full - 1) / full
}

// do fills tile i. Padding rows are zero.
func (t *quantTask) do(_, i int) {
	first := i * t.b.ops.tileFull(t.quantized, t.n)
	height := t.b.ops.tileHeight(t.quantized, t.n, t.n-first)
	banded, size := t.b.ops.banded(t.quantized, t.n), actRow(t.quantized, t.cols)
	if banded {
		size = bandRow(t.cols)
	}
	dst := skip(t.dst, first*size)
	if first+height > t.n {
		clear(unsafe.Slice(dst, height*size))
	}
	for r := range min(height, t.n-first) {
		row := first + r
		if t.index != nil {
			row = int(t.index[row])
		}
		x := t.x[row*t.cols : (row+1)*t.cols]
		if banded {
			t.b.ops.bands.quantizeBandRow(dst, r, x)
			continue
		}
		if t.quantized {
			t.b.ops.quantize(skip(dst, r*recordSize), height*recordSize, ptr(x), t.cols/blockCols)
			continue
		}
		out := unsafe.Slice((*float32)(unsafe.Pointer(dst)), height*t.cols)
		for k, v := range x {
			out[k*height+r] = v
		}
	}
}
