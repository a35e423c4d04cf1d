package cpu

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"corenode/engine/kernel"
)

// matMulTolerance bounds the error of one output against exact arithmetic on
// the same activations: a rounding per block or column. Scales and minima are
// exact, those of K-quants too: products of 11 and at most 8 bits.
func matMulTolerance(t kernel.Type, row []float32, codes *codeRow, x []float32) float64 {
	var size, parts float64
	s := shapes[sources[t].layout]
	for k, v := range row {
		size += math.Abs(float64(v) * float64(x[k]))
		if s.quantized {
			g := k / s.group
			part := math.Abs(float64(codes.scale[g])) * math.Abs(float64(int(codes.code[k])-s.offset))
			if s.mins {
				part += math.Abs(float64(codes.min[g]))
			}
			parts += part * math.Abs(float64(x[k]))
		}
	}
	return float64(len(row)+8)*(1.0/(1<<24))*(size+parts) + 1e-30
}

// checkMatMul compares one product with the reference.
func checkMatMul(t *testing.T, b *Backend, src kernel.Source, x []float32, n int) {
	t.Helper()
	w := load(t, b, src)
	out := b.NewBuffer(n * src.Rows)
	b.MatMul([]kernel.Buffer{out}, upload(b, x), n, []kernel.Weight{w})
	seen := x
	if shapes[sources[src.Type].layout].quantized && !b.exact {
		seen = roundActivations(x)
	}
	want := reference.NewBuffer(n * src.Rows)
	reference.MatMul([]kernel.Buffer{want}, upload(reference, seen), n, []kernel.Weight{load(t, reference, src)})
	rows := make([][]float32, src.Rows)
	codes := make([]*codeRow, src.Rows)
	for r := range rows {
		rows[r], codes[r] = make([]float32, src.Cols), newCodeRow(src.Cols)
		dequantize(rows[r], src.Type, w.(*weight).sourceRow(0, r), codes[r])
	}
	near(t, fmt.Sprintf("%s x %d rows", src.Name, n), download(b, out, n*src.Rows), download(reference, want, n*src.Rows), func(i int) float64 {
		r := i % src.Rows
		return matMulTolerance(src.Type, rows[r], codes[r], seen[i/src.Rows*src.Cols:][:src.Cols])
	})
}

func TestMatMul(t *testing.T) {
	shapesOf := func(typ kernel.Type) [][2]int {
		if n := sources[typ].values; n > 1 {
			return [][2]int{{1, n}, {31, 3 * n}, {33, 2 * n}, {64, 5 * n}}
		}
		return [][2]int{{1, 1}, {31, 63}, {32, 64}, {33, 65}, {65, 17}}
	}
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		r := newRand(3)
		for _, typ := range allTypes {
			for _, s := range shapesOf(typ) {
				src := randomSource(r, typ, 1, s[0], s[1])
				for _, n := range []int{1, 2, 3, 5, 8, 9, 16} {
					checkMatMul(t, b, src, normals(r, n*s[1], 1), n)
				}
			}
		}
	})
}

// TestMatMulExtremes drives the integer kernels to the ends of their range:
// all codes and all activations extreme, of both signs.
func TestMatMulExtremes(t *testing.T) {
	const cols, rows = 512, 32
	fills := []byte{0x00, 0x80, 0x7f, 0xff, 0x88, 0x77, 0x0f, 0xf0}
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 1})
		r := newRand(4)
		for _, typ := range allTypes[3:] {
			for _, fill := range fills {
				src := randomSource(r, typ, 1, rows, cols)
				for i := range src.Data {
					src.Data[i] = fill
				}
				for at := 0; at < len(src.Data); at += sources[typ].bytes {
					fixBlock(r, typ, src.Data[at:at+sources[typ].bytes])
				}
				for _, n := range []int{2, 16} {
					x := make([]float32, n*cols)
					for i := range x {
						x[i] = 1 - 2*float32(i/7%2*min(i/cols, 1)) // all 1, then runs of both signs
					}
					checkMatMul(t, b, src, x, n)
				}
			}
		}
	})
}

