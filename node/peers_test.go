package main

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgrestest"
)

// sharing makes a node share its models, at an address that is encrypted or not.
func sharing(t *testing.T, encrypted bool) func(*config.Config) {
	address := freeAddress(t)
	return func(cfg *config.Config) {
		cfg.Cluster.ShareModels, cfg.Cluster.Listen = []string{"true"}, address
		if encrypted { // a name is not known to be loopback
			_, port, _ := net.SplitHostPort(address)
			cfg.Cluster.Address = net.JoinHostPort("localhost", port)
		}
	}
}

// awaitPeers waits until a node has so many others for its fast model.
func awaitPeers(t *testing.T, n *node, want int) {
	t.Helper()
	waitFor(t, "the other nodes", func() bool {
		ready := 0
		for _, r := range n.catalog.replicated[fastModel].Replicas() {
			if r.Ready && !r.Draining {
				ready++
			}
		}
		return ready == want+1
	})
}

// TestConversationsFindTheirCache: whichever node gets a turn, it is computed where the
// conversation's prefix lies; the node that took it charges it, once; another account finds nothing of
// it; and without the other node this one computes all.
func TestConversationsFindTheirCache(t *testing.T) {
	if testing.Short() {
		t.Skip("two nodes and a database")
	}
	url, dirs := postgrestest.URL(t), t.TempDir()
	first, base, _ := member(t, url, filepath.Join(dirs, "a"), sharing(t, true))
	_, key := customerOf(t, first, account.Account{Name: "alice", Unlimited: true}, 0)
	_, other := customerOf(t, first, account.Account{Name: "other", Unlimited: true}, 0)
	second, secondBase, _ := member(t, url, filepath.Join(dirs, "b"), sharing(t, false))
	awaitPeers(t, first, 1)
	awaitPeers(t, second, 1)
	bases := [2]string{base, secondBase}
	const conversations = 12
	prompt := func(i int) string {
		return strings.Repeat(fmt.Sprintf("conversation %d is worth to be remembered ", i), 20)
	}
	for i := range conversations {
		fresh, again := cachedOf(t, bases[i%2], key, fastModel, prompt(i)), cachedOf(t, bases[1-i%2], key, fastModel, prompt(i))
		if fresh != 0 || again == 0 {
			t.Errorf("conversation %d: %d cached at first, %d at the other node", i, fresh, again)
		}
		if theirs := cachedOf(t, bases[i%2], other, fastModel, prompt(i)); theirs != 0 {
			t.Errorf("another account finds %d cached tokens", theirs)
		}
	}
	e := errand{key: key, path: "/v1/messages", model: fastModel, stream: true, prompt: prompt(0), maxTokens: 20}
	for _, base := range bases {
		if r := e.run(t, http.DefaultClient, base, moments{}); !r.told || r.status != http.StatusOK {
			t.Errorf("a stream: %+v", r)
		}
	}
	wantSound(t, first)
	rows, err := first.store.Entries(store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	charges, forwarded := 0, 0
	for _, row := range rows {
		if row.Kind == account.Settlement {
			charges++
			if row.Source.Replica != "" {
				forwarded++
			}
			if row.Provisional || row.Reason != account.Finished {
				t.Errorf("a charge: %+v", row)
			}
		}
	}
	if charges != 3*conversations+2 || forwarded == 0 || forwarded == charges {
		t.Errorf("%d charges of %d requests, %d were forwarded", charges, 3*conversations+2, forwarded)
	}
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range conversations { // at once, before anything is known of it
		cachedOf(t, base, key, fastModel, prompt(i))
		if r := e.run(t, http.DefaultClient, base, moments{}); !r.told {
			t.Errorf("without the other node: %+v", r)
		}
	}
	checkNothingLeft(t, first)
}

// TestStrangerIsNoNode: what only a node may say counts for nothing with the key of an account.
func TestStrangerIsNoNode(t *testing.T) {
	n, base, key := startNode(t, func(cfg *config.Config) {
		sharing(t, false)(cfg)
		onPostgres(postgrestest.URL(t), cfg.DataDir)(cfg)
	})
	for _, secret := range []string{key, "", n.clusterToken()[1:]} {
		body := `{"model":"core-1.1-mini","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
		answer, _ := fetch(t, "POST", n.commons.peers.address+"/v1/messages", body,
			http.Header{"Authorization": {"Bearer " + secret}, "X-Corenode-Partition": {"acct_x"}, "X-Corenode-Hop": {"1"}})
		want := http.StatusUnauthorized
		if secret == key {
			want = http.StatusOK
		}
		if answer.StatusCode != want {
			t.Errorf("with %.8s: %d, want %d", secret, answer.StatusCode, want)
		}
	}
	wantSound(t, n)
	if v, err := n.store.Verify(); err != nil || v.Charges != 1 {
		t.Errorf("%+v, %v: want the account charged", v, err)
	}
	if base == n.commons.peers.address {
		t.Error("nodes use the public listener")
	}
}
