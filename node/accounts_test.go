package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/kernel"
	"corenode/engine/tokenizer"
	"corenode/node/admin"
	"corenode/node/config"
)

// operator is the admin API of a running node.
func operator(t *testing.T, n *node) *admin.Client {
	t.Helper()
	c, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// statement is the whole statement of an account.
func statement(c *admin.Client, name string) (rows []admin.Entry, err error) {
	return rows, c.Statement(url.Values{"account": {name}}, func(page []admin.Entry) error {
		rows = append(rows, page...)
		return nil
	})
}

// bearer are the headers of a client with a key.
func bearer(key string) http.Header {
	return http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
}

// fetch sends a request and returns the answer with its whole text.
func fetch(t testing.TB, method, url, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// postTo sends a body to a path and returns the answer with its whole text.
func postTo(t *testing.T, base, path, key, body string) (*http.Response, string) {
	t.Helper()
	return fetch(t, "POST", base+path, body, bearer(key))
}

// held is a model that says one token for ever: slowly until it may go on, and then as fast as it can.
type held struct {
	token int32
	goOn  *atomic.Bool
}

func (m held) Forward(_ *kernel.Step, _ []int32, _ kernel.Cache, _ []int32, logits [][]float32) error {
	if !m.goOn.Load() {
		time.Sleep(50 * time.Millisecond)
	}
	say(m.token, logits)
	return nil
}

func (held) Close() {}

// TestRevokedWhileItStreams ends a key, and an account, under running streams:
// the next request is refused, also while others are being answered; the streams
// go on to their end and are billed; other keys of the account are not touched.
func TestRevokedWhileItStreams(t *testing.T) {
	var goOn atomic.Bool
	model := standIns{adjust: func(o *engine.Options) {
		if o.ID == slowModel {
			o.Model = func(t *tokenizer.Tokenizer) engine.Forwarder { return held{t.Encode(nil, "a")[0], &goOn} }
		}
	}}
	n, base, _ := startNodeWith(t, model, instantModels)
	c := operator(t, n)
	const tokens = 1500
	streamed := fmt.Sprintf(`{"model":"core-1.1","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"x"}]}`, tokens)
	short := `{"model":"core-1.1-mini","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`
	status := func(key string) int {
		answer, _ := postTo(t, base, "/v1/messages", key, short)
		return answer.StatusCode
	}
	for name, end := range map[string]func(a admin.CreatedAccount) error{
		"key": func(a admin.CreatedAccount) error { _, err := c.RevokeKey(a.KeyID); return err },
		"account": func(a admin.CreatedAccount) error {
			yes := true
			_, err := c.ChangeAccount(a.Name, admin.AccountChange{Disabled: &yes})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := c.CreateAccount(admin.NewAccount{Name: name, Balance: admin.Amount{USD: "100"}})
			if err != nil {
				t.Fatal(err)
			}
			other, err := c.CreateKey(a.Name, admin.NewKey{})
			if err != nil {
				t.Fatal(err)
			}
			goOn.Store(false)
			stream, err := post(t.Context(), base, a.Key, streamed)
			if err != nil || stream.StatusCode != 200 {
				t.Fatal(stream, err)
			}
			defer stream.Body.Close()
			lines := bufio.NewReader(stream.Body)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if got := status(a.Key); got != 200 {
				t.Errorf("before: %d", got)
			}
			if err := end(a); err != nil {
				t.Fatal(err)
			}
			if got := status(a.Key); got != 401 {
				t.Errorf("after: %d, want 401", got)
			}
			wantOther := map[string]int{"key": 200, "account": 401}[name]
			if got := status(other.Secret); got != wantOther {
				t.Errorf("the account's other key after: %d, want %d", got, wantOther)
			}
			if n.tree.Inspect().Requests != 1 {
				t.Fatal("the stream ended before the test could show anything")
			}
			goOn.Store(true)
			text, err := io.ReadAll(lines)
			if err != nil || !strings.Contains(string(text), "message_stop") {
				t.Fatalf("the stream ended with %v and %q", err, text[max(0, len(text)-300):])
			}
			rows, err := statement(c, a.Name)
			if err != nil {
				t.Fatal(err)
			}
			billed := false
			for _, r := range rows {
				billed = billed || r.KeyID == a.KeyID && r.Reason == account.Finished && r.Usage.Output == tokens && r.AmountNanoUSD < 0
			}
			if !billed {
				t.Errorf("the stream is not among the rows %+v", rows)
			}
		})
	}
}

// TestTimeoutPaysWhatWasComputed: a request that does not stream and takes too long ends with
// the 504 of a gateway on every path, and its row is that of one that its client cancelled. A
// stream takes as long as it takes.
func TestTimeoutPaysWhatWasComputed(t *testing.T) {
	n, base, _ := startNode(t, func(cfg *config.Config) {
		slowConfig(t)(cfg)
		cfg.Limits.NonstreamingTimeout = 15 * time.Second // enough for one token on any machine, and never for all
	})
	const tokens = 32_768
	_, key := customerOf(t, n, account.Account{Name: "listener", Unlimited: true}, 0)
	deltas, ended := listen(t, base, errand{key: key, path: "/v1/messages", model: slowModel, stream: true, prompt: "x", maxTokens: 200_000})
	waitFor(t, "the stream", func() bool { return deltas.Load() > 0 })
	t.Run("plain", func(t *testing.T) {
		for _, path := range paths {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				id, key := customerOf(t, n, account.Account{Name: "patient" + strings.ReplaceAll(path, "/", "-")}, 1e9)
				answer, text := postTo(t, base, path, key, string(errand{path: path, model: slowModel, prompt: "x", maxTokens: tokens}.body()))
				if answer.StatusCode != http.StatusGatewayTimeout ||
					!strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") || !strings.Contains(text, "<html>") {
					t.Errorf("status %d, %q: %s", answer.StatusCode, answer.Header.Get("Content-Type"), text)
				}
				rows, err := statement(operator(t, n), id)
				if err != nil || len(rows) != 2 { // after its top-up
					t.Fatalf("rows %+v, %v", rows, err)
				}
				if r := rows[1]; r.RequestID != answer.Header.Get("X-Llm-Request-Id") || r.Reason != account.Canceled ||
					r.Usage.InputUncached == 0 || r.Usage.Output == 0 || r.Usage.Output >= tokens || !costs(slowModel, r) {
					t.Errorf("row %+v with %+v", r, *r.Usage)
				}
			})
		}
	})
	seen := deltas.Load()
	waitFor(t, "more of the stream", func() bool { return deltas.Load() > seen || ended.Load() })
	if ended.Load() {
		t.Error("the stream ended too")
	}
}

