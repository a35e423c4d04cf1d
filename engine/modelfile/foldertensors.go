package modelfile

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"corenode/engine/kernel"
)

// layerNames are the names of a layer's tensors, in a folder and in GGUF.
var layerNames = map[string]string{
	"input_layernorm.weight":              "attn_norm.weight",
	"self_attn.q_proj.weight":             "attn_q.weight",
	"self_attn.k_proj.weight":             "attn_k.weight",
	"self_attn.v_proj.weight":             "attn_v.weight",
	"self_attn.o_proj.weight":             "attn_output.weight",
	"self_attn.q_proj.bias":               "attn_q.bias",
	"self_attn.k_proj.bias":               "attn_k.bias",
	"self_attn.v_proj.bias":               "attn_v.bias",
	"self_attn.o_proj.bias":               "attn_output.bias",
	"self_attn.q_a_proj.weight":           "attn_q_a.weight",
	"self_attn.q_a_layernorm.weight":      "attn_q_a_norm.weight",
	"self_attn.q_b_proj.weight":           "attn_q_b.weight",
	"self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
	"self_attn.kv_a_layernorm.weight":     "attn_kv_a_norm.weight",
	"self_attn.kv_b_proj.weight":          "attn_kv_b.weight",
	"self_attn.q_norm.weight":             "attn_q_norm.weight",
	"self_attn.k_norm.weight":             "attn_k_norm.weight",
	"mlp.gate_proj.weight":                "ffn_gate.weight",
	"mlp.up_proj.weight":                  "ffn_up.weight",
	"mlp.down_proj.weight":                "ffn_down.weight",
	"mlp.gate.weight":                     "ffn_gate_inp.weight",
	"mlp.shared_expert.gate_proj.weight":  "ffn_gate_shexp.weight",
	"mlp.shared_expert.up_proj.weight":    "ffn_up_shexp.weight",
	"mlp.shared_expert.down_proj.weight":  "ffn_down_shexp.weight",
	"mlp.shared_expert_gate.weight":       "ffn_gate_inp_shexp.weight",
	"mlp.gate.e_score_correction_bias":    "exp_probs_b.bias",
	"mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
	"mlp.shared_experts.up_proj.weight":   "ffn_up_shexp.weight",
	"mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
	"mlp.experts.down_proj":               "ffn_down_exps.weight",
	"mlp.experts.gate_up_proj":            "ffn_gate_up_exps.weight",
	"linear_attn.in_proj_qkv.weight":      "attn_qkv.weight",
	"linear_attn.in_proj_z.weight":        "attn_gate.weight",
	"linear_attn.in_proj_b.weight":        "ssm_beta.weight",
	"linear_attn.in_proj_a.weight":        "ssm_alpha.weight",
	"linear_attn.out_proj.weight":         "ssm_out.weight",
	"linear_attn.conv1d.weight":           "ssm_conv1d.weight",
	"linear_attn.A_log":                   "ssm_a",
	"linear_attn.dt_bias":                 "ssm_dt.bias",
	"linear_attn.norm.weight":             "ssm_norm.weight",
	"mlp.experts.#.gate_proj.weight":      "ffn_gate_exps.weight",
	"mlp.experts.#.up_proj.weight":        "ffn_up_exps.weight",
	"mlp.experts.#.down_proj.weight":      "ffn_down_exps.weight",
	"eh_proj.weight":                      "nextn.eh_proj.weight",
	"enorm.weight":                        "nextn.enorm.weight",
	"hnorm.weight":                        "nextn.hnorm.weight",
	"embed_tokens.weight":                 "nextn.embed_tokens.weight",
	"shared_head.norm.weight":             "nextn.shared_head_norm.weight",
	"shared_head.head.weight":             "nextn.shared_head_head.weight",
	"self_attn.sinks":                     "attn_sinks.weight",
	"mlp.router.weight":                   "ffn_gate_inp.weight",
	"mlp.router.bias":                     "ffn_gate_inp.bias",
	"mlp.experts.gate_up_proj_bias":       "ffn_gate_up_exps.bias",
	"mlp.experts.down_proj_bias":          "ffn_down_exps.bias",
	"mlp.experts.gate_up_proj_blocks":     "ffn_gate_up_exps.weight",
	"mlp.experts.down_proj_blocks":        "ffn_down_exps.weight",
	"post_attention_layernorm.weight":     "ffn_norm.weight",
	"pre_feedforward_layernorm.weight":    "ffn_norm.weight",
	"post_feedforward_layernorm.weight":   "post_ffw_norm.weight",
	"post_attention_layernorm.weight new": "post_attention_norm.weight",
}

