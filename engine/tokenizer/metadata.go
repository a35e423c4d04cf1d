package tokenizer

import (
	"fmt"
	"slices"

	"corenode/engine/modelfile"
)

// Keys of our own say what GGUF has no word for. Other readers pass them over.
const (
	ownPrefix  = "corenode.tokenizer."
	spacesKey  = ownPrefix + "spaces"        // the fields of Prefix, in their order
	mergesKey  = ownPrefix + "ignore_merges" // where it is not as the splitter's name says
	stopsKey   = ownPrefix + "stops"         // the tokens that end an answer, where they are more than GGUF has words for
	stripsKey  = ownPrefix + "strips"        // each token that strips, and 1 for left, 2 for right or 3 for both behind it
	rowlessKey = ownPrefix + "rowless"       // the names of tokens that the model has no rows for
)

// Metadata is the tokenizer of a folder in the keys of GGUF, for a model of rows rows of
// embeddings, 0 for as many as there are tokens; nothing for a file that has these keys itself.
func Metadata(f *modelfile.File, rows int) ([]modelfile.KV, error) {
	if f.Beside("config.json") == nil {
		return nil, nil
	}
	v, err := folderVocab(f)
	if err != nil {
		return nil, err
	}
	if rows > 0 && len(v.Tokens) > rows {
		return nil, fmt.Errorf("the tokenizer has %d entries, the model %d rows", len(v.Tokens), rows)
	}
	for id := len(v.Tokens); id < rows; id++ { // readers want a token for every row
		v.Tokens, v.Types = append(v.Tokens, fmt.Sprintf("[PAD%d]", id)), append(v.Types, typeUnused)
	}
	further := int32(-1)
	var more []int32
	for _, id := range v.Stops { // three is what the keys of GGUF have room for
		switch {
		case id == v.EOS || id == v.EOT || id == further:
		case v.EOT < 0:
			v.EOT = id
		case further < 0:
			further = id
		default:
			more = append(more, id)
		}
	}
	slices.Sort(more)
	v.Stops = slices.Compact(more)
	if v.Pre == "llama-bpe" && !v.IgnoreMerges { // whose readers would ignore them
		v.Pre = "glm4"
	}
	meta := []modelfile.KV{
		{Key: keyPrefix + "tokens", Value: v.Tokens}, {Key: keyPrefix + "token_type", Value: v.Types},
		{Key: keyPrefix + "add_bos_token", Value: v.AddBOS},
	}
	own := []modelfile.KV{{Key: "model", Value: "gpt2"}, {Key: "pre", Value: v.Pre}, {Key: "merges", Value: v.Merges}}
	if v.SentencePiece {
		own = []modelfile.KV{{Key: "model", Value: "llama"}, {Key: "pre", Value: "default"}, {Key: "scores", Value: v.scores()},
			{Key: "add_space_prefix", Value: v.Prefix.Space && v.Prefix.Parts}} // chats are parts
	}
	for _, kv := range own {
		meta = append(meta, modelfile.KV{Key: keyPrefix + kv.Key, Value: kv.Value})
	}
	for i, id := range []int32{v.BOS, v.EOS, v.EOT, v.Pad, further} {
		if id >= 0 {
			key := []string{"bos_token_id", "eos_token_id", "eot_token_id", "padding_token_id", "eom_token_id"}[i]
			meta = append(meta, modelfile.KV{Key: keyPrefix + key, Value: uint32(id)})
		}
	}
	return append(meta, v.own()...), nil
}

// own is what keys of our own say.
func (v *Vocab) own() (meta []modelfile.KV) {
	if p := v.Prefix; v.SentencePiece {
		meta = append(meta, modelfile.KV{Key: spacesKey, Value: []bool{p.Space, p.Parts, p.Missing, p.Between}})
	}
	if !v.SentencePiece && v.IgnoreMerges != splitters[v.Pre].ignoreMerges {
		meta = append(meta, modelfile.KV{Key: mergesKey, Value: v.IgnoreMerges})
	}
	if len(v.Stops) > 0 {
		meta = append(meta, modelfile.KV{Key: stopsKey, Value: v.Stops})
	}
	if len(v.Rowless) > 0 {
		meta = append(meta, modelfile.KV{Key: rowlessKey, Value: v.Rowless})
	}
	var strips []int32
	for _, s := range v.Strips {
		sides := int32(0)
		if s.Left {
			sides |= 1
		}
		if s.Right {
			sides |= 2
		}
		strips = append(strips, s.ID, sides)
	}
	if len(strips) > 0 {
		meta = append(meta, modelfile.KV{Key: stripsKey, Value: strips})
	}
	return meta
}

// readOwn reads these keys, which count more than those of GGUF.
func (v *Vocab) readOwn(f *modelfile.File) (err error) {
	if v.SentencePiece && f.Has(spacesKey) {
		is, err := f.Ints(spacesKey)
		if err != nil {
			return err
		}
		if len(is) != 4 {
			return fmt.Errorf("%s has %d values, want 4", spacesKey, len(is))
		}
		v.Prefix = Prefix{Space: is[0] != 0, Parts: is[1] != 0, Missing: is[2] != 0, Between: is[3] != 0}
	}
	if !v.SentencePiece && f.Has(mergesKey) {
		if v.IgnoreMerges, err = f.Bool(mergesKey); err != nil {
			return err
		}
	}
	if f.Has(stopsKey) {
		stops, err := f.Ints(stopsKey)
		if err != nil {
			return err
		}
		for _, id := range stops {
			if id < 0 || id >= int64(len(v.Tokens)) {
				return fmt.Errorf("%s has token %d, want one below %d", stopsKey, id, len(v.Tokens))
			}
			v.Stops = append(v.Stops, int32(id))
		}
	}
	if f.Has(rowlessKey) {
		if v.Rowless, err = f.Strings(rowlessKey); err != nil {
			return err
		}
	}
	if !f.Has(stripsKey) {
		return nil
	}
	strips, err := f.Ints(stripsKey)
	if err != nil {
		return err
	}
	if len(strips)%2 != 0 {
		return fmt.Errorf("%s has %d values, want pairs", stripsKey, len(strips))
	}
	for i := 0; i < len(strips); i += 2 {
		id, sides := strips[i], strips[i+1]
		if id < 0 || id >= int64(len(v.Tokens)) || sides < 1 || sides > 3 {
			return fmt.Errorf("%s has token %d with %d, want 1 to 3 and a token below %d", stripsKey, id, sides, len(v.Tokens))
		}
		v.Strips = append(v.Strips, Strip{int32(id), sides&1 != 0, sides&2 != 0})
	}
	return nil
}
