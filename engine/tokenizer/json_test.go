package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// asJSON writes a vocabulary as a tokenizer.json; pairs writes merges as newer files do.
func asJSON(t testing.TB, v Vocab, pairs bool) []byte {
	t.Helper()
	vocab, added := map[string]int{}, []map[string]any{}
	for id, token := range v.Tokens {
		switch v.Types[id] {
		case typeNormal:
			vocab[token] = id
		case typeControl, typeUserDefined:
			added = append(added, map[string]any{"id": id, "content": token, "special": v.Types[id] == typeControl})
		}
	}
	merges := []any{}
	for _, m := range v.Merges {
		if left, right, _ := strings.Cut(m, " "); pairs {
			merges = append(merges, []string{left, right})
		} else {
			merges = append(merges, m)
		}
	}
	text, err := json.Marshal(map[string]any{"added_tokens": added, "normalizer": map[string]any{"type": "NFC"},
		"pre_tokenizer": splitJSON(v.Pre), "model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": v.IgnoreMerges}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// splitJSON writes a splitter as the pre-tokenizer of a tokenizer.json.
func splitJSON(pre string) map[string]any {
	expressions := sequences[pre]
	for pattern, name := range patterns {
		if name == pre && name != "gpt-2" {
			expressions = []string{pattern}
		}
	}
	if expressions == nil {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	}
	var parts []map[string]any
	for _, e := range expressions {
		switch e {
		case "":
			parts = append(parts, map[string]any{"type": "Digits", "individual_digits": true})
		case byteLevel:
			parts = append(parts, map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})
			return map[string]any{"type": "Sequence", "pretokenizers": parts}
		default:
			parts = append(parts, map[string]any{"type": "Split", "pattern": map[string]any{"Regex": e}, "behavior": "Isolated"})
		}
	}
	parts = append(parts, map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})
	return map[string]any{"type": "Sequence", "pretokenizers": parts}
}

// fromJSON is the tokenizer of a tokenizer.json without a file beside it.
func fromJSON(text []byte) (*Tokenizer, error) {
	return FromJSON(text, func(string) []byte { return nil })
}

// TestFromJSON: a tokenizer.json gives the ids of the same vocabulary in a GGUF file.
func TestFromJSON(t *testing.T) {
	texts := []string{"The server's naïve <think> e\u0301\n", "<|im_start|>user\nHello, world 12345!<|im_end|>\n", "  \t\n\n x1y2  "}
	for _, pre := range []string{"qwen2", "qwen35", "llama-bpe", "gpt-2", "deepseek-v3", "deepseek-llm", "smollm"} {
		for _, pairs := range []bool{false, true} {
			v := smallVocab(t, pre)
			if len(v.Types) == 0 {
				t.Fatal("the vocabulary has no types")
			}
			tok, err := fromJSON(asJSON(t, v, pairs))
			if err != nil {
				t.Fatalf("%s: %v", pre, err)
			}
			want, err := New(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if got := tok.EncodePrompt(nil, text); !slices.Equal(got, want.EncodePrompt(nil, text)) {
					t.Errorf("%s, pairs %v: %q is %v", pre, pairs, text, got)
				}
			}
		}
	}
}

// TestRealFromJSON compares the two forms of a vocabulary that people use.
func TestRealFromJSON(t *testing.T) {
	f, err := modelfile.Open(filepath.Join(sharedVocab(t), "rebuilt-vocab-qwen2.gguf"))
	if err != nil {
		t.Skipf("no vocabulary to compare with: %v", err)
	}
	defer f.Close()
	v, err := readVocab(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Types) == 0 {
		v.Types = slices.Repeat([]int32{typeNormal}, len(v.Tokens))
	}
	tok, err := fromJSON(asJSON(t, v, true))
	if err != nil {
		t.Fatal(err)
	}
	want, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("json.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(nil, string(text)); !slices.Equal(got, want.Encode(nil, string(text))) {
		t.Error("the tokens differ")
	}
}

