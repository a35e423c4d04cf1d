package eager

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/devicetest"
	"corenode/engine/kernel/cuda/interp"
)

// operations are compared with the reference on fresh random input. Together they run every
// instruction of every kernel.
var operations = []struct {
	name  string
	check func(r *rig)
}{
	{"rows", checkRows}, {"norms", checkNorms}, {"heads", checkHeads}, {"products", checkProducts}, {"tables", checkTables},
	{"attention", checkAttention}, {"single heads", checkSingleHeads}, {"recurrence", checkRecurrence}, {"experts", checkExperts}, {"blocks", checkBlocks}, {"routing", checkRouting}, {"draws", checkDraws},
	{"draws of many tokens", checkManyTokens},
}

// TestOperationsAgreeWithTheReference looks for races, too.
func TestOperationsAgreeWithTheReference(t *testing.T) {
	r := newRig(t, interp.Config{Shadow: true})
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) { o.check(r.with(t)) })
	}
	if d, ok := r.Device.(*interp.Device); ok {
		for _, line := range d.Unexecuted() {
			t.Errorf("no test runs %s", line)
		}
		t.Logf("%d instructions of warps", d.Instructions())
	}
}

func checkRows(r *rig) {
	const n, d = 3, 50
	x, y, gate := r.Normals(n*d, 3), r.Normals(n*d, 1), []float32{-200, 0.5, 3}
	for name, run := range map[string]func(b kernel.Backend, x, y kernel.Buffer){
		"AddBias":    func(b kernel.Backend, x, _ kernel.Buffer) { b.AddBias(x, upload(b, y[:d]), n, d) },
		"SigmoidMul": func(b kernel.Backend, x, y kernel.Buffer) { b.SigmoidMul(y, x, n, d) },
		"AddScaled":  func(b kernel.Backend, x, y kernel.Buffer) { b.AddScaled(y, x, upload(b, gate), n, d) },
		"SiLUMul":    func(b kernel.Backend, x, y kernel.Buffer) { b.SiLUMul(y, x, y, n, d) },
		"GELUMul":    func(b kernel.Backend, x, y kernel.Buffer) { b.GELUMul(y, x, y, n, d) },
		"GatherRows": func(b kernel.Backend, x, y kernel.Buffer) { b.GatherRows(y, x, []int32{2, 0, 2}, d) },
	} {
		r.Agree(name, exact, func(b kernel.Backend) []float32 {
			x, y := upload(b, x), upload(b, y)
			run(b, x, y)
			return append(download(b, x), download(b, y)...)
		})
	}
	// What saturates must do so, and nothing may overflow on the way; each alone, as it would hide the others.
	for _, far := range []float32{0, 1e-3, -1e-3, 20, -20, 88, -88, 300, -300, 1e30, -1e30} {
		r.Agree(fmt.Sprintf("gates of %g", far), exact, func(b kernel.Backend) []float32 {
			x, y, z := upload(b, []float32{far}), upload(b, []float32{1.5}), upload(b, []float32{2.5})
			b.SigmoidMul(z, x, 1, 1)
			b.SiLUMul(y, x, y, 1, 1)
			return append(download(b, y), download(b, z)...)
		})
	}
}

func checkNorms(r *rig) {
	for _, d := range []int{2, 64, 300, 2304} {
		x, delta, w := r.Normals(3*d, 5), r.Normals(3*d, 1), r.Normals(d, 1)
		clear(x[d : 2*d]) // a row of zeros
		r.Agree(fmt.Sprintf("RMSNorm of %d", d), exact, func(b kernel.Backend) []float32 {
			v := upload(b, x)
			b.RMSNorm(v, v, upload(b, w), 3, d, 1e-6)
			return download(b, v)
		})
		r.Agree(fmt.Sprintf("AddRMSNorm of %d", d), exact, func(b kernel.Backend) []float32 {
			v, to := upload(b, x), b.NewBuffer(3*d)
			b.AddRMSNorm(to, v, upload(b, delta), upload(b, w), 3, d, 1e-6)
			return append(download(b, v), download(b, to)...)
		})
	}
}

