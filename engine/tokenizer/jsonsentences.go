package tokenizer

import (
	"fmt"
	"strings"
)

// jsonNormalizer is a change of texts before they are split, or a sequence of them.
type jsonNormalizer struct {
	Type    string `json:"type"`
	Prepend string `json:"prepend"`
	Pattern struct {
		String string `json:"String"`
	} `json:"pattern"`
	Content string           `json:"content"`
	Parts   []jsonNormalizer `json:"normalizers"`
}

// parts are the changes one after the other.
func (n *jsonNormalizer) parts() []jsonNormalizer {
	switch {
	case n == nil:
		return nil
	case n.Type == "Sequence":
		return n.Parts
	}
	return []jsonNormalizer{*n}
}

// sentences takes over a tokenizer.json with the BPE of SentencePiece: characters that are no
// token fall to bytes, and spaces become U+2581, by a normalizer or by a pre-tokenizer.
func (f *jsonFile) sentences(v *Vocab) error {
	v.SentencePiece = true
	if f.Model.IgnoreMerges {
		return fmt.Errorf("model.ignore_merges is not supported with model.byte_fallback")
	}
	marks := false // spaces
	for _, p := range f.Normalizer.parts() {
		switch {
		case p.Type == "Prepend" && p.Prepend == spaceMark:
			v.Prefix = Prefix{Space: true, Parts: true, Between: true}
		case p.Type == "Replace" && p.Pattern.String == " " && p.Content == spaceMark:
			marks = true
		default:
			return fmt.Errorf("normalizer has the type %q, want Prepend of U+2581 and Replace of spaces by it", p.Type)
		}
	}
	switch p := f.PreTokenizer; {
	case p.Type == "Metaspace" && p.Replacement == spaceMark && p.Split != nil && !*p.Split && v.Prefix == Prefix{}:
		marks = true
		v.Prefix = Prefix{Space: p.Scheme != "never", Parts: p.Scheme == "always", Missing: true, Between: true}
	case p.Type == "Split" && p.Pattern.String == " " && marks: // there is none any more
	case p.Type != "":
		return fmt.Errorf("pre_tokenizer has the type %q, want Metaspace that does not split", p.Type)
	}
	if !marks {
		return fmt.Errorf("neither normalizer nor pre_tokenizer says that spaces are U+2581")
	}
	return nil
}

// asSentences gives the tokens of bytes their type, and finds the tokens that are looked for in
// texts as they are written: those with U+2581 are made by merges only.
func (f *jsonFile) asSentences(v *Vocab) {
	for id, token := range v.Tokens {
		if len(token) == len("<0x00>") && len(byteToken(nil, token)) == 1 && v.Types[id] == typeNormal {
			v.Types[id] = typeByte
		}
	}
	for _, a := range f.Added {
		if _, merged := f.Model.Vocab[a.Content]; merged && !a.Special && !a.Normalized && strings.Contains(a.Content, spaceMark) {
			v.Types[a.ID] = typeNormal
		}
	}
}

// scores are what a GGUF file says in place of merges: minus the rank of the first merge that
// makes a token.
func (v *Vocab) scores() []float32 {
	if len(v.Scores) > 0 {
		return v.Scores
	}
	scores, ids := make([]float32, len(v.Tokens)), make(map[string]int, len(v.Tokens))
	for id, token := range v.Tokens {
		ids[token] = id
	}
	for rank, merge := range v.Merges {
		left, right, _ := strings.Cut(merge, " ")
		if id, ok := ids[left+right]; ok && scores[id] == 0 {
			scores[id] = -float32(rank + 1)
		}
	}
	return scores
}
