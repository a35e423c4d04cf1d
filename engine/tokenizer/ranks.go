package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// ranksName is the vocabulary of Kimi's folders: a line for each token, its bytes in base64 and its rank,
// which is its id. Two neighbors join where what they make is a token, the one of the lowest rank first.
const ranksName = "tiktoken.model"

// ranksReserved is how many special tokens follow those of the file, and ranksBytesMax bounds one of those.
const ranksReserved, ranksBytesMax = 256, 1 << 10

// ranksVocab reads such a file; tokenizer_config.json names the special tokens, nil without.
func ranksVocab(text, config []byte) (v Vocab, err error) {
	v = Vocab{Pre: "kimi-k2", IgnoreMerges: true, Ranked: true, BOS: -1, EOS: -1, EOT: -1, Pad: -1}
	ids := map[string]bool{}
	var tokens []string
	for line := range bytes.Lines(text) {
		token, rank, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if len(token) == 0 {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(string(token))
		n, wrong := strconv.Atoi(string(rank))
		if err != nil || wrong != nil || n != len(tokens) || len(raw) == 0 || len(raw) > ranksBytesMax || ids[string(raw)] {
			return v, fmt.Errorf("line %d is not a new token and its rank %d", len(tokens)+1, len(tokens))
		}
		if len(tokens) == tokensMax-ranksReserved {
			return v, fmt.Errorf("it has more than %d tokens", len(tokens))
		}
		tokens, ids[string(raw)] = append(tokens, string(raw)), true
	}
	for _, t := range tokens {
		v.Tokens, v.Types = append(v.Tokens, toAlphabet(t)), append(v.Types, typeNormal)
		for cut := 1; cut < len(t); cut++ {
			if ids[t[:cut]] && ids[t[cut:]] {
				v.Merges = append(v.Merges, toAlphabet(t[:cut])+" "+toAlphabet(t[cut:]))
			}
		}
	}
	return v, v.addReserved(config)
}

// addReserved adds the special tokens behind the others.
func (v *Vocab) addReserved(config []byte) error {
	var names struct {
		Added map[string]struct {
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens_decoder"`
	}
	if config != nil {
		if err := json.Unmarshal(config, &names); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	for range ranksReserved {
		id := len(v.Tokens)
		name, kind := fmt.Sprintf("<|reserved_token_%d|>", id), int32(typeControl)
		if a, ok := names.Added[strconv.Itoa(id)]; ok {
			if name = a.Content; !a.Special {
				kind = typeUserDefined
			}
		}
		v.Tokens, v.Types = append(v.Tokens, name), append(v.Types, kind)
	}
	return nil
}