func checkHeads(r *rig) {
	const n, heads, d, half = 5, 3, 20, 6
	x := r.Normals(2*n*heads*d, 1)
	r.Agree("SplitHeads", 0, func(b kernel.Backend) []float32 {
		first, second := b.NewBuffer(n*heads*d), b.NewBuffer(n*heads*d)
		b.SplitHeads(first, second, upload(b, x), n, heads, d)
		return append(download(b, first), download(b, second)...)
	})
	step := &kernel.Step{Rows: n, Spans: []kernel.Span{{Len: 2, Pos: 100_000}, {Row: 2, Len: 3}}}
	for _, neox := range []bool{false, true} {
		r.Agree(fmt.Sprintf("Rope, pairs apart %v", neox), exact, func(b kernel.Backend) []float32 {
			angles, v := b.NewBuffer(n*2*half), upload(b, x[:n*heads*d])
			b.RopeAngles(angles, step, []float64{1, 0.5, 0.25, 0.1, 0.01, 0.001}, 1.1)
			b.Rope(v, angles, n, heads, d, half, neox)
			return download(b, v)
		})
	}
}

// types are how matrices come, and how exact a product with them is.
var types = map[kernel.Type]float64{
	kernel.F32: exact, kernel.F16: exact, kernel.BF16: exact, kernel.Q8_0: exact, kernel.Q4_0: halves, kernel.Q4_K: exact,
	kernel.F8E4M3: exact,
}

func checkProducts(r *rig) {
	for typ, limit := range types {
		for _, c := range []struct{ n, rows, cols int }{{1, 7, 512}, {6, 3, 256}, {3, 5, 77}, {1, 3, 77}} {
			if typ != kernel.F32 && typ != kernel.F16 && typ != kernel.BF16 && c.cols%256 != 0 {
				continue
			}
			first, second, x := r.Source(typ, 1, c.rows, c.cols), r.Source(kernel.F16, 1, 2, c.cols), r.Normals(c.n*c.cols, 1)
			r.Agree(fmt.Sprintf("MatMul of type %d, %+v", typ, c), limit, func(b kernel.Backend) []float32 {
				to := []kernel.Buffer{b.NewBuffer(c.n * c.rows), b.NewBuffer(c.n * 2)}
				b.MatMul(to, upload(b, x), c.n, []kernel.Weight{r.Load(b, first), r.Load(b, second)})
				return append(download(b, to[0]), download(b, to[1])...)
			})
		}
	}
}

func checkTables(r *rig) {
	for typ, limit := range types {
		table := r.Source(typ, 1, 9, 256)
		if typ == kernel.F16 { // in pieces, as experts of some files are
			table.Pieces, table.Data = [][]byte{table.Data[:512], table.Data[512:]}, nil
		}
		r.Agree(fmt.Sprintf("Embed of type %d", typ), limit, func(b kernel.Backend) []float32 {
			to := b.NewBuffer(3 * 256)
			b.Embed(to, r.Load(b, table), []int32{8, 0, 3})
			return download(b, to)
		})
	}
}

var attentionCases = []devicetest.Attention{
	{Heads: 4, KVHeads: 2, Dim: 64, Page: 16, Spans: [][2]int{{0, 5}, {37, 1}}},
	{Heads: 2, KVHeads: 1, Dim: 128, Page: 32, Spans: [][2]int{{40, 3}}, Sinks: true},
	{Heads: 2, KVHeads: 1, Dim: 200, Page: 16, Spans: [][2]int{{20, 2}, {0, 1}}, Window: 7},
	{Heads: 3, KVHeads: 3, Dim: 24, Page: 64, Spans: [][2]int{{70, 2}}, Window: 300, Sinks: true},
	{Heads: 2, KVHeads: 2, Dim: 256, Page: 16, Spans: [][2]int{{17, 1}}, Sinks: true},
	{Heads: 1, KVHeads: 1, Dim: 100, Page: 16, Spans: [][2]int{{9, 1}}},
	{Heads: 4, KVHeads: 2, Dim: 320, Page: 16, Spans: [][2]int{{18, 1}, {0, 2}}, Window: 9, Sinks: true},
	{Heads: 2, KVHeads: 1, Dim: 640, Page: 16, Spans: [][2]int{{21, 2}}, Shared: true},
	{Heads: 3, KVHeads: 1, Dim: 80, Page: 32, Spans: [][2]int{{33, 1}}, Shared: true},
}

