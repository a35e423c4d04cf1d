package responses

import (
	"slices"
	"strconv"

	"corenode/wasm/abi"
)

// writer writes the frames of one event group.
type writer struct {
	dst     []byte
	facts   abi.Facts
	state   state
	history abi.Frames // the answer so far, when the group closes a block or the answer
	kept    []byte     // what the request said, when the group opens or closes the answer
}

// event writes what one native event that is no delta becomes.
func (w *writer) event(f *abi.Frame) {
	switch f.Kind {
	case abi.EventStart:
		w.start()
	case abi.EventBlockStart:
		if f.Block <= abi.BlockToolUse && !w.inSummary() {
			w.blockStart(begin(f, w.state.special()))
		}
	case abi.EventBlockStop:
		if f.Block <= abi.BlockToolUse && !w.inSummary() {
			w.blockStop(find(w.history, w.state.special(), f))
		}
	case abi.EventEnd:
		as := w.state.special()
		o := endOf(f, w.history, as)
		if as.summary && !o.cut {
			it := summaryOf(w.history, as)
			w.wholeItem("response.output_item.added", it, inProgress)
			w.wholeItem("response.output_item.done", it, completed)
		}
		w.whole("response."+o.status, o)
	}
}

// inSummary says whether the summary has begun, which all that follows is part of until the answer ends.
func (w *writer) inSummary() bool {
	const begun = flagSummary | flagHeld
	return w.state.flags&begun == begun
}

// start opens the response. It is written once, whatever comes.
func (w *writer) start() {
	if w.state.flags&flagBegun != 0 {
		return
	}
	w.state.flags |= flagBegun
	as := parseKept(w.kept).special()
	w.state.custom = as.custom
	if as.search {
		w.state.flags |= flagSearch
	}
	if as.summary {
		w.state.flags |= flagSummary
	}
	w.whole("response.created", outcome{status: inProgress})
	w.whole("response.in_progress", outcome{status: inProgress})
}

// frame opens a frame: its data lacks the end that close writes.
func (w *writer) frame(name string) {
	w.dst = append(w.dst, "event: "...)
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, "\ndata: {\"type\":\""...)
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `","sequence_number":`...)
	w.dst = strconv.AppendUint(w.dst, w.state.sequence, 10)
	w.state.sequence++
}

func (w *writer) close() { w.dst = append(w.dst, "}\n\n"...) }

// whole writes a frame with the response object. One that is in progress has
// no output yet.
func (w *writer) whole(name string, o outcome) {
	answer := w.history
	if o.status == inProgress {
		answer = nil
	}
	w.frame(name)
	w.dst = append(w.dst, `,"response":`...)
	w.dst = appendResponse(w.dst, &w.facts, parseKept(w.kept), o, answer)
	w.close()
}

// itemFrame opens a frame about an item's text.
func (w *writer) itemFrame(name string, it item) {
	w.frame(name)
	w.dst = it.appendPlace(w.dst, &w.facts)
}

// textFrame writes a frame about an item's text that ends with one string.
func (w *writer) textFrame(name string, it item, before string, text []byte) {
	w.itemFrame(name, it)
	w.dst = append(w.dst, before...)
	w.dst = append(append(w.dst, text...), '"')
	w.close()
}

// wholeItem writes the frame that adds an item or is done with it.
func (w *writer) wholeItem(name string, it item, status string) {
	w.state.flags |= flagTold
	w.frame(name)
	w.dst = append(w.dst, `,"output_index":`...)
	w.dst = strconv.AppendInt(w.dst, int64(it.index), 10)
	w.dst = append(w.dst, `,"item":`...)
	w.dst = it.append(w.dst, &w.facts, status)
	w.close()
}

// part writes the frame that adds an item's one part or is done with it.
func (w *writer) part(name string, it item) {
	w.itemFrame(name, it)
	if it.block == abi.BlockThinking {
		w.dst = append(w.dst, `,"summary_index":0,"part":`...)
		w.dst = appendSummary(w.dst, it.text)
	} else {
		w.dst = append(w.dst, `,"content_index":0,"part":`...)
		w.dst = appendPart(w.dst, it.text)
	}
	w.close()
}

func (w *writer) blockStart(it item) {
	w.state.flags &^= flagHeld | flagInput
	if it.held() {
		w.state.flags |= flagHeld
	}
	if it.custom {
		w.state.flags |= flagInput
	}
	if it.summary { // what it says is known at the end
		return
	}
	w.wholeItem("response.output_item.added", it, inProgress)
	switch {
	case it.block == abi.BlockThinking:
		w.part("response.reasoning_summary_part.added", it)
	case it.block == abi.BlockText:
		w.part("response.content_part.added", it)
	}
	w.prepare(it.block, it.index)
}

// deltaForm is what stands around the place of a delta's item. between begins with the end of a delta before.
type deltaForm struct {
	between []byte // not written to
	before  string
}

const (
	beforeSummary = `,"summary_index":0,"delta":"`
	beforeText    = `,"content_index":0,"logprobs":[],"delta":"`
	beforeCall    = `,"delta":"`
	deltaEnd      = "\"}\n\n"
)

var deltaForms = [...]deltaForm{
	abi.BlockThinking: {frameBetween("response.reasoning_summary_text.delta"), beforeSummary},
	abi.BlockText:     {frameBetween("response.output_text.delta"), beforeText},
	abi.BlockToolUse:  {frameBetween("response.function_call_arguments.delta"), beforeCall},
}

