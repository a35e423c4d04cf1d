package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// skippedHeader marks, inside the node, a request whose body is not read; its
// value is the length the client announced, -1 for chunks. No client can send
// it: the name holds a byte that HTTP does not allow in one.
const skippedHeader = "\x01body-skipped"

// headerReceived decides from the headers alone whether the body is worth
// reading. One that is not is hidden from fasthttp, so that the handler runs at
// once: without waiting for it and without inviting it with a 100.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	length := h.ContentLength()
	if length == 0 || length == -2 || s.wantsBody(h, length) {
		spellExpect(h)
		return fasthttp.RequestConfig{}
	}
	h.SetContentLength(0)
	h.Del(fasthttp.HeaderExpect)
	h.Set(skippedHeader, strconv.Itoa(length))
	return fasthttp.RequestConfig{}
}

// spellExpect writes 100-continue as fasthttp knows it, which compares its
// bytes: case does not matter (RFC 9110, section 10.1.1), and a client that
// waits for the 100 would wait in vain.
func spellExpect(h *fasthttp.RequestHeader) {
	known := []byte("100-continue")
	if bytes.EqualFold(h.PeekCanonical([]byte(fasthttp.HeaderExpect)), known) {
		h.SetBytesV(fasthttp.HeaderExpect, known)
	}
}

// wantsBody runs the checks that the handler will run again and that fail
// without a body.
func (s *Server) wantsBody(h *fasthttp.RequestHeader, length int) bool {
	r := s.resourceOf(h)
	if !r.readsBody() || !r.allows(h.Method()) || s.Draining() || misframed(h) != nil || s.bodyRefusal(h, &r, length) != nil {
		return false
	}
	who, err := s.identify(h, &r, time.Now())
	return err == nil && !s.bodies.full(who.Account.ID, who.Account.Concurrency)
}

// bodyRefusal says what the headers of a body are refused for, whoever sends it.
func (s *Server) bodyRefusal(h *fasthttp.RequestHeader, r *resource, length int) *abi.Error {
	switch {
	case !r.takes(h.ContentType()):
		return &abi.Error{Kind: abi.UnsupportedEncoding, Msg: "content-type: want application/json"}
	case encodingOf(h) == encodingUnknown:
		return &abi.Error{Kind: abi.UnsupportedEncoding, Msg: "content-encoding: want identity, gzip or zstd"}
	case int64(length) > s.cfg.BodyMax:
		return tooLarge(s.cfg.BodyMax)
	}
	return nil
}

func tooLarge(limit int64) *abi.Error {
	return &abi.Error{Kind: abi.TooLarge, Op: "server.readBody", Msg: fmt.Sprintf("the body exceeds %d bytes", limit)}
}

// takes says whether a body of that type is read, as JSON.
func (r *resource) takes(contentType []byte) bool {
	return isJSON(contentType) || r.module != nil && r.module.Manifest.AnyType
}

// isJSON accepts what says nothing about its type: our only type is JSON.
func isJSON(contentType []byte) bool {
	media, _, _ := bytes.Cut(contentType, []byte{';'})
	media = bytes.TrimSpace(media)
	if len(media) == 0 || string(media) == "application/json" {
		return true
	}
	media = bytes.ToLower(media)
	return string(media) == "application/json" ||
		bytes.HasPrefix(media, []byte("application/")) && bytes.HasSuffix(media, []byte("+json"))
}

type encoding uint8

const (
	encodingIdentity encoding = iota
	encodingGzip
	encodingZstd
	encodingUnknown
)

// encodingOf reads Content-Encoding; lists of encodings are not accepted.
func encodingOf(h *fasthttp.RequestHeader) encoding {
	values := h.PeekAll(fasthttp.HeaderContentEncoding)
	if len(values) == 0 {
		return encodingIdentity
	}
	if len(values) > 1 {
		return encodingUnknown
	}
	switch string(bytes.ToLower(bytes.TrimSpace(values[0]))) {
	case "", "identity":
		return encodingIdentity
	case "gzip", "x-gzip":
		return encodingGzip
	case "zstd":
		return encodingZstd
	}
	return encodingUnknown
}

// body is one request body in memory. It counts in the intake, as its account's,
// from enter until release.
type body struct {
	bytes   []byte
	taken   int64
	from    *intake // nil before enter
	account string
}

// enter counts the body, before its first byte is read.
func (b *body) enter(from *intake, account string, concurrency int) *abi.Error {
	if err := from.enter(account, concurrency); err != nil {
		return err
	}
	b.from, b.account = from, account
	return nil
}

