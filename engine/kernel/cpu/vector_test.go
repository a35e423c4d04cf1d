package cpu

import (
	"fmt"
	"math"
	"testing"

	"corenode/engine/kernel"
)

// vectorCase is an element-wise operation on n rows of width d; it returns its
// result and is run on both backends with the same input.
type vectorCase struct {
	name      string
	tolerance float64 // relative to the largest value
	run       func(b kernel.Backend, in [3][]float32, n, d int) []float32
}

var vectorCases = []vectorCase{
	{"AddBias", 0, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		x := upload(b, in[0])
		b.AddBias(x, upload(b, in[1][:d]), n, d)
		return download(b, x, n*d)
	}},
	{"RMSNorm", 2e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		x := upload(b, in[0])
		b.RMSNorm(x, x, upload(b, in[1][:d]), n, d, 1e-6)
		return download(b, x, n*d)
	}},
	{"AddRMSNorm", 2e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		x, out := upload(b, in[0]), b.NewBuffer(n*d)
		b.AddRMSNorm(out, x, upload(b, in[1]), upload(b, in[2][:d]), n, d, 1e-6)
		return append(download(b, out, n*d), download(b, x, n*d)...)
	}},
	{"SiLUMul", 1e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		g := upload(b, in[0])
		b.SiLUMul(g, g, upload(b, in[1]), n, d)
		return download(b, g, n*d)
	}},
	{"GELUMul", 2e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		g := upload(b, in[0])
		b.GELUMul(g, g, upload(b, in[1]), n, d)
		return download(b, g, n*d)
	}},
	{"SigmoidMul", 1e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		x := upload(b, in[0])
		b.SigmoidMul(x, upload(b, in[1]), n, d)
		return download(b, x, n*d)
	}},
	{"AddScaled", 1e-6, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		x := upload(b, in[0])
		b.AddScaled(x, upload(b, in[1]), upload(b, in[2][:n]), n, d)
		return download(b, x, n*d)
	}},
	{"GatherRows", 0, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		out := b.NewBuffer(2 * d)
		b.GatherRows(out, upload(b, in[0]), []int32{int32(n - 1), 0}, d)
		return download(b, out, 2*d)
	}},
	{"SplitHeads", 0, func(b kernel.Backend, in [3][]float32, n, d int) []float32 {
		u, v := b.NewBuffer(n*d), b.NewBuffer(n*d)
		b.SplitHeads(u, v, upload(b, append(append([]float32{}, in[0]...), in[1]...)), n, 1, d)
		return append(download(b, u, n*d), download(b, v, n*d)...)
	}},
}

// vectorSizes lie around the widths of vectors, and above the size from which
// operations are parallel.
var vectorSizes = [][2]int{{1, 1}, {3, 7}, {2, 15}, {3, 16}, {2, 17}, {1, 31}, {4, 33}, {1, 1024}, {70, 1000}}

func TestVectorOps(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for _, c := range vectorCases {
			for _, s := range vectorSizes {
				r := newRand(uint64(s[1]))
				in := [3][]float32{normals(r, s[0]*s[1], 3), normals(r, s[0]*s[1], 3), normals(r, s[0]*s[1], 3)}
				want := c.run(reference, in, s[0], s[1])
				near(t, fmt.Sprintf("%s %v", c.name, s), c.run(b, in, s[0], s[1]), want, relative(want, c.tolerance))
			}
		}
	})
}

// TestVectorRowsAlone: the same row gives the same bits in any number of rows.
func TestVectorRowsAlone(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		one, two := open(t, Options{Level: level, Threads: 1}), open(t, Options{Level: level, Threads: 2})
		for _, c := range vectorCases[:5] {
			for _, d := range []int{7, 16, 25, 1000} {
				const n = 80
				r := newRand(uint64(d))
				in := [3][]float32{normals(r, n*d, 3), normals(r, n*d, 3), normals(r, n*d, 3)}
				all := c.run(two, in, n, d)
				shared := c.name == "RMSNorm" || c.name == "AddBias"
				for i := range n {
					row := func(k int) []float32 { return in[k][i*d : (i+1)*d] }
					alone := [3][]float32{row(0), row(1), in[2]}
					if shared {
						alone[1] = in[1]
					}
					got := c.run(one, alone, 1, d)
					same(t, fmt.Sprintf("%s row %d of width %d", c.name, i, d), got[:d], all[i*d:(i+1)*d])
				}
			}
		}
	})
}