func checkAttention(r *rig) {
	for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVF32, kernel.KVQ8} {
		for _, c := range attentionCases {
			if kv == kernel.KVQ8 && (c.Shared || c.Dim > plainDimMax) {
				continue
			}
			c.KV = kv
			in := c.Input(r.Random)
			r.Agree(fmt.Sprintf("%+v", c), exact, func(b kernel.Backend) []float32 { return c.Attend(r, b, in) })
		}
	}
}

// checkSingleHeads gives heads, with widths of their own, the products with their matrices.
func checkSingleHeads(r *rig) {
	const heads, rows, n, in, out = 3, 6, 2, 270, 11
	for typ, limit := range types {
		src, x := r.Source(typ, heads, rows, 256), r.Normals(n*heads*in, 1)
		r.Agree(fmt.Sprintf("heads with matrices of type %d", typ), limit, func(b kernel.Backend) []float32 {
			dst := b.NewBuffer(n * heads * out)
			to := kernel.Heads{Buffer: dst, Width: out, At: 3}
			b.(kernel.HeadBackend).MatMulHeads(to, kernel.Heads{Buffer: upload(b, x), Width: in, At: 6}, n, r.Load(b, src))
			b.(kernel.HeadBackend).CopyHeads(kernel.Heads{Buffer: dst, Width: out, At: 1}, to, n, heads, 2)
			return download(b, dst)
		})
	}
}

func checkExperts(r *rig) {
	const n, experts, hidden, ff = 3, 6, 64, 40
	x, logits := r.Normals(n*hidden, 1), r.Normals(n*experts, 2)
	for _, c := range []struct {
		gate, down kernel.Type
		biased     bool
	}{{kernel.F16, kernel.F16, false}, {kernel.F32, kernel.BF16, true}, {kernel.BF16, kernel.F32, false}} {
		sources := []kernel.Source{
			r.Source(c.gate, experts, ff, hidden), r.Source(c.gate, experts, ff, hidden), r.Source(c.down, experts, hidden, ff),
		}
		biases := [][]float32{r.Normals(experts*ff, 1), r.Normals(experts*ff, 1), r.Normals(experts*hidden, 1)}
		r.Agree(fmt.Sprintf("%+v", c), exact, func(b kernel.Backend) []float32 {
			s := kernel.ExpertStack{Gate: r.Load(b, sources[0]), Up: r.Load(b, sources[1]), Down: r.Load(b, sources[2])}
			if c.biased {
				s.GateBias, s.UpBias, s.DownBias = upload(b, biases[0]), upload(b, biases[1]), upload(b, biases[2])
				s.Limit, s.Alpha = 0.8, 1.7
			}
			to := b.NewBuffer(n * hidden)
			b.Experts(to, upload(b, x), upload(b, logits), n, s, kernel.Routing{Top: 2})
			return download(b, to)
		})
	}
	single := r.Source(kernel.F16, 3, 8, 8)
	r.Agree("three pairs", exact, func(b kernel.Backend) []float32 { // whose lists end at no 16 bytes
		w, to := r.Load(b, single), b.NewBuffer(8)
		b.Experts(to, upload(b, x[:8]), upload(b, logits[:3]), 1, kernel.ExpertStack{Gate: w, Up: w, Down: w}, kernel.Routing{Top: 3})
		return download(b, to)
	})
	odd := []kernel.Source{r.Source(kernel.F32, 3, 5, 30), r.Source(kernel.F16, 3, 5, 30), r.Source(kernel.BF16, 3, 30, 5)}
	mixed := []kernel.Source{r.Source(kernel.BF16, 3, 5, 30), r.Source(kernel.F32, 3, 5, 30), r.Source(kernel.F16, 3, 30, 5)}
	last := []kernel.Source{r.Source(kernel.F16, 3, 5, 30), r.Source(kernel.BF16, 3, 5, 30), r.Source(kernel.F32, 3, 30, 5)}
	for i, sources := range [][]kernel.Source{odd, mixed, last} {
		r.Agree(fmt.Sprintf("rows that end at no eight, %d", i), exact, func(b kernel.Backend) []float32 {
			s := kernel.ExpertStack{Gate: r.Load(b, sources[0]), Up: r.Load(b, sources[1]), Down: r.Load(b, sources[2])}
			to := b.NewBuffer(2 * 30)
			b.Experts(to, upload(b, x[:60]), upload(b, logits[:6]), 2, s, kernel.Routing{Top: 3, Scale: 2.5, Plain: true})
			return download(b, to)
		})
	}
}

