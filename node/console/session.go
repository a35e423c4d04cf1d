package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"corenode/node/admin"
	"corenode/node/operators"
)

const (
	cookieName    = "corenode_console" // see cookieOf
	sessionAge    = 12 * time.Hour
	sessionsMax   = 256
	triesMax      = 5 // wrong tokens of one address, of IPv6 one network, in a triesPeriod
	triesPeriod   = time.Minute
	addressesTold = 1024 // addresses, of IPv6 networks, whose tries are counted; beyond, all others share one count
)

// session is somebody who is signed in.
type session struct {
	operator operators.Operator
	host     string // the name under which the console was reached
	token    string // of its forms
	ends     time.Time

	mu   sync.Mutex
	said string  // guarded by mu, as is sent; for the next page
	sent []*sent // the latest forms that have a name of their own, at most sentMax
}

// sentMax is how many of a session's forms are known when they come again.
const sentMax = 16

// sent is a form that came. What it did is there once done is closed.
type sent struct {
	once     string // the name of the form, which no other has
	values   [sha256.Size]byte
	done     chan struct{}
	said, to string
	err      error
}

// say leaves a line for the next page.
func (s *session) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = line
}

// take takes the line that was left.
func (s *session) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.said
	s.said = ""
	return line
}

// act does what a form says and leaves what was done for the next page. A form with a name of its own is acted on once:
// when it comes again, as by a double click, it says the same again. One that failed may be sent again. With other
// values, as from another tab, it asks for something that was not done.
func (s *session) act(once string, values [sha256.Size]byte, do func() (said, to string, err error)) (to string, err error) {
	f, known := s.form(once, values)
	switch {
	case known && f.values != values:
		return "", &admin.Error{Kind: admin.KindConflict,
			Message: "nothing was done: this form was sent before with other values; load its page again"}
	case known:
		<-f.done
	default:
		defer close(f.done)
		f.said, f.to, f.err = do()
	}
	if f.err == nil {
		s.say(f.said)
		return f.to, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = slices.DeleteFunc(s.sent, func(o *sent) bool { return o == f })
	return "", f.err
}

// form is what is known of a form that came, and whether it was known before. One without a name is not kept.
func (s *session) form(once string, values [sha256.Size]byte) (f *sent, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.sent {
		if f.once == once {
			return f, true
		}
	}
	f = &sent{once: strings.Clone(once), values: values, done: make(chan struct{}),
		err: errors.New("the form was not acted on; the log says why")}
	if once != "" {
		s.sent = append(s.sent[max(0, len(s.sent)+1-sentMax):], f)
	}
	return f, false
}

// valuesOf is a hash of where a form was sent and of what is in it.
func valuesOf(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.URL.EscapedPath() + "?" + r.PostForm.Encode()))
}

// owns says whether a form token is the session's.
func (s *session) owns(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// sessions are those who are signed in, by the hash of their cookie, and the wrong tries of late.
// They are in memory only: a restart signs everybody out.
type sessions struct {
	mu    sync.Mutex
	open  map[[32]byte]*session // guarded by mu, as is tries
	tries map[string]tries      // by what counted says
}

type tries struct {
	since time.Time
	count int
}

// cookieOf is the name of the cookie at a host. It has the port: a browser sends the cookies of a host to all
// its ports, and nodes behind tunnels are ports of one host.
func cookieOf(host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil {
		return cookieName + "_" + port
	}
	return cookieName
}

// find is the session of a request, nil without one.
func (l *sessions) find(r *http.Request) *session {
	cookie, err := r.Cookie(cookieOf(r.Host))
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open[sha256.Sum256([]byte(cookie.Value))]
	if s == nil || time.Now().After(s.ends) || s.host != r.Host {
		return nil
	}
	return s
}

// begin makes a session and returns its cookie.
func (l *sessions) begin(o operators.Operator, host string, now time.Time) (cookie string) {
	cookie = rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[[32]byte]*session{}
	}
	l.makeRoom(now)
	// The host is cloned: the request's memory is used anew, by requests under another name too.
	l.open[sha256.Sum256([]byte(cookie))] = &session{operator: o, host: strings.Clone(host), token: rand.Text(), ends: now.Add(sessionAge)}
	return cookie
}

// makeRoom closes what has ended and, of too many, the oldest session of the operator who has most: nobody signs
// others out by signing in again and again. mu is held.
func (l *sessions) makeRoom(now time.Time) {
	of := map[string]int{}
	for id, s := range l.open {
		if now.After(s.ends) {
			delete(l.open, id)
		} else {
			of[s.operator.Name]++
		}
	}
	if len(l.open) < sessionsMax {
		return
	}
	most := slices.Max(slices.Collect(maps.Values(of)))
	var first [32]byte
	for id, s := range l.open {
		if f := l.open[first]; of[s.operator.Name] == most && (f == nil || s.ends.Before(f.ends)) {
			first = id
		}
	}
	delete(l.open, first)
}

