package console

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/node/admin"
	"corenode/node/why"
)

// requestsPage are the requests of this moment.
type requestsPage struct {
	Live  admin.LivePage
	Query url.Values
	Line  string // the command that does the same
}

// asked are the query parameters of a list, and the flags of the command that say the same;
// empty ones are left out.
func asked(r *http.Request, names ...string) (q url.Values, flags string) {
	q = url.Values{}
	for _, name := range names {
		if v := strings.TrimSpace(r.URL.Query().Get(name)); v != "" {
			q.Set(name, strings.Clone(v)) // the request's memory is used anew when a browser leaves a streamed answer
		}
	}
	return q, flagsOf(q)
}

func flagsOf(q url.Values) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		flags += " --" + name + " " + ShellQuoted(q.Get(name))
	}
	return flags
}

// encoded is a query as a link has it. Of a plain text a template takes = and & for parts of a value.
func encoded(q url.Values) template.URL { return template.URL(q.Encode()) }

// with is a query with one more parameter, encoded.
func with(q url.Values, name, value string) template.URL {
	q = maps.Clone(q)
	q.Set(name, value)
	return encoded(q)
}

func (c *Console) requests(r *http.Request, cl *admin.Client) (any, error) {
	q, flags := asked(r, "account", "model", "phase")
	page := requestsPage{Query: maps.Clone(q), Line: "corenode requests list" + flags}
	var err error
	page.Live, err = oldest(cl, q)
	return page, err
}

// oldest are as many of the requests of this moment as a page shows: it is read each second.
func oldest(cl *admin.Client, q url.Values) (admin.LivePage, error) {
	q.Set("limit", strconv.Itoa(rowsShown))
	return cl.Requests(q)
}

// pastPage is a page of the requests that ended, newest first.
type pastPage struct {
	Requests []admin.PastRequest
	Query    url.Values
	Older    template.URL // query of the page behind
	Line     string
}

func (c *Console) past(r *http.Request, cl *admin.Client) (any, error) {
	q, flags := asked(r, "account", "model")
	p := pastPage{Query: maps.Clone(q), Line: "corenode requests list --past" + flags}
	if before := r.URL.Query().Get("before"); before != "" {
		q.Set("before", before)
	}
	q.Set("limit", strconv.Itoa(rowsShown))
	page, err := cl.PastRequests(q)
	p.Requests = page.Data
	if page.Next != 0 {
		p.Older = with(p.Query, "before", strconv.FormatUint(page.Next, 10))
	}
	return p, err
}

// requestPage is one request: one that runs, or one that ended with where its time went.
type requestPage struct {
	ID    string
	Live  *admin.Request
	Past  *admin.PastRequest
	Spans []span
}

// span is a part of a request's time, in per mille of the whole.
type span struct {
	Name        string
	MS          float64
	From, Width float64
}

func (c *Console) request(r *http.Request, cl *admin.Client) (any, error) {
	id := r.PathValue("request")
	live, err := cl.Requests(url.Values{"id": {id}})
	if err != nil {
		return nil, err
	}
	if len(live.Data) > 0 {
		return requestPage{ID: id, Live: &live.Data[0]}, nil
	}
	page, err := cl.PastRequests(url.Values{"id": {id}, "limit": {"1"}})
	if err != nil {
		return nil, err
	}
	if len(page.Data) == 0 {
		return nil, &admin.Error{Kind: admin.KindNotFound,
			Message: "no request " + id + " runs, nor is it among the latest that ended; its charge may be in the ledger"}
	}
	past := &page.Data[0]
	return requestPage{ID: id, Past: past, Spans: spans(past)}, nil
}

// spans are the phases of a request one after the other, but for the hold, which becomes durable
// beside those that follow the admission. What is in none of them, such as writing, stands at the end.
func spans(p *admin.PastRequest) (all []span) {
	whole := max(p.TotalMS, 1e-6)
	at, rest := 0.0, p.TotalMS
	add := func(name string, ms float64) {
		all = append(all, span{name, ms, 1000 * at / whole, max(1, 1000*ms/whole)})
	}
	for _, s := range []struct {
		name string
		ms   float64
	}{{"receive", p.ReceiveMS}, {"prepare", p.PrepareMS}, {"admission", p.AdmissionMS}, {"queue", p.QueueMS}, {"prefill", p.PrefillMS},
		{"decode", p.DecodeMS}, {"settle", p.SettleMS}} {
		add(s.name, s.ms)
		at, rest = at+s.ms, rest-s.ms
		if s.name == "admission" && p.HoldMS > 0 {
			add("hold", p.HoldMS)
		}
	}
	add("all else", max(0, rest))
	return all
}

// whySeconds is how long the node is watched for the page.
const whySeconds = 2

// whyPage says why the node is slow, or that it is not.
type whyPage struct {
	why.Diagnosis
	Watched time.Duration
}

func (c *Console) why(_ *http.Request, cl *admin.Client) (any, error) {
	d, err := cl.Why(whySeconds)
	return whyPage{d, whySeconds * time.Second}, err
}

// audit is a page of who changed what, newest first.
func (c *Console) audit(r *http.Request, cl *admin.Client) (any, error) {
	q, _ := asked(r, "before")
	q.Set("limit", strconv.Itoa(rowsShown))
	return cl.Audit(q)
}
