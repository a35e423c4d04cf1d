package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/node/admin"
	"corenode/wasm/abi"
)

// rates are the prices of the models that tests serve, in nano-dollars per token.
var rates = map[string]struct{ input, cached, output int64 }{
	slowModel: {240, 24, 2400},
	fastModel: {80, 8, 800},
}

// priceOf is the charge of a usage, by the words of the contract and with
// integers that cannot overflow: nothing of it is the node's own code.
func priceOf(model string, input, cached, output int64) *big.Int {
	r := rates[model]
	total := new(big.Int)
	for _, part := range [][2]int64{{input, r.input}, {cached, r.cached}, {output, r.output}} {
		total.Add(total, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	if input+cached > 200_000 {
		total.Lsh(total, 1)
	}
	return total
}

// costs says whether a row charges exactly what its usage costs.
func costs(model string, e admin.Entry) bool {
	want := priceOf(model, e.Usage.InputUncached+e.Usage.CacheWrite, e.Usage.CacheRead, e.Usage.Output)
	return want.Cmp(big.NewInt(-int64(e.AmountNanoUSD))) == 0
}

// errand is one request of a customer.
type errand struct {
	account   string // its id
	key       string
	path      string
	model     string
	prompt    string
	stream    bool
	silent    bool // a chat stream that does not ask for its usage
	tool      bool // the model may call get_weather
	maxTokens int
	leaveAt   int           // after so many deltas; 0 = stays
	leaveIn   time.Duration // after so long; 0 = stays
}

var paths = []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"}

func (e errand) body() []byte {
	body := object{"model": e.model, "stream": e.stream}
	turns := []any{object{"role": "user", "content": e.prompt}}
	switch e.path {
	case "/v1/messages":
		body["messages"], body["max_tokens"] = turns, e.maxTokens
	case "/v1/chat/completions":
		body["messages"], body["max_tokens"] = turns, e.maxTokens
		if e.stream && !e.silent {
			body["stream_options"] = object{"include_usage": true}
		}
	case "/v1/responses":
		body["input"], body["max_output_tokens"] = e.prompt, e.maxTokens
	}
	if e.tool {
		body["tools"] = e.tools()
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return text
}

// tools is the one tool, as the protocol has it.
func (e errand) tools() []any {
	const name = "get_weather"
	switch e.path {
	case "/v1/messages":
		return []any{object{"name": name, "input_schema": schema}}
	case "/v1/chat/completions":
		return []any{object{"type": "function", "function": object{"name": name, "parameters": schema}}}
	default:
		return []any{object{"type": "function", "name": name, "parameters": schema}}
	}
}

// receipt is what a customer knows of its request afterwards.
type receipt struct {
	errand
	id      string // of the request; "" when no answer began
	status  int    // 0 when no answer began
	events  int    // of a stream
	pauses  int    // keep-alives of a stream
	deltas  int    // of those, with output; about one token each
	busiest int    // the most deltas within one second
	told    bool   // the final usage arrived
	ended   bool   // a stream said that it is complete
	left    bool   // the customer went away
	usage   counted
	failure string // the error event or body, if any
	header  http.Header
}

// moments are what a customer reports while it happens. Any may be nil.
type moments struct{ asked, began, told func() }

func happen(f func()) {
	if f != nil {
		f()
	}
}

// run asks and reads until the end of the answer, however that comes.
func (e errand) run(t *testing.T, h *http.Client, base string, m moments) (r receipt) {
	r = receipt{errand: e}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var left atomic.Bool
	leave := func() { left.Store(true); cancel() }
	if e.leaveIn > 0 {
		defer time.AfterFunc(e.leaveIn, leave).Stop()
	}
	defer func() { r.left = left.Load() }()
	request, err := http.NewRequestWithContext(ctx, "POST", base+e.path, bytes.NewReader(e.body()))
	if err != nil {
		t.Error(err)
		return r
	}
	request.Header.Set("Authorization", "Bearer "+e.key)
	request.Header.Set("Content-Type", "application/json")
	happen(m.asked)
	response, err := h.Do(request)
	if err != nil {
		return r // it left, or the node is gone
	}
	defer response.Body.Close()
	r.id, r.status, r.header = response.Header.Get("X-Llm-Request-Id"), response.StatusCode, response.Header
	if !e.stream || r.status != http.StatusOK {
		r.readWhole(t, response.Body)
	} else {
		r.readStream(t, response.Body, m, leave)
	}
	if r.told {
		happen(m.told)
	}
	return r
}

func (r *receipt) readWhole(t *testing.T, body io.Reader) {
	answer, err := io.ReadAll(body)
	switch {
	case err != nil:
	case r.status != http.StatusOK:
		r.failure = string(answer)
	default:
		r.usage, r.told = usageOf(t, r.path, answer, counted{}), true
	}
}

// readStream reads whole lines: one that a kill cut off says nothing.
func (r *receipt) readStream(t *testing.T, body io.Reader, m moments, leave func()) {
	var window []time.Time // when the deltas of the last second came
	var blocks blockOrder
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte(": ")) || bytes.HasPrefix(line, []byte("event: ping")) {
			r.pauses++
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		r.ended = r.ended || ok && endsStream(data)
		if !ok || string(data) == "[DONE]" {
			continue
		}
		r.events++
		if r.path == "/v1/messages" {
			blocks.see(t, data)
		}
		switch r.kindOf(t, data) {
		case frameDelta:
			if r.deltas++; r.deltas == 1 {
				happen(m.began)
			}
			now := time.Now()
			for window = append(window, now); now.Sub(window[0]) > time.Second; {
				window = window[1:]
			}
			r.busiest = max(r.busiest, len(window))
			if r.deltas == r.leaveAt {
				leave()
			}
		case frameUsage:
			r.usage = usageOf(t, r.path, data, r.usage)
		case frameEnd:
			r.usage, r.told = usageOf(t, r.path, data, r.usage), true
		case frameError:
			r.failure = string(data)
		}
	}
}

// endsStream says whether a frame tells the customer that the answer is complete.
func endsStream(data []byte) bool {
	for _, sign := range []string{"[DONE]", `"type":"message_delta"`, `"type":"message_stop"`, `"finish_reason":"`, `"type":"response.completed"`,
		`"type":"response.incomplete"`} {
		if bytes.Contains(data, []byte(sign)) {
			return true
		}
	}
	return false
}

// The frames of a stream as a customer tells them apart.
const (
	frameOther = iota
	frameDelta
	frameUsage // some of the usage
	frameEnd   // all of it
	frameError
)

func (r *receipt) kindOf(t *testing.T, data []byte) int {
	var f struct {
		Type    string
		Error   json.RawMessage
		Usage   json.RawMessage
		Choices []struct {
			Delta struct {
				Content   string
				Reasoning string `json:"reasoning_content"`
			}
		}
		Delta json.RawMessage
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Errorf("frame %s: %v", data, err)
		return frameOther
	}
	switch {
	case f.Type == "error" || f.Type == "response.failed" || len(f.Error) > 0 && string(f.Error) != "null":
		return frameError
	case f.Type == "message_start":
		return frameUsage
	case f.Type == "message_delta", f.Type == "response.completed", f.Type == "response.incomplete",
		len(f.Usage) > 0 && string(f.Usage) != "null":
		return frameEnd
	case f.Type == "content_block_delta":
		if bytes.Contains(f.Delta, []byte("signature_delta")) {
			return frameOther
		}
		return frameDelta
	case strings.HasSuffix(f.Type, ".delta"):
		return frameDelta
	case len(f.Choices) > 0 && f.Choices[0].Delta.Content+f.Choices[0].Delta.Reasoning != "":
		return frameDelta
	}
	return frameOther
}

// books is the whole ledger as the admin API shows it.
type books struct {
	last      int64 // id
	settled   map[string]admin.Entry
	holds     map[string]admin.Entry
	topUps    map[string]abi.Nano // by note; not those of new accounts
	sums      map[string]abi.Nano // by account
	checkmark map[string]int      // checkpoints by request
	refunds   map[string]abi.Nano // by request
}

func newBooks() *books {
	return &books{settled: map[string]admin.Entry{}, holds: map[string]admin.Entry{}, topUps: map[string]abi.Nano{},
		sums: map[string]abi.Nano{}, checkmark: map[string]int{}, refunds: map[string]abi.Nano{}}
}

// read goes on where the last read ended, and returns the settlements that are new.
func (b *books) read(t *testing.T, c *admin.Client) (fresh []admin.Entry) {
	t.Helper()
	for {
		page, err := c.Ledger(time.Time{}, b.last)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return fresh
		}
		for _, e := range page {
			if e.ID != b.last+1 {
				t.Errorf("row %d follows row %d", e.ID, b.last)
			}
			b.last = e.ID
			b.sums[e.AccountID] += e.AmountNanoUSD
			switch e.Kind {
			case "settlement":
				if _, twice := b.settled[e.RequestID]; twice {
					t.Errorf("request %s is settled twice", e.RequestID)
				}
				b.settled[e.RequestID] = e
				fresh = append(fresh, e)
			case "hold":
				b.holds[e.RequestID] = e
			case "adjustment":
				if _, twice := b.refunds[e.RequestID]; twice || !e.Refund || e.AmountNanoUSD+b.settled[e.RequestID].AmountNanoUSD != 0 {
					t.Errorf("row %+v refunds %+v", e, b.settled[e.RequestID])
				}
				b.refunds[e.RequestID] = e.AmountNanoUSD
			case "checkpoint":
				b.checkmark[e.RequestID]++
			case "topup":
				if e.Note == "initial balance" {
					continue
				}
				if _, twice := b.topUps[e.Note]; twice {
					t.Errorf("top-up %q is there twice", e.Note)
				}
				b.topUps[e.Note] = e.AmountNanoUSD
			}
		}
	}
}

// closed checks what must hold when no request runs: nothing is open, the rules
// of the ledger hold, and every balance is the sum of the account's rows.
func (b *books) closed(t *testing.T, c *admin.Client) {
	t.Helper()
	v, err := c.VerifyLedger()
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Findings) > 0 || v.OpenHolds != 0 || v.Rows != b.last {
		t.Errorf("verify: %+v with %d rows read", v, b.last)
	}
	for id := range b.holds {
		if _, ok := b.settled[id]; !ok {
			t.Errorf("the hold of %s was never settled", id)
		}
	}
	var accounts []admin.Account
	if err := c.AccountPages(func(page []admin.Account) error {
		accounts = append(accounts, page...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		if a.HeldNanoUSD != 0 || a.BalanceNanoUSD != b.sums[a.ID] {
			t.Errorf("account %s has %d and holds %d, its rows add up to %d", a.Name, a.BalanceNanoUSD, a.HeldNanoUSD, b.sums[a.ID])
		}
	}
}

// someErrand makes up a request to a model.
func someErrand(rnd *rand.Rand, model, account, key string) errand {
	e := errand{account: account, key: key, path: paths[rnd.IntN(len(paths))], model: model,
		stream: rnd.IntN(3) > 0, maxTokens: 1 + rnd.IntN(60)}
	e.prompt = fmt.Sprint("question ", rnd.IntN(1000), " ", strings.Repeat("the same words again and again. ", 1+10*rnd.IntN(8)))
	if model == slowModel {
		e.maxTokens = 50 + rnd.IntN(3000)
	}
	if rnd.IntN(6) == 0 {
		e.leaveAt, e.leaveIn = 1+rnd.IntN(40), time.Duration(1+rnd.IntN(400))*time.Millisecond
	}
	return e
}