func (l *sessions) end(r *http.Request) {
	if cookie, err := r.Cookie(cookieOf(r.Host)); err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, sha256.Sum256([]byte(cookie.Value)))
	}
}

// mayTry says whether an address may try a token now, and whether its count is that of all others:
// then they may have closed the door, and not the address itself.
func (l *sessions) mayTry(address string, now time.Time) (may, shared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := l.counted(address, now)
	t := l.tries[name]
	return now.Sub(t.since) >= triesPeriod || t.count < triesMax, name == others
}

// tried counts a wrong token.
func (l *sessions) tried(address string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = map[string]tries{}
	}
	address = l.counted(address, now)
	t := l.tries[address]
	if now.Sub(t.since) >= triesPeriod {
		t = tries{since: now}
	}
	t.count++
	l.tries[address] = t
}

// others is the name under which the tries of all addresses are counted that have no count of their own.
const others = "others"

// counted is under which name an address's tries are counted. Of IPv6 it is the /64: one machine has all addresses of it.
func (l *sessions) counted(address string, now time.Time) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		address = netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
	}
	if _, known := l.tries[address]; known || len(l.tries) < addressesTold {
		return address
	}
	for a, t := range l.tries {
		if now.Sub(t.since) >= triesPeriod {
			delete(l.tries, a)
		}
	}
	if len(l.tries) < addressesTold {
		return address
	}
	return others
}

// sameOrigin says whether a page of this listener sent a request. Browsers send Origin with
// every POST; where it is missing the request is refused.
func sameOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// local is a path of the console, or its first page: never another host's.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, Root) {
		return Root
	}
	return u.RequestURI()
}

// session is that of a request, with its operator as the configuration has it now; nil where
// there is none, or an operator of that name and token is not there any more.
func (c *Console) session(r *http.Request) *session {
	s := c.sessions.find(r)
	if s == nil || c.deps.Named(s.operator.Name) != s.operator {
		return nil
	}
	return s
}

type signingIn struct {
	Title, To, Failed, Version string
}

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	c.render(w, http.StatusOK, "sign-in", "sign-in", signingIn{"Sign in", local(r.URL.Query().Get("to")), "", c.deps.Version})
}

// signInAgain answers a form of a page whose session is over: what was typed is not acted on later, since another one
// may sign in.
func (c *Console) signInAgain(w http.ResponseWriter, r *http.Request) {
	to := Root
	if page, err := url.Parse(r.Referer()); err == nil {
		to = local(page.RequestURI())
	}
	c.render(w, http.StatusUnauthorized, "sign-in", "sign-in", signingIn{"Sign in", to,
		"Nothing was done: you are not signed in any more. Sign in, and do it again.", c.deps.Version})
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) {
		c.render(w, status, "sign-in", "sign-in", signingIn{"Sign in", local(r.PostFormValue("to")), why, c.deps.Version})
	}
	if !sameOrigin(r) {
		refuse(http.StatusForbidden, "this form is not of this console")
		return
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	now := time.Now()
	// An address that closed the door to itself is refused with a right token too: if it were let in, its guesses would
	// all be looked at. Where others closed it the token is looked at, or whoever has many addresses would keep all
	// operators out; a token of at least 20 characters is not guessed by trying more of them.
	may, shared := c.sessions.mayTry(address, now)
	var o operators.Operator
	known := false
	if may || shared {
		o, known = c.deps.Operator(r.PostFormValue("operator_token"))
	}
	switch {
	case !known && !may:
		w.Header().Set("Retry-After", "60")
		refuse(http.StatusTooManyRequests, "too many wrong tokens; try again in a minute")
		return
	case !known:
		c.sessions.tried(address, now)
		c.deps.Log.Warn("a wrong token at the console", "address", address)
		refuse(http.StatusUnauthorized, "this is not the token of an operator")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieOf(r.Host), Value: c.sessions.begin(o, r.Host, now), Path: Root,
		MaxAge: int(sessionAge.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	c.deps.Log.Info("an operator signed in", "operator", o.Name, "role", o.Role.String(), "address", address)
	http.Redirect(w, r, local(r.PostFormValue("to")), http.StatusSeeOther)
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		http.Error(w, notOurs, http.StatusForbidden)
		return
	}
	if s := c.session(r); s != nil && s.owns(r.PostFormValue("token")) {
		c.sessions.end(r)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieOf(r.Host), Path: Root, MaxAge: -1})
	http.Redirect(w, r, Root+"sign-in", http.StatusSeeOther)
}
