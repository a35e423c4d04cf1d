package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/limit"
	"corenode/node/admin"
	"corenode/wasm/abi"
)

// TestThreeNodes: three nodes in processes of their own, behind a balancer that takes them in turn, are as exact as
// one. CORENODE_CLUSTER_ROUNDS makes as many faults, as long as the contract has them; without it there are
// ten short ones.
func TestThreeNodes(t *testing.T) {
	rounds, times := clusterRounds(t)
	quiet := os.Getenv(roundsVariable) != "" && !busy()
	c := newTrio(t, times.lease, slowYAML(t))
	for _, one := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"LiveApart", c.liveApart},
		{"HoldOneLimit", func(t *testing.T) { c.holdOneLimit(t, quiet) }},
		{"ShareOneBucket", c.shareOneBucket},
		{"SpendOneCent", c.spendOneCent},
		{"RevokeAKey", c.revokeAKey},
		{"SwapAModule", c.swapModule},
		{"RestartInTurn", c.restartInTurn},
		{"OutliveFaults", func(t *testing.T) { c.outliveFaults(t, rounds, times) }},
	} {
		sound := t.Run(one.name, func(t *testing.T) {
			c.t = t
			one.run(t)
		})
		if c.t = t; !sound {
			for _, m := range c.nodes {
				t.Logf("%s logged:\n%s", m.name, c.log(m))
			}
			return
		}
	}
}

// insist runs an errand at the balancer until it is neither refused for a limit nor because of an outage.
func (c *trio) insist(e errand) receipt {
	for {
		r := e.run(c.t, c.h, c.front, moments{})
		if !r.refused() {
			return r
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-c.t.Context().Done():
			return r
		}
	}
}

// refused says whether the same may be served in a moment.
func (r *receipt) refused() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable || r.status == http.StatusBadGateway
}

// soonMax is how soon all permits of an account are used, on a quiet machine.
const soonMax = time.Second

// busy says whether more processes want the machine's processors than there are, by its own count.
func busy() bool {
	text, err := os.ReadFile("/proc/loadavg")
	var load float64
	if err == nil {
		_, err = fmt.Sscan(string(text), &load)
	}
	return err != nil || load > float64(runtime.NumCPU())
}

