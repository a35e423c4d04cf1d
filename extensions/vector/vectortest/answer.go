package vectortest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"corenode/wasm/abi"
)

// words are what texts of random answers are made of.
var words = []string{"a", "", "zwölf ", "\"", "\\", "\n", "☃", "𝄞", "<b>", "\x00", "{}", "two words"}

// RandomAnswer is a whole answer of up to four blocks, as the engine says it. Its calls are of the given
// tools, with what arguments makes of a random text.
func RandomAnswer(rnd *rand.Rand, tools []string, arguments func(text string) string) []abi.Event {
	all := []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 3, CacheRead: 2}}}
	for index := range rnd.Int32N(5) {
		start := abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockKind(rnd.IntN(3)), Index: index}
		if start.Block == abi.BlockToolUse {
			start.ID, start.Name = "toolu_x", tools[rnd.IntN(len(tools))]
		}
		all = append(all, start)
		text := ""
		for range rnd.IntN(6) {
			text += words[rnd.IntN(len(words))]
		}
		if start.Block == abi.BlockToolUse {
			text = arguments(text)
		}
		for len(text) > 0 {
			n := 1 + rnd.IntN(len(text))
			for n < len(text) && text[n]&0xC0 == 0x80 { // texts end between characters
				n++
			}
			all = append(all, abi.Event{Kind: abi.EventDelta, Block: start.Block, Index: index, Text: text[:n]})
			text = text[n:]
		}
		all = append(all, abi.Event{Kind: abi.EventBlockStop, Block: start.Block, Index: index})
	}
	stop := []abi.StopReason{abi.StopEndTurn, abi.StopMaxTokens, abi.StopToolUse}[rnd.IntN(3)]
	return append(all, abi.Event{Kind: abi.EventEnd, Stop: stop, Usage: abi.Usage{InputUncached: 3, CacheRead: 2, Output: 9, Reasoning: 1}})
}

// FramesOf are events as a module gets them.
func FramesOf(all []abi.Event) (f abi.Frames) {
	for i := range all {
		f = abi.AppendFrame(f, &all[i])
	}
	return f
}

// HistoryOf is the answer with one delta a block.
func HistoryOf(all []abi.Event) abi.Frames {
	var merged []abi.Event
	for _, e := range all {
		if n := len(merged) - 1; e.Kind == abi.EventDelta && merged[n].Kind == abi.EventDelta {
			merged[n].Text += e.Text
			continue
		}
		merged = append(merged, e)
	}
	return FramesOf(merged)
}

// SameInGroups streams an answer of n events as one group and then, five times, in groups that end at
// random places: the bytes must be the same. It returns them.
func SameInGroups(t *testing.T, rnd *rand.Rand, n int, streamed func(ends []int) []byte) (whole []byte) {
	t.Helper()
	whole = streamed([]int{n})
	for range 5 {
		var ends []int
		for i := 1; i < n; i++ {
			if rnd.IntN(3) == 0 {
				ends = append(ends, i)
			}
		}
		ends = append(ends, n)
		if got := streamed(ends); !bytes.Equal(got, whole) {
			t.Fatalf("groups that end at %v give\n%s\nnot\n%s", ends, got, whole)
		}
	}
	return whole
}
