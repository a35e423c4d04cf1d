package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Words that end where their case says so: see nextCased.
const (
	casedLower = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	casedUpper = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	casedRest  = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	ending     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
)

// patterns are the regular expressions of the splitters, as tokenizer.json files write them.
// The four contractions of llama-bpe are those of qwen2. Its pieces are those of glm4.
var patterns = map[string]string{
	casedLower + "|" + casedUpper + `|\p{N}` + casedRest:                                                                         "tekken",
	casedLower + ending + "|" + casedUpper + ending + `|\p{N}{1,3}` + casedRest:                                                  "gpt-4o",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:             "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen35",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:        "llama-bpe",
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                                 "gpt-2",
}

// byteLevel is the type of a pre-tokenizer that writes bytes in their alphabet, and splits as gpt-2 does unless it says no.
const byteLevel = "ByteLevel"

// sequences are splitters that are several expressions, one after the other, each by how it begins. "" is digits one
// by one, byteLevel one that splits.
var sequences = map[string][]string{
	"deepseek-v3": {`\p{N}{1,3}`, "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
			"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
	"smollm":       {"", byteLevel},
	"deepseek-llm": {`[\r\n]`, `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳ`, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`, "[一-龥\u0800-一가-\ud7ff]+", ""},
}

// lineEnds are written as themselves or as escapes.
var lineEnds = strings.NewReplacer("\r", `\r`, "\n", `\n`)

// sequence names the splitter of several expressions, "" for none.
func (s jsonSplit) sequence() string {
	parts := s.Parts
	if n := len(parts) - 1; n > 0 && parts[n].Type == byteLevel && !parts[n].AddPrefixSpace && !parts[n].splits() {
		parts = parts[:n]
	}
	for name, want := range sequences {
		same := len(parts) == len(want)
		for i := 0; same && i < len(parts); i++ {
			same = parts[i].is(want[i])
		}
		if same {
			return name
		}
	}
	return ""
}

// is says whether a part of a sequence is the one that sequences has as begins.
func (s jsonSplit) is(begins string) bool {
	switch begins {
	case "":
		return s.Type == "Digits" && s.Digits
	case byteLevel:
		return s.Type == byteLevel && !s.AddPrefixSpace && s.splits()
	}
	return s.Type == "Split" && strings.HasPrefix(lineEnds.Replace(s.Pattern.Regex), begins)
}

// splits says whether a byteLevel splits.
func (s jsonSplit) splits() bool { return s.UseRegex == nil || *s.UseRegex }

// jsonFile is the part of a tokenizer.json that counts here. Source: the serialization of
// the library that writes it, huggingface/tokenizers.
type jsonFile struct {
	Added         []jsonAdded     `json:"added_tokens"`
	Normalizer    *jsonNormalizer `json:"normalizer"`
	PreTokenizer  jsonSplit       `json:"pre_tokenizer"`
	PostProcessor jsonPost        `json:"post_processor"`
	Model         struct {
		Type         string           `json:"type"`
		Vocab        map[string]int32 `json:"vocab"`
		Merges       []jsonMerge      `json:"merges"`
		ByteFallback bool             `json:"byte_fallback"`
		IgnoreMerges bool             `json:"ignore_merges"`
	} `json:"model"`
}

// jsonAdded is a token that is cut out of the text before it is split.
type jsonAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// jsonPost says which tokens stand around every text; of those only a first one counts.
type jsonPost struct {
	Type   string `json:"type"`
	Single []struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
	Parts []jsonPost `json:"processors"`
}

// first is the name of the token that every text begins with, "" for none.
func (p jsonPost) first() string {
	if len(p.Single) > 0 && p.Single[0].Special != nil {
		return p.Single[0].Special.ID
	}
	for _, part := range p.Parts {
		if name := part.first(); name != "" {
			return name
		}
	}
	return ""
}

// jsonSplit is a pre-tokenizer, or a sequence of them.
type jsonSplit struct {
	Type    string `json:"type"`
	Pattern struct {
		Regex  string `json:"Regex"`
		String string `json:"String"`
	} `json:"pattern"`
	Replacement    string      `json:"replacement"` // of a Metaspace, as the next two
	Scheme         string      `json:"prepend_scheme"`
	Split          *bool       `json:"split"`
	UseRegex       *bool       `json:"use_regex"`
	Digits         bool        `json:"individual_digits"`
	AddPrefixSpace bool        `json:"add_prefix_space"`
	Parts          []jsonSplit `json:"pretokenizers"`
}

// jsonMerge is "left right", or a pair of both in newer files.
type jsonMerge string

// UnmarshalJSON implements json.Unmarshaler.
func (m *jsonMerge) UnmarshalJSON(b []byte) error {
	var pair [2]string
	if len(b) > 0 && b[0] == '[' {
		err := json.Unmarshal(b, &pair)
		*m = jsonMerge(pair[0] + " " + pair[1])
		return err
	}
	return json.Unmarshal(b, (*string)(m))
}

// FromJSON builds the tokenizer of a tokenizer.json: byte-level BPE with a splitter that is
// known here, or SentencePiece. What the file has and this package does not do is an error. beside gives a file of its folder,
// nil for one that is not there: some say which tokens begin and end a text.
func FromJSON(text []byte, beside func(name string) []byte) (*Tokenizer, error) {
	v, err := jsonVocab(text)
	if err != nil {
		return nil, err
	}
	if err := v.readBeside(beside); err != nil {
		return nil, err
	}
	return New(v)
}

func jsonVocab(text []byte) (v Vocab, err error) {
	var f jsonFile
	if err := json.Unmarshal(text, &f); err != nil {
		return v, err
	}
	switch {
	case f.Model.Type != "BPE":
		return v, fmt.Errorf("model.type is %q, only BPE is supported", f.Model.Type)
	case f.Model.ByteFallback:
		err = f.sentences(&v)
	default:
		err = f.pieces(&v)
	}
	if err != nil {
		return v, err
	}
	v.IgnoreMerges, v.Pad = f.Model.IgnoreMerges, -1
	if v.Tokens, v.Types, err = f.tokens(); err != nil {
		return v, err
	}
	if v.SentencePiece {
		f.asSentences(&v)
	}
	for _, m := range f.Model.Merges {
		v.Merges = append(v.Merges, string(m))
	}
	for name, id := range map[string]*int32{"<|begin_of_text|>": &v.BOS, "<|im_end|>": &v.EOS, "<|eot_id|>": &v.EOT} {
		*id = int32(slices.Index(v.Tokens, name))
	}
	if name := f.PostProcessor.first(); name != "" {
		v.BOS, v.AddBOS = int32(slices.Index(v.Tokens, name)), true
	}
	return v, f.strips(&v)
}

// pieces takes over a tokenizer.json with byte-level BPE.
func (f *jsonFile) pieces(v *Vocab) (err error) {
	for _, p := range f.Normalizer.parts() {
		if p.Type != "NFC" { // texts are mostly in that form; vocab files of GGUF leave it out too
			return fmt.Errorf("normalizer.type is %q, only NFC is supported", p.Type)
		}
	}
	v.Pre, err = f.PreTokenizer.splitter()
	return err
}

// strips reads what added tokens do with the text around them. Whether they are looked for
// before or after the text is normalized changes nothing: no text is.
func (f *jsonFile) strips(v *Vocab) error {
	for _, a := range f.Added {
		if a.SingleWord {
			return fmt.Errorf("added token %q has single_word, which is not supported", a.Content)
		}
		if a.LStrip || a.RStrip {
			v.Strips = append(v.Strips, Strip{a.ID, a.LStrip, a.RStrip})
		}
	}
	return nil
}

// splitter names the splitter of a pre-tokenizer.
func (s jsonSplit) splitter() (string, error) {
	parts := s.Parts
	if s.Type != "Sequence" {
		parts = []jsonSplit{s}
	}
	name := s.sequence()
	if name != "" {
		return name, nil
	}
	for _, p := range parts {
		switch {
		case p.Type == "Split" && patterns[p.Pattern.Regex] != "" && name == "":
			name = patterns[p.Pattern.Regex]
		case p.Type == "Split":
			return "", fmt.Errorf("pre_tokenizer splits by %q, which is none of those supported", p.Pattern.Regex)
		case p.Type == byteLevel && p.AddPrefixSpace:
			return "", fmt.Errorf("pre_tokenizer.add_prefix_space is not supported")
		case p.Type == byteLevel && name == "" && p.splits():
			name = "gpt-2"
		case p.Type != byteLevel:
			return "", fmt.Errorf("pre_tokenizer has the type %q, want Split and ByteLevel", p.Type)
		}
	}
	if name == "" {
		return "", fmt.Errorf("pre_tokenizer does not say how text is split")
	}
	return name, nil
}

// unusedMax bounds the ids without a token, beside as many as there are tokens.
const unusedMax = 4096

// tokens lists the tokens by id with their types. Ids that no token has fill up the list.
func (f *jsonFile) tokens() (tokens []string, types []int32, err error) {
	n := int32(0)
	for _, id := range f.Model.Vocab {
		n = max(n, min(id, tokensMax)+1)
	}
	for _, a := range f.Added {
		n = max(n, min(a.ID, tokensMax)+1)
	}
	if n <= 0 || n > tokensMax {
		return nil, nil, fmt.Errorf("the token ids are not within 0 to %d", tokensMax-1)
	}
	if have := len(f.Model.Vocab) + len(f.Added); int(n) > 2*have+unusedMax {
		return nil, nil, fmt.Errorf("%d tokens have ids up to %d", have, n-1)
	}
	tokens, types = make([]string, n), make([]int32, n)
	put := func(id int32, text string, kind int32) error {
		if id < 0 || tokens[id] != "" && tokens[id] != text {
			return fmt.Errorf("token id %d is %q and %q", id, tokens[max(0, id)], text)
		}
		tokens[id], types[id] = text, kind
		return nil
	}
	for i := range types {
		types[i] = typeUnused
	}
	for text, id := range f.Model.Vocab {
		if err := put(id, text, typeNormal); err != nil {
			return nil, nil, err
		}
	}
	for _, a := range f.Added {
		kind := int32(typeUserDefined)
		if a.Special {
			kind = typeControl
		}
		if err := put(a.ID, a.Content, kind); err != nil {
			return nil, nil, err
		}
	}
	for i := range tokens {
		if types[i] == typeUnused {
			tokens[i] = fmt.Sprintf("[unused %d]", i)
		}
	}
	return tokens, types, nil
}
