package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// edit is a model file taken apart to be written again with changes.
type edit struct {
	arch    string
	meta    []gguftest.KV
	tensors []*modelfile.Tensor
}

func newEdit(t testing.TB, name string) *edit {
	f := openParity(t, name)
	e := &edit{arch: f.Architecture()}
	for _, v := range f.Keys() {
		e.meta = append(e.meta, gguftest.KV{Key: v.Key, Value: v})
	}
	for _, x := range f.Tensors() {
		c := *x
		e.tensors = append(e.tensors, &c)
	}
	return e
}

// rename changes the architecture and the prefix of its keys.
func (e *edit) rename(arch string) {
	for i, kv := range e.meta {
		if rest, ok := strings.CutPrefix(kv.Key, e.arch+"."); ok {
			e.meta[i].Key = arch + "." + rest
		}
	}
	e.arch = arch
	e.set("general.architecture", arch)
}

// set writes a key; one without a dot-separated "general" belongs to the architecture.
func (e *edit) set(key string, value any) {
	if !strings.HasPrefix(key, "general.") {
		key = e.arch + "." + key
	}
	e.meta = slices.DeleteFunc(e.meta, func(kv gguftest.KV) bool { return kv.Key == key })
	if value != nil {
		e.meta = append(e.meta, gguftest.KV{Key: key, Value: value})
	}
}

// tensor finds a tensor; it panics on a mistake in the test.
func (e *edit) tensor(name string) *modelfile.Tensor {
	for _, x := range e.tensors {
		if x.Name == name {
			return x
		}
	}
	panic("no tensor " + name)
}

func (e *edit) remove(name string) {
	e.tensors = slices.DeleteFunc(e.tensors, func(x *modelfile.Tensor) bool { return x.Name == name })
}

// add writes a tensor of float32 values.
func (e *edit) add(name string, values []float32, shape ...int) {
	data, err := modelfile.Quantize(kernel.F32, values)
	if err != nil {
		panic(err)
	}
	e.remove(name)
	e.tensors = append(e.tensors, &modelfile.Tensor{Name: name, Type: kernel.F32, Shape: shape, Data: data})
}

// addFrom joins the data of tensors with equal types and row lengths.
func (e *edit) addFrom(name string, shape []int, parts ...string) {
	x := &modelfile.Tensor{Name: name, Type: e.tensor(parts[0]).Type, Shape: shape}
	for _, p := range parts {
		x.Data = append(x.Data, e.tensor(p).Data...)
	}
	e.tensors = append(e.tensors, x)
}

func (e *edit) floats(name string) []float32 {
	x, err := e.tensor(name).Floats()
	if err != nil {
		panic(err)
	}
	return x
}

