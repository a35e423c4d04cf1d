package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/kv"
)

// crowd sends short conversations through a scheduler, each pinned at its end and
// never taken up again; groups of eight in a row share a beginning.
type crowd struct {
	s        *Scheduler
	now      time.Time
	accounts int
	sent     int
	running  []*Sequence
	// by quarters of all: prompt tokens, and those that were cached.
	input, cached [4]int
}

const (
	crowdSize, crowdGroup   = 1600, 8
	crowdShared, crowdOwn   = 192, 64
	crowdOutput, crowdAbout = 8, 6 // tokens of an answer; conversations at once
)

func (c *crowd) send(t *testing.T) {
	t.Helper()
	account := fmt.Sprint("account", c.sent%c.accounts)
	random := rand.New(rand.NewPCG(uint64(c.sent%c.accounts), uint64(c.sent/c.accounts/crowdGroup)))
	q := &Sequence{Namespace: account, Account: account, Max: crowdOutput,
		SnapshotAt: []int{crowdShared, crowdShared + crowdOwn - 8}}
	for i := range crowdShared + crowdOwn {
		if i == crowdShared {
			random = rand.New(rand.NewPCG(99, uint64(c.sent)))
		}
		q.Tokens = append(q.Tokens, int32(random.IntN(1000)))
	}
	cached, err := c.s.Add(q, c.now)
	if err != nil {
		t.Fatal(err)
	}
	quarter := c.sent * 4 / crowdSize
	c.input[quarter] += len(q.Tokens)
	c.cached[quarter] += cached
	c.sent++
	c.running = append(c.running, q)
}

// step computes one step; who is done makes room for the next conversation.
func (c *crowd) step() {
	p := c.s.Plan(c.now)
	c.now = c.now.Add(10 * time.Millisecond)
	c.s.Commit(p)
	for _, it := range p.Items {
		if !it.Logits {
			continue
		}
		c.s.Append(it.Seq, 7)
		if q := it.Seq; len(q.Tokens) == q.Prompt+q.Max {
			c.s.Finish(q, c.now, 1<<40)
			c.running = slices.DeleteFunc(c.running, func(r *Sequence) bool { return r == q })
		}
	}
}

// TestSessionsThatNeverComeBackLeaveTheCache: the share of the input that is
// cached is in the last quarter of many sessions what it is in the first, and near
// what could be: all shared beginnings but a group's first, and those that
// arrive while the first is computed.
func TestSessionsThatNeverComeBackLeaveTheCache(t *testing.T) {
	const ideal = float64(crowdShared) / (crowdShared + crowdOwn) * (crowdGroup - 1) / crowdGroup
	for name, pc := range map[string]kv.Config{
		"plain":  {Pages: 512},
		"hybrid": {Pages: 4096, States: 72, SnapshotsMax: 64, StateBytes: 1000},
	} {
		for _, accounts := range []int{1, 4} {
			pc.PageTokens, pc.PageBytes = 16, 100
			pool, err := kv.New(pc)
			if err != nil {
				t.Fatal(err)
			}
			s, err := New(Config{StepTokensMax: 512, SequencesMax: 8, QueueMax: 64, DecodeSnapshotTokens: 64}, pool)
			if err != nil {
				t.Fatal(err)
			}
			c := &crowd{s: s, accounts: accounts, now: time.Unix(1_000_000, 0)}
			for c.sent < crowdSize || len(c.running) > 0 {
				for c.sent < crowdSize && len(c.running) < crowdAbout {
					c.send(t)
				}
				c.step()
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			for quarter := range 4 {
				share := float64(c.cached[quarter]) / float64(c.input[quarter])
				if share < 0.8*ideal {
					t.Errorf("%s, %d accounts: quarter %d: %.2f of the input was cached, %.2f could be; %+v",
						name, accounts, quarter, share, ideal, pool.Stats())
				}
			}
			if st := pool.Stats(); st.SnapshotsSkipped > 0 {
				t.Errorf("%s, %d accounts: %+v", name, accounts, st)
			}
		}
	}
}
