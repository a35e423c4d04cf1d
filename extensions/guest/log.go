package guest

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"corenode/wasm/abi"
)

const (
	logLineMax   = 1024 // bytes of one line of a guest
	logPerSecond = 10
	logBurst     = 50
)

// LineLimit lets logPerSecond lines through, with a burst.
type LineLimit struct {
	mu     sync.Mutex
	at     time.Time
	tokens int
}

// Allow says whether a line may be written now.
func (l *LineLimit) Allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.at, l.tokens = now, logBurst
	}
	if fresh := int(now.Sub(l.at) / (time.Second / logPerSecond)); fresh > 0 {
		l.tokens = min(logBurst, l.tokens+fresh)
		l.at = now
	}
	if l.tokens == 0 {
		return false
	}
	l.tokens--
	return true
}

// Clean makes a guest's text fit to be shown: valid UTF-8, no control
// characters, at most limit bytes.
func Clean(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	if plain(text) { // nearly all
		return text
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return shown(r)
	}, strings.ToValidUTF8(text, ""))
}

// CleanLines makes a text of others fit for a terminal, whose lines and tabs it keeps.
func CleanLines(text string) string {
	if plain(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return shown(r)
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// shown is a character that may be shown; -1 for one on which a terminal would act, or that changes how others look.
func shown(r rune) rune {
	switch {
	case r == '\u2028', r == '\u2029':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// CleanRefusal is a refusal as a client may see it.
func CleanRefusal(r abi.Refusal) abi.Refusal {
	r.Param, r.Msg = Clean(r.Param, abi.RefusalBytesMax), Clean(r.Msg, abi.RefusalBytesMax)
	if r.Msg == "" {
		r.Msg = "the request was refused"
	}
	return r
}

// plain says whether a text is printable ASCII.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
