package gpu

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"unsafe"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// arch is the architecture that a Shape is one of.
const arch = "qwen35moe"

// taps is the length of the short convolution.
const taps = 4

// meta are the keys of a model file of this shape.
func (s Shape) meta() []modelfile.KV {
	all := []modelfile.KV{{Key: "general.architecture", Value: arch}}
	number := func(key string, n int) { all = append(all, modelfile.KV{Key: arch + "." + key, Value: uint32(n)}) }
	number("block_count", s.Layers)
	number("context_length", contextMax)
	number("embedding_length", s.Hidden)
	number("feed_forward_length", s.Width)
	number("attention.head_count", s.Heads)
	number("attention.head_count_kv", s.KVHeads)
	number("attention.key_length", s.HeadDim)
	number("attention.value_length", s.HeadDim)
	number("vocab_size", s.Vocabulary)
	number("rope.dimension_count", s.HeadDim/4)
	number("ssm.conv_kernel", taps)
	number("ssm.state_size", s.StateDim)
	number("ssm.group_count", s.KHeads)
	number("ssm.time_step_rank", s.VHeads)
	number("ssm.inner_size", s.VHeads*s.StateDim)
	number("full_attention_interval", fullEvery)
	number("expert_count", s.Experts)
	number("expert_used_count", s.ExpertsUsed)
	number("expert_feed_forward_length", s.Width)
	number("expert_shared_feed_forward_length", s.Width)
	return append(all, modelfile.KV{Key: arch + ".attention.layer_norm_rms_epsilon", Value: float32(1e-6)},
		modelfile.KV{Key: arch + ".rope.freq_base", Value: float32(1e7)})
}

// tensors are those of a model file of this shape, without data. Matrices are of typ, but for the router's.
func (s Shape) tensors(typ kernel.Type) (all []*modelfile.Tensor) {
	prefix := ""
	add := func(typ kernel.Type, name string, shape ...int) {
		all = append(all, &modelfile.Tensor{Name: prefix + name, Type: typ, Shape: shape})
	}
	add(typ, "token_embd.weight", s.Hidden, s.Vocabulary)
	add(typ, "output.weight", s.Hidden, s.Vocabulary)
	add(kernel.F32, "output_norm.weight", s.Hidden)
	values := s.VHeads * s.StateDim
	channels := 2*s.KHeads*s.StateDim + values
	for i := range s.Layers {
		prefix = fmt.Sprintf("blk.%d.", i)
		add(kernel.F32, "attn_norm.weight", s.Hidden)
		if (i+1)%fullEvery == 0 {
			add(typ, "attn_q.weight", s.Hidden, 2*s.Heads*s.HeadDim) // with gates
			add(typ, "attn_k.weight", s.Hidden, s.KVHeads*s.HeadDim)
			add(typ, "attn_v.weight", s.Hidden, s.KVHeads*s.HeadDim)
			add(typ, "attn_output.weight", s.Heads*s.HeadDim, s.Hidden)
			add(kernel.F32, "attn_q_norm.weight", s.HeadDim)
			add(kernel.F32, "attn_k_norm.weight", s.HeadDim)
		} else {
			add(typ, "attn_qkv.weight", s.Hidden, channels)
			add(typ, "attn_gate.weight", s.Hidden, values)
			add(kernel.F32, "ssm_conv1d.weight", taps, channels)
			add(kernel.F32, "ssm_dt.bias", s.VHeads)
			add(kernel.F32, "ssm_a", s.VHeads)
			add(typ, "ssm_beta.weight", s.Hidden, s.VHeads)
			add(typ, "ssm_alpha.weight", s.Hidden, s.VHeads)
			add(kernel.F32, "ssm_norm.weight", s.StateDim)
			add(typ, "ssm_out.weight", values, s.Hidden)
		}
		add(kernel.F32, "post_attention_norm.weight", s.Hidden)
		add(kernel.F32, "ffn_gate_inp.weight", s.Hidden, s.Experts)
		add(typ, "ffn_gate_exps.weight", s.Hidden, s.Width, s.Experts)
		add(typ, "ffn_up_exps.weight", s.Hidden, s.Width, s.Experts)
		add(typ, "ffn_down_exps.weight", s.Width, s.Hidden, s.Experts)
		add(kernel.F32, "ffn_gate_inp_shexp.weight", s.Hidden)
		add(typ, "ffn_gate_shexp.weight", s.Hidden, s.Width)
		add(typ, "ffn_up_shexp.weight", s.Hidden, s.Width)
		add(typ, "ffn_down_shexp.weight", s.Width, s.Hidden)
	}
	return all
}