func TestJSONRefusals(t *testing.T) {
	for _, c := range []struct{ pre, what, from, to string }{
		{"qwen2", "model.type is", `"type":"BPE"`, `"type":"Unigram"`},
		{"qwen2", "normalizer.type", `"type":"NFC"`, `"type":"Lowercase"`},
		{"qwen2", "which is none of", `\\p{N}|`, `\\p{N}+|`},
		{"qwen2", "add_prefix_space", `"add_prefix_space":false`, `"add_prefix_space":true`},
		{"qwen2", "want Split and ByteLevel", `"type":"ByteLevel"`, `"type":"Metaspace"`},
		{"qwen2", "invalid character", `"BPE"`, `BPE`},
		{"qwen2", "are not within", `"added_tokens":[`, `"added_tokens":[{"id":2147483647,"content":"x"},`},
		{"qwen2", "token id 3 is", `"added_tokens":[`, `"added_tokens":[{"id":3,"content":"x"},`},
		{"qwen2", "token id 3 is", `"vocab":{`, `"vocab":{"two":3,`},
		{"qwen2", "token id -1 is", `"vocab":{`, `"vocab":{"two":-1,`},
		{"qwen2", "tokens have ids up to 100000", `"vocab":{`, `"vocab":{"two":100000,`},
		{"qwen2", "cannot unmarshal", `"merges":["`, `"merges":[5,"`},
		{"gpt-2", "does not say how", `"use_regex":true`, `"use_regex":false`},
		{"smollm", `the type "Digits"`, `"individual_digits":true`, `"individual_digits":false`},
		{"deepseek-v3", "which is none of", `"use_regex":false`, `"use_regex":true`},
		{"deepseek-v3", "which is none of", `"type":"ByteLevel"`, `"type":"Metaspace"`},
		{"deepseek-v3", "which is none of", `"add_prefix_space":false`, `"add_prefix_space":true`},
	} {
		good := string(asJSON(t, smallVocab(t, c.pre), false))
		changed := strings.Replace(good, c.from, c.to, 1)
		if changed == good {
			t.Errorf("%s: nothing was changed", c.what)
		}
		if _, err := fromJSON([]byte(changed)); err == nil || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s with %q: %v, want an error that says %q", c.pre, c.to, err, c.what)
		}
	}
}

