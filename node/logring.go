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

// logRingBytes is how many bytes of log lines the node keeps for people who look, and logSevereBytes how many of warnings and
// worse that are not among them any more: requests have a line each.
const logRingBytes, logSevereBytes = 512 << 10, 128 << 10

// logRing passes log lines on and keeps the latest. A line costs a copy; nothing is decoded
// before somebody asks.
type logRing struct {
	to io.Writer

	mu     sync.Mutex // guards all below
	last   uint64     // number of the newest line; the first of all is 1
	latest logLines   // of any level
	severe logLines   // warnings and worse that latest has forgotten: all are older than what it has
}

// logLines are the newest of some lines.
type logLines struct {
	text    []byte   // whole lines, the oldest first; its capacity is their bound
	numbers []uint64 // of these lines
	lost    uint64   // number of the newest one that was forgotten
}

func newLogRing(to io.Writer) *logRing {
	return &logRing{to: to, latest: logLines{text: make([]byte, 0, logRingBytes)},
		severe: logLines{text: make([]byte, 0, logSevereBytes)}}
}

// Write implements io.Writer for whole lines.
func (r *logRing) Write(line []byte) (int, error) {
	r.mu.Lock()
	if len(line) <= logRingBytes/2 { // a longer one is a stack of everything; the log has it
		r.last++
		r.latest.add(line, r.last, func(line []byte, number uint64) {
			if isSevere(line) {
				r.severe.add(line, number, nil)
			}
		})
	}
	r.mu.Unlock()
	return r.to.Write(line)
}

// add appends a line. Where there is no room for it the oldest are forgotten, a quarter of all at once, and forgot, which may
// be nil, is told of each.
func (l *logLines) add(line []byte, number uint64, forgot func(line []byte, number uint64)) {
	if len(line) > cap(l.text)/2 {
		l.lost = number
		return
	}
	if len(l.text)+len(line) > cap(l.text) {
		l.drop(cap(l.text)/4+len(line), forgot)
	}
	l.text, l.numbers = append(l.text, line...), append(l.numbers, number)
}

// drop forgets the oldest lines, of at least n bytes in all, or all.
func (l *logLines) drop(n int, forgot func(line []byte, number uint64)) {
	gone, lines := 0, 0
	for ; gone < n && lines < len(l.numbers); lines++ {
		line := firstLine(l.text[gone:])
		if gone += len(line); forgot != nil {
			forgot(line, l.numbers[lines])
		}
		l.lost = l.numbers[lines]
	}
	l.text = l.text[:copy(l.text, l.text[gone:])]
	l.numbers = l.numbers[:copy(l.numbers, l.numbers[lines:])]
}

// isSevere says of a line, without decoding it, whether it is a warning or worse.
func isSevere(line []byte) bool {
	_, level, _ := bytes.Cut(line, []byte(`"level":"`))
	return bytes.HasPrefix(level, []byte("WARN")) || bytes.HasPrefix(level, []byte("ERROR"))
}

// list returns the latest lines that a query selects, or the first behind one, the oldest of them first.
// Behind a number that no line has yet are all: it is of a process before this one.
func (r *logRing) list(q admin.LogQuery) (page admin.LogPage) {
	text, numbers, lost, last := r.kept(q.Level)
	page = admin.LogPage{Data: []admin.LogLine{}, Next: last}
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
		for i := len(numbers) - 1; i >= 0 && len(page.Data) < q.Limit; i-- {
			begin := lastLine(text)
			take(text[begin:], numbers[i])
			text = text[:begin]
		}
		slices.Reverse(page.Data)
		return page
	}
	if q.After > last {
		q.After = lost
	}
	page.Missed = max(lost, q.After) - q.After
	for _, number := range numbers {
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

// kept is a copy of the lines among which are those of a level: of which the newest that is missing has the number lost.
func (r *logRing) kept(level slog.Level) (text []byte, numbers []uint64, lost, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if level < slog.LevelWarn {
		return slices.Clone(r.latest.text), slices.Clone(r.latest.numbers), r.latest.lost, r.last
	}
	return slices.Concat(r.severe.text, r.latest.text), slices.Concat(r.severe.numbers, r.latest.numbers), r.severe.lost, r.last
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
