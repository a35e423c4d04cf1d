package fused

import (
	"encoding/binary"
	"math"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// buckets are the sizes of steps that have a graph of their own.
var buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256}

// bucketOf is the smallest bucket that rows fit in, 0 for too many.
func bucketOf(rows int) int {
	for _, n := range buckets {
		if rows <= n {
			return n
		}
	}
	return 0
}

// bucket is what shares a graph.
type bucket struct {
	rows int
	does does
}

// does is what a graph computes.
type does int

const (
	alone       does = iota // a step with one row of each sequence
	verifying               // or with several, of a draft
	remembering             // what a prediction is made from, behind a step
	drafting                // a prediction behind that
	draftingOn              // a prediction behind a prediction
)

// decoder computes steps of one network.
type decoder struct {
	b          *Backend
	n          *kernel.Network
	rowsAtOnce []int // that products can take
	blocks     int   // that attention should have

	cache  kernel.Cache // whose addresses the graphs have
	graphs map[bucket]cuda.Graph
	rows   int // that the buffers have
	buffers
	step   memory       // of the step, as kernels/fused.h has it
	second memory       // of the step of a prediction
	hidden cuda.Pointer // ids that are never drafted
	bytes  []byte       // of the step, on the host
	of     []int        // of each row, where it is among those that are wanted
}

// memory is a piece of device memory.
type memory struct {
	at    cuda.Pointer
	bytes int64
}

// The step as the kernels read it, in bytes.
const (
	headerBytes = 16
	rowBytes    = 24
)

// anglesAt, recordsAt and listsAt are where parts of a step of a bucket begin.
func (d *decoder) anglesAt(rows int) int { return headerBytes + rows*rowBytes }

func (d *decoder) recordsAt(rows int) int { return d.anglesAt(rows) + rows*8*len(d.n.InvFreq) }

func (d *decoder) listsAt(rows int) int { return d.recordsAt(rows) + rows*eager.RecordBytes }

// Step implements kernel.Fused.
func (d *decoder) Step(in *kernel.Input) bool {
	k := bucket{rows: bucketOf(in.Step.Rows)}
	if k.rows == 0 || len(in.Rows) == 0 {
		return false
	}
	for i := range in.Step.Spans {
		s := &in.Step.Spans[i]
		if s.Len > 1 && s.Prompt {
			return false
		}
		if s.Len > 1 || len(s.Saves) > 0 {
			k.does = verifying
		}
	}
	for i := range in.Step.Spans {
		d.b.CheckSpan(in.Cache, &in.Step.Spans[i])
	}
	d.write(in, k.rows)
	d.prepare(in.Cache, k)
	d.b.CopyBytes(d.step.at, d.bytes)
	d.run(k, func() { d.record(k) })
	d.b.Answer(in, d.n.Vocabulary, d.logits)
	d.b.Submit(in)
	return true
}

// write puts down a step for the device.
func (d *decoder) write(in *kernel.Input, rows int) {
	d.of = d.of[:0]
	for range rows {
		d.of = append(d.of, -1)
	}
	for i := range in.Rows {
		d.of[in.Rows[i].Row] = i
	}
	records, lists := d.b.Describe(in, d.n.Vocabulary, d.of)
	put := binary.LittleEndian.AppendUint32
	tables := d.listsAt(rows)/4 + len(lists)
	v := put(put(put(put(d.bytes[:0], uint32(in.Step.Rows)), uint32(tables)), 0), 0)
	at := 0
	for _, s := range in.Step.Spans {
		for i := range s.Len {
			count, saved := 0, int32(-1)
			if i == 0 {
				count = s.Len
			}
			if i < len(s.Saves) {
				saved = s.Saves[i]
			}
			v = put(put(put(put(v, uint32(in.Tokens[s.Row+i])), uint32(s.Pos+i)), uint32(at)), uint32(s.State))
			v = put(put(v, uint32(count)), uint32(saved))
		}
		at += len(s.Pages)
	}
	v = append(v, make([]byte, d.anglesAt(rows)-len(v))...)
	for _, s := range in.Step.Spans {
		for i := range s.Len {
			v = d.angles(v, s.Pos+i)
		}
	}
	v = append(v, make([]byte, d.recordsAt(rows)-len(v))...)
	v = append(v, records...)
	for _, x := range lists {
		v = put(v, uint32(x))
	}
	for _, s := range in.Step.Spans {
		for _, page := range s.Pages {
			v = put(v, uint32(page))
		}
	}
	d.bytes = v
}

// angles appends cos and sin of a position, as eager's RopeAngles has them.
func (d *decoder) angles(v []byte, pos int) []byte {
	half := len(d.n.InvFreq)
	from := len(v)
	v = append(v, make([]byte, 8*half)...)
	for j, f := range d.n.InvFreq {
		sin, cos := math.Sincos(float64(pos) * f)
		binary.LittleEndian.PutUint32(v[from+4*j:], math.Float32bits(float32(cos*d.n.RopeGain)))
		binary.LittleEndian.PutUint32(v[from+4*(half+j):], math.Float32bits(float32(sin*d.n.RopeGain)))
	}
	return v
}

// prepare makes sure of the memory of a step.
func (d *decoder) prepare(cache kernel.Cache, k bucket) {
	if d.cache != cache {
		d.forget()
		d.cache = cache
	}
	d.make(&d.step)
	if k.rows > d.rows {
		d.forget()
		d.grow(k.rows)
	}
}

// make makes room for the bytes of a step.
func (d *decoder) make(m *memory) {
	if int64(len(d.bytes)) <= m.bytes {
		return
	}
	d.forget()
	d.b.Wait()
	d.free(m.at)
	*m = memory{}
	*m = memory{d.alloc(2 * len(d.bytes)), int64(2 * len(d.bytes))}
}

// run replays the graph of a bucket, which record has to queue once.
func (d *decoder) run(k bucket, record func()) {
	s := d.b.Stream()
	if d.graphs[k] == nil {
		d.b.Must(s.BeginCapture())
		record()
		g, err := s.EndCapture()
		d.b.Must(err)
		d.graphs[k] = g
	}
	d.b.Must(s.Replay(d.graphs[k]))
}

// forget drops the graphs: an address in them is no longer right.
func (d *decoder) forget() {
	if len(d.graphs) == 0 {
		return
	}
	d.b.Wait() // replays may be under way
	for k, g := range d.graphs {
		d.b.Must(g.Close())
		delete(d.graphs, k)
	}
}

func (d *decoder) alloc(bytes int) cuda.Pointer {
	p, err := d.b.Device().Alloc(int64(max(bytes, 4)))
	d.b.Must(err)
	return p
}

func (d *decoder) free(p cuda.Pointer) {
	if p != 0 {
		d.b.Must(d.b.Device().Free(p))
	}
}

// Close implements kernel.Fused. On a device that failed there is nothing to give back to.
func (d *decoder) Close() {
	if d.b.Device() == nil || d.b.Failed() != nil {
		return
	}
	d.forget()
	d.b.Wait()
	for _, p := range []cuda.Pointer{d.step.at, d.second.at, d.buffers.at} {
		d.free(p)
	}
	d.step, d.second, d.buffers, d.rows, d.cache = memory{}, memory{}, buffers{}, 0, nil
}
