package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/node/why"
	"corenode/wasm/abi"
)

// Live is what only a running node can tell and do.
type Live interface {
	// Requests are those of this moment, in no order.
	Requests() []Request
	// PastRequests is a page of those that ended, newest first: of the account, model and id
	// that are not empty, with a number below before unless that is 0.
	PastRequests(accountID, model, id string, before uint64, limit int) []PastRequest
	// CancelRequest ends a request; false when none of that id runs.
	CancelRequest(id string) bool
	// Reload reads the configuration again.
	Reload() (Reloaded, error)
	Caches
	Prices
	Running
	// Why watches the node for so long and says what it is slow for.
	Why(ctx context.Context, watch time.Duration) why.Diagnosis
}

// Request is a request of this moment.
type Request struct {
	ID         string  `json:"id"`
	AccountID  string  `json:"account_id"`
	KeyID      string  `json:"key_id,omitempty"`
	Model      string  `json:"model,omitempty"`
	Protocol   string  `json:"protocol,omitempty"`
	Stream     bool    `json:"stream"`
	Phase      string  `json:"phase"`
	Permit     bool    `json:"permit" doc:"It holds one of its account's."`
	AgeMS      int64   `json:"age_ms"`
	Prompt     int64   `json:"prompt_tokens"`
	Cached     int64   `json:"cached_tokens" doc:"Of the prompt, found in the cache: what a session or a shared prefix saved."`
	Computed   int64   `json:"computed_tokens" doc:"Of the prompt, computed so far."`
	Output     int64   `json:"output_tokens"`
	OutputMax  int64   `json:"output_max"`
	DecodeRate float64 `json:"tokens_per_second,omitempty" doc:"Mean since the first output token."`
	Replica    string  `json:"replica,omitempty" doc:"The server elsewhere that it was sent to."`
	Translator string  `json:"translator,omitempty" doc:"The digest of the module that it began with."`
	Billing    string  `json:"billing,omitempty" doc:"The same of the billing module."`
}

// Prefilled is the part of the prompt that is computed or was found, 0 to 1.
func (r Request) Prefilled() float64 {
	return min(1, float64(r.Cached+r.Computed)/float64(max(1, r.Prompt)))
}

// LivePage are requests of this moment, the oldest first.
type LivePage struct {
	Data []Request `json:"data"`
	More int       `json:"more,omitempty" doc:"How many others were left out for the limit."`
}

// PastRequest is a request that ended. Times are milliseconds; a phase that was not reached is 0.
type PastRequest struct {
	Number        uint64    `json:"number"`
	ID            string    `json:"id"`
	AccountID     string    `json:"account_id"`
	KeyID         string    `json:"key_id"`
	Route         string    `json:"route"`
	Model         string    `json:"model,omitempty"`
	Stream        bool      `json:"stream"`
	Status        int       `json:"status"`
	Error         string    `json:"error,omitempty" doc:"The kind of its error."`
	Reason        string    `json:"reason,omitempty" doc:"How it was settled."`
	Began         time.Time `json:"began"`
	TotalMS       float64   `json:"total_ms"`
	TTFTMS        float64   `json:"ttft_ms,omitempty"`
	ReceiveMS     float64   `json:"receive_ms,omitempty"`
	PrepareMS     float64   `json:"prepare_ms,omitempty"`
	AdmissionMS   float64   `json:"admission_ms,omitempty"`
	HoldMS        float64   `json:"hold_ms,omitempty"` // beside the phases that follow the admission
	QueueMS       float64   `json:"queue_ms,omitempty"`
	PrefillMS     float64   `json:"prefill_ms,omitempty"`
	DecodeMS      float64   `json:"decode_ms,omitempty"`
	SettleMS      float64   `json:"settle_ms,omitempty"`
	Usage         Usage     `json:"usage"`
	ChargeNanoUSD abi.Nano  `json:"charge_nano_usd"`
	ChargeUSD     string    `json:"charge_usd"`
	Replica       string    `json:"replica,omitempty"`
	Attempts      int       `json:"attempts,omitempty"`
	Translator    string    `json:"translator,omitempty"`
}

