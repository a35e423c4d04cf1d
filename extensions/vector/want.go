package vector

import (
	"errors"
	"fmt"
	"strconv"

	"corenode/wasm/abi"
)

// want is what must come back: exactly one of its kinds.
type want struct {
	Body     *content      `json:"body,omitempty"`
	Kept     *content      `json:"kept,omitempty"` // compared only when written
	Stream   *lines        `json:"stream,omitempty"`
	Refusal  *refusal      `json:"refusal,omitempty"`
	Quote    *quoteWant    `json:"quote,omitempty"`
	Charge   *chargeWant   `json:"charge,omitempty"`
	Decision *decisionWant `json:"decision,omitempty"`
	Text     *string       `json:"text,omitempty"`
	Decline  bool          `json:"decline,omitempty"`
}

type refusal struct {
	Kind  string  `json:"kind,omitempty"` // compared only when written
	Param string  `json:"param,omitempty"`
	Msg   *string `json:"msg,omitempty"` // compared only when written
}

type quoteWant struct {
	Upper          int64      `json:"upper"`
	Minimum        int64      `json:"minimum"`
	CoveredUpper   int64      `json:"covered_upper,omitempty"`
	CoveredMinimum int64      `json:"covered_minimum,omitempty"`
	Takes          []takeWant `json:"takes,omitempty"`
}

type takeWant struct {
	Limit int64 `json:"limit"`
	Max   int64 `json:"max"`
}

type chargeWant struct {
	Total int64      `json:"total"`
	Tier  int        `json:"tier"`
	Lines []lineWant `json:"lines"`
	Taken []int64    `json:"taken,omitempty"`
}

type lineWant struct {
	Unit   string `json:"unit"`
	Tokens int64  `json:"tokens"`
	Price  int64  `json:"price"`
	Amount int64  `json:"amount"`
}

type decisionWant struct {
	Verdict      string `json:"verdict"`
	Priority     int8   `json:"priority,omitempty"`
	Kind         string `json:"kind,omitempty"`
	RetryAfterMS uint32 `json:"retry_after_ms,omitempty"`
	Msg          string `json:"msg,omitempty"`

	Takes []takeWant `json:"takes,omitempty"`
}

var verdicts = [...]string{abi.Allow: "allow", abi.Deny: "deny", abi.Queue: "queue", abi.Reserve: "reserve"}

// result is the name of what an op gives when all is well.
func result(op string, stream bool) string {
	switch {
	case op == "quote" || op == "charge":
		return op
	case op == "decide":
		return "decision"
	case op == "filter":
		return "text"
	case op == "stream" || op == "error" && stream:
		return "stream"
	}
	return "body"
}

// check tells whether w can be what op gives.
func (w *want) check(op string, stream bool) error {
	given := map[string]bool{
		"body": w.Body != nil, "stream": w.Stream != nil, "refusal": w.Refusal != nil, "quote": w.Quote != nil,
		"charge": w.Charge != nil, "decision": w.Decision != nil, "text": w.Text != nil, "decline": w.Decline,
	}
	count := 0
	for name, is := range given {
		if !is {
			continue
		}
		count++
		if name != result(op, stream) && name != "decline" && (name != "refusal" || op != "request" && op != "models" && op != "rewrite") {
			return fmt.Errorf("op %s gives no %q", op, name)
		}
	}
	switch {
	case count != 1:
		return fmt.Errorf("it has %d results, want exactly one, such as %q", count, result(op, stream))
	case w.Kept != nil && (w.Body == nil || op != "request"):
		return errors.New(`only a translated request has something "kept"`)
	case w.Charge != nil && len(w.Charge.Lines) > abi.LinesMax:
		return fmt.Errorf("%d lines, at most %d", len(w.Charge.Lines), abi.LinesMax)
	case w.Decision != nil:
		return w.Decision.check()
	case w.Refusal != nil && w.Refusal.Kind != "":
		kind, err := kindNamed(w.Refusal.Kind)
		if err == nil && !mayRefuse(op, kind) {
			err = fmt.Errorf("op %s refuses with no kind %q", op, w.Refusal.Kind)
		}
		return err
	}
	return nil
}

