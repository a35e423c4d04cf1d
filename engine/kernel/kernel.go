// Package kernel is the small set of operations that a forward pass is made
// of, as an interface a device implements. engine/model calls the operations
// in order and owns no arithmetic; a backend (cpu or cuda) owns the memory
// and may queue work, as long as Download sees its results.
//
// Activations are float32 matrices in Buffers, row-major: row = one token of
// the step. A step computes rows of many sequences at once; Step says which
// rows belong to which sequence and where its KV pages and recurrent state
// are. Every operation computes each row independently of the others in the
// step (attention and recurrence read only the row's own sequence), with a
// summation order that does not depend on the number of rows, the page size
// or the number of threads: logits are bit-equal for any batch. DeltaNet may
// compute runs of rows together; how depends on their positions and on where
// their span begins and ends, and on nothing else.
//
// Backends are not safe for concurrent use: one step loop owns one.
package kernel

// Buffer is backend memory holding float32 values.
type Buffer interface {
	// Len is the capacity in float32 values.
	Len() int
}

// Weight is a matrix of Rows outputs by Cols inputs that a backend has
// loaded, quantized or not. A stack of expert matrices is one Weight of
// Experts > 1, each Rows x Cols.
type Weight interface {
	Rows() int
	Cols() int
	Experts() int
}

// Type is the storage type of a weight's source data: the GGUF tensor type
// numbers.
type Type uint32

// The types that backends know.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	BF16   Type = 30
	MXFP4  Type = 39
	// F8E4M3 has a number of our own: 128 bytes of E4M3 and the float32 that they are multiplied by.
	F8E4M3 Type = 1 << 16
)

// Source is a matrix as it lies in a model file: Experts x Rows rows of Cols
// values each, in the blocks of Type. Data must stay valid while the backend
// lives (a backend may keep using the mapped file).
type Source struct {
	Name    string
	Type    Type
	Experts int // 1 for a plain matrix
	Rows    int
	Cols    int
	Data    []byte
	// Pieces, where it is set, holds the data in place of Data, in parts that lie apart in the
	// file: of an expert each, or of equally many rows of one, a multiple of PieceRows.
	Pieces [][]byte
	// Read, where it is set, returns the bytes of a part of Data or of a piece: in scratch, which
	// grows as is needed, or the part itself. While a model is loaded it is faster than touching
	// them, and safe for concurrent use with a scratch each. A backend that has a method Wait may
	// read until that returns; others read before Load returns.
	Read func(part []byte, scratch *[]byte) []byte
	// Copied says that Data was made for Load alone, and that Embed will not read it: a
	// backend that packs should not keep it.
	Copied bool
	// EmbedOnly says that nothing but Embed will read it, so that the backend
	// needs no form of its own.
	EmbedOnly bool
}

// PieceRows is what the rows of a piece that is no expert are a multiple of.
const PieceRows = 32

// Span is a run of consecutive tokens of one sequence within a step.
type Span struct {
	Row   int     // first row in the step
	Len   int     // number of rows, >= 1
	Pos   int     // position of the first row: how many tokens of the sequence are computed already
	Pages []int32 // page table; covers positions [0, Pos+Len)
	State int32   // slot of the recurrent state, which stands after token Pos-1; ignored without linear layers
	// Saves are slots that receive the state as it stands after each of the first
	// len(Saves) rows, at most Len: what a sequence goes back to when it keeps only
	// some of its rows. They differ from State and from each other.
	Saves []int32
	// Prompt says that the rows are read from a prompt. A backend may round their
	// sums differently from those of generated rows. Whichever it does, the result
	// of a row depends on nothing else in the step: not on the other spans, nor on
	// where the prompt was cut.
	Prompt bool
}

// Step is one forward pass: its spans cover rows [0, Rows) in order.
type Step struct {
	Rows  int
	Spans []Span
}

