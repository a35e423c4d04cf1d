package model

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"
)

// profiler is a backend that takes the time of every operation and counts the
// bytes of the matrices that it reads, as the model file stores them.
type profiler struct {
	kernel.Backend
	sizes map[kernel.Weight]int64 // of one expert
	ops   map[string]*cost
}

// cost is what the calls of an operation took.
type cost struct {
	bytes int64 // of all
	took  []float64
}

func (p *profiler) Load(src kernel.Source) (kernel.Weight, error) {
	w, err := p.Backend.Load(src)
	if err == nil {
		p.sizes[w] = int64(len(src.Data) / src.Experts)
	}
	return w, err
}

// Wait is the backend's, which Load asks for by its name.
func (p *profiler) Wait() { p.Backend.(waiter).Wait() }

// Seal is too.
func (p *profiler) Seal() error { return p.Backend.(sealer).Seal() }

// Wrap is the backend's, which runHead asks for by its name.
func (p *profiler) Wrap(x []float32) kernel.Buffer { return p.Backend.(wrapper).Wrap(x) }

// count adds a call that began at start.
func (p *profiler) count(op string, start time.Time, bytes int64) {
	c := p.ops[op]
	if c == nil {
		c = &cost{}
		p.ops[op] = c
	}
	c.bytes, c.took = c.bytes+bytes, append(c.took, time.Since(start).Seconds())
}

func (p *profiler) Embed(dst kernel.Buffer, table kernel.Weight, ids []int32) {
	defer p.count("Embed", time.Now(), 0)
	p.Backend.Embed(dst, table, ids)
}

func (p *profiler) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, w []kernel.Weight) {
	var bytes int64
	name := "MatMul"
	for _, w := range w {
		bytes += p.sizes[w]
		name += fmt.Sprintf(" %dx%d", w.Rows(), w.Cols())
	}
	defer p.count(name, time.Now(), bytes)
	p.Backend.MatMul(dst, x, n, w)
}

func (p *profiler) RMSNorm(dst, x, w kernel.Buffer, n, d int, eps float32) {
	defer p.count("RMSNorm", time.Now(), 0)
	p.Backend.RMSNorm(dst, x, w, n, d, eps)
}

func (p *profiler) AddRMSNorm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	defer p.count("AddRMSNorm", time.Now(), 0)
	p.Backend.AddRMSNorm(dst, x, delta, w, n, d, eps)
}

func (p *profiler) SiLUMul(dst, gate, up kernel.Buffer, n, d int) {
	defer p.count("SiLUMul", time.Now(), 0)
	p.Backend.SiLUMul(dst, gate, up, n, d)
}

func (p *profiler) SigmoidMul(x, gate kernel.Buffer, n, d int) {
	defer p.count("SigmoidMul", time.Now(), 0)
	p.Backend.SigmoidMul(x, gate, n, d)
}

func (p *profiler) AddScaled(x, y, gate kernel.Buffer, n, d int) {
	defer p.count("AddScaled", time.Now(), 0)
	p.Backend.AddScaled(x, y, gate, n, d)
}

func (p *profiler) SplitHeads(a, b, x kernel.Buffer, n, heads, d int) {
	defer p.count("SplitHeads", time.Now(), 0)
	p.Backend.SplitHeads(a, b, x, n, heads, d)
}

func (p *profiler) RopeAngles(dst kernel.Buffer, step *kernel.Step, invFreq []float64, gain float64) {
	defer p.count("RopeAngles", time.Now(), 0)
	p.Backend.RopeAngles(dst, step, invFreq, gain)
}

func (p *profiler) Rope(x, angles kernel.Buffer, n, heads, headDim, half int, neox bool) {
	defer p.count("Rope", time.Now(), 0)
	p.Backend.Rope(x, angles, n, heads, headDim, half, neox)
}

func (p *profiler) StoreKV(c kernel.Cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	defer p.count("StoreKV", time.Now(), 0)
	p.Backend.StoreKV(c, layer, k, v, step)
}

func (p *profiler) Attend(c kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads, window int, scale float32,
	sinks kernel.Buffer) {
	defer p.count("Attend", time.Now(), 0)
	p.Backend.Attend(c, layer, dst, q, step, heads, window, scale, sinks)
}

func (p *profiler) DeltaNet(c kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer, w kernel.DeltaWeights, s kernel.DeltaShape,
	step *kernel.Step) {
	defer p.count("DeltaNet", time.Now(), 0)
	p.Backend.DeltaNet(c, layer, dst, qkv, z, beta, alpha, w, s, step)
}

func (p *profiler) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	defer p.count("Experts", time.Now(), int64(r.Top)*(p.sizes[s.Gate]+p.sizes[s.Up]+p.sizes[s.Down]))
	p.Backend.Experts(dst, x, logits, n, s, r)
}

