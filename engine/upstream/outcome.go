package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/wasm/abi"
)

// verdict is what an attempt that gave no answer says of its replica and of the request.
type verdict uint8

const (
	broke       verdict = iota // the replica failed
	absent                     // it was not there: nothing was sent
	full                       // it has no room, and is not broken
	refusesNode                // it refuses the node as such: for whom it asks does not matter, but what the request has may
	refusesKey                 // it refuses the node for its key, and nothing of the request can be why
	ofRequest                  // the replica is well, and the request gets no answer anywhere
)

// final says that no other replica is tried.
func (v verdict) final() bool { return v == refusesNode || v == refusesKey || v == ofRequest }

// outcome is an attempt that gave no answer.
type outcome struct {
	verdict    verdict
	err        error         // in the node's own words: the log has them, and no more. Of ofRequest it is what the client gets
	said       string        // what the server said, who may quote a prompt: for operators who ask, cut
	reason     Reason        // the class of err, where it counts as a failure
	last       bool          // no other replica is tried, though this one broke: it would say as much
	retryAfter time.Duration // what a full replica said
}

// why is what operators see of a replica's last failure.
func (o *outcome) why() string {
	if o.said == "" {
		return o.err.Error()
	}
	return o.err.Error() + ": " + o.said
}

// refusal is what the client gets when no other replica may be tried.
func (o *outcome) refusal() *abi.Error {
	if o.verdict == ofRequest {
		return abi.AsError(o.err)
	}
	e := &abi.Error{Kind: abi.Overloaded, Op: "upstream.relay", RetryAfter: max(time.Second, o.retryAfter), Err: o.err,
		Msg: "the model's servers cannot answer now; try again"}
	switch o.verdict {
	case full:
		e.Msg = "the model's servers are full; try again"
	case refusesNode, refusesKey:
		e.Msg, e.RetryAfter = "the model is not available now", 30*time.Second
	}
	return e
}

// failedSend judges an error before the head of an answer.
func failedSend(err error) *outcome {
	switch refusal, refused := errors.AsType[*abi.Error](err); {
	case refused:
		return &outcome{verdict: ofRequest, err: refusal}
	case errors.Is(err, errNotSent):
		return &outcome{verdict: absent, err: err, reason: ReasonConnect}
	case timeout(err):
		return &outcome{err: err, reason: ReasonStall}
	}
	return &outcome{err: err, said: quoted(err), reason: ReasonBroken}
}

// errorBytesMax bounds what is read of an error's body.
const errorBytesMax = 64 << 10

// status judges the head of an answer; nil when a stream follows.
func (r *relay) status(base string, resp *http.Response) *outcome {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusOK && strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytesMax)) // what came of it is what there is
	e := r.model.errorOf(body)
	if resp.StatusCode == http.StatusOK {
		return &outcome{reason: ReasonBroken, err: fmt.Errorf("%s answered 200 without a stream", base), said: cut(e.msg, saidMax)}
	}
	o := r.failure(base, resp.StatusCode, e)
	o.retryAfter = retryAfter(resp.Header)
	return o
}

// saidMax bounds what is kept of a server's text, in bytes.
const saidMax = 300

// failure judges an error that the replica reported, by its status.
func (r *relay) failure(base string, status int, e serverError) *outcome {
	o := &outcome{err: fmt.Errorf("%s answered %d", base, status), said: cut(e.msg, saidMax), reason: ReasonStatus}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		o.verdict, o.err = ofRequest, refused("upstream.relay", e, o.err)
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		o.verdict = refusesNode
		if status == http.StatusUnauthorized && !r.sent.choosesBeta() {
			o.verdict = refusesKey
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		o.verdict = full
	}
	return o
}

// lengthWords are what servers say of a request that is too long for their context, each in its own sentence and few
// of them with a code.
var lengthWords = regexp.MustCompile(`(?i)(context|model|prompt|input) length (is |of )?(only )?\(?\d|\d maximum context length` +
	`|(exceed|greater than|longer than)[^.]* context (length|size|limit|window)|context (length|size|limit|window) [^.]*exceed` +
	`|prompt is too long: \d|ContextWindowExceeded|context_length_exceeded`)

// ownBytesMax is how much of a refusal is taken for the server's own words, in bytes.
const ownBytesMax = 300

// quotes are what servers put in front of a part of the request that they quote.
var quotes = regexp.MustCompile(`\{|input_value=`)

// isTooLong says whether the server refuses a request for its length. What it quotes of the request does not count: a prompt may
// tell of such refusals.
func (e serverError) isTooLong() bool {
	own := quotes.Split(e.msg[:min(len(e.msg), ownBytesMax)], 2)[0]
	return e.code == "context_length_exceeded" || e.kind == "exceed_context_size_error" || lengthWords.MatchString(own)
}

// refused is the client's error of a request that a server refuses.
func refused(op string, e serverError, err error) *abi.Error {
	refusal := &abi.Error{Kind: abi.InvalidRequest, Op: op, Err: err, Msg: "the model's server refuses the request: " + cut(e.msg, 500)}
	if e.isTooLong() {
		refusal.Reason = abi.ReasonPrompt
	}
	return refusal
}

// choosesBeta says whether the client turns on what a server has on trial, which may be another way to look for the key.
func (s *sent) choosesBeta() bool {
	return slices.ContainsFunc(s.forward, func(f [2]string) bool { return strings.HasSuffix(f[0], "-Beta") })
}

// serverError is what an error's body says.
type serverError struct {
	msg        string
	code, kind any // as they are written; nil without one
}

// errorOf reads an error's body, in the forms that servers write. A key in it is not shown.
func (m *Model) errorOf(body []byte) serverError {
	e := readError(body)
	e.msg = m.withoutKey(e.msg)
	return e
}

func readError(body []byte) serverError {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	whole := serverError{msg: strings.ToValidUTF8(string(body), "\uFFFD")}
	if json.Unmarshal(body, &e) != nil {
		return whole
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
		Type    any    `json:"type"`
	}
	var text string
	switch {
	case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
		return serverError{inner.Message, inner.Code, inner.Type}
	case json.Unmarshal(e.Error, &text) == nil && text != "":
		return serverError{msg: text}
	case e.Message != "":
		return serverError{msg: e.Message}
	case len(e.Detail) > 0:
		return serverError{msg: string(e.Detail)}
	}
	return whole
}

// printable keeps the characters of an id that may stand in rows and logs.
func printable(id string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, id)
}

// cut shortens a message to n bytes, at the end of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// retryAfterMax bounds what a replica may make clients wait.
const retryAfterMax = 5 * time.Minute

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || !(seconds >= 0) { // also of NaN
		return 0
	}
	return time.Duration(min(seconds, retryAfterMax.Seconds()) * float64(time.Second)) // more need not fit
}
