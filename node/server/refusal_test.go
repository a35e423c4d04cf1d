package server

import (
	"os"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestRefusalsGoOn: what the node did nothing of goes on to another one where the balancer asks for it. What it
// has begun, and what nobody should repeat, does not.
func TestRefusalsGoOn(t *testing.T) {
	full := &abi.Error{Kind: abi.Overloaded, Msg: "full"}
	const asks = refusalHeader + ": " + refusalRedirect
	ended := func(s *fakeStream) {
		s.out.Push(abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "the engine is full"}})
	}
	for name, c := range map[string]struct {
		refuse *abi.Error
		script func(*fakeStream)
		settle error
		drain  bool
		header string
		status int
		goesOn bool
	}{
		"refused":                     {refuse: full, header: asks, status: 503, goesOn: true},
		"refused, nobody asks":        {refuse: full, header: "X-Other: redirect", status: 503},
		"refused, asks another place": {refuse: full, header: refusalHeader + ": @admin", status: 503},
		"draining":                    {drain: true, header: asks, status: 503, goesOn: true},
		"out of tokens":               {refuse: &abi.Error{Kind: abi.RateLimited, Msg: "slow"}, header: asks, status: 429},
		"cancelled by an operator": {refuse: &abi.Error{Kind: abi.Overloaded, Msg: "cancelled", Err: account.ErrOperator},
			header: asks, status: 503},
		"admitted, and ended":    {script: ended, header: asks, status: 503},
		"computed, not recorded": {script: say("x"), settle: full, header: asks, status: 503},
		"computed, and recorded": {script: say("x"), header: asks, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			backend := newFakeBackend(c.script)
			if c.refuse != nil {
				backend.refuse = c.refuse
			}
			backend.settle = c.settle
			n := start(t, Config{}, backend)
			n.s.draining.Store(c.drain)
			r := n.post(ask, c.header)
			want := ""
			if c.goesOn {
				want = refusalPlace
			}
			if got := r.Header.Get("X-Accel-Redirect"); r.StatusCode != c.status || got != want {
				t.Errorf("%d, goes to %q, want %q: %q", r.StatusCode, got, want, r.body)
			}
		})
	}
}

// TestRefusalsAsConfigured: the configuration of nginx asks with the words that the node knows.
func TestRefusalsAsConfigured(t *testing.T) {
	config, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"proxy_set_header " + refusalHeader + " $refusal;", `default "` + refusalRedirect + `";`,
		"location " + refusalPlace + " {"} {
		if !strings.Contains(string(config), words) {
			t.Errorf("nginx.conf has no %q", words)
		}
	}
}
