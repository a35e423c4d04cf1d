package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/config"
)

// crashRequests is how many requests TestCrashOfReplicas sends, and when it kills: every so often after so many
// requests. CORENODE_CRASH_REQUESTS has one every ten seconds; the usual run of all tests is short, and has one
// for so few requests that one may meet three dead servers in a row, and be refused.
func crashRequests(t *testing.T) (total int64, every time.Duration, requests int64) {
	if text := os.Getenv("CORENODE_CRASH_REQUESTS"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal("CORENODE_CRASH_REQUESTS: ", err)
		}
		return n, 10 * time.Second, 0
	}
	if testing.Short() {
		return 300, 10 * time.Millisecond, 75
	}
	return 600, 10 * time.Millisecond, 75
}

// newReplica prepares a node that computes for another one, in a process of its own, always
// on the same address.
func newReplica(t *testing.T, data, peerKey string) *childNode {
	t.Helper()
	dir := t.TempDir()
	c := &childNode{t: t, dir: dir, data: data, config: filepath.Join(dir, "corenode.yaml")}
	text := fmt.Sprintf(`
listen: %s
data_dir: %q
modules: {cache_dir: %q}
ledger: {spill_bytes: 1MiB}
server: {peer_keys: [%s]}
models:
  %s: {%s, kv: {memory_bytes: 64MiB, state_memory_bytes: 64MiB}, context_length: 4096}
  %s: {engine: instant, kv: {memory_bytes: 64MiB, state_memory_bytes: 64MiB}, context_length: 4096}
`, freeAddress(t), data, moduleCache, peerKey, slowModel, slowOfChild(t, "CORENODE_CRASH_REQUESTS"), fastModel)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(childVariable, "1")
	t.Cleanup(c.kill)
	return c
}

// TestCrashOfReplicas kills one of three replicas after the other, and starts it again, while
// requests run: none is lost but streams that had begun, which end in an error event, and
// every charge is what its client was told.
func TestCrashOfReplicas(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	id, secret := peerKey(t, data, account.Account{Name: "nodes", Unlimited: true})
	var replicas [3]*childNode
	var urls []string
	for i := range replicas {
		copied := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(copied, 0o700); err != nil {
			t.Fatal(err)
		}
		replicas[i] = newReplica(t, copied, id)
		replicas[i].start()
		urls = append(urls, replicas[i].base)
	}
	n, base, key := startNode(t, func(cfg *config.Config) {
		withUpstream(t, secret, urls...)(cfg)
		for id, m := range cfg.Models {
			m.ContextLength = 4096
			cfg.Models[id] = m
		}
	})
	awaitReplicas(t, n)
	total, every, requests := crashRequests(t)
	receipts := make(chan receipt, total)
	var sent atomic.Int64
	var askers sync.WaitGroup
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer h.CloseIdleConnections()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 8 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		askers.Go(func() {
			for sent.Add(1) <= total {
				e := someErrand(rnd, fastModel, "", key)
				e.leaveAt, e.leaveIn = 0, 0
				if e.prompt = fmt.Sprint("question ", rnd.IntN(50), " the same words again and again"); rnd.IntN(50) == 0 {
					e.model, e.maxTokens = slowModel, 300
				}
				receipts <- e.run(t, h, base, moments{})
			}
		})
	}
	kills := killInTurn(replicas, &askers, func(kills int) bool { return sent.Load() >= int64(kills+1)*requests }, every)
	close(receipts)
	lostMax := 0
	if requests > 0 {
		lostMax = int(total)/100 + 3
	}
	checkCrashed(t, n, receipts, kills, lostMax)
}

// killInTurn kills one replica after the other and starts it again, every so often when it is due after so many kills,
// until all who ask have ended.
func killInTurn(replicas [3]*childNode, askers *sync.WaitGroup, due func(kills int) bool, every time.Duration) (kills int) {
	over := make(chan struct{})
	go func() {
		askers.Wait()
		close(over)
	}()
	for {
		select {
		case <-over:
			return kills
		case <-time.After(every):
			if due(kills) {
				r := replicas[kills%len(replicas)]
				r.kill()
				r.start()
				kills++
			}
		}
	}
}

// checkCrashed holds what the clients saw to the ledger. At most lostMax may be without an
// answer, and they pay nothing.
func checkCrashed(t *testing.T, n *node, receipts <-chan receipt, kills, lostMax int) {
	t.Helper()
	g := gateway{n: n}
	g.idle(t)
	rows := g.settlements(t)
	told, broken, lost := 0, 0, 0
	for r := range receipts {
		of := rows[r.id]
		switch {
		case r.told:
			told++
			if len(of) != 1 || r.usage != (counted{int(of[0].Usage.Input()), int(of[0].Usage.CacheRead), int(of[0].Usage.Output)}) {
				t.Errorf("told %+v, rows %+v", r, of)
			}
		case r.stream && r.status == http.StatusOK && r.deltas > 0 && r.failure != "" && !r.ended:
			broken++
		default:
			if lost++; lost <= 3 {
				t.Logf("lost: %+v, rows %+v", r, of)
			}
			if len(of) > 0 && of[0].Amount != 0 {
				t.Errorf("lost, and charged: %+v, rows %+v", r, of)
			}
		}
		checkCharge(t, r.model, of)
	}
	c := n.catalog.upstreams[fastModel].Counts()
	t.Logf("%d kills; %d told, %d broke off, %d lost; of %s: %d attempts, %d retries, %d failures", kills, told, broken, lost, fastModel,
		c.Attempts.Load(), c.Retries.Load(), c.Failures.Load())
	if lost > lostMax {
		t.Errorf("%d requests are lost, want at most %d", lost, lostMax)
	}
	if kills == 0 || told == 0 {
		t.Error("nothing was shown")
	}
	checkNothingLeft(t, n)
	client, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	b := newBooks()
	b.read(t, client)
	b.closed(t, client)
}
