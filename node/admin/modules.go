package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/extensions/compare"
	"corenode/node/store"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// Modules is what the API needs of the extension host.
type Modules interface {
	Modules() []extensions.Info
	Module(ref string) (extensions.Info, error)
	Load(ctx context.Context, wasm, signature, config []byte) (extensions.Info, error)
	Reconfigure(ctx context.Context, wasm, signature, config []byte) (extensions.Info, error)
	Activate(ref string) (extensions.Info, error)
	Enable(name string) (extensions.Info, error)
	Disable(name string) (extensions.Info, error)
	Canary(ref string, percent int) (extensions.Info, error)
	Shadow(ref string, percent int) (extensions.Info, error)
	ShadowReport(ref string) (compare.Report, error)
	Rollback(extensions.Slot) (extensions.Info, error)
	Capture(s extensions.Slot, account string, span time.Duration) (capture.Status, error)
	Captured(extensions.Slot) (capture.Status, error)
	EndCapture(extensions.Slot) error
	CompareCaptured(ctx context.Context, older, newer string, count capture.Count) (capture.Report, error)
	Remove(ref string) error
	Prices(model string) (abi.Prices, error)
	Rate(request string, in abi.ChargeInput, held []abi.Counter) (extensions.Charge, error)
	Replay(digest string, input []byte) (extensions.Charge, error)
}

// Waiting are modules whose changes wait for other nodes.
type Waiting interface {
	// Within gives those whose changes stop waiting when ctx ends. What has not been changed by then is not.
	Within(ctx context.Context) Modules
}

// LateNote is how the part of a note begins that names nodes which do not follow a change in time. Info has no field for
// them: who makes the changes of a cluster writes it.
const LateNote = "nodes that do not follow yet: "

// LateNodes names the nodes that do not follow a change of a module; nothing when all do.
func LateNodes(m extensions.Info) string {
	_, names, _ := strings.Cut(m.Note, LateNote)
	return names
}

// modulesOf are those that a call changes.
func (a *API) modulesOf(c call) Modules {
	if w, waits := a.modules.(Waiting); waits {
		return w.Within(c.ctx)
	}
	return a.modules
}

// NewModule is a module to load. Bytes are base64 in JSON.
type NewModule struct {
	Wasm        []byte          `json:"wasm" doc:"The module's bytes."`
	Signature   []byte          `json:"signature,omitempty" doc:"Detached ed25519 signature."`
	Config      json.RawMessage `json:"config,omitempty" doc:"The module's own configuration."`
	Reconfigure bool            `json:"reconfigure,omitempty" doc:"The same file, if it serves and is not for billing, gets this configuration at once."`
}

// Share is the part of traffic that a canary or a shadow gets.
type Share struct {
	Percent int `json:"percent" doc:"0 ends it." minimum:"0" maximum:"100"`
}

// NewCapture asks for a slot's calls to be kept in memory.
type NewCapture struct {
	Seconds int    `json:"seconds" doc:"For how long requests are taken: 1 to 3600."`
	Account string `json:"account,omitempty" doc:"Whose: an id or a name. Empty is all."`
}

// Older names the module that another is compared with.
type Older struct {
	Old string `json:"old,omitempty" doc:"A module; empty: what served before, or serves now."`
}

// Replayed is a charge computed again, beside what the ledger says.
type Replayed struct {
	Entry         Entry          `json:"entry"`
	AmountNanoUSD abi.Nano       `json:"amount_nano_usd" doc:"Of the replay, as a ledger amount: zero or less."`
	Tier          int            `json:"tier"`
	InputHash     string         `json:"input_hash"`
	Lines         []compare.Line `json:"lines"`
	LedgerNanoUSD abi.Nano       `json:"ledger_nano_usd" doc:"What the ledger says: the row's amount, of a re-rating with that of its charge."`
	Same          bool           `json:"same" doc:"That amount, and tier and input hash of the row, are those of the replay."`
}

// Rerated says what rating provisional charges again came to.
type Rerated struct {
	Rated         int      `json:"rated"`
	AmountNanoUSD abi.Nano `json:"amount_nano_usd" doc:"The sum of the adjustments."`
	AmountUSD     string   `json:"amount_usd"`
	Failed        []string `json:"failed" doc:"Requests whose charge stays provisional."`
}