func (p *profiler) Download(dst []float32, src kernel.Buffer, off int) {
	defer p.count("Download", time.Now(), 0)
	p.Backend.Download(dst, src, off)
}

// median of a list that is not empty; it sorts it.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// table is the operations of steps steps, by medians, the longest first; read is
// the memory's speed in GB/s. bytes is what a step reads.
func (p *profiler) table(steps int, read float64) (text string, bytes int64) {
	var b strings.Builder
	seconds := map[string]float64{}
	for name, c := range p.ops {
		seconds[name] = median(c.took) * float64(len(c.took)) / float64(steps)
		bytes += c.bytes / int64(steps)
	}
	names := slices.SortedFunc(maps.Keys(p.ops), func(x, y string) int { return cmp.Compare(seconds[y], seconds[x]) })
	for _, name := range names {
		c := p.ops[name]
		fmt.Fprintf(&b, "%-52s %4d calls %9.1f us", name, len(c.took)/steps, 1e6*seconds[name])
		if c.bytes > 0 {
			size := float64(c.bytes) / float64(steps)
			fmt.Fprintf(&b, " %6.1f MB %.3f of reading", size/1e6, size/seconds[name]/1e9/read)
		}
		b.WriteString("\n")
	}
	return b.String(), bytes
}

// benchModel opens the model that CORENODE_BENCH_GGUF names. The packed weights
// are kept in the folder that CORENODE_BENCH_CACHE names, if it does.
func benchModel(b *testing.B, wrap func(kernel.Backend) kernel.Backend) *Model {
	path := os.Getenv("CORENODE_BENCH_GGUF")
	if path == "" {
		b.Skip("CORENODE_BENCH_GGUF does not name a model file")
	}
	f, err := modelfile.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	key := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, path)
	m, err := Load(f, wrap(newCPU(b, cpu.Options{CacheDir: os.Getenv("CORENODE_BENCH_CACHE"), CacheKey: key})))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	return m
}

// BenchmarkDecodeStep decodes sequences of some tens of tokens. share is the
// bytes of the matrices that a step needs, as the file stores them, per second,
// over the speed of plain reading between the steps: medians of both. Every other
// step is taken apart by operation, for the table on standard error.
func BenchmarkDecodeStep(b *testing.B) {
	for _, sequences := range []int{1, 8, 16} {
		b.Run(fmt.Sprintf("sequences=%d", sequences), func(b *testing.B) { benchDecodeStep(b, sequences) })
	}
}

func benchDecodeStep(b *testing.B, sequences int) {
	p := &profiler{sizes: map[kernel.Weight]int64{}, ops: map[string]*cost{}}
	m := benchModel(b, func(on kernel.Backend) kernel.Backend { p.Backend = on; return p })
	const warm, length, pageTokens = 4, 64, 64
	cache, err := m.b.NewCache(m.CacheConfig(pageTokens, sequences, sequences, kernel.KVF16))
	if err != nil {
		b.Fatal(err)
	}
	r, err := cpu.NewReader(0)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	logits, pos := make([][]float32, sequences), 0
	all := make([]float32, sequences*m.cfg.Vocab)
	for i := range logits {
		logits[i] = all[i*m.cfg.Vocab : (i+1)*m.cfg.Vocab]
	}
	tokens, out := make([]int32, sequences), make([]int32, sequences)
	decode := func(on kernel.Backend) float64 {
		step := &kernel.Step{Rows: sequences}
		for i := range sequences {
			step.Spans = append(step.Spans, kernel.Span{Row: i, Len: 1, Pos: pos % length, Pages: []int32{int32(i)}, State: int32(i)})
			tokens[i], out[i] = int32((pos*7919+i)%m.cfg.Vocab), int32(i)
			if m.HasState() && pos%length == 0 {
				cache.ResetState(int32(i))
			}
		}
		m.b, pos = on, pos+1
		start := time.Now()
		if err := m.Forward(step, tokens, cache, out, logits); err != nil {
			b.Fatal(err)
		}
		return time.Since(start).Seconds()
	}
	for range warm {
		decode(p.Backend)
	}
	var read, took []float64
	profiled := 0
	for b.Loop() {
		read = append(read, r.Pass())
		decode(p.Backend) // the caches forget what was read
		for range 3 {
			took = append(took, decode(p.Backend))
		}
		decode(p)
		profiled++
	}
	text, bytes := p.table(profiled, median(read))
	total := 0.0
	for _, t := range took {
		total += t
	}
	b.ReportMetric(float64(sequences*len(took))/total, "mean-tokens/s") // what counts beside other processes
	b.ReportMetric(float64(sequences)/median(took), "tokens/s")
	b.ReportMetric(median(read), "read-GB/s")
	b.ReportMetric(float64(bytes)/median(took)/1e9/median(read), "share")
	fmt.Fprintf(os.Stderr, "%.1f MB per step\n%s", float64(bytes)/1e6, text) // logs of benchmarks are cut
}
