package vector

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bytes shown before and after the first difference.
const (
	shownBefore = 48
	shownAfter  = 72
	// shortMax is what is shown as a whole.
	shortMax = 32
)

// difference describes the first part that is not as wanted; nil if none.
func difference(got, wanted []part) error {
	for i := range max(len(got), len(wanted)) {
		switch {
		case i >= len(wanted):
			return fmt.Errorf("%s came, which is not wanted: %s", got[i].name, quoteAround(got[i].text, 0))
		case i >= len(got):
			return fmt.Errorf("%s is missing, want %s", wanted[i].name, quoteAround(wanted[i].text, 0))
		case got[i].name != wanted[i].name:
			return fmt.Errorf("got %s %s, want %s %s", got[i].name, quoteAround(got[i].text, 0), wanted[i].name,
				quoteAround(wanted[i].text, 0))
		case !bytes.Equal(got[i].text, wanted[i].text):
			return differ(got[i].name, got[i].text, wanted[i].text)
		}
	}
	return nil
}

// differ shows the first difference of two texts with what stands around it,
// and a mark below it.
func differ(name string, got, wanted []byte) error {
	if max(len(got), len(wanted)) <= shortMax {
		return fmt.Errorf("%s is %q, want %q", name, got, wanted)
	}
	at := 0
	for at < len(got) && at < len(wanted) && got[at] == wanted[at] {
		at++
	}
	same := strconv.Quote(string(got[start(got, at):at]))
	mark := strings.Repeat(" ", utf8.RuneCountInString(same)-1) + "^"
	line := bytes.Count(got[:at], []byte("\n")) + 1
	return fmt.Errorf("%s differs at byte %d, line %d (%d bytes, want %d)\n  want %s\n  got  %s\n       %s",
		name, at, line, len(got), len(wanted), quoteAround(wanted, at), quoteAround(got, at), mark)
}

// start is where the text that is shown before at begins: not within a character.
func start(text []byte, at int) int {
	from := max(0, at-shownBefore)
	for from < at && !utf8.RuneStart(text[from]) {
		from++
	}
	return from
}

// quoteAround quotes what stands around a place of text.
func quoteAround(text []byte, at int) string {
	from, to := start(text, at), min(len(text), at+shownAfter)
	end := ""
	if to < len(text) {
		end = "..."
	}
	return strconv.Quote(string(text[from:to])) + end
}
