package examples

import (
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestGoGuest looks at the edges that the kit gives to a Go module.
func TestGoGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a Go guest: left out of -short")
	}
	g := open(t, compileGo(t, "billing-go"), "")
	refusals := map[string]string{
		`{"accounts":{"acme":100}}`: "accounts.acme is 100, want 0 to 99 percent",
		`{"discounts":{}}`:          `json: unknown field "discounts"`,
	}
	for config, want := range refusals {
		frame, err := g.run("init", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		out, err := abi.ParseOutput(frame)
		if err != nil || out.Status != abi.StatusError || out.Kind != abi.InvalidRequest {
			t.Errorf("%s: %+v, %v", config, out, err)
		}
		if r, err := abi.ParseRefusal(out.Payload); err != nil || r.Msg != want {
			t.Errorf("%s: %q, %v; want %q", config, r.Msg, err, want)
		}
	}
	// An input that needs a larger buffer, and small ones again after it.
	for _, account := range []string{"a", strings.Repeat("a", 3<<20), "b"} {
		frame, err := g.call(abi.OpQuote, abi.QuoteInput{Prices: abi.Prices{Output: 2}, OutputMax: 10, Account: account}.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		out, err := abi.ParseOutput(frame)
		if q, quoteErr := abi.ParseQuote(out.Payload); err != nil || quoteErr != nil || q.Upper != 24 {
			t.Errorf("an account of %d bytes: %+v, %v, %v", len(account), q, err, quoteErr)
		}
	}
	for _, op := range []abi.Op{0, abi.OpRequest, abi.OpDecide, 99} {
		frame, err := g.call(op, []byte("anything"))
		if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusDecline {
			t.Errorf("op %d: %+v, %v", op, out, err)
		}
	}
}
