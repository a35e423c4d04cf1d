package vector

import (
	"encoding/json"
	"errors"
	"fmt"

	"corenode/wasm/abi"
)

// The defaults of what a vector does not say.
const (
	defaultTime    = 1_700_000_000
	defaultModel   = "core-1.1"
	defaultAccount = "account"
)

type facts struct {
	ID      *string `json:"id"`
	Created *int64  `json:"created"`
	Model   *string `json:"model"`
	Stream  *bool   `json:"stream"`
}

// route is how a request came to a module with routes.
type route struct {
	Index   int   `json:"index"`
	Params  pairs `json:"params"`
	Query   pairs `json:"query"`
	Headers pairs `json:"headers"`
}

// pairs are the members of an object in the order in which they are written, as a node gives
// them. An array of texts is a name that was given more than once.
type pairs []abi.Pair

// UnmarshalJSON reads an object of strings and of arrays of strings.
func (p *pairs) UnmarshalJSON(raw []byte) error {
	var named map[string]texts
	if err := json.Unmarshal(raw, &named); err != nil {
		return err
	}
	members, err := membersOf(raw)
	if err != nil {
		return err
	}
	*p = nil
	for _, m := range members {
		var name string
		var values texts
		if err := errors.Join(json.Unmarshal(m.key, &name), json.Unmarshal(m.value, &values)); err != nil {
			return err
		}
		for _, v := range values {
			*p = append(*p, abi.Pair{Name: name, Value: v})
		}
	}
	return nil
}

// abi is the record.
func (r *route) abi() *abi.Route {
	if r == nil {
		return nil
	}
	return &abi.Route{Index: r.Index, Params: r.Params, Query: r.Query, Headers: r.Headers}
}

func (r *route) check() error {
	if r.Index < 0 || r.Index > 0xffff || max(len(r.Params), len(r.Query), len(r.Headers)) > abi.PairsMax {
		return fmt.Errorf("route: its index is below 0, or it has more than %d pairs", abi.PairsMax)
	}
	return nil
}

// listed is one model of a listing.
type listed struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Created int64  `json:"created"`
	Context int64  `json:"context"`
	Output  int64  `json:"output"`
}

// or gives a default to what was left out.
func or[T any](given *T, fallback T) T {
	if given == nil {
		return fallback
	}
	return *given
}

// facts are the vector's facts with its op's defaults.
func (v *Vector) facts() abi.Facts {
	f := v.spec.Facts
	model := defaultModel
	if v.Op == "request" || v.Op == "models" {
		model = ""
	}
	return abi.Facts{
		ID: or(f.ID, "vector"), Created: or(f.Created, defaultTime),
		Model: or(f.Model, model), Stream: or(f.Stream, v.Op == "stream"),
	}
}

// failure is what went wrong, in an error vector.
type failure struct {
	Status int    `json:"status"` // HTTP status of a body; what a stream sends does not depend on it
	Kind   string `json:"kind"`   // as in logs: "invalid_request", "overloaded", ...
	Reason string `json:"reason"` // as data: "field", "window", ...; none is that msg says it
	Prompt int64  `json:"prompt"` // the numbers of the reason
	Value  int64  `json:"value"`
	Bound  int64  `json:"bound"`
	Param  string `json:"param"`
	Msg    string `json:"msg"`
}

// abi is the record but for what the vector's op adds. check has read the names.
func (f *failure) abi() (in abi.ErrorInput) {
	in = abi.ErrorInput{Status: f.Status, Param: f.Param, Msg: f.Msg, Detail: abi.Detail{Prompt: f.Prompt, Value: f.Value, Bound: f.Bound}}
	in.Kind, _ = kindNamed(f.Kind)
	in.Reason, _ = abi.ReasonNamed(f.Reason)
	return in
}

// check finds what is missing. With stream, the status line is long gone.
func (f *failure) check(stream bool) error {
	if !stream && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("error.status is %d, want 400 to 599", f.Status)
	}
	if _, ok := abi.ReasonNamed(f.Reason); !ok {
		return fmt.Errorf("error.reason %q is no reason of an error", f.Reason)
	}
	_, err := kindNamed(f.Kind)
	return err
}

