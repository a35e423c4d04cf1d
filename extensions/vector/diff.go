package vector

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"corenode/wasm/abi"
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
	return errors.New(around(name, "want", "got ", got, wanted))
}

// Apart shows where the texts of an old and a new build part; "" is nowhere.
func Apart(name string, older, newer []byte) string {
	switch {
	case bytes.Equal(older, newer):
		return ""
	case max(len(older), len(newer)) <= shortMax:
		return fmt.Sprintf("%s was %s, is %s", name, quoteAround(older, 0), quoteAround(newer, 0))
	}
	return around(name, "old ", "new ", newer, older)
}

// Difference shows the first part in which the output frames of an old and a new
// build differ; "" is none.
func Difference(op abi.Op, stream bool, older, newer []byte) string {
	was, is := partsOf(op, stream, older), partsOf(op, stream, newer)
	for i := range max(len(was), len(is)) {
		switch {
		case i >= len(was):
			return fmt.Sprintf("%s is new: %s", is[i].name, quoteAround(is[i].text, 0))
		case i >= len(is):
			return fmt.Sprintf("%s is gone: %s", was[i].name, quoteAround(was[i].text, 0))
		case was[i].name != is[i].name:
			return fmt.Sprintf("was %s %s, is %s %s", was[i].name, quoteAround(was[i].text, 0), is[i].name, quoteAround(is[i].text, 0))
		}
		if text := Apart(was[i].name, was[i].text, is[i].text); text != "" {
			return text
		}
	}
	return ""
}

// partsOf are the parts of an output frame.
func partsOf(op abi.Op, stream bool, frame []byte) []part {
	out, err := abi.ParseOutput(frame)
	if err == nil && out.Status == abi.StatusError {
		r, _ := abi.ParseRefusal(out.Payload) // one that is malformed has neither
		return []part{{"refusal.param", []byte(r.Param)}, {"refusal.kind", []byte(out.Kind.String())}, {"refusal.msg", []byte(r.Msg)}}
	}
	w := &want{Decline: true}
	if err == nil && out.Status == abi.StatusOK {
		w, err = read(op, stream, out.Payload)
	}
	if err != nil {
		return []part{{"bytes", frame}}
	}
	return w.parts()
}

// around shows two texts where they part, each behind its label.
func around(name, labelWanted, labelGot string, got, wanted []byte) string {
	at := 0
	for at < len(got) && at < len(wanted) && got[at] == wanted[at] {
		at++
	}
	same := strconv.Quote(string(got[start(got, at):at]))
	mark := strings.Repeat(" ", utf8.RuneCountInString(same)-1) + "^"
	line := bytes.Count(got[:at], []byte("\n")) + 1
	return fmt.Sprintf("%s differs at byte %d, line %d (%d bytes, %s %d)\n  %s %s\n  %s %s\n       %s", name, at, line, len(got),
		strings.TrimSpace(labelWanted), len(wanted), labelWanted, quoteAround(wanted, at), labelGot, quoteAround(got, at), mark)
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
