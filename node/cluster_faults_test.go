package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// roundsVariable in the environment makes TestThreeNodes long.
const roundsVariable = "CORENODE_CLUSTER_ROUNDS"

// clusterRounds is how many faults TestThreeNodes makes, and how long they are:
// CORENODE_CLUSTER_ROUNDS and those of the contract, or a few short ones with a short lease.
func clusterRounds(t *testing.T) (rounds int, times faultTimes) {
	text := os.Getenv(roundsVariable)
	if text == "" {
		const short = 2200 * time.Millisecond
		return 10, faultTimes{lease: 2 * time.Second, pause: short, cut: short, stop: 500 * time.Millisecond}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(roundsVariable, ": ", err)
	}
	return n, faultTimes{lease: 10 * time.Second, pause: 20 * time.Second, cut: 30 * time.Second, stop: 20 * time.Second}
}

// faultTimes are how long the faults of a run are.
type faultTimes struct{ lease, pause, cut, stop time.Duration }

// broken is a stream that ended before its answer did.
func (r *receipt) broken() bool {
	return r.stream && r.status == http.StatusOK && !r.ended && !r.left
}

// servedReceipt is a receipt with how often its node had been killed before and after.
type servedReceipt struct {
	receipt
	killed bool // the node that served it was killed meanwhile
}

// load has clients ask until stop, and returns what they know.
func (c *trio) load(rnd *rand.Rand, accounts []struct{ id, key string }, stop *atomic.Bool) func() []servedReceipt {
	var mu sync.Mutex
	var all []servedReceipt
	var asking sync.WaitGroup
	kills := func() (n [3]int64) {
		for i, m := range c.nodes {
			n[i] = m.kills.Load()
		}
		return n
	}
	for i := range 8 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
		model := fastModel
		if i < 4 {
			model = slowModel
		}
		asking.Go(func() {
			for !stop.Load() {
				who := accounts[rnd.IntN(len(accounts))]
				e := someErrand(rnd, model, who.id, who.key)
				if model == slowModel {
					e.stream, e.maxTokens = true, 20+rnd.IntN(150)
				}
				before := kills()
				r := e.run(c.t, c.h, c.front, moments{})
				mu.Lock()
				all = append(all, servedReceipt{r, kills() != before})
				mu.Unlock()
				if r.status != http.StatusOK {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	return func() []servedReceipt {
		asking.Wait()
		return all
	}
}

// fault makes the i-th fault of a run and returns when it is over. A node that was killed starts meanwhile.
func (c *trio) fault(i int, rnd *rand.Rand, times faultTimes) string {
	if i%5 == 4 {
		c.starting.Wait() // a start needs the database
		postgrestest.Crash()
		time.Sleep(times.stop)
		postgrestest.Recover(c.t)
		return "stop of the database"
	}
	m := c.nodes[rnd.IntN(len(c.nodes))]
	if m.base.Load() == nil {
		c.starting.Wait()
	}
	switch i % 5 {
	case 1:
		c.signal(m, syscall.SIGSTOP)
		time.Sleep(times.pause)
		c.signal(m, syscall.SIGCONT)
		return "pause of " + m.name
	case 2:
		if c.apart != nil && i%10 == 7 {
			return c.pull(m, times.cut)
		}
		m.link.Cut()
		time.Sleep(times.cut)
		m.link.Heal()
		return "cut of " + m.name
	default:
		c.kill(m)
		c.starting.Go(func() { c.start(m) })
		return "kill of " + m.name
	}
}

// pull pulls a node's cable for a time: what is sent is lost, and no end of a connection is told.
func (c *trio) pull(m *trioNode, long time.Duration) string {
	if err := c.apart.cut(m.number); err != nil {
		c.t.Error(err)
	}
	time.Sleep(long)
	if err := c.apart.heal(m.number); err != nil {
		c.t.Error(err)
	}
	// For a moment there is no route yet, and a node that is started then ends at once.
	waitFor(c.t, m.name+" to reach the database again", func() bool { return c.apart.reaches(m.number, m.through) })
	return "pulled cable of " + m.name
}

// liveApart: each node has a network of its own, whose only way to the database is one that can be cut without
// a word. Where that is not permitted the other cases run on the network of this machine.
func (c *trio) liveApart(t *testing.T) {
	if c.apart == nil {
		t.Skipf("skipped: nodes have no networks of their own, so no cable is pulled: %v", c.alone)
	}
	at, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range c.nodes {
		if c.apart.reaches(i, at.Host) {
			t.Errorf("%s reaches the database by another way", m.name)
		}
		waitFor(t, m.name+" to reach the database", func() bool { return c.apart.reaches(i, m.through) })
	}
	last := c.nodes[len(c.nodes)-1]
	if err := c.apart.cut(last.number); err != nil {
		t.Fatal(err)
	}
	if c.apart.reaches(last.number, last.through) {
		t.Error("the database is reached without a cable")
	}
	if err := c.apart.heal(last.number); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the database to be reached again", func() bool { return c.apart.reaches(last.number, last.through) })
}

// outliveFaults: nodes are killed, stopped and cut off from the database, and that ends at once, while clients
// ask. After each fault the ledger is sound, nothing is left of what did not end, every client that was told a
// charge pays just that, and no stream broke whose node was not killed.
func (c *trio) outliveFaults(t *testing.T, rounds int, times faultTimes) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d rounds, seed %d", rounds, seed)
	rnd := rand.New(rand.NewPCG(seed, 31))
	var accounts []struct{ id, key string }
	for i, a := range []admin.NewAccount{{Concurrency: 40}, {Concurrency: 4}, {TokensPerMinute: 60_000}, {Unlimited: true}} {
		money := abi.Nano(1e12)
		a.Name = fmt.Sprint("customer-", i)
		if !a.Unlimited {
			a.Balance = admin.Amount{NanoUSD: &money}
		}
		id, key := c.account(a)
		accounts = append(accounts, struct{ id, key string }{id, key})
	}
	told, broken, all := 0, 0, 0
	var receipts []receipt
	for i := 0; i < rounds && !t.Failed(); i++ {
		var stop atomic.Bool
		wait := c.load(rnd, accounts, &stop)
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		what := c.fault(i, rnd, times)
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		stop.Store(true)
		for _, r := range wait() {
			if all++; r.told {
				told++
			}
			if r.broken() {
				broken++
				if !r.killed {
					t.Errorf("a stream broke that no kill explains: %s of %s, after %d events, node %s; %+v; logged: %s", r.id, r.path, r.events,
						r.header.Get(servedBy), r.errand, c.logged(r.id))
				}
			}
			receipts = append(receipts, r.receipt)
		}
		if i == rounds-1 || times.lease > 5*time.Second { // of short rounds only the last one comes to rest
			c.starting.Wait()
			c.rest(receipts)
			receipts = nil
		}
		t.Logf("round %d: %s", i, what)
	}
	t.Logf("%d requests: %d told, %d streams broken by kills; %d holds came after their grant", all, told, broken,
		c.number(`SELECT coalesce(sum(overshot), 0) FROM balances`))
	if told == 0 {
		t.Error("nothing was shown")
	}
}