func TestMatMulZeroAndTiny(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 1})
		r := newRand(5)
		for _, typ := range allTypes {
			src := randomSource(r, typ, 1, 40, 256)
			checkMatMul(t, b, src, make([]float32, 256), 1)
			checkMatMul(t, b, src, normals(r, 3*256, 1e-20), 3)
			checkMatMul(t, b, src, normals(r, 256, 1e10), 1)
		}
	})
}

func TestExactDoesNotQuantize(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2, Exact: true})
		r := newRand(6)
		for _, typ := range allTypes {
			checkMatMul(t, b, randomSource(r, typ, 1, 48, 512), normals(r, 2*512, 1), 2)
		}
	})
}

// TestMatMulBatch is the promise of the package: a row's outputs do not depend
// on the rows beside it, nor on threads or the other weights of the call.
func TestMatMulBatch(t *testing.T) {
	const cols, n = 768, 29
	forLevels(t, func(t *testing.T, level string) {
		one, two := open(t, Options{Level: level, Threads: 1}), open(t, Options{Level: level, Threads: 3})
		r := newRand(7)
		for _, typ := range allTypes {
			rows := 335 // enough panels for several streams, which are not of use to all levels
			if one.ops.matVec[sources[typ].layout] == nil {
				rows = 70
			}
			src, other := randomSource(r, typ, 1, rows, cols), randomSource(r, kernel.F32, 1, 5, cols)
			x := normals(r, n*cols, 1)
			w := load(t, one, src)
			var single []float32
			for i := range n {
				out := one.NewBuffer(src.Rows)
				one.MatMul([]kernel.Buffer{out}, upload(one, x[i*cols:(i+1)*cols]), 1, []kernel.Weight{w})
				single = append(single, download(one, out, src.Rows)...)
			}
			for k := 1; k <= n; k += 1 + k/8 {
				out, extra := two.NewBuffer(k*src.Rows), two.NewBuffer(k*other.Rows)
				two.MatMul([]kernel.Buffer{out, extra}, upload(two, x), k, []kernel.Weight{load(t, two, src), load(t, two, other)})
				same(t, fmt.Sprintf("type %d, %d rows", typ, k), download(two, out, k*src.Rows), single[:k*src.Rows])
			}
		}
	})
}

// TestUnits: units cover every panel once, in order, and no thread begins with
// much more than its share of the bytes.
func TestUnits(t *testing.T) {
	r := newRand(30)
	for range 200 {
		var jobs []matJob
		total, panels := 0, 0
		for range 1 + r.IntN(5) {
			src := kernel.Source{Rows: 1 + r.IntN(3000), Cols: 256 * (1 + r.IntN(8)), Experts: 1}
			j := matJob{w: newWeight(src, layout(r.IntN(int(layouts)))), n: 1 + r.IntN(3)}
			jobs, total, panels = append(jobs, j), total+j.bytes(), panels+j.w.panels
		}
		threads := 1 + r.IntN(9)
		ends := cutUnits(nil, jobs, threads)
		at, largest := 0, 0
		for unit, end := range ends {
			if int(end) <= at {
				t.Fatalf("unit %d of %v ends at or before its begin", unit, ends)
			}
			size := 0
			for ; at < int(end); at++ {
				for i := range jobs {
					if j := &jobs[i]; at >= j.first && at < j.first+j.w.panels {
						panel := j.w.layout.panelBytes(j.w.src.Cols)
						size, largest = size+panel, max(largest, panel)
					}
				}
			}
			if limit := min(unitBytesMax, total*3/(5*threads)) + 2*vecStreams*largest; size > limit {
				t.Fatalf("unit %d of %d threads has %d of %d bytes, at most %d", unit, threads, size, total, limit)
			}
		}
		if at != panels {
			t.Fatalf("units %v end at panel %d of %d", ends, at, panels)
		}
	}
}