func TestRope(t *testing.T) {
	forLevels(t, func(t *testing.T, level string) {
		b := open(t, Options{Level: level, Threads: 2})
		for _, c := range []struct{ n, heads, dim, half int }{{1, 2, 64, 32}, {3, 3, 128, 64}, {5, 2, 24, 9}, {2, 4, 256, 32},
			{300, 2, 128, 64}} {
			for _, neox := range []bool{true, false} {
				run := func(b kernel.Backend) []float32 {
					freq := make([]float64, c.half)
					for i := range freq {
						freq[i] = math.Pow(1e6, -float64(i)/float64(c.half))
					}
					step := &kernel.Step{Rows: c.n, Spans: []kernel.Span{{Len: 1, Pos: 200000}}}
					if c.n > 1 {
						step.Spans = append(step.Spans, kernel.Span{Row: 1, Len: c.n - 1, Pos: 5})
					}
					x := upload(b, normals(newRand(1), c.n*c.heads*c.dim, 1))
					angles := b.NewBuffer(c.n * 2 * c.half)
					b.RopeAngles(angles, step, freq, 1.25)
					b.Rope(x, angles, c.n, c.heads, c.dim, c.half, neox)
					return download(b, x, c.n*c.heads*c.dim)
				}
				want := run(reference)
				near(t, fmt.Sprintf("%+v neox %v", c, neox), run(b), want, relative(want, 1e-6))
			}
		}
	})
}

// TestExp measures e^x of every level, through sigmoid and softmax, against math.Exp.
func TestExp(t *testing.T) {
	for _, l := range levels() {
		for x := float32(-90); x <= 90; x += 0.0137 {
			v, gate := [16]float32{0: 1}, [16]float32{0: x}
			l.sigmoidMul(&v[0], &gate[0], 16)
			want := 1 / (1 + math.Exp(-float64(x)))
			if d := math.Abs(float64(v[0]) - want); d > 4e-7*want+1e-37 {
				t.Fatalf("%s: sigmoid(%g) is %g, want %g", l.name, x, v[0], want)
			}
			if x > 0 {
				continue
			}
			p, stat := [16]float32{}, [2]float32{}
			for i := range p {
				p[i] = float32(math.Inf(-1))
			}
			p[3], p[7] = 2, 2+x
			l.softmax(&p[0], 16, &stat)
			want = math.Exp(float64(2+x) - 2) // below e^-86.6 a level may give 0
			if d := math.Abs(float64(p[7]) - want); d > 3e-7*want+2.5e-38 || p[0] != 0 || p[3] != 1 || stat != [2]float32{2, 1 + p[7]} {
				t.Fatalf("%s: e^%g is %g, want %g (masked %g, top %g, stat %v)", l.name, x, p[7], want, p[0], p[3], stat)
			}
		}
	}
}

func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		f := halfToFloat(uint16(h))
		if f != f {
			if back := floatToHalf(f); halfToFloat(back) == halfToFloat(back) {
				t.Fatalf("%#04x is not a number, but %#04x is", h, back)
			}
			continue
		}
		if back := floatToHalf(f); back != uint16(h) {
			t.Fatalf("%#04x became %g became %#04x", h, f, back)
		}
	}
}

// TestToHalf compares the conversions bit by bit, ties and limits included.
func TestToHalf(t *testing.T) {
	r := newRand(1)
	for range 2000 {
		var x [32]float32
		for i := range x {
			switch i % 4 {
			case 0: // half way between two neighbors
				h := uint16(r.Uint32()) &^ 0xc000
				x[i] = (halfToFloat(h) + halfToFloat(h+1)) / 2
			case 1:
				x[i] = math.Float32frombits(r.Uint32()) // anything
			default:
				x[i] = float32(r.NormFloat64() * math.Pow(10, float64(r.IntN(12)-7)))
			}
			if x[i] != x[i] {
				x[i] = 65520
			}
		}
		var want, got [32]uint16
		toHalfGo(&want[0], &x[0], 32)
		for _, l := range levels() {
			if l.toHalf(&got[0], &x[0], 32); got != want {
				t.Fatalf("%s: %v became %x, want %x", l.name, x, got, want)
			}
		}
	}
}
