package eager

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/sample"
)

var _ kernel.Drawer = (*Backend)(nil)

const (
	drawRowsMax = 8192 // of a step
	ticketsMax  = 2
)

// ticket is a step on its way to the host.
type ticket struct {
	done cuda.Event
	host []byte // page-locked: tokens, what they would be if nothing held them, logits
	rows int
	asks int // rows of logits
	wide int // values of each
}

// drawing is the state of draws.
type drawing struct {
	ids     Room         // of the rows of the step that began last
	drawn   cuda.Pointer // tokens and frees of the step that drew last, drawRowsMax each
	rows    Room         // records and lists
	work    Room         // what draws have of each row
	blocks  int          // that a launch of draws has, or more
	tickets [ticketsMax]ticket
	first   int // ticket collected next
	open    int
	lists   []int32 // reused
	begins  map[shared]int
	records []byte
	likely  Room    // what is likeliest
	hidden  Room    // their number and they, of what is likeliest
	have    []int32 // what the device has of that
}

// EmbedSampled implements kernel.Drawer.
func (b *Backend) EmbedSampled(dst kernel.Buffer, table kernel.Weight, tokens []int32) {
	d, t, n := &b.draws, table.(*weight), len(tokens)
	b.Drawn()
	ids := b.Need(&d.ids, 4*int64(n))
	b.CopyIn(ids, tokens)
	if slices.Min(tokens) < 0 {
		b.Queue("resolve", each(n), ids, d.drawn, n)
	}
	b.Queue("embed", each(n*t.cols), at(dst, n*t.cols), t.at, ids, n*t.cols, t.cols, t.kind)
}

// Draw implements kernel.Drawer.
func (b *Backend) Draw(logits kernel.Buffer, vocabulary int, in *kernel.Input, first, n int) {
	if len(in.Rows) > drawRowsMax {
		panic(fmt.Sprintf("%d rows are drawn for, at most %d", len(in.Rows), drawRowsMax))
	}
	d, from := &b.draws, at(logits, n*vocabulary)
	t := b.ticket(in, vocabulary)
	d.lists, d.records, d.begins = d.lists[:0], d.records[:0], map[shared]int{}
	asked, drawn := asks(in.Rows[:first]), 0
	for i := first; i < first+n; i++ {
		row := &in.Rows[i]
		if row.Logits {
			to := t.host[8*len(in.Rows)+4*vocabulary*asked:][:4*vocabulary]
			b.Must(b.stream.CopyOut(to, from+cuda.Pointer(4*vocabulary*(i-first))))
			asked++
		} else {
			drawn++
		}
		d.record(in, i, vocabulary)
	}
	if drawn == 0 {
		return
	}
	p := b.Need(&d.rows, int64(len(d.records)+4*len(d.lists)+4))
	b.CopyBytes(p, d.records)
	b.CopyIn(p+cuda.Pointer(len(d.records)), d.lists)
	b.QueueDraws(b.Need(&d.work, int64(n)*DrawBytes(vocabulary)), from, p, p+cuda.Pointer(len(d.records)), d.ids.at, n, vocabulary)
}

// asks counts the rows that want their logits.
func asks(rows []kernel.Row) (n int) {
	for i := range rows {
		if rows[i].Logits {
			n++
		}
	}
	return n
}

// ticket is that of the step that is not submitted yet, with room for what it gives.
func (b *Backend) ticket(in *kernel.Input, vocabulary int) *ticket {
	d := &b.draws
	if d.open == ticketsMax {
		panic("a third step is launched")
	}
	t := &d.tickets[(d.first+d.open)%ticketsMax]
	t.rows, t.asks, t.wide = len(in.Rows), asks(in.Rows), vocabulary
	if t.done == nil {
		e, err := b.device.NewEvent()
		b.Must(err)
		t.done = e
	}
	if need := 8*t.rows + 4*vocabulary*t.asks; len(t.host) < need {
		if t.host != nil {
			b.Must(b.device.FreeHost(t.host))
		}
		host, err := b.device.AllocHost(max(need, 4096))
		b.Must(err)
		t.host = host
	}
	return t
}

// record appends a row as the kernel reads it.
func (d *drawing) record(in *kernel.Input, i, vocabulary int) {
	r := &in.Rows[i]
	p := sample.Params(r.Sampling)
	repetition := p.RepetitionPenalty
	if !p.Repeats() {
		repetition = 1
	}
	v := binary.LittleEndian.AppendUint64(d.records, math.Float64bits(sample.Uniform(p.Seed, r.Draw)))
	v = binary.LittleEndian.AppendUint64(v, math.Float64bits(1/float64(p.Temperature)))
	for _, x := range []float32{p.TopP, p.MinP, p.PresencePenalty, p.FrequencyPenalty, repetition, 1 / repetition} {
		v = binary.LittleEndian.AppendUint32(v, math.Float32bits(x))
	}
	newest, fresh := d.fresh(in, i)
	if p.PresencePenalty == 0 && p.FrequencyPenalty == 0 && repetition == 1 {
		fresh = 0
	}
	index := i
	if r.Logits {
		index = -1
	}
	ending, endings := 0, -1
	if r.Ending != nil {
		ending, endings = d.mask(r.Ending)
	}
	allowed, words := d.mask(r.Allowed)
	seen := len(d.lists)
	for _, s := range r.Seen {
		prompted := int32(0)
		if s.Prompted {
			prompted = 1
		}
		d.lists = append(d.lists, s.ID, s.Times, prompted)
	}
	flag := func(b bool) int { return map[bool]int{true: 1}[b] }
	topK := min(p.TopK, vocabulary) // fits 32 bits, and what keeps the whole vocabulary keeps all
	for _, x := range []int{topK, flag(p.Greedy()), flag(p.Few(vocabulary)), flag(r.Unfinished),
		d.list(r.Hidden), len(r.Hidden), d.list(r.Stops), len(r.Stops), d.list(r.Prompt), len(r.Prompt), seen, len(r.Seen),
		flag(r.Held), int(r.Trigger), allowed, words, ending, endings, int(r.Row), newest, fresh, index} {
		v = binary.LittleEndian.AppendUint32(v, uint32(int32(x)))
	}
	d.records = v
}

