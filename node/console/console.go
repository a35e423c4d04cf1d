// Package console is the operators' web pages, on the admin listener.
//
// Pages are rendered here, from what the admin API answers: the console can do
// nothing that the command line cannot, and says on each page which command does
// the same. Pages work without a script, but for what is live: charts, tables that
// renew themselves and the playground. Nothing is fetched from another host, no
// body of a request or an answer is kept, and what is remembered for the charts is
// bounded (see the history).
//
// Who may see pages is decided by a cookie that signing in with a token gives; see
// sessions. Every write carries a form token of its session and comes from a page of
// this listener.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"corenode/node/admin"
	"corenode/node/doctor"
	"corenode/node/operators"
)

// Root is the path under which all pages live.
const Root = "/console/"

// Deps are what the console shows and does.
type Deps struct {
	// Client calls the admin API in an operator's name.
	Client func(context.Context, operators.Operator) *admin.Client
	// Operator finds the one whose token it is; Named that of a name, the zero value without one.
	Operator func(token string) (operators.Operator, bool)
	Named    func(name string) operators.Operator
	// Samples writes the node's series, those that the charts are made of among them, as the text format of Prometheus has
	// them, in any order.
	Samples func(io.Writer)
	// API is the base URL of the node's API as this machine reaches it, for the playground.
	API string
	// Secure says which certificate the API has to show; nil trusts those that the machine trusts. A key is sent there.
	Secure *tls.Config
	// Models are the ids that the node answers for.
	Models func() []string
	// Examine makes the checks of corenode doctor, or says what they said a moment ago, and when.
	Examine func() ([]doctor.Finding, time.Time)
	// Audit keeps a form that the operator's role forbids, by the pattern of its path. The calls of other forms the admin API keeps.
	Audit   func(who operators.Operator, method, path string, status int)
	Version string
	Log     *slog.Logger
}

//go:embed assets
var assets embed.FS

//go:embed pages
var pages embed.FS

// Console answers the pages. It is safe for concurrent use.
type Console struct {
	deps     Deps
	api      *http.Client
	sessions sessions
	alone    sync.Mutex // held by an act that is to be alone
	history  history
	pages    map[string]*template.Template
	mux      *http.ServeMux
}

// New makes a console.
func New(d Deps) *Console {
	c := &Console{deps: d, api: newAPI(d.Secure), pages: parsePages(), mux: http.NewServeMux()}
	c.mux.HandleFunc("GET "+Root+"assets/{file}", c.asset)
	c.mux.HandleFunc("GET "+Root+"sign-in", c.signInPage)
	c.mux.HandleFunc("POST "+Root+"sign-in", c.signIn)
	c.mux.HandleFunc("POST "+Root+"sign-out", c.signOut)
	for _, p := range views {
		c.mux.Handle("GET "+Root+p.path, c.signed(c.view(p)))
	}
	for _, a := range slices.Concat(acts, clusterActs) {
		c.mux.Handle("POST "+Root+a.path, c.signed(c.act(a)))
	}
	c.mux.Handle("GET "+Root+"series", c.signed(c.series))
	c.mux.Handle("GET "+Root+"ledger.csv", c.signed(c.ledgerCSV))
	c.mux.Handle("POST "+Root+"playground/messages", c.signed(c.ask))
	c.mux.Handle("GET "+Root, c.signed(func(w http.ResponseWriter, r *http.Request, s *session) {
		c.fail(w, r, s, &admin.Error{Kind: admin.KindNotFound, Message: "there is no page " + r.URL.Path})
	}))
	return c
}

// view is a page that is read: show returns what its template gets as .Body.
type view struct {
	path, page, title string
	show              func(c *Console, r *http.Request, cl *admin.Client) (any, error)
}

var views = []view{
	{"{$}", "now", "Now", (*Console).now},
	{"requests", "requests", "Requests", (*Console).requests},
	{"requests/past", "past", "Requests that ended", (*Console).past},
	{"requests/{request}", "request", "Request", (*Console).request},
	{"why", "why", "Why it is slow", (*Console).why},
	{"accounts", "accounts", "Accounts", (*Console).accounts},
	{"accounts/{account}", "account", "Account", (*Console).account},
	{"ledger", "ledger", "Ledger", (*Console).ledger},
	{"charges", "charge", "Charge", (*Console).findCharge},
	{"charges/{charge}", "charge", "Charge", (*Console).charge},
	{"modules", "modules", "Modules", (*Console).modules},
	{"modules/{module}", "module", "Module", (*Console).module},
	{"models", "models", "Models and cache", (*Console).models},
	{"models/why", "unshared", "Why two requests did not share", (*Console).unshared},
	{"upstreams", "upstreams", "Upstreams", (*Console).upstreams},
	{"cluster", "cluster", "Cluster", (*Console).cluster},
	{"audit", "audit", "Audit", (*Console).audit},
	{"logs", "logs", "Logs", (*Console).logs},
	{"config", "config", "Configuration", (*Console).config},
	{"doctor", "doctor", "Doctor", (*Console).doctor},
	{"drain", "drain", "Drain", (*Console).drain},
	{"playground", "playground", "Playground", (*Console).playground},
}