// mayRefuse says whether a module may refuse in an op with that kind.
func mayRefuse(op string, kind abi.Kind) bool {
	return kind == abi.InvalidRequest || op == "models" && kind == abi.ModelNotFound
}

func (d *decisionWant) check() error {
	known := false
	for _, name := range verdicts {
		known = known || name == d.Verdict
	}
	if !known {
		return fmt.Errorf("verdict %q is none of allow, deny, queue, reserve", d.Verdict)
	}
	if d.Kind == "" {
		return nil
	}
	_, err := kindNamed(d.Kind)
	return err
}

// part is one named piece of a result, as text to compare.
type part struct {
	name string
	text []byte
}

// parts lists what is compared. A got that lacks what a want leaves open is
// made by like.
func (w *want) parts() []part {
	switch {
	case w.Decline:
		return []part{{"decline", nil}}
	case w.Refusal != nil:
		all := []part{{"refusal.param", []byte(w.Refusal.Param)}}
		if w.Refusal.Kind != "" {
			all = append(all, part{"refusal.kind", []byte(w.Refusal.Kind)})
		}
		if w.Refusal.Msg != nil {
			all = append(all, part{"refusal.msg", []byte(*w.Refusal.Msg)})
		}
		return all
	case w.Stream != nil:
		return []part{{"stream", *w.Stream}}
	case w.Quote != nil:
		return w.Quote.parts()
	case w.Charge != nil:
		return w.Charge.parts()
	case w.Decision != nil:
		d := w.Decision
		all := []part{{"decision.verdict", []byte(d.Verdict)}, number("decision.priority", int64(d.Priority)),
			{"decision.kind", []byte(d.Kind)}, number("decision.retry_after_ms", int64(d.RetryAfterMS)), {"decision.msg", []byte(d.Msg)}}
		return appendTakes(all, "decision", d.Takes)
	case w.Text != nil:
		return []part{{"text", []byte(*w.Text)}}
	case w.Body != nil:
		all := []part{{"body", *w.Body}}
		if w.Kept != nil {
			all = append(all, part{"kept", *w.Kept})
		}
		return all
	}
	return nil
}

func (q *quoteWant) parts() []part {
	all := []part{number("quote.upper", q.Upper), number("quote.minimum", q.Minimum), number("quote.covered_upper", q.CoveredUpper),
		number("quote.covered_minimum", q.CoveredMinimum)}
	return appendTakes(all, "quote", q.Takes)
}

func appendTakes(all []part, of string, takes []takeWant) []part {
	all = append(all, number(of+".takes: count", int64(len(takes))))
	for i, t := range takes {
		at := of + ".takes." + strconv.Itoa(i)
		all = append(all, number(at+".limit", t.Limit), number(at+".max", t.Max))
	}
	return all
}

func (c *chargeWant) parts() []part {
	all := []part{number("charge.total", c.Total), number("charge.tier", int64(c.Tier)), number("charge.lines: count", int64(len(c.Lines)))}
	for i, l := range c.Lines {
		at := "charge.lines." + strconv.Itoa(i)
		all = append(all, part{at + ".unit", []byte(l.Unit)}, number(at+".tokens", l.Tokens), number(at+".price", l.Price),
			number(at+".amount", l.Amount))
	}
	for i, n := range c.Taken {
		all = append(all, number("charge.taken."+strconv.Itoa(i), n))
	}
	return all
}

func number(name string, n int64) part { return part{name, strconv.AppendInt(nil, n, 10)} }

// like drops from w what other leaves open.
func (w *want) like(other *want) *want {
	cut := *w
	if other.Kept == nil {
		cut.Kept = nil
	}
	if other.Refusal != nil && w.Refusal != nil {
		open := *w.Refusal
		if other.Refusal.Msg == nil {
			open.Msg = nil
		}
		if other.Refusal.Kind == "" {
			open.Kind = ""
		}
		cut.Refusal = &open
	}
	return &cut
}
