package ref

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

func upload(x ...float32) kernel.Buffer {
	b := New().NewBuffer(len(x))
	New().Upload(b, 0, x)
	return b
}

func noise(n int, seed uint64) []float32 {
	g := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(g.NormFloat64())
	}
	return out
}

func load(t *testing.T, experts, rows, cols int, x ...float32) kernel.Weight {
	t.Helper()
	data, err := modelfile.Quantize(kernel.F32, x)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New().Load(kernel.Source{Name: "w", Type: kernel.F32, Experts: experts, Rows: rows, Cols: cols, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func near(t *testing.T, what string, got kernel.Buffer, want ...float64) {
	t.Helper()
	if got.Len() < len(want) {
		t.Fatalf("%s: %d values, want %d", what, got.Len(), len(want))
	}
	for i, w := range want {
		if d := math.Abs(float64(mem(got)[i]) - w); !(d <= 1e-6*max(1, math.Abs(w))) {
			t.Fatalf("%s: value %d is %g, want %g", what, i, mem(got)[i], w)
		}
	}
}

// TestSmall checks the plain operations against numbers worked out by hand.
func TestSmall(t *testing.T) {
	b := New()
	x := upload(1, 2, 3, 4) // two rows of two
	out := b.NewBuffer(8)
	w := load(t, 1, 3, 2, 1, 0, 0, 1, 2, -1)
	second := b.NewBuffer(2)
	b.MatMul([]kernel.Buffer{out, second}, x, 2, []kernel.Weight{w, load(t, 1, 1, 2, 10, 1)})
	near(t, "MatMul", out, 1, 2, 0, 3, 4, 2)
	near(t, "MatMul, second weight", second, 12, 34)
	b.Embed(out, w, []int32{2, 0})
	near(t, "Embed", out, 2, -1, 1, 0)
	b.GatherRows(out, x, []int32{1, 1, 0}, 2)
	near(t, "GatherRows", out, 3, 4, 3, 4, 1, 2)
	b.AddBias(out, upload(10, 20), 2, 2)
	near(t, "AddBias", out, 13, 24, 13, 24, 1, 2)
	b.RMSNorm(out, upload(3, 4), upload(2, 1), 1, 2, 0)
	near(t, "RMSNorm", out, 6/math.Sqrt(12.5), 4/math.Sqrt(12.5))
	b.RMSNorm(out, upload(0, 0), upload(2, 1), 1, 2, 1e-6)
	near(t, "RMSNorm of zeros", out, 0, 0)
	sum := upload(1, 1)
	b.AddRMSNorm(out, sum, upload(2, 3), upload(1, 1), 1, 2, 0)
	near(t, "AddRMSNorm, sum", sum, 3, 4)
	near(t, "AddRMSNorm", out, 3/math.Sqrt(12.5), 4/math.Sqrt(12.5))
	b.SiLUMul(out, upload(0, 2, -200), upload(5, 3, 1), 1, 3)
	near(t, "SiLUMul", out, 0, 6/(1+math.Exp(-2)), 0)
	gated := upload(4, 6)
	b.SigmoidMul(gated, upload(0, math.MaxFloat32), 1, 2)
	near(t, "SigmoidMul", gated, 2, 6)
	scaled := upload(1, 1, 1, 1)
	b.AddScaled(scaled, upload(2, 4, 6, 8), upload(0, -math.MaxFloat32), 2, 2)
	near(t, "AddScaled", scaled, 2, 3, 1, 1)
	first, other := b.NewBuffer(4), b.NewBuffer(4)
	b.SplitHeads(first, other, upload(1, 2, 3, 4, 5, 6, 7, 8), 1, 2, 2)
	near(t, "SplitHeads", first, 1, 2, 5, 6)
	near(t, "SplitHeads, second", other, 3, 4, 7, 8)
}

// TestRope: known angles, the pairing, what is beyond it, and that a dot product of two
// rotated vectors depends on the distance of their positions only.
func TestRope(t *testing.T) {
	b := New()
	step := &kernel.Step{Rows: 3, Spans: []kernel.Span{{Row: 0, Len: 2, Pos: 5}, {Row: 2, Len: 1, Pos: 9}}}
	angles := b.NewBuffer(12)
	b.RopeAngles(angles, step, []float64{1, 0.1}, 1)
	near(t, "angles", angles, math.Cos(5), math.Cos(.5), math.Sin(5), math.Sin(.5), math.Cos(6), math.Cos(.6))
	gained := b.NewBuffer(12)
	b.RopeAngles(gained, step, []float64{1, 0.1}, 1.5)
	near(t, "angles with a gain", gained, 1.5*math.Cos(5), 1.5*math.Cos(.5), 1.5*math.Sin(5), 1.5*math.Sin(.5))
	quarter := upload(0, 0, 1, 1) // cos, cos, sin, sin of 90 degrees
	for _, c := range []struct {
		neox bool
		want []float64
	}{{true, []float64{-3, -4, 1, 2, 5}}, {false, []float64{-2, 1, -4, 3, 5}}} {
		x := upload(1, 2, 3, 4, 5)
		b.Rope(x, quarter, 1, 1, 5, 2, c.neox)
		near(t, "quarter turn", x, c.want...)
	}
	product := func(p, q int) float64 {
		s := &kernel.Step{Rows: 2, Spans: []kernel.Span{{Len: 1, Pos: p}, {Row: 1, Len: 1, Pos: q}}}
		b.RopeAngles(angles, s, []float64{1, 0.1}, 1)
		x := upload(noise(8, 1)...)
		b.Rope(x, angles, 2, 1, 4, 2, true)
		return dot(mem(x)[:4], mem(x)[4:])
	}
	if a, b := product(3, 10), product(1003, 1010); math.Abs(a-b) > 1e-5 {
		t.Errorf("products at the same distance: %g and %g", a, b)
	}
}

// TestRoundHalf: the same as an encoder and a decoder of float16 that know nothing of it.
func TestRoundHalf(t *testing.T) {
	check := func(x float32) {
		var raw [2]byte
		binary.LittleEndian.PutUint16(raw[:], modelfile.Half(x))
		var want [1]float32
		if err := modelfile.Dequantize(want[:], kernel.F16, raw[:]); err != nil {
			t.Fatal(err)
		}
		if got := roundHalf(x); got != want[0] && (got == got || want[0] == want[0]) {
			t.Fatalf("roundHalf(%g) is %g, want %g", x, got, want[0])
		}
	}
	for _, x := range []float32{0, 1, -1, 65504, 65519.99, 65520, -1e9, 6e-8, 2.9e-8, 3e-8, 6.1e-5, 6.09e-5, 1.0004883,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.SmallestNonzeroFloat32, math.MaxFloat32} {
		check(x)
	}
	g := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		check(math.Float32frombits(g.Uint32()))
		check(float32(g.NormFloat64()))
	}
}

// TestAttend compares with softmax written out over K and V rows kept in order,
// while the cache has them in scattered pages of several sizes.
func TestAttend(t *testing.T) {
	const heads, kvHeads, d, n = 4, 2, 3, 21
	k, v, q := noise(n*kvHeads*d, 1), noise(n*kvHeads*d, 2), noise(n*heads*d, 3)
	scale := float32(0.7)
	want := make([]float64, n*heads*d)
	for i := range n {
		for h := range heads {
			kv := h / 2 * d
			var total float64
			for p := range i + 1 {
				e := math.Exp(float64(scale) * dot(q[(i*heads+h)*d:][:d], k[p*kvHeads*d+kv:][:d]))
				total += e
				for j := range d {
					want[(i*heads+h)*d+j] += e * float64(v[p*kvHeads*d+kv+j])
				}
			}
			for j := range d {
				want[(i*heads+h)*d+j] /= total
			}
		}
	}
	for _, size := range []int{1, 4, 16, 64} {
		b := New()
		c, err := b.NewCache(kernel.CacheConfig{Layers: 2, KVHeads: kvHeads, HeadDim: d, PageTokens: size, Pages: 40, KV: kernel.KVF32})
		if err != nil {
			t.Fatal(err)
		}
		var pages []int32
		for i := range (n + size - 1) / size {
			pages = append(pages, int32(39-i))
		}
		for _, piece := range [][2]int{{0, 8}, {8, 13}} {
			at, length := piece[0], piece[1]
			step := &kernel.Step{Rows: length, Spans: []kernel.Span{{Len: length, Pos: at, Pages: pages}}}
			b.StoreKV(c, 1, upload(k[at*kvHeads*d:]...), upload(v[at*kvHeads*d:]...), step)
			out := b.NewBuffer(length * heads * d)
			b.Attend(c, 1, out, upload(q[at*heads*d:]...), step, heads, 0, scale, nil)
			near(t, "Attend", out, want[at*heads*d:(at+length)*heads*d]...)
		}
	}
}

// TestDeltaNet compares the token-by-token recurrence with the parallel form of the
// same layer: one triangular system over the whole sequence.
func TestDeltaNet(t *testing.T) {
	for _, tiled := range []bool{true, false} {
		s := kernel.DeltaShape{KHeads: 2, VHeads: 4, Dim: 3, ConvKernel: 4, Tiled: tiled, Eps: 1e-6}
		const n = 9
		convDim, width := 2*s.KHeads*s.Dim+s.VHeads*s.Dim, s.VHeads*s.Dim
		qkv, z, beta, alpha := noise(n*convDim, 1), noise(n*width, 2), noise(n*s.VHeads, 3), noise(n*s.VHeads, 4)
		conv, a, dt, norm := noise(convDim*4, 5), []float32{-.1, -.5, -1, -2}, noise(4, 6), noise(3, 7)
		want := parallelDelta(s, n, qkv, z, beta, alpha, conv, a, dt, norm)
		b := New()
		c, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: 3, ConvDim: convDim, ConvKernel: 4,
			VHeads: 4, StateDim: 3})
		if err != nil {
			t.Fatal(err)
		}
		w := kernel.DeltaWeights{Conv: upload(conv...), A: upload(a...), DtBias: upload(dt...), Norm: upload(norm...)}
		for slot, pieces := range [][][2]int{{{0, n}}, {{0, 4}, {4, n - 4}}, {{0, 1}, {1, 1}, {2, n - 2}}} {
			for _, piece := range pieces {
				at, length := piece[0], piece[1]
				out := b.NewBuffer(length * width)
				step := &kernel.Step{Rows: length, Spans: []kernel.Span{{Len: length, Pos: at, State: int32(slot)}}}
				b.DeltaNet(c, 1, out, upload(qkv[at*convDim:]...), upload(z[at*width:]...), upload(beta[at*4:]...),
					upload(alpha[at*4:]...), w, s, step)
				near(t, "DeltaNet", out, want[at*width:(at+length)*width]...)
			}
		}
	}
}

