package wire

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
)

// fed gives a reader a stream in pieces of up to most bytes.
func fed(r *Reader, stream []byte, rng *rand.Rand, most int) (events []abi.Event, err error) {
	for len(stream) > 0 && err == nil {
		n := min(len(stream), 1+rng.IntN(most))
		events, err = r.Feed(events, stream[:n])
		stream = stream[n:]
	}
	if err == nil {
		events, err = r.End(events)
	}
	return events, err
}

// FuzzReader: whatever the bytes, no panic, events in form, no count below 0, and the same of every cut.
func FuzzReader(f *testing.F) {
	for i, c := range oddStreams {
		f.Add([]byte(c.stream), c.flavor.Traits().Messages, i%4 == 1, i%4 == 2, uint64(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, messages, hides, oneCall bool, seed uint64) {
		said := func(most int) string {
			r := NewReader(map[bool]Flavor{true: Messages, false: VLLM}[messages], []string{"END"}, func() string { return "id" })
			if hides && !messages {
				r.HideThinking()
			}
			if oneCall {
				r.OneCall()
			}
			events, err := fed(r, stream, rand.New(rand.NewPCG(seed, 1)), most)
			checkForm(t, events, err == nil)
			u := r.Usage()
			if min(u.Input, u.Cached, u.Output, u.Reasoning, r.Delivered(), r.Bytes(), r.Held(), r.Hidden(), r.Delivered()-r.Held()) < 0 {
				t.Fatalf("usage %+v, delivered %d, held %d, bytes %d", u, r.Delivered(), r.Held(), r.Bytes())
			}
			return fmt.Sprint(short(events), outcomeOf(err), u, r.Delivered(), r.Held(), r.Pings(), r.Bytes(), r.HiddenText())
		}
		if got, want := said(1+int(seed%40)), said(len(stream)+1); got != want {
			t.Fatalf("cut: %q, at once %q", got, want)
		}
	})
}

// FuzzOwn: an answer of any texts, as this node writes it in either protocol and another node reads it from any cut, is that
// answer.
func FuzzOwn(f *testing.F) {
	f.Add("Hm.\n", "Yes \"x\"", "f", `{"city":"Paris"}`, uint64(3))
	f.Add("", "\u2028\x00", "", "", uint64(4))
	f.Add("data: [DONE]\n\n", "", "a.b", "{}", uint64(9))
	f.Fuzz(func(t *testing.T, thinking, text, name, input string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		valid := func(s string) string { return strings.ToValidUTF8(s, "?") }
		all := []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 3, CacheRead: 2}}}
		index := int32(0)
		block := func(kind abi.BlockKind, name, text string) {
			all = append(all, abi.Event{Kind: abi.EventBlockStart, Block: kind, Index: index, ID: "toolu_1", Name: name})
			for runes := []rune(text); len(runes) > 0; {
				n := 1 + rng.IntN(len(runes))
				all = append(all, abi.Event{Kind: abi.EventDelta, Block: kind, Index: index, Text: string(runes[:n])})
				runes = runes[n:]
			}
			all = append(all, abi.Event{Kind: abi.EventBlockStop, Block: kind, Index: index})
			index++
		}
		end := abi.Event{Kind: abi.EventEnd, Stop: abi.StopMaxTokens,
			Usage: abi.Usage{InputUncached: 3, CacheRead: 2, Output: 9, Reasoning: 1}}
		if thinking != "" {
			block(abi.BlockThinking, "", valid(thinking))
		}
		if text != "" {
			block(abi.BlockText, "", valid(text))
		}
		for range seed % 3 {
			if name != "" && len(name) < nameBytesMax && input != "" {
				block(abi.BlockToolUse, valid(name), valid(input))
				end.Stop = abi.StopToolUse
			}
		}
		all = append(all, end)
		var frames abi.Frames
		for i := range all {
			frames = abi.AppendFrame(frames, &all[i])
		}
		own := messages.NewEncoder("id", "m", func() hash.Hash { return sha256.New() }).AppendEvents(nil, all)
		translated, _ := chat.New().Events(nil, nil, abi.EventsInput{Facts: abi.Facts{ID: "id", Model: "m"}, Kept: []byte{1}, Events: frames})
		for flavor, stream := range map[Flavor][]byte{Corenode: own, VLLM: translated} {
			r := NewReader(flavor, nil, func() string { return "id" })
			events, err := fed(r, stream, rng, 1+int(seed%40))
			for i := range events {
				events[i].Signature = "" // of one protocol only
			}
			want := Usage{Input: 5, Cached: 2, Output: 9, Reasoning: 1, Known: true, CachedKnown: true, ReasoningKnown: true}
			if err != nil || short(events) != short(all) || r.Usage() != want {
				t.Fatalf("%s: %q, %v, %+v, want %q\n%s", flavor, short(events), err, r.Usage(), short(all), stream)
			}
		}
	})
}