// isVector tells the tensors whose values the file has from matrices, which are made when they are loaded.
func isVector(t *modelfile.Tensor) bool {
	return t.Type == kernel.F32 && (len(t.Shape) == 1 || strings.HasSuffix(t.Name, "ssm_conv1d.weight"))
}

// isEnd tells the matrices that a file for a node has: which experts a token goes to, and which token is drawn, are then
// as of random weights. All others are zero, which takes as long and leaves the token's row as it is.
func isEnd(t *modelfile.Tensor) bool {
	return t.Name == "token_embd.weight" || t.Name == "output.weight" || strings.HasSuffix(t.Name, "ffn_gate_inp.weight")
}

// writeHoles writes a model file whose matrices are holes; with ends a node can serve it.
func (s Shape) writeHoles(path string, typ kernel.Type, ends bool) (tensors []*modelfile.Tensor, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, file.Close()) }()
	tensors = s.tensors(typ)
	largest := 0
	for _, t := range tensors {
		largest = max(largest, t.Size())
	}
	w := &holes{file: file, zeros: make([]byte, largest)} // of which nothing is touched
	meta := s.meta()
	if ends {
		meta = append(meta, s.vocabulary()...)
	}
	patterns := map[kernel.Type][]byte{}
	err = modelfile.Write(w, meta, tensors, func(t *modelfile.Tensor) ([]byte, error) {
		if isVector(t) {
			return modelfile.Quantize(t.Type, vector(t))
		}
		if !ends || !isEnd(t) {
			return w.zeros[:t.Size()], nil
		}
		if patterns[t.Type] == nil {
			if patterns[t.Type], err = pattern(t.Type, 1); err != nil {
				return nil, err
			}
		}
		return bytes.Join(piecesOf(t.Name, t.Type, patterns[t.Type], t.Elements()), nil), nil
	})
	if err != nil {
		return nil, err
	}
	return tensors, file.Truncate(w.at)
}

// vector are values as a trained model has them.
func vector(t *modelfile.Tensor) []float32 {
	v := make([]float32, t.Elements())
	random := rand.New(rand.NewPCG(uint64(len(v)), uint64(len(t.Name))))
	for i := range v {
		switch x := random.Float32(); {
		case strings.HasSuffix(t.Name, "ssm_a"):
			v[i] = -x - 0.01 // what a state keeps of itself is exp of it times what the token says
		case strings.HasSuffix(t.Name, "norm.weight"):
			v[i] = 0.5 + x
		default:
			v[i] = x - 0.5
		}
	}
	return v
}

// holes writes to a file and leaves out zeros that it gave away itself.
type holes struct {
	file  *os.File
	zeros []byte
	at    int64
}

var _ io.Writer = (*holes)(nil)

// Write implements io.Writer.
func (h *holes) Write(p []byte) (int, error) {
	var err error
	if unsafe.SliceData(p) != unsafe.SliceData(h.zeros) {
		_, err = h.file.WriteAt(p, h.at)
	}
	h.at += int64(len(p))
	return len(p), err
}

// patternValues is how many values are made at random: an odd number of blocks, so that what repeats
// begins elsewhere in each row.
const patternValues = 256 * (1<<13 + 1)

// pattern is random values of a type.
func pattern(typ kernel.Type, seed uint64) ([]byte, error) {
	random := rand.New(rand.NewPCG(seed, uint64(typ)))
	v := make([]float32, patternValues)
	for i := range v {
		v[i] = (random.Float32() - 0.5) / 16
	}
	return modelfile.Quantize(typ, v)
}

// repeated are pieces of a pattern that together have so many bytes, from one of its 16 parts on.
func repeated(pattern []byte, bytes, part, block int) (pieces [][]byte) {
	from := len(pattern) / block * (part % 16) / 16 * block
	for bytes > 0 {
		n := min(bytes, len(pattern)-from)
		pieces = append(pieces, pattern[from:from+n])
		bytes, from = bytes-n, 0
	}
	return pieces
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
