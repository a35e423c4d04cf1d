package kernel

// Fuser is a Drawer that can compute steps of a whole network with few launches, where it knows
// networks of that kind.
type Fuser interface {
	Drawer
	// Fuse is nil where it does not.
	Fuse(n *Network) (Fused, error)
}

// Fused computes steps of one network.
type Fused interface {
	// Step queues a step and what its Rows ask for, and submits it: Collect is the Drawer's. It says whether
	// it did; where it did not, nothing was queued. States that come before the step are not its matter.
	Step(in *Input) bool
	// Remember and Draft are those of a Predictor, behind a step that Step computed. They are there for a Network
	// with a Prediction only.
	Remember(next []int32)
	Draft(step *Step, rows, tokens []int32, hidden []int32, out []Drafted)
	// Close gives back what the device has for it. Nothing may be computed any more.
	Close()
}

// Network is the weights and the shape of a model, as a Backend has loaded them.
type Network struct {
	Hidden, Vocabulary int
	Eps                float32 // of norms
	Embed, Head        Weight
	Norm               Buffer // before the head
	Layers             []Layer

	Heads, KVHeads, HeadDim int
	QueryScale              float32
	// Rotation of the first 2·len(InvFreq) values of a head; see RopeAngles and Rope.
	InvFreq  []float64
	RopeGain float64
	Neox     bool

	Delta DeltaShape // of linear layers

	Prediction *Prediction // nil without one
}

// Prediction is the layer that predicts what comes after the next token. Its input is FromE·norm(embedding of the next
// token) + FromH·norm(what Norm of the Network gave, or Norm of the Prediction for a token further on).
type Prediction struct {
	Embed, Head  Weight
	ENorm, HNorm Buffer
	FromE, FromH Weight
	Layer        Layer // with attention
	Norm         Buffer
}

// Layer is one of a Network: Attention or Linear, then experts where Router is there, or FFN.
type Layer struct {
	Index         int // among the layers of its kind in the cache
	Norm, FFNNorm Buffer
	Attention     *Attention
	Linear        *Linear
	Out           Weight
	OutBias       Buffer // nil for none

	FFN        FFN // with experts the shared one, or none
	Router     Weight
	RouterBias Buffer // nil for none
	Experts    ExpertStack
	Routing    Routing
	SharedGate Weight // nil where the shared expert counts whole
}

// Attention is the weights of full attention. Q has a gate behind each head's values where Gated. Biases, norms
// and sinks may be nil.
type Attention struct {
	Q, K, V             Weight
	QBias, KBias, VBias Buffer
	QNorm, KNorm, Sinks Buffer
	Gated               bool
	Window              int
}

// Linear is the weights of Gated DeltaNet.
type Linear struct {
	QKV, Z, Beta, Alpha Weight
	Small               DeltaWeights
}

// FFN is down(silu(gate x)·up x). All are nil or none.
type FFN struct{ Gate, Up, Down Weight }
