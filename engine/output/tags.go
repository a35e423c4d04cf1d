package output

import "strings"

// Tags stand around thinking. They may be control tokens; the engine gives their text
// to the parser where it Takes them.
type Tags struct{ Open, Close string }

var (
	plainTags   = Tags{"<think>", "</think>"}
	mistralTags = Tags{"[THINK]", "[/THINK]"}
)

// TagsOf is the tags that a chat template shows; <think> and </think> where it shows others or none.
func TagsOf(template string) Tags {
	if strings.Contains(template, mistralTags.Open) && !strings.Contains(template, plainTags.Close) {
		return mistralTags
	}
	return plainTags
}

// Usual says whether the tags are <think> and </think>.
func (t Tags) Usual() bool { return t == plainTags }

// Takes says whether a tag that comes as a token is text here, because it ends thinking or may open it. Elsewhere
// such a token is nothing.
func (p *Parser) Takes(tag string) bool {
	return tag == p.options.Tags.Close && p.InThinking() || tag == p.options.Tags.Open && p.state == stateStart
}