// CacheConfig is the shape of the memory that outlives a step.
type CacheConfig struct {
	Layers     int // full-attention layers
	KVHeads    int
	HeadDim    int
	PageTokens int    // positions per page: 16, 32 or 64
	Pages      int    // size of the page pool; memory is taken when a page is first written
	KV         KVType // what K and V are stored as
	// Shared says that V is K, as in latent attention: one of them is stored, and StoreKV takes
	// no V.
	Shared bool

	LinearLayers int       // DeltaNet layers; 0 without
	StateSlots   int       // slots of recurrent state; memory is taken on first use
	HostSlots    int       // further slots behind them that states are only copied to and from; of a device in host memory
	ConvDim      int       // channels of the short convolution
	ConvKernel   int       // taps; the state keeps the last ConvKernel-1 inputs
	VHeads       int       // DeltaNet value heads
	StateDim     int       // dk = dv: rows and columns of a head's state
	States       StateType // what those are stored as
}

// Cache is the KV pages and recurrent states of one model on one backend.
type Cache interface {
	// ResetState makes slot the state before any token.
	ResetState(slot int32)
	// CopyState makes dst a copy of src.
	CopyState(dst, src int32)
	// BytesUsed is the memory taken so far.
	BytesUsed() int64
	// Close gives all memory back; the cache must not be used after it. Closing
	// the backend closes its caches too.
	Close()
}

// Memory is a Cache whose pages and states lie where the processor reads and writes them,
// so that they can be kept in a file. The bytes are the cache's own, and mean
// something only to a cache of the same shape at the same level of the same backend.
type Memory interface {
	Cache
	// PageMemory is all there is of a page. Writing it is as if steps had stored the same.
	PageMemory(page int32) []byte
	// StateMemory is all there is of a slot, in pieces that follow each other.
	StateMemory(slot int32) [][]byte
}

// DeltaWeights are the small tensors of one Gated DeltaNet layer, float32 on the backend.
type DeltaWeights struct {
	Conv   Buffer // [ConvDim][ConvKernel], last tap = current token
	A      Buffer // [VHeads]: -exp(A_log)
	DtBias Buffer // [VHeads]
	Norm   Buffer // [StateDim], plain weight of the gated norm
}

// DeltaShape is the shape of one Gated DeltaNet layer. V head p reads K head
// p % KHeads when Tiled (GGUF order), else p / (VHeads/KHeads).
type DeltaShape struct {
	KHeads, VHeads, Dim int
	ConvKernel          int
	Tiled               bool
	Eps                 float32 // of the L2 norms and the gated norm
}

// ExpertStack is the weights of a mixture of experts.
type ExpertStack struct {
	Gate, Up, Down Weight
	// Biases of the three, [Experts][Rows]; all nil or none.
	GateBias, UpBias, DownBias Buffer
	// Limit, where it is not 0, bounds what is between them, which is then
	// (u+1)·g·sigmoid(Alpha·g) of g = min(gate, Limit) and u = up within ±Limit.
	Limit, Alpha float32
}

// Routing says which experts a row goes to, and with which weights. An expert's score is
// its share of softmax(logits), or with Sigmoid the sigmoid of its logit. Of equal ones
// the lower expert comes first.
type Routing struct {
	Top     int // experts of a row
	Sigmoid bool
	Bias    Buffer // [Experts], added to the scores by which experts and groups are chosen; nil without
	// Groups of as many experts each are ranked by the sum of their GroupTop best; only
	// experts of the GroupsUsed best ones are chosen. 0 or 1 is no grouping.
	Groups, GroupsUsed, GroupTop int
	// Plain weights are the scores, without Bias; otherwise those of a row are divided by their sum.
	Plain bool
	Scale float32 // of the weights; 0 means 1
}

// Heads are values of each head of rows: those from At on, of the Width that a head has.
type Heads struct {
	Buffer    Buffer
	Width, At int
}

// EightBitBackend is a Backend that may want matrices of F8E4M3; others get them as float16.
type EightBitBackend interface {
	Backend
	TakesEightBits() bool
}

// HeadBackend is a Backend that computes with each head on its own, as latent attention needs it.
type HeadBackend interface {
	Backend
	// CopyHeads copies d values of each head of n rows.
	CopyHeads(dst, src Heads, n, heads, d int)
	// MatMulHeads multiplies Cols values of each head of n rows with the head's matrix, which
	// gives Rows values: w has one for each head.
	MatMulHeads(dst, src Heads, n int, w Weight)
}