// take reserves n bytes more, if the intake has them.
func (b *body) take(n int64) bool {
	if !b.from.take(b.account, n) {
		return false
	}
	b.taken += n
	return true
}

func (b *body) give(n int64) {
	b.from.give(b.account, n)
	b.taken -= n
}

// preparing is how many times its bytes a body takes at most while a request is
// made of it: the body itself, its strings, the prompt, and its tokens. valueBytes
// is what each of its JSON values takes beside them, in a template or a schema.
const (
	preparing  = 4
	valueBytes = 128
)

// takePrepared reserves what is made of a text, with what the body has taken already:
// all there is at most, so that no body is too large to be the only one. Values
// over the bound are not made: a text with more of them is refused when it is read.
func (b *body) takePrepared(text []byte) *abi.Error {
	n := preparing*int64(len(text)) + valueBytes*int64(min(messages.Values(text), messages.ValuesMax))
	if more := min(n, b.from.max) - b.taken; more > 0 && !b.take(more) {
		return errBodies()
	}
	return nil
}

// takeMade reserves a text that a module made of the body, and what is made of that.
func (b *body) takeMade(text []byte) *abi.Error {
	if !b.take(int64(len(text))) {
		return errBodies()
	}
	return b.takePrepared(text)
}

// release gives everything back. It may be called more than once, and for a body
// that never entered.
func (b *body) release() {
	if b.from == nil {
		return
	}
	b.give(b.taken)
	b.from.leave(b.account)
	*b = body{}
}

// deferBody prepares for a body that nobody may read: unless readBody empties
// it, the connection ends with the answer, since what follows on it is not a
// request.
func (x *exchange) deferBody() {
	h := &x.ctx.Request.Header
	skipped := h.PeekCanonical([]byte(skippedHeader)) != nil
	x.wanted = !skipped && x.ctx.RequestBodyStream() != nil && h.ContentLength() != 0 && h.ContentLength() != -2
	x.unreadBody = skipped || x.wanted
}

// readBody reads and decodes the request body. Headers are checked first, so
// nothing of a body that cannot be accepted is read. The caller releases x.body,
// also after an error.
func (x *exchange) readBody() (*body, *abi.Error) {
	h := &x.ctx.Request.Header
	announced, skipped := h.ContentLength(), h.PeekCanonical([]byte(skippedHeader))
	if skipped != nil {
		announced, _ = strconv.Atoi(string(skipped)) // we wrote it
	}
	if err := x.s.bodyRefusal(h, &x.resource, announced); err != nil {
		return nil, err
	}
	account := x.who.Account
	if skipped != nil { // it is too late to read it now
		if x.module != nil && !x.s.bodies.full(account.ID, account.Concurrency) {
			return nil, errNoModule() // there was none when the headers came
		}
		return nil, errAccountBodies(account.Concurrency) // no other reason is left
	}
	if err := x.body.enter(&x.s.bodies, account.ID, account.Concurrency); err != nil {
		return nil, err
	}
	stream := x.ctx.RequestBodyStream()
	if stream == nil || !x.unreadBody {
		return &x.body, nil
	}
	if h.ContentLength() == -1 { // fasthttp puts what comes behind the chunks among the headers
		var sent fasthttp.RequestHeader
		h.CopyTo(&sent)
		defer sent.CopyTo(h)
	}
	in := &x.arrival
	*in = arrival{from: stream, conn: x.conn, s: x.s, begun: x.begun, length: int64(h.ContentLength())}
	x.conn.reading.Store(true)
	in.extend(in.begun)
	err := x.body.decode(in, encodingOf(h))
	x.conn.reading.Store(false)
	x.unreadBody = !in.ended
	in.from = nil // fasthttp uses it again
	x.arrived = time.Now()
	if err != nil {
		x.gone = isCut(in.err)
		if err.Kind == abi.ReadTimeout && x.s.aborted() {
			err = errDraining()
		}
		return nil, err
	}
	return &x.body, nil
}

// arrival is a body on its way in: it keeps the read deadline moving while
// bytes come, counts them, and knows whether the end was reached.
type arrival struct {
	from   io.Reader
	conn   *conn
	s      *Server
	begun  time.Time
	length int64 // announced, -1 for chunks
	n      int64
	mark   int64 // n when the deadline was last moved
	ended  bool
	err    error // the first error that is not the end
}

// isCut says that a body ended before its end: its client has left.
func isCut(arrival error) bool {
	return errors.Is(arrival, io.ErrUnexpectedEOF) || errors.Is(arrival, io.EOF) || errors.Is(arrival, syscall.ECONNRESET)
}

// progressStep is how many bytes must come within ReadTimeout.
const progressStep = 64 << 10