// checkBlocks is of matrices that stay blocks of a model file.
func checkBlocks(r *rig) {
	const n, experts, wide = 2, 2, 256
	x, logits := r.Normals(n*wide, 1), r.Normals(n*experts, 2)
	for _, c := range [][3]kernel.Type{{kernel.Q8_0, kernel.Q4_K, kernel.Q8_0}, {kernel.Q4_K, kernel.Q8_0, kernel.Q4_K},
		{kernel.F8E4M3, kernel.F8E4M3, kernel.F8E4M3}} {
		sources := []kernel.Source{r.Source(c[0], experts, 6, wide), r.Source(c[1], experts, 6, wide),
			r.Source(kernel.F16, experts, wide, 6)}
		outer := []kernel.Source{r.Source(kernel.F16, experts, wide, 6), r.Source(kernel.F16, experts, wide, 6),
			r.Source(c[2], experts, 6, wide)}
		r.Agree(fmt.Sprintf("experts of types %d", c), exact, func(b kernel.Backend) []float32 {
			to, last := b.NewBuffer(n*wide), b.NewBuffer(n*6)
			s := kernel.ExpertStack{Gate: r.Load(b, sources[0]), Up: r.Load(b, sources[1]), Down: r.Load(b, sources[2])}
			b.Experts(to, upload(b, x), upload(b, logits), n, s, kernel.Routing{Top: 2})
			s = kernel.ExpertStack{Gate: r.Load(b, outer[0]), Up: r.Load(b, outer[1]), Down: r.Load(b, outer[2])}
			b.Experts(last, upload(b, x[:n*6]), upload(b, logits), n, s, kernel.Routing{Top: 2})
			return append(download(b, to), download(b, last)...)
		})
	}
}

func checkRouting(r *rig) {
	for _, c := range []struct {
		experts int
		kernel.Routing
	}{
		{48, kernel.Routing{Top: 5}}, {48, kernel.Routing{Top: 1, Sigmoid: true}}, {6, kernel.Routing{Top: 6, Scale: 0.5}},
		{48, kernel.Routing{Top: 6, Sigmoid: true, Groups: 6, GroupsUsed: 2, GroupTop: 2}},
		{180, kernel.Routing{Top: 6, Groups: 2, GroupsUsed: 1, GroupTop: 3, Plain: true}},
		{144, kernel.Routing{Top: 4, Groups: 72, GroupsUsed: 20, GroupTop: 1}},
	} {
		for _, biased := range []bool{false, true} {
			route(r, c.experts, c.Routing, biased)
		}
	}
}

// route compares one way to choose experts, which are small.
func route(r *rig, experts int, c kernel.Routing, biased bool) {
	const n = 4
	logits, bias, x := r.Normals(n*experts, 1), r.Normals(experts, 0.3), r.Normals(n*8, 1)
	for i := range experts { // equal ones: the lower expert comes first
		logits[i] = float32(i / 5 % 3)
	}
	one := r.Source(kernel.F32, experts, 8, 8)
	r.Agree(fmt.Sprintf("%d experts, %+v, biased %v", experts, c, biased), exact, func(b kernel.Backend) []float32 {
		if biased {
			c.Bias = upload(b, bias)
		}
		w := r.Load(b, one)
		to := b.NewBuffer(n * 8)
		b.Experts(to, upload(b, x), upload(b, logits), n, kernel.ExpertStack{Gate: w, Up: w, Down: w}, c)
		return download(b, to)
	})
}