// Backend runs the operations. n is always the number of rows.
type Backend interface {
	// Name is the backend and its level, such as "cpu/avx512vnni".
	Name() string

	// Load brings a weight to the backend, repacked as it likes.
	Load(src Source) (Weight, error)
	// NewBuffer returns memory for n values, zeroed.
	NewBuffer(n int) Buffer
	// Upload copies src into dst from offset off on.
	Upload(dst Buffer, off int, src []float32)
	// Download copies len(dst) values of src from offset off on; it waits for queued work.
	Download(dst []float32, src Buffer, off int)
	// NewCache takes no page memory yet.
	NewCache(c CacheConfig) (Cache, error)
	// PageBytes is the memory that one page of such a cache takes, exactly.
	PageBytes(c CacheConfig) int64
	// StateBytes is the memory that one slot of such a cache takes; 0 without linear layers.
	StateBytes(c CacheConfig) int64

	// Embed writes row ids[i] of table to row i of dst.
	Embed(dst Buffer, table Weight, ids []int32)
	// GatherRows writes rows rows[i] of src to row i of dst; rows are d wide.
	GatherRows(dst, src Buffer, rows []int32, d int)
	// MatMul computes dst[i] = x · w[i]ᵀ for every weight, x being n x Cols: all
	// weights share Cols, and the quantized form of x is made once.
	MatMul(dst []Buffer, x Buffer, n int, w []Weight)
	// AddBias adds bias [d] to each row of x.
	AddBias(x, bias Buffer, n, d int)
	// RMSNorm writes x·rsqrt(mean(x²)+eps)·w for each of n rows of width d. dst may be x.
	RMSNorm(dst, x, w Buffer, n, d int, eps float32)
	// AddRMSNorm adds delta to x in place, then writes the norm of x to dst: one pass for a
	// residual connection and the norm after it.
	AddRMSNorm(dst, x, delta, w Buffer, n, d int, eps float32)
	// SiLUMul writes silu(gate)·up; dst may be gate.
	SiLUMul(dst, gate, up Buffer, n, d int)
	// GELUMul writes gelu(gate)·up, gelu being the approximation by tanh; dst may be gate.
	GELUMul(dst, gate, up Buffer, n, d int)
	// SigmoidMul multiplies x by sigmoid(gate) elementwise.
	SigmoidMul(x, gate Buffer, n, d int)
	// AddScaled adds sigmoid(gate[row])·y to x, gate being n x 1.
	AddScaled(x, y, gate Buffer, n, d int)
	// SplitHeads takes rows of heads x [a: d | b: d] apart into a and b, rows of heads x d.
	SplitHeads(a, b, x Buffer, n, heads, d int)

	// RopeAngles prepares cos and sin of pos·invFreq[i], times gain, for every row of the step
	// into dst, rows of [cos: len(invFreq) | sin: len(invFreq)]; angles in float64.
	RopeAngles(dst Buffer, step *Step, invFreq []float64, gain float64)
	// Rope rotates the first 2·half values of each head: pairs (i, i+half) when
	// neox, else (2i, 2i+1). angles is from RopeAngles.
	Rope(x, angles Buffer, n, heads, headDim, half int, neox bool)

	// StoreKV writes the step's k and v rows (KVHeads·HeadDim wide) to attention layer's pages.
	StoreKV(c Cache, layer int, k, v Buffer, step *Step)
	// Attend writes causal softmax(scale·q·kᵀ)·v to dst, rows of heads·HeadDim; query
	// head j reads KV head j/(heads/KVHeads). A row sees the last window positions, its own
	// among them, or all where window is 0. Where sinks [heads] is not nil, the sum that a head's
	// weights are divided by has exp(sink) more. StoreKV of the same step came before.
	Attend(c Cache, layer int, dst, q Buffer, step *Step, heads, window int, scale float32, sinks Buffer)
	// DeltaNet runs short convolution, gates, recurrence and gated norm of linear layer
	// `layer`, updating the states of the step's spans. qkv is rows of ConvDim
	// (q | k | v), z rows of VHeads·Dim, beta and alpha rows of VHeads, dst as z.
	DeltaNet(c Cache, layer int, dst, qkv, z, beta, alpha Buffer, w DeltaWeights, s DeltaShape, step *Step)

	// Experts computes dst = Σ_k weight_k · down_k(silu(gate_k x)·up_k x) over the
	// experts that r chooses by logits, n x Experts.
	Experts(dst, x, logits Buffer, n int, s ExpertStack, r Routing)

	// Close frees the backend's memory and stops its threads.
	Close()
}
