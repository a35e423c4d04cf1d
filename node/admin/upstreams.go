package admin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"corenode/engine/upstream"
)

// Upstream is what the API needs of a model that servers elsewhere answer.
type Upstream interface {
	Describe() string
	Waiting() int
	Replicas() []upstream.Replica
	Add(url string) error
	Drain(url string, draining bool) error
	Remove(url string) error
}

// UpstreamModel is a model that servers elsewhere answer, with its replicas.
type UpstreamModel struct {
	Model    string    `json:"model"`
	Engine   string    `json:"engine" doc:"Such as upstream/vllm."`
	Waiting  int       `json:"waiting" doc:"Requests here that wait for a replica that is not full."`
	Replicas []Replica `json:"replicas"`
}

// Replica is one server of such a model.
type Replica struct {
	URL          string   `json:"url"`
	Ready        bool     `json:"ready" doc:"It has answered a probe, and counts tokens where it has to."`
	Up           bool     `json:"up" doc:"Neither ejected nor out by its probes."`
	Failing      bool     `json:"failing" doc:"Its last probes or requests failed. One that is up all the same is chosen, since too few others are."`
	Draining     bool     `json:"draining"`
	Version      string   `json:"version,omitempty"`
	InFlight     int      `json:"in_flight" doc:"Requests of this node."`
	Queued       *float64 `json:"queued,omitempty" doc:"Requests that wait in the replica, by its own word; absent where it does not say."`
	QueuedAgeMS  *int64   `json:"queued_age_ms,omitempty" doc:"How old queued is."`
	EjectedForMS int64    `json:"ejected_for_ms" doc:"How long it will stay ejected; 0 if it is not."`
	Reason       string   `json:"reason,omitempty" doc:"Why it failed last, refused the node or had no room, with what it said."`
	Prefixes     int      `json:"prefixes" doc:"Parts of prompts that it is thought to have cached."`
}

// State says for people what keeps requests from the replica.
func (r Replica) State() string {
	state := "up"
	switch {
	case r.EjectedForMS > 0:
		state = "ejected for " + (time.Duration(r.EjectedForMS) * time.Millisecond).Round(100*time.Millisecond).String()
	case !r.Up:
		state = "down"
	case !r.Ready:
		state = "not ready"
	case r.Failing:
		state = "failing"
	}
	if r.Draining {
		state += ", draining"
	}
	return state
}

// ReplicaURL names a replica.
type ReplicaURL struct {
	URL string `json:"url" doc:"The base URL of a replica, without /v1."`
}

func (a *API) listUpstreams(call) (list[UpstreamModel], error) {
	shown := list[UpstreamModel]{Data: []UpstreamModel{}}
	for _, id := range slices.Sorted(maps.Keys(a.upstreams)) {
		shown.Data = append(shown.Data, showUpstream(id, a.upstreams[id]))
	}
	return shown, nil
}

// changeReplicas makes a verb that changes one model's replicas and shows them all.
func changeReplicas(do func(m Upstream, url string) error) handler {
	return withBody(func(a *API, c call, asked ReplicaURL) (shown UpstreamModel, err error) {
		m, found := a.upstreams[c.target]
		if !found {
			return shown, &Error{Kind: KindNotFound, Message: fmt.Sprintf("no servers elsewhere answer a model %q", clip(c.target))}
		}
		if err := upstream.CheckURL(asked.URL); err != nil {
			return shown, invalid(fmt.Errorf("url is %q: %w", clip(asked.URL), err))
		}
		if err := do(m, asked.URL); errors.Is(err, upstream.ErrReplica) {
			return shown, &Error{Kind: KindNotFound, Message: err.Error()}
		} else if errors.Is(err, upstream.ErrOwn) || errors.Is(err, upstream.ErrShared) {
			return shown, &Error{Kind: KindConflict, Message: err.Error()}
		} else if err != nil {
			return shown, err
		}
		return showUpstream(c.target, m), nil
	})
}

var (
	addReplica     = changeReplicas(Upstream.Add)
	removeReplica  = changeReplicas(Upstream.Remove)
	drainReplica   = changeReplicas(func(m Upstream, url string) error { return m.Drain(url, true) })
	undrainReplica = changeReplicas(func(m Upstream, url string) error { return m.Drain(url, false) })
)

func showUpstream(id string, m Upstream) UpstreamModel {
	return UpstreamModel{Model: id, Engine: m.Describe(), Waiting: m.Waiting(), Replicas: listOf(m.Replicas(), showReplica).Data}
}

func showReplica(r upstream.Replica) Replica {
	shown := Replica{URL: r.ID, Ready: r.Ready, Up: r.Up, Failing: r.Failing, Draining: r.Draining, Version: r.Version,
		InFlight: r.InFlight, EjectedForMS: r.EjectedFor.Milliseconds(), Reason: r.Reason, Prefixes: r.Prefixes}
	if r.WaitingAge >= 0 {
		age := r.WaitingAge.Milliseconds()
		shown.Queued, shown.QueuedAgeMS = &r.Waiting, &age
	}
	return shown
}
