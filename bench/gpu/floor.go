package gpu

import (
	"strings"

	"corenode/engine/modelfile"
)

// Weights are the matrices of a model, in bytes as the device has them and in values.
type Weights struct {
	Dense        int64 `json:"dense_bytes"` // all that every step reads, without the head
	Head         int64 `json:"head_bytes"`
	Expert       int64 `json:"expert_bytes"` // one expert of one layer
	Total        int64 `json:"total_bytes"`
	DenseValues  int64 `json:"dense_values"`
	HeadValues   int64 `json:"head_values"`
	ExpertValues int64 `json:"expert_values"`
}

// weightsOf counts the tensors of a shape.
func weightsOf(s Shape, tensors []*modelfile.Tensor) (w Weights) {
	for _, t := range tensors {
		size, values := int64(t.Size()), int64(t.Elements())
		w.Total += size
		switch {
		case t.Name == "token_embd.weight": // a row of it for each token
		case t.Name == "output.weight":
			w.Head, w.HeadValues = w.Head+size, w.HeadValues+values
		case strings.Contains(t.Name, "_exps."):
			w.Expert, w.ExpertValues = w.Expert+size, w.ExpertValues+values
		default:
			w.Dense, w.DenseValues = w.Dense+size, w.DenseValues+values
		}
	}
	w.Expert /= int64(s.Experts * s.Layers)
	w.ExpertValues /= int64(s.Experts * s.Layers)
	return w
}

// Bytes is what one step of decoding has to read and write.
type Bytes struct {
	Dense   int64 `json:"dense"`
	Experts int64 `json:"experts"` // those that were hit
	Head    int64 `json:"head"`
	States  int64 `json:"states"`
	KV      int64 `json:"kv"`
	Rows    int64 `json:"rows"` // what else a row needs: activations and logits
}

// Sum is all of it.
func (b Bytes) Sum() int64 { return b.Dense + b.Experts + b.Head + b.States + b.KV + b.Rows }

// rowBytesPerHidden is what a row's activations take for each layer and value of its width: six
// float32 values written or read.
const rowBytesPerHidden = 24

// stepBytes are the bytes of a step of batch sequences that have so many tokens in the cache, in which a layer's
// tokens hit so many of its experts.
func stepBytes(s Shape, w Weights, batch int, tokens, hit float64, stateBytes, bytesPerToken int64) Bytes {
	rows := int64(batch)
	return Bytes{
		Dense: w.Dense, Head: w.Head, Experts: int64(hit * float64(s.Layers) * float64(w.Expert)),
		States: 2 * rows * stateBytes, KV: int64(float64(batch) * tokens * float64(bytesPerToken)),
		Rows: rows * (4*int64(s.Vocabulary) + rowBytesPerHidden*int64(s.Layers)*int64(s.Hidden)),
	}
}

// chunk is how many tokens DeltaNet takes at a time in a prompt.
const chunk = 64

// promptFLOP is the arithmetic of a prompt of n tokens, a multiplication and an addition being two: products with
// every matrix that a token meets (the head's for the last one), attention to the tokens before, and DeltaNet by
// chunks, where a token of a head meets the state three times and the chunk five times.
func promptFLOP(s Shape, w Weights, n int) float64 {
	tokens, full := float64(n), s.full()
	active := float64(w.DenseValues) + float64(s.ExpertsUsed*s.Layers)*float64(w.ExpertValues)
	products := 2*tokens*active + 2*float64(w.HeadValues)
	attention := 2 * tokens * tokens * float64(full*s.Heads*s.HeadDim)
	d := float64(s.StateDim)
	delta := tokens * float64((s.Layers-full)*s.VHeads) * (3*2*d*d + 5*2*chunk*d)
	return products + attention + delta
}

// fullEvery is how often a layer is attention.
const fullEvery = 4

// full is the number of layers with attention.
func (s Shape) full() int { return s.Layers / fullEvery }

// milliseconds that so much takes at a ceiling of 1e9 or 1e12 a second; 0 without a ceiling.
func milliseconds(amount, ceiling, unit float64) float64 {
	if ceiling <= 0 {
		return 0
	}
	return 1e3 * amount / (ceiling * unit)
}
