package main

import (
	"path/filepath"
	"runtime/debug"

	"corenode/actors/account"
	"corenode/actors/tree"
	"corenode/extensions"
	"corenode/node/config"
	"corenode/node/server"
	"corenode/wasm/abi"
)

// openModules starts the extension host. The built-in translators and tariff
// serve at once; the shipped modules and the operator's take over as they are ready.
func (n *node) openModules() (*extensions.Host, error) {
	c := n.cfg.Modules
	return extensions.Open(extensions.Options{
		Dir: filepath.Join(n.cfg.DataDir, "modules"), CacheDir: c.CacheDir, CompileCommand: n.compile,
		TrustedKeys: c.Keys(), Denied: c.Denials(), AllowUnsigned: c.AllowUnsigned, AdmissionFailOpen: c.AdmissionFailOpen,
		PoolMax: c.InstancesMax, CPUShare: c.CPUShare, CanaryFactor: c.CanaryFactor, CanaryCallsMin: c.CanaryCallsMin, Prices: prices(n.cfg), Log: n.log,
	})
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
	return quote{q}, nil
}

type quote struct{ *extensions.Quote }

func (q quote) Bounds() (upper, minimum abi.Nano) { return q.Upper, q.Minimum }

// rateCrashed charges what a killed process left open, by the module that
// quoted it, also when another one serves by now; the hold's time is the
// quote's. Should that module be of no use, the one that serves charges. What
// was provisional stays so. before are the prices of that process.
func (n *node) rateCrashed(e *account.Entry, before map[string]abi.Prices) error {
	prices, ok := before[e.Model]
	if !ok { // it kept none
		var err error
		if prices, err = n.modules.Prices(e.Model); err != nil { // a model that is not served any more
			e.Provisional, e.Note, e.ModuleDigest = true, "the model has no price now", ""
			return nil
		}
	}
	<-n.modules.Ready() // what serves is in memory then, and is not opened for each row
	in := abi.ChargeInput{Prices: prices, Usage: e.Usage, At: e.Time.Unix(), Model: e.Model, Account: e.AccountID}
	c, err := n.modules.Replay(e.ModuleDigest, in.Append(nil))
	if err != nil {
		n.log.Warn("the module that quoted a request cannot charge it", "id", e.RequestID, "module", e.ModuleDigest, "error", err.Error())
		c, err = n.modules.Rate(e.RequestID, in)
		c.Provisional = true
	}
	e.Amount, e.Tier, e.Provisional = -c.Amount, c.Tier, e.Provisional || c.Provisional
	e.ModuleDigest, e.InputHash, e.ChargeInput = c.ModuleDigest, c.InputHash, c.Input
	return err
}

// translators shows the translator modules to the front end.
type translators struct{ *extensions.Host }

func (t translators) Translate(protocol, account, request string, facts abi.Facts) server.Translation {
	return t.Host.Translate(extensions.Slot(protocol), account, request, facts)
}
