// Package modeltest is a model for tests: it plays recorded answers. What it
// stands in for is the forward pass alone, so the template, the tokenizer, the
// prefix cache, the masks, the sampler, the parser and all that is behind them
// are those of any model, and an answer that they would not let through is not
// played either.
//
// Its memory is as that of a model with attention: it keeps, for each position
// of each page, what was computed there, which is the token itself. A row of
// logits looks back over its sequence, finds the turn that asks and how much of
// the answer is written, and prefers the token that goes on with it.
package modeltest

import (
	"fmt"
	"log/slog"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/tokenizer"
)

// What the built-in template writes around turns and thinking.
const (
	turnOpen  = "<|im_start|>"
	assistant = "assistant\n"
	thinking  = "<think>\n"
	straight  = "<think>\n\n</think>\n\n"
)

// preferred is the logit of the token that is wanted; all others have 0.
const preferred = 1000

// Model plays a script. It is for one goroutine, as any forward pass.
type Model struct {
	tokenizer  *tokenizer.Tokenizer
	script     Script
	pageTokens int
	log        *slog.Logger
	turn, stop int32
	pages      map[int32][]int32 // tokens by page; as many pages as the pool has at most
	strayed    string            // the answer that was last seen to go another way, when it was seen
}

// New makes a model for a vocabulary of ChatML with pages of pageTokens
// positions. It logs an answer that cannot be played: one that the masks keep
// from being written as it was recorded, or that nobody recorded.
func New(t *tokenizer.Tokenizer, pageTokens int, script Script, log *slog.Logger) *Model {
	turn, ok := t.ID(turnOpen)
	if !ok || len(t.Stops()) == 0 {
		panic("modeltest: the vocabulary has no token that begins or ends a turn")
	}
	return &Model{tokenizer: t, script: script, pageTokens: pageTokens, log: log,
		turn: turn, stop: t.Stops()[0], pages: map[int32][]int32{}}
}

// Forward keeps the step's tokens and gives each asked row the next token of its answer.
func (m *Model) Forward(step *kernel.Step, tokens []int32, _ kernel.Cache, logitRows []int32, logits [][]float32) error {
	for _, s := range step.Spans {
		for i := range s.Len {
			m.keep(s.Pages, s.Pos+i, tokens[s.Row+i])
		}
	}
	for i, row := range logitRows {
		clear(logits[i])
		for _, s := range step.Spans {
			if at := int(row) - s.Row; at >= 0 && at < s.Len {
				logits[i][m.next(m.sequence(s.Pages, s.Pos+at+1))] = preferred
			}
		}
	}
	return nil
}

// Close does nothing.
func (m *Model) Close() {}

func (m *Model) keep(table []int32, pos int, token int32) {
	page := table[pos/m.pageTokens]
	if m.pages[page] == nil {
		m.pages[page] = make([]int32, m.pageTokens)
	}
	m.pages[page][pos%m.pageTokens] = token
}

// sequence is the first n tokens behind a page table.
func (m *Model) sequence(table []int32, n int) []int32 {
	tokens := make([]int32, 0, n)
	for pos := 0; pos < n; pos += m.pageTokens {
		tokens = append(tokens, m.pages[table[pos/m.pageTokens]][:min(m.pageTokens, n-pos)]...)
	}
	return tokens
}

// next is the token that goes on with a sequence.
func (m *Model) next(tokens []int32) int32 {
	turns := m.turns(tokens)
	last := turns[len(turns)-1]
	written, ok := strings.CutPrefix(last, assistant)
	if !ok || len(turns) < 2 {
		panic(fmt.Sprintf("modeltest: the prompt ends with a turn that is not an answer to one: %.80q", last))
	}
	answer := m.answer(turns[0], turns[len(turns)-2], written)
	rest, ok := strings.CutPrefix(answer, written)
	switch {
	case !ok:
		if m.strayed == "" || !strings.HasPrefix(written, m.strayed) {
			m.strayed = written
			m.log.Error("an answer is not written as it was recorded", "written", written, "recorded", answer)
		}
		return m.stop
	case rest == "":
		return m.stop
	}
	return m.tokenizer.EncodePrompt(nil, rest)[0]
}

// answer is the whole text of an answer, written as far as it is.
func (m *Model) answer(system, user, written string) string {
	a, ok := m.script.find(system, user)
	if !ok {
		a = Answer{Thinking: "Hm.", Text: "Nobody recorded an answer to this."}
		if written == thinking || written == straight { // once
			m.log.Error("nobody recorded an answer", "user", user)
		}
	}
	body, err := a.body()
	if err != nil {
		panic(fmt.Sprintf("modeltest: %v", err)) // ReadScript has looked
	}
	if strings.HasPrefix(written, straight) {
		return straight + body
	}
	return thinking + a.Thinking + "\n</think>\n\n" + body
}

// turns are the texts of a sequence's turns, without the token that begins each.
func (m *Model) turns(tokens []int32) []string {
	var turns []string
	var b strings.Builder
	for _, id := range tokens {
		if id == m.turn {
			turns = append(turns, b.String())
			b.Reset()
			continue
		}
		b.WriteString(m.tokenizer.Text(id))
	}
	return append(turns, b.String())[1:] // nothing is before the first
}
