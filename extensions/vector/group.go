package vector

import (
	"fmt"
	"slices"

	"corenode/wasm/abi"
)

// grouping is one way to cut a stream into event groups.
type grouping struct {
	how   string // begins messages: "" or "cut after event 3: "
	sizes []int
}

// groupings are all events at once, each alone, and every cut in two.
func groupings(n int) []grouping {
	all := []grouping{{"", []int{n}}}
	if n < 2 {
		return all
	}
	all = append(all, grouping{"every event alone: ", slices.Repeat([]int{1}, n)})
	if n == 2 {
		return all
	}
	for cut := 1; cut < n; cut++ {
		all = append(all, grouping{fmt.Sprintf("cut after event %d of %d: ", cut, n), []int{cut, n - cut}})
	}
	return all
}

func has(events []abi.Event, kinds ...abi.EventKind) bool {
	return slices.ContainsFunc(events, func(e abi.Event) bool { return slices.Contains(kinds, e.Kind) })
}

// Frames are events as a module gets them.
func Frames(events []abi.Event) (out abi.Frames) {
	for i := range events {
		out = abi.AppendFrame(out, &events[i])
	}
	return out
}

// Whole is the frames of an answer with one delta a block: the form of
// EventsInput.History and ResponseInput.Events.
func Whole(events []abi.Event) (out abi.Frames) {
	for i := 0; i < len(events); i++ {
		e := events[i]
		if e.Kind == abi.EventDelta {
			text := []byte(e.Text)
			for ; i+1 < len(events) && events[i+1].Kind == abi.EventDelta && events[i+1].Index == e.Index; i++ {
				text = append(text, events[i+1].Text...)
			}
			e.Text = string(text)
		}
		out = abi.AppendFrame(out, &e)
	}
	return out
}