func (e *edit) open(t testing.TB) *modelfile.File {
	t.Helper()
	f, err := modelfile.OpenBytes("edited", gguftest.Bytes(e.meta, e.tensors))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (e *edit) layers(change func(p string)) {
	for i := range 4 {
		change(fmt.Sprintf("blk.%d.", i))
	}
}

// sameModel are changes to a file that must not change what it computes: the
// recorded logits of the original judge files of other forms and of
// architectures without a recording of their own.
var sameModel = []struct {
	name, model string
	change      func(e *edit)
}{
	{"qwen2 is llama with other rope rows and biases", "tiny-llama", func(e *edit) {
		e.rename("qwen2")
		e.layers(func(p string) {
			for name, heads := range map[string]int{"attn_q": 4, "attn_k": 2} {
				w := e.tensor(p + name + ".weight")
				e.add(p+name+".weight", halves(e.floats(p+name+".weight"), heads, 64, 256), w.Shape...)
				e.add(p+name+".bias", make([]float32, heads*64), heads*64)
			}
			e.add(p+"attn_v.bias", make([]float32, 128), 128)
		})
	}},
	{"qwen3moe with equal experts is qwen3", "tiny-qwen3", func(e *edit) {
		e.rename("qwen3moe")
		e.set("expert_count", uint32(3))
		e.set("expert_used_count", uint32(2))
		e.set("expert_feed_forward_length", uint32(512))
		e.layers(func(p string) {
			for _, name := range []string{"gate", "up", "down"} {
				one := p + "ffn_" + name + ".weight"
				e.addFrom(p+"ffn_"+name+"_exps.weight", append(slices.Clone(e.tensor(one).Shape), 3), one, one, one)
				e.remove(one)
			}
			router := make([]float32, 3*256)
			for i := range router {
				router[i] = float32(i%7) - 3
			}
			e.add(p+"ffn_gate_inp.weight", router, 256, 3)
		})
	}},
	{"q, k and v in one tensor", "tiny-qwen35", func(e *edit) {
		e.addFrom("blk.3.attn_qkv.weight", []int{256, 512 + 128 + 128}, "blk.3.attn_q.weight", "blk.3.attn_k.weight", "blk.3.attn_v.weight")
		e.remove("blk.3.attn_q.weight")
		e.remove("blk.3.attn_k.weight")
		e.remove("blk.3.attn_v.weight")
	}},
	{"gate and up of experts in one tensor", "tiny-qwen35moe", func(e *edit) {
		e.layers(func(p string) {
			fused := &modelfile.Tensor{Name: p + "ffn_gate_up_exps.weight", Shape: []int{256, 128, 6}}
			gate, up := e.tensor(p+"ffn_gate_exps.weight"), e.tensor(p+"ffn_up_exps.weight")
			fused.Type = gate.Type
			for size, i := len(gate.Data)/6, 0; i < 6; i++ {
				fused.Data = append(append(fused.Data, gate.Data[i*size:(i+1)*size]...), up.Data[i*size:(i+1)*size]...)
			}
			e.tensors = append(e.tensors, fused)
			e.remove(gate.Name)
			e.remove(up.Name)
		})
	}},
	{"kinds of layers listed", "tiny-qwen35", func(e *edit) {
		e.set("full_attention_interval", nil)
		e.set("attention.recurrent_layers", []bool{true, true, true, false})
		e.set("attention.head_count_kv", []int32{0, 0, 0, 2})
	}},
	{"interval is 4 unless given", "tiny-qwen35moe", func(e *edit) { e.set("full_attention_interval", nil) }},
	{"prediction block is skipped", "tiny-qwen35", func(e *edit) {
		e.set("block_count", uint32(5))
		e.set("nextn_predict_layers", uint32(1))
		e.add("blk.4.nextn.eh_proj.weight", make([]float32, 64), 32, 2)
		e.add("blk.4.attn_norm.weight", make([]float32, 8), 8)
		for _, name := range []string{"enorm", "hnorm", "shared_head_norm"} {
			e.add("blk.4.nextn."+name+".weight", make([]float32, 8), 8)
		}
	}},
	{"untied by a copy", "tiny-qwen3", func(e *edit) {
		e.addFrom("output.weight", []int{256, 512}, "token_embd.weight")
	}},
	{"scaling of one", "tiny-llama", func(e *edit) {
		e.set("rope.scaling.type", "linear")
		e.set("rope.scaling.factor", float32(1))
		e.add("rope_freqs.weight", slices.Repeat([]float32{1}, 32), 32)
	}},
}

// loads notes what a backend is asked to load.
type loads struct {
	kernel.Backend
	sources map[string]kernel.Source
}

func (l loads) Load(src kernel.Source) (kernel.Weight, error) {
	l.sources[src.Name] = src
	return l.Backend.Load(src)
}

// TestTableIsOnlyEmbedded: with a head of its own, the table of embeddings is as large
// as that and never multiplied with.
func TestTableIsOnlyEmbedded(t *testing.T) {
	for _, untied := range []bool{false, true} {
		e := newEdit(t, "tiny-qwen3-f16")
		if untied {
			e.addFrom("output.weight", []int{256, 512}, "token_embd.weight")
		}
		b := loads{ref.New(), map[string]kernel.Source{}}
		m, err := Load(e.open(t), b)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		for name, src := range b.sources {
			if want := untied && name == "token_embd.weight"; src.EmbedOnly != want {
				t.Errorf("untied %v: %s is for embedding only: %v, want %v", untied, name, src.EmbedOnly, want)
			}
		}
	}
}

// halves undoes the row order that goes with adjacent-pair rope: within a head, rows
// 0, 2, 4, ... come first, then 1, 3, 5, ...
func halves(w []float32, heads, dim, cols int) []float32 {
	out := make([]float32, 0, len(w))
	for h := range heads {
		for _, odd := range []int{0, 1} {
			for i := range dim / 2 {
				r := h*dim + 2*i + odd
				out = append(out, w[r*cols:(r+1)*cols]...)
			}
		}
	}
	return out
}

func TestSameModel(t *testing.T) {
	for _, c := range sameModel {
		t.Run(c.name, func(t *testing.T) {
			e := newEdit(t, c.model+"-f16")
			c.change(e)
			want := readRecording(t, c.model+"-f32.kv-f32")
			checkClose(t, trace(t, loadOn(t, e.open(t), ref.New()), want, kernel.KVF32), want, 0.01)
		})
	}
}

// TestBiases uses what the maths says: softmax weights sum to 1, so a bias of v
// is a bias of the output; without rope a bias of k moves all scores of a
// query alike and so does nothing, but one of q does.
func TestBiases(t *testing.T) {
	tokens := someTokens(&Model{cfg: Config{Vocab: 512}}, 10, 4)
	scale := float32(1e6) // positions all but the same
	logits := func(change func(e *edit)) [][]float32 {
		e := newEdit(t, "tiny-llama-f16")
		e.set("rope.scaling.factor", scale)
		change(e)
		return promptLogits(t, loadOn(t, e.open(t), ref.New()), tokens)
	}
	values := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(i%11)/5 - 1
		}
		return out
	}
	biased := func(name string, n int) [][]float32 {
		return logits(func(e *edit) { e.layers(func(p string) { e.add(p+name, values(n), n) }) })
	}
	plain := logits(func(e *edit) {})
	out := logits(func(e *edit) {
		e.layers(func(p string) {
			e.add(p+"attn_output.bias", repeated(e.floats(p+"attn_output.weight"), values(128)), 256)
		})
	})
	same := func(what string, a, b [][]float32, want bool) {
		t.Helper()
		if d := meanDistance(t, a, b); (d < 1e-4) != want {
			t.Errorf("%s: mean distance %g", what, d)
		}
	}
	same("bias of v and of the output", biased("attn_v.bias", 128), out, true)
	same("bias of the output", out, plain, false)
	same("bias of k without rope", biased("attn_k.bias", 128), plain, true)
	same("bias of q without rope", biased("attn_q.bias", 256), plain, false)
	scale = 1
	same("bias of k with rope", biased("attn_k.bias", 128), logits(func(e *edit) {}), false)
}