// frameBetween is the end of a delta, and what opens a frame up to its sequence number.
func frameBetween(name string) []byte {
	return []byte(deltaEnd + "event: " + name + "\ndata: {\"type\":\"" + name + `","sequence_number":`)
}

// delta writes a piece of text and those like it that rest begins with, and returns what is left of that. A custom tool's
// call is held back until it is whole: its free text stands escaped within its arguments. So are a search of
// tools and a summary, which have no deltas in the protocol.
func (w *writer) delta(f *abi.Frame, rest abi.Frames) abi.Frames {
	if f.Block > abi.BlockToolUse {
		return rest
	}
	if w.state.flags&flagHeld != 0 {
		w.heldBack(f)
		return rest
	}
	w.prepare(f.Block, f.Index)
	s := &w.state
	dst := strconv.AppendUint(append(w.dst, s.between[len(deltaEnd):]...), s.sequence, 10)
	s.sequence++
	middle := len(dst)
	w.dst = append(append(append(dst, s.middle...), f.Payload...), s.between[:len(deltaEnd)]...)
	if len(rest) <= frameHeader+abi.AheadShort {
		return rest
	}
	between := len(w.dst) - len(deltaEnd)
	if cap(w.dst)-len(w.dst) < len(s.between)+abi.Ahead {
		w.dst = slices.Grow(w.dst, len(s.between)+abi.Ahead+len(w.dst)+len(rest))
	}
	dst = append(w.dst, s.between[len(deltaEnd):]...)
	end, used := s.run(dst[:cap(dst)], len(dst), middle, between, rest)
	w.dst = dst[:end]
	return rest[used:]
}

// run writes deltas of the block that the state is prepared for into dst, of which dst[:end] ends with what the next one
// begins with. What stands in the middle of a delta and between two is copied from a delta before. It stops at other frames,
// where there is no room, and before the last bytes of events. It returns where the last delta ends and how much of events
// was read. Like quick it makes no calls.
func (s *state) run(dst []byte, end, middle, between int, events []byte) (last, used int) {
	inner, outer, room, size := len(s.middle), len(s.between), len(dst)-abi.Ahead, len(events)-abi.AheadShort
	mark, sequence := s.mark, s.sequence
	number, digits := decimal(sequence)
	for used <= size-frameHeader {
		frame := abi.Uint64(events, used)
		n := int(frame >> 32)
		if uint32(frame) != mark || n > size-frameHeader-used || digits > numberBytes || end+numberBytes+inner+n+outer > room {
			break
		}
		used += frameHeader
		abi.PutUint64(dst, end, number)
		end += digits
		abi.Copy(dst, end, dst, middle, inner)
		end += inner
		abi.CopyShort(dst, end, events, used, n)
		used += n
		end += n
		abi.Copy(dst, end, dst, between, outer)
		end += outer
		sequence++
		number, digits = following(number, digits, sequence)
	}
	s.sequence = sequence
	return end - (outer - len(deltaEnd)), used
}

// prepare makes what the deltas of a block have in common, unless it is made.
func (w *writer) prepare(b abi.BlockKind, index int) {
	mark := uint32(abi.EventDelta) | uint32(b)<<8 | uint32(index)<<16
	if w.state.mark == mark {
		return
	}
	it, form := item{block: b, index: index}, &deltaForms[b]
	middle := append(it.appendPlace(make([]byte, 0, middleBytes), &w.facts), form.before...)
	w.state.deltas = deltas{mark, middle, form.between}
}

// middleBytes is room for what stands in the middle of a delta, but with a very long id.
const middleBytes = 192

// heldBack counts a delta that is held back. Clients take a stream without events for dead, and comments are none, so
// after some deltas there is an event that says nothing: for a custom tool an empty piece of its input, which every
// client knows, else what the service that the protocol is of sends too. The response itself, in progress again, would
// have accumulators forget its items.
func (w *writer) heldBack(f *abi.Frame) {
	if w.state.held++; w.state.held < heldDeltas {
		return
	}
	w.state.held = 0
	if w.state.flags&flagInput != 0 {
		w.textFrame("response.custom_tool_call_input.delta", item{block: f.Block, index: f.Index, custom: true}, beforeCall, nil)
		return
	}
	w.frame("keepalive")
	w.close()
}

// blockStop writes the frames that repeat an item's whole text.
func (w *writer) blockStop(it item) {
	switch {
	case it.search:
	case it.block == abi.BlockThinking:
		w.textFrame("response.reasoning_summary_text.done", it, `,"summary_index":0,"text":"`, it.text)
		w.part("response.reasoning_summary_part.done", it)
	case it.block == abi.BlockText:
		w.textFrame("response.output_text.done", it, `,"content_index":0,"logprobs":[],"text":"`, it.text)
		w.part("response.content_part.done", it)
	case it.custom:
		w.textFrame("response.custom_tool_call_input.delta", it, beforeCall, it.input)
		w.textFrame("response.custom_tool_call_input.done", it, `,"input":"`, it.input)
	default:
		if len(it.text) == 0 { // no delta said that the arguments are empty
			w.textFrame("response.function_call_arguments.delta", it, beforeCall, it.arguments())
		}
		_, name := splitName(it.name)
		w.itemFrame("response.function_call_arguments.done", it)
		w.dst = append(append(w.dst, `,"name":"`...), name...)
		w.dst = append(append(w.dst, `","arguments":"`...), it.arguments()...)
		w.dst = append(w.dst, '"')
		w.close()
	}
	w.wholeItem("response.output_item.done", it, completed)
}
