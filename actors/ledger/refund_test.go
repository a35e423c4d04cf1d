package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// books are what the store's promises come to for settlements and refunds: each
// is there once, and a refund needs its settlement.
type books struct {
	charged, refunded map[string]abi.Nano
}

var errNothing = errors.New("nothing to refund")

// write takes all of a transaction or nothing.
func (b *books) write(entries []account.Entry, rejects string) error {
	for i, e := range entries {
		settled := func(o account.Entry) bool { return o.Kind == account.Settlement && o.RequestID == e.RequestID }
		switch {
		case e.RequestID == rejects && !e.Refund:
			return errNothing
		case e.Refund && !slices.ContainsFunc(entries[:i], settled):
			if _, ok := b.charged[e.RequestID]; !ok {
				return errNothing
			}
		}
	}
	for _, e := range entries {
		_, settled := b.charged[e.RequestID]
		_, refunded := b.refunded[e.RequestID]
		switch {
		case e.Kind == account.Settlement && !settled:
			b.charged[e.RequestID] = -e.Amount
		case e.Refund && !refunded:
			b.refunded[e.RequestID] = b.charged[e.RequestID]
		}
	}
	return nil
}

// TestWithheldWalk withholds settlements at every moment of their way: while they
// wait, are being committed, failed with or without becoming durable, or were rejected.
// What is withheld costs nothing in the end, the rest exactly its charge, and
// whoever is told of a refund finds it in the store.
func TestWithheldWalk(t *testing.T) {
	for seed := range uint64(3000) {
		walkWithheld(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func walkWithheld(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	j := &journal{rowsMax: 100, batchMax: 1 + rnd.IntN(4)}
	store := &books{map[string]abi.Nano{}, map[string]abi.Nano{}}
	answers := map[string]Commit{} // of those that were withheld
	withheld := map[string]bool{}
	rejects := fmt.Sprint(rnd.IntN(8))
	left := 6
	for steps := 0; left > 0 || len(j.waiting)+len(j.committing)+len(j.late) > 0; steps++ {
		calm := steps > 60
		switch n := rnd.IntN(5); {
		case n == 0 && left > 0:
			left--
			e := account.Entry{Kind: account.Settlement, RequestID: fmt.Sprint(left), Amount: -abi.Nano(left + 1)}
			j.add(item{entry: e, must: true})
		case n == 1 && left < 6:
			id := fmt.Sprint(left + rnd.IntN(6-left))
			if withheld[id] || id == rejects && store.charged[id] == 0 && !waits(j, id) { // it was given up: its request knows
				continue
			}
			withheld[id] = true
			r := &refund{account.Entry{Kind: account.Adjustment, RequestID: id, Refund: true}, func(c Commit) { answers[id] = c }}
			if j.withhold(r) {
				r.done(Commit{Withdrawn: true})
			}
		default:
			commitOnce(j, store, rejects, rnd, calm)
		}
	}
	for id := range 6 {
		id := fmt.Sprint(id)
		net, want := store.charged[id]-store.refunded[id], abi.Nano(0)
		if !withheld[id] && id != rejects {
			fmt.Sscan(id, &want)
			want++
		}
		if net != want {
			t.Errorf("request %s, withheld %t, rejected %t: costs %d, want %d", id, withheld[id], id == rejects, net, want)
		}
		if c, ok := answers[id]; withheld[id] && (!ok || c.Err != nil && !c.Withdrawn) {
			t.Errorf("request %s: its refund was answered %t, %+v", id, ok, c)
		}
	}
}

// waits says whether the settlement of a request is in the queue or being committed.
func waits(j *journal, id string) bool {
	is := func(it item) bool { return it.entry.RequestID == id && it.entry.Kind == account.Settlement }
	return slices.ContainsFunc(j.waiting, is) || slices.ContainsFunc(j.committing, is)
}

// commitOnce is one transaction of the walk: it succeeds, fails, or fails although its
// rows are in the store. Between its begin and its end other steps may come.
func commitOnce(j *journal, store *books, rejects string, rnd *rand.Rand, calm bool) {
	if len(j.committing) == 0 {
		j.take()
		return
	}
	fate := rnd.IntN(3)
	var err error
	if fate != 1 || calm {
		err = store.write(batchOf(j.committing).Rows, rejects)
	}
	if err == nil && (fate == 0 || calm) {
		for _, it := range j.succeed() {
			answer(it, Commit{Seq: 1})
		}
		return
	}
	if it, alone := (item{}), false; err != nil {
		if it, alone = j.setAside(); alone {
			answer(it, Commit{Err: rejected(err), Rejected: true})
			return
		}
	}
	j.fail()
}

// TestWithhold: a settlement whose answer is withheld while it waits is made free;
// one that the store or the spill journal has is refunded behind it.
func TestWithhold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{delay: time.Second}
		_, ref := start(t, Config{}, m)
		withhold := func(id string) chan Commit {
			done := make(chan Commit, 2)
			e := account.Entry{Kind: account.Adjustment, AccountID: "a", RequestID: id, Refund: true}
			if err := ref.Send(Withhold{Refund: e, Done: func(c Commit) { done <- c }}); err != nil {
				t.Fatal(err)
			}
			return done
		}
		var settled []chan Commit
		for _, id := range []string{"flies", "waits", "stays"} {
			a, done := row(account.Settlement, id, -7)
			_ = ref.Send(a)
			settled = append(settled, done)
			synctest.Wait() // the first is being committed, the others wait
		}
		waited, flew := withhold("waits"), withhold("flies")
		synctest.Wait()
		if len(waited) != 1 || len(flew) != 0 {
			t.Fatalf("answers %d and %d: want the waiting one's at once, the other's when it is durable", len(waited), len(flew))
		}
		if c := <-waited; !c.Withdrawn || c.Err != nil {
			t.Errorf("the waiting one: %+v", c)
		}
		time.Sleep(time.Minute)
		if c := <-flew; c.Withdrawn || c.Err != nil || c.Seq != 2 {
			t.Errorf("the one being committed: %+v", c)
		}
		if c := <-withhold("stays"); c.Withdrawn || c.Err != nil || c.Seq != 3 {
			t.Errorf("the durable one: %+v", c)
		}
		for i, want := range []uint64{1, 2, 2} {
			if c := <-settled[i]; c.Err != nil || c.Seq != want {
				t.Errorf("settlement %d: %+v, want commit %d", i, c, want)
			}
		}
		if m.sum != -14 || m.count(account.Adjustment, "waits") != 0 || m.count(account.Adjustment, "flies") != 1 {
			t.Errorf("charged %d; rows %v", m.sum, m.rows)
		}
	})
}
