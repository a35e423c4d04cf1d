package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
)

// prefixed is a request with these messages, as far as the choice of a replica goes.
func prefixed(t *testing.T, conversation string) *sent {
	t.Helper()
	q, err := messages.Parse([]byte(`{"model":"far","max_tokens":9,"messages":[` + conversation + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &sent{counted: 1000}
	s.prefixes, s.places = prefixHashes("a", q)
	return s
}

// common is how many prefixes two requests begin with alike.
func common(a, b *sent) (n int) {
	for n < min(len(a.prefixes), len(b.prefixes)) && a.prefixes[n] == b.prefixes[n] {
		n++
	}
	return n
}

func said(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }

// document has two lines and 9,000 bytes.
var document = func() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "word%04d%c", i, " \n"[boolInt(i == 500)])
	}
	return b.String() + "end"
}()

// TestPrefixesOfOneBeginning: prompts that begin alike have prefixes in common up to where they part, and those that servers
// are likely to write alike have all in common.
func TestPrefixesOfOneBeginning(t *testing.T) {
	const chunks = 9000 / chunkBytes
	two := strings.Split(document, "\n")
	of := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	block := func(text string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, text) }
	assistant := func(blocks ...string) string { return strings.Replace(of(blocks...), "user", "assistant", 1) }
	const noInput = `{"type":"tool_use","id":"i","name":"f","input":{}}`
	call := func(id, input string) string {
		return said("user", "x") + `,` + assistant(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"f","input":%s}`, id, input)) + `,` +
			of(fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%q}`, id, document))
	}
	all := len(prefixed(t, said("user", document)).prefixes)
	for name, c := range map[string]struct {
		a, b string
		want int // in common at least
	}{
		"one character more":          {said("user", document), said("user", document+"!"), chunks},
		"two questions in one text":   {said("user", document+" What is it?"), said("user", document+" Who wrote it, and when?"), chunks},
		"two questions in two blocks": {of(block(document), block("What is it?")), of(block(document), block("Who wrote it?")), chunks},
		"a block for each line":       {said("user", document), of(block(two[0]), block(two[1])), all},
		"space around it":             {said("user", document), said("user", "\n "+document+"\u00a0"), all},
		"space behind another text": {said("user", "x") + `,` + said("assistant", "y") + `,` + said("user", document),
			said("user", "x ") + `,` + said("assistant", "\ny\n") + `,` + said("user", document), all + 2},
		"calls of other ids": {call("toolu_1", `{"a":1}`), call("toolu_02", `{ "a": 1 }`), all + 2},
		"pieces of one turn": {said("user", "x") + `,` + said("assistant", "y") + `,` + assistant(noInput),
			said("user", "x") + `,` + assistant(block("y"), noInput), 2},
	} {
		a, b := prefixed(t, c.a), prefixed(t, c.b)
		if got := common(a, b); got < c.want {
			t.Errorf("%s: %d prefixes in common, want %d of %d and %d", name, got, c.want, len(a.prefixes), len(b.prefixes))
		}
	}
}

// TestPrefixesOfThoughts: a text has no prefix in common with thinking, which templates leave out of turns that are over:
// who paid a prompt without it has not paid the one with the text.
func TestPrefixesOfThoughts(t *testing.T) {
	of := func(blocks string) *sent {
		return prefixed(t, said("user", "x")+`,{"role":"assistant","content":[`+blocks+`]},`+said("user", "y"))
	}
	const thinking, text = `{"type":"thinking","thinking":%q,"signature":"s"},`, `{"type":"text","text":%q}`
	thought := of(fmt.Sprintf(thinking+text, document, "z"))
	for _, other := range []*sent{of(fmt.Sprintf(text, document+"z")),
		of(fmt.Sprintf(thinking+text, document[:4000], document[4000:]+"z"))} {
		if got := thought.prefixes[len(thought.prefixes)-1]; got == other.prefixes[len(other.prefixes)-1] {
			t.Errorf("the whole prompt has the hash %x of another", got)
		}
	}
}

// TestLeavingOnePromptSendingAnother: who leaves in prefill and comes again with a prompt that is written a little
// differently pays what may have been computed for nothing.
func TestLeavingOnePromptSendingAnother(t *testing.T) {
	left := said("user", document)
	for _, again := range []string{left, said("user", document+"!"), said("user", " "+document), said("user", "short") + `,` + left} {
		m := open(t, wire.VLLM, nil, start(t, wire.VLLM, plainAnswer))
		base := m.urls()[0].base
		m.mu.Lock()
		m.set.Unbilled(base, prefixed(t, left).prefixes, time.Now())
		m.mu.Unlock()
		want := int64(1000)
		if strings.Contains(again, "short") { // another prompt
			want = 0
		}
		if got := m.unpaid(base, prefixed(t, again)); got != want {
			t.Errorf("%.40s...%s: %d tokens are unpaid, want %d", again, again[len(again)-10:], got, want)
		}
	}
}
