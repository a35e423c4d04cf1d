package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"corenode/node/admin"
)

// logRingBytes is how many bytes of log lines the node keeps for people who look.
const logRingBytes = 512 << 10

// logRing passes log lines on and keeps the latest. A line costs a copy; nothing is decoded
// before somebody asks.
type logRing struct {
	to io.Writer

	mu    sync.Mutex // guards all below
	text  []byte     // whole lines, the oldest first
	first uint64     // number of the oldest line in text; the first of all is 1
	lines uint64     // how many are in text
}

func newLogRing(to io.Writer) *logRing {
	return &logRing{to: to, text: make([]byte, 0, logRingBytes), first: 1}
}

// Write implements io.Writer for whole lines.
func (r *logRing) Write(line []byte) (int, error) {
	r.mu.Lock()
	if len(line) <= logRingBytes/2 { // a longer one is a stack of everything; the log has it
		if len(r.text)+len(line) > logRingBytes {
			r.drop(logRingBytes/4 + len(line))
		}
		r.text = append(r.text, line...)
		r.lines++
	}
	r.mu.Unlock()
	return r.to.Write(line)
}

// drop forgets the oldest lines, of at least n bytes in all.
func (r *logRing) drop(n int) {
	gone := 0
	for gone < min(n, len(r.text)) {
		end := slices.Index(r.text[gone:], '\n')
		if end < 0 {
			end = len(r.text) - gone - 1
		}
		gone += end + 1
		r.first++
		r.lines--
	}
	r.text = r.text[:copy(r.text, r.text[gone:])]
}

// list returns the latest lines that a query selects, or the first behind one, the oldest of them first.
// Behind a number that no line has yet are all: it is of a process before this one.
func (r *logRing) list(q admin.LogQuery) (page admin.LogPage) {
	r.mu.Lock()
	text, first, end := slices.Clone(r.text), r.first, r.first+r.lines
	r.mu.Unlock()
	page = admin.LogPage{Data: []admin.LogLine{}, Next: end - 1}
	take := func(line []byte, number uint64) {
		if !mayMatch(line, &q) {
			return
		}
		if shown, ok := q.Select(decodeLine(line)); ok {
			shown.Number = number
			page.Data = append(page.Data, shown)
		}
	}
	if q.After == 0 {
		for number := end; len(text) > 0 && len(page.Data) < q.Limit; {
			begin := lastLine(text)
			number--
			take(text[begin:], number)
			text = text[:begin]
		}
		slices.Reverse(page.Data)
		return page
	}
	if q.After >= end {
		q.After = first - 1
	}
	page.Missed = max(first, q.After+1) - (q.After + 1)
	for number := first; number < end; number++ {
		line := firstLine(text)
		text = text[len(line):]
		if number > q.After {
			take(line, number)
		}
		if len(page.Data) == q.Limit {
			page.Next = number
			break
		}
	}
	return page
}

// firstLine is the first line of a text, with its end.
func firstLine(text []byte) []byte {
	return text[:bytes.IndexByte(text, '\n')+1]
}

// lastLine is where the last line of a text begins.
func lastLine(text []byte) int {
	for i := len(text) - 2; i >= 0; i-- {
		if text[i] == '\n' {
			return i + 1
		}
	}
	return 0
}

// mayMatch is a cheap look that lets through every line that a query selects.
func mayMatch(line []byte, q *admin.LogQuery) bool {
	return (q.Level <= slog.LevelInfo || !bytes.Contains(line, []byte(`"level":"INFO"`))) &&
		bytes.Contains(line, []byte(q.AccountID)) && (strings.ContainsFunc(q.Kind, escaped) || bytes.Contains(line, []byte(q.Kind)))
}

// escaped says of a character that JSON may write it as others.
func escaped(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`"\\<>&`, c) }

// decodeLine reads what lines have in common, and keeps the rest as it is.
func decodeLine(line []byte) (l admin.LogLine) {
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		return admin.LogLine{Level: slog.LevelInfo.String(), Text: string(line)} // no object
	}
	for name, to := range map[string]*string{"time": &l.Time, "level": &l.Level, "msg": &l.Kind, "account": &l.AccountID} {
		_ = json.Unmarshal(all[name], to) // one that is absent, or no text, stays empty
	}
	for _, name := range []string{"time", "level", "msg"} {
		delete(all, name)
	}
	if text, err := json.Marshal(all); err == nil && len(all) > 0 {
		l.Text = string(text)
	}
	return l
}
