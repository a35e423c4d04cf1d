package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store/postgrestest"
	"corenode/node/store/storetest"
	"corenode/wasm/abi"
)

// writer is a node of the benchmark: it commits in groups what its clients wait for.
type writer struct {
	s        *Store
	accounts []string
	prefix   string
	clients  int
	left     int // requests to begin
	done     int
	batches  int
}

// run lets clients ask and settle, one request behind the other, until all are done.
func (w *writer) run(b *testing.B) {
	input, digest, now := make([]byte, 120), "sha256:"+strings.Repeat("05839d29", 8), time.Now()
	var running []limit.Proposal // admitted by the batch before: it settles in this one
	n, waiting := 0, w.clients
	for w.left > 0 || len(running) > 0 {
		var batch limit.Batch
		for i := range running {
			p := &running[i]
			e := storetest.Settlement(p.AccountID, p.RequestID, -900-abi.Nano(i%7))
			e.Time, e.Provisional, e.KeyID, e.Spent = now, false, p.Key.ID, 300
			e.ModuleDigest, e.InputHash, e.ChargeInput = digest, fmt.Sprintf("%064x", n), input
			batch.Rows = append(batch.Rows, e)
		}
		for range min(waiting, w.left) {
			n++
			w.left--
			id := fmt.Sprintf("req_%s_%020x", w.prefix, n)
			key := account.LimitedKey{ID: "key_f3ca18b2bc15e158b8e8"}
			batch.Asks = append(batch.Asks, limit.Proposal{AccountID: w.accounts[(n*7919)%len(w.accounts)],
				Ask:  limit.Ask{RequestID: id, Prompt: 200, OutputMax: 300, Upper: 5000, Minimum: 1000, Key: key},
				Hold: account.Entry{Time: now, Model: "core-1.1", KeyID: key.ID, ModuleDigest: digest}})
		}
		verdicts, err := w.s.Commit(batch)
		if err != nil {
			b.Error(err)
			return
		}
		w.batches++
		w.done += len(running)
		waiting -= len(batch.Asks)
		waiting += len(running) // whose clients ask again
		running = running[:0]
		for i := range verdicts {
			if verdicts[i].Refusal != nil {
				b.Error(verdicts[i].Refusal)
				return
			}
			running = append(running, batch.Asks[i])
		}
	}
}

// BenchmarkAdmission is three nodes whose clients are admitted and settled, one request after the other: over many
// accounts, and all of one account.
func BenchmarkAdmission(b *testing.B) {
	for _, accounts := range []int{1000, 1} {
		for _, clients := range []int{64, 256} {
			b.Run(fmt.Sprintf("accounts=%d/clients=3x%d", accounts, clients), func(b *testing.B) {
				url := postgrestest.URL(b)
				var writers []*writer
				for i := range 3 {
					writers = append(writers, &writer{s: node(b, url, fmt.Sprint("node", i)), prefix: fmt.Sprint(i), clients: clients})
				}
				var ids []string
				for i := range accounts {
					a, err := writers[0].s.CreateAccount(account.Account{Name: fmt.Sprint("a", i), Concurrency: 10_000,
						TokensPerMinute: 1_000_000_000}, 1e15)
					if err != nil {
						b.Fatal(err)
					}
					ids = append(ids, a.ID)
				}
				b.ResetTimer()
				var all sync.WaitGroup
				for _, w := range writers {
					w.accounts, w.left = ids, max(b.N/3, 1)
					all.Go(func() { w.run(b) })
				}
				all.Wait()
				b.StopTimer()
				batches, done := 0, 0
				for _, w := range writers {
					batches, done = batches+w.batches, done+w.done
				}
				b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "requests/s")
				b.ReportMetric(float64(done)/float64(batches), "requests/batch")
			})
		}
	}
}
