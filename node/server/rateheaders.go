package server

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// noLimit is shown where an account has no limit: clients parse a number.
const noLimit = math.MaxInt32

// The header names, in the form that fasthttp would normalize them to. The
// messages family mirrors the one token bucket under three names.
var (
	messagesRequests = messagesNames("Requests")
	messagesTokens   = [...][3][]byte{messagesNames("Tokens"), messagesNames("Input-Tokens"), messagesNames("Output-Tokens")}
	chatRequests     = chatNames("Requests")
	chatTokens       = chatNames("Tokens")
)

func messagesNames(name string) [3][]byte {
	prefix := "Anthropic-Ratelimit-" + name
	return [3][]byte{[]byte(prefix + "-Limit"), []byte(prefix + "-Remaining"), []byte(prefix + "-Reset")}
}

func chatNames(name string) [3][]byte {
	const prefix = "X-Ratelimit-"
	return [3][]byte{[]byte(prefix + "Limit-" + name), []byte(prefix + "Remaining-" + name), []byte(prefix + "Reset-" + name)}
}

// rateHeaderNames are all of them.
func rateHeaderNames() (names []string) {
	for _, of := range append(messagesTokens[:], messagesRequests, chatRequests, chatTokens) {
		for _, name := range of {
			names = append(names, string(name))
		}
	}
	return names
}

// setRateHeaders writes the family's rate-limit headers from one account state.
func setRateHeaders(h *fasthttp.ResponseHeader, f family, l account.Limits, now time.Time) {
	requests := bucket{int64(l.RequestsLimit), int64(l.RequestsRemaining), l.RequestsReset}.normal(now)
	tokens := bucket{l.TokensLimit, l.TokensRemaining, l.TokensReset}.normal(now)
	var buf [40]byte
	if f != familyMessages {
		set(h, requests, append(buf[:0], resetDuration(requests.reset.Sub(now))...), chatRequests)
		set(h, tokens, append(buf[:0], resetDuration(tokens.reset.Sub(now))...), chatTokens)
		return
	}
	second := roundUp(requests.reset)
	reset := second.UTC().AppendFormat(buf[:0], time.RFC3339)
	set(h, requests, reset, messagesRequests)
	if other := roundUp(tokens.reset); !other.Equal(second) {
		reset = other.UTC().AppendFormat(buf[:0], time.RFC3339)
	}
	set(h, tokens, reset, messagesTokens[:]...)
}

// set writes the three headers of one bucket, under each of the names.
func set(h *fasthttp.ResponseHeader, b bucket, reset []byte, names ...[3][]byte) {
	var limit, remaining [20]byte
	values := [3][]byte{strconv.AppendInt(limit[:0], b.limit, 10), strconv.AppendInt(remaining[:0], b.remaining, 10), reset}
	for _, of := range names {
		for i, name := range of {
			h.SetCanonical(name, values[i])
		}
	}
}

// bucket is one limit as headers show it.
type bucket struct {
	limit, remaining int64
	reset            time.Time
}

// normal makes a state presentable: no negative remainder, no reset in the
// past, a number where there is no limit.
func (b bucket) normal(now time.Time) bucket {
	if b.limit <= 0 {
		return bucket{noLimit, noLimit, now}
	}
	b.remaining = max(b.remaining, 0)
	if b.reset.Before(now) {
		b.reset = now
	}
	return b
}

// roundUp makes a reset a whole second that is not too early.
func roundUp(t time.Time) time.Time {
	if r := t.Truncate(time.Second); r.Before(t) {
		return r.Add(time.Second)
	}
	return t
}

// resetDuration shows a wait as whole milliseconds below a second and whole
// seconds above: 12ms, 1s, 6m0s.
func resetDuration(d time.Duration) string {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return ceil(max(d, 0), unit).String()
}

// ceil rounds d up to a multiple of unit.
func ceil(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }

// setRetryHeaders tells official clients whether and when to try again. There are agents that, untold, try a refused
// key for minutes before they say so.
func setRetryHeaders(h *fasthttp.ResponseHeader, e *abi.Error) {
	if e.Kind == abi.Unauthenticated || e.Kind == abi.InsufficientBalance || errors.Is(e, account.ErrOperator) {
		h.Set("X-Should-Retry", "false")
	}
	if e.Kind == abi.RateLimited || e.Kind == abi.Overloaded {
		wait := retryFloor(e.RetryAfter)
		h.Set("Retry-After", strconv.FormatInt(int64(ceil(wait, time.Second)/time.Second), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(ceil(wait, time.Millisecond)/time.Millisecond), 10))
	}
}

// passOn lets a balancer that asks for it send the request to another node, where this one did
// nothing of it. nginx looks at no other header of an answer before it gives that to the client. The
// place is fixed: whoever else asks chooses nothing.
func (x *exchange) passOn(e *abi.Error) {
	if !x.admitted.IsZero() || e.Kind != abi.Overloaded || errors.Is(e, account.ErrOperator) {
		return
	}
	if string(x.ctx.Request.Header.Peek(refusalHeader)) == refusalRedirect {
		x.ctx.Response.Header.Set("X-Accel-Redirect", refusalPlace)
	}
}

// What node/deploy/nginx.conf says and is told.
const (
	refusalHeader   = "X-Refusal"
	refusalRedirect = "redirect"
	refusalPlace    = "@refused"
)

// retryFloor is the wait told when nobody computed one: a second.
func retryFloor(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}
