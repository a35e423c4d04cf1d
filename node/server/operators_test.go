package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/node/operators"
)

// namedAdmin says who called.
type namedAdmin struct{}

func (namedAdmin) Handle(ctx context.Context, _, _ string, _, _ []byte) (int, string, []byte) {
	who := operators.From(ctx)
	return 200, "text/plain", []byte(who.Name + " " + who.Role.String())
}

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