func TestQuantizeBytesEqual(t *testing.T) {
	r := newRand(8)
	for _, l := range levels() {
		for _, blocks := range []int{1, 2, 3, 4, 7, 32} {
			for _, sigma := range []float64{0, 1, 1e-30, 1e30} {
				x := normals(r, blocks*blockCols, sigma)
				size := roundUp(blocks, 2) / 2 * recordSize
				got, want := heapBytes(2*size), heapBytes(2*size)
				l.quantize(&got[0], 2*recordSize, ptr(x), blocks)
				quantizeGo(&want[0], 2*recordSize, ptr(x), blocks)
				if string(got) != string(want) {
					t.Fatalf("%s: %d blocks of sigma %g differ from quantizeGo", l.name, blocks, sigma)
				}
			}
		}
	}
}

func TestEmbedMatchesFile(t *testing.T) {
	b := open(t, Options{Threads: 1})
	r := newRand(9)
	for _, typ := range allTypes {
		src := randomSource(r, typ, 1, 9, 512)
		src.EmbedOnly = true
		ids := []int32{8, 0, 3, 3}
		got, want := b.NewBuffer(4*512), reference.NewBuffer(4*512)
		b.Embed(got, load(t, b, src), ids)
		reference.Embed(want, load(t, reference, src), ids)
		w := download(reference, want, 4*512)
		near(t, fmt.Sprintf("type %d", typ), download(b, got, 4*512), w, func(i int) float64 {
			return 1e-6 * (math.Abs(float64(w[i])) + 0.5) // d·c - m cancels
		})
	}
	if len(b.memory.blocks) > 0 {
		t.Error("tables that only Embed reads were packed")
	}
}

func TestLoadRefusesWrongShapes(t *testing.T) {
	b := open(t, Options{Threads: 1})
	cases := []kernel.Source{
		{Name: "type", Type: 3, Experts: 1, Rows: 1, Cols: 32, Data: make([]byte, 20)},
		{Name: "no rows", Type: kernel.F32, Experts: 1, Rows: 0, Cols: 1},
		{Name: "part of a block", Type: kernel.Q8_0, Experts: 1, Rows: 1, Cols: 33, Data: make([]byte, 34)},
		{Name: "short", Type: kernel.Q8_0, Experts: 1, Rows: 2, Cols: 32, Data: make([]byte, 34)},
		{Name: "long", Type: kernel.F16, Experts: 2, Rows: 2, Cols: 2, Data: make([]byte, 18)},
		{Name: "wide", Type: kernel.F32, Experts: 1, Rows: 1, Cols: 1 << 62, Data: make([]byte, 16)},
		{Name: "huge", Type: kernel.F32, Experts: 1 << 40, Rows: 1 << 40, Cols: 4, Data: make([]byte, 16)},
	}
	for _, c := range cases {
		if _, err := b.Load(c); err == nil {
			t.Errorf("%s: no error", c.Name)
		}
	}
}

func TestLoadTwiceIsOneWeight(t *testing.T) {
	b := open(t, Options{Threads: 1})
	src := randomSource(newRand(1), kernel.Q8_0, 1, 40, 64)
	other := src
	other.Data = append([]byte{}, src.Data...)
	first := load(t, b, src)
	if load(t, b, src) != first {
		t.Error("the same tensor was packed twice")
	}
	if load(t, b, other) == first {
		t.Error("two tensors of one name share their memory")
	}
}

