package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/node/store/postgrestest"
)

// BenchmarkManyNodes is 96 clients of three nodes before one database, over HTTP, with clients and
// database on the same processors: requests a second that were admitted, answered and settled, and
// how many of a hundred were admitted by a grant. hot is one account, spread is 96.
func BenchmarkManyNodes(b *testing.B) {
	const clients, nodes = 96, 3
	url := postgrestest.URL(b)
	var all []*node
	for range nodes {
		cfg := config.Default()
		cfg.Listen, cfg.Modules.CacheDir = "127.0.0.1:0", moduleCache
		onPostgres(url, filepath.Join(b.TempDir(), "data"))(cfg)
		n, err := start(cfg, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		defer n.stop()
		all = append(all, n)
	}
	for _, accounts := range []int{1, clients} {
		b.Run(map[int]string{1: "hot", clients: "spread"}[accounts], func(b *testing.B) {
			keys := make([]string, accounts)
			for i := range keys {
				name := fmt.Sprint("bench-", accounts, "-", i, "-", time.Now().UnixNano())
				a, err := all[0].store.CreateAccount(account.Account{Name: name}, 1e12)
				if err != nil {
					b.Fatal(err)
				}
				if _, keys[i], err = all[0].store.CreateKey(a.ID, account.KeyLimits{}, a.Created.AddDate(1, 0, 0)); err != nil {
					b.Fatal(err)
				}
				for _, n := range all {
					n.Changed(a.ID)
				}
			}
			before := coveredBy(all)
			transport := &http.Transport{MaxIdleConnsPerHost: clients}
			defer transport.CloseIdleConnections()
			h := &http.Client{Transport: transport}
			var failed, next atomic.Int64
			var w sync.WaitGroup
			b.ResetTimer()
			for i := range clients {
				e := errand{key: keys[i%accounts], path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
				base := "http://" + all[i%nodes].public.Addr().String()
				w.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if status := e.status(h, base); status != http.StatusOK {
							failed.Add(1)
						}
					}
				})
			}
			w.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(coveredBy(all)-before)*100/float64(b.N), "granted-%")
			if n := failed.Load(); n > 0 {
				b.Errorf("%d of %d requests failed", n, b.N)
			}
		})
	}
}

func coveredBy(nodes []*node) (sum uint64) {
	for _, n := range nodes {
		sum += n.tree.Counters().Limits.Covered.Load()
	}
	return sum
}

// status runs the errand and returns its status, 0 without one.
func (e errand) status(h *http.Client, base string) int {
	request, err := http.NewRequest("POST", base+e.path, bytes.NewReader(e.body()))
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+e.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := h.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}