// TestDeltaSaves: a saved state is the one that computing only the rows before it leaves.
func TestDeltaSaves(t *testing.T) {
	s := kernel.DeltaShape{KHeads: 1, VHeads: 2, Dim: 2, ConvKernel: 3, Eps: 1e-6}
	const n, convDim, width = 5, 8, 4
	qkv, z, beta, alpha := noise(n*convDim, 1), noise(n*width, 2), noise(n*2, 3), noise(n*2, 4)
	b := New()
	kc, err := b.NewCache(kernel.CacheConfig{PageTokens: 16, LinearLayers: 2, StateSlots: 5, ConvDim: convDim, ConvKernel: 3, VHeads: 2,
		StateDim: 2})
	if err != nil {
		t.Fatal(err)
	}
	w := kernel.DeltaWeights{Conv: upload(noise(convDim*3, 5)...), A: upload(-.3, -1), DtBias: upload(noise(2, 6)...),
		Norm: upload(noise(2, 7)...)}
	compute := func(at int, span kernel.Span) {
		for layer := range 2 {
			b.DeltaNet(kc, layer, b.NewBuffer(span.Len*width), upload(qkv[at*convDim:]...), upload(z[at*width:]...),
				upload(beta[at*2:]...), upload(alpha[at*2:]...), w, s, &kernel.Step{Rows: span.Len, Spans: []kernel.Span{span}})
		}
	}
	compute(0, kernel.Span{Len: n, State: 0, Saves: []int32{2, 1, 3}})
	c := kc.(*cache)
	for i, slot := range []int32{2, 1, 3, 0} {
		kc.ResetState(4)
		rows := min(i+1, 3)
		if slot == 0 {
			rows = n
		}
		compute(0, kernel.Span{Len: rows, State: 4})
		if got, want := c.state(slot), c.state(4); !slices.Equal(got.s, want.s) || !slices.Equal(got.conv, want.conv) {
			t.Errorf("slot %d holds %v %v, want what %d rows leave: %v %v", slot, got.conv, got.s, rows, want.conv, want.s)
		}
	}
}

