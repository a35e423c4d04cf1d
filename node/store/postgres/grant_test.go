package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// cluster is some nodes on one clock, and an account with a limit of everything.
type cluster struct {
	t     *testing.T
	nodes []*Store
	now   time.Time
	id    string
}

func newCluster(t *testing.T, n int, a account.Account, money abi.Nano) *cluster {
	t.Helper()
	url := postgrestest.URL(t)
	c := &cluster{t: t, now: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)}
	for i := range n {
		s := node(t, url, fmt.Sprint("node", i))
		s.SetDatabaseClock(func() time.Time { return c.now })
		c.nodes = append(c.nodes, s)
	}
	a.Name = "a"
	made, err := c.nodes[0].CreateAccount(a, money)
	if err != nil {
		t.Fatal(err)
	}
	c.id = made.ID
	return c
}

func (c *cluster) commit(node int, b limit.Batch) []limit.Verdict {
	c.t.Helper()
	verdicts, err := c.nodes[node].Commit(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return verdicts
}

// ask is a request of 10 tokens that costs at most upper.
func (c *cluster) ask(id string, upper abi.Nano, wish limit.Part) limit.Proposal {
	return limit.Proposal{AccountID: c.id, Wish: wish, Ask: limit.Ask{RequestID: id, Prompt: 10, Upper: upper, Minimum: upper},
		Hold: account.Entry{Time: c.now, Model: "m"}}
}

// granted is the row of a hold that a grant covers.
func (c *cluster) granted(id string, g *limit.Grant, money abi.Nano) account.Entry {
	e := storetest.Hold(c.id, id, money)
	e.Granted = &account.Granted{Number: g.Number, Tokens: 10, Held: money}
	return e
}

// wantRow holds what is kept of the account to what is wanted.
func (c *cluster) wantRow(permits, held, overshot int64) {
	c.t.Helper()
	var r row
	err := c.nodes[0].pool.QueryRow(c.t.Context(), `SELECT permits, held, overshot FROM balances WHERE account_id = $1`, c.id).
		Scan(&r.permits, &r.held, &r.overshot)
	if err != nil || r.permits != permits || r.held != held || r.overshot != overshot {
		c.t.Errorf("%d permits, %d held, %d overshot, %v; want %d, %d, %d", r.permits, r.held, r.overshot, err, permits, held, overshot)
	}
}

func (c *cluster) wantSound() {
	c.t.Helper()
	if v, err := c.nodes[0].Verify(); err != nil || len(v.Findings) > 0 {
		c.t.Errorf("%v, %v", v.Findings, err)
	}
}

func (c *cluster) grants() (all []limit.Part) {
	c.t.Helper()
	found, err := c.nodes[0].Grants()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, g := range found {
		all = append(all, g.Left)
	}
	return all
}

// TestVerdictSaysTheDatabasesClock: a node whose clock is another shows by its own when limits are free again.
func TestVerdictSaysTheDatabasesClock(t *testing.T) {
	c := newCluster(t, 1, account.Account{Concurrency: 1, TokensPerMinute: 600}, 9000)
	c.now = time.Now().Add(time.Hour)
	for _, id := range []string{"admitted", "refused"} {
		v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask(id, 100, limit.Part{})}})[0]
		if (v.Refusal != nil) != (id == "refused") || !v.Now.Equal(c.now) {
			t.Errorf("%s: %v, the database says that it is %s, want %s", id, v.Refusal, v.Now, c.now)
		}
		now := time.Now()
		v = v.By(now)
		for _, reset := range []time.Time{v.Limits.RequestsReset, v.Limits.TokensReset} {
			if reset.Before(now) || reset.After(now.Add(time.Minute)) {
				t.Errorf("%s: at %s a limit is free again at %s", id, now, reset)
			}
		}
	}
}