func kindNamed(name string) (abi.Kind, error) {
	for _, k := range abi.Kinds() {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q is no kind of error", name)
}

type prices struct {
	Input  int64 `json:"input"`
	Cached int64 `json:"cached"`
	Output int64 `json:"output"`
}

func (p *prices) abi() abi.Prices {
	if p == nil {
		return abi.Prices{Input: 240, Cached: 24, Output: 2400}
	}
	return abi.Prices{Input: abi.Nano(p.Input), Cached: abi.Nano(p.Cached), Output: abi.Nano(p.Output)}
}

type usage struct {
	InputUncached int64 `json:"input_uncached"`
	CacheRead     int64 `json:"cache_read"`
	CacheWrite    int64 `json:"cache_write"`
	Output        int64 `json:"output"`
	Reasoning     int64 `json:"reasoning"`
}

type quote struct {
	Prices    *prices `json:"prices"`
	Input     int64   `json:"input"`
	OutputMax int64   `json:"output_max"`
	At        *int64  `json:"at"`
	Model     *string `json:"model"`
	Account   *string `json:"account"`
}

func (q *quote) abi() abi.QuoteInput {
	return abi.QuoteInput{
		Prices: q.Prices.abi(), Input: q.Input, OutputMax: q.OutputMax,
		At: or(q.At, defaultTime), Model: or(q.Model, defaultModel), Account: or(q.Account, defaultAccount),
	}
}

type charge struct {
	Prices  *prices `json:"prices"`
	Usage   usage   `json:"usage"`
	At      *int64  `json:"at"`
	Model   *string `json:"model"`
	Account *string `json:"account"`
	Held    []int64 `json:"held"`
}

func (c *charge) abi() abi.ChargeInput {
	return abi.ChargeInput{
		Prices: c.Prices.abi(), Usage: abi.Usage(c.Usage), Held: c.Held,
		At: or(c.At, defaultTime), Model: or(c.Model, defaultModel), Account: or(c.Account, defaultAccount),
	}
}

type counters struct {
	AccountRequests    int64 `json:"account_requests"`
	AccountRequestsMax int64 `json:"account_requests_max"`
	TokensRemaining    int64 `json:"tokens_remaining"`
	TokensPerMinute    int64 `json:"tokens_per_minute"`
	Available          int64 `json:"available"` // nano-dollars
	Unlimited          bool  `json:"unlimited"`
	NodeRequests       int64 `json:"node_requests"`
	NodeRequestsMax    int64 `json:"node_requests_max"`
	ModelQueued        int64 `json:"model_queued"`
	ModelQueuedMax     int64 `json:"model_queued_max"`
	ModelWaitMS        int64 `json:"model_wait_ms"`
	ModelPagesUsed     int64 `json:"model_pages_used"`
	ModelPages         int64 `json:"model_pages"`
}

type admission struct {
	At           *int64   `json:"at"`
	PromptTokens int64    `json:"prompt_tokens"`
	OutputMax    int64    `json:"output_max"`
	Stream       bool     `json:"stream"`
	Account      *string  `json:"account"`
	Key          string   `json:"key"`
	Model        *string  `json:"model"`
	Protocol     *string  `json:"protocol"`
	Counters     counters `json:"counters"`
}

func (a *admission) abi() abi.AdmissionInput {
	n := a.Counters
	return abi.AdmissionInput{
		At: or(a.At, defaultTime), PromptTokens: a.PromptTokens, OutputMax: a.OutputMax, Stream: a.Stream,
		Account: or(a.Account, defaultAccount), Key: a.Key, Model: or(a.Model, defaultModel), Protocol: or(a.Protocol, "chat"),
		Counters: abi.Counters{
			AccountRequests: n.AccountRequests, AccountRequestsMax: n.AccountRequestsMax,
			TokensRemaining: n.TokensRemaining, TokensPerMinute: n.TokensPerMinute,
			Available: abi.Nano(n.Available), Unlimited: n.Unlimited,
			NodeRequests: n.NodeRequests, NodeRequestsMax: n.NodeRequestsMax,
			ModelQueued: n.ModelQueued, ModelQueuedMax: n.ModelQueuedMax, ModelWaitMS: n.ModelWaitMS,
			ModelPagesUsed: n.ModelPagesUsed, ModelPages: n.ModelPages,
		},
	}
}
