package guest

import (
	"bytes"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Logger is where the lines of guests go.
type Logger interface {
	// Say writes a line of a guest to the log. It is clean, and within the rate
	// of its module.
	Say(level slog.Level, text string)
	// Now is the clock of that rate.
	Now() time.Time
}

// metricsMax is how many counters a module has: ids 0 to metricsMax-1.
const metricsMax = 16

// console takes what the instances of a module say: lines for the log, pieces
// of such lines, and counters.
type console struct {
	logger  Logger
	lines   LineLimit
	printed printed
	metrics [metricsMax]atomic.Int64
}

// say writes one line, within the module's rate. A line beyond it costs next to
// nothing.
func (c *console) say(level slog.Level, line []byte) {
	if len(line) == 0 || !c.lines.Allow(c.logger.Now()) {
		return
	}
	if text := Clean(string(line), logLineMax); text != "" {
		c.logger.Say(level, text)
	}
}

// count adds to a counter; an id that is none counts nothing.
func (c *console) count(id uint32, n int64) {
	if id < metricsMax {
		c.metrics[id].Add(n)
	}
}

// printed holds the line that the instances of a module are printing, at most
// logLineMax bytes of it.
type printed struct {
	mu   sync.Mutex
	line []byte
}

// add takes a piece and returns the lines that it ends.
func (p *printed) add(text []byte) (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for piece := range bytes.Lines(text) {
		p.line = append(p.line, piece[:min(len(piece), logLineMax-len(p.line))]...)
		if piece[len(piece)-1] == '\n' || len(p.line) == logLineMax {
			lines = append(lines, string(bytes.TrimRight(p.line, "\n")))
			p.line = p.line[:0]
		}
	}
	return lines
}