// TestDecodeDoesNotAllocate holds for the operations whose scratch would be large.
func TestDecodeDoesNotAllocate(t *testing.T) {
	b := open(t, Options{Threads: 2})
	r := newRand(1)
	w := []kernel.Weight{load(t, b, randomSource(r, kernel.Q8_0, 1, 1024, 1024))}
	x, y := upload(b, normals(r, 1024, 1)), []kernel.Buffer{b.NewBuffer(1024)}
	cache, err := b.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 4, HeadDim: 64, PageTokens: 16, Pages: 50})
	if err != nil {
		t.Fatal(err)
	}
	pages := make([]int32, 50)
	for i := range pages {
		pages[i] = int32(i)
	}
	kv := upload(b, normals(r, 700*256, 1))
	b.StoreKV(cache, 0, kv, kv, &kernel.Step{Rows: 700, Spans: []kernel.Span{{Len: 700, Pages: pages}}})
	step := &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pos: 700, Pages: pages}}}
	for name, f := range map[string]func(){
		"MatMul":  func() { b.MatMul(y, x, 1, w) },
		"StoreKV": func() { b.StoreKV(cache, 0, x, x, step) },
		"Attend":  func() { b.Attend(cache, 0, y[0], x, step, 8, 0, 1, nil) },
	} {
		for range 100 { // each thread takes its scratch when it first gets work
			f()
		}
		if n := testing.AllocsPerRun(100, f); n >= 1 {
			t.Errorf("%s allocates %g times", name, n)
		}
	}
}

// TestPackedSize: a packed matrix takes the bytes of its rows in the file, to 1 %,
// where its rows fill panels; one of codes that stand for eight bits those of Q8_0.
func TestPackedSize(t *testing.T) {
	for typ, s := range sources {
		if s.layout == code8 {
			s = sources[kernel.Q8_0]
		}
		src := kernel.Source{Type: typ, Experts: 2, Rows: 3 * panelRows, Cols: 512}
		file := src.Experts * src.Rows * src.Cols / s.values * s.bytes
		if packed := newWeight(src, s.layout).size(); math.Abs(float64(packed-file)) > 0.01*float64(file) {
			t.Errorf("type %d takes %d bytes, %d in the file", typ, packed, file)
		}
	}
}

// TestMicroScales: every power of two that a scale can mean, from 2^-24 to 2^18 before the
// codes, is exact; below it weights are 0, above it they stay at the largest.
func TestMicroScales(t *testing.T) {
	row := newCodeRow(32)
	got := make([]float32, 32)
	for e := range 256 {
		block := append([]byte{byte(e)}, make([]byte, 16)...)
		for i := range 16 {
			block[1+i] = byte(i | (15-i)<<4)
		}
		dequantize(got, kernel.MXFP4, block, row)
		power := math.Ldexp(1, min(e-128, 18))
		if e-128 < -24 {
			power = 0
		}
		for i, want := range []float64{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12} {
			if float64(got[i]) != want*power || float64(got[31-i]) != want*power || floatToHalf(row.scale[0]) == 0x7c00 {
				t.Fatalf("exponent %d: code %d is %g and %g, want %g", e, i, got[i], got[31-i], want*power)
			}
		}
	}
}

// TestPieces: experts that lie apart are packed as those that do not, and must be whole.
func TestPieces(t *testing.T) {
	b := open(t, Options{})
	for _, typ := range allTypes {
		src := randomSource(newRand(3), typ, 3, 40, 256)
		joined, err := b.Load(src)
		if err != nil {
			t.Fatal(err)
		}
		apart := src
		apart.Name, apart.Data = "apart "+src.Name, nil
		size := len(src.Data) / 3
		for e := range 3 {
			apart.Pieces = append(apart.Pieces, src.Data[e*size:(e+1)*size])
		}
		w, err := b.Load(apart)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.(*weight).data, joined.(*weight).data) {
			t.Errorf("type %d: pieces are packed differently", typ)
		}
		for _, pieces := range [][][]byte{apart.Pieces[:2], {apart.Pieces[0], apart.Pieces[1], apart.Pieces[2][1:]}, {},
			slices.Collect(slices.Chunk(src.Data, size/2)), slices.Collect(slices.Chunk(src.Data, 3*size))} {
			apart.Name, apart.Pieces = apart.Name+"x", pieces
			if _, err := b.Load(apart); err == nil {
				t.Errorf("type %d: %d pieces are loaded", typ, len(pieces))
			}
		}
	}
}