// repeated is w times the v bias as query heads see it: 4 heads of 64, 2 for each KV head.
func repeated(w, bias []float32) []float32 {
	out := make([]float32, 256)
	for r := range out {
		for c := range 256 {
			kvHead := c / 64 / 2
			out[r] += w[r*256+c] * bias[kvHead*64+c%64]
		}
	}
	return out
}

// TestRopeFrequencies checks the angles per position against the published formula.
func TestRopeFrequencies(t *testing.T) {
	cases := []struct {
		name   string
		change func(e *edit)
		want   func(i int) float64
	}{
		{"plain", func(e *edit) {}, func(i int) float64 { return math.Pow(5e5, -float64(2*i)/64) }},
		{"partial", func(e *edit) { e.set("rope.dimension_count", uint32(16)) }, func(i int) float64 { return math.Pow(5e5, -float64(2*i)/16) }},
		{"linear", func(e *edit) { e.set("rope.scaling.type", "linear"); e.set("rope.scaling.factor", float32(4)) },
			func(i int) float64 { return math.Pow(5e5, -float64(2*i)/64) / 4 }},
		{"none ignores the factor", func(e *edit) { e.set("rope.scaling.type", "none"); e.set("rope.scaling.factor", float32(4)) },
			func(i int) float64 { return math.Pow(5e5, -float64(2*i)/64) }},
		{"factors", func(e *edit) { e.add("rope_freqs.weight", append(make([]float32, 0), ramp(32)...), 32) },
			func(i int) float64 { return math.Pow(5e5, -float64(2*i)/64) / float64(i+1) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newEdit(t, "tiny-llama-f16")
			c.change(e)
			cfg, err := ReadConfig(e.open(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(cfg.InvFreq) != cfg.RopeDim/2 {
				t.Fatalf("%d frequencies for %d values", len(cfg.InvFreq), cfg.RopeDim)
			}
			for i, got := range cfg.InvFreq {
				if want := c.want(i); math.Abs(got-want) > 1e-12*want {
					t.Fatalf("frequency %d is %g, want %g", i, got, want)
				}
			}
		})
	}
}

func ramp(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i + 1)
	}
	return out
}