// TestGrantIsUsedReturnedAndEnds: a grant is at most a node's share; holds and returns take of it, each
// once; what is left at its end goes back; a hold that comes later is taken and counted.
func TestGrantIsUsedReturnedAndEnds(t *testing.T) {
	c := newCluster(t, 2, account.Account{Concurrency: 30, TokensPerMinute: 6000}, 9000)
	v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r0", 100, limit.Part{Permits: 50, Tokens: 300, Money: 50_000})}})[0]
	if v.Refusal != nil || v.Grant == nil {
		t.Fatalf("%+v", v)
	}
	if want := (limit.Part{Permits: 29 / 3, Tokens: 300, Money: 8900 / 3}); v.Grant.Part != want {
		t.Errorf("granted %+v, want %+v", v.Grant.Part, want)
	}
	c.wantSound()
	row := c.granted("g0", v.Grant, 200)
	back := limit.Return{AccountID: c.id, Number: v.Grant.Number, Part: limit.Part{Permits: 2, Tokens: 50, Money: 1000}}
	for range 2 { // given twice is given once
		c.commit(0, limit.Batch{Rows: []account.Entry{row}, Returns: []limit.Return{back}})
		if got, want := c.grants(), []limit.Part{{Permits: 6, Tokens: 240, Money: 8900/3 - 1200}}; !slices.Equal(got, want) {
			t.Errorf("left %+v, want %+v", got, want)
		}
	}
	c.wantRow(2, 300, 0)
	renewed := c.commit(0, limit.Batch{Asks: []limit.Proposal{{AccountID: c.id, Wish: limit.Part{Permits: 7, Tokens: 300, Money: 50}}}})[0]
	if g := renewed.Grant; g == nil || g.Number != v.Grant.Number || g.Permits != v.Grant.Permits+1 || g.Tokens != v.Grant.Tokens+60 {
		t.Errorf("renewed: %+v after %+v", g, v.Grant)
	}
	c.now = c.now.Add(DefaultLease)
	if _, err := c.nodes[1].Sweep(); err != nil {
		t.Fatal(err)
	}
	if left := c.grants(); len(left) != 0 {
		t.Errorf("after its time the node has %+v", left)
	}
	c.commit(0, limit.Batch{Rows: []account.Entry{c.granted("late", v.Grant, 10)}})
	c.wantRow(3, 310, 1)
	settled := storetest.Settlement(c.id, "never sent", -5)
	settled.NeverHeld, settled.Granted, settled.Spent = true, &account.Granted{Number: v.Grant.Number, Tokens: 10, Held: 7}, 4
	c.commit(0, limit.Batch{Rows: []account.Entry{storetest.Settlement(c.id, "r0", -1), storetest.Settlement(c.id, "g0", -2),
		storetest.Settlement(c.id, "late", -3), settled}})
	c.wantRow(0, 0, 2)
	storetest.WantBalance(t, c.nodes[0], c.id, 9000-11, 0)
	c.wantSound()
}

// TestSmallLimitsAreNotLent: what is less than all nodes may need is decided one by one.
func TestSmallLimitsAreNotLent(t *testing.T) {
	for _, small := range []struct {
		account account.Account
		money   abi.Nano
	}{{account.Account{Concurrency: 4}, 9000}, {account.Account{Concurrency: 100}, 399}, {account.Account{TokensPerMinute: 15}, 9000}} {
		c := newCluster(t, 2, small.account, small.money)
		v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r0", 100, limit.Part{Permits: 50, Tokens: 300, Money: 50_000})}})[0]
		if v.Refusal != nil || v.Grant != nil {
			t.Errorf("%+v: %v, %+v", small.account, v.Refusal, v.Grant)
		}
	}
}