// TestBitsDependOnNothingElseInTheStep computes rows alone and together, with other page sizes and cuts.
func TestBitsDependOnNothingElseInTheStep(t *testing.T) {
	r := newRig(t, interp.Config{})
	const rows, cols = 5, 320
	w := r.Load(r.cuda, r.Source(kernel.F16, 1, rows, cols))
	x := r.Normals(6*cols, 1)
	product := func(n, at int) []float32 {
		to := r.cuda.NewBuffer(n * rows)
		r.cuda.MatMul([]kernel.Buffer{to}, upload(r.cuda, x[at*cols:(at+n)*cols]), n, []kernel.Weight{w})
		return download(r.cuda, to)
	}
	all := product(6, 0)
	for i := range 6 {
		same(t, fmt.Sprintf("row %d alone", i), product(1, i), all[i*rows:])
	}
	in := attentionCases[0].Input(r.Random)
	for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVQ8} {
		c := attentionCases[0]
		c.KV = kv
		want := c.Attend(r, r.cuda, in)
		c.Page, c.Chunk = 64, 3
		same(t, "another page size", c.Attend(r, r.cuda, in), want)
	}
	d := devicetest.Recurrence{KHeads: 1, VHeads: 2, Dim: 32, Taps: 4, Tiled: true, Spans: threeSpans}
	input := d.Input(r.Random)
	same(t, "the recurrence again", delta(r, d, r.cuda, input), delta(r, d, r.cuda, input))
}

