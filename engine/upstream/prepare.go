package upstream

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// sent is what a request takes along to its relay: engine.Request.Remote.
type sent struct {
	body     []byte
	prefixes []uint64
	places   []int // where each ends, in bytes; only their shares mean something
	stops    []string
	calls    *callChecker // nil without tools
	forward  [][2]string  // headers of the client's that go along
	counted  int          // prompt tokens, by our own count
	exact    bool         // counted with the model's tokenizer
	quiet    bool         // no thinking is wanted, and the servers cannot be told
	single   bool         // one call at most is wanted
}

// SentRemotely implements engine.Remote.
func (*sent) SentRemotely() {}

// Prepare checks a parsed body against the model, counts its tokens and makes the body that
// goes out. Errors are *abi.Error. It is safe for concurrent use, and asks a replica when
// the model has no tokenizer.
func (m *Model) Prepare(account string, q *messages.Request) (*engine.Request, error) {
	more := m.moreSampling()
	if lost := wire.Lost(m.options.Flavor, more, q); lost != "" {
		return nil, errLost(lost)
	}
	if err := m.mayUse(account, false); err != nil {
		return nil, err
	}
	if !m.anyReady() {
		return nil, m.noneUp()
	}
	if err := m.beginCount(); err != nil {
		return nil, err
	}
	defer m.endCount()
	q = wire.Told(m.options.Flavor, q)
	checker := newCallChecker(q)
	if !m.traits.Messages {
		m.tellLost(q)
		if len(q.Tools) > 0 {
			q = withShownTools(q)
		}
	}
	counted, err := m.count(q)
	if err != nil {
		return nil, err
	}
	most, err := engine.OutputMax(m.options.Info, counted, q.MaxTokens, q.RoomTokens)
	if err != nil {
		return nil, err
	}
	s := &sent{stops: q.StopSequences, calls: checker, forward: q.Forward, counted: counted, exact: m.options.Counter != nil,
		quiet: !q.Thinking && !m.options.Flavor.TellsThinking(), single: q.SingleCall()}
	s.prefixes, s.places = prefixHashes(account, q)
	if s.body, err = m.body(account, q, most, more); err != nil {
		return nil, err
	}
	return &engine.Request{Model: m.options.ID, Stream: q.Stream, Counted: counted, MaxTokens: most,
		Conversation: engine.Conversation(q), Remote: s}, nil
}

// errLost refuses a request that would get another answer than it asks for.
func errLost(field string) *abi.Error {
	return &abi.Error{Kind: abi.InvalidRequest, Op: "upstream.Prepare", Param: field, Detail: abi.Detail{Reason: abi.ReasonField},
		Msg: "the servers that answer this model cannot be told it; leave it out"}
}

// tellLost tells the log, once, that how much to think is left out of requests.
func (m *Model) tellLost(q *messages.Request) {
	if q.Effort != "" && q.Thinking && !m.options.Flavor.TellsThinking() {
		m.tellOnce(slog.LevelInfo, "output_config.effort", "a field of requests is left out: the model's servers cannot be told it")
	}
}

// tellOnce tells the log of a field of requests, once.
func (m *Model) tellOnce(level slog.Level, field, what string) {
	if _, told := m.told.LoadOrStore(field, true); !told {
		m.options.Log.Log(m.ctx, level, what, "model", m.options.ID, "flavor", string(m.options.Flavor), "field", field)
	}
}

// withShownTools is a request whose tools' schemas are what models see: servers that write
// them into the prompt do so as they come.
func withShownTools(q *messages.Request) *messages.Request {
	shown := *q
	shown.Tools = slices.Clone(q.Tools)
	for i := range shown.Tools {
		shown.Tools[i].Schema = engine.Shown(shown.Tools[i].Schema)
	}
	return &shown
}

// Asks says whether replicas are asked for the tokens of each request: Prepare and Count wait for them.
func (m *Model) Asks() bool { return m.options.Counter == nil }

