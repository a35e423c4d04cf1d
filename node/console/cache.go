package console

import (
	"net/http"
	"net/url"

	"corenode/node/admin"
)

// modelsPage are the models, and what lies in their prefix caches.
type modelsPage struct {
	Rows  []modelRow
	Look  admin.CacheLook
	Query url.Values
	Line  string
}

// models shows the rows, which renew themselves, and the caches as they were when the page was
// asked for: a look at them visits the step loops.
func (c *Console) models(r *http.Request, cl *admin.Client) (any, error) {
	p := modelsPage{Rows: c.modelRows()}
	if r.Header.Get("X-Fragment") != "" {
		return p, nil
	}
	var flags string
	p.Query, flags = asked(r, "account", "model")
	p.Line = "corenode cache list" + flags
	look, err := cl.Cache(p.Query)
	p.Look = look
	return p, err
}

// TopSaved is what the best prefix of a model saved, at least 1.
func (p modelsPage) TopSaved(m admin.CachedModel) int64 {
	if len(m.Prefixes) == 0 {
		return 1
	}
	return max(1, m.Prefixes[0].Saved)
}

// unsharedPage says why two requests did not share what was cached, once both are named.
type unsharedPage struct {
	First, Second string
	Found         *admin.Unshared
	Line          string
}

func (c *Console) unshared(r *http.Request, cl *admin.Client) (any, error) {
	q, _ := asked(r, "first", "second")
	p := unsharedPage{First: q.Get("first"), Second: q.Get("second"), Line: "corenode cache why REQUEST REQUEST"}
	if p.First == "" || p.Second == "" {
		return p, nil
	}
	p.Line = "corenode cache why " + ShellQuoted(p.First) + " " + ShellQuoted(p.Second)
	found, err := cl.WhyUnshared(p.First, p.Second)
	p.Found = &found
	return p, err
}
