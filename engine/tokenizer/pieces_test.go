package tokenizer

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestPiecesAgainstMerge encodes more pieces than there are places, twice and
// from several goroutines: what is remembered is what merging gives.
func TestPiecesAgainstMerge(t *testing.T) {
	tok := small(t, "qwen2")
	want := func(piece string) []int32 { return tok.merge(nil, piece) }
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 2 {
				for i := range 2 * pieceSlots {
					piece := fmt.Sprintf("ab%dba", i)
					if got := tok.mergeRemembered([]int32{7}, piece); got[0] != 7 || !slices.Equal(got[1:], want(piece)) {
						t.Errorf("%q is %v, want %v", piece, got[1:], want(piece))
						return
					}
				}
			}
		})
	}
	wait.Wait()
}
