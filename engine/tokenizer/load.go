package tokenizer

import (
	"cmp"
	"fmt"

	"corenode/engine/modelfile"
)

const keyPrefix = "tokenizer.ggml."

// FromFile builds the tokenizer of a model: of a folder its own files describe it, of a GGUF file its metadata.
func FromFile(f *modelfile.File) (*Tokenizer, error) {
	v, err := readVocab(f)
	if err != nil {
		return nil, err
	}
	return New(v)
}

func readVocab(f *modelfile.File) (v Vocab, err error) {
	if f.Beside("config.json") != nil {
		return folderVocab(f)
	}
	model, err := f.String(keyPrefix + "model")
	if err != nil {
		return v, err
	}
	switch model {
	case "gpt2":
		err = v.readBytes(f)
	case "llama":
		err = v.readSentences(f)
	default:
		err = fmt.Errorf("%smodel is %q, only byte-level BPE (gpt2) and SentencePiece (llama) are supported", keyPrefix, model)
	}
	if err != nil {
		return v, err
	}
	if v.Tokens, err = f.Strings(keyPrefix + "tokens"); err != nil {
		return v, err
	}
	if v.Types, err = readTypes(f); err != nil {
		return v, err
	}
	for _, special := range []struct {
		key string
		id  *int32
	}{{"bos_token_id", &v.BOS}, {"eos_token_id", &v.EOS}, {"eot_token_id", &v.EOT}, {"padding_token_id", &v.Pad}} {
		if *special.id, err = readID(f, keyPrefix+special.key); err != nil {
			return v, err
		}
	}
	if id, err := readID(f, keyPrefix+"eom_token_id"); err != nil {
		return v, err
	} else if id >= 0 {
		v.Stops = append(v.Stops, id)
	}
	if f.Has(keyPrefix + "add_bos_token") {
		if v.AddBOS, err = f.Bool(keyPrefix + "add_bos_token"); err != nil {
			return v, err
		}
	}
	return v, v.readOwn(f)
}

// readBytes reads what only byte-level BPE has.
func (v *Vocab) readBytes(f *modelfile.File) (err error) {
	if v.Pre, err = f.String(keyPrefix + "pre"); err != nil {
		return err
	}
	v.Pre = cmp.Or(otherNames[v.Pre], v.Pre)
	s, ok := splitters[v.Pre]
	if !ok { // before reading megabytes for nothing
		return fmt.Errorf("%spre is %q, want one of %q", keyPrefix, v.Pre, splitterNames())
	}
	v.AddBOS, v.IgnoreMerges = s.addBOS, s.ignoreMerges
	v.Merges, err = f.Strings(keyPrefix + "merges")
	return err
}

// readSentences reads what only SentencePiece has. Without the keys a text begins with BOS and
// a space, as each of its parts does.
func (v *Vocab) readSentences(f *modelfile.File) (err error) {
	v.SentencePiece, v.AddBOS = true, true
	space := true
	if f.Has(keyPrefix + "add_space_prefix") {
		space, err = f.Bool(keyPrefix + "add_space_prefix")
	}
	v.Prefix = Prefix{Space: space, Parts: space}
	if err == nil {
		v.Scores, err = f.Floats(keyPrefix + "scores")
	}
	return err
}

func readTypes(f *modelfile.File) ([]int32, error) {
	const key = keyPrefix + "token_type"
	if !f.Has(key) {
		return nil, nil
	}
	list, err := f.Ints(key)
	if err != nil {
		return nil, err
	}
	types := make([]int32, len(list))
	for i, n := range list {
		if n < 0 || n > typeByte { // before narrowing could hide it
			return nil, fmt.Errorf("%s of token %d is %d, want 0 to %d", key, i, n, typeByte)
		}
		types[i] = int32(n)
	}
	return types, nil
}

// readID reads an optional token id, -1 when absent. Some converters write
// 2^32-1 for "none".
func readID(f *modelfile.File, key string) (int32, error) {
	if !f.Has(key) {
		return -1, nil
	}
	ids, err := f.Ints(key)
	if err != nil {
		return -1, err
	}
	if len(ids) != 1 {
		return -1, fmt.Errorf("%s has %d values, want one", key, len(ids))
	}
	switch id := ids[0]; {
	case id == -1 || id == 1<<32-1:
		return -1, nil
	case id < 0 || id >= tokensMax:
		return -1, fmt.Errorf("%s is %d, no token has that id", key, id)
	default:
		return int32(id), nil
	}
}
