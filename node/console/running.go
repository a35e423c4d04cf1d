package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"corenode/node/admin"
	"corenode/node/doctor"
)

// configPage is the configuration that is in force.
type configPage struct {
	Settings []admin.Setting
	All      bool // not only what was changed
	Line     string
}

func (c *Console) config(r *http.Request, cl *admin.Client) (any, error) {
	p := configPage{All: r.URL.Query().Get("all") != "", Line: "corenode config show"}
	all, err := cl.Settings()
	if !p.All {
		p.Line += " --changed"
		all = slices.DeleteFunc(all, func(s admin.Setting) bool { return !s.Changed })
	}
	p.Settings = all
	return p, err
}

// logsPage are the latest lines of the log, newest first.
type logsPage struct {
	Lines []admin.LogLine
	Query url.Values
	Line  string
}

// logLinesShown is how many lines the page has.
const logLinesShown = 100

func (c *Console) logs(r *http.Request, cl *admin.Client) (any, error) {
	q, flags := asked(r, "level", "kind", "account")
	p := logsPage{Query: url.Values{}, Line: "corenode logs --follow" + flags}
	for name := range q {
		p.Query.Set(name, q.Get(name))
	}
	q.Set("limit", strconv.Itoa(logLinesShown))
	page, err := cl.Logs(q)
	slices.Reverse(page.Data)
	p.Lines = page.Data
	return p, err
}

// doctorPage is what of the node and its machine is well, and what is not.
type doctorPage struct {
	Findings []doctor.Finding
	At       time.Time
	Bad      int // findings that are not well
}

func (c *Console) doctor(*http.Request, *admin.Client) (any, error) {
	found, at := c.deps.Examine()
	p := doctorPage{Findings: found, At: at.UTC()}
	for _, f := range found {
		if f.State != doctor.OK {
			p.Bad++
		}
	}
	return p, nil
}

// drainPage is how far the node is on its way down, and what still runs.
type drainPage struct {
	admin.DrainState
	Live admin.LivePage
}

func (c *Console) drain(_ *http.Request, cl *admin.Client) (any, error) {
	state, err := cl.DrainState()
	if err != nil {
		return nil, err
	}
	live, err := oldest(cl, url.Values{})
	return drainPage{state, live}, err
}

func beginDrain(_ *http.Request, cl *admin.Client) (said, to string, err error) {
	_, err = cl.Drain()
	return "The node drains.", Root + "drain", err
}
