package engine

import (
	"fmt"
	"testing"
)

// TestManySessionsKeepHitting: hundreds of conversations of one turn, each pinned
// and never taken up again, go through a hybrid model that has far fewer
// snapshots. Groups of eight share a system text: the seven later ones hit it, at
// the end as at the beginning, and a conversation of another account that speaks
// up now and then goes on from its last turn.
func TestManySessionsKeepHitting(t *testing.T) {
	const group, conversations = 8, 240
	for _, accounts := range []int{3, 1}[:atMost(2, 1)] {
		o := options(CPU)
		o.Batch.SequencesMax, o.ContextLength = 2, 4096
		e, s := open2(t, o)
		slow := []string{`{"role":"user","content":"` + words(60) + `"}`}
		var heard Handle // pin of the slow conversation
		for n := 0; n < conversations; n += 2 {
			var pair []*answer
			for k := n; k < n+2; k++ {
				number := k / accounts
				_, a := submit(t, s, fmt.Sprint("account", k%accounts), ask(t, e, fmt.Sprintf(
					`{"model":"m","max_tokens":3,"system":"%d %s","messages":[{"role":"user","content":"%d %s"}]}`,
					number/group, words(60), k, words(12))))
				pair = append(pair, a)
			}
			runAll(t, s)
			for i, a := range pair {
				number := (n + i) / accounts
				if u := a.result.Usage; number%group > 1 && u.CacheRead*2 < u.Input() { // the first two may have run side by side
					t.Fatalf("%d accounts: conversation %d of its group, %d in all: %d of %d tokens cached; %+v",
						accounts, number%group, n+i, u.CacheRead, u.Input(), s.pool.Stats())
				}
			}
			if n%64 == 0 {
				heard = s.speakUp(t, e, &slow, heard)
			}
		}
		if st := s.pool.Stats(); st.SnapshotsSkipped > 0 || st.PinsDisplaced == 0 {
			t.Errorf("%d accounts: %+v", accounts, st)
		}
	}
}

// speakUp takes the next turn of a conversation, which must hit its last one.
func (s *Stepper) speakUp(t *testing.T, e *Engine, turns *[]string, old Handle) Handle {
	t.Helper()
	list := ""
	for i, turn := range *turns {
		if i > 0 {
			list += ","
		}
		list += turn
	}
	r := ask(t, e, `{"model":"m","max_tokens":3,"messages":[`+list+`]}`)
	_, a := submit(t, s, "slow", r)
	runAll(t, s)
	if u := a.result.Usage; len(*turns) > 1 && u.CacheRead*2 < u.Input() {
		t.Errorf("turn %d of the slow conversation: %d of %d tokens cached", (len(*turns)+1)/2, u.CacheRead, u.Input())
	}
	s.Release(old)
	*turns = append(*turns, `{"role":"assistant","content":"ok"}`, `{"role":"user","content":"`+words(20)+`"}`)
	return a.result.Handle
}
