package simulate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// stepsVariable in the environment is how many steps TestCluster makes.
const stepsVariable = "CORENODE_SIMULATE_STEPS"

// busyFor is how long a world is under load, and restFor how long it then has to come to rest: the longest
// request, the time of survivors, and what a grant lives.
const busyFor, restFor = 5 * time.Minute, 10 * time.Minute

// newWorld makes nodes, accounts and their clients.
func newWorld(seed uint64, b broken) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 31)), broken: b}
	nodes := 3 + w.rnd.IntN(3)
	w.db = &database{w: w, up: true, members: make([]member, nodes), books: map[*request]*book{}, locks: map[int][]*locker{}}
	for i := range nodes {
		n := &node{w: w, id: i, rate: 1 + (w.rnd.Float64()-0.5)/25, offset: w.around(time.Hour)}
		w.nodes = append(w.nodes, n)
		w.after(w.between(0, time.Second), n.start)
	}
	add := func(busy time.Duration, initial abi.Nano, a account.Account) {
		c := &customer{id: len(w.customers), account: a, price: 1000, busy: busy, initial: initial, balance: initial,
			bucket: limit.NewBucket(a.TokensPerMinute, epoch), open: map[int]*open{}, grants: map[int]*lent{},
			truth: truth{running: map[*request]bool{}, pending: map[*request]bool{}}}
		c.account.ID = fmt.Sprintf("a%d", c.id)
		w.customers = append(w.customers, c)
		w.after(w.between(0, time.Second), func() { w.arrive(c) })
	}
	const rich = 1_000_000_000_000
	add(150*time.Millisecond, rich, account.Account{Concurrency: 5})
	add(60*time.Millisecond, rich, account.Account{Concurrency: 40, TokensPerMinute: 90_000})
	add(100*time.Millisecond, rich, account.Account{TokensPerMinute: 20_000})
	add(120*time.Millisecond, 20_000_000, account.Account{Concurrency: 20})
	add(700*time.Millisecond, 0, account.Account{Concurrency: 2, Unlimited: true})
	add(40*time.Millisecond, rich, account.Account{Concurrency: 60})
	add(400*time.Millisecond, 9_000_000, account.Account{})
	w.after(w.around(faultEvery), w.fail)
	w.topUp(w.customers[3])
	w.topUp(w.customers[6])
	return w
}

// run lets a world go on until it is at rest.
func (w *world) run() {
	for w.now < busyFor && len(w.findings) == 0 && w.step() {
	}
	w.calm = true
	for end := w.now + restFor; w.now < end && len(w.findings) == 0 && w.step(); {
	}
	if len(w.findings) == 0 {
		w.rest()
	}
}

// TestCluster: whatever fails, no account runs more than it may but for what is documented, tokens and
// money are never given twice, every request is settled once, every client is told what the ledger says,
// and nothing is left of a hold or a grant after its time.
func TestCluster(t *testing.T) {
	steps := 100_000
	if testing.Short() {
		steps = 30_000
	}
	if text := os.Getenv(stepsVariable); text != "" {
		var err error
		if steps, err = strconv.Atoi(text); err != nil {
			t.Fatal(stepsVariable, ": ", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all tally
	little := func() bool {
		return min(all.underGrant, all.refused, all.told, all.left, all.kills, all.journaled, all.fenced, all.returned, all.canceled) == 0
	}
	made, worlds := 0, 0
	for ; made < steps || little() && worlds < 5; worlds++ { // one world in two hundred has no kill
		w := newWorld(seed+uint64(worlds), broken{})
		w.run()
		made += w.steps
		all.add(w.tally)
		for _, f := range w.findings {
			t.Errorf("seed %d: %s", seed+uint64(worlds), f)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d steps in %d worlds: %+v", made, worlds, all)
	if little() {
		t.Error("the simulation proves little")
	}
}

// plantedMax is how many worlds a planted fault has to show itself in.
const plantedMax = 40

// TestPlantedFaultsAreFound: the simulation sees each of these faults of the protocol, in a world that is
// sound without it. Without the variable a run tries one of them.
func TestPlantedFaultsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: a fault takes up to some seconds")
	}
	kind := reflect.TypeFor[broken]()
	faults := rand.Perm(kind.NumField())
	if os.Getenv(stepsVariable) == "" {
		faults = faults[:1]
	}
	for _, i := range faults {
		t.Run(kind.Field(i).Name, func(t *testing.T) {
			for seed := range uint64(plantedMax) {
				w := newWorld(seed, faultOf(i))
				w.run()
				if len(w.findings) == 0 {
					continue
				}
				t.Logf("world %d: %s", seed, w.findings[0])
				w = newWorld(seed, broken{})
				if w.run(); len(w.findings) > 0 {
					t.Errorf("world %d, without a fault: %s", seed, w.findings[0])
				}
				return
			}
			t.Errorf("not found in %d worlds", plantedMax)
		})
	}
}

// faultOf plants the i-th fault.
func faultOf(i int) (b broken) {
	*(*bool)(reflect.ValueOf(&b).Elem().Field(i).Addr().UnsafePointer()) = true
	return b
}