// countsMin is how many requests of a model may be counted at once, however few a replica computes.
const countsMin = 64

// beginCount takes a place among the requests of the model that replicas are asked to count, until endCount: as many as
// one replica computes at once, so that those which begin together find one, and the others are refused where nobody answers.
func (m *Model) beginCount() *abi.Error {
	if !m.Asks() {
		return nil
	}
	select {
	case m.counting <- struct{}{}:
		return nil
	default:
		return &abi.Error{Kind: abi.Overloaded, Op: "upstream.Count", RetryAfter: time.Second,
			Msg: "too many requests wait for the model's servers to count their tokens; try again"}
	}
}

func (m *Model) endCount() {
	if m.Asks() {
		<-m.counting
	}
}

// Count returns the number of prompt tokens of a body.
func (m *Model) Count(q *messages.Request) (int, error) {
	if err := m.beginCount(); err != nil {
		return 0, err
	}
	defer m.endCount()
	return m.count(q)
}

func (m *Model) count(q *messages.Request) (int, error) {
	if q.Raw {
		return 0, &abi.Error{Kind: abi.InvalidRequest, Op: "upstream.Count", Param: "model",
			Msg: "this model is answered by servers that take messages only, no raw text"}
	}
	if m.options.Counter != nil {
		return m.options.Counter.Count(wire.Told(m.options.Flavor, q))
	}
	replicas := m.urls()
	if len(replicas) == 0 {
		return 0, m.noneUp()
	}
	body, err := wire.Splice(q.Body, m.counted(q))
	if err != nil {
		return 0, abi.AsError(err)
	}
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	if q.Context != nil {
		defer context.AfterFunc(q.Context, cancel)()
	}
	var last error
	for _, r := range replicas[:min(3, len(replicas))] {
		n, err := m.countWithin(ctx, r, body, q.Forward)
		if _, refused := errors.AsType[*abi.Error](err); err == nil || refused {
			return n, err
		}
		if last = err; ctx.Err() != nil { // nobody waits for it
			break
		}
	}
	return 0, &abi.Error{Kind: abi.Overloaded, Op: "upstream.Count", RetryAfter: time.Second,
		Msg: "the model's servers do not count tokens now; try again", Err: last}
}

// countWithin asks one replica in time. One that lets it pass is taken out like one that lets an answer's pass.
func (m *Model) countWithin(ctx context.Context, r *replica, body []byte, forward [][2]string) (int, error) {
	end := time.Now().Add(m.options.CountTimeout)
	timed, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	n, err := m.countAt(timed, r, body, forward)
	if err != nil && ctx.Err() == nil && !time.Now().Before(end) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.replicas[r.base] == r {
			m.failed(r, &outcome{err: fmt.Errorf("count: %w", err), reason: ReasonStall})
		}
	}
	return n, err
}

// countAt asks one replica for the tokens of a body, with the client's headers that go along.
func (m *Model) countAt(ctx context.Context, r *replica, body []byte, forward [][2]string) (int, error) {
	status, page, err := r.post(ctx, &question{http.MethodPost, m.traits.Count, m.forwarded(m.header(r, ""), forward), body})
	if err != nil {
		return 0, m.keyless(err)
	}
	var answer struct {
		InputTokens *int `json:"input_tokens"`
	}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return 0, refused("upstream.Count", m.errorOf(page), nil)
	}
	if status != http.StatusOK {
		return 0, fmt.Errorf("%s%s: status %d: %.200s", r.base, m.traits.Count, status, m.withoutKey(string(page)))
	}
	if err := json.Unmarshal(page, &answer); err != nil || answer.InputTokens == nil || *answer.InputTokens < 0 {
		return 0, fmt.Errorf("%s%s: no input_tokens in %.200q", r.base, m.traits.Count, m.withoutKey(string(page)))
	}
	return *answer.InputTokens, nil
}

