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

// decoder computes steps of one network.
type decoder struct {
	b          *Backend
	n          *kernel.Network
	rowsAtOnce []int // that products can take
	blocks     int   // that attention should have

	cache  kernel.Cache // whose addresses the graphs have
	graphs map[int]cuda.Graph
	rows   int // that the buffers have
	buffers
	step  memory // of the step, as kernels/fused.h has it
	bytes []byte // of the step, on the host
	of    []int  // of each row, where it is among those that are wanted
}

// memory is a piece of device memory.
type memory struct {
	at    cuda.Pointer
	bytes int64
}

// The step as the kernels read it, in bytes.
const (
	headerBytes = 16
	rowBytes    = 16
)

// anglesAt, recordsAt and listsAt are where parts of a step of a bucket begin.
func (d *decoder) anglesAt(rows int) int { return headerBytes + rows*rowBytes }

func (d *decoder) recordsAt(rows int) int { return d.anglesAt(rows) + rows*8*len(d.n.InvFreq) }

func (d *decoder) listsAt(rows int) int { return d.recordsAt(rows) + rows*eager.RecordBytes }

// Step implements kernel.Fused.
func (d *decoder) Step(in *kernel.Input) bool {
	rows := bucketOf(in.Step.Rows)
	if rows == 0 || len(in.Rows) == 0 {
		return false
	}
	for i := range in.Step.Spans {
		if s := &in.Step.Spans[i]; s.Len != 1 || len(s.Saves) > 0 {
			return false
		}
	}
	for i := range in.Step.Spans {
		d.b.CheckSpan(in.Cache, &in.Step.Spans[i])
	}
	d.write(in, rows)
	d.prepare(in.Cache, rows)
	d.b.CopyBytes(d.step.at, d.bytes)
	d.b.Must(d.b.Stream().Replay(d.graphs[rows]))
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
	for i, s := range in.Step.Spans {
		v = put(put(put(put(v, uint32(in.Tokens[i])), uint32(s.Pos)), uint32(at)), uint32(s.State))
		at += len(s.Pages)
	}
	v = append(v, make([]byte, d.anglesAt(rows)-len(v))...)
	for _, s := range in.Step.Spans {
		v = d.angles(v, s.Pos)
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

// prepare makes sure of the memory and of the graph of a bucket.
func (d *decoder) prepare(cache kernel.Cache, rows int) {
	if d.cache != cache {
		d.forget()
		d.cache = cache
	}
	if int64(len(d.bytes)) > d.step.bytes {
		d.forget()
		d.b.Wait()
		d.free(d.step.at)
		d.step = memory{}
		d.step = memory{d.alloc(2 * len(d.bytes)), int64(2 * len(d.bytes))}
	}
	if rows > d.rows {
		d.forget()
		d.grow(rows)
	}
	if d.graphs[rows] == nil {
		s := d.b.Stream()
		d.b.Must(s.BeginCapture())
		d.record(rows)
		g, err := s.EndCapture()
		d.b.Must(err)
		d.graphs[rows] = g
	}
}

// forget drops the graphs: an address in them is no longer right.
func (d *decoder) forget() {
	if len(d.graphs) == 0 {
		return
	}
	d.b.Wait() // replays may be under way
	for rows, g := range d.graphs {
		d.b.Must(g.Close())
		delete(d.graphs, rows)
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
	d.free(d.step.at)
	d.free(d.buffers.at)
	d.step, d.buffers, d.rows, d.cache = memory{}, buffers{}, 0, nil
}
