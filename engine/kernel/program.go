package kernel

// Programmer is a model on a device that computes whole steps there, sampling included.
type Programmer interface {
	// Program is nil where its device has none: the host then computes step by step.
	Program() (Program, error)
}

// Program computes steps: copies of states, the pass, and the draws from its logits. Steps
// are computed in the order of Launch, each with what those before it have left. Up to two
// may be launched and not collected. One goroutine calls it.
//
// An error of Launch or Collect leaves the program unusable.
type Program interface {
	// Launch queues a step and returns. It keeps nothing of in but its cache.
	Launch(in *Input) error
	// Collect waits for the step launched first of those not collected.
	Collect(out *Output) error
	// Close waits until nothing is computed any more, and drops what was not collected.
	Close()
}

// Predictor is a Program of a model with a layer that predicts what comes after the next token, for
// drafts. One step is on its way at a time. Behind it come Remember and any number of Draft.
type Predictor interface {
	Program
	// Remember completes the step collected last: next[i] is the token that comes after that of row i. Every
	// position that a sequence keeps must be remembered.
	Remember(step *Step, next []int32, cache Cache) error
	// Draft computes one more token for each span of step, which all have one row. After Remember span i
	// goes on from rows[i] of the step, at its position: it gets the token after next[rows[i]], and tokens is nil.
	// After Draft it goes on from span rows[i] of that, one position later, with the token after tokens[i].
	// hidden are ids that are never drafted, rising.
	Draft(step *Step, rows, tokens []int32, cache Cache, hidden []int32, out []Drafted) error
}

// Drafted is the likeliest token, and the probability that the model gives to it.
type Drafted struct {
	Token       int32
	Probability float32
}

// NoState as the Src of a StateOp resets.
const NoState = -1

// StateOp makes slot Dst a copy of Src, or the state before any token.
type StateOp struct{ Dst, Src int32 }

// Do does the work on a cache.
func (op StateOp) Do(c Cache) {
	if op.Src == NoState {
		c.ResetState(op.Dst)
	} else {
		c.CopyState(op.Dst, op.Src)
	}
}

// Input is one step of a program.
type Input struct {
	Before []StateOp // to be done in order before the pass
	Step   Step
	// Tokens of the step's rows: ids, or Sampled. Those of a draft are ids.
	Tokens []int32
	Rows   []Row // whose next tokens are wanted, in the order of the step's rows
	Cache  Cache
}

// Sampled stands for the token that the step launched before drew for its Rows[i].
func Sampled(i int) int32 { return int32(-1 - i) }

// SampledRow is the row that a token of Sampled stands for; ok is false for an id.
func SampledRow(token int32) (i int, ok bool) { return int(-1 - token), token < 0 }

// Row is one row whose next token is wanted, and how it is drawn. A draw is defined by
// package sample: the same fields there and here mean the same.
type Row struct {
	Row int32 // in the step
	// Logits asks for the row's logits instead: the host draws, and nothing below matters.
	Logits bool

	Sampling Sampling
	Draw     uint64  // number of the draw
	Hidden   []int32 // ids that are never drawn, rising
	// Stops are the ids that end an answer. Unfinished says that this draw is none of them.
	Stops      []int32
	Unfinished bool
	// Prompt and Seen are what penalties look at, empty without one. Seen lacks what the step
	// itself knows: the row's own token where it is Sampled, and the drafted ones up to the row:
	// a span's tokens behind its first wanted row are those of a draft.
	Prompt []int32 // distinct ids of the prompt, rising
	Seen   []Seen

	// Held says that the draw is held to the ids of Allowed, a bit each; others, and ids behind
	// them, are impossible. Trigger, where it is not negative, says that this is so only if the
	// row's own token is that one: a call begins behind it.
	Held    bool
	Trigger int32
	Allowed []uint64
	// Ending is in Allowed's place where the draw that is not held is one of Stops. Nil: never.
	Ending []uint64
}

// Sampling are the parameters of a draw: sample.Params.
type Sampling struct {
	Temperature       float32
	TopP              float32
	MinP              float32
	TopK              int
	PresencePenalty   float32
	FrequencyPenalty  float32
	RepetitionPenalty float32
	Seed              uint64
}

// Seen is a token of the answer so far.
type Seen struct {
	ID, Times int32
	Prompted  bool // the prompt has it too
}

// Output is what a step gave. Collect fills slices that the caller brings: Tokens and Free
// with an entry for each of the step's Rows, Logits with one for each that asked for them.
type Output struct {
	// Tokens are what was drawn. Those behind a row of a draft whose draw is another token than
	// the draft's say nothing.
	Tokens []int32
	// Free is what a held row with Ending would have drawn if it were not held.
	Free   []int32
	Logits [][]float32
}
