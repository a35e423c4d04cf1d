package responses

import "corenode/wasm/sdk/field"

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
