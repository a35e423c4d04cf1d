package main

import (
	"context"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"corenode/actors/tree"
	"corenode/engine"
	"corenode/node/admin"
	"corenode/node/server"
	"corenode/node/why"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// live is what the admin API is shown of the requests of a running node.
type live struct{ n *node }

// Requests implements admin.Live.
func (l live) Requests() []admin.Request {
	all := l.n.tree.Live()
	now := time.Now()
	shown := make([]admin.Request, len(all))
	for i, r := range all {
		shown[i] = showLive(r, now)
	}
	return shown
}

func showLive(r tree.LiveRequest, now time.Time) admin.Request {
	p := r.Progress
	shown := admin.Request{ID: r.ID, AccountID: r.AccountID, KeyID: r.KeyID, Model: r.Model, Protocol: r.Protocol, Stream: r.Stream,
		Phase: r.Phase, Permit: r.Permit, AgeMS: now.Sub(r.Began).Milliseconds(), Prompt: r.Prompt, Cached: p.Cached, Computed: p.Input,
		Output: p.Output, OutputMax: r.OutputMax, Replica: p.Replica, Translator: r.Translator, Billing: r.Billing}
	if since := now.Sub(p.First); !p.First.IsZero() && since > 0 && p.Output > 1 {
		shown.DecodeRate = float64(p.Output-1) / since.Seconds()
	}
	return shown
}

// PastRequests implements admin.Live.
func (l live) PastRequests(accountID, model, id string, before uint64, limit int) []admin.PastRequest {
	all := l.n.server.Past(server.PastQuery{AccountID: accountID, Model: model, ID: id, Before: before, Limit: limit})
	shown := make([]admin.PastRequest, len(all))
	for i, p := range all {
		shown[i] = showPast(p)
	}
	return shown
}

func showPast(p server.Past) admin.PastRequest {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s := p.Settled
	return admin.PastRequest{Number: p.Seq, ID: p.ID, AccountID: p.AccountID, KeyID: p.KeyID, Route: p.Route, Model: p.Model,
		Stream: p.Stream, Status: p.Status, Error: p.Error, Reason: string(s.Reason), Began: p.Began,
		TotalMS: ms(p.Total), TTFTMS: ms(p.TTFT),
		ReceiveMS: ms(p.Receive), PrepareMS: ms(p.Prepare), AdmissionMS: ms(s.Admission), HoldMS: ms(s.Hold), QueueMS: ms(s.Queue),
		PrefillMS: ms(s.Prefill), DecodeMS: ms(s.Decode), SettleMS: ms(p.Settle), Usage: admin.Usage(s.Usage),
		ChargeNanoUSD: s.Charge, ChargeUSD: builtin.FormatUSD(s.Charge), Replica: s.Source.Replica, Attempts: s.Attempts,
		Translator: p.Translator}
}

// CancelRequest implements admin.Live.
func (l live) CancelRequest(id string) bool { return l.n.tree.CancelRequest(id) }

// Reload implements admin.Live.
func (l live) Reload() (admin.Reloaded, error) {
	if l.n.reloads == nil {
		return admin.Reloaded{}, &admin.Error{Kind: admin.KindConflict, Message: "this node has no configuration to read again"}
	}
	done := l.n.reloads.reload()
	for _, list := range []*[]string{&done.Changed, &done.Waiting, &done.Problems} {
		*list = append([]string{}, *list...) // in JSON none is a list too
	}
	return done, nil
}

// Prices implements admin.Live.
func (l live) Prices() []admin.ModelPrices {
	own, listed, all := prices(l.n.inForce()), l.n.listed(), []admin.ModelPrices{}
	if l.n.commons == nil { // a reload changes both
		listed = own
	}
	for _, model := range slices.Sorted(maps.Keys(own)) {
		all = append(all, admin.ModelPrices{Model: model, Listed: tokenPrices(listed[model]), Configured: tokenPrices(own[model]),
			Same: listed[model] == own[model]})
	}
	return all
}

func tokenPrices(p abi.Prices) admin.TokenPrices {
	return admin.TokenPrices{InputNanoUSD: p.Input, CachedInputNanoUSD: p.Cached, OutputNanoUSD: p.Output}
}

// ApplyPrices implements admin.Live.
func (l live) ApplyPrices() error {
	c := l.n.commons
	if c == nil {
		return &admin.Error{Kind: admin.KindConflict,
			Message: "this node shares no prices: corenode reload applies those of its configuration"}
	}
	err := c.setPrices(nil, prices(l.n.inForce()))
	if err == nil {
		err = c.takePrices()
	}
	return err
}

// Why implements admin.Live.
func (l live) Why(ctx context.Context, watch time.Duration) why.Diagnosis {
	before := l.n.sample()
	select {
	case <-time.After(watch):
	case <-ctx.Done():
	}
	return why.Diagnose(before, l.n.sample())
}

// sample looks at the node for why.
func (n *node) sample() why.Sample {
	s := why.Sample{At: time.Now(), Processors: runtime.NumCPU()}
	s.Busy, s.Stolen = machineTime(n.system)
	s.Own = processTime()
	s.Collector, s.CollectorOf = collectorTime()
	for _, info := range n.catalog.infos {
		if e, ok := n.catalog.engines[info.ID]; ok {
			s.Models = append(s.Models, sampleModel(info.ID, e.Stats()))
		}
	}
	for _, r := range n.tree.Live() {
		s.Requests = append(s.Requests, sampleRequest(r))
	}
	for _, m := range n.modules.Modules() {
		s.Modules = append(s.Modules, why.Module{Slot: string(m.Slot), Name: m.Name + "@" + m.Version, Requests: m.Requests, CPU: m.CPU})
	}
	for _, u := range n.modules.Uses() {
		s.Slots = append(s.Slots, why.Slot{Name: string(u.Slot), Limit: u.Limit, CPU: u.CPU,
			Waits: u.Waits, Declined: u.Declined})
	}
	l := n.tree.Ledger()
	s.Ledger = why.Ledger{Commits: l.Commits, Busy: l.Busy, Under: l.Under, Waiting: l.Waiting, Spilled: l.Spilled,
		Elsewhere: n.database != nil}
	s.Down = n.tree.Down()
	s.Out = n.database != nil && n.database.Admits() != nil
	return s
}

// sampleRequest takes no prompt that a server elsewhere computes for this node's work.
func sampleRequest(r tree.LiveRequest) why.Request {
	p := r.Progress
	return why.Request{ID: r.ID, AccountID: r.AccountID, Model: r.Model, Prefill: r.Phase == tree.PhasePrefill && p.Replica == "",
		Prompt: r.Prompt, Cached: p.Cached, Input: p.Input}
}

func sampleModel(id string, stats engine.Stats) why.Model {
	s, p := stats.Scheduler, stats.Pool
	return why.Model{ID: id, Running: s.Running, Waiting: s.Waiting, BatchMax: s.BatchMax, SequencesMax: s.SequencesMax,
		QueueWait: s.QueueWait, StepTook: s.StepMeasured, StepExpected: s.StepPredicted,
		PrefillTokens: s.PrefillTokens, DecodeTokens: s.DecodeTokens,
		Preempted: s.Preempted + s.PreemptedFair, PagesFree: p.PagesFree, PagesAll: p.PagesFree + p.PagesOwned + p.PagesCached}
}

// collectorTime is the processor time of the collector, and that of this process which it is a part of. Both are
// estimates that the runtime brings up to date at the end of a collection.
func collectorTime() (collector, of time.Duration) {
	samples := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(samples)
	at := func(i int) float64 { return samples[i].Value.Float64() * float64(time.Second) }
	return time.Duration(at(0)), time.Duration(at(1) - at(2))
}
