package kernel

// Drawer is a Backend whose device draws tokens: what a Program of its models is made of. Up to
// two steps may be submitted and not collected.
type Drawer interface {
	Backend
	// EmbedSampled is Embed of the tokens of a step, Sampled ones among them. It begins the step.
	EmbedSampled(dst Buffer, table Weight, tokens []int32)
	// Draw draws for n of in's Rows, from first on, whose logits are the first rows of logits, vocabulary
	// values each. Rows that ask for their logits get those instead. It changes logits.
	Draw(logits Buffer, vocabulary int, in *Input, first, n int)
	// Likeliest waits for the likeliest tokens that are not hidden, of as many rows of logits as out has. It changes logits.
	Likeliest(logits Buffer, vocabulary int, hidden []int32, out []Drafted)
	// Submit ends a step, for all of in's Rows.
	Submit(in *Input)
	// Collect waits for the step submitted first, as that of a Program does.
	Collect(out *Output)
	// Forget waits until nothing is computed any more, and drops what was not collected.
	Forget()
}
