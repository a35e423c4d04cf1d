package cpu

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"corenode/engine/kernel"
)

// tileRows are the heights of row tiles that matMul kernels exist for.
var tileRows = [...]int{1, 2, 4, 8}

// queryRows are the heights of query tiles that attention kernels exist for.
var queryRows = [...]int{1, 2, 4, 8, 12}

// queryTiles is how many tiles of K a kernel of each height takes at once.
var queryTiles = [len(queryRows)]int{4, 4, 4, 2, 2}

const (
	tileMax       = 8                   // the tallest of tileRows
	tallRows      = 16                  // rows of a tall tile
	queryMax      = 12                  // queries of a full query tile
	kvTile        = 16                  // positions of a tile of K or V
	rangeTiles    = 32                  // tiles of an attention range
	rangeSize     = rangeTiles * kvTile // positions of an attention range
	scoreStride   = rangeSize + 16      // from one query's scores to the next one's
	prefetchTiles = 8                   // kernels ask memory for the tile this many places further in their list
)

// matMulFunc writes one tile of outputs, dst[row][32], from steps steps of a
// panel. Records of a step of act are actStride bytes apart, those of the
// tile's rows follow each other.
type matMulFunc func(dst *float32, act *byte, actStride int, panel *byte, steps int)

// scoresFunc writes dst[query][scoreStride] = q · K for count tiles of 16
// positions, a multiple of queryTiles; q is [query][d]. The list goes on for
// prefetchTiles entries, which are only asked for.
type scoresFunc func(dst, q *float32, tiles **byte, count, d int)

// valuesFunc adds Σ p·V over count positions to dst[query][d]; p is
// [query][scoreStride]: probabilities, readable to the end of a tile, and after
// rangeSize of them scratch. The list is as above.
type valuesFunc func(dst, p *float32, tiles **byte, count, d int)

// kvTypes is the number of types that K and V are stored as.
const kvTypes = int(kernel.KVQ8) + 1

// ops are the kernels of one level. Their arguments are raw pointers: callers
// check lengths. Vector kernels take any n that is a multiple of 16.
type ops struct {
	name string

	// matMul by layout and index in tileRows.
	matMul [layouts][len(tileRows)]matMulFunc
	// tall by layout is for tiles of tallRows rows, with twice their size as scratch
	// after dst; their halves go to matMul where it is nil. Without any, tiles are
	// not taller than tileMax.
	tall [layouts]matMulFunc
	// bands take over from matMul for many rows of quantized activations; nil
	// where there are none. Their results are bit-equal to matMul's.
	bands *bandOps
	// quantize writes blocks of 32 values of a row as records that are stride bytes apart.
	quantize func(dst *byte, stride int, x *float32, blocks int)

	// scores and values by KV type and index in queryRows; d is a multiple of kernel.KVBlock.
	scores [kvTypes][len(queryRows)]scoresFunc
	values [kvTypes][len(queryRows)]valuesFunc
	// widen converts elements of K or V to float32, a multiple of 16. The next three are
	// for what was converted, and queryMax queries, nil where nothing is won: wideScores
	// reads codes of KVQ8 with their scales after them, wideValues adds Σ p·V to columns of
	// dst, both stride wide, and weigh multiplies rows of probabilities by the scales of
	// their positions.
	widen      [kvTypes]func(dst *float32, src *byte, n int)
	wideScores scoresFunc
	wideValues func(dst, p, v *float32, count, columns, stride int)
	weigh      func(dst, p, scales *float32, n int)
	// prompts take over from all of these for spans of prompts; nil where there are none.
	prompts *promptOps
	// words take over from the others for ranges far before the rows of a prompt; nil where there are none.
	words *wordOps
	// softmax turns p into exp(p - max p) in place and writes the maximum and the sum to stat.
	softmax func(p *float32, n int, stat *[2]float32)
	// fold adds the values of a further range, with its stat, to sum and stat.
	fold func(sum *float32, stat *[2]float32, next *float32, nextStat *[2]float32, n int)
	// encodeKV writes blocks of kernel.KVBlock values as 8-bit codes and float16 scales.
	encodeKV func(codes *byte, scales *uint16, x *float32, blocks int)

	// delta advances 16 columns of a state [dk][16] by one token, writes their output and
	// fetches the 16 columns at next.
	delta func(state, k, q *float32, dk int, v *float32, decay, beta float32, out, next *float32)

	// product and solve run a *product; the chunked form of the delta rule is made of them.
	product, solve func(p *byte)
	// transpose writes n columns (a multiple of 4) of 16 rows, row bytes apart, as dst[n][16].
	transpose func(dst, x *float32, row, n int)
	// convolve writes silu(Σ in[tap]·w[tap]); in is 4 pointers, taps of w are wRow bytes
	// apart. What lies prefetch bytes after in[3] is fetched.
	convolve func(dst *float32, in **float32, w *float32, wRow, prefetch, n int)
	// gatedNorm writes o·rsqrt(mean(o²)+eps)·w·silu(z). What lies prefetch bytes after z is fetched.
	gatedNorm func(dst, o, z, w *float32, eps float32, prefetch, n int)
	// gates turns log = alpha into a·softplus(alpha+bias), decay into its e^, beta into sigmoid(beta).
	gates func(log, decay, beta *float32, a, bias float32, n int)
	// decayRow writes read = qk·e and change = factor·kk·e, e = e^(top - sum); sums are high + low.
	decayRow func(read, change, qk, kk, high, low *float32, topHigh, topLow, factor float32, n int)

	exp        func(x *float32, n int)                     // x = e^x
	scale      func(dst, x *float32, scale float32, n int) // dst = x·scale
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

	// multiply does rounds of multiplies multiply-adds on nothing, as a measure.
	multiply   func(rounds int)
	multiplies int

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
	name = cmp.Or(name, os.Getenv(levelEnv))
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
