package instant

import (
	"testing"

	"corenode/engine/kernel"
)

type words []string

func (w words) Size() int             { return len(w) }
func (w words) Bytes(id int32) []byte { return []byte(w[id]) }

func TestForwardPicksPlainWordsOnly(t *testing.T) {
	vocab := words{"<think>", "ab", " the", "\xff", "a b", "Z", ""}
	m := New(vocab, 0)
	step := &kernel.Step{Rows: 3, Spans: []kernel.Span{{Row: 0, Len: 1, Pos: 7}, {Row: 1, Len: 2, Pos: 40}}}
	seen := map[int32]bool{}
	for token := range int32(50) {
		logits := [][]float32{make([]float32, m.Vocab()), make([]float32, m.Vocab())}
		if err := m.Forward(step, []int32{token, 0, token}, nil, []int32{0, 2}, logits); err != nil {
			t.Fatal(err)
		}
		for _, row := range logits {
			best := int32(-1)
			for id, x := range row {
				if x > 0 {
					best = int32(id)
				}
			}
			if best != 1 && best != 2 {
				t.Fatalf("picked %d", best)
			}
			seen[best] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("only %v ever picked: the choice does not depend on the token", seen)
	}
}
