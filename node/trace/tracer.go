package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	queueMax = 2048 // records that wait; more are dropped
	batchMax = 64   // records in one request to the collector
	// retryAfter is how long nothing is asked of a collector that gave no answer, or that takes nothing and does not say until when.
	retryAfter = time.Second
	// retryMax is the longest that a collector may ask for.
	retryMax = 5 * time.Minute
	// complainEvery is how often the log says that a collector takes nothing.
	complainEvery = time.Minute
)

// Counts are what became of records. They only rise.
type Counts struct {
	Sent     atomic.Int64
	Overflow atomic.Int64 // the queue was full
	Failed   atomic.Int64 // the collector did not take them
}

// Tracer decides which traces are kept, and sends them. It is safe for concurrent use; Close ends
// its goroutine.
type Tracer struct {
	cfg     Config
	log     *slog.Logger
	of      resource
	client  *http.Client
	queue   chan *Record
	slowest slowest
	counts  Counts

	stop   chan struct{}   // closed by Close
	asking context.Context // of every request to the collector; ends lastWait behind stop
	giveUp context.CancelFunc
	done   sync.WaitGroup

	until      time.Time // nothing is asked of the collector before. Owned by run, as is what follows
	complained time.Time
	body       []byte
	packed     bytes.Buffer
	gzip       *gzip.Writer
	scratch    []span
}

// Node is what traces say of the node.
type Node struct {
	Version string
	Address string // host:port that it answers at
	Machine string // its host's name; may be empty
}