// TestNeedCallsGrantsBack: a node that lacks what another has idle is told so, and gets it when that returned it.
func TestNeedCallsGrantsBack(t *testing.T) {
	c := newCluster(t, 2, account.Account{Concurrency: 9, Unlimited: true}, 0)
	v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r", 1, limit.Part{Permits: 50})}})[0]
	if v.Grant == nil || v.Grant.Permits != 2 || !v.Grant.AnyMoney || !v.Grant.AnyTokens {
		t.Fatalf("%+v", v.Grant)
	}
	var asks []limit.Proposal
	for i := range 7 {
		asks = append(asks, c.ask(fmt.Sprint("s", i), 1, limit.Part{}))
	}
	verdicts := c.commit(1, limit.Batch{Asks: asks})
	if last := verdicts[6]; verdicts[5].Refusal != nil || last.Refusal == nil || last.Refusal.Kind != abi.RateLimited || !last.Recalled {
		t.Fatalf("%+v", last)
	}
	if ids, err := c.nodes[0].Wanted(); err != nil || !slices.Equal(ids, []string{c.id}) {
		t.Errorf("wanted: %v, %v", ids, err)
	}
	if ids, err := c.nodes[1].Wanted(); err != nil || len(ids) != 0 {
		t.Errorf("wanted of the one that wants: %v, %v", ids, err)
	}
	c.commit(0, limit.Batch{Returns: []limit.Return{{AccountID: c.id, Number: v.Grant.Number, Part: limit.Part{Permits: 2}}}})
	if ids, err := c.nodes[0].Wanted(); err != nil || len(ids) != 0 {
		t.Errorf("wanted after it was returned: %v, %v", ids, err)
	}
	if last := c.commit(1, limit.Batch{Asks: asks[6:]})[0]; last.Refusal != nil {
		t.Errorf("after the return: %v", last.Refusal)
	}
	c.wantSound()
}

// TestGrantOfAnAccountWhoseLimitsChange: a node and the database count the same of a grant, also of requests that it
// covered while the account had other limits: else nobody has the difference for as long as the grant is renewed.
func TestGrantOfAnAccountWhoseLimitsChange(t *testing.T) {
	c := newCluster(t, 2, account.Account{Unlimited: true}, 1_000_000)
	var g limit.Grant
	var taken limit.Part
	cover := func(id string) account.Entry {
		t.Helper()
		r, ok := g.Covers(limit.Ask{RequestID: id, Prompt: 10, Upper: 10}, taken)
		if !ok {
			t.Fatalf("%s is not covered by %+v, of which %+v is taken", id, g, taken)
		}
		taken = taken.Plus(r.Of())
		e := storetest.Hold(c.id, id, r.Hold)
		e.Granted = r.Granted()
		return e
	}
	renew := func(id string, concurrency int, perMinute int64, unlimited bool) {
		t.Helper()
		edit := func(a *account.Account) {
			a.Concurrency, a.TokensPerMinute, a.Unlimited = concurrency, perMinute, unlimited
		}
		if _, err := c.nodes[0].UpdateAccount(c.id, edit); err != nil {
			t.Fatal(err)
		}
		v := c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask(id, 10, limit.Part{Permits: 20, Tokens: 500, Money: 2000})}})[0]
		if v.Refusal != nil || v.Grant == nil || g.Number != 0 && v.Grant.Number != g.Number {
			t.Fatalf("%s: %+v after %+v", id, v, g)
		}
		g = *v.Grant
	}
	same := func(when string) {
		t.Helper()
		if left := c.grants(); len(left) != 1 || left[0] != g.Minus(taken) {
			t.Errorf("%s: the database has %+v left of the grant, the node %+v", when, left, g.Minus(taken))
		}
		c.wantSound()
	}
	renew("a0", 0, 0, true)
	c.commit(0, limit.Batch{Rows: []account.Entry{cover("r0"), cover("r1"), cover("r2")}})
	late := cover("late")
	renew("a1", 100, 6000, false)
	same("it has got limits")
	c.commit(0, limit.Batch{Rows: []account.Entry{late, cover("r3")}})
	same("they count")
	late = cover("late, too")
	renew("a2", 0, 0, true)
	c.commit(0, limit.Batch{Rows: []account.Entry{late, cover("r4")}})
	renew("a3", 100, 6000, false)
	same("it had none for a while")
	cover("r5")
}