// refused are files that are whole as files but wrong as models; the error names
// what is wrong.
var refused = []struct {
	name, model string
	change      func(e *edit)
	want        []string
}{
	{"architecture", "tiny-llama", func(e *edit) { e.rename("mamba") }, []string{`"mamba"`, "qwen35moe"}},
	{"no layers", "tiny-llama", func(e *edit) { e.set("block_count", uint32(0)) }, []string{"llama.block_count is 0, want 1 to 1024"}},
	{"layers without end", "tiny-llama", func(e *edit) { e.set("block_count", uint64(1)<<63) }, []string{"llama.block_count", "1024"}},
	{"negative", "tiny-llama", func(e *edit) { e.set("block_count", int32(-4)) }, []string{"llama.block_count"}},
	{"more layers than tensors", "tiny-llama", func(e *edit) { e.set("block_count", uint32(5)) }, []string{"blk.4.attn_norm.weight", "missing"}},
	{"fewer layers than tensors are prediction blocks only if said", "tiny-llama", func(e *edit) { e.set("nextn_predict_layers", uint32(4)) }, []string{"nextn_predict_layers is 4, want 0 to 3"}},
	{"text for a number", "tiny-llama", func(e *edit) { e.set("embedding_length", "256") }, []string{"llama.embedding_length", "string"}},
	{"missing key", "tiny-llama", func(e *edit) { e.set("attention.head_count", nil) }, []string{"llama.attention.head_count is absent"}},
	{"no heads", "tiny-llama", func(e *edit) { e.set("attention.head_count", uint32(0)) }, []string{"attention.head_count is 0"}},
	{"no KV heads", "tiny-llama", func(e *edit) { e.set("attention.head_count_kv", uint32(0)) }, []string{"attention.head_count_kv is 0"}},
	{"heads do not divide", "tiny-llama", func(e *edit) { e.set("attention.head_count_kv", uint32(3)) }, []string{"head_count is 4, want a multiple of head_count_kv 3"}},
	{"heads differ by layer", "tiny-llama", func(e *edit) { e.set("attention.head_count_kv", []int32{2, 2, 1, 2}) }, []string{"head_count_kv[2] is 1"}},
	{"huge head", "tiny-llama", func(e *edit) { e.set("attention.key_length", uint32(1<<31)) }, []string{"key_length", "1024"}},
	{"other value length", "tiny-llama", func(e *edit) { e.set("attention.value_length", uint32(32)) }, []string{"value_length is 32, want the key length 64"}},
	{"eps NaN", "tiny-llama", func(e *edit) { e.set("attention.layer_norm_rms_epsilon", float32(math.NaN())) }, []string{"rms_epsilon is NaN"}},
	{"odd rope", "tiny-llama", func(e *edit) { e.set("rope.dimension_count", uint32(15)) }, []string{"rope.dimension_count is 15"}},
	{"rope beyond the head", "tiny-llama", func(e *edit) { e.set("rope.dimension_count", uint32(66)) }, []string{"rope.dimension_count is 66", "64"}},
	{"rope base", "tiny-llama", func(e *edit) { e.set("rope.freq_base", float32(math.Inf(1))) }, []string{"rope.freq_base is +Inf"}},
	{"longrope", "tiny-llama", func(e *edit) { e.set("rope.scaling.type", "longrope") }, []string{`rope.scaling.type is "longrope", want none, linear or yarn`}},
	{"yarn without a factor", "tiny-llama", func(e *edit) { e.set("rope.scaling.type", "yarn"); e.remove("rope.scaling.factor") }, []string{"rope.scaling.factor is absent"}},
	{"yarn that shrinks", "tiny-llama", func(e *edit) { e.set("rope.scaling.type", "yarn"); e.set("rope.scaling.factor", float32(0.5)) }, []string{"rope.scaling.factor is 0.5"}},
	{"yarn of another kind", "tiny-llama", func(e *edit) {
		e.set("rope.scaling.type", "yarn")
		e.set("rope.scaling.factor", float32(2))
		e.set("rope.scaling.yarn_ext_factor", float32(0))
	}, []string{"yarn_ext_factor"}},
	{"rope factors shape", "tiny-llama", func(e *edit) { e.add("rope_freqs.weight", ramp(16), 16) }, []string{"rope_freqs.weight", "[16]", "[32]"}},
	{"rope factor 0", "tiny-llama", func(e *edit) { e.add("rope_freqs.weight", make([]float32, 32), 32) }, []string{"rope_freqs.weight", "value 0 is 0"}},
	{"experts in a dense architecture", "tiny-llama", func(e *edit) { e.set("expert_count", uint32(8)) }, []string{"expert_count is 8"}},
	{"vocabulary", "tiny-llama", func(e *edit) { e.set("vocab_size", uint32(500)) }, []string{"vocab_size is 500", "512"}},
	{"no embedding", "tiny-llama", func(e *edit) { e.remove("token_embd.weight") }, []string{"token_embd.weight is missing"}},
	{"hidden size", "tiny-llama", func(e *edit) { e.set("embedding_length", uint32(128)) }, []string{"token_embd.weight", "[256 512]", "[128"}},
	{"missing tensor", "tiny-llama", func(e *edit) { e.remove("blk.2.ffn_up.weight") }, []string{"blk.2.ffn_up.weight is missing, want shape [256 512]"}},
	{"tensor shape", "tiny-llama", func(e *edit) { e.add("blk.1.attn_norm.weight", ramp(128), 128) }, []string{"blk.1.attn_norm.weight", "shape [128], want [256]"}},
	{"transposed", "tiny-llama", func(e *edit) { e.tensor("blk.0.ffn_gate.weight").Shape = []int{512, 256} }, []string{"blk.0.ffn_gate.weight", "shape [512 256], want [256 512]"}},
	{"unknown tensor", "tiny-llama", func(e *edit) { e.add("blk.0.ffn_gate.bias", ramp(512), 512) }, []string{"blk.0.ffn_gate.bias", "not part of architecture llama"}},
	{"qwen2 without biases", "tiny-llama", func(e *edit) { e.rename("qwen2") }, []string{"blk.0.attn_q.bias is missing"}},
	{"taps", "tiny-qwen35", func(e *edit) { e.set("ssm.conv_kernel", uint32(1)) }, []string{"ssm.conv_kernel is 1, want 2 to 16"}},
	{"inner size", "tiny-qwen35", func(e *edit) { e.set("ssm.inner_size", uint32(255)) }, []string{"ssm.inner_size is 255", "256"}},
	{"V heads", "tiny-qwen35", func(e *edit) { e.set("ssm.group_count", uint32(3)) }, []string{"time_step_rank is 4, want a multiple of group_count 3"}},
	{"only linear layers", "tiny-qwen35", func(e *edit) { e.set("full_attention_interval", uint32(9)) }, []string{"no full-attention layer"}},
	{"too few kinds", "tiny-qwen35", func(e *edit) { e.set("attention.recurrent_layers", []bool{true}) }, []string{"recurrent_layers has 1 entries", "4 layers"}},
	{"more used than there are", "tiny-qwen35moe", func(e *edit) { e.set("expert_used_count", uint32(7)) }, []string{"expert_used_count is 7, want 1 to 6"}},
	{"expert shape", "tiny-qwen35moe", func(e *edit) { e.set("expert_count", uint32(5)) }, []string{"ffn_gate_inp.weight", "[256 6]", "[256 5]"}},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			e := newEdit(t, c.model+"-f16")
			c.change(e)
			_, err := Load(e.open(t), ref.New())
			if err == nil {
				t.Fatal("the model was loaded")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not have %q", err, want)
				}
			}
		})
	}
}