// New starts a tracer. Nothing is asked of the collector before there is a trace.
func New(cfg Config, node Node, log *slog.Logger) *Tracer {
	t := &Tracer{cfg: cfg, log: log, of: resourceOf(cfg, node), queue: make(chan *Record, queueMax), stop: make(chan struct{})}
	t.asking, t.giveUp = context.WithCancel(context.Background())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.TLS != nil {
		transport.TLSClientConfig = cfg.TLS
	}
	transport.MaxIdleConnsPerHost = 1
	// A connection of HTTP/2 on which nothing comes any more ends before a request on it does: the second try has another one.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: cfg.Timeout / 3, PingTimeout: cfg.Timeout / 3}
	t.client = &http.Client{Transport: transport, Timeout: cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.done.Go(t.run)
	return t
}

// resourceOf is what the spans are of; what the environment says stands for what is said here.
func resourceOf(cfg Config, node Node) resource {
	of := resource{version: node.Version}
	var instance string
	of.place, instance = whereOf(node)
	last := map[string]string{serviceName: "corenode", serviceVersion: node.Version, serviceInstance: instance}
	order := []string{serviceName, serviceVersion, serviceInstance}
	for _, a := range cfg.Attributes {
		if _, known := last[a[0]]; !known {
			order = append(order, a[0])
		}
		last[a[0]] = a[1]
	}
	for _, key := range order {
		of.attributes = append(of.attributes, text(key, last[key]))
	}
	return of
}

// whereOf is where a node answers, and what it is called among others. An address of every interface, or of its own
// machine only, may be that of each of them: then the machine's name tells them apart.
func whereOf(node Node) (at place, instance string) {
	host, port, _ := net.SplitHostPort(node.Address)
	at.address = host
	at.port, _ = strconv.ParseInt(port, 10, 64)
	ip, err := netip.ParseAddr(host)
	if err != nil || node.Machine == "" || !ip.IsUnspecified() && !ip.IsLoopback() {
		return at, node.Address
	}
	if ip.IsUnspecified() {
		at.address = node.Machine
	}
	return at, net.JoinHostPort(node.Machine, port)
}

// Counts returns what became of records.
func (t *Tracer) Counts() *Counts { return &t.counts }

// Begin makes the place of a request in its trace, of the headers that it came with. trusted says
// that they are a peer node's.
func (t *Tracer) Begin(parent, state []byte, trusted bool) Context {
	c, ok := Parse(parent, state)
	if !ok {
		putID(c.Trace[:8], rand.Uint64())
		putID(c.Trace[8:], rand.Uint64()|1) // an id of zeros is none
	}
	c.Span = newSpan()
	if ok && trusted && t.cfg.Peers {
		c.Peer = true
	} else {
		c.Sampled = t.cfg.Share > 0 && rand.Float64() < t.cfg.Share
	}
	return c
}

// Calls says whether a call of a module that took so long has a span of its own.
func (t *Tracer) Calls(took time.Duration) bool { return t != nil && took >= t.cfg.SlowCall }

// Why a trace is kept.
const (
	KeptByChance = "ratio"
	KeptByPeer   = "peer"
	KeptForError = "error"
	KeptForTime  = "slow"
)

// Keep says why the trace of a request that ended is kept; empty if it is not. failed is a failure of the
// node's. generated says that it produced an answer: of other requests none is slow.
func (t *Tracer) Keep(c *Context, took time.Duration, failed, generated bool) (why string) {
	slow := generated && t.slowest.slow(took)
	switch {
	case failed:
		return KeptForError
	case slow:
		return KeptForTime
	case c.Sampled && c.Peer:
		return KeptByPeer
	case c.Sampled:
		return KeptByChance
	}
	return ""
}

// Take queues a record, which is the tracer's from then on, or drops it.
func (t *Tracer) Take(r *Record) {
	select {
	case t.queue <- r:
	default:
		t.counts.Overflow.Add(1)
	}
}

const (
	// lastWait bounds what a node that stops waits for its collector.
	lastWait = time.Second
	// lastPause is the most of lastWait in which nothing is asked of a collector, whatever that said: later there is nobody to ask.
	lastPause = lastWait / 4
)

// Close sends what waits, if the collector takes it soon, and ends the tracer. It is called once.
func (t *Tracer) Close() error {
	close(t.stop)
	late := time.AfterFunc(lastWait, t.giveUp)
	t.done.Wait()
	late.Stop()
	t.giveUp()
	t.client.CloseIdleConnections()
	return nil
}

// run sends records in batches until the tracer is closed.
func (t *Tracer) run() {
	tick := time.NewTicker(t.cfg.Delay)
	defer tick.Stop()
	batch := make([]*Record, 0, batchMax)
	for {
		select {
		case r := <-t.queue:
			if batch = append(batch, r); len(batch) < batchMax {
				continue
			}
		case <-tick.C:
		case <-t.stop:
			t.last(batch)
			return
		}
		t.send(batch)
		clear(batch)
		batch = batch[:0]
	}
}

// last sends what there is when the tracer is closed.
func (t *Tracer) last(batch []*Record) {
	for {
		select {
		case r := <-t.queue:
			if batch = append(batch, r); len(batch) < batchMax {
				continue
			}
			t.send(batch)
			batch = batch[:0]
		default:
			t.send(batch)
			return
		}
	}
}

// send gives a batch to the collector: once more if it says so or does not answer, and then it is dropped.
func (t *Tracer) send(batch []*Record) {
	if len(batch) == 0 {
		return
	}
	body := bytes.Clone(t.pack(batch)) // a connection may still read it when its request has failed
	t.pause()
	spans, err := t.post(body)
	if err != nil && t.pause() {
		spans, err = t.post(body)
	}
	all := int64(len(batch))
	lost := min(spans, all) // whose they are is not said: of a trace each, at worst
	if err != nil {
		lost = all
	}
	t.counts.Sent.Add(all - lost)
	t.counts.Failed.Add(lost)
	if lost == 0 {
		return
	}
	if err == nil {
		err = fmt.Errorf("%d spans are refused", spans)
	}
	if now := time.Now(); now.Sub(t.complained) > complainEvery {
		t.complained = now
		t.log.Warn("the collector does not take traces: they are dropped", "error", err.Error(), "dropped", t.counts.Failed.Load())
	}
}

// pause lets the time pass in which nothing is asked of the collector, of which there is little when the tracer is closed: records wait
// in the queue meanwhile. It is false where there was none, or where the tracer gives up.
func (t *Tracer) pause() bool {
	wait := time.Until(t.until)
	if wait <= 0 {
		return false
	}
	select {
	case <-time.After(wait):
	case <-t.stop:
		select {
		case <-time.After(min(time.Until(t.until), lastPause)):
		case <-t.asking.Done():
			return false
		}
	}
	t.until = time.Time{}
	return true
}

// pack encodes a batch. What it returns is valid until the next call.
func (t *Tracer) pack(batch []*Record) []byte {
	t.body, t.scratch = encode(t.body[:0], &t.of, batch, t.scratch)
	if t.cfg.Plain {
		return t.body
	}
	t.packed.Reset()
	if t.gzip == nil {
		t.gzip, _ = gzip.NewWriterLevel(&t.packed, gzip.BestSpeed) // the level is there
	}
	t.gzip.Reset(&t.packed)
	_, _ = t.gzip.Write(t.body) // into memory
	_ = t.gzip.Close()
	return t.packed.Bytes()
}

// answerMax is the most bytes of a collector's answer that are read.
const answerMax = 64 << 10

// post asks once. Where it is worth to ask again, it sets until; refused is how many spans were left out of what the
// collector took.
func (t *Tracer) post(body []byte) (refused int64, err error) {
	q, err := http.NewRequestWithContext(t.asking, http.MethodPost, t.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for _, h := range t.cfg.Headers {
		q.Header.Set(h[0], h[1])
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "corenode/"+t.of.version)
	if !t.cfg.Plain {
		q.Header.Set("Content-Encoding", "gzip")
	}
	r, err := t.client.Do(q)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // without the URL, which may have a key
		}
		t.until = time.Now().Add(retryAfter) // a connection that was kept may have been closed meanwhile
		return 0, err
	}
	defer r.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(r.Body, answerMax)) // also so that the connection can be used again
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		now := time.Now()
		t.until = now.Add(waitOf(r.Header.Get("Retry-After"), now))
	}
	if r.StatusCode/100 != 2 {
		return 0, fmt.Errorf("status %d", r.StatusCode)
	}
	return refusedOf(answer), nil
}

// waitOf reads a Retry-After: seconds, or a date.
func waitOf(header string, now time.Time) time.Duration {
	wait := retryAfter
	if seconds, err := strconv.ParseFloat(header, 64); err == nil && seconds > 0 {
		wait = time.Duration(min(seconds, retryMax.Seconds()) * float64(time.Second)) // more need not fit
	} else if date, err := http.ParseTime(header); err == nil && date.After(now) {
		wait = date.Sub(now)
	}
	return min(wait, retryMax)
}

// refusedOf is how many spans a collector refused that took a request: it says nothing where it took all.
func refusedOf(answer []byte) int64 {
	var said struct {
		PartialSuccess struct{ RejectedSpans json.Number } // a text, as all integers of 64 bits, or a number
	}
	_ = json.Unmarshal(answer, &said) // what cannot be read says nothing
	n, _ := said.PartialSuccess.RejectedSpans.Int64()
	return max(0, n)
}