// Read returns errTooLong once more came than a body may have.
func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	a.n += int64(n)
	if a.n-a.mark >= progressStep {
		a.mark = a.n
		a.extend(time.Now())
	}
	switch {
	case a.n > a.s.cfg.BodyMax:
		err = errTooLong
	case err == io.EOF && a.length >= 0 && a.n < a.length:
		err = io.ErrUnexpectedEOF
	}
	if err == io.EOF {
		a.ended = true
	} else if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

// extend moves the read deadline, up to the end of the whole body's time. A
// drain sets one in the past; looking at it after setting ours means that
// whoever comes second, its stands.
func (a *arrival) extend(now time.Time) {
	deadline := now.Add(a.s.cfg.ReadTimeout)
	if last := a.begun.Add(a.s.cfg.BodyTimeout); deadline.After(last) {
		deadline = last
	}
	err := a.conn.SetReadDeadline(deadline)
	if a.s.aborted() {
		err = a.conn.SetReadDeadline(time.Unix(1, 0))
	}
	if err != nil && a.err == nil {
		a.err = err
	}
}

var (
	errTooLong  = errors.New("body over the limit")
	errNoBudget = errors.New("bodies over the node's budget")
)

// zstdWindowMax is the largest window of a zstd frame: what RFC 9659 allows and
// encoders use by default. It counts against the budget while decoding.
const zstdWindowMax = 8 << 20

var zstdPool = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("server: zstd options: " + err.Error())
	}
	return d
}}

var gzipPool = sync.Pool{New: func() any { return new(gzip.Reader) }}

// decode reads the whole body, decoded, within the limit and the budget.
func (b *body) decode(in *arrival, e encoding) *abi.Error {
	limit := in.s.cfg.BodyMax
	var err error
	switch e {
	case encodingGzip:
		err = b.readGzip(in, limit)
	case encodingZstd:
		err = b.readZstd(in, limit)
	default:
		err = b.readAll(in, limit, in.length)
	}
	if err == nil {
		return nil
	}
	return bodyError(err, in.err, limit)
}

func (b *body) readGzip(in *arrival, limit int64) error {
	z := gzipPool.Get().(*gzip.Reader)
	defer gzipPool.Put(z)
	if err := z.Reset(in); err != nil {
		return err
	}
	if err := b.readAll(z, limit, -1); err != nil {
		return err
	}
	return z.Close()
}

func (b *body) readZstd(in *arrival, limit int64) error {
	if !b.take(zstdWindowMax) {
		return errNoBudget
	}
	defer b.give(zstdWindowMax)
	z := zstdPool.Get().(*zstd.Decoder)
	defer zstdPool.Put(z)
	defer z.Reset(nil)
	if err := z.Reset(in); err != nil {
		return err
	}
	return b.readAll(z, limit, -1)
}

// readAll reads r to its end, which is at the latest where announced says. Memory
// grows with what has come, never with what was announced; it starts with the
// announced size when that is small, and ends with it, a byte for the end included.
func (b *body) readAll(r io.Reader, limit, announced int64) error {
	size := min(announced+1, progressStep)
	if announced < 0 {
		announced, size = limit, 4<<10
	}
	if !b.grow(size) {
		return errNoBudget
	}
	for {
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > limit:
			return errTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(b.bytes) == cap(b.bytes):
			if size = min(2*size, announced+1); !b.grow(size) {
				return errNoBudget
			}
		}
	}
}

// grow moves the body to memory for size bytes, if the intake has them beside
// those that it moves from.
func (b *body) grow(size int64) bool {
	if !b.take(size) {
		return false
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.give(int64(cap(b.bytes)))
	b.bytes = larger
	return true
}

// bodyError says what went wrong: with its arrival, which outranks, or its decoding.
func bodyError(err, arrival error, limit int64) *abi.Error {
	if arrival != nil {
		err = arrival
	}
	switch {
	case errors.Is(err, errTooLong):
		return tooLarge(limit)
	case errors.Is(err, errNoBudget):
		return errBodies()
	case isTimeout(err):
		return &abi.Error{Kind: abi.ReadTimeout, Op: "server.readBody", Msg: "the body did not arrive in time"}
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &abi.Error{Kind: abi.TooLarge, Op: "server.readBody", Msg: fmt.Sprintf("the zstd window exceeds %d bytes", zstdWindowMax)}
	case arrival != nil:
		return &abi.Error{Kind: abi.InvalidRequest, Op: "server.readBody", Msg: "the body is cut short or its framing is broken", Err: err}
	}
	return &abi.Error{Kind: abi.InvalidRequest, Op: "server.readBody",
		Msg: "the body cannot be decoded as its content-encoding says", Err: err}
}
