// Command quota is an admission policy with counters: each account has so many requests a day
// and so many tokens a month, which the node counts. The operator's configuration says how many:
//
//	{"requests": 1000, "tokens": 5000000}
//
// A request reserves all the tokens that it may use; those that it does not use go back, as
// the counter is named tokens. One that does not get them is refused.
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

func init() {
	q := &quota{}
	sdk.ServeConfigurable(sdk.AdmissionHandler(q), q)
}

func main() {}

type quota struct{ requests, tokens int64 }

// Configure may use encoding/json: it runs once, not for every request.
func (q *quota) Configure(config []byte) error {
	c := struct {
		Requests int64 `json:"requests"`
		Tokens   int64 `json:"tokens"`
	}{1000, 5_000_000}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return err
	}
	if min(c.Requests, c.Tokens) < 0 || max(c.Requests, c.Tokens) > abi.CounterMax {
		return fmt.Errorf("requests is %d and tokens %d, want 0 to %d", c.Requests, c.Tokens, abi.CounterMax)
	}
	q.requests, q.tokens = c.Requests, c.Tokens
	return nil
}

const day = 24 * 60 * 60 // seconds

// Decide implements sdk.Admission. One denial is for both counters, of which the node knows what is left: whoever
// is refused is told to wait until the day ends. A month ends with one, and nobody can be told to wait for longer.
func (q *quota) Decide(in abi.AdmissionInput) abi.Decision {
	return abi.Decision{
		Verdict: abi.Reserve, Kind: abi.RateLimited, RetryAfterMS: uint32(day-in.At%day) * 1000,
		Msg:   "this account has used its quota of requests for today or of tokens for this month, in UTC",
		Takes: []abi.Take{{Limit: q.requests, Max: 1}, {Limit: q.tokens, Max: in.PromptTokens + in.OutputMax}},
	}
}