// header is what every request to a replica has. A count is of no account.
func (m *Model) header(r *replica, account string) []field {
	h := append(make([]field, 0, 12), field{"Content-Type", "application/json"}, field{"User-Agent", "corenode"},
		field{"Accept-Encoding", "identity"})
	if m.traits.Partition { // a count is forwarded once and limited here, too
		partition := account
		if m.options.Own == "" {
			partition = m.secretName("cache", account)
		}
		h = append(h, field{wire.HopHeader, "1"}, field{wire.PartitionHeader, partition})
	}
	if key := m.keyOf(r); key != "" {
		h = append(h, field{"Authorization", "Bearer " + key})
	}
	return h
}

// messagesVersion is the version of the messages protocol of what no client named one for: the node's own
// questions, and what came by another protocol. Some servers refuse what names none.
const messagesVersion = "2023-06-01"

// forwarded appends the client's headers that go along to h, and for servers of the messages protocol
// a version under the name that they demand, where none of them has it: the client's, if it names one as SDKs do.
func (m *Model) forwarded(h []field, forward [][2]string) []field {
	named, version := !m.traits.Messages, messagesVersion
	for _, f := range forward {
		switch f[0] {
		case "Anthropic-Version":
			named = true
		case "Protocol-Version":
			version = f[1]
		}
		h = append(h, field{f[0], f[1]})
	}
	if !named {
		h = append(h, field{"Anthropic-Version", version})
	}
	return h
}

// body makes what goes out. more is of moreSampling.
func (m *Model) body(account string, q *messages.Request, maxTokens int, more []string) ([]byte, error) {
	if !m.traits.Messages {
		o := wire.ChatOptions{Model: m.options.Model, MaxTokens: maxTokens, CacheSalt: m.secretName("cache", account), Sampling: more}
		return wire.Chat(m.options.Flavor, q, o), nil
	}
	s := m.splices(q)
	s.MaxTokens, s.Without = maxTokens, wire.Without(m.options.Flavor, more, q)
	body, err := wire.Splice(q.Body, s)
	if err != nil {
		return nil, abi.AsError(err)
	}
	return body, nil
}

// splices are what a client's body is changed by for a replica, whether it is to answer or to count.
func (m *Model) splices(q *messages.Request) wire.Splices {
	s := wire.Splices{Model: m.options.Model, ToolSkipped: messages.ServerTool, ChoiceAuto: q.ToolChoice.Mode == "auto",
		Signature: theirSignature}
	if !m.traits.Extended {
		s.Plain, s.BlockSkipped = true, messages.ServerBlock
	}
	return s
}

// counted are what a client's body is changed by for a count, so that the tools in it are those that are sent.
func (m *Model) counted(q *messages.Request) wire.Splices {
	s := m.splices(q)
	s.Count, s.Without = true, wire.Without(m.options.Flavor, nil, q)
	if m.traits.Messages {
		return s
	}
	s.Schema = engine.Shown
	if told := wire.Told(m.options.Flavor, q); m.traits.AnyTool && len(told.Tools) == 1 {
		s.Tool = told.Tools[0].Name
	}
	return s
}

// secretName is what a replica is told instead of an account or a session: nobody there can
// tell whose it is, and it is the same each time.
func (m *Model) secretName(kind, name string) string {
	h := hmac.New(sha256.New, m.options.Secret)
	fmt.Fprintf(h, "upstream\x00%s\x00%s\x00%s", kind, m.options.ID, name)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// signatureMark stands between our signature of a thinking block and the replica's own,
// which travels inside ours and is put back when the block comes again.
const signatureMark = "~"

// theirSignature is the replica's part of a signature; empty where there is none.
func theirSignature(ours string) string {
	_, theirs, found := strings.Cut(ours, signatureMark)
	if !found {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(theirs)
	if err != nil {
		return ""
	}
	return string(text)
}

// noneUp is the refusal of a model without a replica that answers.
func (m *Model) noneUp() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "upstream", RetryAfter: 2 * time.Second,
		Msg: "no server of the model answers; try again"}
}

