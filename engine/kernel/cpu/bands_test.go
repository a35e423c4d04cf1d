package cpu

import (
	"fmt"
	"testing"

	"corenode/engine/kernel"
)

// bandProduct is x, n rows, times one matrix.
func bandProduct(t *testing.T, b *Backend, src kernel.Source, x []float32, n int) []float32 {
	t.Helper()
	out := b.NewBuffer(n * src.Rows)
	b.MatMul([]kernel.Buffer{out}, upload(b, x), n, []kernel.Weight{load(t, b, src)})
	return download(b, out, n*src.Rows)
}

// eachBands runs a test at every level with bands, beside the same level
// without them, whose results it must give bit by bit.
func eachBands(t *testing.T, test func(t *testing.T, bands, plain *Backend)) {
	ran := false
	for _, level := range Levels() {
		bands, plain := open(t, Options{Level: level, Threads: 2}), open(t, Options{Level: level, Threads: 1})
		if bands.ops.bands == nil {
			continue
		}
		ran = true
		with, few := *bands.ops, *bands.ops.bands
		few.min, with.bands = 2, &few // of all counts of rows
		bands.ops = &with
		without := *plain.ops
		without.bands, without.tall = nil, [layouts]matMulFunc{}
		plain.ops = &without
		t.Run(level, func(t *testing.T) { test(t, bands, plain) })
	}
	if !ran {
		t.Skip("this processor and system have no level with bands")
	}
}

// TestBandsBitEqual goes over all layouts, over counts of rows around those of
// bands, and over shapes that leave parts of steps, panels and parts of panels.
func TestBandsBitEqual(t *testing.T) { eachBands(t, testBandsBitEqual) }

func testBandsBitEqual(t *testing.T, bands, plain *Backend) {
	r := newRand(21)
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K} {
		cols := []int{256, 768, 2304}
		if sources[typ].values == 32 {
			cols = []int{32, 96, 64, 544, 1056}
		}
		for _, k := range cols {
			for _, rows := range []int{1, 31, 32, 100} {
				src := randomSource(r, typ, 1, rows, k)
				x := normals(r, 70*k, 1)
				for n := 1; n <= 70; n += 1 + n/12 {
					what := fmt.Sprintf("type %d, %d x %d, %d rows", typ, rows, k, n)
					same(t, what, bandProduct(t, bands, src, x, n), bandProduct(t, plain, src, x, n))
				}
			}
		}
	}
}

// TestBandsExtremes has the largest codes on both sides, zeros, and finite values
// whose sums are infinite.
func TestBandsExtremes(t *testing.T) { eachBands(t, testBandsExtremes) }

func testBandsExtremes(t *testing.T, bands, plain *Backend) {
	r := newRand(22)
	for _, typ := range []kernel.Type{kernel.Q8_0, kernel.Q4_0, kernel.Q4_K, kernel.Q5_K, kernel.Q6_K} {
		for fill := range 3 {
			src := randomSource(r, typ, 1, 40, 512)
			for i := range src.Data {
				src.Data[i] = [3]byte{0x80, 0x7f, 0xff}[fill]
			}
			s := sources[typ]
			for at := 0; at < len(src.Data); at += s.bytes {
				fixBlock(r, typ, src.Data[at:at+s.bytes])
			}
			for _, sigma := range []float64{0, 1e-30, 1, 3e37} {
				x := normals(r, 20*512, sigma)
				same(t, fmt.Sprintf("type %d, bytes %#x, sigma %g", typ, src.Data[len(src.Data)-1], sigma),
					bandProduct(t, bands, src, x, 20), bandProduct(t, plain, src, x, 20))
			}
		}
	}
}

// TestBandsRowBlocks has more rows than pass through a panel at once.
func TestBandsRowBlocks(t *testing.T) { eachBands(t, testBandsRowBlocks) }

func testBandsRowBlocks(t *testing.T, bands, plain *Backend) {
	r := newRand(23)
	const n, cols = 2*rowBlockMax + 11, 128
	src := randomSource(r, kernel.Q8_0, 1, 70, cols)
	x := normals(r, n*cols, 1)
	same(t, "many rows", bandProduct(t, bands, src, x, n), bandProduct(t, plain, src, x, n))
	const wide = 16384 // few rows of these fit
	src = randomSource(r, kernel.Q4_0, 1, 33, wide)
	x = normals(r, 75*wide, 1)
	same(t, "wide rows", bandProduct(t, bands, src, x, 75), bandProduct(t, plain, src, x, 75))
}

func TestBandsExperts(t *testing.T) { eachBands(t, testBandsExperts) }

func testBandsExperts(t *testing.T, bands, plain *Backend) {
	const experts, hidden, width, n, top = 5, 96, 160, 61, 2 // some 24 rows each
	r := newRand(24)
	src := [3]kernel.Source{
		randomSource(r, kernel.Q4_0, experts, width, hidden),
		randomSource(r, kernel.Q8_0, experts, width, hidden),
		randomSource(r, kernel.Q8_0, experts, hidden, width),
	}
	x, logits := normals(r, n*hidden, 1), normals(r, n*experts, 2)
	how := kernel.Routing{Top: top}
	same(t, "experts", runExperts(t, bands, src, x, logits, n, how), runExperts(t, plain, src, x, logits, n, how))
}

// TestBanded says which rows go to bands, and what they take.
func TestBanded(t *testing.T) {
	with, without := &ops{bands: &bandOps{rows: 12, min: 17}}, &ops{}
	with.tall[code8] = func(*float32, *byte, int, *byte, int) {}
	for _, c := range []struct {
		n      int
		banded bool
		rows   int
	}{
		{1, false, 1}, {3, false, 4}, {5, false, 8}, {8, false, 8}, {9, false, 16}, {16, false, 16}, {17, true, 24}, {24, true, 24},
		{25, true, 36}, {512, true, 516},
	} {
		if got := with.banded(true, c.n); got != c.banded {
			t.Errorf("%d rows: in bands %v, want %v", c.n, got, c.banded)
		}
		record := recordSize
		if c.banded {
			record = bandCodes + bandTail
		}
		if got, want := with.actSize(true, c.n, 64), c.rows*record; got != want {
			t.Errorf("%d rows: %d bytes of activations, want %d", c.n, got, want)
		}
		if without.banded(true, c.n) || with.banded(false, c.n) {
			t.Errorf("%d rows: bands without kernels for them", c.n)
		}
	}
}
