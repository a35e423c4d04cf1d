package server

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"corenode/engine/messages"
)

func TestBodiesMax(t *testing.T) {
	for concurrency, want := range map[int]int{0: 0, 1: 4, 2: 4, 3: 6, 50: 100} {
		if got := bodiesMax(concurrency); got != want {
			t.Errorf("concurrency %d: %d bodies, want %d", concurrency, got, want)
		}
	}
}

func TestMayTake(t *testing.T) {
	const most = 1000
	cases := []struct {
		name  string
		taken int64
		h     accountBodies
		n     int64
		want  bool
	}{
		{"all there is, for an only body", 0, accountBodies{bodies: 1}, 1000, true},
		{"more than there is", 0, accountBodies{bodies: 1}, 1001, false},
		{"the rest, for an only body", 990, accountBodies{bodies: 1, bytes: 400}, 10, true},
		{"more than the rest", 990, accountBodies{bodies: 1}, 11, false},
		{"up to a quarter, however little is free", 900, accountBodies{bodies: 3, bytes: 200}, 50, true},
		{"over a quarter while half stays free", 300, accountBodies{bodies: 3, bytes: 300}, 200, true},
		{"over a quarter into the other half", 300, accountBodies{bodies: 3, bytes: 300}, 201, false},
		{"over a quarter, others have the half", 600, accountBodies{bodies: 2, bytes: 250}, 1, false},
	}
	for _, c := range cases {
		if got := mayTake(most, c.taken, c.h, c.n); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestIntakeWalk: whatever accounts do, the sums and the bounds hold.
func TestIntakeWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	in := intake{max: 1 << 20, accounts: map[string]*accountBodies{}}
	accounts := []string{"a", "b", "c"}
	var open []*body
	for range 100_000 {
		switch who := random.IntN(len(accounts)); random.IntN(3) {
		case 0:
			b := new(body)
			if b.enter(&in, accounts[who], who) == nil { // a has no limit
				open = append(open, b)
			}
		case 1:
			if len(open) > 0 {
				open[random.IntN(len(open))].take(random.Int64N(1 << 18))
			}
		default:
			if len(open) > 0 {
				i := random.IntN(len(open))
				open[i].release()
				open[i].release()
				open = append(open[:i], open[i+1:]...)
			}
		}
		sum, bodies := int64(0), map[string]int{}
		for _, b := range open {
			sum += b.taken
			bodies[b.account]++
		}
		if sum != in.used() || sum > in.max || bodies["b"] > 4 || bodies["c"] > 4 || len(bodies) != len(in.accounts) {
			t.Fatalf("taken %d of %d, counted %d, bodies %v, accounts %d", sum, in.max, in.used(), bodies, len(in.accounts))
		}
	}
}

// slow sends the head of a request and half of its body, which never ends.
func (n *node) slow(key string, size int) net.Conn {
	n.t.Helper()
	c := n.dial()
	head := request("POST", "/v1/messages", "", "X-Api-Key: "+key, withJSON, fmt.Sprintf("Content-Length: %d", size+1))
	if _, err := io.WriteString(c, head+strings.Repeat(" ", size)); err != nil {
		n.t.Fatal(err)
	}
	return c
}

// TestSlowBodiesOfOneAccount: connections that send bodies without end count
// against their account's concurrency, and others are served.
func TestSlowBodiesOfOneAccount(t *testing.T) {
	n := start(t, Config{BodyMax: 1 << 20, BodiesMax: 8 << 20}, newFakeBackend(say("x")))
	const size = 300 << 10
	for range 4 { // twice its concurrency of 1, at least 4
		n.slow(otherKey, size)
	}
	// What is announced, with a byte for its end: three that move to larger memory can have more.
	waitFor(t, "four bodies are being read", func() bool { return n.s.bodies.used() == 4*(size+2) })
	for _, expect := range []string{"X-Ignored: 1", "Expect: 100-continue"} {
		r := n.raw(request("POST", "/v1/messages", ask, "X-Api-Key: "+otherKey, expect))
		if r.StatusCode != 429 || r.errorType(t) != "rate_limit_error" || r.Header.Get("Retry-After") == "" {
			t.Errorf("a fifth body got %d %q", r.StatusCode, r.body)
		}
	}
	if r := n.post(padded(1 << 20)); r.StatusCode != 200 {
		t.Errorf("another account got %d %q", r.StatusCode, r.body)
	}
}

// TestSlowBodiesWithoutLimit: an account without a concurrency limit leaves half
// of the memory to others.
func TestSlowBodiesWithoutLimit(t *testing.T) {
	n := start(t, Config{BodyMax: 1 << 20, BodiesMax: 8 << 20}, newFakeBackend(say("x")))
	refused := make(chan reply, 32)
	for range 16 {
		c := n.slow(freeKey, 1<<20-1)
		go func() {
			if r, err := tryRead(bufio.NewReader(c), "POST"); err == nil {
				refused <- r
			}
		}()
	}
	r := <-refused
	if r.StatusCode != 503 || r.errorType(t) != "overloaded_error" || r.Header.Get("Retry-After") == "" {
		t.Errorf("over its share: %d %q", r.StatusCode, r.body)
	}
	if r := n.post(padded(1 << 20)); r.StatusCode != 200 {
		t.Errorf("another account got %d %q", r.StatusCode, r.body)
	}
}

// TestValuesCount: a body counts with what its JSON values take once they are read, also those that a translator
// finds in a text of it; and a body with more of them than it may have is refused as what it is, not for the room.
func TestValuesCount(t *testing.T) {
	var n *node
	var taken int64
	n = start(t, Config{BodyMax: 4 << 20, BodiesMax: 16 << 20}, newFakeBackend(say("x")), func(d *Deps) {
		d.Catalog = fakeCatalog{"core-1.1": fakeModel{id: "core-1.1", prepare: func() { taken = n.s.bodies.used() }}}
		d.Translators = &fakeTranslators{}
	})
	const values = 10_000
	zeros := func(n int) string { return `"metadata":[` + strings.Repeat("0,", n-1) + `0]` }
	for path, body := range map[string]string{
		"/v1/messages":         `{` + zeros(values) + `,` + ask[1:],
		"/v1/chat/completions": `{"model":"core-1.1","text":"many values"}`,
	} {
		if r := n.raw(request("POST", path, body, bearerKey)); r.StatusCode != 200 {
			t.Errorf("%s: %d %q", path, r.StatusCode, r.body)
		}
		if want := int64(4*2*values + 128*values); taken < want || taken > want+want/4 {
			t.Errorf("%s: %d bytes count, want some more than %d", path, taken, want)
		}
	}
	if r := n.post(`{` + zeros(messages.ValuesMax) + `,` + ask[1:]); r.StatusCode != 400 || !strings.Contains(r.body, "JSON values") {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}