// PastPage is a page of requests that ended. Next is before of the page behind it, absent at the end.
type PastPage struct {
	Data []PastRequest `json:"data"`
	Next uint64        `json:"next,omitempty" doc:"before of the page behind it; absent at the end."`
}

// Canceled says which request was cancelled.
type Canceled struct {
	ID string `json:"id"`
}

// SetLive tells the API of the node that runs. Without one the verbs that need it are refused.
func (a *API) SetLive(live Live) { a.live = live }

// withLive makes a verb need a running node.
func withLive(h handler) handler {
	do := h.do
	h.do = func(a *API, c call) (any, error) {
		if a.live == nil {
			return nil, &Error{Kind: KindConflict, Message: "this needs a running node: start one with corenode serve"}
		}
		return do(a, c)
	}
	return h
}

// of is the id of the account that a query names, empty without one.
func (a *API) of(query url.Values) (id string, err error) {
	name := query.Get("account")
	if name == "" {
		return "", nil
	}
	found, err := a.store.Account(name)
	return found.ID, err
}

// LivePhases are the phases of a request of this moment, in their order.
var LivePhases = []string{"admission", "queue", "prefill", "decode", "hold", "paused", "settlement", "short"}

// listRequests shows the requests of this moment, the oldest first. The node bounds how many there are.
func listRequests(a *API, c call) (shown LivePage, err error) {
	accountID, err := a.of(c.query)
	if err != nil {
		return shown, err
	}
	limit, err := pageLimit(c.query, livePageMax)
	if err != nil {
		return shown, err
	}
	model, phase, id := c.query.Get("model"), c.query.Get("phase"), c.query.Get("id")
	if phase != "" && !slices.Contains(LivePhases, phase) {
		return shown, invalid(fmt.Errorf("phase is %q, want one of %s", clip(phase), strings.Join(LivePhases, ", ")))
	}
	all := slices.DeleteFunc(a.live.Requests(), func(r Request) bool {
		return accountID != "" && r.AccountID != accountID || model != "" && r.Model != model ||
			phase != "" && r.Phase != phase || id != "" && r.ID != id
	})
	slices.SortFunc(all, func(x, y Request) int { return cmp.Or(cmp.Compare(y.AgeMS, x.AgeMS), cmp.Compare(x.ID, y.ID)) })
	n := min(len(all), limit)
	return LivePage{Data: append([]Request{}, all[:n]...), More: len(all) - n}, nil
}

// livePageMax is the most requests of this moment on one page: a node has no more.
const livePageMax = 4096

func listPast(a *API, c call) (shown PastPage, err error) {
	accountID, err := a.of(c.query)
	if err != nil {
		return shown, err
	}
	var before uint64
	if text := c.query.Get("before"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil {
			return shown, invalid(fmt.Errorf("before is %q, want next of the page before", clip(text)))
		}
	}
	limit, err := pageLimit(c.query, pastPageMax)
	if err != nil {
		return shown, err
	}
	page := a.live.PastRequests(accountID, c.query.Get("model"), c.query.Get("id"), before, limit)
	shown = PastPage{Data: append([]PastRequest{}, page...)}
	if len(shown.Data) == limit {
		shown.Next = shown.Data[limit-1].Number
	}
	return shown, nil
}

// pastPageMax is the most requests that ended on one page.
const pastPageMax = 1000

func cancelRequest(a *API, c call) (shown Canceled, err error) {
	for _, r := range a.live.Requests() {
		if r.ID == c.target {
			c.about.account = r.AccountID
		}
	}
	if !a.live.CancelRequest(c.target) {
		return shown, &Error{Kind: KindNotFound,
			Message: fmt.Sprintf("no request %q runs: it has ended, or is too short to be cancelled", clip(c.target))}
	}
	return Canceled{c.target}, nil
}

// watchMax bounds how long why watches.
const watchMax = 30 * time.Second

func explainSlow(a *API, c call) (shown why.Diagnosis, err error) {
	watch := 2 * time.Second
	if text := c.query.Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if watch = time.Duration(n) * time.Second; err != nil || watch < time.Second || watch > watchMax {
			return shown, invalid(fmt.Errorf("seconds is %q, want 1 to %d", clip(text), watchMax/time.Second))
		}
	}
	return a.live.Why(c.ctx, watch), nil
}
