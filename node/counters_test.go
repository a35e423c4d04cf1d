package main

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/node/admin"
	"corenode/wasm/abi"
)

// freeLimit is how many tokens of a month are free in these tests.
const freeLimit = 60_000

// takenOf is what a row took of the counter of the example, by period.
func takenOf(e admin.Entry) (n int64, period string) {
	for _, c := range e.Counters {
		if c.Name == "free-tier-c/tokens" && c.Limit == freeLimit {
			n, period = n+c.Amount, c.Period
		}
	}
	return n, period
}

// billedBy says whether a settlement charges what its usage costs without the tokens that it
// took, input first: the policy of the example, computed once more.
func billedBy(model string, e admin.Entry) bool {
	left, _ := takenOf(e)
	paid := [3]int64{e.Usage.InputUncached + e.Usage.CacheWrite, e.Usage.CacheRead, e.Usage.Output}
	for i := range paid {
		free := min(paid[i], left)
		paid[i], left = paid[i]-free, left-free
	}
	return left == 0 && priceOf(model, paid[0], paid[1], paid[2]).Cmp(big.NewInt(-int64(e.AmountNanoUSD))) == 0
}

// TestFreeTier: the first tokens of a month are free, for an account without money too; those
// after them are paid. What is used is shown, a refund gives it back, a charge is replayed.
func TestFreeTier(t *testing.T) {
	n, base, _, operator := startWithModules(t, instantModels)
	activate(t, operator, "billing-tier-c", `{"tokens": 100}`)
	made, err := operator.CreateAccount(admin.NewAccount{Name: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(most int) (status int, id string) {
		status, _, id = wholeChat(t, base, made.Key, fmt.Sprintf(
			`{"model":"core-1.1-mini","max_completion_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, most))
		return status, id
	}
	used := int64(0)
	var first string
	for range 50 {
		status, id := ask(3)
		if status == http.StatusPaymentRequired {
			break // what is left does not cover another one
		}
		if status != http.StatusOK {
			t.Fatal("status", status)
		}
		first = id
		e, err := n.store.Settlement(id)
		if err != nil || e.Amount != 0 || len(e.Counters) != 1 || e.Counters[0].Amount != e.Usage.Input()+e.Usage.Output || e.Provisional {
			t.Fatalf("%+v, %v", e, err)
		}
		used += e.Counters[0].Amount
		if again, err := operator.Replay(id); err != nil || !again.Same {
			t.Errorf("replayed: %+v, %v", again, err)
		}
	}
	shown, err := operator.Account(made.ID)
	if err != nil || len(shown.Counters) != 1 || shown.Counters[0].Used != used || shown.Counters[0].Held != 0 || used == 0 || used > 100 {
		t.Fatalf("%+v, %v; %d are used", shown.Counters, err, used)
	}
	if status, _ := ask(3); status != http.StatusPaymentRequired {
		t.Errorf("beyond the free tier: %d", status)
	}
	if _, err := operator.Refund(first, "a ticket"); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(3); status != http.StatusOK {
		t.Errorf("after a refund of the tokens: %d", status)
	}
	amount := abi.Nano(1_000_000_000)
	if _, err := operator.TopUp(made.ID, admin.TopUp{Amount: admin.Amount{NanoUSD: &amount}}); err != nil {
		t.Fatal(err)
	}
	if status, id := ask(40); status != http.StatusOK {
		t.Errorf("with money: %d", status)
	} else if e, err := n.store.Settlement(id); err != nil || e.Amount >= 0 {
		t.Errorf("beyond the free tier: %+v, %v", e, err)
	}
	if v, err := operator.VerifyLedger(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestCrashCounters kills a node under load whose billing has a free tier, and proves after
// each start that no account got more than is free, that what it used is the sum of what its
// rows took, that every charge is what its usage costs without that, and that at the end
// all of it is used up: nothing is forgotten, nothing forgiven.
func TestCrashCounters(t *testing.T) {
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	c := newChild(t, filepath.Join(t.TempDir(), "data"), "nonstreaming_timeout: 20s")
	c.start()
	m := admin.NewModule{Wasm: example(t, "billing-tier-c"), Config: fmt.Appendf(nil, `{"tokens": %d}`, freeLimit)}
	info, err := c.admin.LoadModule(m)
	if err == nil {
		info, err = c.admin.ActivateModule(info.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	amount := abi.Nano(1_000_000_000_000)
	who := map[string]string{} // keys by account
	for _, a := range []admin.NewAccount{{Name: "rich", Balance: admin.Amount{NanoUSD: &amount}}, {Name: "guest"}, {Name: "owes", Unlimited: true}} {
		id, key := c.account(a)
		who[id] = key
	}
	b, crashed := newBooks(), 0
	for round := range crashRounds(t) + 1 {
		loadFor(t, c, rnd, who, 1500*time.Millisecond)
		c.kill()
		c.start()
		ready(t, c, info.Digest)
		for _, e := range b.read(t, c.admin) {
			if !billedBy(e.Model, e) || e.Provisional {
				t.Errorf("round %d: row %+v, usage %+v", round, e, e.Usage)
			}
			if e.Reason == "crashed" {
				crashed++
			}
		}
		b.closed(t, c.admin)
		checkUsed(t, c, b, who)
	}
	// What is left is used up to the last token by whoever can pay for more.
	h := &http.Client{}
	for id, key := range who {
		account, err := c.admin.Account(id)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 200 && account.Name != "guest" && (len(account.Counters) == 0 || account.Counters[0].Used < freeLimit); i++ {
			e := errand{account: id, key: key, path: "/v1/messages", model: fastModel, maxTokens: 8,
				prompt: strings.Repeat("the same words again and again. ", 400)}
			if r := e.run(t, h, c.base, moments{}); r.status != http.StatusOK {
				t.Fatalf("%+v", r)
			}
			if account, err = c.admin.Account(id); err != nil {
				t.Fatal(err)
			}
		}
		if account.Name == "guest" && account.BalanceNanoUSD != 0 {
			t.Errorf("the guest owes %d", account.BalanceNanoUSD)
		}
		if account.Name != "guest" && account.Counters[0].Used != freeLimit {
			t.Errorf("%s used %+v, %d are free", account.Name, account.Counters, freeLimit)
		}
	}
	b.read(t, c.admin)
	b.closed(t, c.admin)
	checkUsed(t, c, b, who)
	t.Logf("%d settlements, %d of them after a crash", len(b.settled), crashed)
	if crashed == 0 {
		t.Error("no request was settled after a crash: nothing was shown")
	}
}

// loadFor asks for answers from several sides until the time is over, and leaves those that run.
func loadFor(t *testing.T, c *childNode, rnd *rand.Rand, who map[string]string, d time.Duration) {
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var over atomic.Bool
	var running sync.WaitGroup
	for id, key := range who {
		for i := range 4 {
			rnd := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
			running.Go(func() {
				for !over.Load() {
					model := []string{fastModel, fastModel, slowModel}[rnd.IntN(3)]
					someErrand(rnd, model, id, key).run(t, h, c.base, moments{})
					think(rnd)
				}
			})
		}
	}
	time.Sleep(d)
	t.Cleanup(running.Wait) // they end with the node
	t.Cleanup(h.CloseIdleConnections)
	over.Store(true)
}

// ready waits until the operator's module serves again: what ships charges provisionally before.
func ready(t *testing.T, c *childNode, digest string) {
	t.Helper()
	for range 600 {
		all, err := c.admin.Modules()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.Digest == digest && m.State == extensions.StateActive {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the module does not come back")
}

// checkUsed: what the node shows is what the rows took, and no more than the limit.
func checkUsed(t *testing.T, c *childNode, b *books, who map[string]string) {
	t.Helper()
	took := map[[2]string]int64{}
	for _, e := range b.settled {
		if n, period := takenOf(e); n > 0 {
			took[[2]string{e.AccountID, period}] += n
		}
	}
	for id := range who {
		account, err := c.admin.Account(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range account.Counters {
			if want := took[[2]string{id, u.Period}]; u.Used != want || u.Used > freeLimit || u.Held != 0 {
				t.Errorf("%s shows %+v, its rows took %d", account.Name, u, want)
			}
		}
	}
}
