package draft

const (
	// forget is how much of what was seen still counts after one more token: the
	// trust is that of about the latest 1/(1-forget).
	forget = 0.96
	// priorWeight is how many tokens the expectation before the first one counts for.
	priorWeight = 2
)

// kinds tell guesses apart by how many tokens they were found by: the more, the
// better they are. usual is what is expected of one before anything was seen.
var kinds = [...]struct {
	match int // at least
	usual float64
}{{2, 0.2}, {3, 0.3}, {4, 0.45}, {6, 0.6}, {10, 0.75}, {20, 0.85}}

// trust is how often guesses were right, by kind.
type trust [len(kinds)]struct{ right, seen float64 }

func kindOf(match int) int {
	kind := 0
	for kind+1 < len(kinds) && match >= kinds[kind+1].match {
		kind++
	}
	return kind
}

// of is the chance that a token of a guess found by match tokens is right, when
// those before it were.
func (t *trust) of(match int) float64 {
	k := kindOf(match)
	return (t[k].right + priorWeight*kinds[k].usual) / (t[k].seen + priorWeight)
}

func (t *trust) learn(match int, right bool) {
	k := &t[kindOf(match)]
	k.right, k.seen = k.right*forget, k.seen*forget+1
	if right {
		k.right++
	}
}