// TestFencedNode: a node without its fence gets nothing and writes what was spent; its permits go back after
// the time of a grant, its money when another node settled for it; what it says later is what the ledger says.
func TestFencedNode(t *testing.T) {
	c := newCluster(t, 2, account.Account{Concurrency: 4}, 9000)
	free := limit.Proposal{AccountID: c.id, Ask: limit.Ask{RequestID: "free", Free: true}}
	for _, v := range c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r0", 100, limit.Part{}), c.ask("r1", 100, limit.Part{}), free}}) {
		if v.Refusal != nil {
			t.Fatal(v.Refusal)
		}
	}
	fence := func(ago string) {
		sql := `UPDATE nodes SET fence = fence + 1, state = 'fenced', fenced = now() - interval '` + ago + `' WHERE id = 'node0'`
		if err := c.nodes[1].Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	fence("1 second")
	v := c.commit(0, limit.Batch{Rows: []account.Entry{storetest.Checkpoint(c.id, "r1", 3)},
		Asks: []limit.Proposal{c.ask("r2", 1, limit.Part{})}})[0]
	if v.Refusal == nil || !errors.Is(v.Refusal.Err, limit.ErrFenced) {
		t.Errorf("a node without a fence: %+v", v)
	}
	sweep := func() {
		if _, err := c.nodes[1].Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	c.wantRow(3, 200, 0) // it may still run
	fence("1 hour")
	sweep()
	c.wantRow(0, 200, 3)
	c.wantSound()
	for i, output := range []abi.Nano{2, 7} { // what a node quoted is charged at its prices
		if err := c.nodes[i].KeepPrices(map[string]abi.Prices{"m": {Output: output}}); err != nil {
			t.Fatal(err)
		}
	}
	rate := func(e *account.Entry, prices map[string]abi.Prices) error {
		e.Amount, e.ModuleDigest = -prices["m"].Output*abi.Nano(e.Usage.Output), "sha256:aa"
		return nil
	}
	none := func(e account.Entry, err error) { t.Errorf("left out %+v: %v", e, err) }
	if early, err := c.nodes[1].SettleDead(2*time.Hour, rate, none); err != nil || len(early) != 0 {
		t.Errorf("before its time: %v, %v", early, err)
	}
	settled, err := c.nodes[1].SettleDead(time.Minute, rate, none)
	again, errAgain := c.nodes[1].SettleDead(time.Minute, rate, none)
	if err != nil || errAgain != nil || len(settled) != 2 || len(again) != 0 {
		t.Fatalf("settled %+v, then %+v: %v, %v", settled, again, err, errAgain)
	}
	c.wantRow(0, 0, 3)
	storetest.WantBalance(t, c.nodes[1], c.id, 9000-2*3, 0)
	late := storetest.Settlement(c.id, "r1", -50)
	late.ModuleDigest, late.Provisional = "sha256:aa", false
	for range 2 {
		c.commit(0, limit.Batch{Rows: []account.Entry{late, storetest.Settlement(c.id, "r0", 0)}})
		storetest.WantBalance(t, c.nodes[1], c.id, 9000-50, 0)
	}
	c.wantSound()
}

// TestRowOfALaterMonthFreesNoBudget: a settlement of a node whose clock is ahead, dated in the next month, frees nothing of what
// its key was charged in this one by the database's clock. In that month it counts.
func TestRowOfALaterMonthFreesNoBudget(t *testing.T) {
	c := newCluster(t, 1, account.Account{}, 9000)
	c.now = time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC)
	key, _, err := c.nodes[0].CreateKey(c.id, account.KeyLimits{Budget: 100}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	row := func(id string, amount abi.Nano, at time.Time) account.Entry {
		e := storetest.Settlement(c.id, id, amount)
		e.KeyID, e.Time = key.ID, at
		return e
	}
	ask := func(id string, upper abi.Nano) limit.Proposal {
		p := c.ask(id, upper, limit.Part{})
		p.Key, p.Hold.KeyID = account.LimitedKey{ID: key.ID, Budget: 100}, key.ID
		return p
	}
	c.commit(0, limit.Batch{Rows: []account.Entry{row("used", -100, c.now)}})
	ahead := row("ahead", -10, c.now.Add(time.Hour))
	v := c.commit(0, limit.Batch{Rows: []account.Entry{ahead}, Asks: []limit.Proposal{ask("now", 1)}})[0]
	if v.Refusal == nil || v.Refusal.Kind != abi.InsufficientBalance {
		t.Errorf("of a budget that is used up there is %+v, %v", v.Reservation, v.Refusal)
	}
	c.now = c.now.Add(time.Hour)
	next := c.commit(0, limit.Batch{Asks: []limit.Proposal{ask("much", 91), ask("left", 90)}})
	if next[0].Refusal == nil || next[1].Refusal != nil {
		t.Errorf("in the next month: %+v, then %v", next[0].Reservation, next[1].Refusal)
	}
	c.wantSound()
}

// TestBucketsRefillAfterTheClockStepsBack: behind a failover to a server whose clock is behind, the buckets of an account and of
// its key refill by that clock at once, and a refusal says when there is enough.
func TestBucketsRefillAfterTheClockStepsBack(t *testing.T) {
	const ofKey, ofAccount = "the key's limit", "the account's limit"
	for name, limits := range map[string][2]int64{ofKey: {100_000, 60}, ofAccount: {60, 100_000}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, account.Account{TokensPerMinute: limits[0]}, 9000)
			key, _, err := c.nodes[0].CreateKey(c.id, account.KeyLimits{TokensPerMinute: limits[1]}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			ask := func(node int) *abi.Error {
				n++
				p := c.ask(fmt.Sprint("r", n), 1, limit.Part{})
				p.Key, p.Hold.KeyID = account.LimitedKey{ID: key.ID, TokensPerMinute: limits[1]}, key.ID
				return c.commit(node, limit.Batch{Asks: []limit.Proposal{p}})[0].Refusal
			}
			for range 6 {
				if refusal := ask(0); refusal != nil {
					t.Fatal(refusal)
				}
			}
			c.now = c.now.Add(-time.Hour)
			for second := range 2 {
				refusal := ask(second)
				if refusal == nil || refusal.RetryAfter != time.Duration(10-second)*time.Second {
					t.Errorf("%d s after the clock stepped back: %+v", second, refusal)
				}
				c.now = c.now.Add(time.Second)
			}
			c.now = c.now.Add(8 * time.Second)
			if refusal := ask(0); refusal != nil {
				t.Errorf("10 s after the clock stepped back: %v", refusal)
			}
			if refusal := ask(1); refusal == nil {
				t.Error("what was taken before the clock stepped back is there again")
			}
			c.wantSound()
		})
	}
}

