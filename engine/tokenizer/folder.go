package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"corenode/engine/modelfile"
)

// folderVocab reads the vocabulary of a folder: tokenizer.json or tiktoken.model has the tokens.
func folderVocab(f *modelfile.File) (v Vocab, err error) {
	text, ranks := f.Beside("tokenizer.json"), f.Beside(ranksName)
	switch {
	case text != nil:
		if v, err = jsonVocab(text); err != nil {
			return v, fmt.Errorf("tokenizer.json: %w", err)
		}
	case ranks != nil:
		if v, err = ranksVocab(ranks, f.Beside("tokenizer_config.json")); err != nil {
			return v, fmt.Errorf("%s: %w", ranksName, err)
		}
	default:
		return v, fmt.Errorf("the folder has neither tokenizer.json nor %s (tekken.json and tokenizer.model are not read)", ranksName)
	}
	if err := v.readBeside(f.Beside); err != nil {
		return v, err
	}
	v.cutToRows(f)
	return v, nil
}

// readBeside reads the files beside that of the tokens: they say which tokens begin and end a text.
func (v *Vocab) readBeside(beside func(name string) []byte) error {
	for _, file := range []struct {
		name string
		read func(text []byte) error
	}{
		{"config.json", v.mendTekken}, {"tokenizer_config.json", v.readNames},
		{"generation_config.json", v.readEnds}, {"config.json", v.readEnds},
	} {
		text := beside(file.name)
		if text == nil {
			text = []byte("{}")
		}
		if err := file.read(modelfile.ReadPython(text)); err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
	}
	return nil
}

// cutToRows takes away added tokens that the model has no rows for: the small models of Gemma 3 name one for images, others one
// that pads, which nothing does here. Where any is more than that, ends a text or is written by the chat template, all stay, and
// the model is refused.
func (v *Vocab) cutToRows(f *modelfile.File) {
	embed, ok := f.Tensor("token_embd.weight")
	if !ok || len(embed.Shape) != 2 || embed.Shape[1] >= len(v.Tokens) {
		return
	}
	rows := embed.Shape[1]
	template, _ := f.String("tokenizer.chat_template") // "" for none
	for id := rows; id < len(v.Tokens); id++ {
		added := v.Types[id] != typeNormal && v.Types[id] != typeByte
		if !added || strings.Contains(template, v.Tokens[id]) {
			return
		}
	}
	for _, id := range append([]int32{v.BOS, v.EOS, v.EOT}, v.Stops...) {
		if int(id) >= rows {
			return
		}
	}
	if int(v.Pad) >= rows {
		v.Pad = -1
	}
	v.Rowless = v.Tokens[rows:]
	v.Tokens, v.Types = v.Tokens[:rows:rows], v.Types[:rows]
	v.Strips = slices.DeleteFunc(v.Strips, func(s Strip) bool { return int(s.ID) >= rows })
}

// tekkenBytes is the token of the first of 256 bytes in the vocabulary of Mistral's models, which is known by their place.
const tekkenBytes = 1000

// mendTekken gives that vocabulary the splitter that it was made with where tokenizer.json has that of Llama 3, as versions of
// transformers below 5 have written it. What later ones have written is taken as it is, as they do themselves.
func (v *Vocab) mendTekken(config []byte) error {
	if v.Pre != "llama-bpe" || len(v.Tokens) < tekkenBytes+len(letters) {
		return nil
	}
	for b, r := range letters {
		if v.Tokens[tekkenBytes+b] != string(r) {
			return nil
		}
	}
	var written struct {
		Version string `json:"transformers_version"`
	}
	if err := json.Unmarshal(config, &written); err != nil {
		return err
	}
	major, _, _ := strings.Cut(written.Version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 5 {
		v.Pre = "tekken"
	}
	return nil
}

// tokenName is the name of a token, or an object with it.
type tokenName string

// UnmarshalJSON implements json.Unmarshaler.
func (n *tokenName) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var object struct{ Content string }
		err := json.Unmarshal(b, &object)
		*n = tokenName(object.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(n))
}

// readNames takes the special tokens of a tokenizer_config.json.
func (v *Vocab) readNames(text []byte) error {
	var names struct {
		BOS tokenName `json:"bos_token"`
		EOS tokenName `json:"eos_token"`
		Pad tokenName `json:"pad_token"`
		Add *bool     `json:"add_bos_token"`
	}
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	for _, special := range []struct { // often two have one name
		name tokenName
		id   *int32
	}{{names.BOS, &v.BOS}, {names.EOS, &v.EOS}, {names.Pad, &v.Pad}} {
		if at := slices.Index(v.Tokens, string(special.name)); special.name != "" && at >= 0 {
			*special.id = int32(at)
		}
	}
	if names.Add != nil {
		v.AddBOS = *names.Add
	}
	return nil
}

// tokenIDs is one id or a list of them.
type tokenIDs []int32

// UnmarshalJSON implements json.Unmarshaler.
func (ids *tokenIDs) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]int32)(ids))
	}
	var id *int32
	err := json.Unmarshal(b, &id)
	if id != nil {
		*ids = tokenIDs{*id}
	}
	return err
}

// readEnds adds the tokens that end an answer by a config.
func (v *Vocab) readEnds(text []byte) error {
	type ends struct {
		EOS tokenIDs `json:"eos_token_id"`
	}
	var config struct {
		ends
		Text ends `json:"text_config"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	for _, id := range append(config.EOS, config.Text.EOS...) {
		if id >= 0 && int(id) < len(v.Tokens) { // configs of cut models name tokens that are gone
			v.Stops = append(v.Stops, id)
		}
		if v.EOS < 0 && len(v.Stops) > 0 {
			v.EOS = v.Stops[0]
		}
	}
	return nil
}
