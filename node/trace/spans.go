package trace

import (
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"time"
)

// The kinds of a span.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// Flags of a span: whether its trace is kept, and whether its parent is another process's.
const (
	flagSampled       = 0x001
	flagKnowsParent   = 0x100
	flagParentIsOther = 0x200
)

// span is one span, ready to be encoded.
type span struct {
	trace        [16]byte
	id, parent   [8]byte
	state        string
	flags        uint32
	name         string
	kind         int
	began, ended time.Time
	attributes   []attribute
	event        string // with its time, at most one
	eventAt      time.Time
	failed       bool
}

// attribute is a name and one value: a text, a list of one text, or a number.
type attribute struct {
	key    string
	text   string
	list   bool
	number int64
	float  float64
	kind   valueKind
}

type valueKind uint8

const (
	textValue valueKind = iota
	intValue
	floatValue
	boolValue
)

func text(key, value string) attribute { return attribute{key: key, text: value} }
func number(key string, value int64) attribute {
	return attribute{key: key, number: value, kind: intValue}
}
func seconds(key string, d time.Duration) attribute {
	return attribute{key: key, float: d.Seconds(), kind: floatValue}
}
func truth(key string, value bool) attribute {
	a := attribute{key: key, kind: boolValue}
	if value {
		a.number = 1
	}
	return a
}

// attributesOf collects attributes whose values say something.
type attributesOf []attribute

func (all *attributesOf) text(key, value string) {
	if value != "" {
		*all = append(*all, text(key, value))
	}
}

func (all *attributesOf) number(key string, value int64) {
	if value != 0 {
		*all = append(*all, number(key, value))
	}
}

// The phases that calls of modules are a part of.
const (
	inPrepare = iota
	inAdmission
	inSettle
	inRequest
)

// CallIn says which phase a call of a module was a part of.
func (r *Record) CallIn(c Call) {
	switch {
	case !r.SettleBegan.IsZero() && !c.Began.Before(r.SettleBegan):
		c.phase = inSettle
	case r.Prepared.IsZero() || c.Began.Before(r.Prepared):
		c.phase = inPrepare
	case !r.Admitted || !c.Began.After(r.Prepared.Add(r.Admission)):
		c.phase = inAdmission
	default:
		c.phase = inRequest
	}
	r.Calls = append(r.Calls, c)
}

// newSpan makes an id that is not zero.
func newSpan() (id [8]byte) {
	for id == [8]byte{} {
		putID(id[:], rand.Uint64())
	}
	return id
}

func putID(dst []byte, n uint64) {
	for i := range 8 {
		dst[i] = byte(n >> (8 * i))
	}
}

// builder makes the spans of one record.
type builder struct {
	r     *Record
	spans []span
	phase [inRequest + 1][8]byte // the spans of phases with calls
}

// spansOf appends the spans of a request: its own first.
func spansOf(dst []span, r *Record, at place) []span {
	b := builder{r: r, spans: dst}
	b.phase[inRequest] = r.Span
	b.root(at)
	b.phases()
	for i := range r.Attempts {
		b.attempt(&r.Attempts[i], i)
	}
	for _, c := range r.Calls {
		one := b.child(b.phase[c.phase], "module "+c.Name, c.Began, c.Began.Add(c.Took))
		if one != nil && c.Digest != "" {
			one.attributes = []attribute{text(ourModule, c.Digest)}
		}
	}
	return b.spans
}

// place is where the node answers.
type place struct {
	address string
	port    int64
}

