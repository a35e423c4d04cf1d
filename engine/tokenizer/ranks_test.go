package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ranksFile is a recorded vocabulary as a file has it.
func ranksFile(t *testing.T) (text string, texts []string, ids [][]int32) {
	t.Helper()
	var recorded struct {
		Tokens, Texts []string
		IDs           [][]int32
	}
	readJSON(t, "testdata/ranks.json", &recorded)
	if len(recorded.Texts) < 100 || len(recorded.IDs) != len(recorded.Texts) {
		t.Fatalf("%d texts", len(recorded.Texts))
	}
	var b strings.Builder
	for i, token := range recorded.Tokens {
		fmt.Fprintf(&b, "%s %d\n", token, i)
	}
	return b.String(), recorded.Texts, recorded.IDs
}

// TestRanks: the ids are those of the definition, for short pieces and long ones, and special tokens follow those
// of the file.
func TestRanks(t *testing.T) {
	text, texts, ids := ranksFile(t)
	config := []byte(`{"added_tokens_decoder": {"900": {"content": "[BOS]", "special": true}, "905": {"content": "<|tool|>", "special": false}}}`)
	v, err := ranksVocab([]byte(text), config)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := FromFile(openedFolder(t, "", map[string]string{ranksName: text, "tokenizer_config.json": string(config)}))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if got := folder.Encode(nil, text); !slices.Equal(got, ids[i]) {
			t.Errorf("%q is %v with the file in a folder, want %v", text, got, ids[i])
		}
		if got := tok.Encode(nil, text); !slices.Equal(got, ids[i]) {
			t.Errorf("%q is %v, want %v", text, got, ids[i])
		}
		if back := decode(tok, ids[i]); back != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("%q comes back as %q", text, back)
		}
	}
	if got := tok.EncodePrompt(nil, "[BOS]<|tool|>"); !slices.Equal(got, []int32{900, 905}) || tok.Size() != 900+ranksReserved {
		t.Errorf("special tokens are %v of %d", got, tok.Size())
	}
	if tok.Text(901) != "<|reserved_token_901|>" || len(tok.Bytes(900)) > 0 || string(tok.Bytes(905)) != "<|tool|>" {
		t.Errorf("tokens of the rest: %q, %q, %q", tok.Text(901), tok.Bytes(900), tok.Bytes(905))
	}
}

// TestRanksRefused: a file that is none is refused by its line.
func TestRanksRefused(t *testing.T) {
	most := strings.Repeat("YWFh", ranksBytesMax/3) // three bytes each, and one more behind them
	if v, err := ranksVocab([]byte("\n"+most+"YQ== 0\n\n \nYQ== 1"), nil); err != nil || len(v.Tokens) != 2+ranksReserved {
		t.Errorf("two tokens, one as long as may be: %v", err)
	}
	if _, err := ranksVocab([]byte("YQ== 0\n"), []byte(`{`)); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("a config that is none: %v", err)
	}
	for _, files := range []map[string]string{{}, {ranksName: "YQ== 1"}, {"tokenizer.json": "{"}} {
		_, err := FromFile(openedFolder(t, "", files))
		if said := fmt.Sprint(err); !strings.Contains(said, "tokenizer.json") && !strings.Contains(said, ranksName+": line 1") {
			t.Errorf("%q: %v", files, err)
		}
	}
	for text, want := range map[string]string{
		most + "YWE= 0":    "line 1",
		"YQ== 0\nYQ== 1\n": "line 2", "YQ== 1\n": "line 1", "YQ== 0\n%% 1\n": "line 2", "YQ==\n": "line 1", "YQ== 0 1\n": "line 1",
	} {
		if _, err := ranksVocab([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzRanks: no file crashes the reader, and what it takes encodes any text.
func FuzzRanks(f *testing.F) {
	f.Add([]byte("YQ== 0\nYg== 1\nYWI= 2\n"), []byte(`{"added_tokens_decoder":{"3":{"content":"x"}}}`))
	f.Add([]byte("\n\n YQ== 0"), []byte(`{`))
	f.Fuzz(func(t *testing.T, text, config []byte) {
		v, err := ranksVocab(text, config)
		if err != nil {
			return
		}
		if tok, err := New(v); err == nil {
			tok.Encode(nil, "ab\x00")
		}
	})
}

// TestSequences: a tokenizer.json of several expressions names their splitter, line ends written either way.
func TestSequences(t *testing.T) {
	for name, steps := range sequences {
		var s jsonSplit
		s.Type = "Sequence"
		for _, step := range steps {
			p := jsonSplit{Type: "Split"}
			p.Pattern.Regex = strings.ReplaceAll(step, `\r\n`, "\r\n")
			switch step {
			case "":
				p = jsonSplit{Type: "Digits", Digits: true}
			case byteLevel:
				p = jsonSplit{Type: byteLevel}
			}
			s.Parts = append(s.Parts, p)
		}
		no := false
		s.Parts = append(s.Parts, jsonSplit{Type: "ByteLevel", UseRegex: &no})
		if got, err := s.splitter(); err != nil || got != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		s.Parts = s.Parts[1:]
		if got, err := s.splitter(); err == nil && (name != "smollm" || got != "gpt-2") { // which is digits before gpt-2
			t.Errorf("%s without its first: %q", name, got)
		}
	}
}
