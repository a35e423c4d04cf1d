package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"slices"
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

// list returns the latest lines that a query selects, the oldest of them first.
func (r *logRing) list(q admin.LogQuery) (found []admin.LogLine) {
	r.mu.Lock()
	text, number := slices.Clone(r.text), r.first+r.lines
	r.mu.Unlock()
	found = []admin.LogLine{}
	for len(text) > 0 && len(found) < q.Limit {
		begin := lastLine(text)
		line := text[begin:]
		text = text[:begin]
		if number--; number <= q.After {
			break
		}
		if shown, ok := q.Select(decodeLine(line)); ok {
			shown.Number = number
			found = append(found, shown)
		}
	}
	slices.Reverse(found)
	return found
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

// decodeLine reads what lines have in common, and keeps the rest as it is.
func decodeLine(line []byte) (l admin.LogLine) {
	var read struct {
		Time    string `json:"time"`
		Level   string `json:"level"`
		Msg     string `json:"msg"`
		Account string `json:"account"`
	}
	_ = json.Unmarshal(line, &read) // a line that is no object is shown as it is
	l.Time, l.Level, l.Kind, l.AccountID = read.Time, read.Level, read.Msg, read.Account
	var rest map[string]json.RawMessage
	if json.Unmarshal(line, &rest) != nil {
		l.Level, l.Text = slog.LevelInfo.String(), string(line)
		return l
	}
	for _, name := range []string{"time", "level", "msg"} {
		delete(rest, name)
	}
	text, err := json.Marshal(rest)
	if err == nil && len(rest) > 0 {
		l.Text = string(text)
	}
	return l
}