// chunkBytes is the part of a prompt that one prefix hash covers, as routers for the same
// servers have it; prefixesPerRequest bounds how many a request has.
const (
	chunkBytes         = 512
	openingBytesMin    = 128 // a shorter opening, most of all none, is no reason to go where others went
	prefixesPerRequest = 256
)

// prefixHashes are the hashes of ever longer beginnings of a conversation. They are chained
// over the account, since accounts never share a cached prefix, and cut at the end of each
// message: that is where conversations part. places say where each ends. Prompts that begin alike
// at the server must do so here, else who leaves in prefill comes again with another spelling and
// finds it cheap. So neither the white space around texts counts, which templates trim, nor that in JSON,
// nor ids of calls, nor how a turn is cut up. That makes some prompts alike that are not, which is no more than
// a wrong guess about one account; what makes one of them cost less is told apart: thinking, which templates leave out.
func prefixHashes(account string, q *messages.Request) (hashes []uint64, places []int) {
	h := prefixHasher{sum: sha256.Sum256([]byte(account))}
	system, rest := messages.Opening(q)
	h.write(system)
	for _, t := range q.Tools {
		h.write(t.Name)
		h.write(t.Description)
		h.writeJSON(t.Schema)
	}
	if len(h.hashes) > 0 || len(h.open) >= openingBytesMin {
		h.cut()
	}
	for _, msg := range messages.MergeTurns(rest) {
		h.write(msg.Role)
		for _, b := range msg.Blocks {
			switch b.Type {
			case messages.Thinking:
				h.add(thoughtMark)
				h.write(b.Text)
				h.add(thoughtMark)
			case messages.ToolUse:
				h.write(b.Name)
				h.writeJSON(b.Input)
			case messages.ToolResult:
				h.write(b.Text)
			}
		}
		h.write(messages.Texts(msg.Blocks))
		h.cut()
	}
	if n := len(h.hashes); n > prefixesPerRequest { // the longest count most, and the first few are what is shared
		first := prefixesPerRequest / 8
		h.hashes = append(h.hashes[:first:first], h.hashes[n-prefixesPerRequest+first:]...)
		h.places = append(h.places[:first:first], h.places[n-prefixesPerRequest+first:]...)
	}
	return h.hashes, h.places
}

// thoughtMark stands at both ends of thinking. No text has it: it is not UTF-8.
const thoughtMark = "\xff"

type prefixHasher struct {
	sum    [sha256.Size]byte
	open   []byte // behind the last cut
	hashes []uint64
	places []int
	all    int // bytes before the last cut
}

// write adds a text. Nothing says how long it is: what begins with it begins alike.
func (h *prefixHasher) write(text string) { h.add(strings.TrimSpace(text)) }

// writeJSON adds a value, which templates write anew, without white space.
func (h *prefixHasher) writeJSON(v json.RawMessage) {
	for word := range bytes.FieldsSeq(v) {
		h.add(string(word))
	}
}

func (h *prefixHasher) add(s string) {
	for len(s) > 0 {
		n := min(len(s), chunkBytes-len(h.open))
		h.open = append(h.open, s[:n]...)
		if s = s[n:]; len(h.open) == chunkBytes {
			h.cut()
		}
	}
}

// cut ends a beginning.
func (h *prefixHasher) cut() {
	if len(h.open) == 0 {
		return
	}
	h.sum = sha256.Sum256(append(h.sum[:], h.open...))
	h.all += len(h.open)
	h.places = append(h.places, h.all)
	h.open = h.open[:0]
	h.hashes = append(h.hashes, binary.LittleEndian.Uint64(h.sum[:]))
}

// key is what the replica is chosen by: the prompt's beginnings, and behind them the session.
func (s *sent) key(session string) route.Key {
	k := route.Key{Conversation: route.Hash(session), Prefixes: make([]uint64, 0, len(s.prefixes)+1)}
	k.Prefixes = append(append(k.Prefixes, s.prefixes...), k.Conversation)
	return k
}