// errNoModules answers for a data folder without a running node: modules live in a node.
var errNoModules = &Error{Kind: KindConflict, Message: "modules need a running node: start one with corenode serve"}

// withModules makes a verb need the extension host. Of one that answers a module, what is noted names that by its digest.
func withModules(h handler) handler {
	do := h.do
	h.do = func(a *API, c call) (any, error) {
		if a.modules == nil {
			return nil, errNoModules
		}
		answer, err := do(a, c)
		if m, ok := answer.(extensions.Info); ok {
			c.about.module = m.Digest
		}
		return answer, err
	}
	return h
}

func listModules(a *API, _ call) (list[extensions.Info], error) {
	return list[extensions.Info]{Data: a.modules.Modules()}, nil
}

func showModule(a *API, c call) (extensions.Info, error) { return a.modules.Module(c.target) }

func loadModule(a *API, c call, asked NewModule) (shown extensions.Info, err error) {
	if len(asked.Wasm) == 0 {
		return shown, invalid(errors.New("wasm is missing: the module's bytes in base64"))
	}
	if asked.Reconfigure {
		return a.modules.Reconfigure(c.ctx, asked.Wasm, asked.Signature, asked.Config)
	}
	return a.modules.Load(c.ctx, asked.Wasm, asked.Signature, asked.Config)
}

func activateModule(a *API, c call) (extensions.Info, error) {
	return a.modulesOf(c).Activate(c.target)
}

func enableModule(a *API, c call) (extensions.Info, error) { return a.modulesOf(c).Enable(c.target) }

func disableModule(a *API, c call) (extensions.Info, error) { return a.modulesOf(c).Disable(c.target) }

func canaryModule(a *API, c call, asked Share) (extensions.Info, error) {
	return share(c, asked, a.modulesOf(c).Canary)
}

func shadowModule(a *API, c call, asked Share) (extensions.Info, error) {
	return share(c, asked, a.modulesOf(c).Shadow)
}

func showShadow(a *API, c call) (compare.Report, error) { return a.modules.ShadowReport(c.target) }

func share(c call, asked Share, set func(string, int) (extensions.Info, error)) (shown extensions.Info, err error) {
	if asked.Percent < 0 || asked.Percent > 100 {
		return shown, invalid(fmt.Errorf("percent is %d, want 0 to 100", asked.Percent))
	}
	return set(c.target, asked.Percent)
}

func rollbackSlot(a *API, c call) (extensions.Info, error) {
	return a.modulesOf(c).Rollback(extensions.Slot(c.target))
}

func beginCapture(a *API, c call, asked NewCapture) (shown capture.Status, err error) {
	if asked.Account != "" {
		owner, err := a.store.Account(asked.Account)
		if err != nil {
			return shown, err
		}
		c.about.account, asked.Account = owner.ID, owner.ID
	}
	return a.modules.Capture(extensions.Slot(c.target), asked.Account, time.Duration(asked.Seconds)*time.Second)
}

func showCapture(a *API, c call) (capture.Status, error) {
	return a.modules.Captured(extensions.Slot(c.target))
}

func endCapture(a *API, c call) (struct{}, error) {
	return struct{}{}, a.modules.EndCapture(extensions.Slot(c.target))
}

func compareModule(a *API, c call, asked Older) (capture.Report, error) {
	return a.modules.CompareCaptured(c.ctx, asked.Old, c.target, a.node.CountTokens)
}

func removeModule(a *API, c call) (struct{}, error) {
	m, err := a.modules.Module(c.target)
	if err != nil {
		return struct{}{}, err
	}
	if err := a.modulesOf(c).Remove(c.target); err != nil {
		return struct{}{}, err
	}
	c.about.module = m.Digest
	return struct{}{}, nil
}

// replayCharge runs the module that made a charge on the input it had: of a request its last rating.
func replayCharge(a *API, c call) (shown Replayed, err error) {
	e, amount, err := a.rating(c.target)
	if err != nil {
		return shown, err
	}
	if len(e.ChargeInput) == 0 {
		return shown, &Error{Kind: KindConflict, Message: fmt.Sprintf("no module made the charge of %s: it has no input", c.target)}
	}
	again, err := a.modules.Replay(e.ModuleDigest, e.ChargeInput)
	if err != nil {
		return shown, err
	}
	return Replayed{
		Entry: showEntry(e), AmountNanoUSD: -again.Amount, Tier: again.Tier, InputHash: again.InputHash,
		Lines: showLines(again.Lines), LedgerNanoUSD: amount,
		Same: -again.Amount == amount && again.Tier == e.Tier && again.InputHash == e.InputHash,
	}, nil
}