// parallelDelta computes all tokens from an empty state: with c the running sum of log decays and
// D[i][j] = exp(c_i - c_j), new values u solve u_i = β_i (v_i - Σ_{j<i} D_ij (k_i·k_j) u_j), and
// o_i = Σ_{j<=i} D_ij (q_i·k_j) u_j.
func parallelDelta(s kernel.DeltaShape, n int, qkv, z, beta, alpha, conv, a, dt, norm []float32) []float64 {
	d, convDim := s.Dim, len(conv)/s.ConvKernel
	mixed := make([]float32, n*convDim)
	for i := range n {
		for ch := range convDim {
			var sum float64
			for back := range min(s.ConvKernel, i+1) {
				sum += float64(qkv[(i-back)*convDim+ch]) * float64(conv[ch*s.ConvKernel+s.ConvKernel-1-back])
			}
			mixed[i*convDim+ch] = float32(sum / (1 + math.Exp(-sum)))
		}
	}
	unit := func(x []float32) []float64 {
		out := make([]float64, d)
		for i := range out {
			out[i] = float64(x[i]) / math.Sqrt(dot(x, x)+1e-6)
		}
		return out
	}
	inner := func(x, y []float64) (sum float64) {
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	out := make([]float64, n*s.VHeads*d)
	for p := range s.VHeads {
		kHead := p / 2
		if s.Tiled {
			kHead = p % 2
		}
		var q, k, u [][]float64
		var sums []float64
		sum := 0.0
		for i := range n {
			row := mixed[i*convDim : (i+1)*convDim]
			q, k = append(q, unit(row[kHead*d:][:d])), append(k, unit(row[(s.KHeads+kHead)*d:][:d]))
			sum += float64(a[p]) * math.Log1p(math.Exp(float64(alpha[i*s.VHeads+p])+float64(dt[p])))
			sums = append(sums, sum)
			value, o := make([]float64, d), make([]float64, d)
			for c := range d {
				value[c] = float64(row[(2*s.KHeads+p)*d+c])
				for j := range i {
					value[c] -= math.Exp(sums[i]-sums[j]) * inner(k[i], k[j]) * u[j][c]
				}
				value[c] /= 1 + math.Exp(-float64(beta[i*s.VHeads+p]))
			}
			u = append(u, value)
			for c := range d {
				for j := range i + 1 {
					o[c] += math.Exp(sums[i]-sums[j]) * inner(q[i], k[j]) / math.Sqrt(float64(d)) * u[j][c]
				}
			}
			for c := range d {
				gate := float64(z[(i*s.VHeads+p)*d+c])
				out[(i*s.VHeads+p)*d+c] = o[c] / math.Sqrt(inner(o, o)/float64(d)+1e-6) * float64(norm[c]) * gate / (1 + math.Exp(-gate))
			}
		}
	}
	return out
}

// TestExperts: two of three, weights by softmax of the two, ties to the lower id.
func TestExperts(t *testing.T) {
	b := New()
	gate, up := load(t, 3, 1, 1, 1, 2, 3), load(t, 3, 1, 1, 1, 1, 1)
	down := load(t, 3, 2, 1, 1, 0, 0, 1, 10, 10)
	act := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	out := b.NewBuffer(4)
	b.Experts(out, upload(1, 1), upload(3, 2, 1, 5, 5, 5), 2, kernel.ExpertStack{Gate: gate, Up: up, Down: down}, kernel.Routing{Top: 2})
	w := 1 / (1 + math.Exp(-1))
	near(t, "Experts", out, w*act(1), (1-w)*act(2), act(1)/2, act(2)/2)
	b.Experts(out, upload(1), upload(1, 2, 90), 1, kernel.ExpertStack{Gate: gate, Up: up, Down: down}, kernel.Routing{Top: 1})
	near(t, "one expert", out, 10*act(3), 10*act(3))
	s := kernel.ExpertStack{Gate: gate, Up: up, Down: down, Limit: 5, Alpha: 2}
	s.GateBias, s.UpBias, s.DownBias = upload(0, 0, 7), upload(0, 0, -9), upload(0, 0, 0, 0, 1, 2)
	b.Experts(out, upload(1), upload(1, 2, 90), 1, s, kernel.Routing{Top: 1}) // gate 3+7, up 1-9
	limited := (-5 + 1) * 5 / (1 + math.Exp(-2*5))
	near(t, "limited", out, 1+10*limited, 2+10*limited)
}

// TestRouting: each way of choosing, by hand. Sigmoids of 0, log 3 and -log 3 are 1/2, 3/4 and 1/4.
func TestRouting(t *testing.T) {
	up, down := float32(math.Log(3)), -float32(math.Log(3))
	type routing = kernel.Routing
	one := routing{Top: 2, Sigmoid: true, Plain: true, Groups: 2, GroupsUsed: 1, GroupTop: 1}
	two := routing{Top: 1, Sigmoid: true, Groups: 2, GroupsUsed: 1, GroupTop: 2}
	for name, c := range map[string]struct {
		logits, bias []float32
		r            routing
		ids          []int
		weights      []float64
	}{
		"softmax":        {[]float32{up, 0, 0}, nil, routing{Top: 2}, []int{0, 1}, []float64{0.75, 0.25}},
		"plain softmax":  {[]float32{0, up, 0}, nil, routing{Top: 2, Plain: true}, []int{1, 0}, []float64{0.6, 0.2}},
		"sigmoid":        {[]float32{0, up, down}, nil, routing{Top: 2, Sigmoid: true}, []int{1, 0}, []float64{0.6, 0.4}},
		"scaled":         {[]float32{0, up, down}, nil, routing{Top: 2, Sigmoid: true, Plain: true, Scale: 2}, []int{1, 0}, []float64{1.5, 1}},
		"bias":           {[]float32{0, up, down}, []float32{0, -1, 1}, routing{Top: 1, Sigmoid: true, Plain: true}, []int{2}, []float64{0.25}},
		"best of groups": {[]float32{up, down, 0, 0}, nil, one, []int{0, 1}, []float64{0.75, 0.25}},
		"sums of groups": {[]float32{up, down, 0, 0.1}, nil, two, []int{3}, []float64{1}},
		"biased groups":  {[]float32{up, 0, 0, 0.1}, []float32{-1, 0, 0, 0}, two, []int{3}, []float64{1}},
	} {
		ids, weights := route(c.logits, c.bias, c.r)
		for i := range weights {
			weights[i] = math.Round(weights[i]*1e6) / 1e6
		}
		if !slices.Equal(ids, c.ids) || !slices.Equal(weights, c.weights) {
			t.Errorf("%s: experts %v with %v, want %v with %v", name, ids, weights, c.ids, c.weights)
		}
	}
}

func TestLoad(t *testing.T) {
	for _, src := range []kernel.Source{
		{Name: "short", Type: kernel.F32, Experts: 1, Rows: 2, Cols: 2, Data: make([]byte, 12)},
		{Name: "type", Type: 99, Experts: 1, Rows: 1, Cols: 1, Data: make([]byte, 4)},
		{Name: "empty", Type: kernel.F32, Experts: 0, Rows: 1, Cols: 1},
	} {
		if _, err := New().Load(src); err == nil {
			t.Errorf("%s was loaded", src.Name)
		}
	}
}

// TestCacheMemory: taken when touched, given back, bounded by the configuration.
func TestCacheMemory(t *testing.T) {
	b := New()
	kc, err := b.NewCache(kernel.CacheConfig{Layers: 1, KVHeads: 1, HeadDim: 2, PageTokens: 4, Pages: 2,
		LinearLayers: 1, StateSlots: 2, ConvDim: 6, ConvKernel: 3, VHeads: 1, StateDim: 2})
	if err != nil {
		t.Fatal(err)
	}
	used := func(want int64) {
		t.Helper()
		if got := kc.BytesUsed(); got != want {
			t.Fatalf("%d bytes are used, want %d", got, want)
		}
	}
	const page, state = 2 * 4 * 2 * 4, (2*6 + 4) * 4
	used(0)
	b.StoreKV(kc, 0, upload(1, 2), upload(3, 4), &kernel.Step{Rows: 1, Spans: []kernel.Span{{Len: 1, Pages: []int32{1}}}})
	used(page)
	kc.ResetState(1)
	used(page + state)
	c := kc.(*cache)
	c.state(1).s[3] = 7
	kc.CopyState(0, 1)
	if !slices.Equal(c.state(0).s, []float32{0, 0, 0, 7}) {
		t.Errorf("the copy is %v", c.state(0).s)
	}
	kc.ResetState(1)
	if c.state(1).s[3] != 0 || c.state(0).s[3] != 7 {
		t.Error("a reset of one slot reached the other, or nothing")
	}
	for name, misuse := range map[string]func(){"page": func() { c.page(2) }, "slot": func() { kc.ResetState(2) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a %s beyond the pool was given", name)
				}
			}()
			misuse()
		}()
	}
}
