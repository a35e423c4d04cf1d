package admin

import (
	"errors"
	"strings"
	"testing"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream"
	"corenode/node/store/sqlite"
)

// oneToken counts every prompt alike.
type oneToken struct{}

func (oneToken) Count(*messages.Request) (int, error) { return 1, nil }

// TestOwnEngineIsNotRemoved: an operator who removes this node's own engine from a model that nodes
// share is told what to do instead, and draining it works.
func TestOwnEngineIsNotRemoved(t *testing.T) {
	c := shared(t)
	refused := (*Error)(nil)
	if _, err := c.ChangeReplica("m", "remove", "https://10.0.0.7:8090"); !errors.As(err, &refused) || refused.Kind != KindConflict ||
		!strings.Contains(refused.Message, "drain it") {
		t.Errorf("removed with %v", err)
	}
	shown, err := c.ChangeReplica("m", "drain", "https://10.0.0.7:8090")
	if err != nil || len(shown.Replicas) != 1 || !shown.Replicas[0].Draining {
		t.Errorf("drained: %+v, %v", shown, err)
	}
}

// TestNoServerIsAddedToSharedModels: a server that an operator names for a model that nodes share would be sent the
// secret that nodes show each other. It is refused.
func TestNoServerIsAddedToSharedModels(t *testing.T) {
	c := shared(t)
	refused := (*Error)(nil)
	if _, err := c.ChangeReplica("m", "add", "http://127.0.0.1:1"); !errors.As(err, &refused) || refused.Kind != KindConflict ||
		!strings.Contains(refused.Message, "nodes share this model") {
		t.Errorf("added with %v", err)
	}
	if all, err := c.Upstreams(); err != nil || len(all) != 1 || len(all[0].Replicas) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// shared is a client of a node's API with the model m, which nodes share.
func shared(t *testing.T) *Client {
	t.Helper()
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m, err := upstream.Open(upstream.Options{Info: engine.Info{ID: "m"}, Own: "https://10.0.0.7:8090", Counter: oneToken{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	api := New(s, &fakeNode{}, nil, map[string]Upstream{"m": m}, nil)
	api.live = struct{ Live }{} // of which these verbs ask nothing
	return checked(t, Local(api))
}
