package capture

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// firstMax is how many of the requests that differ are shown, the first ones.
const firstMax = 5

// Report is how two builds answer what was captured. Its texts are of the requests that
// were captured, and of no others.
type Report struct {
	Slot     string `json:"slot"`
	Old      string `json:"old"` // name@version, and where both have the same the digest, abbreviated
	New      string `json:"new"`
	Requests int    `json:"requests"` // that ran on both
	Left     int    `json:"left" doc:"Requests for which there was no time."`
	Differ   int    `json:"differ"`
	Failed   int    `json:"failed" doc:"Requests on which only the new build faulted."`

	Operations []Operation `json:"operations"`
	// OldNanoUSD and NewNanoUSD are sums over the charges that both made, whether or not a node would take
	// them. These and those of tokens stop at the ends of an int64.
	Charges    int      `json:"charges"`
	OldNanoUSD abi.Nano `json:"old_nano_usd"`
	NewNanoUSD abi.Nano `json:"new_nano_usd"`
	// OldTokens and NewTokens are those of the charges' lines, or of a translator's prompts.
	OldTokens int64        `json:"old_tokens" doc:"Of the charges' lines, or of a translator's prompts."`
	NewTokens int64        `json:"new_tokens"`
	First     []Difference `json:"first"`
}

// Operation counts the answers of one operation; a stream is one.
type Operation struct {
	Op       string `json:"op"`
	Answers  int    `json:"answers"`
	Differ   int    `json:"differ"`
	OldTicks int64  `json:"old_ticks"`
	NewTicks int64  `json:"new_ticks"`
}

// Difference is the first thing that differs of one request.
type Difference struct {
	Request string `json:"request"`
	Account string `json:"account"`
	Op      string `json:"op"`
	Text    string `json:"text" doc:"The first difference, in several lines, with what stands around it: of the client's texts."`
}

// Count tells the tokens of a body in the messages protocol; not ok when it is refused.
type Count func(native []byte) (tokens int, ok bool)

// Compare adds requests up, one at a time. It belongs to one goroutine.
type Compare struct {
	report Report
	ops    map[abi.Op]*Operation
	old    Side
	new    Side
	count  Count // nil: prompts are not counted
}

// NewCompare begins a comparison.
func NewCompare(older, newer Side, count Count) *Compare {
	return &Compare{ops: map[abi.Op]*Operation{}, old: older, new: newer, count: count, report: Report{First: []Difference{}}}
}

// Add runs a request on both sides.
func (c *Compare) Add(r *Request) {
	older, newer := r.run(c.old), r.run(c.new)
	c.report.Requests++
	if newer.fault != "" && older.fault == "" {
		c.report.Failed++
	}
	first := Difference{}
	for i := range max(len(older.answers), len(newer.answers)) {
		var a, b *answer
		if i < len(older.answers) {
			a = &older.answers[i]
		}
		if i < len(newer.answers) {
			b = &newer.answers[i]
		}
		if d := c.pair(a, b); d.Text != "" && first.Text == "" {
			first = d
		}
	}
	if older.fault != newer.fault {
		first.Text = "the old build " + orFine(older.fault) + "\nthe new build " + orFine(newer.fault)
	}
	if first.Text == "" {
		return
	}
	c.report.Differ++
	if len(c.report.First) < firstMax {
		first.Request, first.Account = r.ID, r.Account
		c.report.First = append(c.report.First, first)
	}
}

func orFine(fault string) string {
	if fault == "" {
		return "answers"
	}
	return "faults: " + fault
}

// pair compares two answers, of which one may be missing.
func (c *Compare) pair(a, b *answer) (d Difference) {
	op := a
	if op == nil {
		op = b
	}
	d.Op = op.op.String()
	o := c.ops[op.op]
	if o == nil {
		o = &Operation{Op: d.Op}
		c.ops[op.op] = o
	}
	o.Answers++
	switch {
	case a == nil:
		d.Text = "only the new build answers"
	case b == nil:
		d.Text = "only the old build answers"
	case a.op == abi.OpEvents || a.op == abi.OpError && a.stream:
		d.Text = vector.Apart("stream", a.frame, b.frame)
		if a.free != b.free {
			const paid = "\na stream that breaks was free for %d event groups, is for %d"
			d.Text = strings.TrimPrefix(d.Text+fmt.Sprintf(paid, a.free, b.free), "\n")
		}
	case !bytes.Equal(a.frame, b.frame):
		d.Text = vector.Difference(a.op, a.stream, a.frame, b.frame)
	}
	if a != nil {
		o.OldTicks += a.ticks
	}
	if b != nil {
		o.NewTicks += b.ticks
	}
	if a != nil && b != nil && a.op == b.op {
		c.add(a, b)
	}
	if d.Text != "" {
		o.Differ++
	}
	return d
}

// add adds up what both made.
func (c *Compare) add(a, b *answer) {
	r := &c.report
	switch {
	case a.charged && b.charged:
		r.Charges++
		r.OldNanoUSD, r.NewNanoUSD = sum(r.OldNanoUSD, a.charge.Total), sum(r.NewNanoUSD, b.charge.Total)
		r.OldTokens, r.NewTokens = sum(r.OldTokens, tokens(a.charge)), sum(r.NewTokens, tokens(b.charge))
	case a.op == abi.OpRequest && c.count != nil && a.native != nil && b.native != nil:
		older, ok := c.count(a.native)
		newer := older
		if ok && !bytes.Equal(a.native, b.native) {
			newer, ok = c.count(b.native)
		}
		if ok {
			r.OldTokens, r.NewTokens = sum(r.OldTokens, int64(older)), sum(r.NewTokens, int64(newer))
		}
	}
}

func tokens(c abi.Charge) (n int64) {
	for _, l := range c.Lines {
		n = sum(n, l.Tokens)
	}
	return n
}

// sum adds and stops at the ends of the range: nothing has held a build's numbers to rules here.
func sum[T ~int64](a, b T) T {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}

// Report is what it came to, with left requests for which there was no time.
func (c *Compare) Report(left int) Report {
	r := c.report
	r.Left, r.Operations = left, []Operation{}
	for _, op := range slices.Sorted(maps.Keys(c.ops)) {
		r.Operations = append(r.Operations, *c.ops[op])
	}
	return r
}
