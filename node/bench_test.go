package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/tree"
	"corenode/engine/messages"
	"corenode/node/config"
)

// BenchmarkAdmission is the time from asking until the model has the request,
// without the commit of its hold: 1,000 requests a second of an account with
// limits and money, beside another model that computes without end. It reports
// percentiles of 5,000 requests per iteration.
func BenchmarkAdmission(b *testing.B) {
	n, a := benchNode(b)
	stop := keepBusy(b, n, a)
	defer stop()
	var took []time.Duration
	for b.Loop() {
		took = append(took, admissions(b, n, a, 5000)...)
	}
	slices.Sort(took)
	for _, p := range []float64{50, 99, 99.9} {
		b.ReportMetric(float64(took[int(p/100*float64(len(took)-1))].Nanoseconds())/1e3, fmt.Sprintf("p%v-us", p))
	}
}

// BenchmarkSettled is 64 clients that send one request after the other, without
// HTTP: requests a second, and what waiting for the ledger adds before the
// first output and before the last frame.
func BenchmarkSettled(b *testing.B) {
	const clients, each = 64, 250
	n, a := benchNode(b)
	var mu sync.Mutex
	var held, last []time.Duration
	total := 0
	began := time.Now()
	for b.Loop() {
		var w sync.WaitGroup
		for client := range clients {
			w.Go(func() {
				for i := range each {
					s := n.ask(b, a, "core-1.1-mini", fmt.Sprintf("req-%d-%d-%d", total, client, i), 1)
					t := time.Now()
					if err := <-s.Held(); err != nil {
						b.Error(err)
					}
					hold := time.Since(t)
					t = time.Now()
					settle(b, s)
					mu.Lock()
					held, last = append(held, hold), append(last, time.Since(t))
					mu.Unlock()
				}
			})
		}
		w.Wait()
		total += clients * each
	}
	b.ReportMetric(float64(total)/time.Since(began).Seconds(), "settled/s")
	for name, all := range map[string][]time.Duration{"held": held, "last": last} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1e3, name+"-p99-ms")
	}
}

// benchNode is a node with an instant model and one that computes, and an
// account with limits and money.
func benchNode(b *testing.B) (*node, account.Account) {
	b.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir = "127.0.0.1:0", b.TempDir(), moduleCache
	instant := cfg.Models["core-1.1-mini"]
	instant.Engine = config.EngineInstant
	cfg.Models["core-1.1-mini"] = instant
	n, err := start(cfg, io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.stop() })
	<-n.modules.Ready()
	a, err := n.store.CreateAccount(account.Account{Name: "bench", Concurrency: 1000, TokensPerMinute: 1 << 40}, 1e15)
	if err != nil {
		b.Fatal(err)
	}
	n.Changed(a.ID)
	return n, a
}

// ask prepares and admits one request.
func (n *node) ask(b *testing.B, a account.Account, model, id string, tokens int) *tree.Stream {
	b.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":true,"messages":[{"role":"user","content":"Say hello."}]}`, model, tokens)
	q, err := messages.Parse([]byte(body))
	if err != nil {
		b.Fatal(err)
	}
	prepared, err := n.catalog.engines[model].Prepare("acct", q)
	if err != nil {
		b.Fatal(err)
	}
	s, _, err := n.tree.Generate(account.Call{RequestID: id, Account: a, Request: prepared, Protocol: "messages"})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// settle waits for the end of a short answer, which nobody reads, and for its row.
func settle(b *testing.B, s *tree.Stream) account.Settled {
	<-s.Settle()
	settled, err := s.Outcome()
	if err != nil {
		b.Error(err)
	}
	return settled
}

// keepBusy lets the computing model answer one request after the other.
func keepBusy(b *testing.B, n *node, a account.Account) (stop func()) {
	done := make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			settle(b, n.ask(b, a, "core-1.1", fmt.Sprint("busy-", i), 64))
		}
	})
	return func() { close(done); w.Wait() }
}

// admissions sends so many requests, a thousand a second, and says how long
// each took to be admitted.
func admissions(b *testing.B, n *node, a account.Account, requests int) []time.Duration {
	took := make([]time.Duration, requests)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now().UnixNano()
	var w sync.WaitGroup
	for i := range requests {
		<-tick.C
		w.Go(func() {
			took[i] = settle(b, n.ask(b, a, "core-1.1-mini", fmt.Sprint("req-", began, "-", i), 1)).Admission
		})
	}
	w.Wait()
	return took
}