// taker is a node of the walk, by its own clock.
type taker struct {
	c           *cluster
	rnd         *rand.Rand
	node        int
	grant       limit.Grant
	taken, back limit.Part
	until       time.Time // of the grant, as the node believes
	open        []string
	covered     int
}

// admit takes of the grant for some requests, and returns their rows.
func (k *taker) admit(step int) (rows []account.Entry) {
	for j := range k.rnd.IntN(4) {
		ask := limit.Ask{RequestID: fmt.Sprint("g", step, "-", j), Prompt: 5 + k.rnd.Int64N(20), Upper: abi.Nano(100 + k.rnd.IntN(900))}
		r, ok := k.grant.Covers(ask, k.taken.Plus(k.back))
		if !ok || !k.c.now.Before(k.until) {
			continue
		}
		k.covered++
		k.taken = k.taken.Plus(r.Of())
		e := storetest.Hold(k.c.id, ask.RequestID, r.Hold)
		e.Granted = r.Granted()
		rows, k.open = append(rows, e), append(k.open, ask.RequestID)
	}
	return rows
}

// step is one batch: what was admitted under the grant, ends, a return, and an ask.
func (k *taker) step(n int) {
	b := limit.Batch{Rows: k.admit(n)}
	for range k.rnd.IntN(4) {
		if len(k.open) > 0 {
			e := storetest.Settlement(k.c.id, k.open[0], -abi.Nano(k.rnd.IntN(100)))
			e.Spent = 1 + k.rnd.Int64N(5)
			b.Rows, k.open = append(b.Rows, e), k.open[1:]
		}
	}
	if k.rnd.IntN(5) == 0 && k.grant.Number != 0 {
		k.back = k.back.Plus(k.grant.Minus(k.taken).Minus(k.back).Atmost(limit.Part{Permits: 1, Tokens: 50, Money: 500}))
		b.Returns = []limit.Return{{AccountID: k.c.id, Number: k.grant.Number, Part: k.back}}
	}
	b.Asks = []limit.Proposal{k.c.ask(fmt.Sprint("a", n), 300, limit.Part{Permits: 6, Tokens: 100, Money: 4000})}
	sent := k.c.now
	v := k.c.commit(k.node, b)[0]
	if v.Refusal == nil {
		k.open = append(k.open, fmt.Sprint("a", n))
	}
	if v.Grant != nil {
		if v.Grant.Number != k.grant.Number {
			k.taken, k.back = limit.Part{}, limit.Part{}
		}
		k.grant, k.until = *v.Grant, sent.Add(v.Grant.Life-time.Second)
	}
}

