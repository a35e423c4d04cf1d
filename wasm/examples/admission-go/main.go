// Command hours is an admission policy: long prompts only outside office
// hours, and those who wait are sorted when the node is busy. The operator's
// configuration, with its defaults:
//
//	{"office_hours_utc": [8, 18], "prompt_tokens_max": 32000, "busy_percent": 75}
//
// On Monday to Friday from the first hour to before the second, a longer prompt
// is denied until they are over. While at least busy_percent of the node's
// requests are taken, streams go first, since a person waits for them, and
// accounts that use half of their own places or more go last.
package main

import (
	"encoding/json"
	"errors"
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

func init() {
	h := &hours{}
	sdk.ServeConfigurable(sdk.AdmissionHandler(h), h)
}

func main() {}

type hours struct {
	Office          [2]int64 `json:"office_hours_utc"`
	PromptTokensMax int64    `json:"prompt_tokens_max"`
	BusyPercent     int64    `json:"busy_percent"`
}

// Configure may use encoding/json: it runs once, not for every request.
func (h *hours) Configure(config []byte) error {
	*h = hours{Office: [2]int64{8, 18}, PromptTokensMax: 32_000, BusyPercent: 75}
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(h); err != nil {
		return err
	}
	if h.Office[0] < 0 || h.Office[0] > h.Office[1] || h.Office[1] > 24 {
		return errors.New("office_hours_utc: want two hours of 0 to 24, the first not after the second")
	}
	if h.PromptTokensMax < 0 || h.BusyPercent < 0 || h.BusyPercent > 100 {
		return errors.New("want prompt_tokens_max of zero or more and busy_percent of 0 to 100")
	}
	return nil
}

const (
	hour = 60 * 60
	day  = 24 * hour
)

// Counters of the node's metrics.
const (
	counterDenied = iota
	counterQueued
)

// Decide looks at the time that the node gives: a module has no clock.
func (h *hours) Decide(in abi.AdmissionInput) abi.Decision {
	if left := h.officeLeft(in.At); left > 0 && in.PromptTokens > h.PromptTokensMax {
		sdk.Count(counterDenied, 1)
		return abi.Decision{
			Verdict: abi.Deny, Kind: abi.RateLimited, RetryAfterMS: uint32(left * 1000),
			Msg: "prompts this long are served outside office hours",
		}
	}
	n := in.Counters
	if n.NodeRequestsMax == 0 || 100*n.NodeRequests < h.BusyPercent*n.NodeRequestsMax {
		return abi.Decision{Verdict: abi.Allow}
	}
	sdk.Count(counterQueued, 1)
	d := abi.Decision{Verdict: abi.Queue}
	if in.Stream {
		d.Priority += 10
	}
	if n.AccountRequestsMax > 0 && 2*n.AccountRequests >= n.AccountRequestsMax {
		d.Priority -= 20
	}
	return d
}

// officeLeft is how many seconds of office hours are left at that time, 0
// outside of them.
func (h *hours) officeLeft(at int64) int64 {
	weekday := (at/day + 4) % 7 // 1 January 1970 was a Thursday, Sunday is 0
	second := at % day
	if at < 0 || weekday == 0 || weekday == 6 || second < h.Office[0]*hour {
		return 0
	}
	return max(0, h.Office[1]*hour-second)
}
