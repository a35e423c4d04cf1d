package admin

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// CacheLook is what lies in the prefix caches: of each model the prefixes of most worth, and
// what accounts have. It never has any text.
type CacheLook struct {
	Models []CachedModel `json:"models"`
}

// CachedModel is the prefix cache of one model.
type CachedModel struct {
	Model       string          `json:"model"`
	PageTokens  int             `json:"page_tokens"`
	Pages       int             `json:"pages"`
	PagesCached int             `json:"pages_cached"`
	PagesPinned int             `json:"pages_pinned"`
	Snapshots   int             `json:"snapshots"`
	Evicted     int64           `json:"evicted_pages"`
	Accounts    []CachedAccount `json:"accounts"`
	Prefixes    []CachedPrefix  `json:"prefixes"`
}

// CachedAccount is what an account has in it. The account of another node that asks for its
// clients is the name that it gives.
type CachedAccount struct {
	AccountID string `json:"account_id"`
	Pages     int    `json:"pages"`
	Pinned    int    `json:"pinned_pages"`
	Pins      int    `json:"pins"`
	Snapshots int    `json:"pinned_snapshots"`
	Running   int    `json:"running"`
	Evicted   int64  `json:"evicted_pages" doc:"Since it last had none."`
}

// CachedPrefix is the beginning that prompts have in common, or the whole of one.
type CachedPrefix struct {
	AccountID string    `json:"account_id"`
	ID        string    `json:"id" doc:"Means nothing elsewhere."`
	Tokens    int       `json:"tokens"`
	Hits      int64     `json:"hits" doc:"Requests that went on from exactly its end."`
	Saved     int64     `json:"saved_tokens" doc:"Tokens times hits."`
	LastUse   time.Time `json:"last_use"`
	Running   int       `json:"running" doc:"Sequences that hold it now."`
	Pins      int       `json:"pins"`
	Snapshot  bool      `json:"snapshot" doc:"A recurrent state is kept at its end."`
}

// Unshared says why the later of two requests did not use more of what the earlier one left in the cache.
type Unshared struct {
	Sentence string     `json:"sentence"`
	Limit    string     `json:"limit"`
	Equal    int        `json:"equal_tokens" doc:"At the beginning of both prompts."`
	Exact    bool       `json:"exact" doc:"To the token; else to the page."`
	Part     bool       `json:"part" doc:"The token behind them differs."`
	Share    int        `json:"shareable_tokens"`
	Earlier  TrailShown `json:"earlier"`
	Later    TrailShown `json:"later"`
}

// TrailShown is one of the two requests.
type TrailShown struct {
	ID        string    `json:"id"`
	AccountID string    `json:"account_id"`
	Model     string    `json:"model"`
	Matched   time.Time `json:"matched" doc:"When the cache was asked."`
	Prompt    int       `json:"prompt_tokens"`
	Cached    int       `json:"cached_tokens"`
}

// Caches is what a node tells of its prefix caches.
type Caches interface {
	// LookAtCaches lists the prefixes of most worth, at most limit for each model; of the model and the
	// account that are not empty.
	LookAtCaches(ctx context.Context, model, accountID string, limit int) (CacheLook, error)
	// WhyUnshared compares two requests; an error where one of them is not known any more.
	WhyUnshared(ctx context.Context, first, second string) (Unshared, error)
}

// prefixesMax is the most prefixes of a model in one answer.
const prefixesMax = 100

func lookAtCaches(a *API, c call) (shown CacheLook, err error) {
	accountID, err := a.of(c.query)
	if err != nil {
		return shown, err
	}
	limit := prefixesMax
	if text := c.query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > prefixesMax {
			return shown, invalid(fmt.Errorf("limit is %q, want 1 to %d", clip(text), prefixesMax))
		}
	}
	return a.live.LookAtCaches(c.ctx, c.query.Get("model"), accountID, limit)
}

func whyUnshared(a *API, c call) (shown Unshared, err error) {
	first, second := c.query.Get("first"), c.query.Get("second")
	if first == "" || second == "" || first == second {
		return shown, invalid(fmt.Errorf("first and second are %q and %q, want the ids of two requests", clip(first), clip(second)))
	}
	return a.live.WhyUnshared(c.ctx, first, second)
}

// Cache lists what lies in the prefix caches. query has the parameters of the verb.
func (c *Client) Cache(query url.Values) (look CacheLook, err error) {
	return look, c.roundTrip("GET", Root+"/cache", query, nil, &look)
}

// WhyUnshared says why two requests did not share what was cached.
func (c *Client) WhyUnshared(first, second string) (u Unshared, err error) {
	return u, c.roundTrip("GET", Root+"/cache/why", url.Values{"first": {first}, "second": {second}}, nil, &u)
}