// TestGrantsNeverExceedTheLimits: whatever nodes take of their grants, return, lose and ask for beside them,
// all together never have more than the account.
func TestGrantsNeverExceedTheLimits(t *testing.T) {
	const permits, perMinute, money = 40, 60_000, 1_000_000
	c := newCluster(t, 3, account.Account{Concurrency: permits, TokensPerMinute: perMinute}, money)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 7))
	var nodes []*taker
	for n := range c.nodes {
		nodes = append(nodes, &taker{c: c, rnd: rnd, node: n})
	}
	for i := range 200 {
		c.now = c.now.Add(time.Duration(rnd.Int64N(int64(time.Second))))
		if rnd.IntN(8) == 0 {
			c.now = c.now.Add(2 * DefaultLease / 3) // grants may end
		}
		nodes[rnd.IntN(3)].step(i)
		var out, held, lentPermits, lentMoney, balance int64
		err := c.nodes[0].pool.QueryRow(t.Context(), `SELECT permits, held, amount,
			coalesce(sum(given_permits - moved_permits - back_permits), 0)::bigint,
			coalesce(sum(given_money - moved_money - back_money), 0)::bigint
			FROM balances LEFT JOIN grants USING (account_id) GROUP BY balances.account_id`).
			Scan(&out, &held, &balance, &lentPermits, &lentMoney)
		if err != nil || out+lentPermits > permits || held+lentMoney > balance {
			t.Fatalf("step %d: %d permits and %d lent of %d, %d held and %d lent of %d, %v",
				i, out, lentPermits, permits, held, lentMoney, balance, err)
		}
	}
	covered := 0
	for n, k := range nodes {
		covered += k.covered
		var b limit.Batch
		for _, id := range k.open {
			b.Rows = append(b.Rows, storetest.Settlement(c.id, id, -1))
		}
		c.commit(n, b)
	}
	if covered < 20 {
		t.Errorf("%d were covered: the walk proves little", covered)
	}
	c.now = c.now.Add(time.Hour)
	if _, err := c.nodes[0].Sweep(); err != nil {
		t.Fatal(err)
	}
	c.wantSound()
	c.wantRow(0, 0, 0)
	if left := c.grants(); len(left) != 0 {
		t.Errorf("at the end %+v are lent", left)
	}
}

// TestVerifySeesWhatNodesHave: each statement breaks one rule of what requests and nodes have.
func TestVerifySeesWhatNodesHave(t *testing.T) {
	for harm, says := range map[string]string{
		`UPDATE balances SET permits = permits + 1`:                                       "is kept with it",
		`UPDATE balances SET held = held - 1`:                                             "is kept with it",
		`UPDATE balances SET shorts = 1`:                                                  "is kept with it",
		`DELETE FROM open_permits`:                                                        "is kept with it",
		`UPDATE open_holds SET reserved = upper + 1; UPDATE balances SET held = held + 1`: "at most its upper bound",
		`UPDATE grants SET moved_permits = given_permits + 1`:                             "that it does not have",
		`UPDATE grants SET fence = fence + 1`:                                             "never had",
		`UPDATE open_permits SET node = 'nobody'`:                                         "never had",
	} {
		c := newCluster(t, 1, account.Account{Concurrency: 30}, 9000)
		for _, v := range c.commit(0, limit.Batch{Asks: []limit.Proposal{c.ask("r", 100, limit.Part{Permits: 3, Money: 200}),
			{AccountID: c.id, Ask: limit.Ask{RequestID: "free", Free: true}}}}) {
			if v.Refusal != nil || v.Grant == nil {
				t.Fatalf("%+v", v)
			}
		}
		c.wantSound()
		if err := c.nodes[0].Exec(harm); err != nil {
			t.Fatal(err)
		}
		if v, err := c.nodes[0].Verify(); err != nil || !strings.Contains(strings.Join(v.Findings, "\n"), says) {
			t.Errorf("%s: found %q, %v; want %q", harm, v.Findings, err, says)
		}
	}
}