// TestAllAtOnce: every bad key is reported.
func TestAllAtOnce(t *testing.T) {
	e := newEdit(t, "tiny-llama-f16")
	for _, key := range []string{"block_count", "context_length", "feed_forward_length", "attention.head_count_kv"} {
		e.set(key, uint32(0))
	}
	_, err := ReadConfig(e.open(t))
	if err == nil || strings.Count(err.Error(), "is 0, want 1") != 4 {
		t.Errorf("error %v, want all four keys", err)
	}
}

// FuzzReadConfig: no metadata value crashes the reader. The file around it is sound.
func FuzzReadConfig(f *testing.F) {
	names := []string{"block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
		"rope.dimension_count", "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size",
		"full_attention_interval", "expert_count", "expert_used_count", "nextn_predict_layers", "vocab_size"}
	f.Add(uint8(0), uint64(0), uint8(1), uint64(1)<<40)
	f.Add(uint8(2), uint64(3), uint8(8), uint64(0))
	embed := &modelfile.Tensor{Name: "token_embd.weight", Type: kernel.F32, Shape: []int{2, 2}, Data: make([]byte, 16)}
	f.Fuzz(func(t *testing.T, key1 uint8, value1 uint64, key2 uint8, value2 uint64) {
		e := &edit{arch: "qwen35moe", tensors: []*modelfile.Tensor{embed}}
		e.set("general.architecture", e.arch)
		for _, name := range names {
			e.set(name, uint32(2))
		}
		e.set("attention.layer_norm_rms_epsilon", float32(1e-6))
		e.set("context_length", uint32(10))
		e.set("expert_feed_forward_length", uint32(2))
		e.set(names[int(key1)%len(names)], value1)
		e.set(names[int(key2)%len(names)], value2)
		cfg, err := ReadConfig(e.open(t))
		if err == nil && (cfg.FullLayers() < 1 || cfg.Heads%cfg.KVHeads != 0 || len(cfg.InvFreq) == 0) {
			t.Fatalf("config %+v passed", cfg)
		}
	})
}

// TestUnknownKeys: a key of the architecture that is not understood is refused by its name, and
// so is a value of one that is, but for values that change nothing.
func TestUnknownKeys(t *testing.T) {
	for _, c := range []struct {
		key, want string
		value     any
	}{
		{"attention.sinks", "qwen35moe.attention.sinks is not understood", uint32(1)},
		{"attention.sliding_window", "attention.sliding_window is 16", uint32(16)}, {"attention.sliding_window", "", uint32(1 << 20)},
		{"attention.causal", "attention.causal is 0", false}, {"attention.causal", "", true},
		{"expert_weights_scale", "expert_weights_scale is 2.5", float32(2.5)}, {"expert_gating_func", "expert_gating_func is 2", uint32(2)},
		{"expert_weights_norm", "", true}, {"vocab_size", "", uint32(512)},
	} {
		e := newEdit(t, "tiny-qwen35moe-f16")
		e.set(c.key, c.value)
		if _, err := ReadConfig(e.open(t)); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: error %v, want one with %q", c.key, c.value, err, c.want)
		}
	}
}
