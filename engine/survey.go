package engine

import (
	"strings"
	"time"

	"corenode/engine/kv"
	"corenode/engine/sched"
	"corenode/engine/trail"
)

// namespace names what an account has in the cache of a model.
func namespace(account, model string) string { return account + "\x00" + model }

// AccountOf is the account of a namespace of the cache.
func AccountOf(namespace string) string {
	account, _, _ := strings.Cut(namespace, "\x00")
	return account
}

// follow keeps how the prompt of a job begins.
func (s *Stepper) follow(j *Job, q *sched.Sequence, now time.Time) *trail.Trail {
	s.pool.Advance(now.Unix())
	trails := s.engine.options.Trails
	if trails == nil {
		return nil
	}
	t := &trail.Trail{Request: j.ID, Partition: j.Account, Model: j.Request.Model, Loaded: s.loaded, Recurrent: s.pool.Hybrid(),
		PageSize: s.pool.Config().PageTokens, Cached: q.Cached, Branch: q.Branch, States: j.Request.Snapshots, Matched: now}
	trails.Add(t, j.Request.Prompt)
	return t
}

// surveyPages is how many pages of the cache one look takes in: some hundred microseconds.
const surveyPages = 1 << 12

// Survey looks at a part of the cache and says whether there is more.
func (s *Stepper) Survey(v *kv.Survey) (more bool) { return s.pool.Look(v, surveyPages) }

const (
	pathPages = 1 << 16 // pages of the pool that Token looks at
	pathTries = 32      // and prefixes
)

// Token is the first token in which the prompts of two requests differ, if both are in memory
// still: of a request that runs, or in the cache. ok is false where they are not.
func (s *Stepper) Token(a, b *trail.Trail) (at int, ok bool) {
	page := trail.Pages(a, b)
	x, y := s.tokensOf(a, page), s.tokensOf(b, page)
	if x == nil || y == nil {
		return 0, false
	}
	at = page * a.PageSize
	x, y = x[at:], y[at:]
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return at + i, true
		}
	}
	return at + min(len(x), len(y)), true
}

// tokensOf are the tokens of a request's prompt, at least as far as the end of a page or its own end.
func (s *Stepper) tokensOf(t *trail.Trail, page int) (found []int32) {
	for _, r := range s.order {
		if r.trail == t {
			return r.job.Request.Prompt
		}
	}
	if (page+1)*t.PageSize > t.Prompt {
		return nil // the rest of a prompt is in no page of its own
	}
	s.pool.Paths(namespace(t.Partition, t.Model), page, pathPages, pathTries, func(tokens []int32) bool {
		if !s.engine.options.Trails.BeginsWith(t, tokens) {
			return false
		}
		found = tokens
		return true
	})
	return found
}
