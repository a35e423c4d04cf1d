package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"corenode/node/operators"
)

// namedAdmin says who called.
type namedAdmin struct{}

func (namedAdmin) Handle(ctx context.Context, _, _ string, _, _ []byte) (int, string, []byte) {
	who := operators.From(ctx)
	return 200, "text/plain", []byte(who.Name + " " + who.Role.String())
}

func (namedAdmin) Refuse(context.Context, string, string, int) error { return nil }

// TestOperators: a token names who calls, its role bounds the listener's own paths, and a
// list without it refuses it at once.
func TestOperators(t *testing.T) {
	viewer, viewerToken := operators.New("alice", operators.Viewer)
	manager, managerToken := operators.New("bob", operators.Manager)
	n := start(t, Config{Operators: []operators.Operator{viewer, manager}}, newFakeBackend(say("x")), func(d *Deps) {
		d.Admin = namedAdmin{}
		d.DebugState = func() any { return 1 }
	})
	get := func(path, token string) reply {
		return n.adminRaw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n")
	}
	for _, c := range []struct {
		path, token string
		status      int
		body        string
	}{
		{"/admin/v1/accounts", viewerToken, 200, "alice viewer"}, {"/admin/v1/accounts", managerToken, 200, "bob operator"},
		{"/admin/v1/accounts", "admin-token", 200, "admin owner"}, {"/admin/v1/accounts", viewerToken + "x", 401, ""},
		{"/debug/state", viewerToken, 200, "1"}, {"/debug/pprof/heap", managerToken, 403, ""}, {"/debug/pprof/heap", "admin-token", 200, ""},
		{"/drain", viewerToken, 403, ""}, {"/drain", managerToken, 405, ""},
	} {
		if r := get(c.path, c.token); r.StatusCode != c.status || c.body != "" && r.body != c.body {
			t.Errorf("%s of %s: %d %s", c.path, c.token, r.StatusCode, r.body)
		}
	}
	n.s.SetOperators("admin-token", []operators.Operator{manager})
	if a, b := get("/admin/v1/accounts", viewerToken), get("/admin/v1/accounts", managerToken); a.StatusCode != 401 || b.StatusCode != 200 {
		t.Errorf("after a change of the list: %d and %d", a.StatusCode, b.StatusCode)
	}
}

// TestDrainIsAudited: who drains the node by the listener's own path is kept, and who may not too.
func TestDrainIsAudited(t *testing.T) {
	viewer, viewerToken := operators.New("alice", operators.Viewer)
	manager, managerToken := operators.New("bob", operators.Manager)
	var kept []string
	n := start(t, Config{Operators: []operators.Operator{viewer, manager}}, newFakeBackend(say("x")), func(d *Deps) {
		d.Audit = func(who operators.Operator, method, path string, status int) {
			kept = append(kept, fmt.Sprintln(who.Name, method, path, status))
		}
	})
	for _, token := range []string{viewerToken, "nobody's", managerToken} {
		n.adminRaw("POST /drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer " + token + "\r\n\r\n")
	}
	for _, method := range []string{"GET", strings.Repeat("X", 1000)} { // which change nothing
		n.adminRaw(method + " /drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer " + viewerToken + "\r\n\r\n")
	}
	if want := []string{"alice POST /drain 403\n", "bob POST /drain 202\n"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

// refusals are calls that an API is told to have been refused: it knows its own paths only. Viewers may make none of them.
type refusals struct {
	namedAdmin
	kept *[]string
}

func (r refusals) Refuse(ctx context.Context, method, path string, status int) error {
	who := operators.From(ctx)
	if !strings.HasPrefix(path, "/admin/v1/") {
		return nil
	}
	*r.kept = append(*r.kept, fmt.Sprintln(who.Name, method, path, status))
	if who.Role == operators.Viewer {
		return errors.New("no")
	}
	return nil
}

// TestUnreadCallsAreKept: the API hears of a call whose body is too large, or does not come, and the role comes first.
func TestUnreadCallsAreKept(t *testing.T) {
	viewer, viewerToken := operators.New("alice", operators.Viewer)
	manager, managerToken := operators.New("bob", operators.Manager)
	var kept []string
	n := start(t, Config{Operators: []operators.Operator{viewer, manager}}, newFakeBackend(say("x")), func(d *Deps) {
		d.Admin = refusals{kept: &kept}
		d.Audit = func(who operators.Operator, method, path string, status int) {
			kept = append(kept, fmt.Sprintln(who.Name, method, path, status))
		}
	})
	for _, c := range []struct {
		path, host, token string
		status            int
		kept              string
	}{
		{"/admin/v1/accounts", "localhost", viewerToken, 403, "alice POST /admin/v1/accounts 413\n"},
		{"/admin/v1/accounts", "localhost", managerToken, 413, "bob POST /admin/v1/accounts 413\n"},
		{"/admin/v1/accounts", "elsewhere", managerToken, 413, ""},
		{"/admin/v1/accounts", "localhost", "nobody's", 401, ""},
		{"/drain", "localhost", viewerToken, 403, "alice POST /drain 403\n"},
		{"/drain", "localhost", managerToken, 413, "bob POST /drain 413\n"},
	} {
		kept = nil
		r := n.adminRaw("POST " + c.path + " HTTP/1.1\r\nHost: " + c.host + "\r\nAuthorization: Bearer " + c.token +
			"\r\nContent-Length: " + strconv.Itoa(adminBodyMax+1) + "\r\n\r\n")
		if r.StatusCode != c.status || strings.Join(kept, "") != c.kept {
			t.Errorf("%s at %s: %d %s, kept %q, want %d and %q", c.path, c.host, r.StatusCode, r.body, kept, c.status, c.kept)
		}
	}
	kept = nil
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.Header.SetHost("localhost")
	ctx.Request.Header.Set("Authorization", "Bearer "+managerToken)
	ctx.Request.SetRequestURI("/admin/v1/accounts")
	n.s.unreadableAdmin(&ctx, os.ErrDeadlineExceeded)
	if want := []string{"bob POST /admin/v1/accounts 408\n"}; ctx.Response.StatusCode() != 408 || !slices.Equal(kept, want) {
		t.Errorf("a body that does not come: %d, kept %q, want %q", ctx.Response.StatusCode(), kept, want)
	}
}