func (b *builder) root(at place) {
	r := b.r
	flags := uint32(flagSampled)
	if r.Parent != [8]byte{} {
		flags |= flagKnowsParent | flagParentIsOther
	}
	all := make(attributesOf, 0, 28)
	all.text(httpMethod, r.Method)
	all.text(httpRoute, r.Route)
	all.number(httpStatus, int64(r.Status))
	all.text(serverAddress, at.address)
	all.number(serverPort, at.port)
	all.text(ourRequest, r.RequestID)
	all.text(ourAccount, r.AccountID)
	all.text(ourKey, r.KeyID)
	all.text(ourKept, r.Kept)
	all.text(errorType, r.Failure)
	if r.MaxTokens > 0 { // it asked for an answer, and could be prepared
		all = append(all, text(operationName, operationChat), truth(requestStream, r.Stream))
	}
	if r.Model != "" {
		all.text(providerName, provider)
		all.text(requestModel, r.Asked)
		all.text(responseModel, r.Model)
		all.number(requestMaxTokens, int64(r.MaxTokens))
	}
	if !r.Done.IsZero() {
		all = append(all, number(inputTokens, r.Usage.Input), number(outputTokens, r.Usage.Output),
			number(cacheReadTokens, r.Usage.CacheRead), number(ourCharge, r.ChargeNano))
		all.number(cacheCreateTokens, r.Usage.CacheWrite)
		all.number(reasoningTokens, r.Usage.Reasoning)
		all.text(conversationID, hex.EncodeToString(r.Conversation[:]))
	}
	if r.Finish != "" {
		all = append(all, attribute{key: finishReasons, text: r.Finish, list: true})
	}
	if r.TTFT > 0 {
		all = append(all, seconds(ourTTFT, r.TTFT))
	}
	b.spans = append(b.spans, span{trace: r.Trace, id: r.Span, parent: r.Parent, state: r.State, flags: flags,
		name: r.Method + " " + r.Route, kind: kindServer, began: r.Began, ended: r.Ended, attributes: all, failed: r.Ours})
}

// child appends a span within the request's; nil where it has no length.
func (b *builder) child(parent [8]byte, name string, began, ended time.Time) *span {
	if began.Before(b.r.Began) {
		began = b.r.Began
	}
	if ended.After(b.r.Ended) {
		ended = b.r.Ended
	}
	if !ended.After(began) {
		return nil
	}
	b.spans = append(b.spans, span{trace: b.r.Trace, id: newSpan(), parent: parent, flags: flagSampled | flagKnowsParent,
		name: name, kind: kindInternal, began: began, ended: ended})
	return &b.spans[len(b.spans)-1]
}

// named is child of the request itself, with the id of the span; the request's own where there is none.
func (b *builder) named(name string, began, ended time.Time) [8]byte {
	if one := b.child(b.r.Span, name, began, ended); one != nil {
		return one.id
	}
	return b.r.Span
}

func (b *builder) phases() {
	r := b.r
	b.named("receive", r.Began, r.Arrived)
	b.phase[inPrepare], b.phase[inAdmission], b.phase[inSettle] = r.Span, r.Span, r.Span
	if r.Prepared.IsZero() {
		b.phase[inPrepare] = b.named("prepare", r.Arrived, r.Ended)
		return
	}
	b.phase[inPrepare] = b.named("prepare", r.Arrived, r.Prepared)
	if !r.Admitted { // it was refused there
		b.phase[inAdmission] = b.named("admission", r.Prepared, r.Ended)
		return
	}
	at := r.Prepared.Add(r.Admission)
	b.phase[inAdmission] = b.named("admission", r.Prepared, at)
	b.named("hold", at, at.Add(r.Hold))
	at = r.Done.Add(-r.Queue - r.Prefill - r.Decode)
	next := func(name string, took time.Duration) *span {
		one := b.child(r.Span, name, at, at.Add(took))
		at = at.Add(took)
		return one
	}
	next("queue", r.Queue)
	next("prefill", r.Prefill)
	first := at
	if one := next("decode", r.Decode); one != nil {
		one.event, one.eventAt = firstToken, first
	}
	b.phase[inSettle] = b.named("settle", r.SettleBegan, r.SettleEnded)
}

// attempt appends the span of a try, whose id the server was told.
func (b *builder) attempt(a *Attempt, n int) {
	one := b.child(b.r.Span, upstreamSpan+" "+strconv.Itoa(n+1), a.Began, a.Ended)
	if one == nil {
		return
	}
	all := attributesOf{text(urlFull, a.URL), text(requestModel, b.r.Model)}
	all.number(resendCount, int64(n))
	all.text(ourUpID, a.RequestID)
	all.text(errorType, a.Failure)
	one.id, one.kind, one.attributes, one.failed = a.Span, kindClient, all, a.Failure != ""
}
