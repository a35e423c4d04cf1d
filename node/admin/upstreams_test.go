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
	s, err := sqlite.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := upstream.Open(upstream.Options{Info: engine.Info{ID: "m"}, Own: "https://10.0.0.7:8090", Counter: oneToken{}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	api := New(s, &fakeNode{}, nil, map[string]Upstream{"m": m}, nil)
	api.live = struct{ Live }{} // of which these verbs ask nothing
	c := checked(t, Local(api))
	refused := (*Error)(nil)
	if _, err := c.RemoveReplica("m", "https://10.0.0.7:8090"); !errors.As(err, &refused) || refused.Kind != KindConflict ||
		!strings.Contains(refused.Message, "drain it") {
		t.Errorf("removed with %v", err)
	}
	if shown, err := c.DrainReplica("m", "https://10.0.0.7:8090"); err != nil || len(shown.Replicas) != 1 || !shown.Replicas[0].Draining {
		t.Errorf("drained: %+v, %v", shown, err)
	}
}
