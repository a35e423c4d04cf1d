package gpu

import (
	"strconv"

	"corenode/engine/modelfile"
)

// Tokens of a vocabulary for texts: each byte is one, and a prompt has no others. What ends an answer is behind them.
const (
	byteTokens    = 256
	vocabularyMin = byteTokens + 2
	typeOfControl = 3
	chatTemplate  = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
)

// vocabulary are the keys of a model file that turn text into tokens and back. Nothing is merged, so that
// a prompt has as many tokens as bytes. All other tokens are words of their own, and answers have nothing else.
func (s Shape) vocabulary() []modelfile.KV {
	tokens, types := make([]string, s.Vocabulary), make([]int32, s.Vocabulary)
	other := rune(byteTokens)
	for i := range tokens {
		types[i] = 1
		switch {
		case i < byteTokens && printable(i):
			tokens[i] = string(rune(i))
		case i < byteTokens:
			tokens[i], other = string(other), other+1
		case i == byteTokens:
			tokens[i], types[i] = "<|endoftext|>", typeOfControl
		default:
			tokens[i] = "\u0120w" + strconv.FormatInt(int64(i), 36) // a space, and a word
		}
	}
	const prefix = "tokenizer.ggml."
	return []modelfile.KV{
		{Key: prefix + "model", Value: "gpt2"}, {Key: prefix + "pre", Value: "gpt-2"},
		{Key: prefix + "tokens", Value: tokens}, {Key: prefix + "token_type", Value: types},
		{Key: prefix + "merges", Value: []string{}}, {Key: prefix + "eos_token_id", Value: uint32(byteTokens)},
		{Key: "tokenizer.chat_template", Value: chatTemplate},
	}
}

// printable says whether byte-level BPE writes a byte as the character of its number; the others are from 256 on.
func printable(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
