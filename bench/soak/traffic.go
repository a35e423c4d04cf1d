package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"corenode/bench/client"
	"corenode/bench/workload"
)

// Counts are the requests that were sent and how they ended.
type Counts struct {
	Whole   int64            `json:"whole"`   // answers that were read to their end, which was as it must be
	Aborted int64            `json:"aborted"` // left by us
	Refused int64            `json:"refused"` // 429 and 503
	Wrong   map[string]int64 `json:"wrong"`   // all else, by what it was
}

// requests are all that ended.
func (c Counts) requests() int64 {
	n := c.Whole + c.Aborted + c.Refused
	for _, wrong := range c.Wrong {
		n += wrong
	}
	return n
}

// wrongMax bounds the texts of Counts.Wrong; what says yet another thing stands under one.
const wrongMax = 50

// wrong counts a request that went wrong, by a text.
func (c *Counts) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if _, known := c.Wrong[text]; !known && len(c.Wrong) >= wrongMax {
		text = "something else"
	}
	c.Wrong[text]++
}

// abortShare is the part of the requests whose clients leave: half of them before they read
// anything, the others in the middle of an answer.
const abortShare = 0.3

// requestTimeout bounds one exchange.
const requestTimeout = 2 * time.Minute

// traffic are clients that send one request after another over three protocols.
type traffic struct {
	target client.Target

	// busy is held by each request for reading, and by a pause for writing.
	busy sync.RWMutex
	pool *client.Pool // Guarded by busy: a pause makes a new one
	key  string       // Guarded by busy

	mu     sync.Mutex
	counts Counts // Guarded by mu
	paced  paced  // Guarded by mu
}

// modelInstant is the id of a model that computes nothing.
const modelInstant = workload.Model + "-mini"

// paced spreads requests over the model that computes and the one that does not: so many in all for each of the first.
type paced struct{ pace, due float64 }

func newPaced(pace float64) paced { return paced{pace: pace} }

// model is whom the next request asks.
func (p *paced) model() string {
	if p.due += 1 / p.pace; p.due < 1-1e-9 {
		return modelInstant
	}
	p.due--
	return workload.Model
}

func newTraffic(url, key string, pace float64) (*traffic, error) {
	target, err := client.ParseTarget(url)
	t := &traffic{target: target, key: key, counts: Counts{Wrong: map[string]int64{}}, paced: newPaced(pace)}
	t.pool = t.newPool()
	return t, err
}

func (t *traffic) newPool() *client.Pool {
	return client.NewPool(t.target, client.Options{Connect: 10 * time.Second})
}

// pause runs do while no request is in the air and no connection is open.
func (t *traffic) pause(do func() error) error {
	t.busy.Lock()
	defer t.busy.Unlock()
	t.pool.Close()
	t.pool = t.newPool()
	return do()
}

// setKey changes the key when all requests with the one before have ended.
func (t *traffic) setKey(key string) {
	t.busy.Lock()
	defer t.busy.Unlock()
	t.key = key
}

// soFar are the requests that ended so far, and of them the whole answers and the refusals.
func (t *traffic) soFar() (requests, whole, refused int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts.requests(), t.counts.Whole, t.counts.Refused
}

// run sends requests from n clients until ctx ends.
func (t *traffic) run(ctx context.Context, n int) {
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for turn := 0; ctx.Err() == nil; turn++ {
				t.request(ctx, r, i+turn)
			}
		})
	}
	clients.Wait()
	t.pool.Close()
}

// request makes one exchange and counts how it ended.
func (t *traffic) request(ctx context.Context, r *rand.Rand, turn int) {
	t.busy.RLock()
	defer t.busy.RUnlock()
	t.mu.Lock()
	model := t.paced.model()
	t.mu.Unlock()
	path, body, stream := question(r, turn, model)
	aborted := r.Float64() < abortShare
	status, answer, err := t.exchange(ctx, path, body, stream, aborted, r.IntN(2) == 0)
	var failed error
	if err == nil && status == http.StatusOK && !aborted {
		failed = ended(path, stream, answer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ctx.Err() != nil && err != nil: // the end of the run
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		t.counts.Refused++
	case err != nil:
		t.counts.wrong("%s: %v", path, err)
	case status != http.StatusOK:
		t.counts.wrong("%s: status %d: %.200s", path, status, bytes.Join(bytes.Fields(answer), []byte(" ")))
	case failed != nil:
		t.counts.wrong("%s: %v", path, failed)
	case aborted:
		t.counts.Aborted++
	default:
		t.counts.Whole++
	}
}

// answerMax bounds an answer; the longest of so few tokens is a part of that.
const answerMax = 1 << 20

// exchange sends a request and reads its answer, or leaves: at once, or after its first bytes.
func (t *traffic) exchange(ctx context.Context, path, body string, stream, aborted, atOnce bool) (status int, answer []byte, err error) {
	conn, _, err := t.pool.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	head := t.target.Head(path, stream, "Authorization: Bearer "+t.key+"\r\n")
	if err := conn.Send(head, "", []byte(body), time.Now().Add(requestTimeout)); err != nil {
		t.pool.Drop(conn)
		return 0, nil, err
	}
	if aborted && atOnce {
		t.pool.Drop(conn)
		return http.StatusOK, nil, nil
	}
	begin, err := conn.ReadHead()
	if err != nil {
		t.pool.Drop(conn)
		return 0, nil, err
	}
	for err == nil {
		var piece []byte
		if piece, err = conn.Piece(); err == nil && aborted {
			t.pool.Drop(conn)
			return begin.Status, nil, nil
		}
		if answer = append(answer, piece...); len(answer) > answerMax {
			err = fmt.Errorf("an answer of more than %d bytes", answerMax)
		}
	}
	t.pool.Put(conn) // which closes it if the answer was not read to its end
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return begin.Status, answer, err
}

// question is one of many requests over one of three protocols: of a few conversations, so that
// prefixes are found again, and of ever new ones, so that they give way.
func question(r *rand.Rand, turn int, model string) (path, body string, stream bool) {
	system := fmt.Sprintf("You are helper %d. %s", r.IntN(4), strings.Repeat("Answer from what you know. ", 8))
	user := fmt.Sprintf("Number %d: %s", r.IntN(1<<20), strings.Repeat("tell me more, ", 1+r.IntN(30)))
	stream = r.IntN(3) > 0
	tokens := 1 + r.IntN(48)
	switch turn % 3 {
	case 0:
		return "/v1/messages", fmt.Sprintf(`{"model":%q,"max_tokens":%d,"stream":%v,"system":%q,"messages":[{"role":"user","content":%q}]}`,
			model, tokens, stream, system, user), stream
	case 1:
		return "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"max_completion_tokens":%d,"stream":%v,"messages":[`+
			`{"role":"system","content":%q},{"role":"user","content":%q}]}`, model, tokens, stream, system, user), stream
	default:
		return pathResponses, fmt.Sprintf(`{"model":%q,"max_output_tokens":%d,"stream":%v,"store":false,"instructions":%q,"input":%q}`,
			model, max(16, tokens), stream, system, user), stream
	}
}
