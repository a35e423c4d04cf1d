// Package powercut gives what a power cut may leave of files, for tests. A Log has what was done to them, in order. After each step of
// it a disk may have: all that was synced, and of the rest nothing, everything, everything but one step or one sector, or the last
// write as far as some sector. A sector is either old or new.
package powercut

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

const sector = 512

// Files has the content of each file, by name. One that is absent may as well be empty.
type Files map[string][]byte

// Log is what was done to files. The zero value is an empty one.
type Log struct {
	Start Files // what was durable before the first step
	steps []step
}

// step is one thing that was done to a file: w a write, t a truncation, r its removal, s a sync; or f, a sync of the folder.
type step struct {
	name string
	kind byte
	at   int64
	data []byte
}

// Write adds a write of a file, which keeps no data of the caller.
func (l *Log) Write(name string, data []byte, at int64) {
	l.steps = append(l.steps, step{name, 'w', at, bytes.Clone(data)})
}

// Truncate adds that a file got a size in bytes.
func (l *Log) Truncate(name string, size int64) {
	l.steps = append(l.steps, step{name: name, kind: 't', at: size})
}

// Remove adds that a file was removed.
func (l *Log) Remove(name string) { l.steps = append(l.steps, step{name: name, kind: 'r'}) }

// Sync adds that all that was done to a file before is durable.
func (l *Log) Sync(name string) { l.steps = append(l.steps, step{name: name, kind: 's'}) }

// SyncFolder adds that all removals before are durable.
func (l *Log) SyncFolder() { l.steps = append(l.steps, step{kind: 'f'}) }

// Len is the number of steps.
func (l *Log) Len() int { return len(l.steps) }

// Cut is one thing that a power cut may leave.
type Cut struct {
	Steps int    // that had been done
	How   string // what of them the files have
	Files Files
}

// Cuts gives for each moment the files without any unsynced step, and of all that they may be else about so many, drawn evenly and the
// same each time.
func (l *Log) Cuts(others int, visit func(Cut)) {
	total := 0
	l.walk(func(durable Files, unsynced []step, _ int) { total += len(partly(unsynced)) })
	rnd := rand.New(rand.NewPCG(1, 2))
	l.walk(func(durable Files, unsynced []step, steps int) {
		visit(Cut{steps, "nothing unsynced", durable.with(nil)})
		for _, p := range partly(unsynced) {
			if rnd.IntN(total) < others {
				visit(Cut{steps, p.how, durable.with(p.steps())})
			}
		}
	})
}

// walk visits what is durable, and what is not, behind each number of steps.
func (l *Log) walk(visit func(durable Files, unsynced []step, steps int)) {
	durable, unsynced := l.Start.with(nil), []step(nil)
	visit(durable, unsynced, 0)
	for i, s := range l.steps {
		if s.kind != 's' && s.kind != 'f' {
			unsynced = append(unsynced, s)
		} else {
			synced, rest := s.split(unsynced)
			durable, unsynced = durable.with(synced), rest
		}
		visit(durable, unsynced, i+1)
	}
}

// split tells the steps that a sync makes durable from the rest.
func (s step) split(unsynced []step) (synced, rest []step) {
	for i, u := range unsynced {
		removed := func(later step) bool { return later.kind == 'r' && later.name == u.name }
		if s.kind == 's' && u.name == s.name || s.kind == 'f' && slices.ContainsFunc(unsynced[i:], removed) {
			synced = append(synced, u)
		} else {
			rest = append(rest, u)
		}
	}
	return synced, rest
}

// part is some of the unsynced steps.
type part struct {
	how   string
	steps func() []step
}

// partly gives what a disk may have of unsynced steps, but for nothing.
func partly(unsynced []step) (parts []part) {
	n := len(unsynced)
	if n > 0 {
		parts = append(parts, part{"everything", func() []step { return unsynced }})
	}
	for i := 0; i < n && n > 1; i++ {
		parts = append(parts, part{fmt.Sprintf("all but unsynced step %d of %d", i+1, n), func() []step {
			return slices.Concat(unsynced[:i], unsynced[i+1:])
		}})
	}
	if n == 0 || unsynced[n-1].kind != 'w' {
		return parts
	}
	before, last := unsynced[:n-1], unsynced[n-1]
	piece := func(from, to int) step { return step{last.name, 'w', last.at + int64(from), last.data[from:to]} }
	for from, to := 0, 0; from < len(last.data); from = to {
		to = min(from+sector-int(last.at+int64(from))%sector, len(last.data))
		if from > 0 {
			parts = append(parts, part{fmt.Sprintf("the last write up to its byte %d", from), func() []step {
				return slices.Concat(before, []step{piece(0, from)})
			}})
		}
		if to < len(last.data) {
			parts = append(parts, part{fmt.Sprintf("the last write but for its bytes %d to %d", from, to), func() []step {
				return slices.Concat(before, []step{piece(0, from), piece(to, len(last.data))})
			}})
		}
	}
	return parts
}

// with is a copy of the files after some steps.
func (f Files) with(steps []step) Files {
	after := maps.Clone(f)
	if after == nil {
		after = Files{}
	}
	own := map[string]bool{}
	for _, s := range steps {
		if s.kind == 'r' {
			delete(after, s.name)
			continue
		}
		if !own[s.name] {
			after[s.name], own[s.name] = bytes.Clone(after[s.name]), true
		}
		size := s.at
		if s.kind == 'w' {
			size = max(int64(len(after[s.name])), s.at+int64(len(s.data)))
		}
		if more := size - int64(len(after[s.name])); more > 0 {
			after[s.name] = append(after[s.name], make([]byte, more)...)
		}
		after[s.name] = after[s.name][:size]
		copy(after[s.name][min(s.at, size):], s.data)
	}
	return after
}