// holdOneLimit: sixty slow requests of an account that may run five, through a balancer that takes three nodes in
// turn. Those that are admitted first run until the client leaves, and it does when five run: so five run before
// any has ended, and within a second where the machine is quiet. At no instant more than five have a permit.
func (c *trio) holdOneLimit(t *testing.T, quiet bool) {
	money := abi.Nano(1e12)
	id, key := c.account(admin.NewAccount{Name: "five", Balance: admin.Amount{NanoUSD: &money}, Concurrency: 5})
	slow := errand{account: id, key: key, path: "/v1/messages", model: slowModel, prompt: "x", stream: true, maxTokens: 30}
	requests := 60
	var mu sync.Mutex
	var receipts []receipt
	var asking sync.WaitGroup
	five, over := make(chan struct{}), make(chan struct{})
	for range requests {
		asking.Go(func() {
			c.stayUntil(slow, five)
			r := c.insist(slow)
			mu.Lock()
			defer mu.Unlock()
			receipts = append(receipts, r)
		})
	}
	go func() { asking.Wait(); close(over) }()
	looks, began, all := 0, time.Now(), time.Duration(0) // how long it took until all five ran
	for running := true; running; looks++ {
		// all open permits of one moment, and those that a grant could still give
		n := c.number(`SELECT (SELECT count(*) FROM open_holds WHERE permit) + (SELECT count(*) FROM open_permits)
			+ (SELECT coalesce(sum(given_permits - moved_permits - back_permits), 0) FROM grants)`)
		if n > 5 {
			t.Errorf("%d permits are out, the limit is 5", n)
			running = false
		}
		if late := time.Since(began) > 30*time.Second; all == 0 && (n >= 5 || late || !running) {
			if all = time.Since(began); late {
				t.Errorf("five did not run at once in %v; %d do", all, n)
			}
			close(five)
		}
		select {
		case <-over:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	asking.Wait()
	for _, r := range receipts {
		if !r.told {
			t.Errorf("not served: status %d, %s", r.status, r.failure)
		}
	}
	if all > soonMax && quiet {
		t.Errorf("five ran after %v, want %v", all, soonMax)
	}
	c.rest(receipts)
	t.Logf("%d requests, five at once after %v, on a quiet machine: %t, %d looks", len(receipts), all, quiet, looks)
}

// stayUntil runs an errand that ends at first when the channel is closed: by then it is served, or refused to the last.
func (c *trio) stayUntil(e errand, end <-chan struct{}) {
	const endless = 12_000 // tokens
	e.maxTokens, e.leaveAt = endless, 1
	for {
		r := e.run(c.t, c.h, c.front, moments{began: func() { <-end }})
		select {
		case <-end:
			return
		default:
		}
		if !r.refused() {
			c.t.Errorf("it ended by itself: status %d, %s", r.status, r.failure)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shareOneBucket: what three nodes admit of an account's tokens is never more than its bucket
// had and got, to the token, however many ask.
func (c *trio) shareOneBucket(t *testing.T) {
	const perMinute, refusedMin = 3000, 20
	money := abi.Nano(1e12)
	id, key := c.account(admin.NewAccount{Name: "bucket", Balance: admin.Amount{NanoUSD: &money}, TokensPerMinute: perMinute})
	began := time.Now()
	var mu sync.Mutex
	var receipts []receipt
	var refused atomic.Int64
	var asking sync.WaitGroup
	for range 24 {
		asking.Go(func() {
			for refused.Load() < refusedMin && time.Since(began) < 20*time.Second {
				r := errand{account: id, key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 60}.run(t, c.h, c.front, moments{})
				mu.Lock()
				if r.told {
					receipts = append(receipts, r)
				} else if r.status == http.StatusTooManyRequests {
					refused.Add(1)
				}
				mu.Unlock()
				if !r.told {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	asking.Wait()
	took := time.Since(began)
	spent := int64(0)
	for _, r := range receipts {
		spent += int64(r.usage.input - r.usage.cached + r.usage.output)
	}
	if most := perMinute + int64(took)*perMinute/int64(time.Minute) + 1; spent > most {
		t.Errorf("%d tokens were spent in %v, the bucket gave %d", spent, took, most)
	}
	if spent < perMinute/2 || refused.Load() == 0 {
		t.Errorf("%d tokens were spent and %d requests refused: little was shown", spent, refused.Load())
	}
	c.rest(receipts)
	t.Logf("%d tokens in %v by %d requests; %d refused", spent, took, len(receipts), refused.Load())
}

// spendOneCent: 96 clients at three nodes spend a balance of one cent, and overdraw it by no
// more than one request.
func (c *trio) spendOneCent(t *testing.T) {
	cent := abi.Nano(10_000_000)
	id, key := c.account(admin.NewAccount{Name: "cent", Balance: admin.Amount{NanoUSD: &cent}})
	var mu sync.Mutex
	var receipts []receipt
	most := abi.Nano(0)
	var asking sync.WaitGroup
	for i := range 96 {
		asking.Go(func() {
			for {
				r := errand{account: id, key: key, path: paths[i%len(paths)], model: fastModel, prompt: "client " + strconv.Itoa(i),
					maxTokens: 40 + i}.run(t, c.h, c.front, moments{})
				if r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests {
					time.Sleep(limit.RecallTime)
					continue
				}
				mu.Lock()
				if r.told {
					receipts = append(receipts, r)
					most = max(most, abi.Nano(priceOf(r.model, int64(r.usage.input), 0, int64(40+i)).Int64()))
				}
				mu.Unlock()
				if !r.told {
					if r.status != http.StatusPaymentRequired {
						t.Errorf("status %d, %s", r.status, r.failure)
					}
					return
				}
			}
		})
	}
	asking.Wait()
	c.rest(receipts)
	balance, _, err := c.store.Balance(id)
	if err != nil || balance < -most {
		t.Errorf("the balance is %d, %v; one request costs at most %d", balance, err, most)
	}
	t.Logf("%d requests were served; %d is left", len(receipts), balance)
}