// TestFilesBesideRefused: a file beside a tokenizer.json that cannot be read is no file without a word.
func TestFilesBesideRefused(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer_config.json", "generation_config.json"} {
		_, err := FromJSON(asJSON(t, smallVocab(t, "qwen2"), false), func(of string) []byte {
			if of == name {
				return []byte("{")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withAdded is a tokenizer.json whose token 511 has more fields.
func withAdded(t *testing.T, fields string) []byte {
	t.Helper()
	v := smallVocab(t, "qwen2")
	text := string(asJSON(t, v, false))
	name, _ := json.Marshal(v.Tokens[511])
	at := strings.Index(text, `"content":`+string(name))
	if at < 0 {
		t.Fatalf("there is no token %s", name)
	}
	return []byte(text[:at] + fields + "," + text[at:])
}

// TestStrips: a token takes away the white space that it says, and no other does, also after a conversion.
func TestStrips(t *testing.T) {
	name := smallVocab(t, "qwen2").Tokens[511]
	for fields, want := range map[string]string{
		`"lstrip":false,"rstrip":false`: "a \n" + name + " \u00a0b",
		`"lstrip":true`:                 "a" + name + " \u00a0b",
		`"rstrip":true`:                 "a \n" + name + "b",
		`"lstrip":true,"rstrip":true`:   "a" + name + "b",
	} {
		text := withAdded(t, fields)
		tok, err := fromJSON(text)
		again, err2 := FromFile(converted(t, text))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		ids := tok.EncodePrompt(nil, "a \n"+name+" \u00a0b")
		var got strings.Builder
		for _, id := range ids {
			got.WriteString(tok.Text(id))
		}
		if got.String() != want {
			t.Errorf("%s: %q, want %q", fields, &got, want)
		}
		if got := again.EncodePrompt(nil, "a \n"+name+" \u00a0b"); !slices.Equal(got, ids) {
			t.Errorf("%s: converted it is %v, want %v", fields, got, ids)
		}
	}
	if _, err := fromJSON(withAdded(t, `"single_word":true`)); err == nil || !strings.Contains(err.Error(), "single_word") {
		t.Errorf("single_word: %v", err)
	}
}

// TestMergesOfTheFile: whether merges count for a piece that is a token is what the file says,
// whatever splitter it has, also after a conversion.
func TestMergesOfTheFile(t *testing.T) {
	for _, pre := range []string{"qwen2", "tekken", "llama-bpe"} {
		for _, ignore := range []bool{false, true} {
			v := smallVocab(t, pre)
			v.Tokens[300], v.IgnoreMerges = "zqzq", ignore
			v.Merges = slices.DeleteFunc(v.Merges, func(m string) bool { return !strings.Contains("zqzq", strings.ReplaceAll(m, " ", "")) })
			text := asJSON(t, v, false)
			tok, err := fromJSON(text)
			again, err2 := FromFile(converted(t, text))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if got := tok.Encode(nil, "zqzq"); (len(got) == 1) != ignore {
				t.Errorf("%s, ignore_merges %v: %v", pre, ignore, got)
			}
			if got := again.Encode(nil, "zqzq"); (len(got) == 1) != ignore {
				t.Errorf("%s, ignore_merges %v: converted it is %v", pre, ignore, got)
			}
		}
	}
}

// TestStopsConverted: all tokens that end an answer end it after a conversion too, however many they are.
func TestStopsConverted(t *testing.T) {
	for _, ids := range [][]int32{{7}, {7, 7}, {7, 9, 8, 6, 5, 6, 7}} { // beside <|im_end|> and <|eot_id|>
		ends, _ := json.Marshal(ids)
		f := convertedFolder(t, map[string]string{"tokenizer.json": string(asJSON(t, smallVocab(t, "qwen2"), false)),
			"generation_config.json": `{"eos_token_id":` + string(ends) + `}`})
		tok, err := FromFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if !slices.Contains(tok.Stops(), id) {
				t.Errorf("of %v, answers end with %v once converted", ids, tok.Stops())
			}
		}
		if own, _ := f.Ints(stopsKey); len(own) > 0 && !slices.Equal(own, []int64{5, 6, 8, 9}) {
			t.Errorf("of %v, a key of our own has %v, want those that no other has, each once", ids, own)
		}
		if more := len(ids) > 2; f.Has(stopsKey) != more {
			t.Errorf("of %v, a key of our own is there: %v, want %v", ids, !more, more)
		}
	}
}

// TestNormalizers: a sequence of normalizers is what its parts are, which may be none, as in the files of DeepSeek.
func TestNormalizers(t *testing.T) {
	const text = "The server's naïve <think> 12345 e\u0301\n"
	for _, pre := range []string{"deepseek-v3", "deepseek-llm", "qwen2"} {
		whole, want := string(asJSON(t, smallVocab(t, pre), false)), small(t, pre).Encode(nil, text)
		for normalizer, is := range map[string]bool{`null`: true, `{"type":"Sequence","normalizers":[]}`: true,
			`{"type":"Sequence","normalizers":[{"type":"NFC"}]}`:                      true,
			`{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`: false} {
			tok, err := fromJSON([]byte(strings.Replace(whole, `{"type":"NFC"}`, normalizer, 1)))
			if is != (err == nil) || err != nil && !strings.Contains(err.Error(), `normalizer.type is "Lowercase"`) {
				t.Errorf("%s with %s: %v", pre, normalizer, err)
			} else if is && !slices.Equal(tok.Encode(nil, text), want) {
				t.Errorf("%s with %s: %v, want %v", pre, normalizer, tok.Encode(nil, text), want)
			}
		}
	}
}

// TestSharedNames: one token may begin, end and fill up texts, of a folder and once it is converted.
func TestSharedNames(t *testing.T) {
	v := smallVocab(t, "qwen2")
	for _, ids := range [][3]int32{{509, 510, 510}, {510, 510, 509}, {510, 509, 510}, {510, 510, 510}} { // as they are named below
		names := map[string]string{}
		for i, what := range []string{"bos_token", "eos_token", "pad_token"} {
			names[what] = v.Tokens[ids[i]]
		}
		config, _ := json.Marshal(names)
		f := convertedFolder(t, map[string]string{"tokenizer.json": string(asJSON(t, v, false)), "tokenizer_config.json": string(config)})
		for i, what := range []string{"bos", "eos", "padding"} {
			if id, err := readID(f, keyPrefix+what+"_token_id"); err != nil || id != ids[i] {
				t.Errorf("%v: the %s token is %d, %v", ids, what, id, err)
			}
		}
	}
}

// TestFolderTexts: which tokens begin and end a text is what the files beside the tokens say, where there are such tokens.
func TestFolderTexts(t *testing.T) {
	for _, c := range []struct {
		names, ends   string
		bos, eos, pad int32
		add           bool
		stops         []int32
	}{
		{`{}`, `{}`, -1, 511, 509, true, nil},
		{`{"bos_token":{"content":"<|im_start|>"},"eos_token":null,"pad_token":"nothing"}`, `{"eos_token_id":null}`, 510, 511, 509, true, nil},
		{`{"eos_token":"","pad_token":"<|im_start|>","add_bos_token":null}`, `{"eos_token_id":7}`, -1, 511, 510, true, []int32{7}},
		{`{"eos_token":"<think>","add_bos_token":false}`, `{"eos_token_id":[7,-1,518,517],"text_config":{"eos_token_id":9}}`, -1, 512, 509, false, []int32{7, 517, 9}},
	} {
		v := smallVocab(t, "qwen2")
		v.AddBOS = true
		if err := errors.Join(v.readNames([]byte(c.names)), v.readEnds([]byte(c.ends))); err != nil {
			t.Fatal(err)
		}
		if v.BOS != c.bos || v.EOS != c.eos || v.Pad != c.pad || v.AddBOS != c.add || !slices.Equal(v.Stops, c.stops) {
			t.Errorf("%s and %s: %d, %d, %d, %v, %v", c.names, c.ends, v.BOS, v.EOS, v.Pad, v.AddBOS, v.Stops)
		}
		if v.EOS = -1; v.readEnds([]byte(c.ends)) != nil || v.EOS != append(c.stops, -1)[0] {
			t.Errorf("%s: without another end the first one is %d", c.ends, v.EOS)
		}
	}
	var v Vocab
	for _, wrong := range []string{`{"bos_token":5}`, `{"eos_token":{"content":5}}`, `{`} {
		if v.readNames([]byte(wrong)) == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
	for _, wrong := range []string{`{"eos_token_id":"a"}`, `{"eos_token_id":["a"]}`, `{`} {
		if v.readEnds([]byte(wrong)) == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}

// TestFirstToken: the post-processor says which token stands before every text.
func TestFirstToken(t *testing.T) {
	name, _ := json.Marshal(smallVocab(t, "qwen2").Tokens[510])
	text := string(asJSON(t, smallVocab(t, "qwen2"), false))
	template := `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":` + string(name) + `,"type_id":0}},{"Sequence":{"id":"A"}}]}`
	for post, want := range map[string]bool{`null`: false, template: true, `{"type":"Sequence","processors":[{"type":"ByteLevel"},` + template + `]}`: true,
		`{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}]}`: false} {
		tok, err := fromJSON([]byte(`{"post_processor":` + post + "," + text[1:]))
		if err != nil {
			t.Fatal(err)
		}
		again, err := FromFile(converted(t, []byte(`{"post_processor":`+post+","+text[1:])))
		if err != nil {
			t.Fatal(err)
		}
		for _, tok := range []*Tokenizer{tok, again} {
			if id, add := tok.BOS(); add != want || want && id != 510 {
				t.Errorf("%s: %d, %v", post, id, add)
			}
		}
	}
}

// FuzzFromJSON: no tokenizer.json makes the reader fail other than by an error, and what it
// makes encodes any text.
func FuzzFromJSON(f *testing.F) {
	v := smallVocab(f, "qwen2")
	f.Add(asJSON(f, v, false))
	f.Add(asJSON(f, v, true))
	r := recordedSentences(f, "small.json")
	sentences, err := json.Marshal(r.JSON)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sentences)
	f.Add([]byte(`{"added_tokens":[{"id":3,"content":"x","lstrip":true}],"model":{"type":"BPE","vocab":{"a":1},"merges":["a b"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var tok *Tokenizer
		var err error
		if took := gguftest.Allocated(func() { tok, err = fromJSON(text) }); took > 8<<20+400*len(text) {
			t.Fatalf("%d bytes taken to read %d", took, len(text))
		}
		if err != nil {
			return
		}
		if tok.Size() > len(text)+unusedMax {
			t.Fatalf("%d tokens from %d bytes", tok.Size(), len(text))
		}
		_ = tok.EncodePrompt(nil, "Hello, <|im_end|> world\n\n 12")
	})
}

// FuzzFolderTexts: no tokenizer_config.json and no config makes the reader fail other than by an
// error or take more than a multiple of them, and the tokens that they name exist.
func FuzzFolderTexts(f *testing.F) {
	f.Add([]byte(`{"bos_token": "a", "eos_token": {"content": "<|im_end|>"}, "pad_token": null, "add_bos_token": true}`), []byte(`{"eos_token_id": [1, 510]}`))
	f.Add([]byte(`{}`), []byte(`{"eos_token_id": 3, "text_config": {"eos_token_id": -1}}`))
	whole := smallVocab(f, "qwen2")
	f.Fuzz(func(t *testing.T, names, ends []byte) {
		v := whole
		v.Stops = nil
		n := len(names) + len(ends)
		if took := gguftest.Allocated(func() { _ = errors.Join(v.readNames(names), v.readEnds(ends)) }); took > 1<<16+100*n {
			t.Fatalf("%d bytes taken to read %d", took, n)
		}
		for _, id := range append([]int32{v.BOS, v.EOS, v.Pad}, v.Stops...) {
			if id < -1 || int(id) >= len(v.Tokens) {
				t.Fatalf("token %d of %d", id, len(v.Tokens))
			}
		}
	})
}
