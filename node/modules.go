package main

import (
	"log/slog"
	"runtime/debug"

	"corenode/actors/tree"
	"corenode/engine/messages"
	"corenode/engine/upstream"
	"corenode/extensions"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// openModules starts the extension host. The built-in translators and tariff
// serve at once; the shipped modules and the operator's take over as they are ready,
// once settled is closed: what a crash left open is settled by modules of its own.
func (n *node) openModules() (err error) {
	c := n.cfg.Modules
	o := extensions.Options{
		Dir: n.modulesDir(), After: n.settled, CacheDir: c.CacheDir, CompileCommand: n.compile,
		TrustedKeys: c.Keys(), Denied: c.Denials(), AllowUnsigned: c.AllowUnsigned, AdmissionFailOpen: c.AdmissionFailOpen,
		PoolMax: c.InstancesMax, CPUShare: c.CPUShare, CanaryFactor: c.CanaryFactor, CanaryCallsMin: c.CanaryCallsMin,
		Log: n.log,
	}
	if n.commons != nil {
		if o.State, o.Number, err = n.commons.prepare(); err != nil {
			return err
		}
		o.Keep = func(before int64, text []byte) (int64, error) {
			return n.commons.store.SetCommon(store.CommonRollout, before, text)
		}
	}
	o.Prices = n.listed()
	if n.modules, err = extensions.Open(o); err == nil {
		n.onClose(slog.LevelWarn, "close the modules", n.modules.Close)
	}
	return err
}

// giveBackMemory returns to the system what loading modules took: compiling
// needs some hundred megabytes for seconds, and a node at rest does not collect.
func (n *node) giveBackMemory() {
	select {
	case <-n.modules.Ready():
		debug.FreeOSMemory()
	case <-n.stopped:
	}
}

// CountTokens counts the tokens of a body in the messages protocol, for a model that this node
// computes itself.
func (n *node) CountTokens(native []byte) (tokens int, ok bool) {
	request, err := messages.ParseCount(native)
	if err != nil {
		return 0, false
	}
	model, ok := n.catalog.Model(request.Model)
	if _, elsewhere := model.(*upstream.Model); !ok || elsewhere {
		return 0, false
	}
	tokens, err = model.Count(request)
	return tokens, err == nil
}

// prices are the rates of every served model.
func prices(cfg *config.Config) map[string]abi.Prices {
	all := map[string]abi.Prices{}
	for id, m := range cfg.Models {
		all[id] = m.Prices.Rates()
	}
	return all
}

// billing shows the billing module to the actor tree.
type billing struct{ *extensions.Host }

func (b billing) Quote(request string, in abi.QuoteInput) (tree.Quote, error) {
	q, err := b.Host.Quote(request, in)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// policies shows the modules that change requests and answers to the front end.
type policies struct{ *extensions.Host }

func (p policies) Filter(account, request string) (server.Filter, error) {
	f, err := p.Host.Filter(account, request)
	if f == nil || err != nil {
		return nil, err
	}
	return f, nil
}

// translators shows the translator modules to the front end.
type translators struct{ *extensions.Host }

func (t translators) Translate(protocol, account, request string, facts abi.Facts) server.Translation {
	if tr := t.Host.Translate(extensions.Slot(protocol), account, request, facts); tr != nil {
		return tr
	}
	return nil
}

func (t translators) Route(path []byte) (server.Routed, bool) {
	r, ok := t.Host.Route(path)
	return server.Routed{Protocol: string(r.Slot), Manifest: r.Manifest, Index: r.Index, Params: r.Params}, ok
}

func (t translators) Routers() (all []server.Routed) {
	for _, r := range t.Host.Routers() {
		all = append(all, server.Routed{Protocol: string(r.Slot), Manifest: r.Manifest})
	}
	return all
}

func (t translators) Owner(path []byte) (server.Routed, bool) {
	r, ok := t.Host.Owner(path)
	return server.Routed{Protocol: string(r.Slot), Manifest: r.Manifest}, ok
}
