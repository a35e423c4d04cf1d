package modelfile

import (
	"fmt"
	"slices"
	"strings"

	"corenode/engine/kernel"
)

// What is particular to folders of gpt-oss. Its experts are stacked, with the rows of gate and up
// in turns: as transposed matrices of floats, or as blocks of 32 four-bit codes with a scale.

const (
	gptOSS        = "gpt-oss"
	fourBitBlocks = "_blocks"
	fourBitScales = "_scales"
)

// alternating reads the windows: every other layer has one, from the first on.
func (c *folderConfig) alternating(k *folderKeys) {
	must(k, "hidden_act", "silu")
	c.number("attention.sliding_window", k.int("sliding_window", requiredKey))
	k.read["initial_context_length"] = true // the scaling of positions has it too
	var kinds []string
	k.get("layer_types", &kinds)
	for i, kind := range kinds {
		if want := [2]string{"sliding_attention", "full_attention"}[i%2]; kind != want {
			k.fail("layer_types[%d] is %q, only %s is supported", i, kind, want)
			return
		}
	}
}

// clamped reads the shape of the experts.
func (c *folderConfig) clamped(k *folderKeys) {
	c.experts = c.number("expert_count", k.first("num_local_experts", "num_experts"))
	c.number("expert_used_count", k.first("num_experts_per_tok", "experts_per_token"))
	k.read["experts_per_token"] = true
	c.number("expert_feed_forward_length", k.int("intermediate_size", requiredKey))
	must(k, "swiglu_limit", 7.0)
	must(k, "swiglu_alpha", 1.702)
}

// fourBit is a stack of matrices of four-bit codes in the blocks of MXFP4: the scale, and 16 bytes with the codes
// of the first half in their low bits. The folder has neighbors in one byte.
func (b *builder) fourBit(r *rawTensor) (*Tensor, error) {
	scales := b.raw[strings.TrimSuffix(r.name, fourBitBlocks)+fourBitScales]
	if len(r.shape) != 4 || r.shape[3] != 16 || r.dtype != "U8" || scales == nil || scales.dtype != "U8" ||
		!slices.Equal(scales.shape, r.shape[:3]) || len(r.data) != 16*len(scales.data) {
		return nil, fmt.Errorf("it has the shape %v of %s, want 16 bytes for each of its %s", r.shape, r.dtype, fourBitScales)
	}
	shape := []int{32 * r.shape[2], r.shape[1], r.shape[0]}
	return &Tensor{Type: kernel.MXFP4, Shape: shape, Offset: -1, from: [][]byte{r.data, scales.data}, fill: func(dst []byte) {
		for i, scale := range scales.data {
			block, codes := dst[17*i:17*i+17], r.data[16*i:16*i+16]
			block[0] = scale
			for j := range 8 {
				first, second := codes[j], codes[j+8]
				block[1+2*j], block[2+2*j] = first&15|second<<4, first>>4|second&0xf0
			}
		}
	}}, nil
}

// clamped adds a tensor of experts: matrices of floats are transposed, and gate and up taken apart.
func (b *builder) clamped(t *Tensor, fourBits bool) error {
	name := t.Name
	if strings.HasSuffix(name, ".weight") && !fourBits {
		var err error
		if t, err = t.transposed(); err != nil {
			return err
		}
		t.Name = name
	}
	stem, kind, both := strings.Cut(name, "ffn_gate_up_exps.")
	if !both {
		return b.add(t)
	}
	if t.Shape[max(len(t.Shape)-2, 0)]%2 != 0 { // rows of an expert, or values of its bias

		return fmt.Errorf("it has the shape %v, want gate and up in turns", t.Shape)
	}
	for i, half := range []string{"ffn_gate_exps.", "ffn_up_exps."} {
		if err := b.add(t.everySecond(stem+half+kind, i)); err != nil {
			return err
		}
	}
	return nil
}

// transposed has rows and columns of each matrix of a stack exchanged.
func (t *Tensor) transposed() (*Tensor, error) {
	if len(t.Shape) != 3 {
		return nil, fmt.Errorf("it has the shape %v, want a stack of matrices", t.Shape)
	}
	t = t.Halves() // whose values are moved one by one
	rows, cols, n := t.Shape[0], t.Shape[1], t.Shape[2]
	return &Tensor{Type: t.Type, Shape: []int{cols, rows, n}, Offset: -1, from: t.stored(), fill: func(dst []byte) {
		from := t.Bytes()
		size := len(from) / t.Elements()
		for i := range t.Elements() {
			e, r, c := i/(rows*cols), i/cols%rows, i%cols
			copy(dst[i*size:(i+1)*size], from[((e*cols+c)*rows+r)*size:])
		}
	}}, nil
}

// everySecond has every other row of t from one on, or value of a stack of vectors.
func (t *Tensor) everySecond(name string, from int) *Tensor {
	shape := slices.Clone(t.Shape)
	turns, n := max(len(shape)-2, 0), 1
	shape[turns] /= 2
	for _, size := range shape[turns:] {
		n *= size
	}
	return &Tensor{Name: name, Type: t.Type, Shape: shape, Offset: -1, from: t.stored(), fill: func(dst []byte) {
		all, size := t.Bytes(), len(dst)/n
		for i := range n {
			copy(dst[i*size:(i+1)*size], all[(2*i+from)*size:])
		}
	}}
}
