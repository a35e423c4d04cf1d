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
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 2 {
				for i := range 2 * pieceSlots {
					piece := fmt.Sprintf("ab%dba", i) + "ing the "[:i%8]
					want := tok.encodeNew(nil, piece)
					if got := tok.encodePiece([]int32{7}, piece+"zz", len(piece)); got[0] != 7 || !slices.Equal(got[1:], want) {
						t.Errorf("%q is %v, want %v", piece, got[1:], want)
						return
					}
				}
			}
		})
	}
	wait.Wait()
}
