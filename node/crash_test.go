package main

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"corenode/node/admin"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
)

// crashRounds is how often TestCrash kills the node: CORENODE_CRASH_ROUNDS, or a
// few, so that the usual run of all tests stays short.
func crashRounds(t *testing.T) int {
	if text := os.Getenv("CORENODE_CRASH_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal("CORENODE_CRASH_ROUNDS: ", err)
		}
		return n
	}
	if testing.Short() {
		return 1
	}
	return 3
}

// think lets a customer take a moment between two requests, but in a long run: there all of them ask as fast as they can.
func think(rnd *rand.Rand) {
	if os.Getenv("CORENODE_CRASH_ROUNDS") == "" {
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
	}
}

// queuedMax is how many tokens of a stream may be computed and not yet written:
// the queue before its writer, and what one step adds.
const queuedMax = 300

// crash is a run of TestCrash.
type crash struct {
	t     *testing.T
	rnd   *rand.Rand
	node  *childNode
	books *books

	customers []struct{ id, key string }
	rich      string // an account that no limit stops

	mu       sync.Mutex
	receipts []receipt
	acked    map[string]abi.Nano // top-ups that were answered, by note
	unsure   map[string]topUp    // those that were not

	toll tally
}

type topUp struct {
	account string
	amount  abi.Nano
}

// tally is what the rounds saw; a run that saw too little has shown nothing.
type tally struct {
	requests, told, cutOff, left, refused int
	toldCharge                            big.Int
	crashed, crashedFree, checkpointed    int
	lateSettled                           int // settled, but the client was not told
	unlinked                              int // settled requests whose clients never got an answer's first byte
	freeInFlight                          int // in flight without a row
	late, withdrawn, refunded             int // 504; withheld, and free before or after its settlement was durable
	acked, replayed                       int // top-ups
	overMax, underMax                     int // tokens charged beyond what arrived, and the other way round
}

// shown says whether there was something to prove: a kill may fall where nothing streams.
func (n *tally) shown() bool { return n.told > 0 && n.cutOff > 0 && n.crashed > 0 }

// moreRoundsMax is how many rounds follow while nothing was shown.
const moreRoundsMax = 10

// TestCrash kills a node again and again under mixed load, at random points and
// right after chosen ones, also while its database stalls, and proves after each
// start that every charge a client was told of is in the ledger to the nano-dollar,
// that who got an error paid nothing, or has it back, that what was in flight pays at
// most what had left and was waiting to leave, and that the books are closed.
func TestCrash(t *testing.T) {
	rounds := crashRounds(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d rounds, seed %d", rounds, seed)
	c := &crash{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), books: newBooks(),
		node: newChild(t, filepath.Join(t.TempDir(), "data"), "nonstreaming_timeout: 700ms"), acked: map[string]abi.Nano{}, unsure: map[string]topUp{}}
	c.node.start()
	c.open()
	for round := 0; round < rounds || !c.toll.shown() && round < rounds+moreRoundsMax; round++ {
		c.round(round)
		if t.Failed() {
			t.Fatalf("round %d failed; the node logged:\n%s", round+1, tailOf(c.node.log()))
		}
	}
	n := &c.toll
	t.Logf("%d requests: %d told, together %v nano-dollars; %d cut off, %d left, %d refused", n.requests, n.told, &n.toldCharge, n.cutOff, n.left, n.refused)
	t.Logf("in flight: %d settled at a checkpoint, %d free (%d of them without a row), %d settled but not told, %d unknown to their clients",
		n.checkpointed, n.crashedFree+n.freeInFlight, n.freeInFlight, n.lateSettled, n.unlinked)
	t.Logf("a killed stream was charged at most %d tokens more and %d fewer than arrived; %d rows; %d top-ups, %d of them sent again",
		n.overMax, n.underMax, c.books.last, n.acked, n.replayed)
	t.Logf("%d were too late (504); withheld: %d before they were settled, %d refunded", n.late, n.withdrawn, n.refunded)
	if !n.shown() {
		t.Error("nothing was told, cut off or settled after a crash: nothing was shown")
	}
}

func tailOf(log string) string { return log[max(0, len(log)-4096):] }

// open makes the accounts: one without limits, one with tight ones, one with
// little money, one that owes.
func (c *crash) open() {
	money := func(n abi.Nano) admin.Amount { return admin.Amount{NanoUSD: &n} }
	for _, a := range []admin.NewAccount{
		{Name: "rich", Balance: money(1_000_000_000_000)},
		{Name: "limited", Balance: money(1_000_000_000_000), Concurrency: 3, TokensPerMinute: 200_000},
		{Name: "poor", Balance: money(3_000_000)},
		{Name: "owes", Unlimited: true},
	} {
		id, key := c.node.account(a)
		c.customers = append(c.customers, struct{ id, key string }{id, key})
	}
	c.rich = c.customers[0].id
}

// Moments after which a round kills.
const (
	atRandom = iota
	inStall
	afterAsking
	afterFirstOutput
	afterTelling
	afterTopUp
	momentsEnd
)

