package main

import (
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/node/store/postgrestest"
	"corenode/wasm/abi"
)

// at asks one node with a small request.
func (c *trio) at(m *trioNode, key string) receipt {
	return errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}.run(c.t, c.h, m.base.Load().String(), moments{})
}

// revokeAKey: when the command returns that all nodes know it, every node refuses the key.
func (c *trio) revokeAKey(t *testing.T) {
	id, _ := c.account(admin.NewAccount{Name: "revoked", Unlimited: true})
	for i, m := range c.nodes {
		made, err := m.admin.CreateKey(id, admin.NewKey{})
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range c.nodes {
			waitFor(t, other.name+" to know the key", func() bool { return c.at(other, made.Secret).told })
		}
		by := c.nodes[(i+1)%len(c.nodes)]
		revoked, err := by.admin.RevokeKey(made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(revoked.UnawareNodes) > 0 { // a slow machine: the command says so
			t.Logf("%v did not know it in time", revoked.UnawareNodes)
			continue
		}
		for _, other := range c.nodes {
			var r receipt
			waitFor(t, other.name+" to answer", func() bool { // one that was counted out reads what changed before it admits
				r = c.at(other, made.Secret)
				return r.status != http.StatusServiceUnavailable
			})
			if r.status != http.StatusUnauthorized {
				t.Errorf("%s answers %d to a key that %s revoked", other.name, r.status, by.name)
			}
		}
	}
}

// nextRelease is what an expanding migration of the next release does, whose reader stays what it is.
const nextRelease = `ALTER TABLE accounts ADD COLUMN planted bigint NOT NULL DEFAULT 0; CREATE TABLE planted (id bigint);
	UPDATE schema_version SET version = version + 1`

// restartInTurn: one node after the other drains and starts again under streams, and the first one finds
// the schema of the next release. Nothing fails but with a 503 that says when to come again.
func (c *trio) restartInTurn(t *testing.T) {
	if os.Getenv(roundsVariable) == "" {
		t.Skip("skipped without " + roundsVariable + ": it takes half a minute (make test-cluster)")
	}
	const streams = 200
	money := abi.Nano(1e12)
	id, key := c.account(admin.NewAccount{Name: "streams", Balance: admin.Amount{NanoUSD: &money}})
	var mu sync.Mutex
	var receipts []receipt
	var stop atomic.Bool
	var asking sync.WaitGroup
	for range streams {
		asking.Go(func() {
			for !stop.Load() {
				r := errand{account: id, key: key, path: "/v1/messages", model: slowModel, prompt: "x", stream: true, maxTokens: 30}.
					run(t, c.h, c.front, moments{})
				mu.Lock()
				receipts = append(receipts, r)
				mu.Unlock()
				if !r.told {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	for i, m := range c.nodes {
		if i == 1 {
			if err := postgrestest.Exec(t.Context(), c.url, nextRelease); err != nil {
				t.Error(err)
			}
		}
		c.signal(m, syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond) // as long as a balancer needs to see it
		m.base.Store(nil)
		waitFor(t, m.name+" to end", func() bool { return m.proc.Alive() != nil }) // it may be compiling its modules
		c.start(m)
	}
	stop.Store(true)
	asking.Wait()
	told, refused := 0, 0
	for _, r := range receipts {
		switch {
		case r.told && r.ended:
			told++
		case r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "":
			refused++
		default:
			t.Errorf("status %d, %s, after %d events; logged: %s", r.status, r.failure, r.events, c.logged(r.id))
		}
	}
	c.rest(receipts)
	t.Logf("%d streams, %d answers told, %d refused with Retry-After", streams, told, refused)
	if told < streams {
		t.Error("little was shown")
	}
}
