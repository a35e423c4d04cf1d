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

// summaryHead stands in front of a summary that comes back.
const summaryHead = "Summary of the conversation so far:"

// summarize makes the request one for a summary of its conversation, if that ends with a compaction_trigger. No tool
// can be called and no format kept: the answer is the text of one compaction item.
func (r *request) summarize() {
	if r.flags&keptSummary == 0 {
		return
	}
	r.open(roleUser)
	r.messages = field.AppendText(r.messages, []byte(summaryPrompt))
	r.choice, r.sampling.Format = choice{mode: "none"}, nil
	r.custom, r.flags = nil, r.flags&^keptSearch // a model that calls one anyway calls a function
}

// compaction translates such an item into a message of the user. Nothing is kept from clients, so what the protocol
// calls its encrypted content is the summary as it is.
func (r *request) compaction(f *fields, p place) {
	summary := r.text(f.encrypted, p, "encrypted_content")
	if f.encrypted == nil {
		r.Fail(p.at("encrypted_content"), "field required, a string")
	}
	if r.Err != nil {
		return
	}
	blocks := messageBlocks{who: roleUser}
	r.block(&blocks, []byte(summaryHead))
	r.block(&blocks, summary)
}

// walkSummary calls each for the items of an answer that is a summary: those before its first text, and one of all
// texts, which is the last. A summary that says nothing is none.
func walkSummary(answer abi.Frames, as special, each func(item)) {
	var all item
	walkBlocks(answer, as, func(it item) {
		switch {
		case it.summary:
			all = all.with(it)
		case !all.summary:
			each(it)
		}
	})
	if len(all.text) > 0 {
		each(all)
	}
}

// with is a summary with one more text.
func (it item) with(next item) item {
	if len(bytes.TrimSpace(word(next.text))) == 0 {
		next.text = nil
	}
	switch {
	case !it.summary:
		return next
	case len(it.text) == 0:
		it.text = next.text
	case len(next.text) > 0:
		it.text = append(append(it.text[:len(it.text):len(it.text)], `\n\n`...), next.text...)
	}
	return it
}

// summaryOf returns the summary that an answer is; false if there is none.
func summaryOf(answer abi.Frames, as special) (all item, ok bool) {
	walkSummary(answer, as, func(it item) {
		if it.summary {
			all, ok = it, true
		}
	})
	return all, ok
}

// ofSummary is how a response stands whose answer should be a summary. Without one it failed: clients put what they get
// in the place of the conversation.
func (o outcome) ofSummary(there bool) outcome {
	if o.status == completed && !there {
		o.status = failed
		o.err = &streamFail{names: abi.Internal.Names(), message: "the model wrote no summary of the conversation"}
	}
	return o
}