// TestTheInterpreterGivesTheSameBits: what only multiplies, adds and moves gives a GPU's bits, and those of the
// interpreter in another order.
func TestTheInterpreterGivesTheSameBits(t *testing.T) {
	r := newRig(t, interp.Config{})
	other, err := New(interp.Open(interp.Config{Seed: 7}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	x, y := r.Normals(6*320, 1), r.Normals(6*320, 1)
	for _, typ := range []kernel.Type{kernel.F32, kernel.F16, kernel.BF16} {
		w := r.Source(typ, 1, 320, 320)
		run := func(b kernel.Backend) []float32 {
			m, to := r.Load(b, w), b.NewBuffer(6*320)
			b.MatMul([]kernel.Buffer{to}, upload(b, x), 6, []kernel.Weight{m})
			all := download(b, to)
			b.Embed(to, m, []int32{3, 319, 0, 5, 5, 1})
			b.AddBias(to, upload(b, y[:320]), 6, 320)
			all = append(all, download(b, to)...)
			b.GatherRows(to, upload(b, y), []int32{5, 0, 1}, 320)
			return append(all, download(b, to)...)
		}
		same(t, fmt.Sprintf("type %d", typ), run(r.cuda), run(other))
	}
}

// TestMemoryIsGivenBack: caches at their Close, buffers that nobody refers to at the next one.
func TestMemoryIsGivenBack(t *testing.T) {
	if devicetest.OnGPU() {
		t.Skip("a driver takes memory in large pieces")
	}
	r := newRig(t, interp.Config{})
	before, _, err := r.Device.Memory()
	if err != nil {
		t.Fatal(err)
	}
	c := kernel.CacheConfig{Layers: 2, KVHeads: 2, HeadDim: 64, PageTokens: 16, Pages: 9, LinearLayers: 1, StateSlots: 3, ConvDim: 96,
		ConvKernel: 4, VHeads: 1, StateDim: 32}
	cache, err := r.cuda.NewCache(c)
	if err != nil {
		t.Fatal(err)
	}
	want := 9*r.cuda.PageBytes(c) + 3*4*(3*96+32*32)
	free, _, _ := r.Device.Memory()
	if cache.BytesUsed() != want || before-free < want {
		t.Errorf("the cache says %d bytes and took %d, want %d", cache.BytesUsed(), before-free, want)
	}
	cache.Close()
	if free, _, _ = r.Device.Memory(); free != before {
		t.Errorf("%d bytes free after the cache was closed, %d before", free, before)
	}
	r.cuda.drop(r.cuda.NewBuffer(1 << 20).(*buffer).at)
	small := r.cuda.NewBuffer(1)
	if after, _, _ := r.Device.Memory(); before-after > 1<<16 || small.Len() != 1 {
		t.Errorf("%d bytes taken after a buffer was dropped", before-after)
	}
}

func TestKernelsThatAreTooNarrowRefuse(t *testing.T) {
	r := newRig(t, interp.Config{})
	for name, c := range map[string]kernel.CacheConfig{
		"wide heads":  {Layers: 1, KVHeads: 1, HeadDim: 641, PageTokens: 16, Pages: 1},
		"odd states":  {PageTokens: 16, LinearLayers: 1, StateSlots: 1, ConvDim: 99, ConvKernel: 4, VHeads: 1, StateDim: 33},
		"many taps":   {PageTokens: 16, LinearLayers: 1, StateSlots: 1, ConvDim: 96, ConvKernel: 9, VHeads: 1, StateDim: 32},
		"latent":      {Layers: 1, KVHeads: 1, HeadDim: 64, PageTokens: 16, Pages: 1, Shared: true, KV: kernel.KVQ8},
		"more memory": {Layers: 1, KVHeads: 1, HeadDim: 64, PageTokens: 16, Pages: 1 << 30},
	} {
		if _, err := r.cuda.NewCache(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := r.cuda.Load(kernel.Source{Name: "w", Type: kernel.F16, Experts: 1, Rows: 2, Cols: 4, Data: make([]byte, 15)}); err == nil {
		t.Error("a matrix that lacks a byte was loaded")
	}
	if _, err := r.cuda.Load(r.Source(kernel.F32, expertsMax+1, 1, 2)); err == nil {
		t.Error("more experts than the router knows were loaded")
	}
	if r.cuda.Failed() != nil {
		t.Errorf("a refusal made the backend fail: %v", r.cuda.Failed())
	}
}

// TestMatricesComeInParts loads one through less page-locked memory than it takes: from a file that is read into that
// memory, from one that is not, and in pieces.
func TestMatricesComeInParts(t *testing.T) {
	r := newRig(t, interp.Config{})
	r.cuda.staging = r.cuda.staging[:1<<12]
	table := r.Source(kernel.F32, 1, 30, 256)
	ids := make([]int32, 30)
	for i := range ids {
		ids[i] = int32(i)
	}
	rows := func(s kernel.Source) []float32 {
		to := r.cuda.NewBuffer(30 * 256)
		r.cuda.Embed(to, r.Load(r.cuda, s), ids)
		return download(r.cuda, to)
	}
	want := rows(table)
	for i, v := range want {
		if math.Float32bits(v) != binary.LittleEndian.Uint32(table.Data[4*i:]) {
			t.Fatalf("value %d is %g", i, v)
		}
	}
	reads := 0
	table.Read = func(part []byte, scratch *[]byte) []byte {
		if reads++; reads%3 == 0 {
			return part // as of a file that is not read past the system's memory
		}
		return (*scratch)[16 : 16+copy((*scratch)[16:], part)]
	}
	same(t, "read", rows(table), want)
	table.Data, table.Pieces = nil, [][]byte{table.Data[:5000], table.Data[5000:]}
	same(t, "in pieces", rows(table), want)
	if reads < 20 {
		t.Errorf("read %d times", reads)
	}
}

// TestWhatLiesBehindAMatrixIsZeros: kernels read words, of which the last one may begin within a matrix and end behind it.
func TestWhatLiesBehindAMatrixIsZeros(t *testing.T) {
	r := newRig(t, interp.Config{})
	for _, typ := range []kernel.Type{kernel.F32, kernel.BF16, kernel.Q8_0, kernel.Q4_K, kernel.F8E4M3, kernel.Q4_0} {
		s := r.Source(typ, 1, 3, 256)
		w := r.Load(r.cuda, s).(*weight)
		size := map[kernel.Type]int{kernel.F8E4M3: 3 * 256, kernel.Q4_0: 3 * 256 * 2}[typ]
		behind := devicetest.Read(t, r.Device, r.cuda.stream, w.at+cuda.Pointer(cmp.Or(size, len(s.Data))), overread)
		if !bytes.Equal(behind, make([]byte, overread)) {
			t.Errorf("behind a matrix of type %d lies %x", typ, behind)
		}
	}
}