// listen reads a stream until the test ends and counts its deltas.
func listen(t *testing.T, base string, e errand) (deltas *atomic.Int64, ended *atomic.Bool) {
	t.Helper()
	deltas, ended = &atomic.Int64{}, &atomic.Bool{}
	answer, err := post(t.Context(), base, e.key, string(e.body()))
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), "content_block_delta") {
				deltas.Add(1)
			}
		}
		ended.Store(true)
	})
	t.Cleanup(func() { answer.Body.Close(); reader.Wait() })
	return deltas, ended
}

// rateHeaders are the names of a family's headers: of requests and of tokens,
// each limit, remaining and reset.
var rateHeaders = map[string][2][3]string{
	"/v1/messages": {
		{"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"}},
	"/v1/chat/completions": {
		{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}},
}

// TestRetryAfterIsTrueOverHTTP empties an account's bucket, waits as long as the
// refusal says and not longer, and is admitted, in both families.
func TestRetryAfterIsTrueOverHTTP(t *testing.T) {
	n, base, _ := startNode(t, instantModels)
	c := operator(t, n)
	const perMinute, atOnce = 10_000, 7
	ask := func(path, content string, tokensMax int) string {
		limit := "max_tokens"
		if path != "/v1/messages" {
			limit = "max_completion_tokens"
		}
		return fmt.Sprintf(`{"model":"core-1.1","%s":%d,"messages":[{"role":"user","content":"%s"}]}`, limit, tokensMax, content)
	}
	for path, names := range rateHeaders {
		t.Run(path, func(t *testing.T) {
			a, err := c.CreateAccount(admin.NewAccount{Name: "caller" + strings.ReplaceAll(path, "/", "-"), Unlimited: true,
				Concurrency: atOnce, TokensPerMinute: perMinute})
			if err != nil {
				t.Fatal(err)
			}
			check := func(answer *http.Response, status int) (remaining int) {
				t.Helper()
				if answer.StatusCode != status {
					t.Fatalf("status %d, want %d", answer.StatusCode, status)
				}
				for i, limit := range []int{atOnce, perMinute} {
					left, err := strconv.Atoi(answer.Header.Get(names[i][1]))
					if got := answer.Header.Get(names[i][0]); got != strconv.Itoa(limit) || err != nil || left < 0 || left > limit {
						t.Errorf("%s is %q and %s %q, want %d and no more", names[i][0], got, names[i][1], answer.Header.Get(names[i][1]), limit)
					}
					if answer.Header.Get(names[i][2]) == "" {
						t.Errorf("no %s", names[i][2])
					}
					remaining = left
				}
				return remaining
			}
			// A prompt that takes most of what the bucket has, again and again until a small
			// request that asks for much output is refused.
			small := ask(path, "x", 300)
			refused, left := (*http.Response)(nil), 0
			for range 50 {
				answer, text := postTo(t, base, path, a.Key, small)
				if answer.StatusCode == 429 {
					if !strings.Contains(text, "rate_limit") {
						t.Errorf("the refusal is %s", text)
					}
					refused, left = answer, check(answer, 429)
					break
				}
				some := max(check(answer, 200)/3, 1) // two or three tokens each: most of what is left, however much came back meanwhile
				answer, _ = postTo(t, base, path, a.Key, ask(path, strings.Repeat("many words ", some), 1))
				check(answer, answer.StatusCode)
			}
			if refused == nil {
				t.Fatal("the bucket was never empty")
			}
			ms, err := strconv.Atoi(refused.Header.Get("Retry-After-Ms"))
			seconds, errSeconds := strconv.Atoi(refused.Header.Get("Retry-After"))
			if err != nil || errSeconds != nil || ms < 1 || seconds != (ms+999)/1000 {
				t.Fatalf("Retry-After is %q, in ms %q", refused.Header.Get("Retry-After"), refused.Header.Get("Retry-After-Ms"))
			}
			// What is missing refills in that time: 300 and a few tokens of prompt.
			if need := left + ms*perMinute/60_000; need < 300 || need > 400 {
				t.Errorf("%d tokens and %d ms make %d, want what the request needs", left, ms, need)
			}
			time.Sleep(time.Duration(ms) * time.Millisecond)
			answer, _ := postTo(t, base, path, a.Key, small)
			check(answer, 200)
		})
	}
}