// predictionNames are those of the prediction block that belong to no layer.
var predictionNames = map[string]string{
	"fc.weight": "nextn.eh_proj.weight", "pre_fc_norm_embedding.weight": "nextn.enorm.weight",
	"pre_fc_norm_hidden.weight": "nextn.hnorm.weight", "norm.weight": "nextn.shared_head_norm.weight",
}

// textPrefixes are what the names of the text model begin with, longest first.
var textPrefixes = []string{"model.language_model.", "language_model.model.", "language_model.", "model."}

// otherPrefixes are those of parts that a text-only node leaves out.
var otherPrefixes = []string{"model.visual.", "visual.", "model.vision_tower.", "vision_tower.",
	"model.multi_modal_projector.", "multi_modal_projector."}

const scaleSuffix = "_scale_inv"

// builder turns the tensors of a folder into those of a GGUF file.
type builder struct {
	config  *folderConfig
	raw     map[string]*rawTensor
	tensors []*Tensor
	byName  map[string]*Tensor
	stacks  map[string]*stack
}

// stack is a tensor of experts that the folder stores one by one.
type stack struct{ experts map[int]*Tensor }

func (b *builder) build(raw []*rawTensor) error {
	for _, r := range raw {
		b.raw[r.name] = r
	}
	for _, r := range raw {
		if err := b.take(r); err != nil {
			return fmt.Errorf("tensor %s: %w", r.name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.stacks)) {
		t, err := b.stacks[name].joined(name, b.config.experts)
		if err != nil {
			return err
		}
		if err := b.add(t); err != nil {
			return err
		}
	}
	if f := b.config.ropeFactors; f != nil {
		if err := b.add(floatTensor("rope_freqs.weight", f, len(f))); err != nil {
			return err
		}
	}
	if b.config.untied && b.byName["output.weight"] == nil {
		return fmt.Errorf("tensor lm_head.weight is missing, and tie_word_embeddings is false")
	}
	return nil
}

func (b *builder) add(t *Tensor) error {
	if b.byName[t.Name] != nil {
		return fmt.Errorf("two tensors are %s", t.Name)
	}
	b.byName[t.Name] = t
	b.tensors = append(b.tensors, t)
	return nil
}

// take adds one tensor of the folder. One with a name that means nothing here keeps it, so
// that whoever loads the model refuses it by that name.
func (b *builder) take(r *rawTensor) error {
	if scaled, ok := strings.CutSuffix(r.name, scaleSuffix); ok && b.raw[scaled] != nil && b.raw[scaled].dtype == "F8_E4M3" {
		return nil // part of the other one
	}
	if of, ok := strings.CutSuffix(r.name, fourBitScales); ok && b.raw[of+fourBitBlocks] != nil {
		return nil // so are these
	}
	if slices.ContainsFunc(otherPrefixes, func(p string) bool { return strings.HasPrefix(r.name, p) }) {
		return nil
	}
	name, expert := b.name(r.name)
	if name == "" || name == "output.weight" && b.config.tied {
		return nil
	}
	t, err := b.tensor(r)
	if err != nil {
		return err
	}
	t.Name = name
	if b.config.arch == gptOSS && strings.Contains(name, "_exps.") {
		return b.clamped(t, strings.HasSuffix(r.name, fourBitBlocks))
	}
	if expert >= 0 {
		return b.collect(t, expert)
	}
	if stem, ok := strings.CutSuffix(name, "ffn_gate_up_exps.weight"); ok && len(t.Shape) == 3 && t.Shape[1]%2 == 0 {
		half := t.Shape[1] / 2
		if err := b.add(t.middle(stem+"ffn_gate_exps.weight", 0, half)); err != nil {
			return err
		}
		return b.add(t.middle(stem+"ffn_up_exps.weight", half, half))
	}
	if stem, ok := strings.CutSuffix(name, "attn_kv_b.weight"); ok && b.config.arch == deepseek2 {
		return b.headMatrices(t, stem)
	}
	if t, err = b.order(t); err != nil {
		return err
	}
	return b.add(t)
}

// name is the GGUF name of a tensor and the number of the expert that it is of, -1 for none.
// Tensors without a use have the name "".
func (b *builder) name(name string) (gguf string, expert int) {
	block, rest, prefix := "", name, ""
	if after, ok := strings.CutPrefix(name, "mtp."); ok {
		rest = after
		if gguf := predictionNames[rest]; gguf != "" {
			return fmt.Sprintf("blk.%d.%s", b.config.layers, gguf), -1
		}
		block = "mtp"
	} else {
		for _, prefix = range textPrefixes {
			if after, ok := strings.CutPrefix(name, prefix); ok {
				rest = after
				break
			}
		}
		switch rest {
		case "embed_tokens.weight":
			return "token_embd.weight", -1
		case "norm.weight":
			return "output_norm.weight", -1
		case "lm_head.weight":
			return "output.weight", -1
		}
	}
	number, rest, _ := strings.Cut(strings.TrimPrefix(rest, "layers."), ".")
	layer, err := strconv.Atoi(number)
	if err != nil || layer < 0 || strconv.Itoa(layer) != number {
		return name, -1
	}
	if block != "" {
		layer += b.config.layers
	}
	if rest == "self_attn.rotary_emb.inv_freq" { // old files have what the config says
		return "", -1
	}
	rest, expert = cutExpert(rest)
	gguf = layerNames[rest]
	if newer := layerNames[rest+" new"]; newer != "" && (b.config.hybrid || b.config.gemma || b.config.glm || b.config.arch == gptOSS) {
		gguf = newer
	}
	if gguf == "" || expert >= b.config.experts {
		return name, -1
	}
	return fmt.Sprintf("blk.%d.%s", layer, gguf), expert
}

// cutExpert takes the number out of mlp.experts.N.
func cutExpert(name string) (rest string, expert int) {
	const prefix = "mlp.experts."
	after, ok := strings.CutPrefix(name, prefix)
	number, after, dot := strings.Cut(after, ".")
	n, err := strconv.Atoi(number)
	if !ok || !dot || err != nil || n < 0 || strconv.Itoa(n) != number {
		return name, -1
	}
	return prefix + "#." + after, n
}

// collect keeps a matrix of one expert.
func (b *builder) collect(t *Tensor, expert int) error {
	s := b.stacks[t.Name]
	if s == nil {
		s = &stack{map[int]*Tensor{}}
		b.stacks[t.Name] = s
	}
	if s.experts[expert] != nil {
		return fmt.Errorf("expert %d appears twice", expert)
	}
	s.experts[expert] = t
	return nil
}

// joined is one tensor of all experts.
func (s *stack) joined(name string, n int) (*Tensor, error) {
	if len(s.experts) != n {
		return nil, fmt.Errorf("tensor %s: the folder has %d experts of %d", name, len(s.experts), n)
	}
	first := s.experts[0]
	for i := range n {
		t := s.experts[i]
		if t == nil || t.Type != first.Type || !slices.Equal(t.Shape, first.Shape) || len(t.Shape) != 2 {
			return nil, fmt.Errorf("tensor %s: expert %d has another type or shape than the first one", name, i)
		}
	}
	out := &Tensor{Name: name, Type: first.Type, Shape: append(slices.Clone(first.Shape), n), Offset: -1, fill: func(dst []byte) {
		size := len(dst) / n
		for i := range n {
			s.experts[i].read(dst[i*size : (i+1)*size])
		}
	}}
	for i := range n {
		out.from = append(out.from, s.experts[i].stored()...)
	}
	for i := range n {
		if s.experts[i].Copied() {
			out.pieces = nil
			break
		}
		out.pieces = append(out.pieces, s.experts[i].Data)
	}
	return out, nil
}

// read writes the tensor's bytes to dst.
func (t *Tensor) read(dst []byte) {
	if t.fill == nil {
		copy(dst, t.Data)
		return
	}
	t.fill(dst)
}

// tensor is r as it is stored: dimensions in GGUF's order.
func (b *builder) tensor(r *rawTensor) (*Tensor, error) {
	if len(r.shape) > dimensionsMax {
		return nil, fmt.Errorf("it has %d dimensions, want at most %d", len(r.shape), dimensionsMax)
	}
	types := map[string]kernel.Type{"F32": kernel.F32, "F16": kernel.F16, "BF16": kernel.BF16}
	shape := slices.Clone(r.shape)
	slices.Reverse(shape)
	if typ, ok := types[r.dtype]; ok {
		return &Tensor{Type: typ, Shape: shape, Data: r.data, Offset: r.offset}, nil
	}
	if strings.HasSuffix(r.name, fourBitBlocks) {
		return b.fourBit(r)
	}
	if r.dtype != "F8_E4M3" {
		return nil, fmt.Errorf("type %s cannot be read, want F32, F16, BF16 or F8_E4M3", r.dtype)
	}
	scale := b.raw[r.name+scaleSuffix]
	if scale == nil || b.config.block[0] == 0 || len(shape) < 2 {
		return nil, fmt.Errorf("it has the type F8_E4M3, but no %s or no weight_block_size", r.name+scaleSuffix)
	}
	return eightBit(r.data, shape, scale, b.config.block)
}

// order gives a tensor the order and the values of GGUF.
func (b *builder) order(t *Tensor) (*Tensor, error) {
	c := b.config
	_, short, _ := strings.Cut(strings.TrimPrefix(t.Name, "blk."), ".")
	if c.arch == "llama" {
		for name, heads := range map[string]int{"attn_q.": c.heads, "attn_k.": c.kvHeads} {
			if strings.HasPrefix(short, name) {
				return t.reordered(heads*c.headDim, interleaved(c.headDim))
			}
		}
	}
	if !c.hybrid && !c.gemma {
		return t, nil
	}
	isNorm := strings.HasSuffix(t.Name, "norm.weight") || short == "nextn.enorm.weight" || short == "nextn.hnorm.weight"
	if isNorm && short != "ssm_norm.weight" {
		return t.mapped(func(x float32) float32 { return 1 + x })
	}
	if short == "ssm_conv1d.weight" && len(t.Shape) == 3 && t.Shape[1] == 1 {
		squeezed := *t
		squeezed.Shape = []int{t.Shape[0], t.Shape[2]}
		t = &squeezed
	}
	if short == "ssm_a" {
		var err error
		if t, err = t.mapped(func(x float32) float32 { return float32(-math.Exp(float64(x))) }); err != nil {
			return nil, err
		}
	}
	if c.kHeads == c.vHeads {
		return t, nil
	}
	keys, values := 2*c.kHeads*c.kDim, c.vHeads*c.vDim
	switch short {
	case "attn_qkv.weight", "ssm_conv1d.weight":
		return t.reordered(keys+values, tiled(c.kHeads, c.vHeads, c.vDim, keys))
	case "attn_gate.weight":
		return t.reordered(values, tiled(c.kHeads, c.vHeads, c.vDim, 0))
	case "ssm_beta.weight", "ssm_alpha.weight", "ssm_a", "ssm_dt.bias":
		return t.reordered(c.vHeads, tiled(c.kHeads, c.vHeads, 1, 0))
	case "ssm_out.weight":
		return t.columns(values, tiled(c.kHeads, c.vHeads, c.vDim, 0))
	}
	return t, nil
}

// interleaved is the order of a head's rows when neighbors are rotated together, of rows
// whose halves are.
func interleaved(dim int) func(row int) int {
	return func(row int) int { return row/dim*dim + row%2*(dim/2) + row%dim/2 }
}

// tiled is the order in which a value head's key head is its number modulo the number of
// key heads, of the order in which it is the number divided by the heads of each. Rows
// before from stay; heads have size rows.
func tiled(kHeads, vHeads, size, from int) func(row int) int {
	return func(row int) int {
		if row < from {
			return row
		}
		head, within := (row-from)/size, (row-from)%size
		return from + (head%kHeads*(vHeads/kHeads)+head/kHeads)*size + within
	}
}

// rows is the number of rows of a matrix, or of values of a vector.
func (t *Tensor) rows() int {
	if len(t.Shape) == 1 {
		return t.Shape[0]
	}
	return t.Elements() / t.Shape[0]
}

// reordered has in row i what row source(i) of t has; there must be n of them.
func (t *Tensor) reordered(n int, source func(row int) int) (*Tensor, error) {
	if len(t.Shape) > 2 || t.rows() != n {
		return nil, fmt.Errorf("it has the shape %v, want %d rows", t.Shape, n)
	}
	out := &Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Offset: -1, from: t.stored(), fill: func(dst []byte) {
		from, size := t.Bytes(), len(dst)/n
		for i := range n {
			copy(dst[i*size:(i+1)*size], from[source(i)*size:])
		}
	}}
	if each := together(n, source); t.fill == nil && each%kernel.PieceRows == 0 {
		size := len(t.Data) / n
		for i := 0; i < n; i += each {
			out.pieces = append(out.pieces, t.Data[source(i)*size:][:each*size])
		}
	}
	return out, nil
}

