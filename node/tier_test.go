package main

import (
	"fmt"
	"strings"
	"testing"

	"corenode/actors/account"
)

// TestLongContextsCostTwice sends prompts of 200,000 tokens and of one more, system and tools
// among them, over every protocol, streaming and not, new and cached: the whole request costs
// twice as much from 200,001 tokens on, whatever part of them was cached.
func TestLongContextsCostTwice(t *testing.T) {
	n, base, _ := startNode(t, instantModels)
	const tier, output = 200_000, 5
	for _, c := range []struct {
		input int
		path  string
	}{
		{tier, "/v1/messages"}, {tier, "/v1/chat/completions"}, {tier, "/v1/responses"},
		{tier + 1, "/v1/messages"}, {tier + 1, "/v1/chat/completions"}, {tier + 1, "/v1/responses"},
	} {
		t.Run(fmt.Sprint(c.input, c.path), func(t *testing.T) {
			id, key := customerOf(t, n, account.Account{Name: fmt.Sprint("reader", c.input, strings.ReplaceAll(c.path, "/", "-"))}, 1e9)
			long := conversation{system: "You are brief.", tool: true, limit: output, turns: []turn{{role: "user", text: "a"}}}
			count := func() int { return askCount(t, base, key, long.messagesBody(false)) }
			long.turns[0].text += strings.Repeat(" a", c.input-count())
			if got := count(); got != c.input {
				t.Fatalf("count_tokens says %d, want %d", got, c.input)
			}
			for i, stream := range []bool{false, true, false} {
				body := map[string]func(bool) object{
					"/v1/messages": long.messagesBody, "/v1/chat/completions": long.chatBody, "/v1/responses": long.responsesBody}[c.path](stream)
				got := askRaw(t, base, key, c.path, body)
				if got.input != c.input || got.output != output || (got.cached > 0) != (i > 0) {
					t.Errorf("request %d reports %+v", i, got)
				}
			}
			rows, err := statement(operator(t, n), id)
			if err != nil || len(rows) != 4 { // after its top-up
				t.Fatalf("rows %+v, %v", rows, err)
			}
			for i, r := range rows[1:] {
				once := 80*r.Usage.InputUncached + 8*r.Usage.CacheRead + 800*output
				want := once
				if c.input > tier {
					want = 2 * once
				}
				if int64(-r.AmountNanoUSD) != int64(want) || !costs(fastModel, r) || (r.Usage.CacheRead > 0) != (i > 0) {
					t.Errorf("request %d costs %d, want %d of %+v", i, -r.AmountNanoUSD, want, *r.Usage)
				}
			}
		})
	}
}
