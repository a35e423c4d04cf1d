package kernel

// Program computes steps: copies of states, and the pass. Steps
// are computed in the order of Launch, each with what those before it have left. One goroutine
// calls it.
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
	Tokens []int32 // of the step's rows
	Rows   []Row   // whose next tokens are wanted, in the order of the step's rows
	Cache  Cache
}

// Row is one row whose next token is wanted.
type Row struct {
	Row int32 // in the step
	// Logits asks for the row's logits: the host draws.
	Logits bool
}

// Output is what a step gave. Collect fills slices that the caller brings, one for each of the
// step's Rows that asked for its logits.
type Output struct{ Logits [][]float32 }
