// Package instant is the forward pass of a model that computes nothing: the
// next token is a hash of the last token and its position, among the plain
// words of the vocabulary. It answers at once and never ends by itself, so
// that what is measured is the node around it. It has no KV and no state, and
// its logits are as few as its words need: sampling from more would cost more
// than all the rest of a token.
package instant

import (
	"math"
	"time"

	"corenode/engine/kernel"
)

// Vocabulary is what the model needs of a tokenizer.
type Vocabulary interface {
	Size() int
	Bytes(id int32) []byte
}

// Model picks tokens; safe for one goroutine, as any forward pass.
type Model struct {
	words []int32 // ids of plain words, rising; never empty, at most wordsMax
	step  time.Duration
}

// wordsMax is how many different tokens the model says.
const wordsMax = 16

// certain is the logit that leaves no other token a chance.
var certain = float32(math.Inf(1))

// New makes a model over the first plain words of a vocabulary. A step takes that long:
// 0 is at once.
func New(v Vocabulary, step time.Duration) *Model {
	m := &Model{step: step}
	for id := int32(0); id < int32(v.Size()) && len(m.words) < wordsMax; id++ {
		if plain(v.Bytes(id)) {
			m.words = append(m.words, id)
		}
	}
	if len(m.words) == 0 {
		panic("instant: the vocabulary has no plain token")
	}
	return m
}

// plain says whether a token is letters with at most a leading space: nothing
// a parser could hold back.
func plain(b []byte) bool {
	for i, c := range b {
		if (c < 'a' || c > 'z') && (i > 0 || c != ' ') {
			return false
		}
	}
	return len(b) > 1
}

// Forward gives each asked row one token that is certain: whoever draws looks no further.
func (m *Model) Forward(step *kernel.Step, tokens []int32, _ kernel.Cache, logitRows []int32, logits [][]float32) error {
	time.Sleep(m.step)
	for i, row := range logitRows {
		clear(logits[i])
		logits[i][m.next(tokens[row], position(step, int(row)))] = certain
	}
	return nil
}

// Vocab is the width of the logits: up to the last word.
func (m *Model) Vocab() int { return int(m.words[len(m.words)-1]) + 1 }

// Close does nothing.
func (m *Model) Close() {}

// next hashes with the finalizer of splitmix64, whose bits are all well mixed.
func (m *Model) next(token int32, pos int) int32 {
	x := uint64(token)<<32 ^ uint64(pos)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return m.words[(x^x>>31)%uint64(len(m.words))]
}

func position(step *kernel.Step, row int) int {
	for _, s := range step.Spans {
		if row < s.Row+s.Len {
			return s.Pos + row - s.Row
		}
	}
	return row
}