// together is how many of n rows stay together, wherever they go.
func together(n int, source func(row int) int) int {
	each := n
	for i := 1; i < n; i++ {
		if source(i) != source(i-1)+1 {
			for rest := i; rest != 0; {
				each, rest = rest, each%rest
			}
		}
	}
	return each
}

// columns is reordered for the values of each row.
func (t *Tensor) columns(n int, source func(column int) int) (*Tensor, error) {
	if len(t.Shape) != 2 || t.Shape[0] != n {
		return nil, fmt.Errorf("it has the shape %v, want %d columns", t.Shape, n)
	}
	type run struct{ to, from, n int }
	var runs []run
	for first := 0; first < n; {
		r := run{first, source(first), 1}
		for first+r.n < n && source(first+r.n) == r.from+r.n {
			r.n++
		}
		runs, first = append(runs, r), first+r.n
	}
	_, block, size, _ := TypeInfo(t.Type)
	if slices.ContainsFunc(runs, func(r run) bool { return r.to%block != 0 || r.from%block != 0 || r.n%block != 0 }) {
		return t.Halves().columns(n, source)
	}
	return &Tensor{Name: t.Name, Type: t.Type, Shape: t.Shape, Offset: -1, from: t.stored(), fill: func(dst []byte) {
		from := t.Bytes()
		for row := 0; row < len(dst); row += n / block * size {
			for _, r := range runs {
				copy(dst[row+r.to/block*size:][:r.n/block*size], from[row+r.from/block*size:])
			}
		}
	}}, nil
}

