package cpu

import (
	"fmt"
	"os"
	"strings"
)

// tileRows are the heights of row tiles that matMul kernels exist for.
var tileRows = [...]int{1, 2, 4, 6}

// queryRows are the heights of query tiles that attention kernels exist for.
var queryRows = [...]int{1, 2, 4, 8}

const (
	tileMax    = 6   // rows of a full tile of activations
	queryMax   = 8   // queries of a full query tile
	kvTile     = 16  // positions of a tile of K or V
	rangeTiles = 32  // tiles of an attention range
	rangeSize  = 512 // positions of an attention range
)

// matMulFunc writes one tile of outputs, dst[row][32], from steps steps of a
// panel. Records of a step of act are actStride bytes apart, those of the
// tile's rows follow each other.
type matMulFunc func(dst *float32, act *byte, actStride int, panel *byte, steps int)

// scoresFunc writes dst[query][rangeSize] = q · K for tiles of 16 positions; q
// is [d][queries], tiles point at K tiles.
type scoresFunc func(dst, q *float32, tiles **byte, count, d int)

// valuesFunc writes dst[query][d] = Σ p·V over count positions; p is
// [query][rangeSize]. V lies at bytes after the K that tiles point at.
type valuesFunc func(dst, p *float32, tiles **byte, count, d, at int)

// ops are the kernels of one level. Their arguments are raw pointers: callers
// check lengths. Vector kernels take any n that is a multiple of 16.
type ops struct {
	name string

	// matMul by layout and index in tileRows.
	matMul [layouts][len(tileRows)]matMulFunc
	// quantize writes blocks of 32 values of a row as records that are stride bytes apart.
	quantize func(dst *byte, stride int, x *float32, blocks int)

	// scores and values by KV type (0 float16, 1 float32) and index in queryRows.
	scores [2][len(queryRows)]scoresFunc
	values [2][len(queryRows)]valuesFunc
	// softmax turns p into exp(p - max p) in place and writes the maximum and the sum to stat.
	softmax func(p *float32, n int, stat *[2]float32)

	// delta advances 16 columns of a state [dk][16] by one token and writes their output.
	delta func(state, k, q *float32, dk int, v *float32, decay, beta float32, out *float32)

	sumSquares func(x *float32, n int) float32
	scaleMul   func(dst, x, w *float32, scale float32, n int) // dst = x·scale·w
	add        func(x, y *float32, n int)                     // x += y
	addScaled  func(x, y *float32, scale float32, n int)      // x += scale·y
	addProduct func(x, y, w *float32, n int)                  // x += y·w
	silu       func(x *float32, n int)                        // x = silu(x)
	siluMul    func(dst, gate, up *float32, n int)            // dst = silu(gate)·up
	sigmoidMul func(x, gate *float32, n int)                  // x *= sigmoid(gate)
	rotate     func(a, b, cos, sin *float32, n int)           // (a, b) turned by the angle
	toHalf     func(dst *uint16, x *float32, n int)

	// matVec by layout; nil where matMul is all there is.
	matVec [layouts]matVecFunc
	// readStreams reads n bytes, a multiple of 1024, as fast as it goes.
	readStreams func(p *byte, n int)
	// fetchLines asks for lines of 64 bytes that will be read soon; nil without such a request.
	fetchLines func(p *byte, lines int)
}

// levelEnv forces a level when Options.Level is empty.
const levelEnv = "CORENODE_CPU_LEVEL"

// levels are the levels that this processor can run, best first; the last is portable.
func levels() []*ops { return append(archLevels(), portable()) }

// Levels names the levels that this processor can run, best first.
func Levels() []string {
	var names []string
	for _, l := range levels() {
		names = append(names, l.name)
	}
	return names
}

// pickLevel finds a level by name; "" is the environment's, else the best.
func pickLevel(name string) (*ops, error) {
	if name == "" {
		name = os.Getenv(levelEnv)
	}
	all := levels()
	if name == "" {
		return all[0], nil
	}
	for _, l := range all {
		if l.name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("cpu level %q: this processor runs %s", name, strings.Join(Levels(), ", "))
}