// fresh are the rows of the tokens that a row's Seen lacks: its own where that was sampled, or those of the
// draft up to it.
func (d *drawing) fresh(in *kernel.Input, i int) (newest, n int) {
	row := int(in.Rows[i].Row)
	if _, sampled := kernel.SampledRow(in.Tokens[row]); sampled {
		return row, 1
	}
	span := slices.IndexFunc(in.Step.Spans, func(s kernel.Span) bool { return row < s.Row+s.Len })
	first := row
	for k := i; k >= 0 && int(in.Rows[k].Row) >= in.Step.Spans[span].Row; k-- {
		first = int(in.Rows[k].Row)
	}
	return first + 1, row - first
}

// shared is a list that several rows may have.
type shared struct {
	first *int32
	n     int
}

// list is where a list begins; one that several rows share comes once.
func (d *drawing) list(v []int32) int {
	if len(v) == 0 {
		return 0
	}
	key := shared{&v[0], len(v)}
	if at, ok := d.begins[key]; ok {
		return at
	}
	at := len(d.lists)
	d.begins[key] = at
	d.lists = append(d.lists, v...)
	return at
}

// mask appends the bits of ids as words of 32.
func (d *drawing) mask(v []uint64) (at, words int) {
	at = len(d.lists)
	for _, w := range v {
		d.lists = append(d.lists, int32(uint32(w)), int32(uint32(w>>32)))
	}
	return at, 2 * len(v)
}

// Hidden is where the ids are that are never the likeliest, behind their number.
func (b *Backend) Hidden(ids []int32) cuda.Pointer {
	d := &b.draws
	if d.hidden.at == 0 || !slices.Equal(d.have, ids) {
		p := b.Need(&d.hidden, 4*int64(len(ids)+1))
		b.CopyIn(p, []int32{int32(len(ids))})
		b.CopyIn(p+4, ids)
		d.have = append(d.have[:0], ids...)
	}
	return d.hidden.at
}

// Likeliest implements kernel.Drawer.
func (b *Backend) Likeliest(logits kernel.Buffer, vocabulary int, hidden []int32, out []kernel.Drafted) {
	n := len(out)
	p := b.Need(&b.draws.likely, 8*int64(n))
	b.Queue("likeliest", Shape{X: n, Threads: 256}, p, at(logits, n*vocabulary), b.Hidden(hidden), cuda.Pointer(0), vocabulary)
	b.TakeDrafted(p, out)
}

// TakeDrafted waits for what likeliest left in device memory.
func (b *Backend) TakeDrafted(p cuda.Pointer, out []kernel.Drafted) {
	part := b.room(8 * len(out))
	b.Must(b.stream.CopyOut(part, p))
	b.Wait()
	for i := range out {
		out[i] = kernel.Drafted{Token: int32(binary.LittleEndian.Uint32(part[8*i:])),
			Probability: math.Float32frombits(binary.LittleEndian.Uint32(part[8*i+4:]))}
	}
}

// Submit implements kernel.Drawer.
func (b *Backend) Submit(in *kernel.Input) {
	d := &b.draws
	t := b.ticket(in, d.tickets[(d.first+d.open)%ticketsMax].wide)
	if n := 4 * t.rows; n > 0 {
		b.Must(b.stream.CopyOut(t.host[:n], d.drawn))
		b.Must(b.stream.CopyOut(t.host[n:2*n], d.drawn+4*drawRowsMax))
	}
	b.Must(b.stream.Record(t.done))
	d.open++
}

// Collect implements kernel.Drawer.
func (b *Backend) Collect(out *kernel.Output) {
	d := &b.draws
	if d.open == 0 {
		panic("nothing is on its way")
	}
	t := &d.tickets[d.first]
	b.await(t.done)
	d.first, d.open = (d.first+1)%ticketsMax, d.open-1
	n := 4 * t.rows
	copy(bytesOf(out.Tokens[:t.rows]), t.host)
	copy(bytesOf(out.Free[:t.rows]), t.host[n:])
	for i := range t.asks {
		copy(bytesOf(out.Logits[i][:t.wide]), t.host[2*n+4*t.wide*i:])
	}
}

// Forget implements kernel.Drawer. A backend that failed computes nothing any more.
func (b *Backend) Forget() {
	if b.failed == nil && b.device != nil && b.draws.open > 0 {
		b.Wait()
	}
	b.draws.first, b.draws.open = 0, 0
}