// rating finds the last rating of a request's charge, or one by the id of its row, and the amount that the
// module gave: the row of a re-rating, or of a late settlement, has the difference to the rows before it.
func (a *API) rating(ref string) (e account.Entry, amount abi.Nano, err error) {
	e, err = a.store.Settlement(ref)
	id, notRow := strconv.ParseInt(ref, 10, 64)
	last := int64(math.MaxInt64)
	switch {
	case errors.Is(err, store.ErrNotFound) && notRow == nil:
		row, readErr := a.store.Entry(id)
		if readErr != nil || !isRerating(row) {
			return e, 0, cmp.Or(readErr, err)
		}
		last = id
		e, err = a.store.Settlement(strconv.FormatInt(row.Settles, 10))
	case err == nil && notRow == nil:
		last = e.ID
	}
	if amount = e.Amount; err != nil || e.ID == last {
		return e, amount, err
	}
	rows, err := a.store.Request(e.RequestID)
	for _, row := range rows {
		if isRerating(row) && row.ID <= last {
			e, amount = row, amount+row.Amount
		}
	}
	return e, amount, err
}

func isRerating(e account.Entry) bool {
	return e.Kind == account.Adjustment && !e.Refund && e.Settles > 0
}

// errNotRated is of a charge that the module could not rate.
var errNotRated = errors.New("not rated")

// rerate rates every provisional charge again, by the active billing module, while its caller is there.
// Each is adjusted once, so that a second call goes on where a first one ended.
func rerate(a *API, c call) (done Rerated, err error) {
	done = Rerated{Failed: []string{}}
	changed := map[string]bool{}
	defer func() {
		for id := range changed {
			a.node.Changed(id)
		}
	}()
	for after := int64(0); ; {
		waiting, err := a.store.Provisional(after)
		if err != nil {
			return done, err
		}
		for _, e := range waiting {
			if err := c.ctx.Err(); err != nil {
				return done, err
			}
			after = e.ID
			amount, adjusted, err := a.rerateOne(e)
			switch {
			case errors.Is(err, errNotRated):
				done.Failed = append(done.Failed, e.RequestID)
			case err != nil:
				return done, err
			case adjusted:
				done.Rated++
				done.AmountNanoUSD += amount
				changed[e.AccountID] = true
			}
		}
		if len(waiting) == 0 {
			done.AmountUSD = builtin.FormatUSD(done.AmountNanoUSD)
			return done, nil
		}
	}
}

// rerateOne adjusts one charge. done is false when another call did, or refunded it, since it was read.
func (a *API) rerateOne(e account.Entry) (amount abi.Nano, done bool, err error) {
	in, err := abi.ParseChargeInput(e.ChargeInput)
	if err != nil { // charged by its hold: no input was recorded
		prices, err := a.modules.Prices(e.Model)
		if err != nil {
			return 0, false, errNotRated
		}
		in = abi.ChargeInput{Prices: prices, Usage: e.Usage, At: e.Time.Unix(), Model: e.Model, Account: e.AccountID}
	}
	charge, err := a.modules.Rate(e.RequestID, in, e.Counters)
	if err != nil || charge.Provisional {
		return 0, false, errNotRated
	}
	adjustment := account.Entry{
		AccountID: e.AccountID, RequestID: e.RequestID, KeyID: e.KeyID, Model: e.Model, Time: time.Now(),
		Amount: -charge.Amount - e.Amount, Usage: e.Usage, Tier: charge.Tier, ModuleDigest: charge.ModuleDigest,
		InputHash: charge.InputHash, ChargeInput: charge.Input, Settles: e.ID, Note: "rated again",
	}
	for i, c := range charge.Counters { // in the order of e's; a provisional charge took all that was held
		c.Amount -= e.Counters[i].Amount
		adjustment.Counters = append(adjustment.Counters, c)
	}
	done, err = a.store.Adjust(adjustment)
	return adjustment.Amount, done, err
}
