package engine

// drafter drafts the next tokens of one sequence: a *draft.Drafter, and in tests
// one that knows the answer.
type drafter interface {
	// Draft returns what may follow all tokens so far, and the chance that a token
	// of it is right when those before it are. The draft is valid until the next call.
	Draft(tokens []int32) (draft []int32, chance float64)
	// Observe says what was sampled after them.
	Observe(sampled []int32)
}

// draftNext hands the scheduler what the sequence may say next.
func (r *run) draftNext() {
	r.fromLayer, r.seq.Draft, r.seq.Chance = false, nil, 0
	if r.drafter != nil {
		r.seq.Draft, r.seq.Chance = r.drafter.Draft(r.seq.Tokens)
	}
}

// Drafts counts the tokens of one kind of draft.
type Drafts struct {
	Drafted  int64 // computed, kept or not
	Accepted int64 // of them, those that were kept
}

func (d *Drafts) count(drafted, kept int) {
	if drafted > 0 {
		d.Drafted += int64(drafted)
		d.Accepted += int64(kept - 1)
	}
}
