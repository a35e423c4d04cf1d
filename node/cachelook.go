package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"corenode/engine"
	"corenode/engine/kv"
	"corenode/engine/trail"
	"corenode/node/admin"
)

// trailBytes is what the node keeps of how prompts began.
const trailBytes = 1 << 20

// lookTimeout is how long a look waits for a step loop to come by: the longest step, and some.
const lookTimeout = 10 * time.Second

// looks lets one look at the caches go at a time: each visits step loops.
type looks struct{ mu sync.Mutex }

// adjusted has the last word on the options of each engine.
func (n *node) adjusted(o *engine.Options) {
	o.Trails = n.trails
	if n.adjust != nil {
		n.adjust(o)
	}
}

// look is visitEngine for an operator.
func (l live) look(ctx context.Context, model string, do func(*engine.Stepper)) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := l.n.visitEngine(ctx, model, do); err != nil {
		return &admin.Error{Kind: admin.KindConflict, Message: fmt.Sprintf("the model %s was not reached: %v; try again", model, err)}
	}
	return nil
}

// LookAtCaches implements admin.Caches.
func (l live) LookAtCaches(ctx context.Context, model, accountID string, limit int) (look admin.CacheLook, err error) {
	l.n.looks.mu.Lock()
	defer l.n.looks.mu.Unlock()
	look.Models = []admin.CachedModel{}
	for _, info := range l.n.catalog.infos {
		e := l.n.catalog.engines[info.ID]
		if e == nil || model != "" && model != info.ID {
			continue
		}
		survey := &kv.Survey{Max: limit}
		if accountID != "" {
			survey.Match = func(namespace string) bool { return engine.AccountOf(namespace) == accountID }
		}
		for more := true; more; { // streams go on between two parts
			more = false
			if err := l.look(ctx, info.ID, func(s *engine.Stepper) { more = s.Survey(survey) }); err != nil {
				return look, err
			}
		}
		look.Models = append(look.Models, showCache(info.ID, e.PageTokens(), e.Stats().Pool, survey))
	}
	if len(look.Models) == 0 && model != "" {
		return look, &admin.Error{Kind: admin.KindNotFound, Message: fmt.Sprintf("%q is no model that this node computes itself", model)}
	}
	return look, nil
}

func showCache(model string, pageTokens int, p kv.Stats, survey *kv.Survey) admin.CachedModel {
	m := admin.CachedModel{Model: model, PageTokens: pageTokens, Pages: p.PagesFree + p.PagesOwned + p.PagesCached,
		PagesCached: p.PagesCached, PagesPinned: p.PagesPinned, Snapshots: p.Snapshots, Evicted: p.PagesEvicted,
		Accounts: []admin.CachedAccount{}, Prefixes: []admin.CachedPrefix{}}
	for _, s := range survey.Spaces {
		m.Accounts = append(m.Accounts, admin.CachedAccount{AccountID: engine.AccountOf(s.Namespace), Pages: s.Pages, Pinned: s.Pinned,
			Pins: s.Pins, Snapshots: s.Guarded, Running: s.Running, Evicted: s.Evicted})
	}
	for _, p := range survey.Prefixes {
		m.Prefixes = append(m.Prefixes, admin.CachedPrefix{AccountID: engine.AccountOf(p.Namespace), ID: fmt.Sprintf("%016x", p.ID),
			Tokens: p.Tokens, Hits: int64(p.Hits), Saved: p.Saved(), LastUse: time.Unix(p.Met, 0).UTC(), Running: int(p.Running),
			Pins: int(p.Pins), Snapshot: p.Snapshot})
	}
	return m
}

// WhyUnshared implements admin.Caches.
func (l live) WhyUnshared(ctx context.Context, first, second string) (admin.Unshared, error) {
	a, err := l.trail(first)
	if err != nil {
		return admin.Unshared{}, err
	}
	b, err := l.trail(second)
	if err != nil {
		return admin.Unshared{}, err
	}
	token := -1
	if a.Model == b.Model {
		l.n.looks.mu.Lock()
		defer l.n.looks.mu.Unlock()
		err := l.look(ctx, a.Model, func(s *engine.Stepper) {
			if at, ok := s.Token(a, b); ok {
				token = at
			}
		})
		if err != nil {
			return admin.Unshared{}, err
		}
	}
	v := trail.Compare(a, b, token)
	return admin.Unshared{Sentence: v.Sentence(), Limit: string(v.Limit), Equal: v.Equal, Exact: v.Exact, Part: v.Part, Share: v.Shareable,
		Earlier: showTrail(v.Earlier), Later: showTrail(v.Later)}, nil
}

func (l live) trail(id string) (*trail.Trail, error) {
	if t := l.n.trails.Find(id); t != nil {
		return t, nil
	}
	return nil, &admin.Error{Kind: admin.KindNotFound, Message: fmt.Sprintf("of a request %.80q it is not known how its prompt began: "+
		"it is too old, never reached a model, or a server elsewhere answered it", id)}
}

func showTrail(t *trail.Trail) admin.TrailShown {
	return admin.TrailShown{ID: t.Request, AccountID: t.Partition, Model: t.Model, Matched: t.Matched.UTC(), Prompt: t.Prompt,
		Cached: t.Cached}
}
