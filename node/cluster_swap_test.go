package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/extensions"
	"corenode/node/admin"
	"corenode/wasm/abi"
)

// chargedBy runs a small request at a node and returns the digest of the module that charged it.
func (c *trio) chargedBy(t *testing.T, m *trioNode, key string) (digest string) {
	t.Helper()
	e := errand{key: key, path: "/v1/messages", model: fastModel, prompt: "x", maxTokens: 3}
	var r receipt
	waitFor(t, "an answer of "+m.name, func() bool {
		r = e.run(t, c.h, m.base.Load().String(), moments{})
		return r.status == http.StatusOK
	})
	waitFor(t, "its settlement", func() bool {
		s, err := c.store.Settlement(r.id)
		digest = s.ModuleDigest
		return err == nil
	})
	return digest
}

// swapModule: a billing module begins to serve, and the one before comes back, while clients ask. Each
// request is held and charged by one module, and what begins when the command returned is charged by the
// one that it named, on every node.
func (c *trio) swapModule(t *testing.T) {
	money := abi.Nano(1e12)
	_, key := c.account(admin.NewAccount{Name: "swapped", Balance: admin.Amount{NanoUSD: &money}})
	var stop atomic.Bool
	var asking sync.WaitGroup
	asked := atomic.Int64{}
	for i := range 4 {
		e := errand{key: key, path: "/v1/messages", model: slowModel, prompt: fmt.Sprint("client ", i), stream: true, maxTokens: 20}
		asking.Go(func() {
			for !stop.Load() {
				if r := c.insist(e); r.status != http.StatusOK || !r.told {
					t.Errorf("%+v", r)
					return
				}
				asked.Add(1)
			}
		})
	}
	defer asking.Wait()
	defer stop.Store(true)
	before := c.chargedBy(t, c.nodes[2], key)
	m, err := c.nodes[0].admin.LoadModule(admin.NewModule{Wasm: example(t, "billing-c"), Config: []byte(`{"fee_nano":7}`)})
	if err != nil {
		t.Fatal(err)
	}
	serves := func(want string, do func() (extensions.Info, error)) {
		t.Helper()
		var done extensions.Info
		waitFor(t, "all nodes to have it", func() bool { // on a slow machine one may need more than the command waits
			done, err = do()
			return err == nil && !strings.Contains(done.Note, "do not follow")
		})
		if done.Digest != want {
			t.Errorf("%s serves, want %s", done.Digest, want)
		}
		for _, n := range c.nodes {
			if got := c.chargedBy(t, n, key); got != want {
				t.Errorf("%s charges by %s, want %s", n.name, got, want)
			}
		}
	}
	serves(m.Digest, func() (extensions.Info, error) { return c.nodes[0].admin.ActivateModule(m.Digest) })
	at := asked.Load()
	waitFor(t, "clients to ask meanwhile", func() bool { return asked.Load() > at || t.Failed() })
	serves(before, func() (extensions.Info, error) { return c.nodes[1].admin.ActivateModule(before) })
	stop.Store(true)
	asking.Wait()
	c.rest(nil)
	if n := c.number(`SELECT count(*) FROM ledger h JOIN ledger s ON s.request_id = h.request_id AND s.kind = 'settlement'
		WHERE h.kind = 'hold' AND s.module_digest <> '' AND h.module_digest <> s.module_digest`); n != 0 {
		t.Errorf("%d requests were held by one module and charged by another", n)
	}
	if n := c.number(`SELECT count(DISTINCT module_digest) FROM ledger WHERE kind = 'settlement' AND module_digest <> ''`); n < 2 {
		t.Errorf("%d modules charged", n)
	}
}
