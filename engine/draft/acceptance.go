package draft

const (
	// forget is how much of what was seen still counts after one more token. The acceptance is
	// that of about the latest 1/(1-forget).
	forget = 0.96
	// priorWeight is how many tokens the prior counts for.
	priorWeight = 2
)

// kinds tell drafts apart by how many tokens they were found by: the more, the better they are.
// prior is the expected acceptance before anything was seen.
var kinds = [...]struct {
	match int // at least
	prior float64
}{{2, 0.2}, {3, 0.3}, {4, 0.45}, {6, 0.6}, {10, 0.75}, {20, 0.85}}

// tally is how often drafts of one kind were right, with more weight on the latest.
type tally struct{ right, seen float64 }

// chance is that of the next draft. prior is expected without a tally, and counts for weight
// drafts.
func (t tally) chance(prior, weight float64) float64 {
	return (t.right + weight*prior) / (t.seen + weight)
}

func (t *tally) learn(right bool, forget float64) {
	t.right, t.seen = t.right*forget, t.seen*forget+1
	if right {
		t.right++
	}
}

// acceptance is how often drafts were right, by kind.
type acceptance [len(kinds)]tally

func kindOf(match int) int {
	kind := 0
	for kind+1 < len(kinds) && match >= kinds[kind+1].match {
		kind++
	}
	return kind
}

// of is the chance that a token of a draft found by match tokens is right, when
// those before it were.
func (t *acceptance) of(match int) float64 {
	k := kindOf(match)
	return t[k].chance(kinds[k].prior, priorWeight)
}

func (t *acceptance) learn(match int, right bool) { t[kindOf(match)].learn(right, forget) }
