package responses

import (
	"bytes"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
)

// summaryPrompt is what the model is asked behind a conversation that is to be compacted. It has no escapes.
const summaryPrompt = `Write a summary of this conversation for whoever goes on with it and sees nothing of it but your summary and ` +
	`some of what the user wrote. Say what the user wants and has decided, what was done and found out, with the names, paths, ` +
	`commands and numbers that are needed again, what is left to do, and what comes next. Answer with the summary alone: ` +
	`do not go on with the task.`

// summaryRoom is for how many tokens of a summary the context window must have room, where the request does not say how long it may
// be. What the prompt asks for takes some hundred, and clients throw the conversation away for whatever they get.
const summaryRoom = 512

// summaryHead stands in front of a summary that comes back.
const summaryHead = "Summary of the conversation so far:"

// summarize makes the request one for a summary of its conversation, if that ends with a compaction_trigger. No tool
// can be called, no format kept and nothing thought: the answer is the text of one compaction item, in the little room
// that is left. It ends where the model ends it, whatever ends the turn's answers.
func (r *request) summarize() {
	if r.flags&keptSummary == 0 {
		return
	}
	r.open(roleUser)
	r.messages = field.AppendText(r.messages, []byte(summaryPrompt))
	r.choice, r.sampling.Format = choice{mode: "none"}, nil
	r.effort, r.thinkingOff = "", true
	if r.maxTokens == 0 {
		r.room = summaryRoom
	}
	r.sampling.Stops, r.sampling.MinTokens, r.sampling.IgnoreEOS = nil, nil, false
	r.custom, r.flags = nil, r.flags&^keptSearch // a model that calls one anyway calls a function
}

// compaction translates such an item into a message of the user. Nothing is kept from clients, so what the protocol
// calls its encrypted content is the summary as it is.
func (r *request) compaction(f *fields, p place) {
	summary := r.text(f.encrypted, p, "encrypted_content")
	if f.encrypted == nil {
		r.Fail(p.at("encrypted_content"), "field required, a string")
	}
	blocks := messageBlocks{who: roleUser}
	r.block(&blocks, []byte(summaryHead))
	r.block(&blocks, summary)
}

// noSummary is the summary of a model that ends without a word. It is no error, which would be charged like an answer,
// and clients would ask for it again: they keep what the user wrote beside it. It has no escapes.
const noSummary = `The model wrote none. See what is done already before you go on, and ask the user what is not clear.`

// walkSummary calls each for the items of an answer that is a summary: those before its first text, and then the summary,
// which is always there: of all texts, or where those say nothing of all thinking.
func walkSummary(answer abi.Frames, as special, each func(item)) {
	all := item{block: abi.BlockText, summary: true, closed: true}
	var thinking []byte
	begun := false
	walkBlocks(answer, as, func(it item) {
		switch {
		case it.summary && !begun:
			begun, all.index = true, it.index
		case !begun:
			each(it)
			all.index = it.index + 1
		}
		switch it.block {
		case abi.BlockThinking:
			thinking = paragraph(thinking, it.text)
		case abi.BlockText:
			all.text = paragraph(all.text, it.text)
		}
	})
	if len(all.text) == 0 {
		all.text = thinking
	}
	if len(all.text) == 0 {
		all.text = []byte(noSummary)
	}
	each(all)
}

// paragraph is escaped text with more behind it, unless that says nothing.
func paragraph(text, more []byte) []byte {
	switch {
	case len(bytes.TrimSpace(word(more))) == 0:
		return text
	case len(text) == 0:
		return more
	}
	return append(append(text[:len(text):len(text)], `\n\n`...), more...)
}

// isSummary says whether there is anything in the summary that an answer is.
func isSummary(answer abi.Frames, as special) bool {
	return string(summaryOf(answer, as).text) != noSummary
}

// summaryOf returns the summary that an answer is.
func summaryOf(answer abi.Frames, as special) (all item) {
	walkSummary(answer, as, func(it item) { all = it }) // it is the last
	return all
}
