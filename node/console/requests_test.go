package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"corenode/node/admin"
)

// crowd is a node with as many requests as one takes at once.
type crowd struct{ admin.Live }

const crowdMax = 4096

func (crowd) Requests() (all []admin.Request) {
	for i := range crowdMax {
		all = append(all, admin.Request{ID: fmt.Sprintf("req_%04d", i), AccountID: "acct", Phase: "decode", AgeMS: int64(i)})
	}
	return all
}

func (crowd) DrainState() admin.DrainState { return admin.DrainState{Requests: crowdMax} }

// TestCrowdedPagesAreBounded: a page that renews itself each second has the requests that are oldest, and says how many others
// there are. That of one request finds it among them.
func TestCrowdedPagesAreBounded(t *testing.T) {
	api := admin.New(unaudited{}, untoldNode{}, nil, nil, nil)
	api.SetLive(crowd{})
	cl, c := admin.Local(api), New(Deps{Log: slog.New(slog.DiscardHandler)})
	show := func(page string, r *http.Request, of func(*http.Request, *admin.Client) (any, error)) string {
		t.Helper()
		body, err := of(r, cl)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		c.render(w, http.StatusOK, page, "live", shown{Body: body})
		return w.Body.String()
	}
	for page, of := range map[string]func(*http.Request, *admin.Client) (any, error){"requests": c.requests, "drain": c.drain} {
		text := show(page, httptest.NewRequest("GET", "http://node:1"+Root+page, nil), of)
		if n := strings.Count(text, `<a href="/console/requests/req_`); n != rowsShown {
			t.Errorf("%s shows %d requests, want %d", page, n, rowsShown)
		}
		if !strings.Contains(text, "req_4095") || !strings.Contains(text, fmt.Sprintf("%s more", count(crowdMax-rowsShown))) {
			t.Errorf("%s does not show the oldest, or how many more there are: %.2000s", page, text)
		}
	}
	r := httptest.NewRequest("GET", "http://node:1"+Root+"requests/req_0007", nil)
	r.SetPathValue("request", "req_0007")
	if text := show("request", r, c.request); !strings.Contains(text, "<dd>decode</dd>") {
		t.Errorf("one among many: %s", text)
	}
	one, err := cl.Requests(url.Values{"id": {"req_0007"}})
	if err != nil || len(one.Data) != 1 || one.More != 0 {
		t.Errorf("asked for one: %d, %d more, %v", len(one.Data), one.More, err)
	}
	all, err := cl.Requests(nil)
	if err != nil || len(all.Data) != crowdMax || all.More != 0 {
		t.Errorf("asked for all: %d, %d more, %v", len(all.Data), all.More, err)
	}
}