// round loads the node, kills it, starts it again and checks.
func (c *crash) round(round int) {
	moment := round % momentsEnd
	shot := &trigger{left: int64(1 + c.rnd.IntN(150)), fired: make(chan struct{})}
	switch moment {
	case atRandom:
		shot.left = 20
	case inStall:
		shot.left = 1
	case afterTopUp, afterFirstOutput:
		shot.left = int64(1 + c.rnd.IntN(8))
	}
	on := func(m int) func() {
		if m == moment || m == afterTelling && moment == atRandom { // which begins when there is load
			return shot.pull
		}
		return nil
	}
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer h.CloseIdleConnections()
	var dead atomic.Bool
	var load sync.WaitGroup
	for i := range 16 {
		rnd := rand.New(rand.NewPCG(c.rnd.Uint64(), uint64(i)))
		model := fastModel
		if i < 5 { // long streams, few enough for the others to commit all the time
			model = slowModel
		}
		load.Go(func() {
			for !dead.Load() {
				who := c.customers[rnd.IntN(len(c.customers))]
				r := someErrand(rnd, model, who.id, who.key).run(c.t, h, c.node.base,
					moments{on(afterAsking), on(afterFirstOutput), on(afterTelling)})
				c.mu.Lock()
				c.receipts = append(c.receipts, r)
				c.mu.Unlock()
				if r.status == 0 && !r.left {
					return // the node is gone
				}
				think(rnd)
			}
		})
	}
	load.Go(func() { c.topUps(round, &dead, on(afterTopUp)) })
	if moment == inStall {
		rnd := rand.New(rand.NewPCG(c.rnd.Uint64(), 99))
		load.Go(func() { stall(c.t, c.node.data, rnd, &dead, shot.pull) })
	}
	c.wait(moment, shot)
	c.node.kill()
	dead.Store(true)
	load.Wait()

	if c.rnd.IntN(4) == 0 { // a crash while it recovers from one
		c.node.startAndKill(time.Duration(c.rnd.IntN(2000)) * time.Millisecond)
	}
	c.node.start()
	c.check()
}

// stall takes the database's write lock from the node, now and then, for longer
// than an answer in one piece may wait for its row, and sometimes for longer than the
// node waits before it turns to its spill journal. midway is called in the last one.
func stall(t *testing.T, data string, rnd *rand.Rand, dead *atomic.Bool, midway func()) {
	db, err := sqlite3.Open(filepath.Join(data, sqlite.DatabaseName))
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	pause := func(atLeast, more int) {
		for end := time.Now().Add(time.Duration(atLeast+rnd.IntN(more)) * time.Millisecond); time.Now().Before(end) && !dead.Load(); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for left := 1 + rnd.IntN(3); left > 0 && !dead.Load(); {
		pause(300, 500)
		if db.Exec(`BEGIN IMMEDIATE`) != nil {
			continue // the node writes
		}
		pause(800, 1000)
		if left--; left == 0 {
			midway()
		}
		pause(200, 1500)
		if err := db.Exec(`ROLLBACK`); err != nil {
			t.Errorf("the stall does not end: %v", err)
		}
	}
}

// trigger fires at the n-th time it is pulled.
type trigger struct {
	mu    sync.Mutex
	left  int64
	fired chan struct{}
}

func (s *trigger) pull() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		close(s.fired)
	}
}

// wait returns when it is time to kill.
func (c *crash) wait(moment int, shot *trigger) {
	pause := time.Duration(c.rnd.IntN(3000)) * time.Millisecond
	if moment != atRandom { // most requests begin and end with a commit of the ledger: one is likely to run now or soon
		pause = pause / 1000 * time.Duration(c.rnd.IntN(2))
	}
	select {
	case <-shot.fired:
		time.Sleep(pause)
	case <-time.After(10 * time.Second):
		c.t.Logf("moment %d did not come", moment)
	}
}

// topUps adds money until the node is dead.
func (c *crash) topUps(round int, dead *atomic.Bool, answered func()) {
	for n := 0; !dead.Load(); n++ {
		key := fmt.Sprintf("round %d, %d", round, n)
		up := topUp{c.customers[n%len(c.customers)].id, abi.Nano(1_000_000 + n)}
		c.mu.Lock()
		c.unsure[key] = up
		c.mu.Unlock()
		if c.topUp(key, up) != nil {
			return // the node is gone; it is sent again when it is back
		}
		happen(answered)
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *crash) topUp(key string, up topUp) error {
	_, err := c.node.admin.TopUp(up.account, admin.TopUp{Amount: admin.Amount{NanoUSD: &up.amount}, Note: key, IdempotencyKey: key})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.unsure, key)
		c.acked[key] = up.amount
		c.toll.acked++
	}
	return err
}