// act is a form that changes something: do returns what was done and the page to go to.
type act struct {
	path string
	role operators.Role
	do   func(r *http.Request, cl *admin.Client) (said, to string, err error)
	// alone says that it looks at what is there before it changes that: no other such act comes in between.
	alone bool
}

// shown is what every template gets.
type shown struct {
	Title, Path, Version string
	Operator             operators.Operator
	Token                string // of the session's forms
	Said                 string // what the last form did
	Failed               string // what went wrong
	Now                  time.Time
	Body                 any
}

// At says whether the page is that of a link, or one below it.
func (s shown) At(link string) bool {
	return s.Path == link || link != Root && strings.HasPrefix(s.Path, link+"/")
}

// Changes says whether the operator may use the forms that change something.
func (s shown) Changes() bool { return s.Operator.Role >= operators.Manager }

// ServeHTTP answers one request of the admin listener below Root.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	c.mux.ServeHTTP(w, r)
}

// handler answers a request of somebody who is signed in.
type handler func(w http.ResponseWriter, r *http.Request, s *session)

// notOurs answers a form of another page.
const notOurs = "this form is not of a page that you have open here; go back and load it again"

// signed lets through who is signed in. A write also needs a page of this listener as its
// origin and the session's form token.
func (c *Console) signed(do handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := c.session(r)
		if s == nil {
			if r.Method != http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
				c.signInAgain(w, r)
				return
			}
			if r.Method != http.MethodGet || r.Header.Get("X-Fragment") != "" {
				http.Error(w, "sign in first", http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, Root+"sign-in?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		if r.Method != http.MethodGet && (!sameOrigin(r) || !s.owns(r.PostFormValue("token"))) {
			http.Error(w, notOurs, http.StatusForbidden)
			return
		}
		do(w, r, s)
	})
}

// view answers with a page, or for a script with the part of it that renews itself.
func (c *Console) view(v view) handler {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		body, err := v.show(c, r, c.deps.Client(r.Context(), s.operator))
		if err != nil {
			c.fail(w, r, s, err)
			return
		}
		d := c.shown(r, s, v.title, body)
		block := "base"
		if r.Header.Get("X-Fragment") != "" {
			block = "live"
		} else {
			d.Said = s.take()
		}
		c.render(w, http.StatusOK, v.page, block, d)
	}
}

func (c *Console) shown(r *http.Request, s *session, title string, body any) shown {
	return shown{Title: title, Path: r.URL.Path, Version: c.deps.Version, Operator: s.operator, Token: s.token,
		Now: time.Now().UTC(), Body: body}
}

// act does what a form says and shows the page that it leads to.
func (c *Console) act(a act) handler {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		if s.operator.Role < a.role {
			c.deps.Audit(s.operator, http.MethodPost, Root+a.path, http.StatusForbidden) // its pattern: what was sent may be a secret
			c.failed(w, r, s, http.StatusForbidden, fmt.Sprintf("this needs the role %s; yours is %s", a.role, s.operator.Role))
			return
		}
		to, err := s.act(r.PostFormValue("once"), valuesOf(r), func() (said, to string, err error) {
			if a.alone {
				c.alone.Lock()
				defer c.alone.Unlock()
			}
			return a.do(r, c.deps.Client(r.Context(), s.operator))
		})
		if err != nil {
			c.fail(w, r, s, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// statuses are those of HTTP by the kind of an admin error.
var statuses = map[string]int{
	admin.KindInvalid: http.StatusBadRequest, admin.KindNotFound: http.StatusNotFound, admin.KindConflict: http.StatusConflict,
	admin.KindForbidden: http.StatusForbidden,
}

// fail shows what went wrong.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, s *session, err error) {
	status := http.StatusInternalServerError
	if e, ok := errors.AsType[*admin.Error](err); ok && statuses[e.Kind] != 0 {
		status = statuses[e.Kind]
	}
	c.failed(w, r, s, status, err.Error())
}

func (c *Console) failed(w http.ResponseWriter, r *http.Request, s *session, status int, why string) {
	d := c.shown(r, s, "That did not work", nil)
	d.Failed = why
	c.render(w, status, "failed", "base", d)
}

func (c *Console) render(w http.ResponseWriter, status int, page, block string, d any) {
	var b bytes.Buffer
	if err := c.pages[page].ExecuteTemplate(&b, block, d); err != nil {
		c.deps.Log.Error("a page of the console", "page", page, "error", err.Error())
		http.Error(w, "the page could not be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that has left
}

// asset answers with a file of the program. A browser asks each time whether it has the one of this program: pages and
// script of two versions do not fit.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(b)))
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}

// SignedIn says whether a request's cookies are those of somebody who is signed in: only their
// bodies may be large.
func (c *Console) SignedIn(host, cookies string) bool {
	r := &http.Request{Host: host, Header: http.Header{"Cookie": {cookies}}}
	return c.session(r) != nil
}