// middle has n rows of each expert, from a row on.
func (t *Tensor) middle(name string, row, n int) *Tensor {
	experts := t.Shape[2]
	out := &Tensor{Name: name, Type: t.Type, Shape: []int{t.Shape[0], n, experts}, Offset: -1, from: t.stored()}
	of := func(all []byte, e int) []byte {
		each, size := len(all)/experts, out.Size()/experts
		return all[e*each+row*size/n:][:size]
	}
	out.fill = func(dst []byte) {
		for all, e := t.Bytes(), 0; e < experts; e++ {
			copy(dst[e*out.Size()/experts:], of(all, e))
		}
	}
	if t.fill == nil {
		for e := range experts {
			out.pieces = append(out.pieces, of(t.Data, e))
		}
	}
	return out
}

// mapped has f of each value, as F32.
func (t *Tensor) mapped(f func(float32) float32) (*Tensor, error) {
	values, err := t.Floats()
	if err != nil {
		return nil, err
	}
	for i, x := range values {
		values[i] = f(x)
	}
	return floatTensor(t.Name, values, t.Shape...), nil
}

func floatTensor(name string, values []float32, shape ...int) *Tensor {
	data := make([]byte, 0, 4*len(values))
	for _, x := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return &Tensor{Name: name, Type: kernel.F32, Shape: shape, Data: data, Offset: -1}
}

// inParallel calls do for every i in [0, n) on as many goroutines as processors.
func inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