// check looks at the books of a node that was started again.
func (c *crash) check() {
	t := c.t
	t.Helper()
	fresh := c.books.read(t, c.node.admin)
	c.books.closed(t, c.node.admin)
	byID := map[string]*receipt{}
	unanswered := map[string]int{} // by account
	for i := range c.receipts {
		r := &c.receipts[i]
		c.toll.requests++
		if r.id == "" {
			unanswered[r.account]++
			continue
		}
		byID[r.id] = r
		c.checkReceipt(r)
	}
	for _, e := range fresh {
		if e.Reason == "crashed" {
			c.toll.crashed++
		}
		r := byID[e.RequestID]
		if r == nil {
			c.toll.unlinked++
			unanswered[e.AccountID]--
			if unanswered[e.AccountID] < 0 || e.Reason == "crashed" && e.Usage.Output > queuedMax {
				t.Errorf("row %+v belongs to no request that was asked", e)
			}
		}
		withheld := e.Reason == "error" && e.AmountNanoUSD == 0 && *e.Usage == (admin.Usage{})
		if withheld {
			c.toll.withdrawn++
		}
		if c.books.refunds[e.RequestID] != 0 {
			c.toll.refunded++
		}
		if !costs(e.Model, e) || e.Provisional || e.Reason == "error" && !withheld {
			t.Errorf("row %+v with usage %+v: not what its usage costs", e, *e.Usage)
		}
	}
	c.receipts = nil
	c.checkTopUps()
}

// checkReceipt holds what a client knows of its request against the ledger.
func (c *crash) checkReceipt(r *receipt) {
	e, settled := c.books.settled[r.id]
	if settled && (e.AccountID != r.account || e.Model != r.model) {
		c.t.Errorf("row %+v is not of %+v", e, r.errand)
	}
	switch {
	case r.told:
		c.toll.told++
		c.checkTold(r, e, settled)
	case r.status == http.StatusGatewayTimeout:
		c.toll.late++
		if settled && e.Reason != "cancelled" && e.AmountNanoUSD != 0 {
			c.t.Errorf("too late, and charged: %+v", e)
		}
	case r.status != http.StatusOK || r.failure != "":
		c.toll.refused++
		if e.AmountNanoUSD+c.books.refunds[r.id] != 0 && r.deltas == 0 {
			c.t.Errorf("refused with %d (%s) and charged: %+v, refunded %d", r.status, r.failure, e, c.books.refunds[r.id])
		}
	case r.left:
		c.toll.left++
	default:
		c.toll.cutOff++
		c.checkCutOff(r, e, settled)
	}
}

// checkTold: the client knows its usage, so it knows its charge.
func (c *crash) checkTold(r *receipt, e admin.Entry, settled bool) {
	u := r.usage
	want := priceOf(r.model, int64(u.input-u.cached), int64(u.cached), int64(u.output))
	c.toll.toldCharge.Add(&c.toll.toldCharge, want)
	if !settled || e.Reason != "finished" || c.books.refunds[r.id] != 0 || want.Cmp(big.NewInt(-int64(e.AmountNanoUSD))) != 0 ||
		e.Usage.InputUncached != int64(u.input-u.cached) || e.Usage.CacheRead != int64(u.cached) || e.Usage.Output != int64(u.output) {
		c.t.Errorf("request %s was told %+v, which is %d; its row (%t) is %+v, usage %+v", r.id, u, want, settled, e, e.Usage)
	}
}

// checkCutOff: the kill ended the answer of a client that went on reading.
func (c *crash) checkCutOff(r *receipt, e admin.Entry, settled bool) {
	if !settled {
		c.toll.freeInFlight++
		if r.events > 0 {
			c.t.Errorf("request %s: %d events had left before its hold was durable", r.id, r.events)
		}
		return
	}
	if e.Reason == "finished" || e.Reason == "cancelled" {
		c.toll.lateSettled++
	} else if e.AmountNanoUSD == 0 {
		c.toll.crashedFree++
	} else {
		c.toll.checkpointed++
	}
	if !r.stream {
		return // it has a settlement that nobody was told of, or is free
	}
	charged, arrived := int(e.Usage.Output), r.deltas
	if charged > arrived+max(r.busiest, queuedMax) || e.Usage.InputUncached+e.Usage.CacheRead > int64(r.usage.input) && r.usage.input > 0 {
		c.t.Errorf("request %s: %d tokens arrived, %d in the busiest second; charged is %+v, %s", r.id, arrived, r.busiest, *e.Usage, e.Reason)
	}
	if e.Reason == "crashed" && e.AmountNanoUSD != 0 {
		c.toll.overMax = max(c.toll.overMax, charged-arrived)
		c.toll.underMax = max(c.toll.underMax, arrived-charged)
	}
}

// checkTopUps: what was answered is there, once; what was not answered is there
// after it was sent again, once.
func (c *crash) checkTopUps() {
	for key, up := range c.unsure {
		c.toll.replayed++
		if err := c.topUp(key, up); err != nil {
			c.t.Errorf("top-up %q again: %v", key, err)
		}
	}
	c.books.read(c.t, c.node.admin)
	for key, amount := range c.acked {
		if c.books.topUps[key] != amount {
			c.t.Errorf("top-up %q of %d: the ledger has %d", key, amount, c.books.topUps[key])
		}
	}
	if n := len(c.books.topUps); n != len(c.acked) {
		c.t.Errorf("%d top-ups were made, the ledger has %d", len(c.acked), n)
	}
}
