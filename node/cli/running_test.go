package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"corenode/node/admin"
	"corenode/node/operators"
	"corenode/node/store"
)

// TestLogsAreFollowed: lines that came faster than one answer holds follow at once, in order, and those that
// were forgotten are counted in their place.
func TestLogsAreFollowed(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var asked []string
	full := make([]admin.LogLine, admin.LogLinesMax)
	for i := range full {
		full[i] = admin.LogLine{Number: uint64(10 + i), Kind: "full"}
	}
	answers := []admin.LogPage{{Data: []admin.LogLine{{Number: 3, Kind: "first"}}, Next: 4}, {Data: full, Next: 1009, Missed: 5},
		{Data: []admin.LogLine{{Number: 1010, Kind: "last"}}, Next: 1010}}
	ask := func(q url.Values) (admin.LogPage, error) {
		asked = append(asked, q.Get("after"))
		if len(asked) == len(answers) {
			stop()
		}
		return answers[len(asked)-1], nil
	}
	var out strings.Builder
	if err := followLogs(ctx, &out, false, ask, url.Values{"limit": {"100"}}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(asked, " ") != " 4 1009" {
		t.Errorf("asked for what is behind %q", asked)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3+len(full) || !strings.Contains(lines[0], "first") || !strings.Contains(lines[1], "5 lines") ||
		!strings.Contains(lines[len(lines)-1], "last") {
		t.Errorf("%d lines: %.400q", len(lines), lines)
	}
}

// TestFollowedLogsAreJSON: with --json each line that comes is an object, and so is what was missed.
func TestFollowedLogsAreJSON(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ask := func(url.Values) (admin.LogPage, error) {
		return admin.LogPage{Data: []admin.LogLine{{Number: 3, Kind: "request", Text: "{}"}}, Missed: 5}, nil
	}
	var out strings.Builder
	if err := followLogs(ctx, &out, true, ask, url.Values{}); err != nil {
		t.Fatal(err)
	}
	if want := `{"missed":5}` + "\n" + `{"number":3,"time":"","level":"","kind":"request","text":"{}"}` + "\n"; out.String() != want {
		t.Errorf("it printed %q, want %q", out.String(), want)
	}
}

// TestIdleNodeIsDrained: a node without requests has ended before it can be asked anything more, and that is no error.
func TestIdleNodeIsDrained(t *testing.T) {
	for _, flag := range []string{"--json=false", "--json", "--wait"} {
		dir := t.TempDir()
		lock, err := store.LockFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		var ended atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ended.Load() {
				panic(http.ErrAbortHandler)
			}
			if r.Method == "POST" {
				ended.Store(true)
				lock.Close()
			}
			_, _ = w.Write([]byte(`{"draining":false,"requests":0,"rows":0,"left_ms":0,"timeout_ms":60000}`))
		}))
		t.Cleanup(server.Close)
		if _, err := admin.Announce(dir, strings.TrimPrefix(server.URL, "http://"), operators.NewToken(), ""); err != nil {
			t.Fatal(err)
		}
		out, err := typed("drain", flag, "--data-dir", dir)
		want := map[string]string{"--json": `"draining": true`, "--wait": "The node has ended.\n"}[flag]
		if want == "" {
			want = "The node drains: 0 requests and 0 rows of the ledger are left, at most 1m0s.\n"
		}
		if err != nil || !ended.Load() || !strings.Contains(out, want) {
			t.Errorf("%s: it says %q, want %q; %v", flag, out, want, err)
		}
	}
}

// TestDrainEndsThoughTheNextNodeAnswers: where a supervisor starts the next node at once, at the same address, the drain is over when
// that answers, whether it has the token of the one before or another.
func TestDrainEndsThoughTheNextNodeAnswers(t *testing.T) {
	for _, next := range []string{operators.NewToken(), ""} {
		t.Run(fmt.Sprint("another token ", next != ""), func(t *testing.T) {
			t.Parallel()
			dir, token := t.TempDir(), operators.NewToken()
			lock, err := store.LockFolder(dir) // of either node
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Close() })
			announce := func() {}
			var polls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				draining := false
				if r.Method == "GET" && r.URL.Path == admin.Root+"/drain" {
					n := polls.Add(1)
					draining = n == 2 || n == 3 // the first is before it is asked to
					if n == 4 {
						announce()
					}
				}
				if polls.Load() > 3 && next != "" && r.Header.Get("Authorization") != "Bearer "+next {
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = w.Write([]byte(`{"error":{"kind":"unauthenticated","message":"missing or wrong admin token"}}`))
					return
				}
				_, _ = fmt.Fprintf(w, `{"draining":%v,"requests":0,"rows":0,"left_ms":0,"timeout_ms":60000}`, draining)
			}))
			t.Cleanup(server.Close)
			address := strings.TrimPrefix(server.URL, "http://")
			if _, err := admin.Announce(dir, address, token, ""); err != nil {
				t.Fatal(err)
			}
			announce = func() {
				if _, err := admin.Announce(dir, address, cmp.Or(next, token), ""); err != nil {
					t.Error(err)
				}
			}
			if out, err := typed("drain", "--wait", "--data-dir", dir); err != nil || !strings.HasSuffix(out, "The node has ended.\n") || polls.Load() != 4 {
				t.Errorf("it says %q after %d polls; %v", out, polls.Load(), err)
			}
		})
	}
}
